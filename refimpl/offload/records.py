"""What a manager with offload keeps of requests and of transfers, and what it shows of them."""

from dataclasses import dataclass, field, fields

from ..pool.block_pool import PoolSnapshot
from ..pool.manager import ManagerSnapshot, RequestId
from .transfers import Message

__all__ = ["OfferStats", "OffloadSnapshot", "Pins", "Tier", "Transfer", "TransferSnapshot"]


@dataclass(frozen=True, slots=True)
class OfferStats:
    """What became of the blocks that were offered, or found by a scan (O9). All numbers only grow."""

    stored: int = 0
    """A store was begun."""
    resident: int = 0
    """Dropped: the key was on the host."""
    in_flight: int = 0
    """Dropped: a store of this block under this key was on its way (O3)."""
    host_full: int = 0
    """Dropped: the host had no block that nobody holds (O12). A scan does not drop such a block, it waits there."""
    forgotten: int = 0
    """Dropped: the block had lost its key."""
    unfiled: int = 0
    """Passed over: the position had no key, such as a partly filled block or the null block."""


@dataclass(frozen=True, slots=True)
class TransferSnapshot:
    """One transfer in flight."""

    pairs: tuple[tuple[int, int], ...]
    """(source block, destination block)."""
    keys: tuple[bytes, ...]
    """The key of each pair: what the content is called."""
    reported: frozenset[int]
    """The workers that have reported."""
    failed: bool
    """Whether one of these reports was bad."""
    request: RequestId | None
    """Of a load: the request that it was planned for, which may be gone."""
    first: int
    """Of a load: the position in that request's table that its first pair is for."""


@dataclass(frozen=True, slots=True)
class OffloadSnapshot(ManagerSnapshot):
    """The whole observable state of a manager with offload: the device side, and what is added here."""

    host: PoolSnapshot
    """The state of the host's pool."""
    pins: dict[RequestId, dict[int, int]]
    """The host block that a lookup holds for each position; requests without pins are left out (O5)."""
    stores: dict[int, TransferSnapshot]
    """The stores in flight, sent or not, by id."""
    loads: dict[int, TransferSnapshot]
    """The loads in flight, sent or not, by id."""
    unsent: tuple[int, ...]
    """The transfers that no worker knows yet."""
    filed: dict[RequestId, tuple[bytes | None, ...]]
    """The key under which each position of each table was hit or, once full, registered."""
    offered: dict[RequestId, int]
    """How many positions of each table were offered (eager mode)."""
    external: dict[RequestId, int]
    """How many positions of each table were or are being loaded."""
    computing: frozenset[int]
    """The blocks that a step still writes."""
    cursor: int | None
    """The block behind which the next scan goes on, ``None`` for the head of the queue (lazy mode)."""
    stats: OfferStats
    """What became of the offers."""

    @property
    def device(self) -> ManagerSnapshot:
        """The device side alone: what a manager without offload shows."""
        return ManagerSnapshot(**{part.name: getattr(self, part.name) for part in fields(ManagerSnapshot)})


@dataclass(slots=True)
class Pins:
    """What a lookup found on the host, for consecutive positions from ``first`` on."""

    first: int
    blocks: list[int]
    keys: list[bytes]


@dataclass(slots=True)
class Tier:
    """What is known of a request inside, beyond its table."""

    filed: dict[int, bytes] = field(default_factory=dict)
    external: set[int] = field(default_factory=set)
    offered: int = 0
    pins: Pins | None = None


@dataclass(slots=True)
class Transfer:
    """A message, and what is known of its progress."""

    message: Message
    keys: list[bytes]
    waiting: set[int]
    """The workers that have yet to report."""
    failed: bool = False
    request: RequestId | None = None
    first: int = 0
