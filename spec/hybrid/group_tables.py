"""Hybrid groups over a real pool: each table of each group draws on the same blocks (H8, P13).

A request of a hybrid model has a table for each group of layers, and all tables of all requests share one pool. To
machine P a table is a table: what P calls a request is here one table, of one group, of a *sequence*. So what P proves
for any number of tables holds across groups, word for word: counts of holders (P2), the free queue and its order (P3,
P7, P10), several blocks with one hash (P5), lookups that hold what they find (P8).

What P does not know is which tables belong together, and it need not keep them apart: a hash is of one group, since the
key has the group's tag. This alone does it. No block stands in tables of two groups, so none stands twice in what one
sequence holds; and no lookup finds what another group has stored.

That all tables of a sequence grow in one call, or none does, is not said here: each table's call is all or nothing.
"""

from __future__ import annotations

from typing import Self

from ...machine import Bool, Param, Sort, all_of, assume, exists, implies, invariant, sometimes, step
from ..hybrid.planner import Group
from ..pool import Block, Hash, Pool, Position, Request

__all__ = ["GroupTables", "Sequence"]


class Sequence(Sort):
    """What users call a request: it has a table for each group."""


class GroupTables(Pool):
    """The block pool of a hybrid model."""

    # -------------------------------------------------------------------------------- parameters

    group = Param(Request, to=Group)
    """Whose layers a table is for."""

    sequence = Param(Request, to=Sequence)
    """What it belongs to."""

    tag = Param(Hash, to=Group)
    """The group that is part of a key."""

    @assume("P13, H8")
    def a_table_asks_for_keys_of_its_group(self, r: Request, i: Position) -> Bool:
        """Also where two groups cover the same tokens."""
        return self.tag[self.prompt[r, i]] == self.group[r]

    @assume("H8")
    def a_sequence_has_one_table_for_each_group(self, r: Request, q: Request) -> Bool:
        """Different tables of one sequence are of different groups."""
        return implies((r != q) & (self.sequence[r] == self.sequence[q]), self.group[r] != self.group[q])

    # -------------------------------------------------------------------------------- actions

    def register(self, r: Request, i: Position, h: Hash) -> None:
        """As in P; under a key of the table's group."""
        self.require(self._is_of_group(r, h))
        super().register(r, i, h)

    def _is_of_group(self, r: Request, h: Hash) -> Bool:
        """The key has the tag of the table's group."""
        return self.tag[h] == self.group[r]

    def _is_namable(self, r: Request, i: Position, h: Hash) -> Bool:
        """As in P, and only by such a key."""
        return (self.tag[h] == self.group[r]) & super()._is_namable(r, i, h)

    # -------------------------------------------------------------------------------- invariants

    @invariant("P5, P13")
    def a_block_carries_keys_of_one_group(self, b: Block, g: Hash, h: Hash) -> Bool:
        """However many it carries."""
        return implies(self.hashes[b, g] & self.hashes[b, h], self.tag[g] == self.tag[h])

    @invariant("P5, P13, H8")
    def a_table_holds_blocks_of_its_group(self, r: Request, i: Position, b: Block, h: Hash) -> Bool:
        """What can be found in them can be found for this group only."""
        return implies((self.table[r, i] == b) & self.hashes[b, h], self.tag[h] == self.group[r])

    @invariant("P2, H8")
    def no_block_is_in_two_groups(self, b: Block, r: Request, i: Position, q: Request, j: Position) -> Bool:
        """Whoever shares a block shares it within a group; the null block is nobody's."""
        is_shared = (self.table[r, i] == b) & (self.table[q, j] == b) & (b != self.null.value)
        return implies(is_shared, self.group[r] == self.group[q])

    # -------------------------------------------------------------------------------- steps

    @step("P8, H8", of="hit")
    def a_lookup_finds_what_its_group_has_stored(
        self, before: Self, r: Request, i: Position, b: Block, h: Hash
    ) -> Bool:
        """And nothing of another group, whatever the tokens."""
        is_found = all_of(i < self.length[r], self.table[r, i] == b, before.hashes[b, h])
        return implies(is_found, self.tag[h] == self.group[r])

    # -------------------------------------------------------------------------------- what must be reachable

    @sometimes("H8")
    def one_sequence_holds_blocks_in_two_groups(self, r: Request, q: Request, i: Position, j: Position) -> Bool:
        """Both of which can be found."""
        is_one = (r != q) & (self.sequence[r] == self.sequence[q])
        return all_of(is_one, self._can_be_found(r, i), self._can_be_found(q, j))

    def _can_be_found(self, r: Request, i: Position) -> Bool:
        """There is a block, and it carries a hash."""
        return exists(Block, Hash, lambda b, h: (self.table[r, i] == b) & self.hashes[b, h])
