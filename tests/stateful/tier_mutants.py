"""The host tier and the pinned queue with one thing wrong.

As in ``mutants.py``; ``MUTANTS`` says besides at which level a mutant is driven, and after which actions it may show.
Those named S1 to S9 are the known faults of that name (`spec/faults.py`).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kvproof.harness.pool.target import PoolTarget
from kvproof.harness.tiers.targets import MirrorTarget, PinnedTarget, TieredTarget
from kvproof.kernels.copy import copy_blocks
from kvproof.refimpl.pool.block_pool import BlockPool
from kvproof.refimpl.pool.manager import KVCacheManager
from kvproof.refimpl.pool.pinned_pool import PinnedPool
from kvproof.refimpl.tiers.host_tier import HostTier
from kvproof.refimpl.tiers.mirror import MirrorManager

RELEASES = ("trim", "finish", "preempt")
DEMOTIONS = ("demote", "open_gate", "allocate")


class Mutant(NamedTuple):
    """A broken target, and how it must be noticed."""

    kind: type[PoolTarget]
    oracle: str
    rules: tuple[str, ...]


MUTANTS: dict[str, Mutant] = {}


class _Scripted(PoolTarget):
    """Not part of the package: a script finds it by its file."""

    def preamble(self) -> str:
        return (
            "import runpy\nfrom kvproof.harness.instances import Instance\n\n"
            f"mutants = runpy.run_path({__file__!r})\n"
            f"target = mutants[{type(self).__name__!r}](Instance.load(setting))"
        )


class _Managing(KVCacheManager):
    """Its parts may be of the broken kinds beside it."""

    pool: Any


class _Mirroring(MirrorManager):
    """As above."""

    pool: Any
    payload: Any
    host: Any


class Mirrors(_Scripted, MirrorTarget):
    """At level ``mirror``."""


class Pins(_Scripted, PinnedTarget):
    """At level ``pin``."""


class Tiers(_Scripted, TieredTarget):
    """At level ``tiered``."""


def mutant(oracle: str, *rules: str) -> Callable[[type[PoolTarget]], type[PoolTarget]]:
    """Enter a mutant, where it must be noticed, and after which actions."""

    def enter(kind: type[PoolTarget]) -> type[PoolTarget]:
        MUTANTS[kind.__name__] = Mutant(kind, oracle, rules)
        return kind

    return enter


# ---------------------------------------------------------------------------------------------------- machine M


@mutant("hashes", *RELEASES)
class OffloadsOnRelease(Mirrors):
    """S1: what is released moves to the host, and is not in the device's map any more (M1)."""

    class manager_kind(_Mirroring):
        def finish(self, request_id, *, abort=False):
            self._offload(self.table(request_id))
            super().finish(request_id, abort=abort)

        def preempt(self, request_id):
            self._offload(self.table(request_id))
            super().preempt(request_id)

        def trim(self, request_id, n):
            table = self.table(request_id)
            super().trim(request_id, n)
            self._offload(table[len(table) - n :])

        def _offload(self, blocks):
            for block in blocks:
                for key in self.pool.keys_of(block):
                    if key not in self.host:
                        self.host.store(key)
                self.pool._cache.remove_block(block)


@mutant("events", "hit")
class ReloadsEveryHostBlock(Mirrors):
    """S2: a lookup brings back whatever the host has, and not only what it asks for (M4)."""

    class manager_kind(_Mirroring):
        def hit(self, request_id, keys, limit):
            found = super().hit(request_id, keys, limit)
            for key in self.snapshot().host:
                if self.pool.lookup(key) is None and self.pool.num_reclaimable:
                    (block,) = self.pool.allocate(1)
                    copy_blocks(self.host.payload.data, self.payload.data, [(self.host.slot(key), block)])
                    self.pool.register(block, key, None)
                    self.pool.free([block])
            return found


@mutant("ref_cnt", "hit")
class ReloadsWithoutHolding(Mirrors):
    """S3: what is reloaded stands in the table, and in the free queue (M6)."""

    class manager_kind(_Mirroring):
        def _reload_missing(self, keys, places):
            table = super()._reload_missing(keys, places)
            self.pool.free([block for block, place in zip(table, places, strict=True) if place is None])
            return table


@mutant("ref_cnt", "hit")
class HoldsOnlyWholeReloads(Mirrors):
    """S3, in part: nothing of a reload is held that ended for lack of room (M6)."""

    class manager_kind(_Mirroring):
        def hit(self, request_id, keys, limit):
            before = self._reloaded
            found = super().hit(request_id, keys, limit)
            if before < self._reloaded and found < min(limit, len(keys)) and keys[found] in self.host:
                self.pool.free(self.table(request_id)[found - 1 :])
            return found


@mutant("hits", "hit")
class CountsReloadsTwice(Mirrors):
    """S4: a reload is a hit of the host, and then one of the device (M8)."""

    class manager_kind(_Mirroring):
        def _reload_missing(self, keys, places):
            self._hits += places.count(None)
            return super()._reload_missing(keys, places)


@mutant("hashes", "hit")
class ReloadedBlockKeepsItsOldHash(Mirrors):
    """S5: the block that a reload takes can still be found under what it held before (M5)."""

    class manager_kind(_Mirroring):
        def _reload_missing(self, keys, places):
            before = self.pool.snapshot().keys
            table = super()._reload_missing(keys, places)
            for block, place in zip(table, places, strict=True):
                for key in before.get(block, ()) if place is None else ():
                    self.pool._cache.add(block, key)
            return table


@mutant("events", "hit")
class ReloadsBeforeClaiming(Mirrors):
    """What is on the device is held only when all reloads are done: one of them may have taken it (M6)."""

    class pool_kind(BlockPool):
        late = None

        def touch(self, blocks):
            if self.late is None:
                super().touch(blocks)
            else:
                self.late += blocks

    class manager_kind(_Mirroring):
        def hit(self, request_id, keys, limit):
            self.pool.late = []
            try:
                return super().hit(request_id, keys, limit)
            finally:
                self.pool.late = None

        def _reload_missing(self, keys, places):
            table = super()._reload_missing(keys, places)
            found, self.pool.late = self.pool.late, None
            self.pool.touch(found)
            return table


@mutant("content", "hit")
class ReloadsFromWrongSlot(Mirrors):
    """The bytes of another host block come back (M5, P6)."""

    class manager_kind(_Mirroring):
        def _reload_missing(self, keys, places):
            table = super()._reload_missing(keys, places)
            host = self.host
            for key, block, place in zip(keys, table, places, strict=False):
                if place is None:
                    self.payload.data[:, :, block] = host.payload.data[:, :, (host.slot(key) + 1) % host.capacity]
            return table


@mutant("result", "hit")
class WalksPastTheGap(Mirrors):
    """A lookup goes on behind a hash that is on neither tier (M4)."""

    class manager_kind(_Mirroring):
        def _places(self, keys, asked):
            return [b for b in map(self.pool.lookup, keys[:asked]) if b is not None]


@mutant("filed", "hit")
class ForgetsUnderWhatItWasFound(Mirrors):
    """What was found on the device is never mirrored again, nor touched on the host (M2)."""

    class manager_kind(_Mirroring):
        def hit(self, request_id, keys, limit):
            found = super().hit(request_id, keys, limit)
            self._filed.pop(request_id, None)
            return found


@mutant("host", "mirror")
class MirrorDoesNotTouch(Mirrors):
    """A block that is on the host already keeps its place there (M2)."""

    class host_kind(HostTier):
        is_mirroring = False

        def touch(self, key):
            if not self.is_mirroring:
                super().touch(key)

    class manager_kind(_Mirroring):
        def mirror_batch(self, request_ids):
            self.host.is_mirroring = True
            try:
                super().mirror_batch(request_ids)
            finally:
                self.host.is_mirroring = False


@mutant("host", "mirror")
class HostEvictsWrongEnd(Mirrors):
    """The block that was used last goes first (M3)."""

    class host_kind(HostTier):
        def _evict(self):
            slot = self.slot(self.keys()[-1])
            self._order.remove(slot)
            del self._slot_of[self._key_in[slot]]
            self.evictions += 1
            return slot


@mutant("kept", "mirror")
class MirrorsWrongBlock(Mirrors):
    """The host gets another block's bytes (M3, P6)."""

    class manager_kind(_Mirroring):
        def _mirrorable(self, request_id):
            return [(key, (block + 1) % self.pool.num_blocks) for key, block in super()._mirrorable(request_id)]


@mutant("kept", "mirror")
class SharesOneHostSlot(Mirrors):
    """Two hashes, one slot: only the bytes of the second are there."""

    class host_kind(HostTier):
        def slot(self, key):
            super().slot(key)
            return 0


@mutant("latency", "hit")
class RoundsLatencyDown(Mirrors):
    """A part of a time unit is none (M7)."""

    def __init__(self, setting):
        super().__init__(setting)
        self.manager._block_latency -= 1


@mutant("reloaded", "hit")
class CountsWhatItFoundAsReloaded(Mirrors):
    """Blocks that were on the device all the time are counted too (M8)."""

    class manager_kind(_Mirroring):
        def _reload_missing(self, keys, places):
            self._reloaded += len(places) - places.count(None)
            return super()._reload_missing(keys, places)


@mutant("mirrored", "mirror")
class CountsTouchesAsStored(Mirrors):
    """A block that is on the host already is counted as mirrored again (M8)."""

    class host_kind(HostTier):
        def touch(self, key):
            super().touch(key)
            self.stored += 1


@mutant("dropped", "mirror")
class CountsNoEvictions(Mirrors):
    """The host never says that it gave something up (M8)."""

    class host_kind(HostTier):
        def _evict(self):
            slot = super()._evict()
            self.evictions -= 1
            return slot


@mutant("counted", "preempt")
class ForgetsThatItCounted(Mirrors):
    """A preempted request comes back as a new one (P15)."""

    class manager_kind(_Mirroring):
        def preempt(self, request_id):
            super().preempt(request_id)
            self.forget(request_id)


@mutant("queries", "hit")
class CountsEveryLookup(Mirrors):
    """What a request asks for after a preemption is counted again (P15)."""

    class manager_kind(_Mirroring):
        def hit(self, request_id, keys, limit):
            asked = min(limit, len(keys)) if request_id in self._counted else 0
            found = super().hit(request_id, keys, limit)
            self._queries += asked
            return found


# ---------------------------------------------------------------------------------------------------- machine D


@mutant("ref_cnt", "drop")
class PinsByReference(Pins):
    """S6: a pin is one more holder (D1)."""

    class pool_kind(PinnedPool):
        def mark(self, blocks):
            super().mark(blocks)
            for block in blocks:
                self._ref_cnt[block] += 1


@mutant("pinned", "hit")
class KeepsStaleEntries(Pins):
    """S7: a pinned block that is hit stays in the pinned queue (D3)."""

    class pool_kind(PinnedPool):
        def touch(self, blocks):
            pinned = [block for block in blocks if block in range(self.num_blocks) and self.is_pinned(block)]
            super().touch([block for block in blocks if block not in pinned])
            for block in pinned:
                self._ref_cnt[block] += 1


@mutant("refusal", "open_gate")
class GateDemotesNothing(Pins):
    """S8: an admission gate looks at free blocks only (D5)."""

    class pool_kind(PinnedPool):
        def make_room(self, n):
            return BlockPool.make_room(self, n)

        def allocate(self, n):
            PinnedPool.make_room(self, n)
            return BlockPool.allocate(self, n)


@mutant("hashes", "drop")
class MasksWhatItPins(Pins):
    """S9: blocks behind the window are kept out of the map, also those that are pinned to be found (D4)."""

    class pool_kind(PinnedPool):
        def mark(self, blocks):
            super().mark(blocks)
            for block in blocks:
                self._cache.remove_block(block)


@mutant("marked", "open_gate", "allocate")
class GateDemotesAll(Pins):
    """Whoever lacks one block gets all pinned ones (D5)."""

    class pool_kind(PinnedPool):
        def make_room(self, n):
            made = 0 <= n <= self.num_free or super().make_room(n)
            if made and n > self.num_free - 1:
                self.demote(self.num_pinned)
            return made


@mutant("marked", "drop")
class DropMarksOldest(Pins):
    """The window's oldest blocks are pinned, the newest are freed (D4)."""

    class pool_kind(PinnedPool):
        behind = ()

        def mark(self, blocks):
            super().mark(self.behind[len(self.behind) - len(blocks) :] if self.behind else blocks)

    class manager_kind(_Managing):
        def drop(self, request_id, before, *, window_blocks=0, min_drop=16):
            if self.is_inside(request_id):
                self.pool.behind = [b for b in self.table(request_id)[:before][::-1] if self.pool.has_keys(b)]
            try:
                return super().drop(request_id, before, window_blocks=window_blocks, min_drop=min_drop)
            finally:
                self.pool.behind = ()


@mutant("marked", *DEMOTIONS)
class DemotesYoungestFirst(Pins):
    """The block that was pinned last goes first (D2)."""

    class pool_kind(PinnedPool):
        def demote(self, n):
            blocks = list(self._pinned.walk())[::-1][:n]
            self._pinned.remove_n(blocks, in_range=True)
            self._marked.difference_update(blocks)
            self._free.append_n(blocks, in_range=True)
            return len(blocks)


@mutant("marked", "evict")
class EvictKeepsMark(Pins):
    """A block without hashes is still to be kept (D3)."""

    class pool_kind(PinnedPool):
        def evict(self, block):
            BlockPool.evict(self, block)


@mutant("result", "drop")
class SaysOtherBlocksWereDropped(Pins):
    """The answer names the blocks first to last (D4)."""

    class manager_kind(_Managing):
        def drop(self, request_id, before, *, window_blocks=0, min_drop=16):
            return super().drop(request_id, before, window_blocks=window_blocks, min_drop=min_drop)[::-1]


@mutant("refusal", "allocate")
class PinsForEver(Pins):
    """Nothing is demoted for an allocation (D5)."""

    class pool_kind(PinnedPool):
        def allocate(self, n):
            return BlockPool.allocate(self, n)


# ---------------------------------------------------------------------------------------------------- both together


@mutant("result", "hit")
class ReloadsIntoFreeBlocksOnly(Tiers):
    """A reload does not demote: pinned blocks are no room (M6, D5)."""

    class manager_kind(_Mirroring):
        def _end(self, places):
            end = super()._end(places)
            room = self.pool.num_free
            return next((i for i in range(end) if places[: i + 1].count(None) > room), end)


@mutant("marked", "hit")
class LettingGoUnmarks(Tiers):
    """A lookup takes the mark off what it finds (D3)."""

    class manager_kind(_Mirroring):
        def hit(self, request_id: int | str, keys: Sequence[bytes], limit: int) -> int:
            found = super().hit(request_id, keys, limit)
            self.pool._marked.difference_update(self.table(request_id))
            return found


@mutant("host", "drop")
class DropsToTheHost(Tiers):
    """What a window leaves behind moves to the host (M1)."""

    class manager_kind(_Mirroring):
        def drop(self, request_id, before, *, window_blocks=0, min_drop=16):
            if 0 <= before <= self.num_positions(request_id):
                self.mirror(request_id)
            return super().drop(request_id, before, window_blocks=window_blocks, min_drop=min_drop)
