"""Links in virtual time: how long copies take that share a bandwidth (G2, G3).

A link moves bytes. Transfers that are active on it share it fairly: with k of them, each moves at bandwidth / k. As all
of them progress alike, one number says it for all: how many bytes each transfer has received that was active since the
link was last idle. A transfer is done when this number reaches its mark: what the number was when it began, and its
own bytes. So time passing changes one number for each link, however many transfers there are.

Time is exact, so is every number of bytes: no argument hangs on how a computer rounds. Nothing happens by itself: time
moves to a moment, or to the earliest deadline, never past one; what is due is completed one by one.
"""

from __future__ import annotations

from typing import Self

from ...machine import (
    Bool,
    Count,
    Index,
    Int,
    Machine,
    Map,
    Param,
    Queue,
    Real,
    Scalar,
    Sort,
    Sum,
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
    none,
    optional,
    sometimes,
    step,
    when,
)

__all__ = ["Link", "Links", "Moment", "Transfer"]


class Link(Sort):
    """Something that copies share: device to host, host to device, a network."""


class Transfer(Index):
    """A copy. Its number is its id: ids are given in the order in which copies begin, whatever the link."""


class Moment(Sort):
    """Something that happens outside, at a time of its own."""


class Links(Machine):
    """Transfers on links, in virtual time."""

    # -------------------------------------------------------------------------------- parameters

    bandwidth = Param(Link, to=Real)
    """Bytes per unit of time; where it is not positive, copies take no time (G2)."""

    bytes = Param(Transfer, to=Real)
    """How much a transfer moves."""

    time = Param(Moment, to=Real)
    """When it happens."""

    # -------------------------------------------------------------------------------- state

    now = Scalar(to=Real)
    """The time."""

    issued = Scalar(to=Int)
    """How many transfers have begun: the next id."""

    link = Map(Transfer, to=optional(Link))
    """The link that a transfer takes, or took."""

    size = Map(Transfer, to=Real)
    """The bytes that it moves."""

    moving = Map(Transfer, to=Bool)
    """The transfer has begun and is not completed: it is active."""

    begun = Map(Transfer, to=Real)
    """When it began."""

    mark = Map(Transfer, to=Real)
    """What its link has to have given to each for the transfer to be done."""

    given = Map(Link, to=Real)
    """The bytes that each transfer has received that was active since the link was last idle."""

    ended = Map(Transfer, to=Real)
    """When it was completed."""

    completed = Queue(Transfer)
    """The transfers that are done, in the order of their completion."""

    active = Count(Transfer, where=lambda m, t, x: m.moving[t] & (m.link[t] == x), by=Link)
    """How many transfers share the link."""

    marks = Sum(Transfer, of=lambda m, t, x: ite(m.moving[t] & (m.link[t] == x), m.mark[t], 0), by=Link, to=Real)
    """All their marks together."""

    @assume("G2")
    def bytes_are_not_negative(self, t: Transfer) -> Bool:
        """There may be none."""
        return self.bytes[t] >= 0

    # -------------------------------------------------------------------------------- words

    def left(self, t: Transfer) -> Real:
        """The bytes that an active transfer has yet to move."""
        return self.mark[t] - self.given[self.link[t]]

    def load(self, x: Link) -> Real:
        """The bytes that all active transfers of a link have yet to move."""
        return self.marks[x] - self.given[x] * self.active[x]

    def is_due(self, t: Transfer) -> Bool:
        """The transfer is active and has nothing left to move."""
        return self.moving[t] & (self.left(t) == 0)

    def nothing_is_due(self) -> Bool:
        """Everything that is done was completed."""
        return forall(Transfer, lambda t: ~self.is_due(t))

    def deadline(self, t: Transfer) -> Real:
        """When an active transfer that is not due will be, if nothing else begins or ends on its link."""
        x = self.link[t]
        return self.now.value + self.left(t) * self.active[x] / self.bandwidth[x]

    def nobody_is_done_before(self, time: Real) -> Bool:
        """No deadline lies between now and then: each transfer needs at least that long for what it has left."""
        passed = time - self.now.value
        return forall(
            Transfer,
            lambda t: implies(
                self.moving[t], self.bandwidth[self.link[t]] * passed <= self.left(t) * self.active[self.link[t]]
            ),
        )

    def may_move_to(self, time: Real) -> Bool:
        """Nothing is passed over if time moves so far; who shares a link with others asks more."""
        return self.nobody_is_done_before(time)

    # -------------------------------------------------------------------------------- actions

    @action("G2, G3")
    def start(self, t: Transfer, x: Link, m: Moment) -> None:
        """A copy begins. Who asks for an earlier time than it is gets the present one."""
        self.require(self.time[m] <= self.now.value)
        self.require(t == self.issued.value)
        self._begin(t, x, self.bytes[t])

    def _begin(self, t: Transfer, x: Link, size: Real) -> None:
        """The next id is taken by a copy of that size, from now on."""
        self.issued.value = t + 1
        self.link[t] = x
        self.size[t] = size
        self.moving[t] = True
        self.begun[t] = self.now.value
        self.mark[t] = self.given[x] + ite(self.bandwidth[x] > 0, size, 0)

    @action("G2, G3")
    def advance(self, m: Moment) -> None:
        """Time moves to a moment, unless that is past. Deadlines on the way come first."""
        self.require(self.nothing_is_due())
        self.require(self.may_move_to(self.time[m]))
        with when(self.time[m] > self.now.value):
            self._move(self.time[m])

    @action("G1, G2, G3")
    def advance_to_deadline(self, t: Transfer) -> None:
        """Time moves to the earliest deadline."""
        self.require(self.moving[t])
        self.require(self.nothing_is_due())
        deadline = self.deadline(t)
        self.require(self.may_move_to(deadline))
        self._move(deadline)

    def _move(self, time: Real) -> None:
        """Every active transfer moves on by its share of its link's bandwidth."""
        passed = time - self.now.value
        with self.each(Link) as x, when(self.active[x] > 0):
            self.given[x] = self.given[x] + self.bandwidth[x] * passed / self.active[x]
        self.now.value = time

    @action("G3")
    def complete(self, t: Transfer) -> None:
        """Of the transfers that are due, the one with the least id is completed."""
        self._require_first_due(t)
        self._complete(t)

    def _require_first_due(self, t: Transfer) -> None:
        self.require(self.moving[t])
        self.require(self.is_due(t))
        self.require(forall(Transfer, lambda u: implies(self.is_due(u), t <= u)))

    def _complete(self, t: Transfer) -> None:
        is_last = self.active[self.link[t]] == 1
        self.moving[t] = False
        self.ended[t] = self.now.value
        self.completed.push_back(t)
        with when(is_last):
            self.given[self.link[t]] = 0

    # -------------------------------------------------------------------------------- invariants

    @invariant("G3")
    def ids_are_given_in_order(self, t: Transfer) -> Bool:
        """Exactly the transfers below the next id have begun; each is either active or completed."""
        return all_of(
            iff(t < self.issued.value, self.moving[t] | self.completed.has(t)),
            ~(self.moving[t] & self.completed.has(t)),
        )

    @invariant("G2")
    def a_transfer_has_a_link(self, t: Transfer) -> Bool:
        """From its beginning on."""
        return implies(t < self.issued.value, (self.link[t] != none) & (self.size[t] >= 0))

    @invariant("G2")
    def nothing_is_overdue(self, t: Transfer) -> Bool:
        """Time never passes a deadline: nobody has moved more than it has."""
        return implies(self.moving[t], self.left(t) >= 0)

    @invariant("G2")
    def an_idle_link_starts_anew(self, x: Link) -> Bool:
        """What was given is forgotten when nobody needs it."""
        return (self.given[x] >= 0) & implies(self.active[x] == 0, self.given[x] == 0)

    @invariant("G2")
    def without_a_bandwidth_copies_take_no_time(self, t: Transfer) -> Bool:
        """They are due when they begin, and never wait."""
        return implies(
            (t < self.issued.value) & (self.bandwidth[self.link[t]] <= 0),
            all_of(
                implies(self.moving[t], (self.left(t) == 0) & (self.begun[t] == self.now.value)),
                implies(self.completed.has(t), self.ended[t] == self.begun[t]),
            ),
        )

    @invariant("G2")
    def nobody_is_faster_than_its_link(self, t: Transfer) -> Bool:
        """A copy that had the link to itself would take bytes / bandwidth; none takes less."""
        is_slow = (t < self.issued.value) & (self.bandwidth[self.link[t]] > 0)
        lasts = ite(self.moving[t], self.now.value, self.ended[t]) - self.begun[t]
        moved = ite(self.moving[t], self.size[t] - self.left(t), self.size[t])
        return implies(is_slow, moved <= self.bandwidth[self.link[t]] * lasts)

    @invariant("G3")
    def nothing_is_of_the_future(self, t: Transfer) -> Bool:
        """A transfer ends when it has begun, and not after now."""
        return all_of(
            implies(t < self.issued.value, self.begun[t] <= self.now.value),
            implies(self.completed.has(t), (self.begun[t] <= self.ended[t]) & (self.ended[t] <= self.now.value)),
        )

    @invariant("G3")
    def completions_come_in_order(self, t: Transfer, u: Transfer) -> Bool:
        """By time, and at one time by id."""
        return implies(
            self.completed.before(t, u),
            (self.ended[t] < self.ended[u]) | ((self.ended[t] == self.ended[u]) & (t < u)),
        )

    @invariant("G3")
    def who_waits_comes_later(self, t: Transfer, u: Transfer) -> Bool:
        """Of transfers that end at one time, those with the lesser ids are completed first."""
        is_first = self.completed.has(t) & (self.ended[t] == self.now.value)
        return implies(is_first & self.is_due(u), t < u)

    # -------------------------------------------------------------------------------- what is refused, and what is not

    @corollary("G2, G3")
    def a_copy_begins_now(self, t: Transfer, x: Link, m: Moment) -> Bool:
        """With the next id, whatever is under way; for a time to come nothing begins."""
        return iff(can(self.start, t, x, m), (self.time[m] <= self.now.value) & (t == self.issued.value))

    @corollary("G2, G3")
    def time_moves_past_no_deadline(self, m: Moment) -> Bool:
        """What is due, or would be on the way, is completed first."""
        return iff(can(self.advance, m), self.nothing_is_due() & self.nobody_is_done_before(self.time[m]))

    @corollary("G1, G2, G3")
    def time_moves_to_the_deadline_that_is_next(self, t: Transfer) -> Bool:
        """Of all transfers under way, where they take time; not while something is due."""
        takes_time = self.moving[t] & (self.bandwidth[self.link[t]] > 0)
        is_next = self.nothing_is_due() & self.nobody_is_done_before(self.deadline(t))
        return implies(takes_time, iff(can(self.advance_to_deadline, t), is_next))

    @corollary("G3")
    def of_those_that_are_due_the_first_is_completed(self, t: Transfer) -> Bool:
        """And no other can be."""
        is_sooner = exists(Transfer, lambda u: self.is_due(u) & (u < t))
        return iff(can(self.complete, t), self.is_due(t) & ~is_sooner)

    # -------------------------------------------------------------------------------- steps

    @step("G3")
    def time_never_runs_back(self, before: Links) -> Bool:
        """Whatever is asked for."""
        return self.now.value >= before.now.value

    @step("G3", of="advance")
    def time_moves_to_the_moment(self, before: Links, m: Moment) -> Bool:
        """Unless that is past."""
        is_later = self.time[m] > before.now.value
        return self.now.value == ite(is_later, self.time[m], before.now.value)

    @step("G3", of="advance_to_deadline")
    def time_moves_to_the_earliest_deadline(self, before: Links, t: Transfer) -> Bool:
        """The transfer is due then; nothing was before."""
        return before.nothing_is_due() & self.is_due(t)

    @step("G3", unless=("advance", "advance_to_deadline"))
    def time_stands_still(self, before: Links) -> Bool:
        """Whatever begins or ends."""
        return self.now.value == before.now.value

    @step("G3", unless="start")
    def nothing_else_begins(self, before: Self) -> Bool:
        """The next id is given to who begins."""
        return self.issued.value == before.issued.value

    @step("G3", of="start")
    def who_begins_takes_the_next_id(self, before: Self, t: Transfer) -> Bool:
        """And the one behind it is the next."""
        return (t == before.issued.value) & (self.issued.value == before.issued.value + 1)

    @step("G2, G3")
    def who_begins_does_so_now(self, before: Self, t: Transfer) -> Bool:
        """With all its bytes before it, where copies take time."""
        begins = self.moving[t] & ~before.moving[t]
        size = ite(self.bandwidth[self.link[t]] > 0, self.size[t], 0)
        return implies(begins, (self.begun[t] == before.now.value) & (self.left(t) == size))

    @step("G3", unless="complete")
    def nothing_else_ends(self, before: Self, t: Transfer) -> Bool:
        """Time may move up to a deadline; what is due then is completed by itself."""
        return implies(before.moving[t], self.moving[t])

    @step("G2, G3")
    def what_a_transfer_is_it_stays(self, before: Self, t: Transfer) -> Bool:
        """Its link, its bytes and its beginning are known when it begins, its end when it ends; neither changes."""
        begins, ends = self.moving[t] & ~before.moving[t], before.moving[t] & ~self.moving[t]
        is_same = all_of(
            self.link[t] == before.link[t],
            self.size[t] == before.size[t],
            self.begun[t] == before.begun[t],
            self.mark[t] == before.mark[t],
        )
        return (begins | is_same) & (ends | (self.ended[t] == before.ended[t]))

    @step("G2")
    def nothing_moves_while_time_stands(self, before: Self, x: Link) -> Bool:
        """Who shares a link has received what it had; an idle link forgets that."""
        stands = (self.now.value == before.now.value) & (self.active[x] > 0)
        return implies(stands, self.given[x] == before.given[x])

    @step("G2", of=("advance", "advance_to_deadline"))
    def a_link_is_shared_fairly(self, before: Links, t: Transfer) -> Bool:
        """With k active transfers, each moves at bandwidth / k."""
        x = before.link[t]
        passed = self.now.value - before.now.value
        moved = before.left(t) - self.left(t)
        return implies(before.moving[t], moved * before.active[x] == self.bandwidth[x] * passed)

    @step("G2", of=("advance", "advance_to_deadline"))
    def bytes_are_conserved(self, before: Links, x: Link) -> Bool:
        """While a transfer is active, a link moves bandwidth x time, no more and no less."""
        passed = self.now.value - before.now.value
        return implies(before.active[x] > 0, before.load(x) - self.load(x) == self.bandwidth[x] * passed)

    @step("G2", of="start")
    def a_beginning_adds_its_bytes(self, before: Links, t: Transfer, x: Link) -> Bool:
        """All of them, to the load of its link, if copies take time there."""
        is_right = (self.link[t] == x) & (self.size[t] == self.bytes[t])
        return is_right & (self.load(x) == before.load(x) + ite(self.bandwidth[x] > 0, self.size[t], 0))

    @step("G2", of="complete")
    def an_end_leaves_nothing_behind(self, before: Links, t: Transfer, x: Link) -> Bool:
        """A completed transfer has moved all its bytes, and nobody else's."""
        return (before.left(t) == 0) & (self.load(x) == before.load(x))

    @step("G3", of="start")
    def a_beginning_is_not_backdated(self, before: Links, t: Transfer, m: Moment) -> Bool:
        """The clock counts, not the time that was asked for; and the id was nobody's."""
        is_new = ~before.moving[t] & ~before.completed.has(t)
        return is_new & (self.begun[t] == before.now.value) & (self.time[m] <= self.begun[t])

    @step("G3", of="complete")
    def a_completion_is_of_one(self, before: Links, t: Transfer, u: Transfer) -> Bool:
        """It concerns the transfer whose id it names, now, and no other."""
        return all_of(
            self.completed.has(t) & (self.ended[t] == before.now.value),
            implies(
                u != t, iff(self.moving[u], before.moving[u]) & iff(self.completed.has(u), before.completed.has(u))
            ),
        )

    # -------------------------------------------------------------------------------- what must be reachable

    @sometimes("G2")
    def a_link_is_shared(self, t: Transfer, u: Transfer) -> Bool:
        """Two transfers are under way on one link, one of them halfway."""
        return all_of(
            self.moving[t] & self.moving[u] & (t != u) & (self.link[t] == self.link[u]),
            (self.left(t) > 0) & (self.left(t) < self.size[t]),
        )

    @sometimes("G3")
    def a_later_copy_ends_first(self, t: Transfer, u: Transfer) -> Bool:
        """It had less to move."""
        return self.completed.before(t, u) & (t > u) & (self.begun[u] < self.begun[t])

    @sometimes("G3")
    def two_end_at_one_time(self, t: Transfer, u: Transfer) -> Bool:
        """On different links."""
        return all_of(
            self.completed.before(t, u) & (self.ended[t] == self.ended[u]),
            self.begun[t] < self.ended[t],
            self.link[t] != self.link[u],
        )
