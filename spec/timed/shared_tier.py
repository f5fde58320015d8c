"""A tier that several workers share, in virtual time (G8).

Workers compute on their own, each with a clock of its own: simulated one after the other, one is ahead of another. A
tier of its own a worker can look at by its own clock. A shared one it cannot: what it finds there at its time t depends
on what others stored until then, also on those that have yet to be simulated up to t. So the tier has a clock too,
that of its link, on which all completions stand in one order. It never runs ahead of any worker. A worker that wants to
store or to look waits until the tier has come to its own time. So the worker that is furthest back goes on first, and
what anybody does is never of the past.
"""

from __future__ import annotations

from typing import Self

from ...machine import (
    Bool,
    Map,
    Real,
    Sort,
    action,
    all_of,
    can,
    corollary,
    exists,
    forall,
    iff,
    implies,
    invariant,
    ite,
    none,
    optional,
    sometimes,
    step,
    when,
)
from ..pool import Hash
from ..timed.links import Link, Links, Moment, Transfer

__all__ = ["SharedTier", "Worker"]


class Worker(Sort):
    """An engine that is simulated."""


class SharedTier(Links):
    """Workers that store to, and look into, one tier."""

    clock = Map(Worker, to=Real)
    """How far a worker is."""

    stores = Map(Transfer, to=optional(Hash))
    """What a transfer copies into the tier."""

    present = Map(Hash, to=Bool)
    """What a lookup finds there, whoever asks."""

    # -------------------------------------------------------------------------------- words

    def is_up_to(self, w: Worker) -> Bool:
        """The tier knows all that happened until the worker's time, and nothing that happens later."""
        return (self.clock[w] == self.now.value) & self.nothing_is_due()

    def nobody_is_behind(self, time: Real) -> Bool:
        """Every worker has come that far: nobody can act before that time any more."""
        return forall(Worker, lambda w: time <= self.clock[w])

    def has_landed(self, h: Hash, time: Real) -> Bool:
        """A copy of it was completed at or before that time."""
        return exists(
            Transfer,
            lambda t: all_of(self.completed.has(t), self.stores[t] == h, self.ended[t] <= time),
        )

    def may_move_to(self, time: Real) -> Bool:
        """As on any link; and all workers have come that far."""
        return super().may_move_to(time) & self.nobody_is_behind(time)

    # -------------------------------------------------------------------------------- actions

    @action("G8")
    def work(self, w: Worker, m: Moment) -> None:
        """A worker computes until some later time."""
        with when(self.time[m] > self.clock[w]):
            self.clock[w] = self.time[m]

    @action("G8")
    def store(self, w: Worker, h: Hash, t: Transfer, x: Link) -> None:
        """A worker copies something into the tier that neither is there nor on its way."""
        self.require(self.is_up_to(w))
        self.require(t == self.issued.value)
        self.require(~self.present[h])
        self.require(forall(Transfer, lambda u: ~(self.moving[u] & (self.stores[u] == h))))
        self._begin(t, x, self.bytes[t])
        self.stores[t] = h

    @action("G8")
    def look(self, w: Worker, h: Hash) -> Bool:
        """A worker asks whether the tier has something. That changes nothing."""
        self.require(self.is_up_to(w))
        return self.present[h]

    def _complete(self, t: Transfer) -> None:
        super()._complete(t)
        with when(self.stores[t] != none):
            self.present[self.stores[t]] = True

    # -------------------------------------------------------------------------------- invariants

    @invariant("G8")
    def the_tier_is_ahead_of_nobody(self, w: Worker) -> Bool:
        """So whatever a worker does is of the tier's present or future."""
        return self.now.value <= self.clock[w]

    @invariant("G8")
    def what_is_present_has_landed(self, h: Hash) -> Bool:
        """By the one queue of completions."""
        return iff(self.present[h], self.has_landed(h, self.now.value))

    @invariant("G8")
    def a_worker_sees_what_has_landed(self, w: Worker, h: Hash) -> Bool:
        """At its time t exactly the blocks whose copies were completed at or before t, by whichever worker."""
        return implies(self.is_up_to(w), iff(self.present[h], self.has_landed(h, self.clock[w])))

    @invariant("G8")
    def nothing_is_yet_to_land(self, w: Worker, t: Transfer) -> Bool:
        """When a worker looks, every copy under way still has something to move: it lands later than that."""
        return implies(self.is_up_to(w) & self.moving[t], self.left(t) > 0)

    @invariant("G8")
    def a_copy_under_way_is_of_what_is_missing(self, t: Transfer, u: Transfer, h: Hash) -> Bool:
        """And of nothing that another copy brings."""
        return implies(
            self.moving[t] & (self.stores[t] == h),
            ~self.present[h] & implies(self.moving[u] & (self.stores[u] == h), t == u),
        )

    @invariant("G8")
    def who_stores_has_begun(self, t: Transfer) -> Bool:
        """Ids that nobody has store nothing."""
        return implies(self.stores[t] != none, t < self.issued.value)

    # -------------------------------------------------------------------------------- what is refused, and what is not

    @corollary("G8")
    def a_worker_can_always_go_on(self, w: Worker, m: Moment) -> Bool:
        """Whatever the tier does."""
        return can(self.work, w, m)

    @corollary("G8")
    def who_is_up_to_date_can_look(self, w: Worker, h: Hash) -> Bool:
        """The tier has come to the worker's time, and all that was due is there."""
        return iff(can(self.look, w, h), (self.clock[w] == self.now.value) & self.nothing_is_due())

    @corollary("G8, O3")
    def what_nobody_stores_can_be_stored(self, w: Worker, h: Hash, t: Transfer, x: Link) -> Bool:
        """By a worker that could look; with the next id, on any link."""
        is_stored = self.present[h] | exists(Transfer, lambda u: self.moving[u] & (self.stores[u] == h))
        return iff(can(self.store, w, h, t, x), all_of(self.is_up_to(w), t == self.issued.value, ~is_stored))

    @corollary("G3, G8")
    def time_moves_past_no_deadline(self, m: Moment) -> Bool:
        """As on any link; and past no worker."""
        is_next = self.nothing_is_due() & self.nobody_is_done_before(self.time[m])
        return iff(can(self.advance, m), is_next & self.nobody_is_behind(self.time[m]))

    @corollary("G3, G8")
    def time_moves_to_the_deadline_that_is_next(self, t: Transfer) -> Bool:
        """As on any link, when all workers have come that far."""
        takes_time = self.moving[t] & (self.bandwidth[self.link[t]] > 0)
        deadline = self.deadline(t)
        is_next = all_of(self.nothing_is_due(), self.nobody_is_done_before(deadline), self.nobody_is_behind(deadline))
        return implies(takes_time, iff(can(self.advance_to_deadline, t), is_next))

    # -------------------------------------------------------------------------------- steps

    @step("G8", of="store")
    def a_store_begins_at_its_workers_time(
        self, before: SharedTier, w: Worker, h: Hash, t: Transfer, x: Link, u: Transfer
    ) -> Bool:
        """Not later, because the tier was ahead, and not earlier; and it is of what was asked for.

        Other transfers bring what they brought.
        """
        is_other = implies(u != t, self.stores[u] == before.stores[u])
        is_right = all_of(self.stores[t] == h, self.size[t] == self.bytes[t], self.link[t] == x, is_other)
        return is_right & (self.begun[t] == before.clock[w])

    @step("G3", unless=("start", "store"))
    def nothing_else_begins(self, before: Self) -> Bool:
        """As on any link; here stores begin copies."""
        return super().nothing_else_begins(before)

    @step("G3", of=("start", "store"))
    def who_begins_takes_the_next_id(self, before: Self, t: Transfer) -> Bool:
        """As on any link."""
        return super().who_begins_takes_the_next_id(before, t)

    @step("G8", of="work")
    def a_worker_goes_on_by_itself(self, before: SharedTier, w: Worker, m: Moment, v: Worker) -> Bool:
        """To that moment, unless it is past; the tier waits."""
        is_later = self.time[m] > before.clock[w]
        return all_of(
            self.clock[w] == ite(is_later, self.time[m], before.clock[w]),
            implies(v != w, self.clock[v] == before.clock[v]),
        )

    @step("G8", unless="work")
    def clocks_stand_still(self, before: SharedTier, w: Worker) -> Bool:
        """Storing and looking take no time of a worker's."""
        return self.clock[w] == before.clock[w]

    @step("G8", of="look")
    def who_looks_sees_what_has_landed(self, before: SharedTier, w: Worker, h: Hash, result: Bool) -> Bool:
        """Until its own time."""
        return before.is_up_to(w) & iff(result, before.has_landed(h, before.clock[w]))

    @step("G8", unless="complete")
    def nothing_lands_before_its_copy_is_complete(self, before: SharedTier, h: Hash) -> Bool:
        """Nor does anything go."""
        return iff(self.present[h], before.present[h])

    @step("G8", unless="store")
    def what_is_stored_is_what_was_asked_for(self, before: SharedTier, t: Transfer) -> Bool:
        """No transfer changes what it brings."""
        return self.stores[t] == before.stores[t]

    @step("G8", of="complete")
    def what_was_stored_can_be_seen(self, before: SharedTier, t: Transfer, h: Hash) -> Bool:
        """From now on, and nothing else."""
        return iff(self.present[h], before.present[h] | (before.stores[t] == h))

    @step("G8", of="complete")
    def what_was_seen_stays(self, before: SharedTier, h: Hash, w: Worker) -> Bool:
        """No completion is of a time that some worker has left behind the tier: nobody has missed it."""
        landed = self.present[h] & ~before.present[h]
        return implies(landed, self.now.value <= self.clock[w])

    # -------------------------------------------------------------------------------- what must be reachable

    @sometimes("G8")
    def one_finds_what_another_stored(self, w: Worker, v: Worker, h: Hash) -> Bool:
        """And a third hash is on its way."""
        return all_of(
            self.present[h] & self.is_up_to(w) & (self.clock[w] < self.clock[v]),
            exists(Transfer, lambda t: self.moving[t] & (self.stores[t] != none)),
        )
