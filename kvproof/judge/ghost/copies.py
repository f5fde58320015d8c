"""Copies between tiers: what they bring, and who comes between (O3, O8)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..record import World
from ..violation import Violation, of_block, of_request
from .batches import Batches
from .contents import Contents
from .memory import TORN, Cell, Memory
from .requests import NotTold

__all__ = ["Copies", "Copy"]


@dataclass
class Copy:
    """A copy under way: its places, and what was in the sources when it began."""

    pairs: list[tuple[str, int, str, int]]
    """Tier and place that it reads, tier and place that it writes."""
    begun: list[Cell | None]
    after: Any = None
    """The copy that ends before it begins to copy."""
    void: bool = False
    """A reset came since: it brings nothing any more."""


class Copies:
    """The copies that have begun and not ended."""

    def __init__(self, world: World, contents: Contents, memory: Memory, batches: Batches) -> None:
        self._world, self._contents, self._memory, self._batches = world, contents, memory, batches
        self._device = next(iter(world.tiers))
        self.under_way: dict[Any, Copy] = {}
        """By number."""

    def void(self) -> None:
        """A reset: what is under way is stored for nobody."""
        for copy in self.under_way.values():
            copy.void = True

    def copied(self, pairs: Sequence[Sequence[Any]]) -> Iterator[Violation]:
        """A copy that began and ended, with nobody in between."""
        kept = [self._memory.kept(a, b) for a, b, _, _ in pairs]
        yield from self._under_a_copy(Copy([(a, b, c, d) for a, b, c, d in pairs], kept))
        for (_, _, tier, unit), cell in zip(pairs, kept, strict=True):
            self._memory.put(tier, unit, cell)
        # From the device to the device the batch itself copies.
        self._batches.write(unit for source, _, tier, unit in pairs if source == tier == self._device)

    def rows(self, spans: Sequence[Sequence[Any]]) -> None:
        """Some slots of blocks were copied at this point of the order: tier, place and first slot that are read, the
        same that are written, and how many slots."""
        for source_tier, source, first, tier, unit, to, count in spans:
            read = self._memory.cell(source_tier, source)
            cell = read or self._memory.cell(tier, unit)
            if cell is None:
                continue
            slots = self._memory.fit(tier, unit, cell[0], len(cell[1]))
            for slot in range(min(count, len(slots) - first, len(slots) - to)):
                slots[to + slot] = None if read is None else read[1][first + slot]
            self._memory.touch(tier, unit)

    def copy(
        self,
        number: Any,
        phase: str,
        pairs: Sequence[Sequence[Any]] | None = None,
        order: str | None = None,
        after: Any = None,
    ) -> Iterator[Violation]:
        """A copy begins, ends, or is given up.

        ``order``: if there is one, it begins behind what batches were told to do so far; ``void``: a reset came since
        it was planned. ``after``: the copy that ends before it begins to copy.

        Raises:
            NotTold: it begins, and what it copies is not said.
        """
        if phase == "begin":
            if pairs is None:
                raise NotTold(f"copy {number} begins, and what it copies is not said")
            begun = [self._memory.kept(tier, unit) for tier, unit, _, _ in pairs]
            copy = Copy([(a, b, c, d) for a, b, c, d in pairs], begun, after, void=order == "void")
            yield from self._begin(number, copy, waits=order is not None)
        elif (ended := self.under_way.pop(number, None)) is not None:
            self._end(ended, {pair[2:] for later in self._behind(number) for pair in later.pairs}, phase == "end")

    def _behind(self, number: Any) -> Iterator[Copy]:
        """Those under way that wait for this copy, or for one that does."""
        waits = {number}
        for name, copy in self.under_way.items():
            if copy.after is not None and copy.after in waits:
                waits.add(name)
                yield copy

    def _begin(self, number: Any, copy: Copy, waits: bool) -> Iterator[Violation]:
        yield from self._stored_twice(copy)
        yield from self._under_a_copy(copy)
        if not waits:
            yield from self._under_a_batch(copy)
        self.under_way[number] = copy
        for (_, _, tier, unit), cell in zip(copy.pairs, copy.begun, strict=True):
            if cell is None or self._memory.cell(tier, unit) != cell:  # What is there already is there all the time.
                self._memory.tear(tier, unit)

    def _end(self, copy: Copy, next_written: set[tuple[str, int]], is_whole: bool) -> None:
        """Let a copy have written; ``next_written``: the places where one that waited for it writes from here on."""
        memory = self._memory
        for (source_tier, source, tier, unit), then in zip(copy.pairs, copy.begun, strict=True):
            if (tier, unit) in next_written:
                continue
            now = memory.cell(tier, unit)
            is_untouched = now is not None and (now == then or all(s == TORN for s in now[1]))
            if is_whole and is_untouched:
                memory.put(tier, unit, _common(then, memory.cell(source_tier, source)))
            else:
                memory.tear(tier, unit)

    def _under_a_batch(self, copy: Copy) -> Iterator[Violation]:
        """O8: no copy begins to write to what a batch under way writes: what comes last there stays."""
        for _, _, tier, unit in copy.pairs:
            if tier == self._device and self._batches.writes(unit):
                text = f"a copy begins to write to block {unit}, which a step that was not processed writes or clears"
                yield Violation("O8", "copy under a step's write", text, ("load",), (of_block(tier, unit),))
                return

    def _under_a_copy(self, copy: Copy) -> Iterator[Violation]:
        """O8: no copy begins to write something else to what an unfinished one reads, and does not wait for that."""
        read = {pair[:2] for other in self._read_by(copy) for pair in other.pairs}
        for (_, _, tier, unit), cell in zip(copy.pairs, copy.begun, strict=True):
            if (tier, unit) in read and (cell is None or self._memory.cell(tier, unit) != cell):
                text = f"a copy begins to write to block {unit} ({tier}), which an unfinished copy still reads"
                yield Violation("O8", "copy under a copy", text, (tier,), (of_block(tier, unit),))
                return

    def _read_by(self, copy: Copy) -> Iterator[Copy]:
        """The unfinished copies that somebody waits for, and that this one does not wait for itself."""
        ahead, number = set[Any](), copy.after
        while number is not None and number not in ahead:
            ahead.add(number)
            number = self.under_way[number].after if number in self.under_way else None
        return (other for number, other in self.under_way.items() if number not in ahead and not other.void)

    def _stored_twice(self, copy: Copy) -> Iterator[Violation]:
        """O3: no second store of what an unfinished one brings to the same tier already, under the same hash."""
        if copy.void:
            return
        for (source_tier, source, tier, _), cell in zip(copy.pairs, copy.begun, strict=True):
            to = self._world.tiers[tier]
            if tier == self._device or cell is None or to.split != 1 or not to.blocks:
                # A block may belong to two chunks; what goes to others' memory is sent, not stored.
                continue
            if self._stores(source_tier, source, tier, cell) >= self._hashes(cell):
                text = f"block {source} is stored to {tier} again while the first store of it is in flight"
                yield Violation("O3", "stored twice", text, (tier,), (of_block(source_tier, source),))
                return

    def _stores(self, source_tier: str, source: int, tier: str, cell: Cell) -> int:
        """How many unfinished copies bring the same from there to this tier."""
        return sum(
            pair[:3] == (source_tier, source, tier) and begun == cell
            for copy in self.under_way.values()
            if not copy.void
            for pair, begun in zip(copy.pairs, copy.begun, strict=True)
        )

    def _hashes(self, cell: Cell) -> int:
        """By how many hashes a place may be known: where hashes are finer than blocks, by that of each prefix that ends
        in it, and what asks for a shorter one finds only what was stored under that."""
        group = self._world.groups[cell[0]] if 0 <= cell[0] < len(self._world.groups) else None
        return 1 if group is None else max(1, group.slots // self._world.hash_block)

    def written(
        self, r: str, block: int, at: tuple[int, int], old: Sequence[int | None], new: Sequence[int]
    ) -> Iterator[Violation]:
        """O8: a forward pass of r writes to a block of the device, from a slot on; ``at``: its group and that slot."""
        here, is_changed = (self._device, block), _changes(old, new)
        about = (of_block(self._device, block), of_request(r))
        pairs = [(pair, cell) for c in self.under_way.values() for pair, cell in zip(c.pairs, c.begun, strict=True)]
        if any(pair[2:] == here for pair, _ in pairs):
            text = f"{r} writes to block {block}, which an unfinished copy writes to as well"
            yield Violation("O8", "write under a copy", text, ("load",), about)
        if is_changed and any(pair[:2] == here and self._overwrites(cell, at, new) for pair, cell in pairs):
            text = f"{r} overwrites block {block}, which an unfinished copy still reads"
            yield Violation("O8", "write under a copy", text, ("store",), about)

    def _overwrites(self, begun: Cell | None, at: tuple[int, int], new: Sequence[int]) -> bool:
        """What is written changes what a copy reads.

        Of a block that was partly filled when the copy began, that is what stood there: what was written behind it
        since, a draft that is given up, is none of what it brings. Neither is what another sequence has left behind it.
        """
        (g, slot), (group, slots) = at, begun or (-1, [])
        if group != g or all(content is None for content in slots):
            return True
        brought = slots[slot : min(slot + len(new), self._contents.longest(slots))]
        return _changes(brought, new[: len(brought)])


def _changes(old: Sequence[int | None], new: Sequence[int]) -> bool:
    """Something else is written to a slot that holds something."""
    return any(a not in (None, b) for a, b in zip(old, new, strict=True))


def _common(begun: Cell | None, ended: Cell | None) -> Cell | None:
    """What a copy brought, whenever it read: the slots that held the same all the time."""
    if begun is None or ended is None:
        return None
    if begun[0] != ended[0] or len(begun[1]) != len(ended[1]):
        return (begun[0], [TORN] * len(begun[1]))
    return (begun[0], [a if a == b else (None if a is None else TORN) for a, b in zip(begun[1], ended[1], strict=True)])
