"""The facts of the loops of Pinned (machine D): nobody needs them but the prover."""

from __future__ import annotations

from typing import Self

from ....machine import Bool, Index, Int, all_of, exists, forall, iff, implies, none
from ...pool import Block, Hash, Position, Request, Slot
from .state import PinnedState

__all__ = ["PinnedFacts"]


class PinnedFacts(PinnedState, abstract=True):
    """What drops, demotions and resets keep from round to round."""

    def _while_resetting(self, entry: Self, i: Index | Int) -> dict[str, Bool]:
        """While pinned blocks join the head of the free queue: so many have."""
        return {
            "one pinned block less each round": self.pinned.size == entry.pinned.size - i,
            "nobody is referenced": forall(Block, lambda b: self.ref_cnt[b] == 0),
            "the youngest leave first": forall(
                Block,
                Block,
                lambda b, c: implies(
                    self.pinned.has(b) & entry.pinned.has(c) & ~self.pinned.has(c), entry.pinned.before(b, c)
                ),
            ),
            **self._moved_to_the_head(entry),
        }

    def _while_looking_back(self, r: Request, m: Int, i: Index | Int) -> dict[str, Bool]:
        """While the positions below m are passed: each of them holds a block."""
        return {
            "what was passed holds a block": forall(
                Position, lambda k: implies((k >= m - i) & (k < m), self.table[r, k] != self.null.value)
            )
        }

    def _demoted(self, entry: Self, n: Int) -> dict[str, Bool]:
        """The n oldest pinned blocks stand at the tail of the free queue, in order."""
        return {
            "as many are free as are not pinned any more": all_of(
                self.pinned.size == entry.pinned.size - n, self.free.size == entry.free.size + n
            ),
            "both queues together are as they were": forall(
                Block,
                Block,
                lambda b, c: all_of(iff(self._idle(b), entry._idle(b)), iff(self._sooner(b, c), entry._sooner(b, c))),
            ),
            "nobody is pinned who was not": forall(Block, lambda b: implies(self.pinned.has(b), entry.pinned.has(b))),
            "only the demoted lose their mark": forall(
                Block, lambda b: iff(self.marked[b], entry.marked[b] & ~(entry.pinned.has(b) & self.free.has(b)))
            ),
        }

    def _dropping(self, entry: Self, r: Request, m: Int, n: Int) -> dict[str, Bool]:
        """When the n positions below m were released: what is marked, and where everything stands."""

        def is_dropped(k: Position) -> Bool:
            return (k >= m - n) & (k < m)

        def is_found(b: Block) -> Bool:
            return exists(Hash, lambda h: self.hashes[b, h])

        return {
            "what was passed is null, and nothing is expected there": forall(
                Position,
                Slot,
                lambda k, s: implies(
                    is_dropped(k), (self.table[r, k] == self.null.value) & (self.expects[r, k, s] == none)
                ),
            ),
            "the rest is as it was": forall(
                Position, Slot, lambda k, s: implies(~is_dropped(k), self._stands_as_before(entry, r, k, s))
            ),
            "the quota is what is left to mark": all_of(
                self.quota.value >= 0,
                self.picked.total >= entry.picked.total,
                self.quota.value == entry.quota.value - (self.picked.total - entry.picked.total),
            ),
            "marks stay": forall(Block, lambda b: implies(entry.marked[b], self.marked[b])),
            "only what is dropped is marked": forall(
                Block,
                lambda b: implies(
                    self.marked[b] & ~entry.marked[b],
                    all_of(
                        self.picked.total > entry.picked.total,
                        exists(Position, lambda k: is_dropped(k) & (entry.table[r, k] == b)),
                    ),
                ),
            ),
            "all that can be found is marked while there is quota": forall(
                Position,
                Block,
                lambda k, b: implies(
                    all_of(is_dropped(k), entry.table[r, k] == b, is_found(b), self.quota.value > 0), self.marked[b]
                ),
            ),
            "the newest are marked first": forall(
                Position,
                Block,
                Block,
                lambda k, c, b: implies(
                    all_of(
                        is_dropped(k) & (entry.table[r, k] == c) & is_found(c) & ~self.marked[c],
                        self.marked[b] & ~entry.marked[b],
                    ),
                    exists(Position, lambda j: (j > k) & is_dropped(j) & (entry.table[r, j] == b)),
                ),
            ),
            **self._freed_so_far(entry, r),
        }

    def _moved_to_the_head(self, entry: Self) -> dict[str, Bool]:
        """What is not pinned any more stands before all that was free, in the order in which it was pinned."""

        def is_moved(b: Block) -> Bool:
            return entry.pinned.has(b) & ~self.pinned.has(b)

        return {
            "who leaves the pinned queue is free": forall(Block, lambda b: implies(is_moved(b), self.free.has(b))),
            "who is free was so, or was pinned": forall(
                Block, lambda b: implies(self.free.has(b), entry.free.has(b) | is_moved(b))
            ),
            "who stays pinned was so, in the same order": forall(
                Block,
                Block,
                lambda b, c: all_of(
                    implies(self.pinned.has(b), entry.pinned.has(b)),
                    implies(
                        self.pinned.has(b) & self.pinned.has(c),
                        iff(self.pinned.before(b, c), entry.pinned.before(b, c)),
                    ),
                ),
            ),
            "it stands before all that was free": forall(
                Block, Block, lambda b, c: implies(is_moved(b) & entry.free.has(c), self.free.before(b, c))
            ),
            "it stands in the order in which it was pinned": forall(
                Block,
                Block,
                lambda b, c: implies(is_moved(b) & is_moved(c), iff(self.free.before(b, c), entry.pinned.before(b, c))),
            ),
            "who was free stays free, in the same order": forall(Block, Block, self._kept_in_order(entry)),
        }

    def _taken_so_far(self, entry: Self, n: Int) -> dict[str, Bool]:
        """Exactly the shortfall is demoted."""
        return {
            "nothing is demoted while there are free blocks": implies(
                n <= entry.free.size, self.pinned.size == entry.pinned.size
            ),
            "what is missing is demoted": implies(n >= entry.free.size, self.free.size == 0),
            "only who is taken loses its mark": forall(
                Block, lambda b: iff(self.marked[b], entry.marked[b] & (self._idle(b) | ~entry._idle(b)))
            ),
        }

    def _given_back_in_order(self, entry: Self, r: Request) -> dict[str, Bool]:
        """As in P; and what is pinned joins the tail of its queue, in the order given too."""

        def is_new(b: Block) -> Bool:
            return self.pinned.has(b) & ~entry.pinned.has(b)

        return {
            **super()._given_back_in_order(entry, r),
            "what is pinned stands in the order given": forall(
                Position,
                Position,
                Block,
                Block,
                lambda i, j, b, c: implies(
                    all_of(
                        is_new(b) & is_new(c),
                        (j < i) & (entry.table[r, i] == b) & (entry.table[r, j] == c),
                        forall(Position, lambda k: implies(k < i, entry.table[r, k] != b)),
                    ),
                    self.pinned.before(b, c),
                ),
            ),
            "who was pinned stays pinned, in the same order": forall(
                Block,
                Block,
                lambda b, c: implies(
                    entry.pinned.has(b) & entry.pinned.has(c),
                    self.pinned.has(b) & iff(self.pinned.before(b, c), entry.pinned.before(b, c)),
                ),
            ),
            "who is pinned now stands behind all that was pinned": forall(
                Block,
                Block,
                lambda b, c: implies(
                    entry.pinned.has(b) & self.pinned.has(c) & ~entry.pinned.has(c), self.pinned.before(b, c)
                ),
            ),
            "who was held and is not is in a queue": forall(
                Block, lambda b: implies(self._idle(b) & ~entry._idle(b), iff(self.pinned.has(b), self.marked[b]))
            ),
        }
