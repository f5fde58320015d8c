"""How much an eviction takes out of a prefix tree that shows its nodes (R6): until enough is free, and no node more.

Judged where one kind of slots is asked for, or none. Where several are, each may let go of the others' too.
"""

from collections.abc import Iterator, Sequence

from ..ghost import Ghost
from ..record import Step, TreeNode, World
from ..violation import Violation
from .tree_nodes import contents_of
from .tree_parts import words_of

__all__ = ["EvictionsOracle"]


class EvictionsOracle:
    """Compares the nodes before an eviction and behind it with what was asked."""

    def __init__(self, world: World) -> None:
        self._groups = world.groups
        self._last: list[TreeNode] | None = None

    def step(self, step: Step, ghost: Ghost) -> Iterator[Violation]:
        """Yield that an eviction went on though enough was free."""
        if step.state is None or step.state.tree is None:
            return
        before, self._last = self._last, step.state.tree.nodes
        if step.op != "evict" or step.error is not None or before is None or self._last is None:
            return
        told = step.result.get("asked") if isinstance(step.result, dict) else None
        asked = told if isinstance(told, list) else [told]
        if not all(isinstance(count, int) for count in asked):
            return
        wanted = [(g, count) for g, count in enumerate(asked) if count > 0]
        if len(asked) != len(self._groups) or len(wanted) > 1:
            return
        g, count = wanted[0] if wanted else (0, 0)
        freed, last = self._freed(g, before, self._last, ghost)
        if freed and freed - last >= count:
            what = "tokens" if g == 0 else words_of(self._groups[g])
            text = f"an eviction of {count} {what} takes {freed} out of the tree: a node less would have done"
            yield Violation("R6", "evicts too much", text, () if g == 0 else (self._groups[g].kind,))

    def _freed(self, g: int, before: Sequence[TreeNode], now: Sequence[TreeNode], ghost: Ghost) -> tuple[int, int]:
        """How much went of a group, and at most how much of that with the last node.

        A tree lets go of leaves: the last one's parent stays. Or it takes those above it along that are of no use
        without it, since they lost their window or their state; where such are asked for, perhaps in this eviction.
        """
        there = {
            contents[-1]: _size(node, g)
            for node, contents in zip(now, contents_of(now, ghost), strict=True)
            if node.slots
        }
        ends = [contents[-1] for contents in contents_of(before, ghost)]
        total, last = 0, 0
        with_last: list[int | None] = []
        """How much goes with a node if it is the last; None where it cannot be."""
        for node, end in zip(before, ends, strict=True):
            freed = _size(node, g) - there.get(end, 0)
            total += freed
            if node.parent < 0 or ends[node.parent] in there:
                with_last.append(freed)
            else:
                above = with_last[node.parent]
                goes_along = g > 0 or any(not slots for slots, _ in before[node.parent].parts)
                with_last.append(above + freed if goes_along and above is not None else None)
            last = max(last, with_last[-1] or 0)
        return total, last


def _size(node: TreeNode, g: int) -> int:
    return len(node.slots) if g == 0 else len(node.parts[g - 1][0])
