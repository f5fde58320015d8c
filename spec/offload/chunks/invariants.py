"""The invariants of Chunks, what follows from them, and what must be reachable."""

from __future__ import annotations

from ....machine import Bool, all_of, can, corollary, exists, iff, implies, invariant, sometimes
from ...pool import Hash
from .actions import ChunksActions
from .state import Load, Offer

__all__ = ["ChunksInvariants"]


class ChunksInvariants(ChunksActions, abstract=True):
    """What always holds of entries, and what is refused."""

    # -------------------------------------------------------------------------------- invariants

    @invariant("P1")
    def no_more_is_kept_than_there_is_room(self) -> Bool:
        """Entries that can be found and entries on their way together."""
        return self.used.value <= self.capacity.value

    @invariant("O3")
    def what_is_there_is_not_being_stored(self, h: Hash) -> Bool:
        """A key has one entry."""
        return ~(self.ready[h] & self.storing[h])

    @invariant("P2")
    def readers_are_counted(self, h: Hash) -> Bool:
        """Each load once, and nobody else."""
        return self.readers[h] == self.live[h]

    @invariant("P2, O5")
    def only_what_is_there_is_read(self, h: Hash) -> Bool:
        """And what is read stays."""
        return implies(self.readers[h] > 0, self.ready[h])

    @invariant("P3, O12")
    def what_can_go_is_what_nobody_needs(self, h: Hash) -> Bool:
        """It stands in the order exactly while it is there and nobody reads it."""
        return iff(self.idle.has(h), self.ready[h] & (self.readers[h] == 0))

    @invariant("P12")
    def listeners_know_what_is_there(self, h: Hash) -> Bool:
        """No event was wrong, and none is missing."""
        return iff(self.announced[h], self.ready[h]) & ~self.misled[h]

    # -------------------------------------------------------------------------------- what is refused, and what is not

    @corollary("O12")
    def everything_can_be_offered(self, o: Offer) -> Bool:
        """At any moment; whether it is refused is the answer."""
        return can(self.offer, o)

    @corollary("P2, O2")
    def what_is_there_can_be_read(self, x: Load, h: Hash, ok: Bool) -> Bool:
        """And nothing else, once by each; what is under way can end, well or badly."""
        return all_of(
            iff(can(self.begin_load, x, h), self.ready[h] & ~self.reads[x, h]),
            iff(can(self.end_load, x, h), self.reads[x, h]),
            iff(can(self.end_store, h, ok), self.storing[h]),
        )

    @corollary("P11, O10")
    def a_reset_waits_for_what_is_in_flight(self) -> Bool:
        """And for nothing else."""
        in_flight = exists(Hash, lambda h: self.storing[h] | (self.readers[h] > 0))
        return iff(can(self.reset), ~in_flight)

    # -------------------------------------------------------------------------------- what must be reachable

    @sometimes("O12")
    def an_offer_needs_what_it_names_to_stay(self, o: Offer, h: Hash, g: Hash) -> Bool:
        """It names what would be next to go, and misses as many as may go."""
        return all_of(
            self.idle.is_first(h) & self.names[o, h],
            self.idle.has(g) & ~self.names[o, g],
            (self.missing[o] >= 1) & (self._wanted(o) == self.evictable[o]),
        )

    @sometimes("O12")
    def an_offer_would_be_refused(self, o: Offer, h: Hash) -> Bool:
        """Though something may go for it."""
        return self.idle.has(h) & ~self.names[o, h] & (self._wanted(o) > self.evictable[o])
