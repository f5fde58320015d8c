"""Requests that grow, and the slots that an allocation wants beside (docs/findings.md, 4)."""

from __future__ import annotations

from ....machine import (
    Bool,
    Int,
    Map,
    Param,
    Promise,
    Sum,
    action,
    all_of,
    assume,
    eventually,
    implies,
    invariant,
    ite,
    promise,
    steps,
)
from .lines import Line, Request

__all__ = ["GrowingRequests", "LookAhead"]


class GrowingRequests(Line):
    """Requests grow block by block; where there is none left, one that came later gives up all that it holds."""

    extra = Param(to=Int)
    """The slots for tokens to come that an allocation wants beside what it allocates."""

    held = Map(Request, to=Int)
    """The blocks that a request holds."""

    used = Sum(Request, of=lambda m, r: m.held[r], to=Int)
    """All that are held."""

    others = Sum(Request, by=Request, of=lambda m, q, r: ite(q != r, m.held[q], 0), to=Int)
    """What others than a request hold."""

    @assume("L1")
    def every_request_fits(self, r: Request) -> Bool:
        """Each request alone fits the empty pool, and what is wanted beside it too."""
        return (self.need[r] >= 1) & (self.need[r] + self.extra.value <= self.capacity.value)

    @assume("L1")
    def nothing_less_is_wanted_beside_it(self) -> Bool:
        """Than nothing."""
        return self.extra.value >= 0

    @action("P7")
    def grow(self, r: Request) -> None:
        """It takes another block."""
        self.require(self.line.has(r) & (self.held[r] < self.need[r]))
        self.require(self._fits())
        self.held[r] = self.held[r] + 1

    def _fits(self) -> Bool:
        return self.used.value + 1 + self.extra.value <= self.capacity.value

    @action("L1")
    def give_up(self, r: Request) -> None:
        """Somebody wants a block, and there is none: one starts over; the first only where nobody else holds any."""
        self.require(self.held[r] > 0)
        self.require(~self._fits())
        self.require(~self.line.is_first(r) | (self.others[r] == 0))
        self.held[r] = 0

    @action("L1")
    def finish(self, r: Request) -> None:
        """A complete request leaves."""
        self.require(self.line.has(r) & (self.held[r] == self.need[r]))
        self.held[r] = 0
        self._ends(r)

    @invariant("P1")
    def what_is_held_adds_up(self, r: Request) -> Bool:
        """Who stands in line holds no more than it needs; nobody else holds anything."""
        return all_of(
            (self.held[r] >= 0) & (self.held[r] <= self.need[r]),
            implies(self.held[r] > 0, self.line.has(r)),
            self.used.value == self.held[r] + self.others[r],
        )

    @eventually("L1")
    def the_first_leaves(self, r: Request) -> Promise:
        """Whoever stands first in the line leaves it, if nobody takes a block for which it waits."""
        waits = (self.held[r] < self.need[r]) & ~self._fits()
        return promise(
            goal=~self.line.is_first(r),
            fair=[steps(self.grow, r), steps(self.give_up, Request, where=lambda _: waits), steps(self.finish, r)],
            only=[
                steps(self.grow, Request, where=lambda q: (q == r) | (self.held[r] == self.need[r])),
                steps(self.give_up, Request, where=lambda _: waits),
            ],
            measure=[self.need[r] - self.held[r], ite(self.held[r] < self.need[r], self.others[r], 0)],
        )


class LookAhead(GrowingRequests):
    """As vLLM 0.24.0 to 0.33.0: the smallest pool is checked without the slots that an allocation wants beside."""

    @assume("L1")
    def every_request_fits(self, r: Request) -> Bool:
        """Each request alone fits the empty pool."""
        return (self.need[r] >= 1) & (self.need[r] <= self.capacity.value)
