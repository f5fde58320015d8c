"""In which order a prefix tree lets go of leaves, where it says that the least recently used goes first (R6).

Judged where the world's notes say that the ``order`` is ``lru``, of evictions by hand (``evict``) that ask for tokens
alone. Trees differ in what else is a use: so of each node it is known when it was used at least, and at most.
"""

from collections.abc import Iterator, Sequence

from ..ghost import Ghost
from ..record import Step, TreeNode, World
from ..violation import Violation
from .tree_nodes import contents_of

__all__ = ["OrderOracle"]


class OrderOracle:
    """Compares what goes with the leaves that stay."""

    def __init__(self, world: World) -> None:
        self._is_told = world.notes.get("order") == "lru"
        self._page = world.groups[0].block
        # SGLang checks a request of windows alone in up to where its prompt branches off, if it ends at once: no use.
        kinds = {group.kind for group in world.groups}
        self._checks_in = world.notes.get("finished") == "cached" and ("mamba" in kinds or "window" not in kinds)
        self._now = 0
        self._at_least: dict[int, int] = {}
        """When a lookup has last gone through a prefix, or a request with it has ended, by the prefix."""
        self._at_most: dict[int, int] = {}
        """When a node that begins with this token may have been used last."""
        self._alive: set[str] = set()
        self._nodes: list[TreeNode] = []
        self._contents: list[list[int]] = []

    def step(self, step: Step, ghost: Ghost) -> Iterator[Violation]:
        """Yield that an eviction takes what was used after a leaf that stays."""
        tree = step.state.tree if self._is_told and step.state is not None else None
        if tree is None or tree.nodes is None:
            return
        nodes, contents = self._nodes, self._contents
        self._nodes, self._contents = tree.nodes, contents_of(tree.nodes, ghost)
        asked = step.result.get("asked") if isinstance(step.result, dict) else None
        further = asked[1:] if isinstance(asked, list) else []
        if step.op == "evict" and step.error is None and not any(further):
            yield from self._against_the_order(nodes, contents)
        self._used(step, {of_node[0] for of_node in contents}, ghost)

    def _used(self, step: Step, known: set[int], ghost: Ghost) -> None:
        """What requests that are there stand for may be used whenever something happens, and so may what is new.

        A walk that ends within a node uses the whole of it, and splits it: what was behind its end is new then.
        """
        self._now += 1
        for effect in step.effects:
            if effect[0] == "request":
                self._alive.add(effect[1])
            elif effect[0] == "lookup":
                _, r, found, *_ = effect
                self._at_least |= dict.fromkeys(ghost.requests[r].line[1 : found + 1], self._now)
        processed = {effect[1]: effect[2] for effect in step.effects if effect[0] == "processed"}
        for effect in step.effects if self._checks_in else ():
            if effect[0] == "end" and effect[2] == "finished" and effect[1] in processed:
                whole = processed[effect[1]] // self._page * self._page
                self._at_least |= dict.fromkeys(ghost.requests[effect[1]].line[1 : whole + 1], self._now)
        possible = {prefix for r in self._alive for prefix in ghost.requests[r].line}
        for of_node in self._contents:
            if of_node[0] in possible or of_node[0] not in known:
                self._at_most[of_node[0]] = self._now
        self._alive -= {effect[1] for effect in step.effects if effect[0] == "end"}

    def _against_the_order(self, nodes: Sequence[TreeNode], contents: Sequence[Sequence[int]]) -> Iterator[Violation]:
        there = {of_node[0] for node, of_node in zip(self._nodes, self._contents, strict=True) if node.slots}
        above = {node.parent for node in nodes}
        gone = [at for at, of_node in enumerate(contents) if of_node[0] not in there and _is_whole(nodes[at])]
        stay = [at for at, of_node in enumerate(contents) if of_node[0] in there and at not in above]
        for at in stay:
            if nodes[at].lock or any(lock for _, lock in nodes[at].parts):
                continue
            used = self._at_most.get(contents[at][0], 0)
            later = next((other for other in gone if used < self._at_least.get(contents[other][-1], 0)), None)
            if later is not None:
                text = f"an eviction takes the node of the slots {nodes[later].slots}, and leaves that of the slots "
                text += f"{nodes[at].slots}, a leaf without a lock that nobody has used since: the one was last used "
                text += f"{self._ago(self._at_least[contents[later][-1]])} before, the other {self._ago(used)}"
                yield Violation("R6", "order of eviction", text)
                return

    def _ago(self, used: int) -> str:
        ago = self._now + 1 - used
        return "1 operation" if ago == 1 else f"{ago} operations"


def _is_whole(node: TreeNode) -> bool:
    """It has lost no window and no state: it does not go along with what is below it."""
    return all(slots for slots, _ in node.parts)
