"""Tiers in virtual time: device blocks, a host tier behind them, and copies that last (G1, G4 to G7).

Here a copy takes its time, and what it moves is out of reach meanwhile. A device block is exactly one of: free, used,
idle (nobody uses it, but it can be found under its hash), gathered (evicted, waiting for its batch to be full) or
copying. An evicted block is not free until its copy has ended: no copy in flight makes room (G1).

Evicted blocks go down to the host in batches, one transfer each. A request whose prefix is on the host, behind what is
on the device, waits for one transfer that brings it up, and is promoted when that is done. What such a transfer reads
stays on the host meanwhile.

Who shares a used block, and what stands in it, are matters of machine P; here a block is used or not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ..machine import (
    Bool,
    Count,
    Event,
    Int,
    Map,
    Param,
    Queue,
    Real,
    Tally,
    action,
    all_of,
    any_of,
    assume,
    exists,
    forall,
    iff,
    implies,
    invariant,
    ite,
    none,
    optional,
    otherwise,
    sometimes,
    step,
    when,
)
from .links import Link, Links, Transfer
from .pool import Block, Hash, Position, Request

__all__ = ["TimedTiers"]

V = TypeVar("V", Block, Hash)


class TimedTiers(Links):
    """The device and the host of one worker."""

    # -------------------------------------------------------------------------------- parameters

    down = Param(to=Link)
    """The link from the device to the host."""

    up = Param(to=Link)
    """The link from the host to the device."""

    block_bytes = Param(to=Real)
    """The size of a block."""

    batch = Param(to=Int)
    """The most blocks that go down in one transfer."""

    capacity = Param(to=Int)
    """The most blocks that the host keeps; with 0 there is no host tier (G7)."""

    prefix = Param(Request, Position, to=optional(Hash))
    """The hashes of a request's blocks; none behind the last that a lookup may return (P14)."""

    # -------------------------------------------------------------------------------- the device

    free = Queue(Block, init=True)
    """The blocks that can be taken."""

    used = Map(Block, to=Bool)
    """The block belongs to somebody."""

    idle = Queue(Block)
    """The blocks that nobody uses, the one to be evicted next first."""

    gathered = Queue(Block)
    """The open batch: evicted blocks whose copy has not begun."""

    cargo = Queue(Block, by=Transfer)
    """The blocks that a transfer reads or writes."""

    carrier = Map(Block, to=optional(Transfer))
    """The transfer that a block belongs to."""

    holds = Map(Block, to=optional(Hash))
    """What stands in a block, if it has a name."""

    found = Map(Hash, to=optional(Block))
    """The block, used or idle, under which a lookup finds the hash."""

    # -------------------------------------------------------------------------------- the host

    on_host = Map(Hash, to=Bool)
    """What a lookup finds on the host."""

    host = Queue(Hash)
    """What of that nobody reads, the one to be evicted next first."""

    fetch = Map(Block, to=optional(Hash))
    """What is being copied into a block."""

    host_announced = Map(Hash, to=Bool)
    """What somebody who listens to the host's events believes to be there (G6)."""

    host_misled = Map(Hash, to=Bool)
    """An event told somebody who listens what was known already."""

    host_stored = Event(Hash, heard=lambda m, h: m._hear_stored(h))
    """The block landed on the host."""

    host_removed = Event(Hash, heard=lambda m, h: m._hear_removed(h))
    """It left the host."""

    # -------------------------------------------------------------------------------- requests

    waits = Map(Request, to=optional(Transfer))
    """The transfer that a request waits for."""

    serves = Map(Transfer, to=optional(Request))
    """The request that a transfer brings something up for."""

    promotions = Tally()
    """How often a request was told that it may go on."""

    in_use = Count(Block, where=lambda m, b: m.used[b])
    copying = Count(Block, where=lambda m, b: m.carrier[b] != none)
    usable = Count(Block, where=lambda _, b: b == b)
    on_host_now = Count(Hash, where=lambda m, h: m.on_host[h])
    reads = Count(Block, where=lambda m, b, h: m.fetch[b] == h, by=Hash)

    @assume("G4")
    def a_batch_has_room(self) -> Bool:
        """For one block at least; and a block is of some size."""
        return all_of(self.batch.value >= 1, self.capacity.value >= 0, self.block_bytes.value >= 0)

    # -------------------------------------------------------------------------------- words

    def is_evicted(self, b: Block) -> Bool:
        """The block holds what is on its way to the host."""
        return any_of(self.gathered.has(b), (self.carrier[b] != none) & (self.holds[b] != none))

    def is_on_its_way(self, h: Hash) -> Bool:
        """Some block's copy to the host will bring it there."""
        return exists(Block, lambda b: (self.holds[b] == h) & self.is_evicted(b))

    # -------------------------------------------------------------------------------- the device's own steps

    @action("G1")
    def allocate(self) -> Block:
        """Take the head of the free queue. Refused when nothing is free, whatever is on its way."""
        self.require(~self.free.is_empty())
        b = self.free.head()
        self.free.remove(b)
        self.used[b] = True
        return b

    @action("G5")
    def register(self, b: Block, h: Hash) -> None:
        """A used block was computed: from now on it can be found."""
        self.require(self.used[b])
        self.require(self.holds[b] == none)
        self.require(self.found[h] == none)
        self.holds[b] = h
        self.found[h] = b

    @action("G1")
    def release(self, b: Block) -> None:
        """Nobody uses the block any more. What can be found is kept."""
        self.require(self.used[b])
        self.used[b] = False
        with when(self.holds[b] != none):
            self.idle.push_back(b)
        with otherwise():
            self.free.push_back(b)

    @action("G5")
    def touch(self, b: Block) -> None:
        """An idle block is hit."""
        self.require(self.idle.has(b))
        self.idle.remove(b)
        self.used[b] = True

    # -------------------------------------------------------------------------------- down

    @action("G1, G4, G7")
    def evict(self, b: Block) -> None:
        """The idle block that was not used for longest joins the open batch; it is not free before it is copied.

        Unless it need not be copied: the host has it, or gets it, or there is no host.
        """
        self.require(self.idle.is_first(b))
        self.require(self.gathered.size < self.batch.value)
        h = self.holds[b]
        is_spare = self.on_host[h] | self.is_on_its_way(h) | (self.capacity.value == 0)
        is_unread = self.host.has(h)
        self.idle.remove(b)
        self.found[h] = none
        with when(is_spare):
            self.holds[b] = none
            self.free.push_back(b)
        with otherwise():
            self.gathered.push_back(b)
        with when(is_unread):
            self.host.remove(h)
            self.host.push_back(h)

    @action("G1, G4")
    def ship(self, t: Transfer) -> None:
        """The open batch goes down, in one transfer."""
        self.require(t == self.issued.value)
        self.require(~self.gathered.is_empty())
        count = self.gathered.size
        self._begin(t, self.down.value, self.block_bytes.value * count)
        with self.loop(
            count,
            facts=lambda i, entry: {
                "the rest is still gathered": self.gathered.size == entry.gathered.size - i,
                "so many are aboard": self.cargo[t].size == i,
                "nobody else is": forall(
                    Block, lambda b: iff(entry.gathered.has(b), self.gathered.has(b) | (self.carrier[b] == t))
                ),
                "who was under way still is": self._still_under_way(entry),
                "it is loaded in order": forall(Block, Block, self._moved_in_order(entry.gathered, self.gathered, t)),
            },
        ):
            b = self.gathered.head()
            self.gathered.remove(b)
            self._load(b, t)

    def _still_under_way(self, entry: TimedTiers) -> Bool:
        return forall(
            Block,
            lambda b: implies(
                entry.carrier[b] != none, (self.carrier[b] != none) & (self.carrier[b] == entry.carrier[b])
            ),
        )

    def _load(self, b: Block, t: Transfer) -> None:
        self.cargo[t].push_back(b)
        self.carrier[b] = t

    # -------------------------------------------------------------------------------- up

    @action("G5")
    def swap_in(self, r: Request, t: Transfer, p: Position, e: Position) -> None:
        """Bring up what the host has of a request's prefix, from the first device miss p to the first host miss e.

        Or as far as there are free blocks. One transfer brings all; the request waits for it.
        """
        self.require(t == self.issued.value)
        self.require(self.waits[r] == none)
        self.require(forall(Position, lambda i: implies(i < p, self._is_on_device(r, i))))
        self.require(~self._is_on_device(r, p))
        self.require(forall(Position, lambda i: implies((p <= i) & (i < e), self._is_on_host(r, i))))
        self.require(p < e)
        self.require(e - p <= self.free.size)
        self.require(~self._is_on_host(r, e) | (e - p == self.free.size))
        self._begin(t, self.up.value, self.block_bytes.value * (e - p))
        self.waits[r] = t
        self.serves[t] = r
        with self.loop(
            e - p,
            facts=lambda i, entry: {
                "so many are taken": self.free.size == entry.free.size - i,
                "so many are aboard": self.cargo[t].size == i,
                "what is to be read is there": forall(
                    Position, lambda j: implies((p <= j) & (j < e), self._is_on_host(r, j))
                ),
                "who was under way still is": self._still_under_way(entry),
                "it is loaded in order": forall(Block, Block, self._moved_in_order(entry.free, self.free, t)),
                "so much of the prefix is on its way": forall(
                    Position,
                    lambda j: implies((p <= j) & (j < p + i), self._comes_up(r, j, t)),
                ),
                "and nothing else": forall(Block, lambda b: self._was_asked_for(r, p, p + i, b, t)),
                "who reads goes on reading": forall(
                    Block, lambda b: implies(entry.fetch[b] != none, self.fetch[b] == entry.fetch[b])
                ),
                "what nobody reads keeps its place": forall(Hash, Hash, self._keep_their_place(entry.host, self.host)),
            },
        ) as loop:
            h = self.prefix[r, p + loop.index]
            b = self.free.head()
            self.free.remove(b)
            self._load(b, t)
            with when(self.host.has(h)):
                self.host.remove(h)
            self.fetch[b] = h

    def _moved_in_order(self, then: Queue[Block], now: Queue[Block], t: Transfer) -> Callable[[Block, Block], Bool]:
        """Block after block went from the head of a queue to the end of a transfer's cargo."""
        return lambda b, c: all_of(
            implies(self.cargo[t].has(b), then.has(b) & ~now.has(b)),
            implies(self.cargo[t].has(b) & now.has(c), then.before(b, c)),
            implies(self.cargo[t].has(b) & self.cargo[t].has(c), iff(self.cargo[t].before(b, c), then.before(b, c))),
            iff(then.has(b), now.has(b) | self.cargo[t].has(b)),
            implies(now.has(b) & now.has(c), iff(now.before(b, c), then.before(b, c))),
        )

    def _keep_their_place(self, then: Queue[V], now: Queue[V]) -> Callable[[V, V], Bool]:
        """Who stood in a queue and still does stands where it did; who joined it stands behind."""
        return lambda a, b: implies(
            now.has(a) & now.has(b) & then.has(a), iff(now.before(a, b), (a != b) & (~then.has(b) | then.before(a, b)))
        )

    def _comes_up(self, r: Request, i: Position, t: Transfer) -> Bool:
        """A transfer brings the block of this position."""
        return exists(Block, lambda b: (self.carrier[b] == t) & (self.fetch[b] == self.prefix[r, i]))

    def _was_asked_for(self, r: Request, p: Int, e: Int, b: Block, t: Transfer) -> Bool:
        """What a transfer brings is of these positions."""
        is_asked = exists(Position, lambda i: (p <= i) & (i < e) & (self.fetch[b] == self.prefix[r, i]))
        return implies(self.carrier[b] == t, (self.fetch[b] != none) & is_asked)

    def _is_on_device(self, r: Request, i: Position) -> Bool:
        return exists(Hash, lambda h: (self.prefix[r, i] == h) & (self.found[h] != none))

    def _is_on_host(self, r: Request, i: Position) -> Bool:
        return exists(Hash, lambda h: (self.prefix[r, i] == h) & self.on_host[h])

    # -------------------------------------------------------------------------------- the end of a copy

    @action("G1, G3, G4, G5, G6")
    def complete(self, t: Transfer) -> None:
        """The transfer that is due, and of those the one with the least id, is completed."""
        self._require_first_due(t)
        with self.loop(
            self.cargo[t].size,
            facts=lambda i, entry: {
                "so many have landed": self.cargo[t].size == entry.cargo[t].size - i,
                "the others are aboard": forall(Block, lambda b: iff(self.cargo[t].has(b), self.carrier[b] == t)),
                "who has not is aboard": forall(
                    Block,
                    lambda b: implies(
                        entry.carrier[b] == t,
                        ite(
                            self.carrier[b] == t,
                            iff(self.fetch[b] == none, entry.fetch[b] == none),
                            ite(entry.fetch[b] == none, self.free.has(b), self.used[b]) & (self.carrier[b] == none),
                        ),
                    ),
                ),
                "other copies go on": forall(
                    Block,
                    lambda b: implies(
                        (entry.carrier[b] != none) & (entry.carrier[b] != t),
                        (self.carrier[b] != none) & (self.carrier[b] == entry.carrier[b]),
                    ),
                ),
                **self._landed_so_far(entry, t),
            },
        ):
            b = self.cargo[t].head()
            comes_up = self.fetch[b] != none
            self.cargo[t].remove(b)
            self.carrier[b] = none
            with when(comes_up):
                self._arrive(b)
            with otherwise():
                self._land(b)
        with when(self.serves[t] != none):
            self.waits[self.serves[t]] = none
            self.promotions.add(1)
        self._complete(t)

    def _arrive(self, b: Block) -> None:
        """A block is up and used. If the device has the hash by now, that block stays what is found."""
        h = self.fetch[b]
        was_last = self.reads[h] == 1
        self.used[b] = True
        self.fetch[b] = none
        with when(self.found[h] == none):
            self.found[h] = b
            self.holds[b] = h
        with when(was_last):
            self.host.push_back(h)

    def _land(self, b: Block) -> None:
        """A block is down: now it is free. A full host makes room, unless all that it has is being read."""
        h = self.holds[b]
        is_full = self.on_host_now.value == self.capacity.value
        is_kept = ~(is_full & self.host.is_empty())
        self.holds[b] = none
        self.free.push_back(b)
        with when(is_full & is_kept):
            victim = self.host.head()
            self.host.remove(victim)
            self.on_host[victim] = False
            self.host_removed(victim)
        with when(is_kept):
            self.host.push_back(h)
            self.on_host[h] = True
            self.host_stored(h)

    def _hear_stored(self, h: Hash) -> None:
        """It is on the host from now on; it was not before."""
        with when(self.host_announced[h]):
            self.host_misled[h] = True
        self.host_announced[h] = True

    def _hear_removed(self, h: Hash) -> None:
        """It is on the host no longer; it was before."""
        with when(~self.host_announced[h]):
            self.host_misled[h] = True
        self.host_announced[h] = False

    def _landed_so_far(self, entry: TimedTiers, t: Transfer) -> dict[str, Bool]:
        """While a transfer ends: what of it can be found, on either tier, and where everything stands."""

        def has_landed(b: Block) -> Bool:
            return all_of(entry.cargo[t].has(b), self.carrier[b] == none)

        def is_down(b: Block, h: Hash) -> Bool:
            return all_of(entry.serves[t] == none, has_landed(b), entry.holds[b] == h)

        is_full, was_full = (m.on_host_now.value == m.capacity.value for m in (self, entry))
        is_stuck = was_full & entry.host.is_empty()
        return {
            "who is aboard is as it was": forall(
                Block,
                lambda b: implies(
                    self.cargo[t].has(b),
                    all_of(entry.cargo[t].has(b), self.holds[b] == entry.holds[b], self.fetch[b] == entry.fetch[b]),
                ),
            ),
            "what came up can be found": forall(
                Block,
                Hash,
                lambda b, h: implies(has_landed(b) & (entry.fetch[b] == h), self.found[h] != none),
            ),
            "what could be found still can": forall(
                Hash,
                Block,
                lambda h, b: implies(entry.found[h] == b, self.found[h] == b),
            ),
            "free blocks stand where they stood": forall(Block, Block, self._keep_their_place(entry.free, self.free)),
            "cargo is free in its order": forall(
                Block,
                Block,
                lambda b, c: implies(
                    all_of(entry.serves[t] == none, has_landed(b), has_landed(c), entry.cargo[t].before(b, c)),
                    self.free.before(b, c),
                ),
            ),
            "the first lands first": forall(
                Block,
                Block,
                lambda b, c: implies(has_landed(b) & self.cargo[t].has(c), entry.cargo[t].before(b, c)),
            ),
            "the cargo's order is what it was": forall(
                Block, Block, self._keep_their_place(entry.cargo[t], self.cargo[t])
            ),
            "the host's queue is in order": forall(Hash, Hash, self._keep_their_place(entry.host, self.host)),
            "it gives up what was not used for longest": forall(
                Hash,
                Hash,
                lambda g, h: implies(entry.host.before(g, h) & self.host.has(g), self.host.has(h)),
            ),
            "and only what nobody reads, where it is full": forall(
                Hash,
                lambda h: implies(entry.on_host[h] & ~self.on_host[h], is_full & entry.host.has(h)),
            ),
            "what goes down is read by nobody": implies(
                entry.serves[t] == none, forall(Hash, lambda h: self.reads[h] == entry.reads[h])
            ),
            "what lands was carried": forall(
                Hash,
                lambda h: implies(self.on_host[h] & ~entry.on_host[h], exists(Block, lambda b: is_down(b, h))),
            ),
            "all of it lands while there is room": forall(
                Block, Hash, lambda b, h: implies(is_down(b, h) & ~self.on_host[h], is_full)
            ),
            "nothing does where all is being read": implies(
                is_stuck & (entry.serves[t] == none), is_full & self.host.is_empty()
            ),
            "else there is always room": implies(
                ~is_stuck & (entry.serves[t] == none), ~is_full | ~self.host.is_empty()
            ),
            "later ones push out earlier ones": forall(
                Block,
                Block,
                Hash,
                Hash,
                lambda b, c, g, h: implies(
                    all_of(is_down(b, g), is_down(c, h), entry.cargo[t].before(b, c), self.on_host[g]),
                    self.on_host[h] & self.host.before(g, h),
                ),
            ),
            "the last one is there": forall(
                Block,
                Hash,
                lambda b, h: implies(
                    all_of(
                        is_down(b, h) & ~is_stuck,
                        forall(Block, lambda c: implies(entry.cargo[t].before(b, c), self.cargo[t].has(c))),
                    ),
                    self.on_host[h],
                ),
            ),
        }

    # -------------------------------------------------------------------------------- invariants: the device

    @invariant("G1, P1")
    def no_copy_makes_room(self) -> Bool:
        """Free, used, idle, gathered and copying blocks are all blocks: what is copying is not free as well."""
        waiting = self.idle.size + self.gathered.size
        return self.free.size + self.in_use.value + waiting + self.copying.value == self.usable.value

    @invariant("G1, P3")
    def a_block_is_one_thing(self, b: Block) -> Bool:
        """Exactly one."""
        places = (self.free.has(b), self.used[b], self.idle.has(b), self.gathered.has(b), self.carrier[b] != none)
        others = [any_of(*(p for p in places if p is not place)) for place in places]
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

    # -------------------------------------------------------------------------------- invariants: the host

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

    # -------------------------------------------------------------------------------- invariants: requests

    @invariant("G5")
    def a_transfer_serves_who_waits(self, r: Request, t: Transfer) -> Bool:
        """A request waits for an active transfer, which is its own."""
        return iff(self.waits[r] == t, (self.serves[t] == r) & self.moving[t])

    @invariant("G5")
    def who_serves_has_begun(self, t: Transfer) -> Bool:
        """A request that nobody began a transfer for does not wait."""
        return implies(self.serves[t] != none, t < self.issued.value)

    # -------------------------------------------------------------------------------- steps

    @step("G1", of="complete")
    def only_the_end_of_its_copy_ends_it(self, before: TimedTiers, t: Transfer, b: Block) -> Bool:
        """A block that goes down is free when its own transfer ends, and one that comes up is used."""
        was = before.carrier[b]
        return all_of(
            implies(was == t, self.carrier[b] == none),
            implies((was == t) & (before.fetch[b] == none), self.free.has(b)),
            implies((was == t) & (before.fetch[b] != none), self.used[b]),
            implies((was != none) & (was != t), (self.carrier[b] != none) & (self.carrier[b] == was)),
        )

    @step("G1", unless="complete")
    def a_copying_block_stays(self, before: TimedTiers, b: Block) -> Bool:
        """Until then nothing happens to it."""
        was = before.carrier[b]
        return implies(was != none, (self.carrier[b] != none) & (self.carrier[b] == was))

    @step("G1", of="allocate")
    def only_free_blocks_are_handed_out(self, before: TimedTiers, b: Block, result: Block) -> Bool:
        """One of them, without a name."""
        is_new = self.used[b] & ~before.used[b]
        return iff(is_new, b == result) & implies(is_new, before.free.is_first(b) & (self.holds[b] == none))

    @step("G5", of="register")
    def what_was_computed_can_be_found(self, before: TimedTiers, b: Block, h: Hash) -> Bool:
        """In that block, if it was found nowhere else."""
        is_new = before.used[b] & (before.holds[b] == none) & (before.found[h] == none)
        return all_of(is_new, self.found[h] == b, self.holds[b] == h, self.used[b])

    @step("G1", of="release")
    def who_is_let_go_waits_to_be_used_again(self, before: TimedTiers, b: Block) -> Bool:
        """What can be found goes behind all that is idle, any other block behind all that is free."""
        is_named = before.holds[b] != none
        return before.used[b] & ~self.used[b] & iff(self.idle.has(b), is_named) & iff(self.free.has(b), ~is_named)

    @step("G5", of="touch")
    def who_is_hit_is_used(self, before: TimedTiers, b: Block) -> Bool:
        """And not idle any more."""
        return before.idle.has(b) & self.used[b] & ~self.idle.has(b)

    @step("G1, G4", of="evict")
    def who_is_evicted_goes_down_or_is_free(self, before: TimedTiers, b: Block, h: Hash) -> Bool:
        """It joins the open batch, unless the host has what it holds, or gets it, or is none.

        It was not used for longest, and cannot be found any more. What the host has of it counts as used.
        """
        is_spare = before.on_host[h] | before.is_on_its_way(h) | (self.capacity.value == 0)
        goes = ite(is_spare, self.free.has(b) & (self.holds[b] == none), self.gathered.has(b) & (self.holds[b] == h))
        is_used = implies(before.host.has(h), self.host.has(h) & (self.host.tail() == h))
        was_last = before.idle.is_first(b) & ~self.idle.has(b)
        return was_last & implies(before.holds[b] == h, goes & (self.found[h] == none) & is_used)

    @step("G1, G3")
    def queues_are_in_order(self, before: TimedTiers, b: Block, c: Block, t: Transfer) -> Bool:
        """Who joins one stands behind all that stood there; nobody else changes places."""
        return all_of(
            self._keep_their_place(before.free, self.free)(b, c),
            self._keep_their_place(before.idle, self.idle)(b, c),
            self._keep_their_place(before.gathered, self.gathered)(b, c),
            self._keep_their_place(before.cargo[t], self.cargo[t])(b, c),
        )

    @step("G5", unless="evict")
    def the_hosts_queue_is_in_order(self, before: TimedTiers, g: Hash, h: Hash) -> Bool:
        """What was used joins behind all that stood there."""
        return self._keep_their_place(before.host, self.host)(g, h)

    @step("G5", of="evict")
    def only_what_is_evicted_counts_as_used(self, before: TimedTiers, b: Block, g: Hash, h: Hash) -> Bool:
        """On the host the others stand as they stood."""
        is_other = (before.holds[b] != g) & (before.holds[b] != h)
        return implies(is_other, self._keep_their_place(before.host, self.host)(g, h))

    @step("G5", unless=("register", "evict", "complete"))
    def what_is_found_stays(self, before: TimedTiers, b: Block, h: Hash) -> Bool:
        """Under its hash, in its block."""
        return (self.found[h] == before.found[h]) & (self.holds[b] == before.holds[b])

    @step("G5", of=("register", "evict"))
    def what_others_hold_stays(self, before: TimedTiers, b: Block, c: Block) -> Bool:
        """Only the block that the action names gets a name, or loses it."""
        return (c == b) | (self.holds[c] == before.holds[c])

    @step("G6", unless="complete")
    def nothing_lands_before_its_copy_ends(self, before: TimedTiers, h: Hash) -> Bool:
        """Nor does anything leave the host."""
        return iff(self.on_host[h], before.on_host[h])

    @step("G1", unless=("allocate", "release", "touch", "complete"))
    def who_is_used_stays_so(self, before: TimedTiers, b: Block) -> Bool:
        """Until it is released."""
        return iff(self.used[b], before.used[b])

    @step("G1", of=("release", "touch"))
    def others_are_used_as_before(self, before: TimedTiers, b: Block, c: Block) -> Bool:
        """It concerns the block that it names."""
        return (c == b) | iff(self.used[c], before.used[c])

    @step("G5", unless=("swap_in", "complete"))
    def who_waits_goes_on_waiting(self, before: TimedTiers, r: Request, b: Block) -> Bool:
        """For the same transfer, which brings the same; and nobody else is told that it may go on."""
        is_same = (self.waits[r] == before.waits[r]) & (self.fetch[b] == before.fetch[b])
        return is_same & (self.promotions.total == before.promotions.total)

    @step("G5", unless="swap_in")
    def a_transfer_serves_for_good(self, before: TimedTiers, t: Transfer) -> Bool:
        """The request for which it began, or none."""
        return self.serves[t] == before.serves[t]

    @step("G4", of="ship")
    def a_batch_is_one_transfer(self, before: TimedTiers, t: Transfer, b: Block, c: Block) -> Bool:
        """All of it, in order, with its bytes, on the way down; and no more than a batch."""
        count = before.gathered.size
        return all_of(
            iff(before.gathered.has(b), self.carrier[b] == t),
            implies(before.gathered.before(b, c), self.cargo[t].before(b, c)),
            self.gathered.is_empty(),
            (self.cargo[t].size == count) & (count >= 1) & (count <= self.batch.value),
            self.begun[t] == before.now.value,
            self.size[t] == self.block_bytes.value * count,
            self.link[t] == self.down.value,
        )

    @step("G5", of="swap_in")
    def a_swap_in_is_one_transfer(self, before: TimedTiers, r: Request, t: Transfer, p: Position, e: Position) -> Bool:
        """So many free blocks are taken as it brings up, and so many bytes."""
        count = e - p
        return all_of(
            self.cargo[t].size == count,
            self.free.size == before.free.size - count,
            self.size[t] == self.block_bytes.value * count,
            self.link[t] == self.up.value,
            self.begun[t] == before.now.value,
            self.waits[r] == t,
        )

    @step("G5", of="swap_in")
    def a_swap_in_covers_the_contiguous_hits(
        self, before: TimedTiers, r: Request, p: Position, e: Position, i: Position
    ) -> Bool:
        """From the first device miss to the first host miss, or as far as there are free blocks."""
        return all_of(
            implies(i < p, before._is_on_device(r, i)) & ~before._is_on_device(r, p),
            implies((p <= i) & (i < e), before._is_on_host(r, i)),
            ~before._is_on_host(r, e) | (e - p == before.free.size),
        )

    @step("G5", of="swap_in")
    def a_swap_in_brings_exactly_these(
        self, before: TimedTiers, r: Request, t: Transfer, p: Position, e: Position, i: Position, b: Block, c: Block
    ) -> Bool:
        """Each of them, and nothing else, to the blocks at the head of the free queue, in order."""
        return all_of(
            implies((p <= i) & (i < e), self._comes_up(r, i, t)),
            self._was_asked_for(r, p, e, b, t),
            self._moved_in_order(before.free, self.free, t)(b, c),
            implies(before.fetch[b] != none, self.fetch[b] == before.fetch[b]),
        )

    @step("G5", of="swap_in")
    def a_request_waits_for_its_own(self, before: TimedTiers, r: Request, t: Transfer, q: Request) -> Bool:
        """It did not wait before; others wait for what they did."""
        is_other = implies(q != r, self.waits[q] == before.waits[q])
        return all_of(before.waits[r] == none, self.serves[t] == r, is_other)

    @step("G4, G5, G6", of="complete")
    def what_was_shipped_lands(self, before: TimedTiers, t: Transfer, b: Block, h: Hash) -> Bool:
        """A full host gives up what was not used for longest, and where all it has is being read, nothing lands.

        A batch that is larger than what the host can give up pushes out its own first blocks.
        """
        goes_down = before.cargo[t].has(b) & (before.fetch[b] == none) & (before.holds[b] == h)
        is_stuck = (before.on_host_now.value == before.capacity.value) & before.host.is_empty()
        is_last = before.cargo[t].has(b) & (before.cargo[t].tail() == b)
        return all_of(
            implies(goes_down & is_last & ~is_stuck, self.on_host[h]),
            implies(goes_down & ~self.on_host[h], self.on_host_now.value == self.capacity.value),
            implies(goes_down, self.holds[b] == none),
        )

    @step("G4, G5, G6", of="complete")
    def copies_land_in_order(self, before: TimedTiers, t: Transfer) -> Bool:
        """Where everything stands when a transfer has ended."""
        return all_of(*self._landed_so_far(before, t).values())

    @step("G5", of="complete")
    def a_request_is_promoted_once(self, before: TimedTiers, t: Transfer, r: Request) -> Bool:
        """When its own transfer ends; who waits for another goes on waiting."""
        told = self.promotions.total - before.promotions.total
        return all_of(
            implies(before.serves[t] != none, told == 1) & implies(before.serves[t] == none, told == 0),
            implies(before.waits[r] == t, (self.waits[r] == none) & (told == 1)),
            implies((before.waits[r] != none) & (before.waits[r] != t), self.waits[r] == before.waits[r]),
        )

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
