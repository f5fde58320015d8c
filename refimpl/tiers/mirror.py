"""A manager with a host tier behind it: full blocks are mirrored to the host, and reloaded when the device lost them.

Mirroring copies and never moves: a freed block keeps its keys and its place on the device (M1), and the host only
makes a prefix outlive its eviction there. One step of an engine is, in this order::

    hit, allocate -> forward pass, register -> mirror_batch of the step's requests -> finish of those that are done
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from math import ceil, inf
from warnings import warn

from ...kernels.copy import copy_blocks
from ..errors import RefusedError
from ..payload import Payload
from ..pool.block_pool import BlockPool
from ..pool.manager import KVCacheManager, ManagerSnapshot, RequestId
from .host_tier import HostTier


@dataclass(frozen=True, slots=True)
class MirrorSnapshot(ManagerSnapshot):
    """The whole observable state of a manager with a host tier: the device side, and what is added here.

    As the event backlog is not part of it, neither is the latency that waits to be taken.
    """

    host: tuple[bytes, ...]
    """The keys on the host, the one to be evicted next first, by walking the links."""
    filed: dict[RequestId, tuple[bytes | None, ...]]
    """The key under which each position of each table may be mirrored, if any."""
    mirrored: int
    """Blocks stored on the host so far."""
    evicted: int
    """Blocks evicted from the host so far."""
    reloaded: int
    """Blocks reloaded to the device so far."""

    @property
    def device(self) -> ManagerSnapshot:
        """The device side alone: what a manager without a host tier shows."""
        return ManagerSnapshot(**{field.name: getattr(self, field.name) for field in fields(ManagerSnapshot)})


class MirrorManager(KVCacheManager):
    """A ``KVCacheManager`` whose hits reach into a host tier. All other steps are those of the manager.

    Only ``mirror`` puts blocks on the host and only ``hit`` takes them back; ``finish``, ``preempt``, ``trim`` and
    ``evict`` move nothing there (M1). Nor does ``reset``: what the host keeps is still what its keys name, and can be
    reloaded. ``HostTier.clear`` forgets it.

    A ``hit`` starts a table with the blocks of a prefix from either tier (M4, M8, P8, P14). The walk ends at the first
    key on neither tier, at the limit, or where a block must be reloaded and none is free. Before anything is reloaded,
    every block of that prefix that is on the device is held, also behind a gap, so that a reload destroys no key that
    this lookup relies on (M6). Each reload takes the head of the free queue, straight into the table (M5). Held blocks
    behind the end of the walk are let go, last first. A reloaded block is one hit, as one found on the device is.
    """

    __slots__ = ("_block_latency", "_filed", "_latency", "_reloaded", "host")

    def __init__(
        self,
        pool: BlockPool,
        *,
        block_tokens: int,
        host: HostTier,
        payload: Payload | None = None,
        base_latency: int = 0,
        bandwidth: float | Fraction = 1,
        offload_threshold: float | None = None,
    ) -> None:
        """Manage ``pool`` with ``host`` behind it.

        Args:
            pool: the pool; nobody else may allocate from or free to it.
            block_tokens: tokens per block.
            host: the host tier; nobody else may store into it. It may hold blocks already, of the same engine.
            payload: where the KV of the tokens goes. The host tier has one exactly when the device has, and both
                differ in the number of blocks and in the device at most.
            base_latency: time units that each reloaded block costs, whatever its size (M7).
            bandwidth: tokens per time unit at which a block is reloaded (M7). It is taken at its exact value: a
                ``float`` of 0.3 is a little less than 3/10; ``Fraction(3, 10)`` is not.
            offload_threshold: deprecated, ignored with a warning (M7): nothing is offloaded when memory runs short.
        """
        super().__init__(pool, block_tokens=block_tokens, payload=payload)
        if not isinstance(base_latency, int) or base_latency < 0:
            raise RefusedError(f"base_latency must be a whole number, 0 or more, got {base_latency!r}")
        if not 0 < bandwidth < inf:
            raise RefusedError(f"bandwidth must be finite and more than 0, got {bandwidth!r}")
        _check_payloads(payload, host.payload)
        if offload_threshold is not None:
            warn("offload_threshold is deprecated and ignored", DeprecationWarning, stacklevel=2)
        self.host = host
        self._filed: dict[RequestId, dict[int, bytes]] = {}
        self._block_latency = base_latency + ceil(block_tokens / Fraction(bandwidth))
        self._latency = 0
        self._reloaded = 0

    # Device to host.

    def mirror(self, request_id: RequestId) -> None:
        """Bring the full blocks of a request to the host (M2); ``mirror_batch`` of one."""
        self.mirror_batch((request_id,))

    def mirror_batch(self, request_ids: Iterable[RequestId] | None) -> None:
        """Bring the full blocks of some requests to the host, each request's first to last (M2).

        To be called after each step, for the requests of its batch, before those that are done finish. A block whose
        key is on the host is touched there, any other is stored and its content copied. Partly filled blocks and
        blocks whose key was taken off since are passed over. The device is only read; no request is fine.
        """
        host = self.host
        keys = [key for request_id in request_ids or () for key in self._mirrorable(request_id)]
        # A slot that is used twice in this call, since the host is smaller than the batch, ends with the later block.
        copies: dict[int, int] = {}
        for key, block in keys:
            if key in host:
                host.touch(key)
            else:
                copies[host.store(key)] = block
        if self.payload is not None and host.payload is not None:
            copy_blocks(self.payload.data, host.payload.data, [(block, slot) for slot, block in copies.items()])

    def register(self, request_id: RequestId, position: int, key: bytes, parent: bytes | None, covered: int) -> None:
        """Let lookups of ``key`` find the block at ``position`` (P5). Once it covers all slots, it can be mirrored."""
        super().register(request_id, position, key, parent, covered)
        if covered == self.block_tokens:
            filed = self._filed.setdefault(request_id, {})
            if not self._carries(request_id, position, filed.get(position)):
                filed[position] = key

    # Host to device.

    def _take_prefix(self, request_id: RequestId, table: list[int], keys: Sequence[bytes], asked: int) -> None:
        """Hold what is found on the device, reload what is not."""
        places = self._places(keys, asked)
        end = self._end(places)
        self.pool.touch(_found(places))
        table.extend(self._reload_missing(keys, places[:end]))
        self.pool.free(_found(places[end:])[::-1])
        if end:
            self._filed[request_id] = dict(enumerate(keys[:end]))

    def find(self, keys: Sequence[bytes], limit: int) -> list[int]:
        """Return the cached device blocks that a ``hit`` with these arguments would put into the table.

        Blocks that it would reload are not among them: such a position costs a free block, as an uncached one does.
        So with two tiers, too, a table of n positions can be had exactly when ``n - len(found)`` is at most the
        number of blocks that nobody holds and that are not in ``found``. Nothing changes.
        """
        places = self._places(keys, min(limit, len(keys)))
        return _found(places[: self._end(places)])

    def reach(self, keys: Sequence[bytes], limit: int) -> int:
        """Return how many blocks a ``hit`` with these arguments would return, reloaded ones included. Nothing changes.

        With one tier, that is the length of what ``find`` returns.
        """
        return self._end(self._places(keys, min(limit, len(keys))))

    def take_latency(self) -> int:
        """Return the time units that the reloads since the last call cost, and forget them (M7).

        Each block costs the base and its tokens divided by the bandwidth, rounded up: in exact arithmetic.
        """
        latency, self._latency = self._latency, 0
        return latency

    # Tables shrink.

    def finish(self, request_id: RequestId, *, abort: bool = False) -> None:
        """Let a request leave for good, as in the manager. Its blocks keep their keys, nothing moves (M1)."""
        super().finish(request_id, abort=abort)
        self._filed.pop(request_id, None)

    def preempt(self, request_id: RequestId) -> None:
        """Let a request leave for now, as in the manager. Its blocks keep their keys, nothing moves (M1)."""
        super().preempt(request_id)
        self._filed.pop(request_id, None)

    def trim(self, request_id: RequestId, n: int) -> None:
        """Free the last ``n`` entries of a table, as in the manager."""
        super().trim(request_id, n)
        filed = self._filed.get(request_id)
        if filed:
            length = len(self._entry(request_id).table)
            for position in range(length, length + n):
                filed.pop(position, None)

    # Observation.

    @property
    def reloaded(self) -> int:
        """The number of blocks reloaded to the device so far (M8)."""
        return self._reloaded

    @property
    def thrash_rate(self) -> float:
        """Evictions from the host per block stored there; 0 when nothing was stored (M8)."""
        return self.host.evictions / self.host.stored if self.host.stored else 0.0

    def snapshot(self) -> MirrorSnapshot:
        """Collect the whole observable state of both tiers. Linear: for checkers, not for serving."""
        device = super().snapshot()
        filed = {
            request_id: tuple(map(self._filed.get(request_id, {}).get, range(len(table))))
            for request_id, table in device.tables.items()
        }
        return MirrorSnapshot(
            **{field.name: getattr(device, field.name) for field in fields(ManagerSnapshot)},
            host=self.host.keys(),
            filed=filed,
            mirrored=self.host.stored,
            evicted=self.host.evictions,
            reloaded=self._reloaded,
        )

    # Parts of the steps above.

    def _mirrorable(self, request_id: RequestId) -> list[tuple[bytes, int]]:
        """Return the key and the block of each position of a table that may be mirrored, in order.

        A key that was taken off its block does not count, nor the null block, which never carries one.
        """
        table = self._entry(request_id).table
        filed = self._filed.get(request_id, {})
        keyed = ((filed[position], block) for position, block in enumerate(table) if position in filed)
        return [(key, block) for key, block in keyed if key in self.pool.keys_of(block)]

    def _places(self, keys: Sequence[bytes], asked: int) -> list[int | None]:
        """Look up leading keys until one is on neither tier: the device block of each, ``None`` if it is on the host.

        Two equal keys, which no chain of keys has, are both found or both reloaded.
        """
        places: list[int | None] = []
        for position in range(asked if self.pool.caching else 0):
            key = keys[position]
            block = self.pool.lookup(key)
            if block is None and key not in self.host:
                break
            places.append(block)
        return places

    def _end(self, places: list[int | None]) -> int:
        """Return the position of the first reload for which no block is free once all found ones are held (M6)."""
        pool = self.pool
        room = pool.num_reclaimable - sum(1 for block in set(_found(places)) if pool.ref_cnt(block) == 0)
        for position, block in enumerate(places):
            if block is None:
                if room < 1:
                    return position
                room -= 1
        return len(places)

    def _reload_missing(self, keys: Sequence[bytes], places: list[int | None]) -> list[int]:
        """Return the blocks of these places, those on the host reloaded, in order (M5). Their room is assured."""
        table: list[int] = []
        copies: list[tuple[int, int]] = []
        for position, place in enumerate(places):
            block = place
            if block is None:
                key = keys[position]
                taken = self.pool.allocate(1)
                assert taken is not None
                (block,) = taken
                copies.append((self.host.slot(key), block))
                self.pool.register(block, key, keys[position - 1] if position else None)
                self._covered[block] = self.block_tokens
                self.host.touch(key)
            table.append(block)
        self._reloaded += len(copies)
        self._latency += len(copies) * self._block_latency
        if self.payload is not None and self.host.payload is not None:
            copy_blocks(self.host.payload.data, self.payload.data, copies)
        return table


def _found(places: Iterable[int | None]) -> list[int]:
    """Return the places that are device blocks, in order."""
    return [block for block in places if block is not None]


def _check_payloads(device: Payload | None, host: Payload | None) -> None:
    """Refuse two payloads between which no block can be copied."""
    if (device is None) != (host is None):
        raise RefusedError("the device and the host tier both have a payload, or neither has")
    if device is not None and host is not None:
        here, there = device.data, host.data
        if here[:, :, 0].shape != there[:, :, 0].shape or here.dtype != there.dtype:
            raise RefusedError(
                f"blocks of the device, {tuple(here.shape)} {here.dtype}, do not fit those of the host, "
                f"{tuple(there.shape)} {there.dtype}"
            )
