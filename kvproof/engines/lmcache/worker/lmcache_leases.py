"""What the level ``l1`` is set up with, and its leases: locks that end by themselves, on a clock that the driver turns.

The release's are compiled and look at the system's clock; `Lease` is the same by their description.
"""

from level import Refused
from lmcache_setup import CHUNK

__all__ = ["READ", "WRITE", "Lease", "Options"]

WRITE, READ = 600, 300
"""Seconds after which what was reserved may be taken away: the release's defaults."""

_POLICIES = ("LRU", "ARC")


class Options:
    """A setup, checked: ``policy``, ``units`` of memory, ``ratio`` of the keys that an eviction is to take."""

    tensors, paged, layers, groups = 1, False, 0, 1

    def __init__(self, setup: dict) -> None:
        unknown = sorted(set(setup) - {"policy", "units", "ratio"})
        if unknown:
            raise Refused(f"there is no option {unknown[0]}")
        self.policy: str = setup["policy"]
        self.units: int = setup["units"] // CHUNK * CHUNK
        self.ratio: float = setup.get("ratio", 0.2)
        if self.policy not in _POLICIES or self.units < CHUNK or not 0 < self.ratio <= 1:
            raise Refused(f"policy is one of {', '.join(_POLICIES)}; units must be there; ratio is above 0, at most 1")


class Lease:
    """`TTLLock`: a count that ends with the time since it was last raised."""

    now = 0

    def __init__(self, ttl_second: int = 300) -> None:
        self._seconds, self._end, self._count = ttl_second, 0, 0

    def lock(self) -> None:
        """Count up, and begin the time anew; from 0 if it was over."""
        self._count = self.count + 1
        self._end = Lease.now + self._seconds

    def unlock(self) -> None:
        """Count down."""
        self._count = max(0, self._count - 1)

    def is_locked(self) -> bool:
        """Whether it counts, and its time is not over."""
        return self.count > 0

    @property
    def count(self) -> int:
        """The count, 0 when its time is over."""
        return self._count if Lease.now < self._end else 0
