"""A hit that ends inside a block, and the one block more that it takes (docs/findings.md, 2)."""

from __future__ import annotations

from ....machine import Bool, Int, Map, Promise, action, eventually, implies, invariant, ite, promise, steps
from .lines import Line, Request

__all__ = ["HitsInside", "HitsInsideAtAnyPrice"]


class HitsInside(Line):
    """A hit that ends inside a block needs its source beside the copy: one block more than computing everything.

    It is taken where that block is there.
    """

    cached = Map(Request, to=Bool)
    """What a request begins with is cached, and ends inside a block."""

    held = Map(Request, to=Int)
    """The blocks that a request holds."""

    @action("P6")
    def start(self, r: Request) -> None:
        """The first in line gets all that it needs."""
        self.require(self.line.is_first(r) & (self.held[r] == 0))
        self.require(self._wanted(r) <= self.capacity.value)
        self.held[r] = self._wanted(r)

    def _wanted(self, r: Request) -> Int:
        pays = self.cached[r] & (self.need[r] + 1 <= self.capacity.value)
        return ite(pays, self.need[r] + 1, self.need[r])

    @action("L1")
    def finish(self, r: Request) -> None:
        """It leaves; its last block can be found."""
        self.require(self.line.is_first(r) & (self.held[r] > 0))
        self.held[r] = 0
        self.cached[r] = True
        self._ends(r)

    @invariant("P1")
    def only_the_first_holds(self, r: Request) -> Bool:
        """And no more than there is."""
        is_held = self.line.is_first(r) & (self.held[r] <= self.capacity.value)
        return (self.held[r] >= 0) & implies(self.held[r] > 0, is_held)

    @eventually("L1")
    def the_first_leaves(self, r: Request) -> Promise:
        """Whoever stands first in the line leaves it."""
        return promise(
            goal=~self.line.is_first(r),
            fair=[steps(self.start, r), steps(self.finish, r)],
            measure=[self.held[r] == 0],
        )


class HitsInsideAtAnyPrice(HitsInside):
    """As vLLM 0.33.0: a hit is used whenever there is one. The pool is free, and the request waits for ever."""

    def _wanted(self, r: Request) -> Int:
        return ite(self.cached[r], self.need[r] + 1, self.need[r])
