"""Who goes first when room is needed: keys with sizes in the order of their last use, some of them pinned."""

from collections import OrderedDict
from dataclasses import dataclass

from ..errors import RefusedError


@dataclass(frozen=True, slots=True)
class IndexSnapshot:
    """The whole observable state of an index."""

    idle: tuple[tuple[bytes, int], ...]
    """(key, size) of what may be evicted, the first to go first."""
    pinned: dict[bytes, tuple[int, int]]
    """(size, pins) of each pinned key."""
    used: int
    """The counter of bytes, kept apart from the sizes."""
    pinned_bytes: int
    """The counter of those that are pinned, kept apart too."""


class LruIndex:
    """Keys and the bytes that they take, of ``capacity`` bytes in all. It stores no content.

    A pinned key is not evicted (O5). One whose last pin goes was just used: it will be evicted last. Each operation
    costs O(1), and O(1) more per key that it evicts. An illegal call raises ``RefusedError`` and changes nothing.
    """

    __slots__ = ("_idle", "_pinned", "_pinned_bytes", "_used", "capacity")

    def __init__(self, capacity: int) -> None:
        """Make an empty index for ``capacity`` bytes, at least one."""
        if capacity < 1:
            raise RefusedError(f"a store keeps at least one byte, got a capacity of {capacity}")
        self.capacity = capacity
        # Pinned keys stand aside, so that a search for the next to go never walks past them.
        self._idle: OrderedDict[bytes, int] = OrderedDict()
        self._pinned: dict[bytes, tuple[int, int]] = {}
        self._pinned_bytes = 0
        self._used = 0

    def __contains__(self, key: object) -> bool:
        """Tell whether ``key`` has a place. That is no use of it."""
        return key in self._idle or key in self._pinned

    def fits(self, size: int) -> bool:
        """Tell whether ``size`` bytes fit when nothing else is there."""
        return 0 <= size <= self.capacity

    def touch(self, key: bytes) -> None:
        """Note that ``key`` was used."""
        self._check(key)
        if key in self._idle:
            self._idle.move_to_end(key)

    def is_pinned(self, key: bytes) -> bool:
        """Tell whether anybody pins ``key``."""
        return key in self._pinned

    def add(self, key: bytes, size: int) -> list[bytes] | None:
        """Give ``key`` a place of ``size`` bytes, with one pin; return the keys that were evicted for it.

        ``None``, and nothing changed, when what is pinned leaves too little room (O12). Refused for a key that is
        there, and for a size that never fits.
        """
        if key in self:
            raise RefusedError(f"the key {key.hex()} has a place already")
        if not self.fits(size):
            raise RefusedError(f"{size} bytes never fit a store of {self.capacity}: make it larger")
        if size > self.capacity - self._pinned_bytes:
            return None
        evicted: list[bytes] = []
        while size > self.capacity - self._used:
            victim, freed = self._idle.popitem(last=False)
            self._used -= freed
            evicted.append(victim)
        self._pinned[key] = (size, 1)
        self._pinned_bytes += size
        self._used += size
        return evicted

    def pin(self, key: bytes) -> None:
        """Add one pin: ``key`` is not evicted while there is one."""
        self._check(key)
        if key in self._pinned:
            size, pins = self._pinned[key]
            self._pinned[key] = (size, pins + 1)
            return
        size = self._idle.pop(key)
        self._pinned[key] = (size, 1)
        self._pinned_bytes += size

    def unpin(self, key: bytes) -> None:
        """Take one pin; after the last one ``key`` is the one used last. Refused when it has none."""
        if key not in self._pinned:
            raise RefusedError(f"nobody pins the key {key.hex()}")
        size, pins = self._pinned[key]
        if pins > 1:
            self._pinned[key] = (size, pins - 1)
            return
        del self._pinned[key]
        self._pinned_bytes -= size
        self._idle[key] = size

    def remove(self, key: bytes) -> None:
        """Take the place of ``key``. Refused while it is pinned."""
        if key not in self._idle:
            raise RefusedError(f"the key {key.hex()} has no place, or is pinned")
        self._used -= self._idle.pop(key)

    def snapshot(self) -> IndexSnapshot:
        """Collect the whole observable state. Linear: for checkers."""
        return IndexSnapshot(tuple(self._idle.items()), dict(self._pinned), self._used, self._pinned_bytes)

    def _check(self, key: bytes) -> None:
        """Refuse a key without a place."""
        if key not in self:
            raise RefusedError(f"the key {key.hex()} has no place")
