"""Loads from the host that hold blocks while they wait (docs/dynamo.md, 1)."""

from __future__ import annotations

from ....machine import (
    Bool,
    Int,
    Machine,
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
    promise,
    steps,
)
from .lines import Request

__all__ = ["HeldLoads", "ReservedLoads"]


class ReservedLoads(Machine):
    """A request has blocks loaded from the host, and holds them while it waits for the rest of what it needs.

    What it needs is set aside before its load begins.
    """

    capacity = Param(to=Int)
    """The blocks of the pool."""

    loads = Param(Request, to=Int)
    """The blocks that a request has loaded."""

    computes = Param(Request, to=Int)
    """Those that it computes after that."""

    held = Map(Request, to=Int)
    """The blocks that it holds."""

    landed = Map(Request, to=Bool)
    """Its load has ended."""

    running = Map(Request, to=Bool)
    """It has all that it needs."""

    used = Sum(Request, of=lambda m, r: m.held[r], to=Int)
    """All that are held."""

    @assume("L1")
    def every_request_fits(self, r: Request) -> Bool:
        """Alone."""
        is_number = (self.loads[r] >= 1) & (self.computes[r] >= 0)
        return is_number & (self.loads[r] + self.computes[r] <= self.capacity.value)

    @assume("P1")
    def there_is_a_pool(self) -> Bool:
        """Of any size."""
        return self.capacity.value >= 0

    @action("O5")
    def load(self, r: Request) -> None:
        """A load begins; its blocks are held from now on."""
        self.require((self.held[r] == 0) & (self.used.value + self._at_once(r) <= self.capacity.value))
        self.held[r] = self._at_once(r)

    def _at_once(self, r: Request) -> Int:
        return self.loads[r] + self.computes[r]

    @action("O7")
    def land(self, r: Request) -> None:
        """The load ends."""
        self.require((self.held[r] > 0) & ~self.landed[r])
        self.landed[r] = True

    @action("P7")
    def run(self, r: Request) -> None:
        """It gets what it needs besides."""
        more = self.loads[r] + self.computes[r] - self.held[r]
        self.require(self.landed[r] & ~self.running[r] & (self.used.value + more <= self.capacity.value))
        self.running[r] = True
        self.held[r] = self.held[r] + more

    @action("P9")
    def finish(self, r: Request) -> None:
        """It leaves, and gives back all that it holds."""
        self.require(self.running[r])
        self.held[r] = 0
        self.landed[r] = False
        self.running[r] = False

    @invariant("P1")
    def nothing_is_held_twice(self, r: Request) -> Bool:
        """What is held is there, and what goes on holds something."""
        whole = self.loads[r] + self.computes[r]
        return all_of(
            (self.held[r] == 0) | (self.held[r] == self._at_once(r)) | (self.held[r] == whole),
            implies(self.running[r], self.held[r] == whole),
            self.used.value <= self.capacity.value,
            implies(self.running[r], self.landed[r]),
            implies(self.landed[r], self.held[r] > 0),
        )

    @eventually("L1")
    def who_loads_ends(self, r: Request) -> Promise:
        """A request whose load has begun leaves."""
        return promise(
            goal=self.held[r] == 0,
            fair=[steps(self.land, r), steps(self.run, r), steps(self.finish, r)],
            measure=[~self.landed[r], ~self.running[r]],
        )


class HeldLoads(ReservedLoads):
    """As Dynamo's mocker 1.6.1: what is loaded is held, and nothing is set aside for the rest.

    Two requests, each of which holds what the other needs.
    """

    def _at_once(self, r: Request) -> Int:
        return self.loads[r]
