"""The corollaries of Pinned (machine D): they follow from the invariants, and no action is asked to keep them."""

from __future__ import annotations

from ....machine import Bool, all_of, can, corollary, exists, forall, iff, implies, none
from ...pool import Position, Request
from .actions import PinnedActions

__all__ = ["PinnedCorollaries"]


class PinnedCorollaries(PinnedActions, abstract=True):
    """What is refused, and what is not."""

    # -------------------------------------------------------------------------------- what can always go on

    def _nothing_is_under_way(self) -> Bool:
        """No step is scheduled and not processed. Otherwise processing it is possible, and lowers their number."""
        return forall(Request, Position, lambda q, k: ~self.reads[q, k])

    @corollary("L1, D5")
    def somebody_can_always_go_on(self, r: Request) -> Bool:
        """A running request can finish, can take its next block, pinned ones included, or another makes way for it.

        Or a copy in flight ends.
        """
        another = exists(Request, lambda q: (q != r) & (self.length[q] > 0) & can(self.preempt, q))
        goes_on = can(self.finish, r) | can(self.allocate, r, 1) | another
        return implies(self.running[r] & self._nothing_is_under_way(), goes_on | (self.lent.value > 0))

    @corollary("L2, D7")
    def holders_can_let_go(self) -> Bool:
        """While an entry exists a release is possible, or a step is under way whose end makes it so."""
        lets_go = exists(Request, lambda q: (self.held[q] > 0) & can(self.preempt, q))
        return all_of(
            implies((self.entries.value > 0) & self._nothing_is_under_way(), lets_go),
            implies((self.entries.value == 0) & (self.lent.value == 0), can(self.reset)),
        )

    # -------------------------------------------------------------------------------- what is refused, and what is not

    @corollary("P4, D7")
    def a_position_can_be_skipped(self, r: Request) -> Bool:
        """As in P, when no step reads the table."""
        is_left = self.length[r] < self.need[r]
        return iff(can(self.skip, r), all_of(self.running[r], self.null.value != none, is_left, self._is_at_rest(r)))

    @corollary("D2")
    def demotion_is_always_possible(self, k: Position) -> Bool:
        """However many are pinned; but not of none."""
        return can(self.demote, k + 1) & ~can(self.demote, 0)

    @corollary("D5")
    def a_gate_is_shut_for_lack_of_room_only(self, k: Position) -> Bool:
        """Free and pinned blocks together are room."""
        return iff(can(self.open_gate, k + 1), k + 1 <= self._room()) & ~can(self.open_gate, 0)

    @corollary("D4, D7")
    def what_no_step_reads_can_be_dropped(self, r: Request, k: Position) -> Bool:
        """Up to the end of the table, where there is a null block to stand there."""
        is_read = exists(Position, lambda j: self.reads[r, j] & (j <= k))
        may_drop = all_of(self.running[r], self.null.value != none, k < self.length[r], ~is_read)
        return iff(can(self.drop, r, k + 1), may_drop) & ~can(self.drop, r, 0)

    @corollary("D7")
    def steps_are_scheduled_where_blocks_are(self, r: Request, i: Position) -> Bool:
        """From where the table holds blocks up to its end; and each ends once."""
        holds = forall(Position, lambda k: (k < i) | (self.length[r] <= k) | (self.table[r, k] != self.null.value))
        may_read = all_of(self.running[r], i < self.length[r], ~self.reads[r, i], holds)
        return iff(can(self.schedule, r, i), may_read) & iff(can(self.process, r, i), self.reads[r, i])
