"""Hybrid models: several groups of layers over one pool (H4, H8).

A request of a hybrid model has a block table for each group, and all groups take their blocks from one pool. What a
group needs of a cached prefix depends on its kind: full attention needs all of it, a sliding window its last tokens,
mamba the state at its end. Which blocks these are is a parameter here, so what is proved holds for all kinds and sizes.

A hit is of one length for all groups. It is found by asking one group after the other, each of which may only shorten
the candidate, until all agree; that gives the longest there is. After a load groups may disagree again: then what
counts is a length that every group reaches, for the device's own and the loaded tokens together.

While a lookup goes on nothing else happens: what it found is touched before anything is allocated (P8).
"""

from __future__ import annotations

from ..machine import (
    Bool,
    Int,
    Machine,
    Map,
    Param,
    Scalar,
    action,
    all_of,
    assume,
    exists,
    forall,
    iff,
    implies,
    invariant,
    none,
    optional,
    otherwise,
    sometimes,
    step,
    when,
)
from .planner import Group, Tokens
from .pool import Block, Hash, Position, Request

__all__ = ["Groups"]


class Groups(Machine):
    """The tables of hybrid requests, and the blocks in them."""

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
    def nothing_is_a_boundary(self, g: Group, t: Tokens, i: Position) -> Bool:
        """It needs no block: so there is always a common length."""
        return implies(t == 0, self.is_boundary[t] & ~self.needs[g, t, i])

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

    def _hits(self, g: Group, r: Request, i: Position, length: Tokens, b: Block) -> Bool:
        """The place is empty, and for a hit of that length the block will be there."""
        is_empty = self.table[g, r, i] == none
        return all_of(self.needs[g, length, i], self.cached[self.name[g, r, i]] == b, is_empty)

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
        """Tokens behind the computed ones are promised by a connector."""
        self.require(self.seeking.value == none)
        self.require(self.running[r])
        self.require(self.external[r] == 0)
        self.require(n > 0)
        self.external[r] = n
        self.has_loaded[r] = True

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

    # -------------------------------------------------------------------------------- invariants

    @invariant("P2, P3")
    def who_is_held_is_not_free(self, b: Block, g: Group, r: Request, i: Position) -> Bool:
        """Whatever the group."""
        return implies(self.table[g, r, i] == b, ~self.free[b])

    @invariant("P2, P3")
    def who_is_not_free_is_held(self, b: Block) -> Bool:
        """Nothing is lost."""
        return implies(~self.free[b], self.is_held(b))

    @invariant("P5")
    def the_map_and_the_blocks_agree(self, b: Block, h: Hash) -> Bool:
        """A hash is found in the block that carries it."""
        return implies(self.cached[h] == b, self.hash[b] == h) & implies(self.hash[b] == h, self.cached[h] == b)

    @invariant("P13, H8")
    def a_block_keeps_its_place(
        self, b: Block, g: Group, r: Request, i: Position, x: Group, q: Request, j: Position
    ) -> Bool:
        """What a held block carries is a name of the place where it is held."""
        carries = self.hash[b] == self.name[x, q, j]
        return implies(carries & (self.table[g, r, i] == b), (x == g) & (j == i))

    @invariant("H8")
    def no_block_is_in_two_places(
        self, b: Block, g: Group, r: Request, i: Position, x: Group, q: Request, j: Position
    ) -> Bool:
        """A block that several tables name stands in the same group and at the same position of each."""
        return implies((self.table[g, r, i] == b) & (self.table[x, q, j] == b), (x == g) & (j == i))

    @invariant("P2")
    def only_who_runs_holds(self, r: Request, g: Group, i: Position) -> Bool:
        """Tables of requests that are not inside are empty; so are those of one whose lookup goes on."""
        return implies(~self.running[r] | (self.seeking.value == r), self.table[g, r, i] == none)

    @invariant("H4")
    def who_seeks_runs(self, r: Request) -> Bool:
        """And the candidate is within its limit."""
        return implies(self.seeking.value == r, self.running[r] & (self.candidate.value <= self.limit[r]))

    @invariant("H4")
    def nothing_longer_is_common(self, r: Request, t: Tokens) -> Bool:
        """The groups could not agree on more than the candidate."""
        return implies((self.seeking.value == r) & self.is_common(r, t), t <= self.candidate.value)

    @invariant("H4, O11")
    def nothing_counts_of_who_is_not_inside(self, r: Request) -> Bool:
        """Nor less than nothing."""
        return all_of(
            self.external[r] >= 0,
            implies(
                ~self.running[r] | (self.seeking.value == r),
                (self.computed[r] == 0) & (self.external[r] == 0) & ~self.has_loaded[r],
            ),
        )

    # -------------------------------------------------------------------------------- steps

    @step("H4, P8", unless=("seek", "shorten", "hit", "report"))
    def a_lookup_is_not_interrupted(self, before: Groups) -> Bool:
        """What it found is held before anything is taken or given back."""
        return all_of(before.seeking.value == none)

    @step("H4", of="seek")
    def a_lookup_begins_with_all_that_it_may_return(self, before: Groups, r: Request) -> Bool:
        """For a request that was not inside; and there is one lookup at a time."""
        return all_of(
            ~before.running[r] & (before.seeking.value == none),
            self.running[r] & (self.seeking.value == r) & (self.candidate.value == self.limit[r]),
        )

    @step("H4", of="hit")
    def a_hit_covers_what_every_group_needs(self, before: Groups, r: Request, g: Group, i: Position) -> Bool:
        """It is a boundary of all; and for each, what it needs is held, and is what the request's tokens name."""
        b = self.table[g, r, i]
        is_right = (b != none) & (before.cached[self.name[g, r, i]] == b) & ~self.free[b]
        return all_of(
            self.is_boundary[self.computed[r]] & (self.computed[r] <= self.limit[r]) & (self.external[r] == 0),
            implies(self.needs[g, self.computed[r], i], is_right),
            implies(~self.needs[g, self.computed[r], i], b == none),
        )

    @step("H4", of="hit")
    def a_hit_is_the_longest(self, before: Groups, r: Request, t: Tokens) -> Bool:
        """Nothing longer would have served all groups."""
        return implies(before.is_common(r, t), t <= self.computed[r])

    @step("H4", of="shorten")
    def a_group_only_shortens(self, before: Groups, r: Request, g: Group) -> Bool:
        """If it cannot use the whole candidate, that becomes shorter: the search ends."""
        could = before.is_boundary[before.candidate.value] & before.is_served(g, r, before.candidate.value)
        return all_of(
            self.candidate.value <= before.candidate.value,
            implies(~could, self.candidate.value < before.candidate.value),
        )

    @step("P7, P9", of=("allocate", "drop", "leave", "hit"))
    def nobody_loses_a_block(self, before: Groups, r: Request, q: Request, g: Group, i: Position) -> Bool:
        """What other requests hold they keep."""
        b = before.table[g, q, i]
        return implies((q != r) & (b != none), (self.table[g, q, i] == b) & ~self.free[b])

    @step("H4, O11", unless="seek")
    def requests_go_on_by_themselves(self, before: Groups, r: Request, q: Request) -> Bool:
        """Where something changes for one, all is as it was for every other."""
        return implies((r != q) & ~self._is_as_it_was(before, r), self._is_as_it_was(before, q))

    @step("H4", of="seek")
    def only_one_enters(self, before: Groups, r: Request, q: Request) -> Bool:
        """And nothing is known of it yet."""
        return implies(q != r, self._is_as_it_was(before, q)) & (self.computed[r] == 0) & ~self.has_loaded[r]

    def _is_as_it_was(self, before: Groups, r: Request) -> Bool:
        """The request's tokens, and what of them counts."""
        return all_of(
            iff(self.running[r], before.running[r]),
            self.computed[r] == before.computed[r],
            self.external[r] == before.external[r],
            iff(self.has_loaded[r], before.has_loaded[r]),
            forall(Group, lambda g: self.reached[g, r] == before.reached[g, r]),
        )

    @step("H4, H9", of="report")
    def what_a_group_has_is_known(self, before: Groups, g: Group, r: Request, t: Tokens, x: Group) -> Bool:
        """Of that group, once a load has ended."""
        is_other = implies(x != g, self.reached[x, r] == before.reached[x, r])
        return before.has_loaded[r] & (self.reached[g, r] == t) & is_other

    @step("H4, O11", of="settle")
    def what_counts_is_there_for_all(self, before: Groups, r: Request, t: Tokens, g: Group) -> Bool:
        """Computed and external tokens together are what every group has; nothing in common is nothing at all (S16).

        It is a boundary of all groups, and what counted before counts no more than it did.
        """
        return all_of(
            self.is_boundary[t] & ~self.has_loaded[r],
            (self.computed[r] + self.external[r] == t) & (t <= before.reached[g, r]),
            implies(t == 0, (self.computed[r] == 0) & (self.external[r] == 0)),
            self.computed[r] <= before.computed[r],
        )

    @step("H4, O11", of="settle")
    def what_counts_is_the_most(self, before: Groups, r: Request, u: Tokens) -> Bool:
        """No longer boundary is reached by all groups."""
        is_reached = self.is_boundary[u] & forall(Group, lambda g: u <= before.reached[g, r])
        return implies(is_reached, u <= self.computed[r] + self.external[r])

    @step("H4", of="load")
    def what_is_promised_counts(self, before: Groups, r: Request, n: Int) -> Bool:
        """Behind what is computed; until it is settled what has come."""
        return all_of(self.external[r] == n, n > 0, before.external[r] == 0, self.has_loaded[r])

    @step("P9", of="leave")
    def nothing_is_left(self, before: Groups, r: Request, g: Group, i: Position) -> Bool:
        """Of a request that has left: neither blocks nor tokens."""
        return before.running[r] & all_of(
            ~self.running[r], self.table[g, r, i] == none, self.computed[r] == 0, self.external[r] == 0
        )

    @step("H4", of=("shorten", "hit"))
    def only_who_seeks_is_answered(self, before: Groups, r: Request) -> Bool:
        """With a candidate of its own."""
        return all_of(before.running[r], before.seeking.value == r)

    # -------------------------------------------------------------------------------- what must be reachable

    @sometimes("H4")
    def a_hit_is_shorter_than_one_group_could(self, r: Request, g: Group, x: Group, i: Position) -> Bool:
        """It was cut for the sake of another group."""
        return all_of(
            self.running[r] & (self.seeking.value == none) & (g != x),
            self.is_served(g, r, self.limit[r]) & ~self.is_served(x, r, self.limit[r]),
            self.table[g, r, i] != none,
            (self.computed[r] > 0) & (self.computed[r] < self.limit[r]),
        )

    @sometimes("H4")
    def groups_disagree(self, r: Request, g: Group, x: Group) -> Bool:
        """After a load."""
        return self.has_loaded[r] & (self.reached[g, r] < self.reached[x, r]) & (self.computed[r] > 0)

    @sometimes("H8")
    def a_block_is_shared(self, r: Request, q: Request, g: Group, i: Position) -> Bool:
        """By two requests."""
        b = self.table[g, r, i]
        return all_of(r != q, b != none, self.table[g, q, i] == b)
