"""P12: what a listener believes who knows only the events. The oracle of engines and the checker of streams share it.

A *place* is where a key can be cached: a medium and a group of somebody's, an engine's or one of its ranks'. The fold
of the events up to a moment is, for every place, the set of keys that were stored there and not removed since.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

__all__ = ["Belief", "Place"]

K = TypeVar("K", bound=Hashable)
W = TypeVar("W", bound=Hashable)


class Place(Generic[K]):
    """What is believed of one place.

    ``held`` has for each key how often it was told stored since it was last absent. Where ``counted`` is false, that is
    the memory of a telling only: a removal is told when the last copy goes (P12), and takes the key away. Where it is
    true, each copy is told removed for itself, and the key goes with the last of them.
    """

    __slots__ = ("counted", "held")

    def __init__(self, counted: bool = False) -> None:
        self.counted = counted
        self.held: dict[K, int] = {}

    def stored(self, keys: Iterable[K]) -> None:
        """These were told to be stored."""
        held = self.held
        for key in keys:
            held[key] = held.get(key, 0) + 1

    def removed(self, keys: Iterable[K]) -> Sequence[tuple[K, int]]:
        """These were told to be removed. Return those that were not there (0), or were told stored more than once."""
        held, noted = self.held, []
        for key in keys:
            copies = held.pop(key, 0)
            if copies != 1 and not self.kept(key, copies):
                noted.append((key, copies))
        return noted

    def kept(self, key: K, copies: int) -> bool:
        """A key with so many copies was taken away, and not one. Return whether it stays, with one copy less."""
        if not self.counted or not copies:
            return False
        self.held[key] = copies - 1
        return True


class Belief(Generic[K, W]):
    """What is believed of all places."""

    def __init__(self, counted: bool = False) -> None:
        self.counted = counted
        self.places: dict[tuple[W, str, int | None], Place[K]] = {}
        """By whose it is, medium and group; the group is None where events do not name it."""

    def at(self, who: W, medium: str, group: int | None) -> Place[K]:
        """The place; a new one, where nothing was told of it yet."""
        where = (who, medium, group)
        place = self.places.get(where)
        if place is None:
            place = self.places[where] = Place(self.counted)
        return place

    def of(self, who: W, medium: str | None = None) -> Iterator[Place[K]]:
        """The places of somebody, on one medium or on all."""
        for (whose, m, _), place in self.places.items():
            if whose == who and medium in (None, m):
                yield place

    def cleared(self, who: W, medium: str | None = None) -> int:
        """Nothing of theirs is cached any more, on one medium or on all. Return how many keys were."""
        gone = 0
        for place in self.of(who, medium):
            gone += len(place.held)
            place.held.clear()
        return gone

    def holds(self, who: W, key: K) -> bool:
        """Whether they have the key cached anywhere."""
        return any(key in place.held for place in self.of(who))

    @property
    def keys(self) -> int:
        """How many keys are held, over all places."""
        return sum(len(place.held) for place in self.places.values())
