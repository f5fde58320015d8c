"""Machine P where steps under way read tables: nothing is given back that one of them still reads (D7).

What is known of such a step, and when it ends, is said by the machines that extend this one: Deferred keeps what each
saw, Pinned from which position on it reads.
"""

from __future__ import annotations

from ...machine import Bool, Int, all_of, can, corollary, iff
from ..pool import Pool, Position, Request

__all__ = ["ReadTables"]


class ReadTables(Pool, abstract=True):
    """Who gives blocks back waits until no step reads its table."""

    def _is_at_rest(self, r: Request) -> Bool:
        """No step under way reads the request's table."""
        raise NotImplementedError

    # -------------------------------------------------------------------------------- actions

    def trim(self, r: Request, n: Int) -> None:
        """Give back the last n entries of a table, when no step reads it."""
        self.require(self._is_at_rest(r))
        super().trim(r, n)

    def finish(self, r: Request) -> None:
        """A complete request leaves, when no step reads its table."""
        self.require(self._is_at_rest(r))
        super().finish(r)

    def preempt(self, r: Request) -> None:
        """A request gives up all its blocks, when no step reads its table."""
        self.require(self._is_at_rest(r))
        super().preempt(r)

    # -------------------------------------------------------------------------------- what is refused, and what is not

    @corollary("P9, D7")
    def what_is_held_can_be_given_back(self, r: Request, k: Position) -> Bool:
        """As in P, when no step reads the table."""
        is_there = all_of(self.running[r], k < self.length[r], self._is_at_rest(r))
        return iff(can(self.trim, r, k + 1), is_there) & ~can(self.trim, r, 0)

    @corollary("P9, L1, D7")
    def who_has_all_it_needs_can_finish(self, r: Request) -> Bool:
        """As in P, when no step reads the table."""
        return iff(can(self.finish, r), all_of(self.running[r], self.length[r] == self.need[r], self._is_at_rest(r)))

    @corollary("L1, D7")
    def who_is_inside_can_be_preempted(self, r: Request) -> Bool:
        """As in P, when no step reads the table."""
        return iff(can(self.preempt, r), self.running[r] & self._is_at_rest(r))
