"""The state of Groups (machine H), and the words in which it is spoken of."""

from __future__ import annotations

from ....machine import Bool, Int, Machine, Map, Param, Scalar, all_of, assume, exists, forall, implies, none, optional
from ...hybrid.planner import Group, Tokens
from ...pool import Block, Hash, Position, Request

__all__ = ["GroupsState"]


class GroupsState(Machine, abstract=True):
    """What is known of the tables of hybrid requests, and of the blocks in them."""

    # -------------------------------------------------------------------------------- parameters

    needs = Param(Group, Tokens, Position, to=Bool)
    """To go on after so many cached tokens, a group needs the block at this position of its table."""

    is_boundary = Param(Tokens, to=Bool)
    """So many tokens are whole blocks of every group."""

    name = Param(Group, Request, Position, to=Hash)
    """What the block at a position of a request's table holds, when it is full."""

    limit = Param(Request, to=Tokens)
    """The most tokens that a lookup may return (P14)."""

    @assume("P13, H8")
    def a_name_tells_its_place(self, g: Group, x: Group, r: Request, q: Request, i: Position, j: Position) -> Bool:
        """Names are tagged by group, and tell their position."""
        return implies(self.name[g, r, i] == self.name[x, q, j], (g == x) & (i == j))

    @assume("H4")
    def nothing_is_a_boundary(self, t: Tokens) -> Bool:
        """So there is always a common length."""
        return implies(t == 0, self.is_boundary[t])

    @assume("H4")
    def nothing_needs_no_block(self, g: Group, t: Tokens, i: Position) -> Bool:
        """In no group."""
        return implies(t == 0, ~self.needs[g, t, i])

    # -------------------------------------------------------------------------------- state

    table = Map(Group, Request, Position, to=optional(Block))
    """The block at a position of a request's table of a group; none where it needs none."""

    free = Map(Block, to=Bool, init=True)
    """Nobody holds the block."""

    hash = Map(Block, to=optional(Hash))
    """What can be found in the block."""

    cached = Map(Hash, to=optional(Block))
    """Where a lookup finds it."""

    running = Map(Request, to=Bool)
    """The request is inside."""

    computed = Map(Request, to=Tokens, init=0)
    """The tokens whose KV the device had, or computed."""

    external = Map(Request, to=Int)
    """The tokens behind these that were loaded."""

    seeking = Scalar(to=optional(Request))
    """The request whose lookup goes on."""

    candidate = Scalar(to=Tokens, init=0)
    """How long its hit may still be."""

    reached = Map(Group, Request, to=Tokens, init=0)
    """The leading tokens that a load has brought for a group, with those that were there."""

    has_loaded = Map(Request, to=Bool)
    """A load has ended, and it is not settled yet what counts."""

    # -------------------------------------------------------------------------------- words

    def is_served(self, g: Group, r: Request, t: Tokens) -> Bool:
        """Everything that the group needs of a hit of so many tokens is cached."""
        return forall(Position, lambda i: implies(self.needs[g, t, i], self.cached[self.name[g, r, i]] != none))

    def is_common(self, r: Request, t: Tokens) -> Bool:
        """The groups could agree on so many tokens."""
        return all_of(
            self.is_boundary[t],
            t <= self.limit[r],
            forall(Group, lambda g: self.is_served(g, r, t)),
        )

    def is_held(self, b: Block) -> Bool:
        """Some table names the block."""
        return exists(Group, Request, Position, lambda g, r, i: self.table[g, r, i] == b)

    def is_empty(self, r: Request) -> Bool:
        """The request's tables name no block."""
        return forall(Group, Position, lambda g, i: self.table[g, r, i] == none)

    def _hits(self, g: Group, r: Request, i: Position, length: Tokens, b: Block) -> Bool:
        """The place is empty, and for a hit of that length the block will be there."""
        is_empty = self.table[g, r, i] == none
        return all_of(self.needs[g, length, i], self.cached[self.name[g, r, i]] == b, is_empty)
