"""A device in virtual time that may stall, and says so (G1).

Requests wait until so many slots are free as they need, run, and leave; what they leave is copied down, and its slots
are free when that copy has ended, not before. When nobody can run, time moves to the earliest deadline: some copy ends
there, and may make room. Where no copy is under way nothing will ever happen by itself. A simulation that waits on
would wait for ever, and one that ends there would have served less than it says: so it is reported, as a stall.

Nobody stalls by bad luck. When nothing runs and nothing is being copied, every slot is free; so who waits then needs
more slots than there are, and would wait for ever on an empty device too.
"""

from __future__ import annotations

from typing import Self

from ...machine import (
    Bool,
    Int,
    Map,
    Param,
    Scalar,
    Sum,
    Tally,
    action,
    all_of,
    assume,
    can,
    corollary,
    exists,
    forall,
    iff,
    implies,
    invariant,
    ite,
    sometimes,
    step,
)
from ..pool import Request
from .links import Link, Links, Transfer

__all__ = ["Stalls"]


class Stalls(Links):
    """Copies that share links, and requests that wait for the slots that they hold."""

    # -------------------------------------------------------------------------------- parameters

    slots = Param(to=Int)
    """How many slots the device has."""

    need = Param(Request, to=Int)
    """How many of them a request needs at once."""

    @assume("G1")
    def a_device_may_have_nothing(self) -> Bool:
        """And has no fewer slots than none."""
        return self.slots.value >= 0

    @assume("G1")
    def who_runs_needs_something(self, r: Request) -> Bool:
        """A slot at least."""
        return self.need[r] >= 1

    # -------------------------------------------------------------------------------- state

    free = Scalar(to=Int, init=lambda m: m.slots.value)
    """The counter of slots that can be taken."""

    waiting = Map(Request, to=Bool)
    """The request has come, and does not run yet."""

    running = Map(Request, to=Bool)
    """It has its slots, and computes."""

    carried = Map(Transfer, to=Int)
    """The slots that a copy under way reads."""

    stalls = Tally()
    """How often it was said that nothing will happen any more."""

    in_use = Sum(Request, of=lambda m, r: ite(m.running[r], m.need[r], 0), to=Int)
    """The slots of all that run."""

    copying = Sum(Transfer, of=lambda m, t: m.carried[t], to=Int)
    """The slots of all copies under way."""

    # -------------------------------------------------------------------------------- words

    def _can_run(self, r: Request) -> Bool:
        """It does, or its slots are free."""
        return self.running[r] | (self.waiting[r] & (self.need[r] <= self.free.value))

    def nobody_can_run(self) -> Bool:
        """Whoever there is waits for slots that are not free."""
        return forall(Request, lambda r: ~self._can_run(r))

    # -------------------------------------------------------------------------------- actions

    @action("G1")
    def ask(self, r: Request) -> None:
        """A request comes."""
        self.require(~self.waiting[r])
        self.require(~self.running[r])
        self.waiting[r] = True

    @action("G1")
    def enter(self, r: Request) -> None:
        """Its slots are free: it runs."""
        self.require(self.waiting[r])
        self.require(self.need[r] <= self.free.value)
        self.waiting[r] = False
        self.running[r] = True
        self.free.value = self.free.value - self.need[r]

    @action("G1")
    def leave(self, r: Request, t: Transfer, x: Link) -> None:
        """It is done, and what it leaves is copied down. Its slots are not free before the copy has ended."""
        self.require(self.running[r])
        self.require(t == self.issued.value)
        self.running[r] = False
        self._begin(t, x, self.bytes[t])
        self.carried[t] = self.need[r]

    @action("G1, G2, G3")
    def advance_to_deadline(self, t: Transfer) -> None:
        """When nobody can run, time moves to the earliest deadline."""
        self.require(self.nobody_can_run())
        super().advance_to_deadline(t)

    @action("G1")
    def stall(self) -> None:
        """Somebody waits, nobody can run, and there is no deadline: that is said, and nothing else is done."""
        self.require(exists(Request, lambda r: self.waiting[r]))
        self.require(self.nobody_can_run())
        self.require(forall(Transfer, lambda t: ~self.moving[t]))
        self.stalls.add(1)

    def _complete(self, t: Transfer) -> None:
        """What the copy has read is free."""
        super()._complete(t)
        self.free.value = self.free.value + self.carried[t]
        self.carried[t] = 0

    # -------------------------------------------------------------------------------- invariants

    @invariant("G1, P1")
    def no_copy_makes_room(self) -> Bool:
        """Free slots, those of who runs and those that are being copied are all slots."""
        return self.free.value + self.in_use.value + self.copying.value == self.slots.value

    @invariant("G1")
    def nobody_has_fewer_slots_than_none(self, t: Transfer) -> Bool:
        """Nor is more taken than is free."""
        return (self.free.value >= 0) & (self.carried[t] >= 0)

    @invariant("G1")
    def what_is_carried_is_under_way(self, t: Transfer) -> Bool:
        """A copy that has ended reads nothing."""
        return implies(self.carried[t] > 0, self.moving[t])

    @invariant("G1")
    def who_runs_does_not_wait(self, r: Request) -> Bool:
        """A request is in one place."""
        return ~(self.waiting[r] & self.running[r])

    # -------------------------------------------------------------------------------- what is refused, and what is not

    @corollary("G1")
    def a_stall_is_said_when_nothing_will_happen(self) -> Bool:
        """And at no other time: not while somebody runs or could, nor while a copy is under way."""
        is_left = exists(Request, lambda r: self.waiting[r])
        is_busy = exists(Request, lambda r: self.running[r] | (self.waiting[r] & (self.need[r] <= self.free.value)))
        is_copying = exists(Transfer, lambda t: self.moving[t])
        return iff(can(self.stall), all_of(is_left, ~is_busy, ~is_copying))

    @corollary("G1, L1")
    def only_who_never_fits_stalls(self, r: Request) -> Bool:
        """Every slot is free then: who waits needs more than there are."""
        is_empty = self.free.value == self.slots.value
        return implies(can(self.stall), is_empty & implies(self.waiting[r], self.need[r] > self.slots.value))

    @corollary("G1")
    def who_fits_can_run(self, r: Request, t: Transfer, x: Link) -> Bool:
        """Whatever is under way; who runs can leave, if there is an id for its copy."""
        return all_of(
            iff(can(self.ask, r), ~self.waiting[r] & ~self.running[r]),
            iff(can(self.enter, r), self.waiting[r] & (self.need[r] <= self.free.value)),
            iff(can(self.leave, r, t, x), self.running[r] & (t == self.issued.value)),
        )

    @corollary("G1, G2, G3")
    def time_moves_to_the_deadline_that_is_next(self, t: Transfer) -> Bool:
        """As on any link, when nobody can run."""
        takes_time = self.moving[t] & (self.bandwidth[self.link[t]] > 0)
        is_next = self.nothing_is_due() & self.nobody_is_done_before(self.deadline(t))
        is_idle = self.nobody_can_run()
        return implies(takes_time, iff(can(self.advance_to_deadline, t), is_next & is_idle))

    # -------------------------------------------------------------------------------- steps

    @step("G1", of="ask")
    def who_comes_waits(self, before: Self, r: Request) -> Bool:
        """And has nothing yet."""
        return ~before.waiting[r] & self.waiting[r] & ~self.running[r]

    @step("G1", of="enter")
    def who_enters_takes_what_it_needs(self, before: Self, r: Request) -> Bool:
        """All of it, at once, of what was free."""
        is_inside = before.waiting[r] & ~self.waiting[r] & self.running[r]
        return is_inside & (self.free.value == before.free.value - self.need[r]) & (self.free.value >= 0)

    @step("G1", of="leave")
    def who_leaves_frees_nothing_yet(self, before: Self, r: Request, t: Transfer, x: Link, u: Transfer) -> Bool:
        """Its slots go with the copy, on its link; other copies hold what they hold."""
        is_gone = before.running[r] & ~self.running[r] & ~self.waiting[r]
        is_copied = all_of(self.moving[t], self.link[t] == x, self.size[t] == self.bytes[t])
        is_other = implies(u != t, self.carried[u] == before.carried[u])
        return all_of(
            is_gone, is_copied, self.carried[t] == self.need[r], is_other, self.free.value == before.free.value
        )

    @step("G1", of="complete")
    def what_was_copied_is_free(self, before: Self, t: Transfer, u: Transfer) -> Bool:
        """Exactly that; other copies hold what they hold."""
        return all_of(
            self.free.value == before.free.value + before.carried[t],
            self.carried[t] == 0,
            implies(u != t, self.carried[u] == before.carried[u]),
        )

    @step("G1", unless=("enter", "complete"))
    def nothing_else_takes_or_gives_slots(self, before: Self) -> Bool:
        """Above all not time."""
        return self.free.value == before.free.value

    @step("G1", unless=("leave", "complete"))
    def copies_hold_what_they_read(self, before: Self, t: Transfer) -> Bool:
        """From their beginning to their end."""
        return self.carried[t] == before.carried[t]

    @step("G1", unless=("ask", "enter", "leave"))
    def requests_stay_where_they_are(self, before: Self, r: Request) -> Bool:
        """Nobody comes or goes by the passing of time."""
        return iff(self.waiting[r], before.waiting[r]) & iff(self.running[r], before.running[r])

    @step("G1", of=("ask", "enter", "leave"))
    def others_wait_and_run_on(self, before: Self, r: Request, q: Request) -> Bool:
        """Whoever comes or goes."""
        stays = iff(self.waiting[q], before.waiting[q]) & iff(self.running[q], before.running[q])
        return implies(q != r, stays)

    @step("G3", unless=("start", "leave"))
    def nothing_else_begins(self, before: Self) -> Bool:
        """As on any link; here who leaves begins a copy."""
        return super().nothing_else_begins(before)

    @step("G3", of=("start", "leave"))
    def who_begins_takes_the_next_id(self, before: Self, t: Transfer) -> Bool:
        """As on any link."""
        return super().who_begins_takes_the_next_id(before, t)

    @step("G1", of="stall")
    def a_stall_is_counted(self, before: Self, t: Transfer) -> Bool:
        """Nothing begins or ends by it."""
        is_said = self.stalls.total == before.stalls.total + 1
        return is_said & iff(self.moving[t], before.moving[t]) & (self.issued.value == before.issued.value)

    @step("G1", unless="stall")
    def nothing_else_is_a_stall(self, before: Self) -> Bool:
        """As long as something happens."""
        return self.stalls.total == before.stalls.total

    @step("G1", of="advance_to_deadline")
    def time_waits_for_who_can_run(self, before: Self, r: Request) -> Bool:
        """Nobody is kept from running by a deadline."""
        return ~before.running[r] & ~(before.waiting[r] & (self.need[r] <= before.free.value))

    # -------------------------------------------------------------------------------- what must be reachable

    @sometimes("G1")
    def somebody_waits_for_a_copy(self, r: Request, t: Transfer) -> Bool:
        """That is halfway: nobody can run, and there is a deadline."""
        is_halfway = self.moving[t] & (self.left(t) > 0) & (self.left(t) < self.size[t])
        return all_of(self.nobody_can_run(), self.waiting[r], self.need[r] <= self.slots.value, is_halfway)

    @sometimes("G1")
    def the_device_stalls(self, r: Request, q: Request) -> Bool:
        """One request does not fit, and another has been served."""
        return all_of(can(self.stall), self.waiting[r], q != r, self.issued.value > 0)
