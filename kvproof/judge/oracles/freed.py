"""P10, where nobody says which end of the queue is whose: of what one request gives up, the last block goes first.

Whoever needs room then takes a prefix from its end, and what is left of it can still be found. Judged are groups of
full attention, and of their blocks those that are free behind a step in which their request gave them up, and that it
alone had held: the others went with their last holder. Those that are cached and those that are not may stand apart, as
a release's order says.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from ..ghost import Ghost
from ..record import PoolState, State, Step, World
from ..violation import Violation, of_block, of_request
from .pools import shown

__all__ = ["FreedOracle"]

_TAKE_HASHES = ("drain", "evict", "reset")
"""Operations that may take hashes of blocks that were freed just then: with them they came to another place."""


class FreedOracle:
    """Compares the free queue with the block tables of the step before.

    Only where whatever holds a block is seen: else somebody may have let go of it before its request did, or behind.
    Not where attention reads another tier too: then tables do not tell of every block that was taken meanwhile.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self._device = next(iter(world.tiers))
        is_seen = world.exact and "reads" not in world.notes
        self._full = [g for g, group in enumerate(world.groups) if group.kind == "full"] if is_seen else []
        self._last = State({})

    def step(self, step: Step, _ghost: Ghost) -> Iterator[Violation]:
        """Yield the requests whose blocks stand the wrong way round."""
        last, state = self._last, step.state
        if state is None:
            return
        self._last = state
        gone = [(r, tables) for r, tables in last.tables.items() if any(tables) and not any(state.tables.get(r, ()))]
        pool = shown(state, self._device)
        if not gone or pool.free is None or pool.hashes is None or step.op in _TAKE_HASHES:
            return
        taken = {block for effect in step.effects for block in _taken(effect)}
        before = shown(last, self._device)
        was, now = dict(before.hashes or ()), dict(pool.hashes)
        # A block with another hash was taken again in this step, though it stands in nobody's table.
        alone = {b for b, count in enumerate(before.ref or ()) if count == 1 and was.get(b) == now.get(b)} - taken
        for r, tables in gone:
            for g in self._full:
                yield from self._wrong(r, [block for block in tables[g] if block in alone], pool)

    def _wrong(self, r: str, table: Sequence[int], pool: PoolState) -> Iterator[Violation]:
        place = {block: at for at, block in enumerate(pool.free or ())}
        named = {block for block, keys in pool.hashes or () if keys}
        for what, some in (
            ("cached", [block for block in table if block in place and block in named]),
            ("not cached", [block for block in table if block in place and block not in named]),
        ):
            for before, behind in pairwise(some):
                if place[before] < place[behind]:
                    text = f"{r} gives up blocks {some} ({what}), and block {before} is to be taken before {behind}"
                    yield Violation(
                        "P10", "order of freed blocks", text, (what,), (of_block(self._device, before), of_request(r))
                    )
                    break


def _taken(effect: list[Any]) -> Iterator[int]:
    """The blocks that somebody has from here on, or had for a moment: who is refused lets go of what was found for
    him, and that is then used last."""
    match effect:
        case ["table", _, _, _, [*blocks]]:
            yield from blocks
        case ["found", _, [*tables], *_]:
            yield from (block for table in tables for block in table)
