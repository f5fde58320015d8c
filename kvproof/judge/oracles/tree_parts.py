"""What a prefix tree has of windows and states, beside the slots of full attention: R9, and R3 and P6 of it.

A node may have lost it (a tombstone). A window has a slot for each token, a state is that of the node's end.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from ..ghost import Ghost
from ..record import Group, TreeNode, TreePart, TreeState, World
from ..violation import Violation, of_block, of_request

__all__ = ["Parts", "blocks_of_parts", "words_of"]


def blocks_of_parts(world: World, nodes: Sequence[TreeNode]) -> Iterator[int]:
    """The blocks that nodes have of the further groups, each as often as the tree has it."""
    for node in nodes:
        for group, (slots, _) in zip(world.groups[1:], node.parts, strict=False):
            for at in range(0, len(slots), group.slots):
                yield slots[at] // group.slots


def words_of(group: Group) -> str:
    """What a group's sizes are counted in."""
    return "states" if group.kind == "mamba" else f"tokens of the {group.kind}"


class Parts:
    """Judges what the nodes of a tree have of each group but the first."""

    def __init__(self, world: World) -> None:
        self._groups = list(enumerate(world.groups))[1:]
        self._device = next(iter(world.tiers))

    def wrong(
        self, tree: TreeState, nodes: Sequence[TreeNode], contents: Sequence[Sequence[int]], ghost: Ghost
    ) -> Iterator[Violation]:
        """Yield what is wrong; ``contents`` are the prefixes that end with each token of each node."""
        for (g, group), part in zip(self._groups, tree.parts, strict=False):
            had = [node.parts[g - 1] for node in nodes]
            yield from _shapes(group, nodes, [slots for slots, _ in had])
            yield from _locks(group, part, nodes, [lock for _, lock in had])
            yield from _sizes(group, part, had)
            for slots, wanted in zip((slots for slots, _ in had), contents, strict=True):
                yield from self._content(g, group, slots, wanted, ghost)

    def _content(
        self, g: int, group: Group, slots: Sequence[int], wanted: Sequence[int], ghost: Ghost
    ) -> Iterator[Violation]:
        """P6: a slot holds the KV of its token behind all before it, a state is that behind all tokens of the node."""
        said = False
        for slot, expected in zip(slots, wanted[-1:] if group.kind == "mamba" else wanted, strict=False):
            block, at = divmod(slot, group.slots)
            cell = ghost.memory.cell(self._device, block)
            if cell is not None and cell[0] == g and cell[1][at : at + 1] == [expected]:
                continue
            if not said:
                said = True
                text = f"block {block} stands in the tree ({group.kind}) for tokens whose KV it does not hold"
                yield Violation("P6", "content of the tree", text, (group.kind,), (of_block(self._device, block),))
            ghost.memory.mend(self._device, block, g, at, [expected], group.slots)


def _shapes(group: Group, nodes: Sequence[TreeNode], had: Sequence[Sequence[int]]) -> Iterator[Violation]:
    """R9: a node has a slot for each of its tokens, or one state; or nothing."""
    for at, (node, slots) in enumerate(zip(nodes, had, strict=True)):
        whole = 1 if group.kind == "mamba" else len(node.tokens)
        if len(slots) not in (0, whole):
            text = f"node {at} has {len(slots)} of {whole} {words_of(group)}"
            yield Violation("R9", "half a tombstone", text, (group.kind,))
            return
        for begin in range(0, len(slots), group.slots):
            page = slots[begin : begin + group.slots]
            if page[0] % group.slots or list(page) != list(range(page[0], page[0] + group.slots)):
                text = f"a page of node {at} ({group.kind}) stands in slots {page}, which are no page"
                yield Violation("R9", "a page that is none", text, (group.kind,))
                return


def _locks(group: Group, part: TreePart, nodes: Sequence[TreeNode], told: Sequence[int | None]) -> Iterator[Violation]:
    """R3, R9: a lock of a state is at its node; one of a window covers at least the window, and nothing but its path.

    Where the window ends within a node that is split later, both halves stay locked: so it may be more.
    """
    least, most = _covered(group, part.locks, nodes)
    for at, lock in enumerate(told):
        if lock is not None and not least[at] <= lock <= most[at]:
            side = "negative" if lock < 0 else "too many" if lock > most[at] else "too few"
            count = least[at] if least[at] == most[at] else f"{least[at]} to {most[at]}"
            text = f"node {at} has lock_ref {lock} ({group.kind}), and {count} locks cover it"
            holders = tuple(of_request(r) for r in sorted(part.locks))
            yield Violation("R9", "lock_ref and locks", text, (group.kind, side), holders)
            return


def _covered(group: Group, locks: Mapping[str, int], nodes: Sequence[TreeNode]) -> tuple[Counter[int], Counter[int]]:
    """How many locks cover each node for certain, and how many may."""
    least, most = Counter[int](), Counter[int]()
    for lock in locks.values():
        place, missing = lock, (group.window or 1) - 1
        while place >= 0:
            least[place] += missing > 0 if group.kind != "mamba" else place == lock
            most[place] += 1 if group.kind != "mamba" else place == lock
            missing -= len(nodes[place].tokens)
            place = nodes[place].parent
    return least, most


def _sizes(group: Group, part: TreePart, had: Sequence[tuple[Sequence[int], int | None]]) -> Iterator[Violation]:
    """R3: sizes are what is locked, and what is not."""
    counted = Counter[str]()
    for slots, lock in had:
        counted["protected" if lock else "evictable"] += len(slots)
    for name, told in (("evictable", part.evictable), ("protected", part.protected)):
        if told is not None and told != counted[name]:
            text = f"the tree says that {told} {words_of(group)} are {name}, and {counted[name]} are"
            yield Violation("R3", "sizes of the tree", text, (group.kind, name))
