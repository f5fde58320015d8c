"""The corollaries of Pool (machine P): they follow from the invariants, and no action is asked to keep them."""

from __future__ import annotations

from ...machine import Bool, all_of, can, corollary, exists, forall, iff, implies, none
from .actions import PoolActions
from .state import Block, Content, Hash, Position, Request, Slot

__all__ = ["PoolCorollaries"]


class PoolCorollaries(PoolActions, abstract=True):
    """What a pool refuses, and what it never refuses."""

    # -------------------------------------------------------------------------------- what can always go on

    @corollary("P2")
    def between_actions_no_claim_is_left(self) -> Bool:
        """What a lookup found stands in a table, or was let go."""
        return self.all_claims.value == 0

    @corollary("L1")
    def who_cannot_go_on_waits_for_others(self, r: Request) -> Bool:
        """Where no block can be taken, and a request needs one more, others hold some, or copies in flight."""
        is_stuck = all_of(self.running[r], self.length[r] < self.need[r], self._room() <= 0)
        return implies(is_stuck, (self.others[r] > 0) | (self.lent.value > 0))

    @corollary("L1")
    def somebody_can_always_go_on(self, r: Request) -> Bool:
        """A running request can finish, can take its next block, or another can be preempted for it; or a copy ends."""
        another = exists(Request, lambda q: (q != r) & (self.length[q] > 0) & can(self.preempt, q))
        is_lent = self.lent.value > 0
        return implies(self.running[r], can(self.finish, r) | can(self.allocate, r, 1) | another | is_lent)

    @corollary("L2")
    def holders_can_let_go(self) -> Bool:
        """While an entry exists some release is possible; when none is left, reset is."""
        return all_of(
            implies(self.entries.value > 0, exists(Request, lambda q: (self.held[q] > 0) & can(self.preempt, q))),
            implies((self.entries.value == 0) & (self.lent.value == 0), can(self.reset)),
        )

    # -------------------------------------------------------------------------------- what is refused, and what is not

    @corollary("P15, L1")
    def who_fits_is_admitted(self, r: Request) -> Bool:
        """Nobody enters twice, or who could not finish alone; nobody else is refused."""
        return iff(can(self.admit, r), ~self.running[r] & (self.need[r] <= self.usable.value))

    @corollary("P8, P14")
    def a_lookup_comes_first(self, r: Request) -> Bool:
        """It is possible as long as the table is empty, where there is a cache."""
        return iff(can(self.hit, r), self.running[r] & self.caching.value & (self.length[r] == 0))

    @corollary("P7")
    def allocation_is_refused_for_lack_of_room_only(self, r: Request, k: Position) -> Bool:
        """Or for a table that would be longer than the request needs."""
        fits = (self.length[r] + k + 1 <= self.need[r]) & (k + 1 <= self._room())
        return iff(can(self.allocate, r, k + 1), self.running[r] & fits) & ~can(self.allocate, r, 0)

    @corollary("P4")
    def a_position_can_be_skipped(self, r: Request) -> Bool:
        """As long as there is one to come, where there is a null block."""
        is_left = self.length[r] < self.need[r]
        return iff(can(self.skip, r), all_of(self.running[r], self.null.value != none, is_left))

    @corollary("P6")
    def who_may_write(self, r: Request, i: Position, s: Slot, c: Content) -> Bool:
        """Who holds the block alone and has not filed it, where no hash covers the slot."""
        is_own = exists(Block, lambda b: (self.table[r, i] == b) & self._is_open(b, s))
        return iff(can(self.write, r, i, s, c), all_of(i < self.length[r], self.filed[r, i] == none, is_own))

    def _is_open(self, b: Block, s: Slot) -> Bool:
        """One holds the block, and nobody relies on the slot."""
        is_covered = exists(Hash, lambda h: self.hashes[b, h] & (self.kv[h, s] != none))
        return all_of(b != self.null.value, self.ref_cnt[b] == 1, ~is_covered)

    @corollary("P5, P6, P12")
    def what_can_be_registered(self, r: Request, i: Position, h: Hash) -> Bool:
        """A block that holds what the hash names, behind the block that was filed under the hash's parent."""
        return iff(can(self.register, r, i, h), self.caching.value & self._is_namable(r, i, h))

    def _is_namable(self, r: Request, i: Position, h: Hash) -> Bool:
        """The entry is a block that does not carry the hash, and could: by its content, and by its predecessor."""
        is_root = (i == 0) & (self.parent[h] == none)
        builds_on = exists(
            Position, lambda j: (j + 1 == i) & (self.parent[h] != none) & (self.parent[h] == self.filed[r, j])
        )
        return all_of(
            exists(Block, lambda b: all_of(self.table[r, i] == b, b != self.null.value, ~self.hashes[b, h])),
            forall(Slot, lambda s: implies(self.kv[h, s] != none, self.expects[r, i, s] == self.kv[h, s])),
            is_root | builds_on,
        )

    @corollary("P9")
    def what_is_held_can_be_given_back(self, r: Request, k: Position) -> Bool:
        """At the end of the table, as many entries as there are; not none."""
        return iff(can(self.trim, r, k + 1), self.running[r] & (k < self.length[r])) & ~can(self.trim, r, 0)

    @corollary("P9, L1")
    def who_has_all_it_needs_can_finish(self, r: Request) -> Bool:
        """And nobody else."""
        return iff(can(self.finish, r), self.running[r] & (self.length[r] == self.need[r]))

    @corollary("L1")
    def who_is_inside_can_be_preempted(self, r: Request) -> Bool:
        """Whatever it holds."""
        return iff(can(self.preempt, r), self.running[r])

    @corollary("P11")
    def what_is_found_can_be_evicted(self, b: Block) -> Bool:
        """Also while somebody holds it."""
        return iff(can(self.evict, b), exists(Hash, lambda h: self.hashes[b, h]))

    @corollary("P11")
    def reset_is_refused_for_who_holds_a_block(self) -> Bool:
        """And for nobody else."""
        return iff(can(self.reset), self.referenced.value == 0)
