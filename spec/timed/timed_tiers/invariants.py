"""The invariants of TimedTiers (machine G), and what must be reachable."""

from __future__ import annotations

from ....machine import Bool, all_of, any_of, iff, implies, invariant, none, sometimes
from ...pool import Block, Hash, Request
from ...timed.links import Transfer
from .actions import TimedTiersActions

__all__ = ["TimedTiersInvariants"]


class TimedTiersInvariants(TimedTiersActions, abstract=True):
    """What always holds of both tiers, and of whoever waits."""

    # -------------------------------------------------------------------------------- the device

    @invariant("G1, P1")
    def no_copy_makes_room(self) -> Bool:
        """Free, used, idle, gathered and copying blocks are all blocks: what is copying is not free as well."""
        waiting = self.idle.size + self.gathered.size
        return self.free.size + self.in_use.value + waiting + self.copying.value == self.usable.value

    @invariant("G1, P3")
    def a_block_is_one_thing(self, b: Block) -> Bool:
        """Exactly one."""
        places = (self.free.has(b), self.used[b], self.idle.has(b), self.gathered.has(b), self.carrier[b] != none)
        others = [any_of(*places[:n], *places[n + 1 :]) for n in range(len(places))]
        return any_of(*(place & ~other for place, other in zip(places, others, strict=True)))

    @invariant("G1, G4")
    def cargo_is_under_way(self, b: Block, t: Transfer) -> Bool:
        """A block is copying exactly as long as its transfer is active."""
        return all_of(
            iff(self.cargo[t].has(b), self.carrier[b] == t),
            implies(self.carrier[b] == t, self.moving[t]),
        )

    @invariant("G4, G5")
    def a_transfer_goes_one_way(self, b: Block, t: Transfer) -> Bool:
        """One that serves a request brings up, any other takes down."""
        return implies(self.carrier[b] == t, iff(self.fetch[b] == none, self.serves[t] == none))

    @invariant("G4")
    def the_open_batch_is_no_larger_than_a_batch(self) -> Bool:
        """It is shipped when it is full, at the latest."""
        return self.gathered.size <= self.batch.value

    @invariant("G5")
    def what_is_found_is_there(self, b: Block, h: Hash) -> Bool:
        """A hash is found exactly in the used or idle block that holds it."""
        return iff(self.found[h] == b, (self.holds[b] == h) & (self.used[b] | self.idle.has(b)))

    @invariant("G5")
    def names_fit(self, b: Block) -> Bool:
        """Free blocks have none, idle and evicted ones have one, and what comes up gets its own when it is there."""
        return all_of(
            implies(self.free.has(b), self.holds[b] == none),
            implies(self.idle.has(b) | self.gathered.has(b), self.holds[b] != none),
            implies(self.fetch[b] != none, (self.carrier[b] != none) & (self.holds[b] == none)),
            implies((self.carrier[b] != none) & (self.fetch[b] == none), self.holds[b] != none),
        )

    # -------------------------------------------------------------------------------- the host

    @invariant("G6, G7")
    def the_host_keeps_to_its_capacity(self) -> Bool:
        """Also while copies to it are under way."""
        return self.on_host_now.value <= self.capacity.value

    @invariant("G7")
    def without_a_host_nothing_goes_down(self, b: Block) -> Bool:
        """The tier does not exist."""
        return implies(self.capacity.value == 0, ~self.is_evicted(b))

    @invariant("G5")
    def what_is_read_stays(self, h: Hash) -> Bool:
        """What nobody reads can be evicted; what somebody reads is on the host, and cannot."""
        return all_of(
            iff(self.host.has(h), self.on_host[h] & (self.reads[h] == 0)),
            implies(self.reads[h] > 0, self.on_host[h]),
        )

    @invariant("G4, O3")
    def nothing_goes_down_twice(self, b: Block, c: Block, h: Hash) -> Bool:
        """What is on its way to the host is not there, and not on its way in another block."""
        goes = (self.holds[b] == h) & self.is_evicted(b)
        return implies(goes, ~self.on_host[h] & implies((self.holds[c] == h) & self.is_evicted(c), b == c))

    @invariant("G6, P12")
    def listeners_know_what_is_on_the_host(self, h: Hash) -> Bool:
        """Replaying the host's events gives what a lookup finds there."""
        return iff(self.host_announced[h], self.on_host[h])

    @invariant("G6, P12")
    def every_event_is_news(self, h: Hash) -> Bool:
        """Each block that lands, or leaves, is reported once."""
        return ~self.host_misled[h]

    # -------------------------------------------------------------------------------- requests

    @invariant("G5")
    def a_transfer_serves_who_waits(self, r: Request, t: Transfer) -> Bool:
        """A request waits for an active transfer, which is its own."""
        return iff(self.waits[r] == t, (self.serves[t] == r) & self.moving[t])

    @invariant("G5")
    def who_serves_has_begun(self, t: Transfer) -> Bool:
        """A request that nobody began a transfer for does not wait."""
        return implies(self.serves[t] != none, t < self.issued.value)

    # -------------------------------------------------------------------------------- what must be reachable

    @sometimes("G1")
    def all_that_is_evicted_is_under_way(self) -> Bool:
        """Nothing is free, though nobody uses anything."""
        return self.free.is_empty() & (self.in_use.value == 0) & (self.copying.value > 0) & self.idle.is_empty()

    @sometimes("G4")
    def a_batch_of_two_goes_down(self, t: Transfer) -> Bool:
        """In one transfer."""
        return all_of(self.cargo[t].size == 2, self.serves[t] == none)

    @sometimes("G5")
    def a_request_waits(self, r: Request, t: Transfer) -> Bool:
        """For something that is halfway."""
        return (self.waits[r] == t) & (self.left(t) > 0) & (self.left(t) < self.size[t])

    @sometimes("G5")
    def two_copies_share_nothing(self, t: Transfer, u: Transfer) -> Bool:
        """One goes up while another goes down."""
        goes_down = all_of(self.moving[u], ~self.cargo[u].is_empty(), self.serves[u] == none)
        return all_of(self.moving[t], self.serves[t] != none, goes_down)
