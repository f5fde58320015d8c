"""The invariants of Pinned (machine D), and what must be reachable."""

from __future__ import annotations

from ....machine import Bool, all_of, exists, implies, invariant, sometimes
from ...pool import Block, Hash, Position, Request
from .actions import PinnedActions

__all__ = ["PinnedInvariants"]


class PinnedInvariants(PinnedActions, abstract=True):
    """What always holds of marks and of both queues."""

    # -------------------------------------------------------------------------------- invariants

    @invariant("D1")
    def a_block_stands_in_one_queue(self, b: Block) -> Bool:
        """Free or pinned, never both; with `free_exactly_when_unreferenced`: free, pinned or referenced."""
        return ~(self.free.has(b) & self.pinned.has(b))

    @invariant("D1, D3")
    def pinned_blocks_are_marked(self, b: Block) -> Bool:
        """A pinned block is marked, a free one is not, and only what can be found again is marked."""
        return all_of(
            implies(self.pinned.has(b), self.marked[b]),
            implies(self.free.has(b), ~self.marked[b]),
            implies(self.marked[b], exists(Hash, lambda h: self.hashes[b, h])),
        )

    @invariant("D6")
    def without_pinning_nothing_is_marked(self, b: Block) -> Bool:
        """The second queue is empty then."""
        return implies(~self.pinning.value, ~self.marked[b])

    @invariant("D7")
    def what_a_step_reads_is_there(self, r: Request, i: Position, k: Position) -> Bool:
        """From where a scheduled step reads, the table holds blocks until it is processed."""
        return implies(
            self.reads[r, i],
            all_of(
                self.running[r],
                i < self.length[r],
                implies((i <= k) & (k < self.length[r]), self.table[r, k] != self.null.value),
            ),
        )

    # -------------------------------------------------------------------------------- what must be reachable

    @sometimes("D1")
    def a_block_is_pinned(self, b: Block) -> Bool:
        """Nobody holds it, and it is kept."""
        return self.pinned.has(b)

    @sometimes("D3")
    def a_marked_block_is_used_again(self, b: Block, r: Request, i: Position) -> Bool:
        """A hit found it in the pinned queue."""
        return self.marked[b] & (self.table[r, i] == b)

    @sometimes("D2")
    def a_demoted_block_can_still_be_found(self, b: Block, c: Block, h: Hash) -> Bool:
        """It is free, and carries its hash, while another is pinned."""
        return all_of(self.free.has(b), self.hashes[b, h], self.pinned.has(c))
