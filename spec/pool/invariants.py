"""The invariants of Pool (machine P), and what must be reachable."""

from __future__ import annotations

from ...machine import Bool, all_of, exists, forall, iff, implies, invariant, none, sometimes
from .actions import PoolActions
from .state import Block, Hash, Position, Request, Slot

__all__ = ["PoolInvariants"]


class PoolInvariants(PoolActions, abstract=True):
    """What always holds of a pool."""

    # -------------------------------------------------------------------------------- invariants

    @invariant("P1")
    def every_block_is_free_or_referenced(self) -> Bool:
        """Conservation: no block is lost, none is counted twice."""
        return self._room() + self.referenced.value == self.usable.value

    @invariant("P2")
    def ref_cnt_counts_holders(self, b: Block) -> Bool:
        """Every reference is a table entry, a lookup's claim or a transfer, and each of these is a reference."""
        return implies(b != self.null.value, self.ref_cnt[b] == self.holders[b] + self.claims[b] + self.transfers[b])

    @invariant("P2")
    def a_held_block_is_referenced(self, r: Request, i: Position, b: Block) -> Bool:
        """No count is negative, and none is 0 while a table holds the block."""
        return (
            (self.ref_cnt[b] >= 0)
            & (self.transfers[b] >= 0)
            & implies((self.table[r, i] == b) & (b != self.null.value), self.ref_cnt[b] >= 1)
        )

    @invariant("P3")
    def free_exactly_when_unreferenced(self, b: Block) -> Bool:
        """A block stands in the free queue exactly when nobody holds it."""
        return implies(b != self.null.value, iff(self._idle(b), self.ref_cnt[b] == 0))

    @invariant("P4")
    def the_null_block_is_left_alone(self, b: Block) -> Bool:
        """It is never queued, cached or counted."""
        is_clean = ~self._idle(b) & (self.ref_cnt[b] == 0) & forall(Hash, lambda h: ~self.hashes[b, h])
        return implies(b == self.null.value, is_clean)

    @invariant("P5")
    def the_map_and_the_blocks_agree(self, b: Block, h: Hash) -> Bool:
        """A lookup finds exactly the blocks that carry the hash."""
        return iff(self.cached[h].has(b), self.hashes[b, h])

    @invariant("P6")
    def a_hash_names_what_is_there(self, b: Block, h: Hash, s: Slot) -> Bool:
        """What a lookup returns is what the hash says, slot by slot."""
        return implies(self.hashes[b, h] & (self.kv[h, s] != none), self.content[b, s] == self.kv[h, s])

    @invariant("P6")
    def a_request_reads_its_own_prefix(self, r: Request, i: Position, s: Slot, b: Block) -> Bool:
        """Nobody writes over what a request relies on, and no request reads another's."""
        relies = (self.table[r, i] == b) & (self.expects[r, i, s] != none)
        return implies(relies, self.content[b, s] == self.expects[r, i, s])

    @invariant("P2")
    def tables_are_filled_from_the_front(self, r: Request, i: Position) -> Bool:
        """A table's entries are those below its length; beyond it nothing is kept."""
        return all_of(
            self.length[r] >= 0,
            self.length[r] <= self.need[r],
            iff(self.table[r, i] != none, i < self.length[r]),
            implies(self.filed[r, i] != none, i < self.length[r]),
            implies(self.length[r] > 0, self.running[r]),
        )

    @invariant("P6")
    def nothing_is_expected_beyond_a_table(self, r: Request, i: Position, s: Slot) -> Bool:
        """Only a block that is held is relied on."""
        return implies(self.expects[r, i, s] != none, (i < self.length[r]) & (self.table[r, i] != self.null.value))

    @invariant("P12")
    def listeners_know_what_is_cached(self, h: Hash) -> Bool:
        """Replaying the events gives exactly the hashes for which a lookup succeeds."""
        return iff(self.announced[h], ~self.cached[h].is_empty())

    @invariant("P12")
    def every_event_is_news(self, h: Hash) -> Bool:
        """One is reported only where the set of hashes changes, with the right parent, which was reported before."""
        return ~self.misled[h]

    @invariant("P12")
    def what_is_built_upon_was_reported(self, r: Request, i: Position, b: Block, h: Hash) -> Bool:
        """A request chains on hashes that listeners have heard of."""
        return all_of(
            implies(self.hashes[b, h], self.reported[h]),
            implies(self.filed[r, i] == h, self.reported[h]),
        )

    @invariant("L1")
    def entries_add_up(self, r: Request) -> Bool:
        """A request's entries and those of others are all there are; each is the first of its block or a spare one."""
        return all_of(
            self.entries.value == self.held[r] + self.others[r],
            self.held[r] + self.skipped[r] == self.length[r],
            self.entries.value + self.all_claims.value + self.lent.value == self.referenced.value + self.spare.value,
        )

    @invariant("L1")
    def admitted_requests_fit(self, r: Request) -> Bool:
        """Whoever is inside could finish alone."""
        return implies(self.running[r], self.need[r] <= self.usable.value)

    # -------------------------------------------------------------------------------- what must be reachable

    @sometimes("P8")
    def a_block_is_shared(self, b: Block) -> Bool:
        """Two requests hold one block."""
        return self.ref_cnt[b] >= 2

    @sometimes("P5")
    def a_hash_has_two_blocks(self, h: Hash) -> Bool:
        """Two blocks carry one hash."""
        return exists(
            Block,
            lambda b: exists(
                Block, lambda c: self.cached[h].before(b, c) & self.cached[h].has(b) & self.cached[h].has(c)
            ),
        )

    @sometimes("P5")
    def a_free_block_can_still_be_found(self, b: Block, h: Hash) -> Bool:
        """Nobody holds it, and a lookup would find it."""
        return self.free.has(b) & self.hashes[b, h]

    @sometimes("L1")
    def the_pool_is_exhausted(self, r: Request) -> Bool:
        """A running request waits for a block."""
        return self.running[r] & (self.length[r] < self.need[r]) & self.free.is_empty()
