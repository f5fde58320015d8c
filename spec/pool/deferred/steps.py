"""The properties of steps of Deferred (machine P with steps under way): what each action must do, and leaves alone."""

from __future__ import annotations

from typing import Self

from ....machine import Bool, all_of, forall, iff, implies, ite, none, step
from ...pool import Block, Content, Position, Request, Slot
from .actions import DeferredActions, Pass

__all__ = ["DeferredSteps"]


class DeferredSteps(DeferredActions, abstract=True):
    """Who leaves, what waits for it, and when that ends."""

    @step("P2, P9, D7", of="leave")
    def what_a_request_held_waits(self, before: Self, r: Request, p: Pass, i: Position) -> Bool:
        """All of it, and nothing else; the request is outside, with an empty table."""
        is_empty = (self.length[r] == 0) & (self.table[r, i] == none)
        return all_of(~self.running[r], is_empty, self.left[p, i] == self._worth_holding(before, r, i))

    @step("P2, D7", of="leave")
    def its_last_step_holds_it(self, before: Self, r: Request, p: Pass, q: Pass) -> Bool:
        """For every step that reads what it left; for no other."""
        is_its = before.reader[q] == r
        comes_first = implies(is_its & (q != p), self.under_way.before(q, p))
        return all_of(comes_first, self.keeper[q] == ite(is_its, p, before.keeper[q]))

    @step("P3, P9", of=("leave", "schedule", "write_late"))
    def nothing_is_free_before_its_time(self, before: Self, b: Block, c: Block) -> Bool:
        """The queue stays as it is, and so does every count."""
        return all_of(
            iff(self.free.has(b), before.free.has(b)) & iff(self.free.before(b, c), before.free.before(b, c)),
            self.ref_cnt[b] == before.ref_cnt[b],
        )

    @step("P9, D7", of="process")
    def a_step_gives_back_all_that_it_holds(self, before: Self, p: Pass, q: Pass, i: Position) -> Bool:
        """It was the first, and is under way no longer; what others hold they go on holding."""
        return all_of(
            before.under_way.is_first(p) & ~self.under_way.has(p),
            self.left[q, i] == ite(q == p, none, before.left[q, i]),
            self.left_length[q] == ite(q == p, 0, before.left_length[q]),
            (self.reader[q] == ite(q == p, none, before.reader[q])),
            (self.keeper[q] == ite(q == p, none, before.keeper[q])),
        )

    @step("P9, P10", of="process")
    def what_waited_goes_where_the_dialect_says(self, before: Self, p: Pass) -> Bool:
        """In one free call, last block first, as if the request had given it back itself."""
        return all_of(*self._placed_in_order(before, lambda i: before.left[p, i]).values())

    @step("D7", of="schedule")
    def a_step_sees_the_table(self, before: Self, p: Pass, r: Request, i: Position) -> Bool:
        """As it is when the step is scheduled; it will be processed after all others."""
        return all_of(
            (self.reader[p] == r) & (self.sees[p, i] == before.table[r, i]),
            self.under_way.has(p)
            & forall(Pass, lambda q: implies(before.under_way.has(q), self.under_way.before(q, p))),
        )

    @step("D7", of=("schedule", "process"))
    def other_steps_go_on(self, before: Self, p: Pass, q: Pass, o: Pass, i: Position) -> Bool:
        """They read what they read, for whom they did, and are processed in the same order."""
        is_same = all_of(
            iff(self.under_way.has(q), before.under_way.has(q)),
            iff(self.under_way.before(q, o), before.under_way.before(q, o)),
            self.reader[q] == before.reader[q],
            self.sees[q, i] == before.sees[q, i],
        )
        return implies((q != p) & (o != p), is_same)

    @step("D7", of="leave")
    def nobody_reads_for_who_has_left(self, before: Self, r: Request, q: Pass) -> Bool:
        """And for all others whoever did."""
        return all_of(self.reader[q] == ite(before.reader[q] == r, none, before.reader[q]))

    @step("P2, D7", of="leave")
    def other_steps_hold_what_they_held(self, before: Self, r: Request, p: Pass, q: Pass, i: Position) -> Bool:
        """Only the last that reads the table is given something, as many positions as that had."""
        is_same = (self.left[q, i] == before.left[q, i]) & (self.left_length[q] == before.left_length[q])
        return (self.left_length[p] == before.length[r]) & implies(q != p, is_same)

    @step("D7", unless=("schedule", "leave", "process"))
    def nobody_else_reads(self, before: Self, p: Pass) -> Bool:
        """A step reads for its request until that leaves."""
        return all_of(self.reader[p] == before.reader[p])

    @step("P2, D7", unless=("leave", "process"))
    def nobody_else_touches_what_waits(self, before: Self, p: Pass, i: Position) -> Bool:
        """What a step holds, and for whom."""
        is_same = (self.left[p, i] == before.left[p, i]) & (self.left_length[p] == before.left_length[p])
        return is_same & (self.keeper[p] == before.keeper[p])

    @step("D7", unless=("schedule", "process"))
    def no_other_step_begins_or_ends(self, before: Self, p: Pass, q: Pass, i: Position) -> Bool:
        """Nor changes its place, or what it reads."""
        return all_of(
            iff(self.under_way.has(p), before.under_way.has(p)),
            iff(self.under_way.before(p, q), before.under_way.before(p, q)),
            self.sees[p, i] == before.sees[p, i],
        )

    @step("P6", of="write_late")
    def a_late_write_fills_one_slot(
        self, before: Self, p: Pass, i: Position, s: Slot, c: Content, b: Block, t: Slot
    ) -> Bool:
        """Of the block that the step saw there."""
        is_here = (before.sees[p, i] == b) & (t == s)
        return self.content[b, t] == ite(is_here, c, before.content[b, t])

    # -------------------------------------------------------------------------------- what P says of its own actions

    @step("P15, L1", of=("admit", "finish", "preempt", "leave"))
    def others_stay_inside_or_outside(self, before: Self, r: Request, q: Request) -> Bool:
        """As in P."""
        return super().others_stay_inside_or_outside(before, r, q)

    @step("P15, L1", unless=("admit", "finish", "preempt", "leave"))
    def nobody_else_comes_or_goes(self, before: Self, r: Request) -> Bool:
        """As in P."""
        return super().nobody_else_comes_or_goes(before, r)

    @step("P2, P6", of=("hit", "allocate", "skip", "trim", "finish", "preempt", "leave"))
    def a_table_changes_at_its_end(self, before: Self, r: Request, q: Request, i: Position, s: Slot) -> Bool:
        """As in P."""
        return super().a_table_changes_at_its_end(before, r, q, i, s)

    @step("P2, P6", unless=("hit", "allocate", "skip", "write", "register", "trim", "finish", "preempt", "leave"))
    def nothing_else_changes_a_table(self, before: Self, r: Request, i: Position, s: Slot) -> Bool:
        """As in P."""
        return super().nothing_else_changes_a_table(before, r, i, s)

    @step("P6", unless=("write", "write_late"))
    def nothing_else_is_written(self, before: Self, b: Block, s: Slot) -> Bool:
        """As in P; steps write for requests that are gone, too."""
        return super().nothing_else_is_written(before, b, s)
