"""The state and the actions of Deferred (machine P with steps under way), and the facts of its loops."""

from __future__ import annotations

from typing import Self

from ....machine import (
    Bool,
    Count,
    Index,
    Int,
    Map,
    Queue,
    Scalar,
    Sort,
    action,
    forall,
    implies,
    ite,
    none,
    optional,
    when,
)
from ...pool import Block, Content, Hash, Position, Request, Slot
from ..read_tables import ReadTables

__all__ = ["DeferredActions", "Pass"]


class Pass(Sort):
    """A scheduled step, for one of its requests."""


class DeferredActions(ReadTables, abstract=True):
    """Steps are scheduled and processed; requests leave while they are under way."""

    under_way = Queue(Pass)
    """The steps that are scheduled and not processed, in the order in which they will be."""

    reader = Map(Pass, to=optional(Request))
    """The request for which a step under way was scheduled; none once that has left."""

    sees = Map(Pass, Position, to=optional(Block))
    """Ghost: the request's table when the step was scheduled, which the step reads and writes."""

    keeper = Map(Pass, to=optional(Pass))
    """Of a step whose request has left: the step that holds what it left behind."""

    left = Map(Pass, Position, to=optional(Block))
    """What a step holds of what its request left behind."""

    left_length = Map(Pass, to=Int)
    """How many positions that has."""

    leaving = Scalar(to=optional(Request), scratch=True)
    """While a request leaves: who it is."""

    waits = Count((Pass, Position), by=Block, where=lambda m, p, i, b: m.left[p, i] == b)
    """The holds of steps on a block."""

    def _is_at_rest(self, r: Request) -> Bool:
        """No step under way reads the request's table."""
        return forall(Pass, lambda p: self.reader[p] != r)

    # -------------------------------------------------------------------------------- actions

    @action("D7")
    def schedule(self, p: Pass, r: Request) -> None:
        """A step is scheduled for a request. It will read the table as it is now."""
        self.require(self.running[r])
        self.require(self.length[r] > 0)
        self.require(~self.under_way.has(p))
        self.under_way.push_back(p)
        self.reader[p] = r
        with self.each(Position) as i:
            self.sees[p, i] = self.table[r, i]

    @action("P2, P9, D7")
    def leave(self, r: Request, p: Pass) -> None:
        """A request finishes, is preempted or aborted, of whose steps under way ``p`` is the last.

        It is gone at once. What it held is held by that step.
        """
        self.require(self.running[r])
        self.require(self.reader[p] == r)
        self.require(self._is_last_of(r, p))
        self.leaving.value = r
        with self.each(Pass) as q, when(self.reader[q] == r):
            self.reader[q] = none
            self.keeper[q] = p
        self.left_length[p] = self.length[r]
        with self.loop(self.length[r], facts=lambda i, entry: self._while_leaving(entry, r, p, i)):
            last = self.length[r] - 1
            b = self.table[r, last]
            self.length[r] = last
            self.table[r, last] = none
            self.filed[r, last] = none
            with self.each(Slot) as s:
                self.expects[r, last, s] = none
            with when(b != self.null.value):
                self.left[p, last] = b
                self.transfers[b] = self.transfers[b] + 1
        self.leaving.value = none
        self.running[r] = False

    def _is_last_of(self, r: Request, p: Pass) -> Bool:
        """All other steps under way that read the request's table come first."""
        return forall(Pass, lambda q: implies((self.reader[q] == r) & (q != p), self.under_way.before(q, p)))

    @action("P6, D7")
    def write_late(self, p: Pass, i: Position, s: Slot, c: Content) -> None:
        """A step computes one token's KV for a request that is gone, in a block where nobody relies on the slot."""
        self.require(self.keeper[p] != none)
        b = self.sees[p, i]
        self.require(b != none)
        self.require(b != self.null.value)
        self.require(self._is_own(b))
        self.require(forall(Hash, lambda h: implies(self.hashes[b, h], self.kv[h, s] == none)))
        self.content[b, s] = c

    def _is_own(self, b: Block) -> Bool:
        """Nobody but the step holds the block."""
        return self.ref_cnt[b] == 1

    @action("P9, P10, D7")
    def process(self, p: Pass) -> None:
        """The step that was scheduled first is done, and gives back what it holds, in one free call, last first."""
        self.require(self.under_way.is_first(p))
        self._end(p)

    def _end(self, p: Pass) -> None:
        """A step reads no more, and holds nothing."""
        with self.each(Position) as i:
            self.sees[p, i] = none
        self._begin_free_call()
        with self.loop(self.left_length[p], facts=lambda i, entry: self._while_processing(entry, p, i)):
            last = self.left_length[p] - 1
            b = self.left[p, last]
            self.left_length[p] = last
            self.left[p, last] = none
            with when(b != none):
                self._let_go(b)
        self._end_free_call()
        self.under_way.remove(p)
        self.reader[p] = none
        self.keeper[p] = none

    def _let_go(self, b: Block) -> None:
        """A step holds a block no longer."""
        self.transfers[b] = self.transfers[b] - 1
        self._release(b)

    # -------------------------------------------------------------------------------- what is known in the midst of it

    def _while_leaving(self, entry: Self, r: Request, p: Pass, i: Index | Int) -> dict[str, Bool]:
        """While a table is handed over: it has shrunk by so many, and these are the step's."""
        return {
            "the table shrinks by one each round": self.length[r] == entry.length[r] - i,
            "what is left of it stands as it did": forall(
                Position, Slot, lambda k, s: implies(k < self.length[r], self._stands_as_before(entry, r, k, s))
            ),
            "the rest is the step's": forall(
                Position,
                lambda k: self.left[p, k] == ite(k < self.length[r], none, self._worth_holding(entry, r, k)),
            ),
        }

    def _worth_holding(self, entry: Self, r: Request, k: Position) -> Block:
        """A table's entry, unless it is the null block."""
        b: Block = ite(entry.table[r, k] == self.null.value, none, entry.table[r, k])
        return b

    def _while_processing(self, entry: Self, p: Pass, i: Index | Int) -> dict[str, Bool]:
        """While a step gives back what it holds: so many positions, last first."""
        return {
            "one position less each round": self.left_length[p] == entry.left_length[p] - i,
            "what is not given back is held": forall(
                Position,
                lambda k: self.left[p, k] == ite(k < self.left_length[p], entry.left[p, k], none),
            ),
            **self._runs_so_far(entry),
            **self._placed_in_order(entry, lambda k: entry.left[p, k]),
        }
