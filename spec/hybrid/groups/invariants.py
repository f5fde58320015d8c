"""The invariants of Groups (machine H), and what must be reachable."""

from __future__ import annotations

from ....machine import Bool, all_of, implies, invariant, none, sometimes
from ...hybrid.planner import Group, Tokens
from ...pool import Block, Hash, Position, Request
from .actions import GroupsActions

__all__ = ["GroupsInvariants"]


class GroupsInvariants(GroupsActions, abstract=True):
    """What always holds of tables and blocks."""

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
