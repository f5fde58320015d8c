"""The actions of Groups (machine H)."""

from __future__ import annotations

from ....machine import Int, action, exists, forall, implies, none, otherwise, when
from ...hybrid.planner import Group, Tokens
from ...pool import Block, Position, Request
from .state import GroupsState

__all__ = ["GroupsActions"]


class GroupsActions(GroupsState, abstract=True):
    """How a common hit is found, and what happens to blocks and loads."""

    # -------------------------------------------------------------------------------- a coordinated hit

    @action("H4, P14")
    def seek(self, r: Request) -> None:
        """A request enters, and looks for the longest prefix that all its groups can use."""
        self.require(self.seeking.value == none)
        self.require(~self.running[r])
        self.running[r] = True
        self.seeking.value = r
        self.candidate.value = self.limit[r]

    @action("H4")
    def shorten(self, r: Request, g: Group, t: Tokens) -> None:
        """A group says how much of the candidate it can use: the longest boundary for which it has what it needs."""
        self.require(self.seeking.value == r)
        self.require(t <= self.candidate.value)
        self.require(self.is_boundary[t] & self.is_served(g, r, t))
        self.require(
            forall(
                Tokens,
                lambda u: implies((u <= self.candidate.value) & self.is_boundary[u] & self.is_served(g, r, u), u <= t),
            )
        )
        self.candidate.value = t

    @action("H4, P8")
    def hit(self, r: Request) -> None:
        """All groups agree. What they need is held, for all of them at once."""
        self.require(self.seeking.value == r)
        self.require(self.is_common(r, self.candidate.value))
        length = self.candidate.value
        with self.each(Block) as b, when(exists(Group, Position, lambda g, i: self._hits(g, r, i, length, b))):
            self.free[b] = False
        with self.each(Group, Position) as (g, i), when(self.needs[g, length, i]):
            self.table[g, r, i] = self.cached[self.name[g, r, i]]
        self.computed[r] = length
        self.external[r] = 0
        self.seeking.value = none

    # -------------------------------------------------------------------------------- blocks

    @action("P7, H8")
    def allocate(self, g: Group, r: Request, i: Position, b: Block) -> None:
        """A free block is taken; what could be found in it no longer can."""
        self.require(self.seeking.value == none)
        self.require(self.running[r])
        self.require(self.free[b])
        self.require(self.table[g, r, i] == none)
        self.free[b] = False
        self.table[g, r, i] = b
        with when(self.hash[b] != none):
            self.cached[self.hash[b]] = none
        self.hash[b] = none

    @action("P5")
    def register(self, g: Group, r: Request, i: Position) -> None:
        """A full block can be found."""
        self.require(self.seeking.value == none)
        self.require(self.table[g, r, i] != none)
        self.require(self.hash[self.table[g, r, i]] == none)
        self.require(self.cached[self.name[g, r, i]] == none)
        self.hash[self.table[g, r, i]] = self.name[g, r, i]
        self.cached[self.name[g, r, i]] = self.table[g, r, i]

    @action("P9, D7")
    def drop(self, g: Group, r: Request, i: Position) -> None:
        """A block is not needed any more: it has left a window, or held an earlier state."""
        self.require(self.seeking.value == none)
        b = self.table[g, r, i]
        self.require(b != none)
        is_last = forall(
            Group,
            Request,
            Position,
            lambda x, q, j: implies(self.table[x, q, j] == b, (x == g) & (q == r) & (j == i)),
        )
        self.table[g, r, i] = none
        with when(is_last):
            self.free[b] = True

    @action("P9")
    def leave(self, r: Request) -> None:
        """A request is done, or is preempted."""
        self.require(self.seeking.value == none)
        self.require(self.running[r])
        with (
            self.each(Block) as b,
            when(~exists(Group, Request, Position, lambda g, q, i: (q != r) & (self.table[g, q, i] == b))),
        ):
            self.free[b] = True
        with self.each(Group, Position) as (g, i):
            self.table[g, r, i] = none
        self.running[r] = False
        self.computed[r] = 0
        self.external[r] = 0
        self.has_loaded[r] = False

    # -------------------------------------------------------------------------------- loads

    @action("H4, O11")
    def load(self, r: Request, n: Int) -> None:
        """Tokens behind the computed ones are promised by a connector. Nothing of them has come yet."""
        self.require(self.seeking.value == none)
        self.require(self.running[r])
        self.require(self.external[r] == 0)
        self.require(n > 0)
        self.external[r] = n
        self.has_loaded[r] = True
        with self.each(Group) as g:
            self.reached[g, r] = self.computed[r]

    @action("H4, H9")
    def report(self, g: Group, r: Request, t: Tokens) -> None:
        """A group has so much, now that the load has ended, well or badly."""
        self.require(self.has_loaded[r])
        self.reached[g, r] = t

    @action("H4, O11")
    def settle(self, r: Request, t: Tokens) -> None:
        """The groups disagree. What counts is the longest boundary that all have reached; if that is none, nothing."""
        self.require(self.seeking.value == none)
        self.require(self.has_loaded[r])
        self.require(self.is_boundary[t])
        self.require(forall(Group, lambda g: t <= self.reached[g, r]))
        self.require(
            forall(
                Tokens,
                lambda u: implies(self.is_boundary[u] & forall(Group, lambda g: u <= self.reached[g, r]), u <= t),
            )
        )
        before = self.computed[r]
        with when(before <= t):
            self.external[r] = t - before
        with otherwise():
            self.computed[r] = t
            self.external[r] = 0
        self.has_loaded[r] = False
