"""P6: whatever is cached holds what its key names. The sharpest of the oracles: it needs no reader."""

from collections.abc import Iterator, Sequence

from ..ghost import Ghost
from ..ghost.memory import TORN, Slots
from ..record import Group, Step, World
from ..violation import Violation, of_block, of_key
from .needed import first_needed

__all__ = ["UNSURE", "ContentOracle"]

UNSURE = "a copy may or may not have written it"
"""What is said of a block where nobody knows what is in it."""


class ContentOracle:
    """Compares the ghost content of each cached block with the content that its key names, after every step."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._seen: dict[tuple[str, int, int, int], int] = {}
        self._expected: dict[tuple[int, int, int], tuple[int, list[int]]] = {}
        self._told: set[tuple[int, int]] = set()
        """Keys and groups that some tier had wrongly: one that has all from the tier above it is not to blame."""

    def step(self, step: Step, ghost: Ghost) -> Iterator[Violation]:
        """Yield, of each tier and kind of group, the first cached block whose content is not what it is cached as.

        It is mended in the ghost: whoever reads it from now on is not to blame for what it holds.
        """
        if step.state is None:
            return
        seen, said = self._seen, set[tuple[str, str]]()
        for tier, pool in step.state.pools.items():
            split = self.world.tiers[tier].split
            for k, g, blocks in pool.cached or ():
                for block in blocks:
                    version = (
                        ghost.memory.version_of(tier, block) if split == 1 else self._version(ghost, tier, block, split)
                    )
                    if seen.get((tier, k, g, block)) == version:
                        continue
                    problem = self._problem(ghost, tier, k, g, block, split)
                    if problem is None:
                        seen[tier, k, g, block] = version
                        continue
                    kind = self.world.groups[g].kind
                    is_passed_on = (k, g) in self._told and self.world.tiers[tier].persists
                    self._told.add((k, g))
                    if (tier, kind) not in said and not is_passed_on:
                        said.add((tier, kind))
                        text = f"block {block} ({tier}) is cached under key {k} in group {g} ({kind}), but {problem}"
                        about = (of_block(tier, block), of_key(k))
                        yield Violation("P6", "content of a cached block", text, (tier, kind), about)
                    self._mend(ghost, tier, k, g, block, split)

    def _version(self, ghost: Ghost, tier: str, block: int, split: int) -> int:
        return max(ghost.memory.version_of(tier, unit) for unit in range(block * split, (block + 1) * split))

    def _problem(self, ghost: Ghost, tier: str, k: int, g: int, block: int, split: int) -> str | None:
        """Why the block does not hold what the key names; None when it does, or what it names too (P13)."""
        if k not in ghost.requests.named:
            return "no request ever had that key"
        names = (ghost.requests.named[k], *ghost.requests.others.get(k, ()))
        problems = [self._unlike(ghost, tier, content, n, g, block, split) for content, n in names]
        return None if None in problems else problems[0]

    def _unlike(self, ghost: Ghost, tier: str, content: int, n: int, g: int, block: int, split: int) -> str | None:
        """Why the block does not hold this content of n tokens; None when it does."""
        group = self.world.groups[g]
        if group.kind == "mamba":
            cell = ghost.memory.cell(tier, (block + 1) * split - 1)
            return None if cell == (g, [content]) else _said(cell, g, [content])
        first, expected = self._positions(ghost, content, n, group.block * split)
        at = 0 if split == 1 or group.kind == "full" else _needed(group, len(expected)) // group.block * group.block
        while at < len(expected):
            unit, slot = divmod(first % (group.block * split) + at, group.block)
            count = min(group.block - slot, len(expected) - at)
            cell = ghost.memory.cell(tier, block * split + unit)
            wanted = expected[at : at + count]
            if cell is None or cell[0] != g or cell[1][slot : slot + count] != wanted:
                return _said(cell if cell is None else (cell[0], cell[1][slot : slot + count]), g, wanted)
            at += count
        return None

    def _mend(self, ghost: Ghost, tier: str, k: int, g: int, block: int, split: int) -> None:
        """Let the block hold what the key names, where a request had that key."""
        if k not in ghost.requests.named:
            return
        content, n = ghost.requests.named[k]
        group = self.world.groups[g]
        if group.kind == "mamba":
            ghost.memory.mend(tier, (block + 1) * split - 1, g, 0, [content], 1)
            return
        first, expected = self._positions(ghost, content, n, group.block * split)
        for at, value in enumerate(expected, start=first % (group.block * split)):
            unit, slot = divmod(at, group.block)
            ghost.memory.mend(tier, block * split + unit, g, slot, [value], group.block)

    def _positions(self, ghost: Ghost, content: int, n: int, size: int) -> tuple[int, list[int]]:
        """The positions that a block of ``size`` tokens covers at the end of n tokens: first, and their contents."""
        found = self._expected.get((content, n, size))
        if found is None:
            first = (n - 1) // size * size
            found = self._expected[content, n, size] = first, ghost.contents.positions(content, n - first)
        return found


def _needed(group: Group, count: int) -> int:
    """Of so many tokens of a chunk, the first one that a layer attends to which goes on behind them: what stands before
    it may have left the window unstored. The last one is there in any case."""
    first = first_needed(group, count) if group.kind == "window" and group.window is not None else count
    return max(0, min(first, count - 1))


def _said(cell: tuple[int, Slots] | None, g: int, wanted: Sequence[int]) -> str:
    if cell is None:
        return "it was never written"
    if TORN in cell[1]:  # Of what was never written before, nobody knows the group either.
        return UNSURE
    if cell[0] != g:
        return f"group {cell[0]} wrote to it since"
    right = sum(a == b for a, b in zip(cell[1], wanted, strict=False))
    if None in cell[1]:
        return f"only {right} of its {len(wanted)} positions were written"
    return f"it holds the KV of other tokens ({right} of {len(wanted)} positions are right)"
