"""O9: what a prefix tree stores of a node it stores with the window and the state that the node has."""

from collections.abc import Iterator, Set

from ..ghost import Ghost
from ..record import State, Step, TreeNode, World
from ..violation import Violation
from .tree_nodes import contents_of
from .tree_parts import words_of

__all__ = ["TreeStoresOracle"]


class TreeStoresOracle:
    """Looks at what came into a tree in one step and is on the second tier already.

    The world names that tier in ``notes["parts"]``. A node may get its window or its state back later, from a request
    that computes it again while the node's store is under way or is over; nobody promises to store that. So judged are
    nodes of which nothing was in the tree before, where one request alone ran, and one result of it was processed: what
    such a node has on the device it had when it was stored. Where a tier for a part has no room, nothing is stored.
    """

    def __init__(self, world: World) -> None:
        self._further = world.groups[1:]
        self._tier = next((tier for tier in world.notes.get("parts", ()) if tier in [*world.tiers][1:2]), None)
        self._known: Set[int] | None = frozenset()
        """The prefixes that end with a token of the tree, as it was shown last; None: the last step did not show it."""
        self._ran: Set[str] = frozenset()
        """Who had a table then."""

    def step(self, step: Step, ghost: Ghost) -> Iterator[Violation]:
        """Yield the first part of a node that was not stored with it."""
        if self._tier is None:
            return
        state, known = step.state, self._known
        if state is None or state.tree is None or state.tree.nodes is None:
            self._known = None
            return
        nodes, contents = state.tree.nodes, contents_of(state.tree.nodes, ghost)
        self._known = {prefix for prefixes in contents for prefix in prefixes}
        ran, self._ran = self._ran, state.tables.keys()
        if known is None or step.error is not None or not _is_of_one(step, state, ran):
            return
        for at, (node, prefixes) in enumerate(zip(nodes, contents, strict=True)):
            if known.isdisjoint(prefixes) and node.slots and node.host and node.host[0][0]:
                yield from self._short(at, node)

    def _short(self, at: int, node: TreeNode) -> Iterator[Violation]:
        for group, (had, _), (stored, _) in zip(self._further, node.parts, node.host[1:], strict=False):
            if len(stored) < len(had):
                text = (
                    f"node {at} is on {self._tier} with {len(stored)} of the {len(had)} {words_of(group)} that it has"
                )
                yield Violation("O9", "stored without its parts", text, (group.kind,))
                return


def _is_of_one(step: Step, state: State, ran: Set[str]) -> bool:
    """Whether no more than one request had a part in the step, and one result of it, which was no preempted one's."""
    told = [effect for effect in step.effects if effect[0] in ("compute", "processed", "preempted", "end")]
    kinds = [effect[0] for effect in told]
    everybody = {effect[1] for effect in told} | ran | state.tables.keys()
    return len(everybody) == 1 and kinds.count("processed") <= 1 and "preempted" not in kinds
