"""The properties of steps of Groups (machine H): what each action must do, and what it must not touch."""

from __future__ import annotations

from typing import Self

from ....machine import Bool, Int, all_of, forall, iff, implies, none, step
from ...hybrid.planner import Group, Tokens
from ...pool import Position, Request
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
        """Nothing longer would have served all groups."""
        return implies(before.is_common(r, t), t <= self.computed[r])

    @step("H4", of="shorten")
    def a_group_only_shortens(self, before: Self, r: Request, g: Group) -> Bool:
        """If it cannot use the whole candidate, that becomes shorter: the search ends."""
        could = before.is_boundary[before.candidate.value] & before.is_served(g, r, before.candidate.value)
        return all_of(
            self.candidate.value <= before.candidate.value,
            implies(~could, self.candidate.value < before.candidate.value),
        )

    @step("P7, P9", of=("allocate", "drop", "leave", "hit"))
    def nobody_loses_a_block(self, before: Self, r: Request, q: Request, g: Group, i: Position) -> Bool:
        """What other requests hold they keep."""
        b = before.table[g, q, i]
        return implies((q != r) & (b != none), (self.table[g, q, i] == b) & ~self.free[b])

    @step("H4, O11", unless="seek")
    def requests_go_on_by_themselves(self, before: Self, r: Request, q: Request) -> Bool:
        """Where something changes for one, all is as it was for every other."""
        return implies((r != q) & ~self._is_as_it_was(before, r), self._is_as_it_was(before, q))

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
    def what_is_promised_counts(self, before: Self, r: Request, n: Int) -> Bool:
        """Behind what is computed; until it is settled what has come."""
        return all_of(self.external[r] == n, n > 0, before.external[r] == 0, self.has_loaded[r])

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
