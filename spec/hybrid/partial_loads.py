"""Loads that come piece by piece, not whole, or twice (H5, O11).

In machine `connectors` a load ends well or badly, as a whole. A store reads piece after piece, though, from several
places, and each piece is reported by itself: in any order, some as lost, some twice, some long after the load was
given up. So here any piece of any load that was ever begun can be reported at any moment, as often as one likes. It
counts exactly if it is awaited; if not, the answer is false, and nothing has changed.

A load ends when every piece was reported. What counts then is what came, up to the first piece that did not: a prefix
with a hole is no prefix, and what stands behind the hole is computed as if it had never come. Nothing at all: the load
has failed. All of it: it has ended well. A load that takes too long is given up as a whole, whatever of it has come.
"""

from __future__ import annotations

from typing import Self

from ...machine import (
    Bool,
    Int,
    Map,
    action,
    all_of,
    any_of,
    can,
    corollary,
    exists,
    forall,
    iff,
    implies,
    invariant,
    none,
    sometimes,
    step,
    when,
)
from ..hybrid.planner import Tokens
from ..pool import Hash, Request
from .connectors import Connector, Connectors, Job

__all__ = ["PartialLoads"]


class PartialLoads(Connectors):
    """Several stores of KV, whose loads come in pieces of a token each."""

    told = Map(Request, Tokens, to=Bool)
    """The piece of the request's load was reported."""

    came = Map(Request, Tokens, to=Bool)
    """And it has come."""

    # -------------------------------------------------------------------------------- words

    def _awaits(self, r: Request, j: Job, t: Tokens) -> Bool:
        """The request's load has that number, and that piece of it was not reported."""
        return all_of(self.loading[r], self.job[r] == j, t < self.external[r], ~self.told[r, t])

    def _is_heard(self, r: Request) -> Bool:
        """Every piece of the load was reported."""
        return forall(Tokens, lambda t: implies(t < self.external[r], self.told[r, t]))

    def _has_come(self, r: Request, n: Int) -> Bool:
        """So many pieces have come, from the first on."""
        return forall(Tokens, lambda t: implies(t < n, self.came[r, t]))

    # -------------------------------------------------------------------------------- actions

    @action("H5, O7")
    def hear(self, j: Job, t: Tokens, ok: Bool) -> Bool:
        """A store reports a piece of a load: there, or lost. True if somebody waited for that."""
        self.require(j < self.issued.value)
        is_awaited = exists(Request, lambda r: self._awaits(r, j, t))
        with self.each(Request) as r, when(self._awaits(r, j, t)):
            self.told[r, t] = True
            self.came[r, t] = ok
        return is_awaited

    @action("H6, O11")
    def finish_load(self, r: Request, j: Job, ok: Bool) -> None:
        """Everything has come, or nothing of which a prefix could be made."""
        self.require(self.loading[r])
        self.require(self._is_heard(r))
        self.require(iff(ok, self._has_come(r, self.external[r])))
        self.require(ok | forall(Tokens, lambda t: implies(t == 0, ~self.came[r, t])))
        super().finish_load(r, j, ok)

    @action("H5, O11")
    def finish_in_part(self, r: Request, j: Job) -> Int:
        """The first pieces have come, and some later one has not: what stands before the first hole counts."""
        self.require(self.loading[r])
        self.require(self.job[r] == j)
        self.require(self._is_heard(r))
        self.require(exists(Tokens, lambda t: (t == 0) & self.came[r, t]))
        self.require(~self._has_come(r, self.external[r]))
        with self.loop(
            self.external[r],
            going=lambda i: self.came[r, i],
            facts=lambda i, entry: {"what was walked has come": entry._has_come(r, i)},
        ) as walk:
            pass
        self.external[r] = walk.rounds
        self.arrived[r] = walk.rounds
        self._end_load(r)
        return walk.rounds

    @action("H5, O8")
    def leave(self, r: Request) -> None:
        """As before; what is reported of its load from now on is of nobody."""
        super().leave(r)
        with self.each(Tokens) as t:
            self.told[r, t] = False
            self.came[r, t] = False

    # -------------------------------------------------------------------------------- invariants

    @invariant("H5")
    def only_loads_have_pieces(self, r: Request, t: Tokens) -> Bool:
        """Of a request that has a load, or had one during this stay; what has come was reported."""
        has_load = self.loading[r] | self.over[r]
        return implies(self.told[r, t], has_load) & implies(self.came[r, t], self.told[r, t])

    @invariant("H5, O11")
    def what_counts_has_come(self, r: Request, t: Tokens) -> Bool:
        """Each piece of it, from the first on: there is no hole in a prefix."""
        return implies(t < self.arrived[r], self.came[r, t])

    @invariant("H5")
    def nothing_is_heard_of_what_was_not_asked_for(self, r: Request, t: Tokens) -> Bool:
        """A load under way has as many pieces as were wanted."""
        return implies(self.loading[r] & self.told[r, t], t < self.external[r])

    # -------------------------------------------------------------------------------- what is refused, and what is not

    @corollary("H5, O7")
    def a_piece_can_be_reported_at_any_time(self, j: Job, t: Tokens, ok: Bool) -> Bool:
        """Of any load that was begun, under way or not, and as often as one likes."""
        return iff(can(self.hear, j, t, ok), j < self.issued.value)

    @corollary("H6, O11")
    def a_load_ends_by_its_number(self, r: Request, j: Job, ok: Bool) -> Bool:
        """When all of it was reported; well if all has come, badly if its first piece has not."""
        is_own = all_of(self.loading[r], self.job[r] == j, self._is_heard(r))
        is_whole = self._has_come(r, self.external[r])
        has_first = exists(Tokens, lambda t: (t == 0) & self.came[r, t])
        is_under_way = exists(Request, lambda q: self.loading[q] & (self.job[q] == j))
        return all_of(
            implies(ok, iff(can(self.finish_load, r, j, ok), is_own & is_whole)),
            implies(~ok, iff(can(self.finish_load, r, j, ok), all_of(is_own, ~is_whole, ~has_first))),
            iff(can(self.report_late, j), (j < self.issued.value) & ~is_under_way),
        )

    @corollary("H5, O11")
    def a_load_ends_in_part_where_there_is_a_hole(self, r: Request, j: Job) -> Bool:
        """When all of it was reported; its first piece has come, and another has not."""
        is_own = all_of(self.loading[r], self.job[r] == j, self._is_heard(r))
        has_first = exists(Tokens, lambda t: (t == 0) & self.came[r, t])
        has_hole = exists(Tokens, lambda t: (t < self.external[r]) & ~self.came[r, t])
        return iff(can(self.finish_in_part, r, j), is_own & has_first & has_hole)

    @corollary("L2, H5")
    def what_was_heard_can_end(self, r: Request, j: Job) -> Bool:
        """Whole, in part, or badly: there is no fourth way."""
        is_own = all_of(self.loading[r], self.job[r] == j, self._is_heard(r))
        ends = any_of(*[can(self.finish_load, r, j, ok) for ok in (True, False)], can(self.finish_in_part, r, j))
        return implies(is_own, ends)

    # -------------------------------------------------------------------------------- steps

    @step("H5, O7", of="hear")
    def a_piece_is_heard_once(self, before: Self, j: Job, t: Tokens, ok: Bool, r: Request, result: Bool) -> Bool:
        """By who waits for it: then it has come, or it has not. Somebody did, or the answer is false."""
        is_awaited = before._awaits(r, j, t)
        return all_of(
            implies(is_awaited, result & self.told[r, t] & iff(self.came[r, t], ok)),
            implies(~exists(Request, lambda q: before._awaits(q, j, t)), ~result),
        )

    @step("H5, O7", of="hear")
    def what_comes_twice_changes_nothing(self, before: Self, j: Job, t: Tokens, r: Request, u: Tokens) -> Bool:
        """Nor what comes too late, or for somebody else; and no report is of more than its piece."""
        is_heard = before._awaits(r, j, t) & (u == t)
        return implies(~is_heard, self._has_its_pieces(before, r, u))

    @step("H5", unless=("hear", "leave"))
    def pieces_come_by_reports(self, before: Self, r: Request, t: Tokens) -> Bool:
        """And stay, while the request is inside."""
        return self._has_its_pieces(before, r, t)

    @step("H5, O8", of="leave")
    def nothing_is_left_of_a_load(self, before: Self, r: Request, q: Request, t: Tokens) -> Bool:
        """Of a request that has left; others go on."""
        return ~self.told[r, t] & ~self.came[r, t] & implies(q != r, self._has_its_pieces(before, q, t))

    def _has_its_pieces(self, before: Self, r: Request, t: Tokens) -> Bool:
        return iff(self.told[r, t], before.told[r, t]) & iff(self.came[r, t], before.came[r, t])

    @step("H5, O11", of=("finish_load", "finish_in_part"))
    def all_that_came_counts(self, before: Self, r: Request, t: Tokens) -> Bool:
        """Up to the first piece that did not; and that was reported as lost, not merely late."""
        return all_of(
            before.loading[r] & before._is_heard(r),
            iff(t < self.arrived[r], (t < before.external[r]) & before._has_come(r, t) & before.came[r, t]),
        )

    @step("H5, O11", of="finish_in_part")
    def a_load_that_came_in_part_is_over(self, before: Self, r: Request, j: Job, result: Int) -> Bool:
        """As one that came whole, with fewer tokens; the request computes the rest, and is told how much there is."""
        is_over = all_of(before.job[r] == j, ~self.loading[r], self.over[r], self.chosen[r] == none)
        is_part = (result > 0) & (result < before.external[r])
        return all_of(is_over, is_part, self.external[r] == result, self.arrived[r] == result)

    # -------------------------------------------------------------------------------- what is said of loads that end

    @step("H5, H6", of=("finish_load", "finish_in_part", "expire", "leave"))
    def what_is_let_go_was_prepared(self, before: Self, r: Request, c: Connector, h: Hash) -> Bool:
        """As of connectors."""
        return super().what_is_let_go_was_prepared(before, r, c, h)

    @step("H6", unless=("begin_load", "finish_load", "finish_in_part", "expire", "leave"))
    def pins_come_and_go_with_loads(self, before: Self, c: Connector, h: Hash) -> Bool:
        """As of connectors."""
        return super().pins_come_and_go_with_loads(before, c, h)

    @step(
        "H5",
        of=(
            *("wait", "miss", "choose", "look_again", "decline"),
            *("begin_load", "finish_load", "finish_in_part", "expire", "leave"),
        ),
    )
    def only_who_acts_goes_on(self, before: Self, r: Request, q: Request) -> Bool:
        """As of connectors."""
        return super().only_who_acts_goes_on(before, r, q)

    @step("H5, H6", unless=("decline", "finish_load", "finish_in_part", "expire", "leave"))
    def a_stay_may_have_a_load(self, before: Self, r: Request) -> Bool:
        """As of connectors."""
        return super().a_stay_may_have_a_load(before, r)

    @step("H5", of=("resolve", "store", "report_late", "hear"))
    def requests_wait_meanwhile(self, before: Self, q: Request) -> Bool:
        """As of connectors; a piece that comes ends no load by itself."""
        return super().requests_wait_meanwhile(before, q)

    # -------------------------------------------------------------------------------- what must be reachable

    @sometimes("H5, O11")
    def something_stands_behind_a_hole(self, r: Request, t: Tokens, u: Tokens) -> Bool:
        """It has come, and will not count."""
        is_hole = self.told[r, t] & ~self.came[r, t]
        return all_of(self.loading[r], t > 0, t < u, is_hole, self.came[r, u], self._is_heard(r))

    @sometimes("H5, O7")
    def a_piece_of_a_load_that_is_over_may_come(self, r: Request, j: Job, t: Tokens) -> Bool:
        """While the same request waits for that of another."""
        return self._awaits(r, j, t) & (j > 0)
