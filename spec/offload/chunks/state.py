"""The state of Chunks, and the words in which it is spoken of."""

from __future__ import annotations

from ....machine import Bool, Count, Event, Int, Machine, Map, Param, Queue, Sort, assume, exists, iff, implies
from ...pool import Hash, Position

__all__ = ["ChunksState", "Load", "Offer"]


class Offer(Sort):
    """A list of keys that somebody wants to have stored."""


class Load(Sort):
    """Somebody who reads entries."""


class ChunksState(Machine, abstract=True):
    """What is offered, what is there, on its way or read, and who may go."""

    # -------------------------------------------------------------------------------- parameters

    capacity = Param(to=Int)
    """How many chunks there are."""

    count = Param(Offer, to=Int)
    """How many keys an offer names."""

    key = Param(Offer, Position, to=Hash)
    """Which, in order."""

    names = Param(Offer, Hash, to=Bool)
    """The same as a set."""

    # -------------------------------------------------------------------------------- state

    ready = Map(Hash, to=Bool)
    """The entry can be found and read."""

    storing = Map(Hash, to=Bool)
    """It has a chunk, and its store is in flight."""

    readers = Map(Hash, to=Int)
    """How many loads hold it."""

    reads = Map(Load, Hash, to=Bool)
    """The load reads the entry."""

    idle = Queue(Hash)
    """What can be found and nobody reads, least recently used first."""

    announced = Map(Hash, to=Bool)
    """Ghost: what a listener who replays all events believes to be here (P12)."""

    misled = Map(Hash, to=Bool)
    """Ghost: an event told a listener of this key what it knew already."""

    # -------------------------------------------------------------------------------- events

    stored = Event(Hash, heard=lambda m, h: m._hear(h, is_there=True))
    """A key can now be found."""

    removed = Event(Hash, heard=lambda m, h: m._hear(h, is_there=False))
    """A key can no longer be found."""

    # -------------------------------------------------------------------------------- counts

    used = Count(Hash, where=lambda m, h: m.ready[h] | m.storing[h])
    """The chunks that are taken."""

    live = Count(Load, by=Hash, where=lambda m, x, h: m.reads[x, h])
    """The loads that read an entry."""

    missing = Count(Hash, by=Offer, where=lambda m, h, o: m.names[o, h] & ~m.ready[h] & ~m.storing[h])
    """What an offer would have stored."""

    evictable = Count(Hash, by=Offer, where=lambda m, h, o: m.ready[h] & (m.readers[h] == 0) & ~m.names[o, h])
    """What may go for it."""

    # -------------------------------------------------------------------------------- what is known of the parameters

    @assume("O12")
    def a_list_is_a_set(self, o: Offer, h: Hash) -> Bool:
        """Of the keys that stand in it."""
        return iff(self.names[o, h], exists(Position, lambda k: (k < self.count[o]) & (self.key[o, k] == h)))

    @assume("O12")
    def a_list_is_in_order(self, o: Offer, i: Position, j: Position) -> Bool:
        """No key stands twice in it."""
        return implies((i < j) & (j < self.count[o]), self.key[o, i] != self.key[o, j])

    @assume("O12")
    def lists_have_an_end(self, o: Offer) -> Bool:
        """They name something, and no more than there are positions."""
        return (self.count[o] >= 1) & Position.has(self.count[o] - 1)

    @assume("O12")
    def there_may_be_no_room(self) -> Bool:
        """But not less than none."""
        return self.capacity.value >= 0

    # -------------------------------------------------------------------------------- words

    def _wanted(self, o: Offer) -> Int:
        """How many entries have to go for an offer; none, or fewer than none, where enough is free."""
        return self.used.value + self.missing[o] - self.capacity.value
