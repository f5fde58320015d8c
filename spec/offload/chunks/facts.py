"""The facts of the loops of Chunks: nobody needs them but the prover."""

from __future__ import annotations

from typing import Self

from ....machine import Bool, Index, Int, all_of, exists, forall, iff, implies
from ...pool import Hash, Position
from .state import ChunksState, Offer

__all__ = ["ChunksFacts"]


class ChunksFacts(ChunksState, abstract=True):
    """What an offer keeps from round to round."""

    def _while_touching(self, entry: Self, o: Offer, i: Index | Int) -> dict[str, Bool]:
        """While what is named goes last: nothing comes or goes."""

        def was_touched(h: Hash) -> Bool:
            return exists(Position, lambda k: (k < i) & (self.key[o, k] == h))

        return {
            "the same can go": forall(Hash, lambda h: iff(self.idle.has(h), entry.idle.has(h))),
            "what was touched stands behind all else": forall(
                Hash,
                Hash,
                lambda g, h: implies(
                    self.idle.has(g) & self.idle.has(h) & ~was_touched(g) & was_touched(h), self.idle.before(g, h)
                ),
            ),
            "all else stands as before": forall(
                Hash,
                Hash,
                lambda g, h: implies(
                    ~was_touched(g) & ~was_touched(h), iff(self.idle.before(g, h), entry.idle.before(g, h))
                ),
            ),
            "what was touched stands in the list's order": forall(
                Position,
                Position,
                lambda j, k: implies(
                    all_of(j < k, k < i, self.idle.has(self.key[o, j]), self.idle.has(self.key[o, k])),
                    self.idle.before(self.key[o, j], self.key[o, k]),
                ),
            ),
        }

    def _while_making_room(self, entry: Self, o: Offer, i: Index | Int) -> dict[str, Bool]:
        """While entries go: none of them is named, and there are more."""
        return {
            "one entry goes each round": self.used.value == entry.used.value - i,
            "one less may go each round": self.evictable[o] == entry.evictable[o] - i,
            "nothing that is named goes": self.missing[o] == entry.missing[o],
            "what is named stays": forall(
                Hash, lambda h: implies(self.names[o, h], iff(self.ready[h], entry.ready[h]))
            ),
            "who is left was there, in the same order": forall(
                Hash,
                Hash,
                lambda g, h: implies(
                    self.idle.has(g) & self.idle.has(h),
                    entry.idle.has(g) & iff(self.idle.before(g, h), entry.idle.before(g, h)),
                ),
            ),
            "what goes was idle": forall(
                Hash, lambda h: implies(entry.ready[h] & ~self.ready[h], entry.idle.has(h) & ~self.idle.has(h))
            ),
            "what stays idle was not given up": forall(
                Hash, lambda h: implies(self.ready[h] | ~entry.ready[h], iff(self.idle.has(h), entry.idle.has(h)))
            ),
            "nothing goes at first": forall(Hash, lambda h: implies(i == 0, iff(self.ready[h], entry.ready[h]))),
            "nothing comes": forall(Hash, lambda h: implies(self.ready[h], entry.ready[h])),
            "what goes stood before what stays": forall(
                Hash,
                Hash,
                lambda g, h: implies(entry.idle.has(g) & ~self.idle.has(g) & self.idle.has(h), entry.idle.before(g, h)),
            ),
        }

    def _while_storing(self, entry: Self, o: Offer, i: Index | Int) -> dict[str, Bool]:
        """While stores begin: there is a chunk for all that is still missing."""

        def was_named(h: Hash) -> Bool:
            return exists(Position, lambda k: (k < i) & (self.key[o, k] == h))

        return {
            "each entry takes what was missing": (
                self.used.value + self.missing[o] == entry.used.value + entry.missing[o]
            ),
            "what was missing so far is on its way": forall(
                Hash, lambda h: iff(self.storing[h], entry.storing[h] | (was_named(h) & ~entry.ready[h]))
            ),
        }
