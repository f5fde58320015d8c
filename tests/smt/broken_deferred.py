"""Machine P with steps under way, with one thing wrong, one class for each: what `prove` must refute."""

from __future__ import annotations

from kvproof.machine import Bool, Int, action, none, when
from kvproof.spec.pool import Block, Pool, Request
from kvproof.spec.pool.deferred import Deferred, Pass


class FreesAtOnce(Deferred):
    """What a request held is free as soon as it leaves, whatever still reads it (vLLM, fault B11)."""

    @action("P2, P9, D7")
    def leave(self, r: Request, p: Pass) -> None:
        self.require(self.running[r])
        self.require(self.reader[p] == r)
        self.require(self._is_last_of(r, p))
        self._give_back(r, self.length[r])
        with self.each(Pass) as q, when(self.reader[q] == r):
            self.reader[q] = none
            self.keeper[q] = p
        self.running[r] = False


class PreemptsUnread(Deferred):
    """A preemption does not ask whether a step reads the table."""

    def preempt(self, r: Request) -> None:
        Pool.preempt(self, r)


class TrimsUnread(Deferred):
    """Nor does a table that is cut."""

    def trim(self, r: Request, n: Int) -> None:
        Pool.trim(self, r, n)


class AnyStepHolds(Deferred):
    """Some step that reads what was left holds it, not the last: it is taken while the last reads it."""

    def _is_last_of(self, r: Request, p: Pass) -> Bool:
        return self.reader[p] == r


class ProcessesAnyStep(Deferred):
    """The step that holds is processed before the others for which it does."""

    @action("P9, P10, D7")
    def process(self, p: Pass) -> None:
        self.require(self.under_way.has(p))
        self._end(p)


class HoldsForEver(Deferred):
    """What a step held is held by nobody, and not free."""

    def _let_go(self, b: Block) -> None:
        self.transfers[b] = self.transfers[b] - 1


class CountsForEver(Deferred):
    """A step goes, and its holds are still counted."""

    def _let_go(self, b: Block) -> None:
        self.transfers[b] = self.transfers[b] + 0


class LetsGoTwice(Deferred):
    """A step gives back each hold twice."""

    def _let_go(self, b: Block) -> None:
        super()._let_go(b)
        with when(self.ref_cnt[b] > 0):
            self._release(b)


class ReadsNothing(Deferred):
    """A step is scheduled, and nobody knows what it reads."""

    @action("D7")
    def schedule(self, p: Pass, r: Request) -> None:
        self.require(self.running[r] & (self.length[r] > 0) & ~self.under_way.has(p))
        self.under_way.push_back(p)
        self.reader[p] = r


class WritesOver(Deferred):
    """A late write does not ask who else relies on the block."""

    def _is_own(self, b: Block) -> Bool:
        return self.ref_cnt[b] >= 1
