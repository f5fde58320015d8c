"""What lies in each place of each tier: who wrote it, and which contents."""

from collections.abc import Iterable, Sequence

__all__ = ["TORN", "Cell", "Memory", "Slots", "said"]

TORN = -1
"""The content of a place that a copy may or may not have written, or read before or after a change."""

_NOBODY = -1
"""The group of a place to which a copy may have written, and nothing else ever did."""

Slots = list[int | None]
"""The content of each slot of a place; None was never written."""

Cell = tuple[int, Slots]
"""The group that last wrote to a place, and the content of each of its slots."""


class Memory:
    """The places of all tiers that were ever written."""

    def __init__(self, tiers: Iterable[str]) -> None:
        self.cells: dict[str, dict[int, Cell]] = {tier: {} for tier in tiers}
        """Per tier, by the place's number."""
        self.version = 0
        """Changes whenever any place is written."""
        self._versions: dict[str, dict[int, int]] = {tier: {} for tier in self.cells}

    def cell(self, tier: str, unit: int) -> Cell | None:
        """What lies in a place."""
        return self.cells[tier].get(unit)

    def version_of(self, tier: str, unit: int) -> int:
        """A number that changes whenever the place is written."""
        return self._versions[tier].get(unit, 0)

    def put(self, tier: str, unit: int, cell: Cell | None) -> None:
        """Let a place hold this; None: nothing any more."""
        if cell is None:
            self.cells[tier].pop(unit, None)
        else:
            self.cells[tier][unit] = cell
        self.touch(tier, unit)

    def touch(self, tier: str, unit: int) -> None:
        """A place was written."""
        self.version += 1
        self._versions[tier][unit] = self.version

    def fit(self, tier: str, unit: int, g: int, size: int) -> Slots:
        """The slots of a place of so many for a group; fresh ones, where it was another group's or of another size."""
        cell = self.cells[tier].get(unit)
        if cell is None or cell[0] != g or len(cell[1]) != size:
            cell = self.cells[tier][unit] = (g, [None] * size)
        return cell[1]

    def mend(self, tier: str, unit: int, g: int, slot: int, contents: Sequence[int], size: int) -> None:
        """Let a place hold what it should have held: a fault was told, and what reads the place is judged without
        it."""
        self.fit(tier, unit, g, size)[slot : slot + len(contents)] = contents
        self.touch(tier, unit)

    def zero(self, tier: str, units: Sequence[int]) -> None:
        """Places are zeroed: they hold nothing."""
        for unit in units:
            self.put(tier, unit, None)

    def kept(self, tier: str, unit: int) -> Cell | None:
        """What lies in a place now, whatever becomes of that."""
        cell = self.cells[tier].get(unit)
        return None if cell is None else (cell[0], cell[1][:])

    def tear(self, tier: str, unit: int) -> None:
        """A place may or may not have been written."""
        cell = self.cells[tier].get(unit)
        self.put(tier, unit, (_NOBODY, [TORN]) if cell is None else (cell[0], [TORN] * len(cell[1])))


def said(cell: Cell | None, g: int, slot: int, count: int) -> str:
    """In words, why a place does not hold what it should."""
    if cell is None:
        return "nothing: it was never written"
    found = cell[1][slot : slot + count]
    if TORN in found or cell[0] == _NOBODY:
        return "what a copy may or may not have written"
    if cell[0] != g:
        return f"what group {cell[0]} wrote"
    if None in found:
        return "nothing in some of these slots"
    return "the KV of other tokens"
