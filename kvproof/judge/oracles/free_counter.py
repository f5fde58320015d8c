"""P3 of a counter that need not be the length of the queue: no state shows that, or some blocks are kept back."""

from collections.abc import Iterator

from ..ghost import Ghost
from ..record import PoolState, State, Step, World
from ..violation import Violation
from .counting import kept_back
from .pools import shown

__all__ = ["FreeCounterOracle"]

_WAYS = ((True, True), (True, False), (False, True), (False, False))
"""Whether what is kept back counts as free, and whether what is cached and held by nobody does: it counts in one way
throughout."""


class FreeCounterOracle:
    """Compares the device's counter with the reference counts, or else with who is seen to hold blocks.

    A block is free that nobody holds. Who keeps blocks back may leave those out, and who shows what is cached may leave
    that out, as one does whose queue begins where his cache ends; but not now and then.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self._device = next(iter(world.tiers))
        device = world.tiers[self._device]
        self._usable = {*range(device.blocks)} - {device.null}
        self._kept_back = kept_back(world)
        self._cache_holds = world.dialect.get("cached") == "held"
        self._ways = {*_WAYS}
        """In which of them it may have counted up to now."""

    def step(self, step: Step, _ghost: Ghost) -> Iterator[Violation]:
        """Yield a count that is none of what may be free."""
        state = step.state
        pool = PoolState() if state is None else shown(state, self._device)
        if state is None or step.error is not None or pool.num_free is None:
            return
        if pool.free is not None and not self._kept_back:  # It is the length of the queue, as `CountingOracle` judges.
            return
        unheld = self._unheld(state, pool)
        counted = {way: self._counted(way, unheld, pool) for way in self._ways}
        if pool.ref is None and pool.free is None and not self._knows_all(state):
            if pool.num_free > len(unheld):
                yield self._violation(pool.num_free, f"at most {len(unheld)} are held by nobody")
            return
        self._ways = {way for way, count in counted.items() if count == pool.num_free} or {*_WAYS}
        if pool.num_free not in counted.values():
            others = " or ".join(map(str, sorted({*counted.values()})))
            yield self._violation(pool.num_free, f"{others} are held by nobody, those that are cached among them")

    def _knows_all(self, state: State) -> bool:
        """Whether who is seen to hold blocks are all that do."""
        return self.world.exact or not (state.running or state.waiting or state.pending)

    def _unheld(self, state: State, pool: PoolState) -> set[int]:
        """The blocks that nobody holds, but for the cache itself."""
        if pool.free is not None:
            return {*pool.free}
        held = {*state.holds.get(self._device, ())}
        held.update(block for tables in state.tables.values() for table in tables for block in table)
        if pool.ref is None:
            return self._usable - held
        idle = {block for block in self._usable if pool.ref[block] == 0}
        return idle | (self._held_once(pool) - held if self._cache_holds else set())

    def _held_once(self, pool: PoolState) -> set[int]:
        return {block for block in _cached(pool) if (pool.ref or ())[block] == 1}

    def _counted(self, way: tuple[bool, bool], unheld: set[int], pool: PoolState) -> int:
        with_kept_back, with_cached = way
        count = len(unheld if with_cached or pool.free is not None else unheld - _cached(pool))
        return count if with_kept_back else max(0, count - self._kept_back)

    def _violation(self, num_free: int, text: str) -> Violation:
        said = f"the counter of free blocks ({self._device}) says {num_free}, and {text}"
        return Violation("P3", "counter of the free queue", said, (self._device, "alone"))


def _cached(pool: PoolState) -> set[int]:
    return {block for _, _, blocks in pool.cached or () for block in blocks}
