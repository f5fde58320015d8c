"""What a prefix tree must have: what a request computed, from its end on (R7), until something wants room (R6).

Judged where the world's notes say that ``finished`` is ``cached``, by the tree's nodes, of the operations ``finish``,
``process``, ``probe`` and ``round``: what they evict they evict before a request checks in, or not at all. Who computes
(``add``, ``run``) evicts nothing where as many pages are free as that takes, and one more for each pass. What the turns
of a conversation (``turn``) compute is the conversation's.
"""

import math
from collections.abc import Iterator

from ..ghost import Ghost
from ..record import Step, World
from ..violation import Violation, of_request
from .tree_nodes import contents_of

__all__ = ["CheckInOracle"]


class CheckInOracle:
    """Compares the prefixes that the tree has with those that it had, and with what has just ended."""

    def __init__(self, world: World) -> None:
        self._is_told = world.notes.get("finished") == "cached"
        self._page = world.groups[0].block
        self._copies_states = any(group.kind == "mamba" for group in world.groups)
        """A request that goes on leaves a copy of its state in the tree, for which something may have to go."""
        # SGLang checks a request of windows alone in up to where its prompt branches off, if it ends at once.
        kinds = {group.kind for group in world.groups}
        self._ends = {"finish", "process"} | ({"round"} if "mamba" in kinds or "window" not in kinds else set())
        """The operations in which a request's end is its check-in."""
        self._there: set[int] = set()
        """The prefixes of the last state, one for each token on the device."""
        self._device, self._is_alone = next(iter(world.tiers)), len(world.groups) == 1
        self._room = 0
        """Pages that were free in the last state."""
        self._turns: set[str] = set()
        """The requests that are turns of a conversation."""

    def step(self, step: Step, ghost: Ghost) -> Iterator[Violation]:
        """Yield what is not there, and should be."""
        if step.op == "turn":
            self._turns |= {effect[1] for effect in step.effects if effect[0] == "request"}
        tree = step.state.tree if self._is_told and step.state is not None else None
        if tree is None or tree.nodes is None:
            return
        contents = contents_of(tree.nodes, ghost)
        there = {prefix for node, of_node in zip(tree.nodes, contents, strict=True) if node.slots for prefix in of_node}
        before, self._there = self._there, there
        room, self._room = self._room, len(step.state.pools[self._device].free or ()) if step.state else 0
        if step.error is not None or step.skipped:
            return
        processed = {effect[1]: effect[2] for effect in step.effects if effect[0] == "processed"}
        if self._copies_states and len(processed) > 1:
            return
        if step.op in self._ends:
            finished = {effect[1] for effect in step.effects if effect[0] == "end" and effect[2:] == ["finished"]}
            given = {effect[1]: len(effect[5]) + len(effect[6]) - 1 for effect in step.effects if effect[0] == "output"}
            ended = [r for r in processed if r in finished - self._turns]
            # Of drafts more may have been verified than the client gets; what it got last need not be computed.
            yield from self._lost({r: min(processed[r], given.get(r, math.inf)) for r in ended}, there, ghost)
        if step.op in ("process", "probe") and not self._copies_states and not before <= there:
            text = f"{step.op} takes {len(before - there)} tokens out of the tree, and wants no room"
            yield Violation("R6", "evicted for nothing", text, (step.op,))
        if step.op in ("add", "run") and self._is_alone and not before <= there:
            passes = [len(effect[3]) for effect in step.effects if effect[0] == "compute"]
            if room >= sum(1 - (-tokens // self._page) for tokens in passes):
                text = f"{step.op} takes {len(before - there)} tokens out of the tree, with {room} pages free for "
                text += f"{sum(passes)} tokens"
                yield Violation("R6", "evicted for nothing", text, (step.op,))

    def _lost(self, ended: dict[str, float], there: set[int], ghost: Ghost) -> Iterator[Violation]:
        for r, computed in ended.items():
            whole = int(computed) // self._page * self._page
            if whole and ghost.requests[r].line[whole] not in there:
                text = f"{r} has finished, of {computed} tokens that it computed {whole} fill pages, and the tree "
                text += "has not all of them"
                yield Violation("R7", "what a request computed is not in the tree", text, about=(of_request(r),))
                return
