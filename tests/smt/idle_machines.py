"""Machines that leave undone what an action is for, or do it half: nothing bad happens, and nothing good.

A block manager that caches nothing, stores nothing and serves nobody breaks no invariant. Each class here leaves out
one thing; the properties of steps that say what an action must do refute it.
"""

from __future__ import annotations

from kvproof.machine import forall, none, when
from kvproof.spec.pool import Block, Hash, Pool

# ------------------------------------------------------------------------------------------------ P: events


class StoresWithoutAWord(Pool):
    """Nobody is told that a block can be found."""

    def _publish(self, b: Block, h: Hash) -> None:
        self.hashes[b, h] = True
        self.cached[h].push_back(b)


class TellsOfEachCopy(Pool):
    """Also the second block of a hash is reported as stored."""

    def _publish(self, b: Block, h: Hash) -> None:
        self.hashes[b, h] = True
        self.cached[h].push_back(b)
        self.stored(h, self.parent[h])


class NamesNoParent(Pool):
    """Each hash is reported as the first of a sequence."""

    def _publish(self, b: Block, h: Hash) -> None:
        is_first = self.cached[h].is_empty()
        self.hashes[b, h] = True
        self.cached[h].push_back(b)
        with when(is_first):
            self.stored(h, none)


class ForgetsWithoutAWord(Pool):
    """Nobody is told that a hash can no longer be found."""

    def _forget(self, b: Block) -> None:
        with self.each(Hash) as h, when(self.hashes[b, h]):
            self.hashes[b, h] = False
            self.cached[h].remove(b)


class ClearsWithoutAWord(Pool):
    """Nobody is told that everything is forgotten."""

    def reset(self) -> None:
        self.require(forall(Block, lambda b: self.ref_cnt[b] == 0))
        self._forget_everything()


IDLE = [
    (StoresWithoutAWord, "register", "listeners_know_what_is_cached"),
    (TellsOfEachCopy, "register", "every_event_is_news"),
    (NamesNoParent, "register", "every_event_is_news"),
    (ForgetsWithoutAWord, "evict", "listeners_know_what_is_cached"),
    (ClearsWithoutAWord, "reset", "listeners_know_what_is_cached"),
]
"""The machine, the action that does not do its job, and the property that says so."""
