"""The properties of steps of Groups (machine H): what each action must do, and what it must not touch."""

from __future__ import annotations

from typing import Self

from ....machine import Bool, Int, all_of, forall, iff, implies, ite, none, step
from ...hybrid.planner import Group, Tokens
from ...pool import Block, Position, Request
from .actions import GroupsActions

__all__ = ["GroupsSteps"]


class GroupsSteps(GroupsActions, abstract=True):
    """What each action is for, and what it leaves alone."""

    @step("H4, P8", unless=("seek", "shorten", "hit", "report"))
    def a_lookup_is_not_interrupted(self, before: Self) -> Bool:
        """What it found is held before anything is taken or given back."""
        return all_of(before.seeking.value == none)

    @step("H4", of="seek")
    def a_lookup_begins_with_all_that_it_may_return(self, before: Self, r: Request) -> Bool:
        """For a request that was not inside; and there is one lookup at a time."""
        return all_of(
            ~before.running[r] & (before.seeking.value == none),
            self.running[r] & (self.seeking.value == r) & (self.candidate.value == self.limit[r]),
        )

    @step("H4", of="hit")
    def a_hit_covers_what_every_group_needs(self, before: Self, r: Request, g: Group, i: Position) -> Bool:
        """It is a boundary of all; and for each, what it needs is held, and is what the request's tokens name."""
        b = self.table[g, r, i]
        is_right = (b != none) & (before.cached[self.name[g, r, i]] == b) & ~self.free[b]
        return all_of(
            self.is_boundary[self.computed[r]] & (self.computed[r] <= self.limit[r]) & (self.external[r] == 0),
            implies(self.needs[g, self.computed[r], i], is_right),
            implies(~self.needs[g, self.computed[r], i], b == none),
        )

    @step("H4", of="hit")
    def a_hit_is_the_longest(self, before: Self, r: Request, t: Tokens) -> Bool:
        """Nothing longer would have served all groups. The lookup has ended."""
        return all_of(self.seeking.value == none, implies(before.is_common(r, t), t <= self.computed[r]))

    @step("H4", unless=("seek", "hit"))
    def a_lookup_goes_on(self, before: Self) -> Bool:
        """Until all groups agree."""
        return all_of(self.seeking.value == before.seeking.value)

    @step("H4", unless=("seek", "shorten"))
    def a_candidate_stays(self, before: Self) -> Bool:
        """Only groups shorten it."""
        return self.candidate.value == before.candidate.value

    @step("H4", of="shorten")
    def a_group_only_shortens(self, before: Self, r: Request, g: Group, t: Tokens) -> Bool:
        """If it cannot use the whole candidate, that becomes shorter: the search ends."""
        could = before.is_boundary[before.candidate.value] & before.is_served(g, r, before.candidate.value)
        return all_of(
            (self.candidate.value == t) & (t <= before.candidate.value),
            implies(~could, self.candidate.value < before.candidate.value),
        )

    @step("P7, P9", of=("allocate", "drop", "leave", "hit"))
    def nobody_loses_a_block(self, before: Self, r: Request, q: Request, g: Group, i: Position) -> Bool:
        """What other requests hold they keep, and they get nothing."""
        b = before.table[g, q, i]
        is_kept = implies(b != none, ~self.free[b])
        return implies(q != r, (self.table[g, q, i] == b) & is_kept)

    @step("P2, P9", unless=("hit", "allocate", "drop", "leave"))
    def nothing_else_changes_a_table(self, before: Self, g: Group, r: Request, i: Position) -> Bool:
        """Neither lookups that go on nor loads take blocks, or give them back."""
        return self.table[g, r, i] == before.table[g, r, i]

    @step("P7, H8", of="allocate")
    def a_free_block_is_taken(
        self, before: Self, g: Group, r: Request, i: Position, b: Block, x: Group, j: Position, c: Block
    ) -> Bool:
        """It stands where it is wanted, and nowhere else, without a name; other blocks can be found as before."""
        is_here = (x == g) & (j == i)
        return all_of(
            before.free[b] & (before.table[g, r, i] == none),
            self.table[x, r, j] == ite(is_here, b, before.table[x, r, j]),
            self.hash[c] == ite(c == b, none, before.hash[c]),
        )

    @step("P5", of="register")
    def what_is_registered_can_be_found(self, before: Self, g: Group, r: Request, i: Position, b: Block) -> Bool:
        """Under the name of its place; it had none. Other blocks can be found as before."""
        is_here = before.table[g, r, i] == b
        return all_of(
            implies(is_here, (before.hash[b] == none) & (self.hash[b] == self.name[g, r, i])),
            implies(~is_here, self.hash[b] == before.hash[b]),
        )

    @step("P5, P11", unless=("allocate", "register"))
    def nothing_else_gives_or_takes_a_hash(self, before: Self, b: Block) -> Bool:
        """Above all a block that is given back can still be found."""
        return all_of(self.hash[b] == before.hash[b])

    @step("P2, P9", of="drop")
    def one_entry_is_dropped(self, before: Self, g: Group, r: Request, i: Position, x: Group, j: Position) -> Bool:
        """The one that is named; the block is free if nobody else holds it."""
        is_here = (x == g) & (j == i)
        b = before.table[g, r, i]
        is_free = implies(b != none, iff(self.free[b], ~self.is_held(b)))
        return all_of(is_free, self.table[x, r, j] == ite(is_here, none, before.table[x, r, j]))

    @step(
        "H4, O11",
        of=("shorten", "hit", "allocate", "register", "drop", "leave", "load", "report", "settle"),
    )
    def requests_go_on_by_themselves(self, before: Self, r: Request, q: Request) -> Bool:
        """Whatever happens to one, all is as it was for every other."""
        return implies(q != r, self._is_as_it_was(before, q))

    @step("H4", unless=("seek", "leave"))
    def nobody_else_comes_or_goes(self, before: Self, r: Request) -> Bool:
        """A request stays inside, or outside."""
        return iff(self.running[r], before.running[r])

    @step("H4, O11", unless=("hit", "settle", "leave"))
    def computed_tokens_count(self, before: Self, r: Request) -> Bool:
        """Until it is settled that fewer are there."""
        return self.computed[r] == before.computed[r]

    @step("H4, O11", unless=("hit", "load", "settle", "leave"))
    def promised_tokens_count(self, before: Self, r: Request) -> Bool:
        """Until what has come is settled."""
        return self.external[r] == before.external[r]

    @step("H4, O11", unless=("load", "settle", "leave"))
    def what_came_is_settled_once(self, before: Self, r: Request) -> Bool:
        """After each load."""
        return iff(self.has_loaded[r], before.has_loaded[r])

    @step("H4, H9", unless=("load", "report"))
    def only_groups_tell_what_came(self, before: Self, g: Group, r: Request) -> Bool:
        """Each for itself."""
        return self.reached[g, r] == before.reached[g, r]

    @step("H4", of="seek")
    def only_one_enters(self, before: Self, r: Request, q: Request) -> Bool:
        """And nothing is known of it yet."""
        return implies(q != r, self._is_as_it_was(before, q)) & (self.computed[r] == 0) & ~self.has_loaded[r]

    def _is_as_it_was(self, before: Self, r: Request) -> Bool:
        """The request's tokens, and what of them counts."""
        return all_of(
            iff(self.running[r], before.running[r]),
            self.computed[r] == before.computed[r],
            self.external[r] == before.external[r],
            iff(self.has_loaded[r], before.has_loaded[r]),
            forall(Group, lambda g: self.reached[g, r] == before.reached[g, r]),
        )

    @step("H4, H9", of="report")
    def what_a_group_has_is_known(self, before: Self, g: Group, r: Request, t: Tokens, x: Group) -> Bool:
        """Of that group, once a load has ended."""
        is_other = implies(x != g, self.reached[x, r] == before.reached[x, r])
        return before.has_loaded[r] & (self.reached[g, r] == t) & is_other

    @step("H4, O11", of="settle")
    def what_counts_is_there_for_all(self, before: Self, r: Request, t: Tokens, g: Group) -> Bool:
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
    def what_counts_is_the_most(self, before: Self, r: Request, u: Tokens) -> Bool:
        """No longer boundary is reached by all groups."""
        is_reached = self.is_boundary[u] & forall(Group, lambda g: u <= before.reached[g, r])
        return implies(is_reached, u <= self.computed[r] + self.external[r])

    @step("H4", of="load")
    def what_is_promised_counts(self, before: Self, r: Request, n: Int, g: Group) -> Bool:
        """Behind what is computed; until it is settled what has come. What came of an earlier load says nothing."""
        is_promised = all_of(self.external[r] == n, n > 0, before.external[r] == 0, self.has_loaded[r])
        return is_promised & (self.reached[g, r] == before.computed[r])

    @step("P9", of="leave")
    def nothing_is_left(self, before: Self, r: Request, g: Group, i: Position) -> Bool:
        """Of a request that has left: neither blocks nor tokens."""
        return before.running[r] & all_of(
            ~self.running[r], self.table[g, r, i] == none, self.computed[r] == 0, self.external[r] == 0
        )

    @step("H4", of=("shorten", "hit"))
    def only_who_seeks_is_answered(self, before: Self, r: Request) -> Bool:
        """With a candidate of its own."""
        return all_of(before.running[r], before.seeking.value == r)
