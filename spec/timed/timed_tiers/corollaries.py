"""The corollaries of TimedTiers (machine G): they follow from the invariants, and no action is asked to keep them."""

from __future__ import annotations

from ....machine import Bool, all_of, can, corollary, exists, forall, iff, none
from ...pool import Block, Hash, Position, Request
from ..links import Transfer
from .actions import TimedTiersActions

__all__ = ["TimedTiersCorollaries"]


class TimedTiersCorollaries(TimedTiersActions, abstract=True):
    """What is refused, and what is not."""

    @corollary("G1")
    def allocation_is_refused_for_lack_of_free_blocks_only(self) -> Bool:
        """Whatever is idle, or on its way."""
        return iff(can(self.allocate), exists(Block, self.free.has))

    @corollary("G5")
    def what_was_computed_can_be_registered(self, b: Block, h: Hash) -> Bool:
        """In a used block that has no name yet, under a hash that is found nowhere else on the device."""
        is_found = exists(Block, lambda c: self.found[h] == c)
        return iff(can(self.register, b, h), all_of(self.used[b], self.holds[b] == none, ~is_found))

    @corollary("G1, G5")
    def who_is_used_can_be_let_go_and_who_is_idle_hit(self, b: Block) -> Bool:
        """And nobody else."""
        return iff(can(self.release, b), self.used[b]) & iff(can(self.touch, b), self.idle.has(b))

    @corollary("G1, G4")
    def the_first_that_is_idle_can_be_evicted(self, b: Block) -> Bool:
        """While the open batch is not full."""
        return iff(can(self.evict, b), self.idle.is_first(b) & (self.gathered.size < self.batch.value))

    @corollary("G1, G4")
    def a_batch_can_go_down(self, t: Transfer) -> Bool:
        """As soon as it has one block; with the next id."""
        return iff(can(self.ship, t), (t == self.issued.value) & exists(Block, self.gathered.has))

    @corollary("G5")
    def what_the_host_has_next_can_come_up(self, r: Request, t: Transfer, p: Position, e: Position) -> Bool:
        """To a request that does not wait, from the first device miss on: all that the host has there, or that fits."""
        is_there = forall(Position, lambda i: (i >= p) | self._is_on_device(r, i))
        comes = forall(Position, lambda i: (i < p) | (i >= e) | self._is_on_host(r, i))
        ends = ~self._is_on_host(r, e) | (e - p == self.free.size)
        is_next = all_of(is_there, ~self._is_on_device(r, p), comes, ends)
        may_wait = (self.waits[r] == none) & (t == self.issued.value)
        return iff(can(self.swap_in, r, t, p, e), all_of(may_wait, is_next, p < e, e - p <= self.free.size))
