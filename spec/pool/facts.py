"""The facts of the loops of Pool (machine P): nobody needs them but the prover."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from ...machine import Bool, Index, Int, all_of, forall, iff, implies, none
from .state import Block, Hash, PoolState, Position, Request, Slot

__all__ = ["PoolFacts"]


class PoolFacts(PoolState, abstract=True):
    """What the lookup, the allocation and the free call of a pool keep from round to round."""

    def _while_looking_up(self, entry: Self, r: Request, i: Index | Int) -> dict[str, Bool]:
        """While a lookup walks: the table is what it found so far."""
        return {
            "the table is as long as the walk": self.length[r] == i,
            "the walk stays below the limit": i <= self.limit[r],
            "the first that carries a hash is taken": forall(
                Position, lambda k: implies(k < i, entry.cached[self.prompt[r, k]].is_first(self.table[r, k]))
            ),
            "what was walked is known": forall(Position, Slot, lambda k, s: implies(k < i, self._is_known(r, k, s))),
            **self._only_taken_from(entry),
        }

    def _while_taking(self, entry: Self, r: Request, i: Index | Int) -> dict[str, Bool]:
        """While blocks are allocated: the table has grown by so many, from the head of the queue."""
        return {
            "the table grows by one each round": self.length[r] == entry.length[r] + i,
            "enough blocks are left": self._room() == entry._room() - i,
            "entries stay": forall(
                Position, lambda k: implies(k < entry.length[r], self.table[r, k] == entry.table[r, k])
            ),
            "held blocks are held": forall(Block, lambda b: implies(entry.ref_cnt[b] > 0, self.ref_cnt[b] > 0)),
            "who carries a hash stands as before": self._found_in_order(entry),
            **self._taken_so_far(entry, i),
            **self._taken_from_the_head(entry, r),
        }

    def _while_giving_back(self, entry: Self, r: Request, i: Index | Int) -> dict[str, Bool]:
        """While a table is given back: it has shrunk by so many, and what is left of it stands as it did."""
        return {
            "the table shrinks by one each round": self.length[r] == entry.length[r] - i,
            "nothing else changes hands": self.others[r] == entry.others[r],
            "entries not yet given back are as they were": forall(
                Position,
                Slot,
                lambda k, s: implies(k < self.length[r], self._stands_as_before(entry, r, k, s)),
            ),
            **self._freed_so_far(entry, r),
        }

    # -------------------------------------------------------------------------------- what these facts are made of

    def _taken_so_far(self, entry: Self, n: Int) -> dict[str, Bool]:  # noqa: ARG002
        """What else is known when n blocks were taken; for extensions of P."""
        return {}

    def _is_known(self, r: Request, i: Position, s: Slot) -> Bool:
        """The entry is known by the prompt's hash, and relied on for what this names."""
        h = self.prompt[r, i]
        return (self.filed[r, i] == h) & (self.expects[r, i, s] == self.kv[h, s])

    def _found_in_order(self, entry: Self) -> Bool:
        """Of two blocks with one hash, the one that was registered first is found first as long as both carry it."""
        return forall(
            Block,
            Block,
            Hash,
            lambda b, c, h: implies(
                self.cached[h].has(b) & self.cached[h].has(c) & entry.cached[h].has(b) & entry.cached[h].has(c),
                iff(self.cached[h].before(b, c), entry.cached[h].before(b, c)),
            ),
        )

    def _only_taken_from(self, entry: Self) -> dict[str, Bool]:
        """Nobody joined the queue, and who is left in it stands as before."""
        return {
            "who is left in the queue was there, in the same order": forall(
                Block,
                Block,
                lambda b, c: implies(
                    self._idle(b) & self._idle(c),
                    entry._idle(b) & iff(self._sooner(b, c), entry._sooner(b, c)),
                ),
            )
        }

    def _taken_from_the_head(self, entry: Self, r: Request) -> dict[str, Bool]:
        """The blocks that r took since `entry` were the first of the queue, and stand in its table in that order."""
        return {
            "who was taken stood before who is left": forall(
                Block,
                Block,
                lambda b, c: implies(entry._idle(b) & ~self._idle(b) & self._idle(c), entry._sooner(b, c)),
            ),
            **self._only_taken_from(entry),
            "new entries were free": forall(
                Position,
                Block,
                lambda i, b: implies((i >= entry.length[r]) & (self.table[r, i] == b), entry._idle(b) & ~self._idle(b)),
            ),
            "who was taken has lost its hashes, and nobody else": forall(
                Block,
                Hash,
                lambda b, h: iff(self.hashes[b, h], entry.hashes[b, h] & ~(entry._idle(b) & ~self._idle(b))),
            ),
            "new entries stand in queue order": forall(
                Position,
                Position,
                Block,
                Block,
                lambda i, j, b, c: implies(
                    all_of(i >= entry.length[r], i < j, self.table[r, i] == b, self.table[r, j] == c),
                    entry._sooner(b, c),
                ),
            ),
        }

    def _is_new(self, entry: Self, b: Block) -> Bool:
        """The block has become free since `entry`."""
        return self.free.has(b) & ~entry.free.has(b)

    def _freed_so_far(self, entry: Self, r: Request) -> dict[str, Bool]:
        """While a free call gives back entries of r's table: where everything stands."""
        return {**self._runs_so_far(entry), **self._given_back_in_order(entry, r)}

    def _runs_so_far(self, entry: Self) -> dict[str, Bool]:
        """While a free call gives back blocks: where it puts them at the head, and that nothing else moves."""
        return {
            "the mark stands in the queue": implies(self.behind.value != none, self.free.has(self.behind.value)),
            "who was free stays free, in the same order": forall(Block, Block, self._kept_in_order(entry)),
            "the mark stands right behind the run at the head": forall(
                Block,
                lambda b: implies(
                    self.split.value & self.free.has(b),
                    iff(
                        self._is_new(entry, b) & self._belongs_to_the_head(b),
                        (self.behind.value == none) | self.free.before(b, self.behind.value),
                    ),
                ),
            ),
        }

    def _given_back_in_order(self, entry: Self, r: Request) -> dict[str, Bool]:
        """Where the blocks stand that became free since `entry`, when r gave back the end of its table, last first."""
        return self._placed_in_order(entry, lambda i: entry.table[r, i])

    def _placed_in_order(self, entry: Self, given: Callable[[Position], Block]) -> dict[str, Bool]:
        """Where the blocks stand that became free since `entry`, when those `given` were given back, last first.

        A block that the call names twice has its place where the second hold goes: at the lower position.
        """

        def is_new(b: Block) -> Bool:
            return self._is_new(entry, b)

        def to_the_head(b: Block) -> Bool:
            return self._belongs_to_the_head(b)

        return {
            "what goes to the head stands before all that was free": forall(
                Block,
                Block,
                lambda b, c: implies(is_new(b) & to_the_head(b) & entry.free.has(c), self.free.before(b, c)),
            ),
            "what goes to the tail stands behind all that was free": forall(
                Block,
                Block,
                lambda b, c: implies(is_new(b) & ~to_the_head(b) & entry.free.has(c), self.free.before(c, b)),
            ),
            "what goes to the head stands before what goes to the tail": forall(
                Block,
                Block,
                lambda b, c: implies(
                    all_of(is_new(b), to_the_head(b), is_new(c), ~to_the_head(c)), self.free.before(b, c)
                ),
            ),
            "what goes the same way stands in the order given": forall(
                Position,
                Position,
                Block,
                Block,
                lambda i, j, b, c: implies(
                    all_of(
                        is_new(b) & is_new(c) & iff(to_the_head(b), to_the_head(c)),
                        (j < i) & (given(i) == b) & (given(j) == c),
                        forall(Position, lambda k: implies(k < i, given(k) != b)),
                    ),
                    self.free.before(b, c),
                ),
            ),
        }

    def _kept_in_order(self, entry: Self) -> Callable[[Block, Block], Bool]:
        """Who was free is still free, and any two of them stand as they stood."""
        return lambda b, c: implies(
            entry.free.has(b) & entry.free.has(c),
            self.free.has(b) & iff(self.free.before(b, c), entry.free.before(b, c)),
        )

    def _stands_as_before(self, before: Self, r: Request, i: Position, s: Slot) -> Bool:
        """An entry, the hash that it was filed under, and what the request expects there."""
        return all_of(
            self.table[r, i] == before.table[r, i],
            self.filed[r, i] == before.filed[r, i],
            self.expects[r, i, s] == before.expects[r, i, s],
        )
