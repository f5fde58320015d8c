"""What a replay needs of a block manager, and the reference implementation as such a target."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from ..refimpl.events import AllBlocksCleared, BlockRemoved, BlockStored, Event
from ..refimpl.pool.block_pool import BlockPool, FreeOrder
from ..refimpl.pool.manager import KVCacheManager
from ..refimpl.pool.request_flow import RequestFlow
from ..refimpl.tiers.host_tier import HostTier
from ..refimpl.tiers.mirror import MirrorManager
from .requests import BLOCK_TOKENS, Request

Key = Hashable
"""What a target names a cached block by; the checker only compares keys."""


class Started(NamedTuple):
    """A request that a target let in."""

    hits: int
    """Leading blocks of the table that were found in the cache, on either tier."""
    table: Sequence[int]
    """The block ids of the whole prompt."""
    keys: Sequence[Key]
    """The keys of its full blocks."""
    reloaded: int = 0
    """How many of the hits came back from the host."""


class MapEvent(NamedTuple):
    """One event about the prefix-cache map (P12)."""

    kind: Literal["stored", "removed", "cleared"]
    key: Key = None
    """The key; ``None`` when the map was cleared."""
    parent: Key = None
    """The key before it in its chain, when one was named."""


@dataclass(frozen=True, slots=True)
class View:
    """The observable state of a target, read from its own structures."""

    free: Sequence[int]
    """The free queue in eviction order, by walking it."""
    num_free: int
    """The counter that the target keeps of it."""
    ref_cnt: Sequence[int]
    """Holders of each block, by id."""
    keys: Mapping[int, Sequence[Key]]
    """The keys of each block that has any."""
    copies: Mapping[Any, Sequence[int]]
    """The blocks of each key, in order of registration."""


class ReplayTarget(Protocol):
    """A block manager that can replay a workload: one group, blocks of 512 tokens, prefix caching."""

    @property
    def name(self) -> str:
        """What the target is called on the command line."""

    @property
    def usable(self) -> int:
        """How many blocks it can hand out."""

    @property
    def null_block(self) -> int | None:
        """The id of its null block, if it keeps one (P4)."""

    @property
    def free_order(self) -> Literal["append", "split"] | None:
        """Its dialect of P10, if it is known."""

    def start(self, request: Request) -> Started | None:
        """Look up the prompt, take room for all of it, compute it and register its full blocks.

        ``None``, and nothing changed, if too few blocks are free now.
        """

    def finish(self, request: Request) -> None:
        """Let a request leave; its blocks are freed."""

    def take_events(self) -> Sequence[MapEvent] | None:
        """Return the events since the last call; ``None`` from a target that reports none."""

    def view(self) -> View:
        """Return the observable state."""


class HostCounts(NamedTuple):
    """What a target with a host tier has counted so far (M7, M8)."""

    hits: int = 0
    """Blocks found on either tier."""
    reloaded: int = 0
    """Those of them that came back from the host."""
    mirrored: int = 0
    """Blocks stored on the host."""
    evicted: int = 0
    """Blocks that lost their place on the host to others."""
    latency: int = 0
    """The time units that the reloads cost."""


@runtime_checkable
class TieredReplayTarget(ReplayTarget, Protocol):
    """A block manager with a host tier: ``start`` reloads (M4 to M6), ``mirror`` stores (M2)."""

    @property
    def host_capacity(self) -> int:
        """The most blocks that the host keeps (M3)."""

    @property
    def base_latency(self) -> int:
        """The time units that each reloaded block costs, whatever its size (M7)."""

    @property
    def bandwidth(self) -> Fraction:
        """The tokens that are reloaded per time unit (M7)."""

    def mirror(self, request: Request) -> None:
        """Bring the full blocks of a request that is inside to the host."""

    def host_keys(self) -> Sequence[Key]:
        """Return the keys on the host, the one to be evicted next first."""

    def counts(self) -> HostCounts:
        """Return the counters."""


class RefimplTarget:
    """The reference implementation: real tokens are hashed, no payload is moved."""

    name = "refimpl"

    def __init__(self, capacity: int, *, free_order: FreeOrder = "split") -> None:
        """Make one with ``capacity`` usable blocks, and a null block besides."""
        self._pool = BlockPool(capacity + 1, free_order=free_order)
        self._flow = RequestFlow(self._make_manager())
        self._waiting: set[int] = set()
        self.usable = self._pool.usable
        self.null_block = self._pool.null_block
        self.free_order = free_order

    def _make_manager(self) -> KVCacheManager:
        """Return a manager of the pool."""
        return KVCacheManager(self._pool, block_tokens=BLOCK_TOKENS)

    def start(self, request: Request) -> Started | None:
        """Add, schedule and compute a request."""
        flow = self._flow
        name = request.index
        if name not in self._waiting:
            if not flow.add_request(name, request.tokens()):
                return None
            self._waiting.add(name)
        hit_tokens = flow.schedule(name)
        if hit_tokens is None:
            return None
        self._waiting.discard(name)
        flow.compute(name)
        return Started(hit_tokens // BLOCK_TOKENS, flow.manager.table(name), flow.keys(name))

    def finish(self, request: Request) -> None:
        """Let a request leave."""
        self._flow.finish(request.index)

    def take_events(self) -> Sequence[MapEvent]:
        """Return the pool's events."""
        return [map_event(event) for event in self._pool.take_events()]

    def view(self) -> View:
        """Return the pool's snapshot."""
        state = self._pool.snapshot()
        return View(state.free, state.num_free, state.ref_cnt, state.keys, state.copies)


class RefimplHostTarget(RefimplTarget):
    """The reference implementation with a host tier behind it; no payload is moved."""

    def __init__(
        self,
        capacity: int,
        host_capacity: int,
        *,
        free_order: FreeOrder = "split",
        base_latency: int = 0,
        bandwidth: Fraction = Fraction(1),
    ) -> None:
        """Make one with ``capacity`` usable blocks on the device and ``host_capacity`` on the host."""
        self.host_capacity = host_capacity
        self.base_latency = base_latency
        self.bandwidth = bandwidth
        self._latency = 0
        super().__init__(capacity, free_order=free_order)

    def _make_manager(self) -> MirrorManager:
        """Return a manager of the pool, with an empty host tier."""
        self._manager = MirrorManager(
            self._pool,
            block_tokens=BLOCK_TOKENS,
            host=HostTier(self.host_capacity),
            base_latency=self.base_latency,
            bandwidth=self.bandwidth,
        )
        return self._manager

    def start(self, request: Request) -> Started | None:
        """Add, schedule and compute a request; schedule reloads what the device has lost."""
        before = self._manager.reloaded
        answer = super().start(request)
        self._latency += self._manager.take_latency()
        return None if answer is None else answer._replace(reloaded=self._manager.reloaded - before)

    def mirror(self, request: Request) -> None:
        """Bring the full blocks of a request to the host."""
        self._manager.mirror(request.index)

    def host_keys(self) -> Sequence[Key]:
        """Return the keys of the host tier, by walking its links."""
        return self._manager.host.keys()

    def counts(self) -> HostCounts:
        """Return what the manager and its host tier have counted."""
        manager = self._manager
        host = manager.host
        return HostCounts(manager.stats.hits, manager.reloaded, host.stored, host.evictions, self._latency)


def map_event(event: Event) -> MapEvent:
    """Return an event of the reference implementation in the neutral form."""
    match event:
        case BlockStored(key, parent, _):
            return MapEvent("stored", key, parent)
        case BlockRemoved(key):
            return MapEvent("removed", key)
        case AllBlocksCleared():
            return MapEvent("cleared")
