"""What tiers in virtual time report and show: events, landings, and the whole state."""

from dataclasses import dataclass
from typing import Generic, Literal

from ..pool.manager import RequestId
from .links import Completion, LinksSnapshot, N

Tier = Literal["device", "host"]
"""Where a block can be found."""

Cargo = tuple[tuple[int, bytes], ...]
"""(slot, key) of each block that a transfer moves, in order."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A block can be found in a tier now (G6)."""

    tier: Tier
    key: bytes


@dataclass(frozen=True, slots=True)
class Removed:
    """A block can no longer be found in a tier (G6)."""

    tier: Tier
    key: bytes


TierEvent = Stored | Removed
"""What a tier reports. Replaying the events gives exactly what can be found, per tier (P12)."""


@dataclass(frozen=True, slots=True)
class Landed(Generic[N]):
    """A transfer that came to its end."""

    completion: Completion[N]
    """What the link says of it."""
    cargo: Cargo
    """What it moved."""
    promoted: RequestId | None
    """The request that need not wait any more: whose swap-in this was; ``None`` for an offload (G5)."""


@dataclass(frozen=True, slots=True)
class TiersSnapshot(Generic[N]):
    """The whole observable state but for the event backlog: with equal snapshots two workers behave alike."""

    free: tuple[int, ...]
    """The free queue, first to be allocated first."""
    idle: tuple[int, ...]
    """The slots that nobody uses and that carry a key, first to be evicted first."""
    used: frozenset[int]
    """The slots in use."""
    keys: dict[int, bytes]
    """The key that each slot carries; such a slot is used or idle."""
    found: dict[bytes, int]
    """The slot under which each key is found: ``keys`` the other way round."""
    gathered: Cargo
    """The open batch."""
    offloads: dict[int, Cargo]
    """The offloads in flight, by transfer."""
    swap_ins: dict[int, tuple[RequestId, Cargo]]
    """The swap-ins in flight, by transfer, with the request that waits."""
    host: tuple[bytes, ...]
    """The host blocks that nobody reads, first to be evicted first."""
    reading: dict[bytes, int]
    """The host blocks that are being read, each with how many swap-ins read it."""
    links: LinksSnapshot[N]
    """The links, and the time."""
