"""What a store of so many entries keeps that gives up the least recently used: a host that mirrors (M2, M3)."""

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator
from typing import Generic, TypeVar

__all__ = ["Recency"]

K = TypeVar("K", bound=Hashable)


class Recency(Generic[K]):
    """Books of such a store with room for ``room`` entries."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._kept: OrderedDict[K, None] = OrderedDict()

    def __contains__(self, key: object) -> bool:
        return key in self._kept

    def __iter__(self) -> Iterator[K]:
        """The least recently used comes first."""
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)

    def use(self, key: K) -> bool:
        """An entry is touched, or stored in place of the least recently used. Return whether it is new."""
        if key in self._kept:
            self._kept.move_to_end(key)
            return False
        if len(self._kept) >= self._room and self._kept:
            self._kept.popitem(last=False)
        if self._room:
            self._kept[key] = None
        return True

    def become(self, keys: Iterable[K]) -> None:
        """It keeps these, and nothing else; the least recently used comes first."""
        self._kept = OrderedDict.fromkeys(keys)
