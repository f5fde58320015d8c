"""The corollaries of Deferred (machine P with steps under way): they follow from the invariants."""

from __future__ import annotations

from ....machine import Bool, all_of, can, corollary, exists, iff, implies, none
from ...pool import Block, Content, Hash, Position, Request, Slot
from .actions import DeferredActions, Pass

__all__ = ["DeferredCorollaries"]


class DeferredCorollaries(DeferredActions, abstract=True):
    """What nobody can take, what is refused, and what is not."""

    @corollary("P3, D7")
    def what_a_step_reads_is_nobodys_to_take(self, p: Pass, i: Position, b: Block) -> Bool:
        """Before it is processed no block is free that it reads or writes."""
        return implies((self.sees[p, i] == b) & (b != self.null.value), ~self._idle(b))

    @corollary("D7")
    def nobody_is_about_to_leave(self) -> Bool:
        """Between actions."""
        return all_of(self.leaving.value == none)

    # -------------------------------------------------------------------------------- what is refused, and what is not

    def _can_process(self) -> Bool:
        """Some step is the first of those under way."""
        return ~self.under_way.is_empty() & can(self.process, self.under_way.head())

    @corollary("L2, D7")
    def what_waits_waits_for_a_step(self, b: Block) -> Bool:
        """While a block is held that stands in no table, some step is under way."""
        return implies(self.transfers[b] > 0, exists(Pass, self.under_way.has))

    @corollary("L1, L2")
    def somebody_can_always_go_on(self, r: Request) -> Bool:
        """As in P, or a step ends: its end gives back what it holds."""
        another = exists(Request, lambda q: (q != r) & (self.length[q] > 0) & can(self.preempt, q))
        goes_on = can(self.finish, r) | can(self.allocate, r, 1) | another
        return implies(self.running[r], goes_on | self._can_process() | (self.lent.value > 0))

    @corollary("L2")
    def holders_can_let_go(self) -> Bool:
        """As in P, or a step ends."""
        lets_go = exists(Request, lambda q: (self.held[q] > 0) & can(self.preempt, q))
        return all_of(
            implies(self.entries.value > 0, lets_go | self._can_process()),
            implies((self.entries.value == 0) & (self.lent.value == 0), can(self.reset)),
        )

    @corollary("L1, D7")
    def whoever_is_read_can_leave(self, r: Request, p: Pass) -> Bool:
        """At any moment, whatever it holds; the last step that reads its table holds that."""
        is_last = (self.reader[p] == r) & self._is_last_of(r, p)
        return iff(can(self.leave, r, p), is_last)

    @corollary("L2, D7")
    def the_first_step_can_be_processed(self, p: Pass) -> Bool:
        """And no other."""
        return iff(can(self.process, p), self.under_way.is_first(p))

    @corollary("D7")
    def who_holds_blocks_can_be_scheduled(self, p: Pass, r: Request) -> Bool:
        """Again and again, before the step before it is processed."""
        return iff(can(self.schedule, p, r), all_of(self.running[r], self.length[r] > 0, ~self.under_way.has(p)))

    @corollary("P6, D7")
    def who_may_write_late(self, p: Pass, i: Position, s: Slot, c: Content) -> Bool:
        """A step whose request has left, where it holds a block alone and no hash covers the slot."""
        is_open = exists(Block, lambda b: (self.sees[p, i] == b) & self._is_own(b) & self._is_unnamed(b, s))
        return iff(can(self.write_late, p, i, s, c), (self.keeper[p] != none) & is_open)

    def _is_unnamed(self, b: Block, s: Slot) -> Bool:
        """No hash that the block carries covers the slot."""
        is_covered = exists(Hash, lambda h: self.hashes[b, h] & (self.kv[h, s] != none))
        return (b != self.null.value) & ~is_covered
