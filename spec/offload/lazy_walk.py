"""The lazy walk: a cursor in the free queue, and so many blocks a call (O4).

What will be reused next stands at the head of the free queue, so that is where a lazy store looks. It need not look at
everything in each step: a call looks at a number of blocks, its target, and the next one goes on behind the last of
these, the cursor. Then what the cursor has passed must stay settled, on the host or worth nothing. Whatever could
unsettle it sends the walk back to the head: the cursor's block leaves the queue, even if it comes back at once, for it
comes back somewhere else; and the host forgets what the device still has.

Machine O walks the whole queue each time, so it needs no cursor and has no target. Here is nothing else: which blocks
are free, what is worth a store, and how far a call has come. While a call is under way nothing else happens, so it is
one step to everybody else, and it ends when its target is reached, the queue is, or the host has no room for the block
that comes next.
"""

from __future__ import annotations

from typing import Self

from ...machine import (
    Bool,
    Count,
    Int,
    Machine,
    Map,
    Param,
    Queue,
    Scalar,
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
    none,
    optional,
    otherwise,
    sometimes,
    step,
    when,
)
from ..pool import Block

__all__ = ["LazyWalk"]


class LazyWalk(Machine):
    """A free queue, the blocks that can be found, and a walk that stores them before they are reused."""

    # -------------------------------------------------------------------------------- parameters

    target = Param(to=Int)
    """How many blocks one call looks at, at most."""

    host_room = Param(to=Int)
    """How many stores the host can take at a time."""

    @assume("O4")
    def a_call_looks_at_something(self) -> Bool:
        """And there is a host."""
        return (self.target.value >= 1) & (self.host_room.value >= 1)

    # -------------------------------------------------------------------------------- state

    free = Queue(Block, init=True)
    """The free queue: the head is reused next."""

    cached = Map(Block, to=Bool)
    """A full block that can be found under a hash."""

    stored = Map(Block, to=Bool)
    """The host has what it holds."""

    storing = Map(Block, to=Bool)
    """A store reads the block, and holds it."""

    cursor = Scalar(to=optional(Block))
    """The block that was looked at last; none: the walk begins at the head."""

    left = Scalar(to=Int)
    """How many blocks the call that is under way may look at."""

    in_flight = Count(Block, where=lambda m, b: m.storing[b])
    """The stores under way."""

    # -------------------------------------------------------------------------------- words

    def is_worth_storing(self, b: Block) -> Bool:
        """It can be found, and the host does not have it."""
        return self.cached[b] & ~self.stored[b]

    def is_ahead(self, b: Block) -> Bool:
        """A free block that the cursor has not passed."""
        return self.free.has(b) & forall(Block, lambda a: implies(self.cursor.value == a, self.free.before(a, b)))

    def is_next(self, b: Block) -> Bool:
        """Of these the first."""
        return self.is_ahead(b) & forall(Block, lambda a: implies(self.is_ahead(a), ~self.free.before(a, b)))

    def is_over(self) -> Bool:
        """No call is under way."""
        return self.left.value == 0

    # -------------------------------------------------------------------------------- the walk

    @action("O4")
    def scan(self) -> None:
        """A call begins."""
        self.require(self.is_over())
        self.left.value = self.target.value

    @action("O4")
    def look(self, b: Block) -> None:
        """The call looks at the next block, and stores it if that is worth something; if not, the cursor passes it."""
        self.require(self.left.value > 0)
        self.require(self.is_next(b))
        self.require(implies(self.is_worth_storing(b), self.in_flight.value < self.host_room.value))
        self.left.value = self.left.value - 1
        with when(self.is_worth_storing(b)):
            self.free.remove(b)
            self.storing[b] = True
        with otherwise():
            self.cursor.value = b

    @action("O4")
    def stop(self) -> None:
        """The call ends before its target: nothing is ahead, or the host has no room for what is next."""
        self.require(self.left.value > 0)
        has_no_room = self.in_flight.value >= self.host_room.value
        is_stuck = exists(Block, lambda b: self.is_next(b) & self.is_worth_storing(b)) & has_no_room
        self.require(is_stuck | forall(Block, lambda b: ~self.is_ahead(b)))
        self.left.value = 0

    # -------------------------------------------------------------------------------- everything else

    @action("O4")
    def hit(self, b: Block) -> None:
        """A free block is used again."""
        self.require(self.is_over())
        self.require(self.free.has(b))
        self._leave_queue(b)

    @action("O4")
    def allocate(self) -> Block:
        """The head of the queue is taken for something else."""
        self.require(self.is_over())
        self.require(~self.free.is_empty())
        b = self.free.head()
        self._leave_queue(b)
        self.cached[b] = False
        self.stored[b] = False
        return b

    def _leave_queue(self, b: Block) -> None:
        """The walk begins anew if its cursor stood there."""
        with when(self.cursor.value == b):
            self.cursor.value = none
        self.free.remove(b)

    @action("O4")
    def register(self, b: Block) -> None:
        """A block that is in use is full, and can be found."""
        self.require(self.is_over())
        self.require(~self.free.has(b))
        self.require(~self.cached[b])
        self.cached[b] = True

    @action("O4")
    def give_back(self, b: Block) -> None:
        """Nobody uses the block any more."""
        self.require(self.is_over())
        self.require(~self.free.has(b))
        self.require(~self.storing[b])
        self.free.push_back(b)

    @action("O2, O4")
    def end_store(self, b: Block, ok: Bool) -> None:
        """The host has it, or the store has failed; the block is free, behind all others."""
        self.require(self.is_over())
        self.require(self.storing[b])
        self.storing[b] = False
        self.stored[b] = ok
        self.free.push_back(b)

    @action("O4")
    def host_forgets(self, b: Block) -> None:
        """The host makes room: what the device has is worth a store again. Had the cursor passed it, it goes back."""
        self.require(self.is_over())
        self.require(self.stored[b])
        self.stored[b] = False
        with when(self.free.has(b)):
            self._go_back()

    def _go_back(self) -> None:
        """The next call begins at the head."""
        self.cursor.value = none

    # -------------------------------------------------------------------------------- invariants

    @invariant("O4")
    def the_cursor_stands_in_the_queue(self, b: Block) -> Bool:
        """And has stood there ever since it was put there."""
        return implies(self.cursor.value == b, self.free.has(b))

    @invariant("O4")
    def what_was_passed_is_settled(self, b: Block) -> Bool:
        """On the host, or worth nothing: no walk goes past a block that it should have stored."""
        return implies(self.free.has(b) & ~self.is_ahead(b), ~self.is_worth_storing(b))

    @invariant("O2")
    def what_is_being_stored_is_held(self, b: Block) -> Bool:
        """It is not free meanwhile, can be found, and is not on the host yet."""
        return all_of(
            implies(self.storing[b], ~self.free.has(b) & self.is_worth_storing(b)),
            implies(self.stored[b], self.cached[b]),
        )

    @invariant("O4")
    def nobody_looks_further_than_it_may(self) -> Bool:
        """In one call; and no more is stored at a time than the host can take."""
        is_bounded = (self.left.value >= 0) & (self.left.value <= self.target.value)
        return is_bounded & (self.in_flight.value <= self.host_room.value)

    # -------------------------------------------------------------------------------- what is refused, and what is not

    @corollary("O4")
    def a_call_looks_at_what_comes_next(self, b: Block) -> Bool:
        """While it may; and passes over nothing for want of room."""
        is_first = all_of(self.is_ahead(b), forall(Block, lambda a: ~(self.is_ahead(a) & self.free.before(a, b))))
        fits = ~self.is_worth_storing(b) | (self.in_flight.value < self.host_room.value)
        return all_of(
            iff(can(self.scan), self.left.value == 0),
            iff(can(self.look, b), all_of(self.left.value > 0, is_first, fits)),
            implies(can(self.stop), ~can(self.look, b)),
        )

    @corollary("O4")
    def a_call_ends_early_for_a_reason(self) -> Bool:
        """It has come to the end of the queue, or to a block for which the host has no room."""
        is_at_the_end = ~exists(Block, self.is_ahead)
        is_stuck = exists(Block, lambda b: self.is_next(b) & self.is_worth_storing(b))
        is_full = self.in_flight.value == self.host_room.value
        return iff(can(self.stop), (self.left.value > 0) & (is_at_the_end | (is_stuck & is_full)))

    @corollary("O4")
    def between_calls_anything_may_happen(self, b: Block, ok: Bool) -> Bool:
        """That is possible at all."""
        may, is_held = self.left.value == 0, ~self.free.has(b)
        return all_of(
            iff(can(self.hit, b), may & self.free.has(b)),
            iff(can(self.allocate), may & exists(Block, self.free.has)),
            iff(can(self.register, b), all_of(may, is_held, ~self.cached[b])),
            iff(can(self.give_back, b), all_of(may, is_held, ~self.storing[b])),
            iff(can(self.end_store, b, ok), may & self.storing[b]),
            iff(can(self.host_forgets, b), may & self.stored[b]),
        )

    # -------------------------------------------------------------------------------- steps

    @step("O4", of="scan")
    def a_call_begins_with_its_target(self, before: Self) -> Bool:
        """All of it, where the last one has ended."""
        return (before.left.value == 0) & (self.left.value == self.target.value)

    @step("O4", of="look")
    def each_look_counts(self, before: Self, b: Block) -> Bool:
        """The block is stored exactly if that is worth something; if not, it was passed."""
        is_stored = before.is_worth_storing(b)
        return all_of(
            (before.left.value > 0) & (self.left.value == before.left.value - 1),
            iff(self.storing[b], is_stored) & iff(self.free.has(b), ~is_stored),
            implies(~is_stored, self.cursor.value == b),
            implies(is_stored, self.cursor.value == before.cursor.value),
        )

    @step("O4", of="look")
    def what_is_stored_is_reused_first(self, before: Self, a: Block, b: Block) -> Bool:
        """Of all free blocks that are worth a store it stood nearest to the head, wherever the walk had begun."""
        is_sooner = before.free.before(a, b) & before.is_worth_storing(a)
        return implies(before.is_worth_storing(b), ~is_sooner)

    @step("O4", of="stop")
    def a_call_that_stops_changes_nothing(self, before: Self) -> Bool:
        """The next one goes on there."""
        return (before.left.value > 0) & (self.left.value == 0) & (self.cursor.value == before.cursor.value)

    @step("O4", of=("hit", "allocate"))
    def the_walk_begins_anew_where_its_cursor_is_gone(self, before: Self, a: Block) -> Bool:
        """And only there; who leaves the queue leaves it alone."""
        was_there = before.cursor.value == a
        return all_of(
            implies(was_there & self.free.has(a), self.cursor.value == a),
            implies(was_there & ~self.free.has(a), self.cursor.value == none),
            implies(before.cursor.value == none, self.cursor.value == none),
        )

    @step("O4", of="host_forgets")
    def what_is_forgotten_is_seen_again(self, before: Self, b: Block) -> Bool:
        """If it is free, it is ahead of the next call; if not, the walk goes on where it was."""
        is_seen = implies(self.free.has(b), self.cursor.value == none)
        goes_on = implies(~self.free.has(b), self.cursor.value == before.cursor.value)
        return before.stored[b] & ~self.stored[b] & is_seen & goes_on

    @step("O4", unless=("look", "hit", "allocate", "host_forgets"))
    def the_cursor_stays(self, before: Self) -> Bool:
        """Whatever joins the queue joins it ahead."""
        return self.cursor.value == before.cursor.value

    @step("O4", unless=("scan", "look", "stop"))
    def a_call_is_one_step_to_others(self, before: Self) -> Bool:
        """None is under way while they happen."""
        return (before.left.value == 0) & (self.left.value == 0)

    @step("O4", of="hit")
    def who_is_hit_is_held(self, before: Self, b: Block) -> Bool:
        """And still can be found."""
        return before.free.has(b) & ~self.free.has(b) & self._holds_what_it_did(before, b)

    @step("O4", of="allocate")
    def the_head_is_reused(self, before: Self, result: Block) -> Bool:
        """It loses what it held."""
        is_taken = before.free.is_first(result) & ~self.free.has(result)
        return is_taken & ~self.cached[result] & ~self.stored[result]

    @step("O4", of=("give_back", "end_store"))
    def who_comes_back_stands_last(self, before: Self, a: Block, b: Block) -> Bool:
        """Behind all that was free."""
        return ~before.free.has(b) & self.free.has(b) & implies(before.free.has(a), self.free.before(a, b))

    @step("O2", of="end_store")
    def a_good_store_is_on_the_host(self, before: Self, b: Block, ok: Bool) -> Bool:
        """And a bad one is not."""
        return all_of(
            before.storing[b] & ~self.storing[b], iff(self.stored[b], ok), iff(self.cached[b], before.cached[b])
        )

    @step("O4", of="register")
    def what_is_full_can_be_found(self, before: Self, b: Block) -> Bool:
        """And is not on the host."""
        return ~before.cached[b] & self.cached[b] & ~self.stored[b] & iff(self.storing[b], before.storing[b])

    @step("O4", of="give_back")
    def what_is_given_back_keeps_its_hash(self, before: Self, b: Block) -> Bool:
        """It waits for the next call."""
        return self._holds_what_it_did(before, b)

    @step("O4", of=("scan", "stop"))
    def calls_begin_and_end_by_themselves(self, before: Self, b: Block) -> Bool:
        """No block notices."""
        return self._holds_what_it_did(before, b) & iff(self.free.has(b), before.free.has(b))

    @step("O4", of=("look", "hit", "register", "give_back", "end_store", "host_forgets"))
    def other_blocks_stay_as_they_are(self, before: Self, b: Block, c: Block) -> Bool:
        """Whatever happens to one."""
        return implies(b != c, self._holds_what_it_did(before, c) & iff(self.free.has(c), before.free.has(c)))

    @step("O4", of="allocate")
    def nobody_else_is_reused(self, before: Self, result: Block, c: Block) -> Bool:
        """One at a time."""
        return implies(result != c, self._holds_what_it_did(before, c) & iff(self.free.has(c), before.free.has(c)))

    @step("O4", of="look")
    def a_look_takes_no_hash(self, before: Self, b: Block) -> Bool:
        """Nor puts anything on the host by itself."""
        return iff(self.cached[b], before.cached[b]) & iff(self.stored[b], before.stored[b])

    @step("O4", of=("register", "host_forgets"))
    def nobody_comes_or_goes_by_that(self, before: Self, b: Block) -> Bool:
        """A block is as free as it was, can be found as before or better, and its store goes on."""
        is_found = implies(before.cached[b], self.cached[b])
        return iff(self.free.has(b), before.free.has(b)) & iff(self.storing[b], before.storing[b]) & is_found

    @step("O4")
    def the_queue_keeps_its_order(self, before: Self, a: Block, b: Block) -> Bool:
        """Who is in it, and was, stands as it stood."""
        were_there = before.free.has(a) & before.free.has(b) & self.free.has(a) & self.free.has(b)
        return implies(were_there, iff(self.free.before(a, b), before.free.before(a, b)))

    def _holds_what_it_did(self, before: Self, b: Block) -> Bool:
        """Under a hash or not, on the host or not, for a store or not."""
        return all_of(
            iff(self.cached[b], before.cached[b]),
            iff(self.stored[b], before.stored[b]),
            iff(self.storing[b], before.storing[b]),
        )

    # -------------------------------------------------------------------------------- what must be reachable

    @sometimes("O4")
    def a_walk_goes_on_from_its_cursor(self, a: Block, b: Block) -> Bool:
        """And will find something behind it."""
        return all_of(self.is_over(), self.cursor.value == a, self.free.before(a, b), self.is_worth_storing(b))

    @sometimes("O4")
    def the_host_has_no_room(self, b: Block) -> Bool:
        """For a block that is next."""
        return can(self.stop) & self.is_next(b) & self.is_worth_storing(b)
