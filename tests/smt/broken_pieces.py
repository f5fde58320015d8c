"""Loads that come in pieces, with one thing wrong each (H5, O11): what `prove` must refute, and `explore` find."""

from __future__ import annotations

from kvproof.machine import Bool, Int, Machine, exists, when
from kvproof.spec.hybrid.connectors import Job
from kvproof.spec.hybrid.partial_loads import PartialLoads
from kvproof.spec.hybrid.planner import Tokens
from kvproof.spec.pool import Request


class CountsBehindAHole(PartialLoads):
    """Whatever the last piece that came is, all before it counts."""

    def finish_in_part(self, r: Request, j: Job) -> Int:
        self.require(self.loading[r])
        self.require(self.job[r] == j)
        self.require(self._is_heard(r))
        self.require(exists(Tokens, lambda t: (t == 0) & self.came[r, t]))
        self.require(~self._has_come(r, self.external[r]))
        self.arrived[r] = self.external[r]
        self._end_load(r)
        return self.external[r]


class KeepsOneBack(PartialLoads):
    """The piece before the hole does not count."""

    def finish_in_part(self, r: Request, j: Job) -> Int:
        n = super().finish_in_part(r, j)
        self.external[r] = n - 1
        self.arrived[r] = n - 1
        return n - 1


class CountsWhatIsMissing(PartialLoads):
    """S16: what came in part counts as if it had come whole."""

    def finish_load(self, r: Request, j: Job, ok: Bool) -> None:
        self.require(self.loading[r])
        self.require(self.job[r] == j)
        self.require(self._is_heard(r))
        with when(ok):
            self.arrived[r] = self.external[r]
        with when(~ok):
            self.external[r] = 0
        self._end_load(r)


class DoesNotWait(PartialLoads):
    """A load ends with the first piece that is lost, while others are still to come."""

    def finish_load(self, r: Request, j: Job, ok: Bool) -> None:
        self.require(self.loading[r])
        self.require(self.job[r] == j)
        self.require(~ok & exists(Tokens, lambda t: self.told[r, t] & ~self.came[r, t]))
        self.external[r] = 0
        self._end_load(r)


class HearsTwice(PartialLoads):
    """What is reported a second time counts a second time: what was lost has come."""

    def hear(self, j: Job, t: Tokens, ok: Bool) -> Bool:
        self.require(j < self.issued.value)
        is_awaited = exists(Request, lambda r: self._awaits(r, j, t))
        with self.each(Request) as r, when(self.loading[r] & (self.job[r] == j) & (t < self.external[r])):
            self.told[r, t] = True
            self.came[r, t] = ok
        return is_awaited


class HearsAnyLoad(PartialLoads):
    """S18: a piece is taken for one of whichever load is under way."""

    def hear(self, j: Job, t: Tokens, ok: Bool) -> Bool:
        self.require(j < self.issued.value)
        is_awaited = exists(Request, lambda r: self._awaits(r, j, t))
        with self.each(Request) as r, when(self.loading[r] & (t < self.external[r]) & ~self.told[r, t]):
            self.told[r, t] = True
            self.came[r, t] = ok
        return is_awaited


class HearsNothing(PartialLoads):
    """Every report is thrown away."""

    def hear(self, j: Job, t: Tokens, ok: Bool) -> Bool:
        self.require(j < self.issued.value)
        return exists(Request, lambda r: self._awaits(r, j, t))


class ComesBackWithPieces(PartialLoads):
    """Who leaves and comes back finds what was reported of its former load."""

    def leave(self, r: Request) -> None:
        super(PartialLoads, self).leave(r)


BROKEN: list[tuple[type[Machine], str, str, str]] = [
    (CountsBehindAHole, "finish_in_part", "what_counts_has_come", "O11"),
    (KeepsOneBack, "finish_in_part", "all_that_came_counts", "O11"),
    (CountsWhatIsMissing, "finish_load", "what_counts_has_come", "O11"),
    (DoesNotWait, "finish_load", "all_that_came_counts", "O11"),
    (HearsTwice, "hear", "what_comes_twice_changes_nothing", "O7"),
    (HearsAnyLoad, "hear", "what_comes_twice_changes_nothing", "O7"),
    (HearsNothing, "hear", "a_piece_is_heard_once", "O7"),
    (ComesBackWithPieces, "leave", "nothing_is_left_of_a_load", "O8"),
]
"""Machine, the action that goes wrong, the property that it breaks, and the rule."""
