"""Machines M and D together: an engine that mirrors to the host also pins what its windows leave behind.

Nothing is added to what the two do; what is said of both is that they do it together. A lookup claims a pinned block as
it does a free one; a reload takes free blocks first and demotes the oldest pinned one where there is none; what is let
go again is pinned again. So all that M and D promise is promised, and proved, of the two together.
"""

from __future__ import annotations

from ...machine import Bool, Index, Int, all_of, forall, iff, implies, sometimes, step
from ..pool import Block, Hash, Position, Request
from ..tiers.mirror import Mirror
from ..tiers.pin import Pinned

__all__ = ["Tiered"]


class Tiered(Mirror, Pinned):
    """The block pool with a host tier behind it and a second queue of blocks that are kept."""

    def _filled_so_far(self, entry: Tiered) -> dict[str, Bool]:
        """A reload demotes whom it takes, and nobody else."""
        return {
            "only who is taken loses its mark": forall(
                Block, lambda b: iff(self.marked[b], entry.marked[b] & (self._idle(b) | ~entry._idle(b)))
            )
        }

    def _while_letting_go(self, entry: Tiered, r: Request, reach: Int, i: Index | Int) -> dict[str, Bool]:
        """Marked blocks are pinned again, in the same order in which others are freed."""
        return {
            **super()._while_letting_go(entry, r, reach, i),
            "of those that are pinned again too": self._last_position_first(entry, entry.pinned, self.pinned),
        }

    # -------------------------------------------------------------------------------- steps

    @step("D3", unless=("hit", "allocate", "evict", "reset", "demote", "open_gate", "drop"))
    def marks_survive_users(self, before: Pinned, b: Block) -> Bool:
        """As in D; a lookup has a property of its own."""
        return iff(self.marked[b], before.marked[b])

    @step("D2, D3, D5", of="hit")
    def a_lookup_demotes_only_what_it_takes(self, before: Tiered, b: Block) -> Bool:
        """Marks survive a lookup, but for pinned blocks that a reload took for lack of free ones."""
        return all_of(
            implies(self.marked[b], before.marked[b]),
            implies(before.marked[b] & ~self.marked[b], before.pinned.has(b) & (self.ref_cnt[b] > 0)),
        )

    @step("D2, M5", of="hit")
    def free_blocks_are_taken_before_pinned_ones(self, before: Tiered, r: Request, b: Block, c: Block) -> Bool:
        """While an unrelated block was free and is free, no pinned one was demoted."""
        is_unrelated = before.free.has(c) & self.free.has(c) & ~self._is_of_prefix(r, c)
        return implies(is_unrelated, iff(self.marked[b], before.marked[b]))

    @step("D3, P10", of="hit")
    def the_end_of_a_prefix_is_pinned_first(
        self, before: Tiered, r: Request, j: Position, k: Position, b: Block, c: Block
    ) -> Bool:
        """Of two pinned blocks that a lookup claimed and could not reach, the one for the later position is the older.

        A prefix is of no use without its beginning, so what is given up first is its end.
        """
        return implies(
            all_of(
                (self.length[r] <= j) & (j < k) & self._is_claimed(before, r, k),
                before.cached[self.prompt[r, j]].is_first(b) & before.cached[self.prompt[r, k]].is_first(c),
                forall(Position, lambda m: implies(m < k, ~before.cached[self.prompt[r, m]].is_first(c))),
                self.pinned.has(b) & self.pinned.has(c),
            ),
            self.pinned.before(c, b),
        )

    def _is_claimed(self, before: Tiered, r: Request, k: Position) -> Bool:
        """A lookup for the request comes as far: up to the position each hash is on one of the tiers."""
        return (k < self.limit[r]) & forall(
            Position,
            lambda m: implies(
                m <= k, ~before.cached[self.prompt[r, m]].is_empty() | before.host.has(self.prompt[r, m])
            ),
        )

    @step("M1", of=("drop", "demote", "open_gate", "schedule", "process"))
    def dropping_and_demoting_keep_every_hash(self, before: Tiered, b: Block, h: Hash) -> Bool:
        """Like every release: it stays where it can be found. That the host is left alone is said of all of them."""
        return iff(self.hashes[b, h], before.hashes[b, h])

    @step("M2", of="mirror")
    def mirror_leaves_pins_alone(self, before: Tiered, b: Block, c: Block) -> Bool:
        """Neither mark nor place in the second queue changes."""
        return all_of(
            iff(self.marked[b], before.marked[b]),
            iff(self.pinned.has(b), before.pinned.has(b)),
            implies(self.pinned.has(b) & self.pinned.has(c), iff(self.pinned.before(b, c), before.pinned.before(b, c))),
        )

    @sometimes("M4, D1")
    def a_pinned_block_is_on_the_host_too(self, b: Block, h: Hash) -> Bool:
        """It could be demoted and taken, and reloaded later."""
        return self.pinned.has(b) & self.hashes[b, h] & self.host.has(h)
