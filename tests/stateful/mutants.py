"""The reference implementation with one thing wrong, once for everything that is compared.

Each mutant is a target of its own; ``MUTANTS`` says in what a checker must notice it. Some faults reach into the
implementation's own structures: a fault that shows in one view only is a fault of that structure.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from kvproof.checkers.target import Answer, Args
from kvproof.harness.pool.target import PoolTarget
from kvproof.refimpl.errors import RefusedError
from kvproof.refimpl.events import BlockRemoved, BlockStored, Event
from kvproof.refimpl.pool.block_pool import BlockPool
from kvproof.refimpl.pool.manager import KVCacheManager, _Entry

MUTANTS: dict[str, tuple[type[PoolTarget], str]] = {}


class Mutant(PoolTarget):
    """A target whose manager, or pool, is of a broken subclass."""

    def preamble(self) -> str:
        # Not part of the package: a script finds it by its file.
        return (
            "import runpy\nfrom kvproof.harness.instances import Instance\n\n"
            f"mutants = runpy.run_path({__file__!r})\n"
            f"target = mutants[{type(self).__name__!r}](Instance.load(setting))"
        )


def mutant(oracle: str) -> Callable[[type[PoolTarget]], type[PoolTarget]]:
    """Enter a mutant, and where it must be noticed."""

    def enter(kind: type[PoolTarget]) -> type[PoolTarget]:
        MUTANTS[kind.__name__] = kind, oracle
        return kind

    return enter


@mutant("free")
class FreesInTableOrder(Mutant):
    """First block first, instead of last block first (P10)."""

    class pool_kind(BlockPool):
        def free(self, blocks: Sequence[int]) -> None:
            super().free(blocks[::-1])


@mutant("free")
class ForgetsToCountQueue(Mutant):
    """The queue's counter is one too high after a hit on a free block (P3)."""

    class pool_kind(BlockPool):
        def touch(self, blocks: Sequence[int]) -> None:
            before = len(self._free)
            super().touch(blocks)
            if len(self._free) < before:
                self._free._length += 1


@mutant("ref_cnt")
class ForgetsSecondHolder(Mutant):
    """Touching a block that is held already counts nothing (P2)."""

    class pool_kind(BlockPool):
        def touch(self, blocks: Sequence[int]) -> None:
            super().touch([b for b in blocks if self._ref_cnt[b] == 0])


@mutant("table")
class AllocatesBackwards(Mutant):
    """The right blocks, in the wrong order (P7)."""

    class pool_kind(BlockPool):
        def allocate(self, n: int) -> list[int] | None:
            blocks = super().allocate(n)
            return None if blocks is None else blocks[::-1]


@mutant("length")
class LeavesEmptyEntry(Mutant):
    """A trimmed table keeps one entry that names no block."""

    class manager_kind(KVCacheManager):
        def trim(self, request_id: int | str, n: int) -> None:
            super().trim(request_id, n)
            self._entry(request_id).table.append(-1)


@mutant("running")
class NeverLeaves(Mutant):
    """A finished request stays inside, with an empty table."""

    class manager_kind(KVCacheManager):
        def finish(self, request_id: int | str, *, abort: bool = False) -> None:
            need = self.need(request_id)
            super().finish(request_id, abort=abort)
            self._inside[request_id] = _Entry(need, [])


@mutant("hashes")
class ForgetsKeyOfBlock(Mutant):
    """The map knows the block, the block does not know its key (P5)."""

    class pool_kind(BlockPool):
        def register(self, block: int, key: bytes, parent: bytes | None) -> None:
            super().register(block, key, parent)
            self._cache._keys_of.pop(block)


@mutant("cached")
class FindsNewestFirst(Mutant):
    """A lookup returns the block that was registered last, not first (P5)."""

    class pool_kind(BlockPool):
        def register(self, block: int, key: bytes, parent: bytes | None) -> None:
            super().register(block, key, parent)
            entry = self._cache._blocks_of[key]
            if isinstance(entry, OrderedDict):
                entry.move_to_end(block, last=False)


@mutant("events")
class ReportsEveryCopy(Mutant):
    """Stored is reported for each copy, and not for the first (P12)."""

    class pool_kind(BlockPool):
        def register(self, block: int, key: bytes, parent: bytes | None) -> None:
            is_known = self.lookup(key) is not None
            super().register(block, key, parent)
            if is_known:
                self._events.append(BlockStored(key, parent, self._cache.lookup(key) or 0))


@mutant("events")
class ReportsNoRemoval(Mutant):
    """Keys go without a word when their block is handed out (P12)."""

    class pool_kind(BlockPool):
        def allocate(self, n: int) -> list[int] | None:
            blocks = super().allocate(n)
            self._events = [e for e in self._events if not isinstance(e, BlockRemoved)]
            return blocks


@mutant("announced")
class ListenerMissesRemoval(PoolTarget):
    """Not the implementation but the fold over its events is wrong."""

    preamble = Mutant.preamble

    def _hear(self, event: Event) -> tuple[Any, ...]:
        before = self._announced[:]
        heard = super()._hear(event)
        if isinstance(event, BlockRemoved):
            self._announced = before
        return heard


@mutant("reported")
class ListenerForgetsAll(PoolTarget):
    """What was ever reported is forgotten when the cache is cleared."""

    preamble = Mutant.preamble

    def apply(self, action: str, args: Args) -> Answer:
        answer = super().apply(action, args)
        if answer.events == (("cleared",),):
            self._reported = [False] * len(self._reported)
        return answer


@mutant("result")
class SaysAllWasFound(Mutant):
    """A hit answers with how many blocks it looked for."""

    class manager_kind(KVCacheManager):
        def hit(self, request_id: int | str, keys: Sequence[bytes], limit: int) -> int:
            super().hit(request_id, keys, limit)
            return min(limit, len(keys))


@mutant("content")
class WritesOtherToken(Mutant):
    """The KV of another prefix than the one that was computed."""

    class manager_kind(KVCacheManager):
        def write(self, request_id: int | str, position: int, slot: int, digest: int) -> None:
            super().write(request_id, position, slot, digest + 1)


@mutant("content")
class WritesNextBlockToo(Mutant):
    """A write spills into the block behind, which nobody looks at soon (P6)."""

    class manager_kind(KVCacheManager):
        def write(self, request_id: int | str, position: int, slot: int, digest: int) -> None:
            super().write(request_id, position, slot, digest)
            block = self._block(request_id, position) + 1
            if self.payload is not None and block < self.pool.num_blocks:
                self.payload.write(block, slot, digest)


@mutant("refusal")
class WritesWhatIsShared(Mutant):
    """No look at other holders before a write (P6). Seldom seen: what is shared has keys, unless they are evicted."""

    class manager_kind(KVCacheManager):
        def _check_writable(self, block: int, slot: int) -> None:
            if self.pool.ref_cnt(block) <= 1 or not 0 <= slot < self.block_tokens:
                super()._check_writable(block, slot)
            elif slot < self.covered_slots(block):
                raise RefusedError("the slot is covered")


@mutant("refusal")
class WritesWhatIsCovered(Mutant):
    """No look at the keys of a block before a write (P6)."""

    class manager_kind(KVCacheManager):
        def covered_slots(self, block: int) -> int:
            return 0


@mutant("refusal")
class KeepsOneBlock(Mutant):
    """The last free block is never handed out (P7)."""

    class pool_kind(BlockPool):
        def allocate(self, n: int) -> list[int] | None:
            return None if n == self.num_free else super().allocate(n)


@mutant("stray")
class CountsBlocksFromTheEnd(Mutant):
    """Block -1 is taken for the last one (P9)."""

    class pool_kind(BlockPool):
        def evict(self, block: int) -> None:
            super().evict(self.num_blocks - 1 if block == -1 else block)


@mutant("residue")
class CountsRefusedQueries(Mutant):
    """A lookup that is refused is counted as a query all the same (P15)."""

    class manager_kind(KVCacheManager):
        def hit(self, request_id: int | str, keys: Sequence[bytes], limit: int) -> int:
            try:
                return super().hit(request_id, keys, limit)
            except RefusedError:
                self._queries += 1
                raise


@mutant("crash")
class FailsOnNothing(Mutant):
    """A preemption of a request that holds nothing is an internal error."""

    class manager_kind(KVCacheManager):
        def preempt(self, request_id: int | str) -> None:
            if self.is_inside(request_id) and not self.table(request_id):
                raise IndexError("pop from empty list")
            super().preempt(request_id)
