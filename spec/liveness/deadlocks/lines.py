"""Requests in a line, in the order in which they came."""

from __future__ import annotations

from ....machine import Bool, Int, Machine, Param, Queue, Sort, action, assume, implies, step

__all__ = ["Line", "Request"]


class Request(Sort):
    """A sequence of tokens that is being served."""


class Line(Machine):
    """Requests that are served one after the other, in a pool of so many blocks."""

    capacity = Param(to=Int)
    """The blocks of the pool."""

    need = Param(Request, to=Int)
    """How many of them a request takes when it is complete."""

    line = Queue(Request)
    """Who has come and not left, in the order of arrival."""

    @assume("L1")
    def every_request_fits(self, r: Request) -> Bool:
        """What the engine checks at its start: each request alone fits the empty pool."""
        return (self.need[r] >= 1) & (self.need[r] <= self.capacity.value)

    @action("L1")
    def come(self, r: Request) -> None:
        """A request joins the line."""
        self.require(~self.line.has(r))
        self.line.push_back(r)

    def _ends(self, r: Request) -> None:
        self.line.remove(r)

    @step("L1", unless="finish")
    def who_has_come_stays(self, before: Line, r: Request) -> Bool:
        """Until it is complete."""
        return implies(before.line.has(r), self.line.has(r))
