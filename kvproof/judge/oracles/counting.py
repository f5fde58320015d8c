"""Reference counts, the free queue and conservation: P1 to P5, P8, H8, and who holds what."""

from collections import Counter
from collections.abc import Iterator, Mapping

from ..ghost import Ghost
from ..record import PoolState, State, Step, World
from ..violation import Violation, of_block, of_key, of_request

__all__ = ["MISCOUNTED", "CountingOracle", "held_by_cache", "holder_faults", "kept_back", "queue_faults"]

MISCOUNTED = "ref_cnt and holders"
"""What notices that a block's count is not that of its holders."""


class CountingOracle:
    """Judges the pools of a state by themselves and by the block tables."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._device = next(iter(world.tiers))
        self._kept_back = kept_back(world)

    def step(self, step: Step, _ghost: Ghost) -> Iterator[Violation]:
        """Yield what is wrong with the state after a step."""
        state = step.state
        if state is None:
            return
        for tier, pool in state.pools.items():
            null = self.world.tiers[tier].null
            yield from queue_faults(tier, pool, null, self._kept_back if tier == self._device else 0)
            yield from _names(tier, pool)
            yield from holder_faults(tier, pool, self._held(tier, state), null, exact=self.world.exact)
        null = self.world.tiers[self._device].null
        for r, tables in state.tables.items():
            entries = [block for table in tables for block in table if block != null]
            if len(set(entries)) != len(entries):
                twice = next(block for block, n in Counter(entries).items() if n > 1)
                yield Violation(
                    "H8",
                    "one block twice in a request",
                    f"block {twice} stands twice in the tables of {r}",
                    about=(of_block(self._device, twice), of_request(r)),
                )

    def _held(self, tier: str, state: State) -> Counter[int]:
        """The holders of each block that are seen."""
        holders = Counter(state.holds.get(tier, ()))
        holders.update(held_by_cache(self.world, tier, state.pools[tier]))
        if tier == self._device:
            for tables in state.tables.values():
                for table in tables:
                    holders.update(table)
        return holders


def held_by_cache(world: World, tier: str, pool: PoolState) -> set[int]:
    """The blocks of which the prefix map itself is a holder: none, but where the device's dialect says so."""
    if tier != next(iter(world.tiers)) or world.dialect.get("cached") != "held":
        return set()
    return {block for _, _, blocks in pool.cached or () for block in blocks}


def kept_back(world: World) -> int:
    """How many blocks of the device an engine says that it keeps back always."""
    said = world.notes.get("kept_back")
    return said if isinstance(said, int) else 0


def queue_faults(tier: str, pool: PoolState, null: int | None, kept_back: int = 0) -> Iterator[Violation]:
    """P2 to P4: no count is negative; free is who has no holder, once, and never the null block. Of each kind the first
    block is told.

    The queue's counter may leave out so many that are ``kept_back``; that it does so throughout, `FreeCounterOracle`
    judges."""
    for block, count in enumerate(pool.ref or ()):
        if count < 0 and block != null:
            text = f"ref_cnt of block {block} ({tier}) is negative"
            yield Violation("P2", "negative ref_cnt", text, (tier,), (of_block(tier, block),))
            break
    if pool.free is None:
        return
    free = set(pool.free)
    if len(free) != len(pool.free):
        twice = next(block for block, n in Counter(pool.free).items() if n > 1)
        text = f"block {twice} stands twice in the free queue ({tier})"
        yield Violation("P3", "block queued twice", text, (tier,), (of_block(tier, twice),))
    if pool.num_free not in (None, len(pool.free), max(0, len(pool.free) - kept_back)):
        text = f"the free queue ({tier}) holds {len(pool.free)} blocks, its counter says {pool.num_free}"
        yield Violation("P3", "counter of the free queue", text, (tier,))
    wrong: dict[str, tuple[int, int]] = {}
    for block, count in enumerate(pool.ref or ()):
        if block != null and (count == 0) != (block in free):
            wrong.setdefault("in" if block in free else "not in", (block, count))
    for where, (block, count) in wrong.items():
        text = f"block {block} ({tier}) has ref_cnt {count} and is {where} the free queue"
        yield Violation("P3", "free exactly when ref_cnt is 0", text, (tier, where), (of_block(tier, block),))
    if null is None:
        return
    if null in free:
        text = f"the null block stands in the free queue ({tier})"
        yield Violation("P4", "null block queued", text, (tier,), (of_block(tier, null),))


def holder_faults(
    tier: str, pool: PoolState, holders: Mapping[int, int], null: int | None, *, exact: bool
) -> Iterator[Violation]:
    """P2: a block has at least the holders that are seen; with ``exact``, those are all there are. Of each kind the
    first block is told."""
    wrong: dict[str, tuple[int, int, int]] = {}
    for block, count in enumerate(pool.ref or ()):
        seen = holders.get(block, 0)
        if block != null and (seen > count or (exact and seen != count)):
            wrong.setdefault("too few" if seen > count else "too many", (block, count, seen))
    for which, (block, count, seen) in wrong.items():
        text = f"block {block} ({tier}) has ref_cnt {count} and {seen} holders"
        yield Violation("P2", MISCOUNTED, text, (tier, which), (of_block(tier, block),))


def _names(tier: str, pool: PoolState) -> Iterator[Violation]:
    """P5: the map and the blocks say the same."""
    if pool.cached is None or pool.hashes is None:
        return
    by_map = {(k, g, block) for k, g, blocks in pool.cached for block in blocks}
    by_block = {(k, g, block) for block, keys in pool.hashes for k, g in keys}
    if by_map != by_block:
        k, g, block = min(by_map ^ by_block)
        where = "in the prefix map only" if (k, g, block) in by_map else "at the block only"
        text = f"hash key {k} of group {g} at block {block} ({tier}) stands {where}"
        yield Violation("P5", "map and blocks", text, (tier, where), (of_block(tier, block), of_key(k)))
