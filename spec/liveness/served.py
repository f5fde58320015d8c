"""Machine P with a line: whoever comes is served some day (L1).

The pool says what is possible, and not who is served. A scheduler serves requests in the order in which they came, and
takes blocks away from later ones for the sake of earlier ones. So much of it is written down here, as what the promise
assumes; the steps themselves are the pool's, and what is kept beside them decides nothing.

Three things are assumed of the scheduler. It does not put off for ever to serve who came first: to admit it, to give it
the next block, to preempt another that holds blocks while there is none for it, to let it go. A request is preempted
only where an earlier one wants a block and there is none. Who came later leaves one block where an earlier one wants
one: in a scheduler that goes through its requests in order, the earlier one would have taken it first. And of the
positions of a table, a rejection takes back drafts only: not the first of what an allocation gave, nor what was found
or left behind by a window.

That is enough for every request that enters to leave, however many come after it, how often so ever they are preempted
and come back. Each of the three is needed: `tests/explore/test_served.py` drops them, one at a time.
"""

from __future__ import annotations

from typing import Self

from ...machine import (
    Bool,
    Index,
    Int,
    Map,
    Promise,
    Queue,
    action,
    all_of,
    corollary,
    eventually,
    exists,
    forall,
    iff,
    implies,
    invariant,
    ite,
    promise,
    step,
    steps,
    such_as,
    when,
)
from ..pool import Block, Pool, Request

__all__ = ["Served"]


class Served(Pool):
    """The block pool, and the line of those that wait to be served."""

    line = Queue(Request)
    """Whoever has entered and not finished, in the order of arrival; preempted ones keep their place."""

    ahead = Map(Request, to=Int)
    """How many stand before a request in the line."""

    sure = Map(Request, to=Int)
    """How many positions of a request's table are no drafts."""

    # -------------------------------------------------------------------------------- actions

    @action("P15, L1")
    def admit(self, r: Request) -> None:
        """Who enters for the first time joins the line."""
        is_new = ~self.line.has(r)
        super().admit(r)
        with when(is_new):
            self.ahead[r] = self.line.size
            self.line.push_back(r)

    @action("P8, P14")
    def hit(self, r: Request) -> Int:
        """What is found is no draft."""
        found = super().hit(r)
        self.sure[r] = self.length[r]
        return found

    @action("P7")
    def allocate(self, r: Request, n: Int) -> None:
        """The first of the new positions is no draft: a step computes one token at least that stays."""
        first = self.length[r]
        super().allocate(r, n)
        self.sure[r] = first + 1

    @action("P4")
    def skip(self, r: Request) -> None:
        """What a window has left behind stays so."""
        super().skip(r)
        self.sure[r] = self.length[r]

    @action("P9, P10, L1")
    def finish(self, r: Request) -> None:
        """It leaves the line. Who is preempted keeps its place there."""
        super().finish(r)
        with self.each(Request) as q, when(self.line.before(r, q)):
            self.ahead[q] = self.ahead[q] - 1
        self.ahead[r] = 0
        self.line.remove(r)

    def _give_back(self, r: Request, n: Int) -> None:
        """What is taken back is not sure any more."""
        left = self.length[r] - n
        with when(left < self.sure[r]):
            self.sure[r] = left
        super()._give_back(r, n)

    # -------------------------------------------------------------------------------- what is known in the midst of it

    def _while_looking_up(self, entry: Self, r: Request, i: Index | Int) -> dict[str, Bool]:
        """A lookup takes no more free blocks than it finds, and none of others."""
        return {
            **super()._while_looking_up(entry, r, i),
            "no more is taken than found": (self._room() <= entry._room()) & (self._room() >= entry._room() - i),
            "others keep what they hold": self.others[r] == entry.others[r],
        }

    def _freed_so_far(self, entry: Self, r: Request) -> dict[str, Bool]:
        """What is given back is missing from what others see held, and takes no room."""
        given = entry.held[r] - self.held[r]
        return {
            **super()._freed_so_far(entry, r),
            "no room is lost": self._room() >= entry._room(),
            "one holds less": forall(Request, lambda q: (q == r) | (self.others[q] == entry.others[q] - given)),
            "not more than it did": given >= 0,
        }

    # -------------------------------------------------------------------------------- invariants

    @invariant("L1")
    def who_runs_stands_in_line(self, r: Request) -> Bool:
        """And fits the empty pool: it was let in by that."""
        return all_of(
            implies(self.running[r], self.line.has(r)),
            implies(self.line.has(r), self.need[r] <= self.usable.value),
        )

    @invariant("L1")
    def places_are_counted(self, r: Request, q: Request) -> Bool:
        """Who stands before another has fewer before it; nobody has more than there are, and who left has none."""
        return all_of(
            implies(self.line.has(r), (self.ahead[r] >= 0) & (self.ahead[r] < self.line.size)),
            implies(~self.line.has(r), self.ahead[r] == 0),
            implies(self.line.has(r) & self.line.has(q) & self.line.before(r, q), self.ahead[r] < self.ahead[q]),
        )

    @invariant("L1")
    def what_is_sure_is_there(self, r: Request) -> Bool:
        """No more is sure than the table holds."""
        return (self.sure[r] >= 0) & (self.sure[r] <= self.length[r])

    @invariant("L1")
    def no_copy_holds_a_block(self, b: Block) -> Bool:
        """There are none here."""
        return self.transfers[b] == 0

    # -------------------------------------------------------------------------------- steps

    @step("L1", of="admit")
    def who_comes_stands_last(self, before: Self, r: Request, q: Request) -> Bool:
        """Where it was not in the line already: a preempted request has kept its place."""
        return all_of(
            iff(self.line.has(q), before.line.has(q) | (q == r)),
            implies(~before.line.has(r) & (q != r) & self.line.has(q), self.line.before(q, r)),
        )

    @step("L1", of="finish")
    def who_is_complete_leaves_the_line(self, before: Self, r: Request, q: Request) -> Bool:
        """And nobody else does."""
        return iff(self.line.has(q), before.line.has(q) & (q != r))

    @step("L1", unless=("admit", "finish"))
    def nobody_else_comes_to_the_line(self, before: Self, r: Request) -> Bool:
        """Or leaves it: above all a request keeps its place when it is preempted."""
        return iff(self.line.has(r), before.line.has(r))

    @step("L1")
    def nobody_is_overtaken(self, before: Self, r: Request, q: Request) -> Bool:
        """Of two that stand in the line, the same one stands first."""
        stay = all_of(before.line.has(r), before.line.has(q), self.line.has(r), self.line.has(q))
        return implies(stay, iff(self.line.before(r, q), before.line.before(r, q)))

    @step("L1", of=("hit", "skip"))
    def what_is_no_draft_is_sure(self, before: Self, r: Request) -> Bool:  # noqa: ARG002
        """Neither what was found, nor what a window has left behind, with all that stands before it."""
        return self.sure[r] == self.length[r]

    @step("L1", of="allocate")
    def one_position_more_is_sure(self, before: Self, r: Request) -> Bool:
        """All that the table held, and the first of what is taken; the others are drafts."""
        return self.sure[r] == before.length[r] + 1

    @step("L1", of="trim")
    def drafts_are_taken_back_first(self, before: Self, r: Request) -> Bool:
        """As long as some are left, all that was sure stays sure."""
        left = self.length[r]
        return self.sure[r] == ite(left < before.sure[r], left, before.sure[r])

    @step("L1", of=("hit", "allocate", "skip", "trim", "finish", "preempt"))
    def others_keep_their_drafts(self, before: Self, r: Request, q: Request) -> Bool:
        """What is sure of one request has nothing to do with another."""
        return implies(q != r, self.sure[q] == before.sure[q])

    @step("L1", unless=("hit", "allocate", "skip", "trim", "finish", "preempt"))
    def nothing_else_is_sure(self, before: Self, r: Request) -> Bool:
        """Nor less."""
        return self.sure[r] == before.sure[r]

    @corollary("L1")
    def nobody_stands_before_the_first(self, r: Request, q: Request) -> Bool:
        """Whoever else holds blocks came later."""
        return implies(self.line.is_first(r) & (q != r) & self.running[q], self.line.before(r, q))

    @corollary("L1")
    def somebody_is_in_the_way(self, r: Request) -> Bool:
        """While a request waits for a block, another holds some."""
        waits = self._wants(r) & (self._room() <= 0)
        return implies(waits, exists(Request, lambda q: (q != r) & (self.held[q] > 0) & self.running[q]))

    # -------------------------------------------------------------------------------- the promise

    @eventually("L1")
    def every_request_ends(self, r: Request) -> Promise:
        """Whoever has entered leaves, complete.

        The measure: how many came before it; then, of the first in the line: whether it has still to be admitted; how
        many positions it lacks; how many of its positions are drafts; and while it waits for a block, how many others
        hold.
        """
        oldest = self.line.head()
        waits = self._wants(oldest) & (self._room() <= 0)
        return promise(
            goal=~self.line.has(r),
            fair=[
                steps(self.admit, oldest),
                steps(self.allocate, oldest, such_as(1)),
                steps(self.preempt, Request, where=lambda q: all_of(waits, q != oldest, self.held[q] > 0)),
                steps(self.finish, oldest),
            ],
            only=[
                steps(self.hit, Request, where=lambda q: self._leaves_one(q, self.limit[q])),
                steps(self.allocate, Request, such_as(1), where=lambda q, n: self._leaves_one(q, n)),
                steps(self.preempt, Request, where=lambda q: self._is_in_the_way(q)),
                steps(self.trim, Request, such_as(1), where=lambda q, n: n <= self.length[q] - self.sure[q]),
            ],
            measure=[
                self.ahead[r],
                ~self.running[oldest],
                self.need[oldest] - self.sure[oldest],
                self.length[oldest] - self.sure[oldest],
                waits,
                ite(waits, self.others[oldest], 0),
            ],
        )

    def _wants(self, r: Request) -> Bool:
        """It runs, and needs another block."""
        return self.running[r] & (self.length[r] < self.need[r])

    def _leaves_one(self, r: Request, n: Int) -> Bool:
        """With so many blocks taken by a request, one is left where somebody who came earlier wants one."""
        return implies(exists(Request, lambda q: self.line.before(q, r) & self._wants(q)), n < self._room())

    def _is_in_the_way(self, r: Request) -> Bool:
        """Somebody who came earlier wants a block, and there is none."""
        return (self._room() <= 0) & exists(Request, lambda q: self.line.before(q, r) & self._wants(q))
