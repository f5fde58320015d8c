"""The corollaries of Groups (machine H): they follow from the invariants, and no action is asked to keep them."""

from __future__ import annotations

from ....machine import Bool, all_of, can, corollary, exists, forall, iff, none
from ...pool import Block, Position, Request
from ..planner import Group, Tokens
from .actions import GroupsActions

__all__ = ["GroupsCorollaries"]


class GroupsCorollaries(GroupsActions, abstract=True):
    """What is refused, and what is not."""

    def _nobody_seeks(self) -> Bool:
        """No lookup goes on, which nothing may interrupt (P8)."""
        return forall(Request, lambda q: self.seeking.value != q)

    @corollary("H4, P8")
    def one_lookup_at_a_time(self, r: Request) -> Bool:
        """Of a request that is not inside."""
        return iff(can(self.seek, r), self._nobody_seeks() & ~self.running[r])

    @corollary("H4")
    def a_group_answers_with_the_most_that_it_can_use(self, r: Request, g: Group, t: Tokens) -> Bool:
        """Of the candidate; it has one answer."""
        most = self.candidate.value
        is_more = exists(Tokens, lambda u: all_of(t < u, u <= most, self.is_boundary[u], self.is_served(g, r, u)))
        serves = all_of(t <= most, self.is_boundary[t], self.is_served(g, r, t))
        return iff(can(self.shorten, r, g, t), (self.seeking.value == r) & serves & ~is_more)

    @corollary("H4, P8")
    def a_lookup_ends_when_all_agree(self, r: Request) -> Bool:
        """Every group can use the whole candidate."""
        length = self.candidate.value
        agree = self.is_boundary[length] & forall(Group, lambda g: self.is_served(g, r, length))
        return iff(can(self.hit, r), (self.seeking.value == r) & agree)

    @corollary("P7, H8")
    def whoever_is_inside_gets_what_is_free(self, g: Group, r: Request, i: Position, b: Block) -> Bool:
        """Where its table has none."""
        is_open = self.running[r] & self._nobody_seeks() & (self.table[g, r, i] == none)
        return iff(can(self.allocate, g, r, i, b), self.free[b] & is_open)

    @corollary("P5")
    def what_is_held_can_be_registered(self, g: Group, r: Request, i: Position) -> Bool:
        """Once, in a block that has no name, unless another block has it."""
        is_new = exists(Block, lambda b: (self.table[g, r, i] == b) & (self.hash[b] == none))
        is_found = exists(Block, lambda b: self.cached[self.name[g, r, i]] == b)
        return iff(can(self.register, g, r, i), all_of(self._nobody_seeks(), is_new, ~is_found))

    @corollary("P9, D7")
    def what_is_held_can_be_dropped(self, g: Group, r: Request, i: Position) -> Bool:
        """Whoever else holds the block."""
        is_held = exists(Block, lambda b: self.table[g, r, i] == b)
        return iff(can(self.drop, g, r, i), is_held & self._nobody_seeks())

    @corollary("P9")
    def whoever_is_inside_can_leave(self, r: Request) -> Bool:
        """Whatever it holds."""
        return iff(can(self.leave, r), self.running[r] & self._nobody_seeks())

    @corollary("H4, O11")
    def one_load_at_a_time(self, r: Request, t: Tokens) -> Bool:
        """Of something, for who is inside and has nothing that was loaded."""
        may_load = all_of(self.running[r], self._nobody_seeks(), self.external[r] == 0)
        return iff(can(self.load, r, t + 1), may_load) & ~can(self.load, r, 0)

    @corollary("H4, H9")
    def who_has_loaded_is_told_what_came(self, g: Group, r: Request, t: Tokens) -> Bool:
        """As often as a group finds something out, until it is settled."""
        return iff(can(self.report, g, r, t), self.has_loaded[r])

    @corollary("H4, O11")
    def what_counts_is_settled_one_way(self, r: Request, t: Tokens) -> Bool:
        """The longest boundary that all groups reach."""
        is_reached = self._is_reached(r, t)
        is_more = exists(Tokens, lambda u: (t < u) & self._is_reached(r, u))
        may_settle = self._nobody_seeks() & self.has_loaded[r]
        return iff(can(self.settle, r, t), all_of(may_settle, is_reached, ~is_more))

    def _is_reached(self, r: Request, t: Tokens) -> Bool:
        """A boundary that every group has come to."""
        return self.is_boundary[t] & ~exists(Group, lambda g: self.reached[g, r] < t)
