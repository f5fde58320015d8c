"""How a prefix tree makes room on a tier below the device (R6): until enough is free or nothing is left, and no more.

Such an eviction comes in the midst of an operation: what stood there is told with it (``makes_room``), and judged in
its place among the copies.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ..ghost import Ghost
from ..record import Effect, Group, Step, World
from ..violation import Violation, of_block
from .tree_parts import words_of

__all__ = ["RoomOracle"]


class _Node(NamedTuple):
    """A node of the tree, as an eviction of one group found it and left it."""

    parent: int
    slots: list[int]
    """What it had on the tier."""
    left: int | None
    """How much of that is left; None: the node is gone."""
    lock: int
    """How often that is locked there."""
    held: bool
    """Something locks the node, on any tier and of any group, or is yet to be copied of it."""
    device: bool
    """It has the group on the device too."""

    @property
    def gone(self) -> int:
        """How much of it went."""
        return len(self.slots) - (self.left or 0)


class RoomOracle:
    """Judges evictions by what each node had before them and has behind them."""

    def __init__(self, world: World) -> None:
        self._groups = world.groups
        self._copied: dict[Any, set[tuple[str, int]]] = {}
        """The places of the copies under way, by their number."""

    def step(self, step: Step, _ghost: Ghost) -> Iterator[Violation]:
        """Yield what is wrong with the evictions of a step."""
        for effect in step.effects:
            if effect[0] == "copy":
                self._copy(*effect[1:4])
            elif effect[0] == "makes_room":
                yield from self._evicted(effect)
        if step.op == "reset":
            self._copied.clear()  # What is under way brings nothing any more.

    def _copy(self, number: Any, phase: str, pairs: Iterable[Sequence[Any]] | None = None) -> None:
        if phase == "begin":
            self._copied[number] = {place for a, b, c, d in pairs or () for place in ((a, b), (c, d))}
        else:
            self._copied.pop(number, None)

    def _evicted(self, effect: Effect) -> Iterator[Violation]:
        _, tier, g, asked, told, rows = effect
        group, nodes = self._groups[g], [_Node(*row) for row in rows]
        what = f"{'tokens' if g == 0 else words_of(group)} of {tier}"
        key = (tier, *([group.kind] if g else []))
        went = [node.gone for node in nodes]
        if told != sum(went):
            text = f"an eviction says that {told} {what} are freed, and {sum(went)} are"
            yield Violation("R6", "what an eviction says", text, key)
        if any(went) and sum(went) - max(went) >= asked:
            text = f"an eviction of {asked} {what} frees {sum(went)}: a node less would have done"
            yield Violation("R6", "evicts too much", text, key)
        if sum(went) < asked and (more := sum(node.left or 0 for node in _could_go(nodes, g))):
            text = f"an eviction of {asked} {what} freed {sum(went)}, and {more} more could go"
            yield Violation("R6", "an eviction that stops early", text, key)
        yield from self._in_use(tier, group, [node for node in nodes if node.gone], key)

    def _in_use(self, tier: str, group: Group, gone: Sequence[_Node], key: tuple[str, ...]) -> Iterator[Violation]:
        copied = set[tuple[str, int]]().union(*self._copied.values())
        for node in gone:
            blocks = [slot // group.slots for slot in node.slots]
            if node.lock:
                text = f"an eviction takes block {blocks[0]} ({tier}), which is locked there"
                yield Violation("R6", "evicts what is in use", text, (*key, "locked"), (of_block(tier, blocks[0]),))
                return
            under = next((block for block in blocks if (tier, block) in copied), None)
            if under is not None:
                text = f"an eviction takes block {under} ({tier}) from under an unfinished copy"
                yield Violation("R6", "evicts what is in use", text, (*key, "copied"), (of_block(tier, under),))
                return


def _could_go(nodes: Sequence[_Node], g: int) -> Iterator[_Node]:
    """What an eviction left of which nothing is in use.

    Of full attention that are leaves which are nowhere else. A window or a state may go from within the tree; while the
    device has it too, it is kept for a device that gives it up.
    """
    above = {node.parent for node in nodes if node.left is not None}
    for at, node in enumerate(nodes):
        if node.left and not node.device and not (node.lock or (g == 0 and (node.held or at in above))):
            yield node
