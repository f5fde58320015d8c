"""What the pool reports about its prefix-cache map (P12).

Replaying the events gives exactly the set of keys for which a lookup succeeds. Several blocks may carry one key, so
the unit of an event is the key, not the copy: stored when its first copy is registered, removed when its last goes.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BlockStored:
    """``key`` became hittable: ``block`` is its first copy. ``parent`` is the key before it in its chain, if any."""

    key: bytes
    parent: bytes | None
    block: int


@dataclass(frozen=True, slots=True)
class BlockRemoved:
    """``key`` is no longer hittable: the last block that carried it lost it."""

    key: bytes


@dataclass(frozen=True, slots=True)
class AllBlocksCleared:
    """No key is hittable any more: the map was reset."""


Event = BlockStored | BlockRemoved | AllBlocksCleared
