"""The invariants of Deferred (machine P with steps under way), and what must be reachable."""

from __future__ import annotations

from ....machine import Bool, all_of, iff, implies, invariant, none, sometimes
from ...pool import Block, Hash, Position, Request
from .actions import DeferredActions, Pass

__all__ = ["DeferredInvariants"]


class DeferredInvariants(DeferredActions, abstract=True):
    """Who holds what for which step."""

    @invariant("D7")
    def a_step_under_way_has_one_that_holds_for_it(self, p: Pass, i: Position) -> Bool:
        """Its request, or, once that has left, a step. A step that is not under way sees nothing."""
        reads, waits = self.reader[p] != none, self.keeper[p] != none
        return all_of(
            iff(self.under_way.has(p), reads | waits),
            ~(reads & waits),
            implies(self.sees[p, i] != none, self.under_way.has(p)),
        )

    @invariant("D7")
    def a_step_reads_a_request_that_is_inside(self, p: Pass, r: Request, i: Position, b: Block) -> Bool:
        """And what it saw in its table still stands there."""
        return implies(
            self.reader[p] == r,
            (self.running[r] | (self.leaving.value == r)) & implies(self.sees[p, i] == b, self.table[r, i] == b),
        )

    @invariant("D7")
    def the_last_that_reads_holds(self, p: Pass, q: Pass) -> Bool:
        """It is processed after all that it holds for, and it is one of them."""
        return implies(
            self.keeper[q] == p,
            all_of(self.keeper[p] == p, self.under_way.has(p), (q == p) | self.under_way.before(q, p)),
        )

    @invariant("P2, D7")
    def what_a_step_reads_is_held_for_it(self, p: Pass, q: Pass, r: Request, i: Position, b: Block) -> Bool:
        """By the step that holds what its request left behind."""
        is_seen = all_of(self.keeper[q] == p, self.sees[q, i] == b, b != self.null.value)
        is_held = self.left[p, i] == b
        return all_of(
            implies(is_seen & (self.leaving.value == none), is_held),
            implies(is_seen & (self.leaving.value == r), is_held | (self.table[r, i] == b)),
        )

    @invariant("P2")
    def a_hold_of_a_step_is_a_hold(self, b: Block) -> Bool:
        """There are no other transfers here."""
        return self.transfers[b] == self.waits[b]

    @invariant("P2, P4")
    def a_step_holds_within_bounds(self, p: Pass, i: Position) -> Bool:
        """Blocks at the positions that its request had; only where the request has left, and never the null block."""
        return all_of(
            (self.left_length[p] >= 0) & implies(self.left_length[p] > 0, self.keeper[p] == p),
            implies(self.left_length[p] > 0, Position.has(self.left_length[p] - 1)),
            implies(self.left[p, i] != none, (i < self.left_length[p]) & (self.left[p, i] != self.null.value)),
        )

    # -------------------------------------------------------------------------------- what must be reachable

    @sometimes("D7")
    def a_block_waits(self, p: Pass, i: Position, b: Block, h: Hash) -> Bool:
        """It is in no table any more; it can still be found."""
        return (self.left[p, i] == b) & (self.holders[b] == 0) & self.hashes[b, h]

    @sometimes("D7")
    def a_step_holds_for_another(self, p: Pass, q: Pass) -> Bool:
        """Two steps read what their request left behind; the later one holds it."""
        return (p != q) & (self.keeper[q] == p)

    @sometimes("D7")
    def who_left_is_back(self, p: Pass, r: Request, i: Position) -> Bool:
        """A request holds blocks again which a step holds for it since it left."""
        return all_of(self.left[p, i] != none, self.left[p, i] == self.table[r, i])
