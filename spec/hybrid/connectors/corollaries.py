"""The corollaries of Connectors (machine H): they follow from the invariants, and no action is asked to keep them."""

from __future__ import annotations

from ....machine import Bool, all_of, any_of, can, corollary, exists, forall, iff, none
from ...pool import Hash, Request
from ...timed.links import Moment
from ..planner import Tokens
from .actions import ConnectorsActions
from .state import Connector, Job

__all__ = ["ConnectorsCorollaries"]


class ConnectorsCorollaries(ConnectorsActions, abstract=True):
    """What is refused, and what is not."""

    @corollary("H5, O5")
    def each_store_answers_once(self, c: Connector, r: Request, n: Tokens) -> Bool:
        """A request that has no load, and had none during its stay."""
        is_asked = (c < self.count.value) & ~self.resolved[c, r]
        return iff(can(self.resolve, c, r, n), is_asked & self.may_look_up(r))

    @corollary("H5")
    def storing_is_never_refused(self, h: Hash) -> Bool:
        """Whatever is kept already."""
        return can(self.store, h)

    def _lacks_answers(self, r: Request) -> Bool:
        """Where the most worth wins, all answers; where the first wins, one."""
        anybody = exists(Connector, lambda c: self.has_answered(c, r))
        everybody = forall(Connector, lambda c: (self.count.value <= c) | self.has_answered(c, r))
        return any_of(self.weighted.value & ~anybody, ~self.weighted.value & ~everybody)

    @corollary("H5")
    def a_lookup_waits_for_want_of_answers_only(self, r: Request) -> Bool:
        """It misses where there are enough, and all of them are nothing."""
        may, lacks = self.may_look_up(r), self._lacks_answers(r)
        has_something = exists(Connector, lambda c: self.has_answered(c, r) & (self.answer[c, r] > 0))
        return all_of(
            iff(can(self.wait, r), may & lacks),
            iff(can(self.miss, r), all_of(may, ~lacks, ~has_something)),
        )

    @corollary("H5, O5")
    def one_store_can_be_chosen(self, r: Request, c: Connector) -> Bool:
        """The one whose answer is worth most, of equals the first; or the first that has something."""
        is_beaten = exists(Connector, lambda d: self.offers(d, r) & self._beats(d, c, r))
        may_choose = self.may_look_up(r) & ~self._lacks_answers(r)
        return iff(can(self.choose, r, c), all_of(may_choose, self.offers(c, r), ~is_beaten))

    def _beats(self, d: Connector, c: Connector, r: Request) -> Bool:
        """Of two stores that have something, the first named would be chosen."""
        worth, other = self.answer[d, r] * self.weight[d], self.answer[c, r] * self.weight[c]
        return any_of(
            self.weighted.value & (worth > other),
            (d < c) & (~self.weighted.value | (worth == other)),
        )

    @corollary("H5, O5")
    def what_is_promised_can_be_given_up(self, r: Request) -> Bool:
        """For another lookup, or for good; until its load begins."""
        waits = (self.chosen[r] != none) & ~self.loading[r]
        return iff(can(self.look_again, r), waits) & iff(can(self.decline, r), waits)

    @corollary("H5, H6")
    def what_is_promised_can_be_loaded(self, r: Request, n: Tokens, j: Job, m: Moment) -> Bool:
        """Some of it, once, with the next number; and not in the past."""
        is_some = (n > 0) & (n <= self.promised[r])
        is_next = (j == self.issued.value) & (self.now.value <= self.time[m])
        return iff(can(self.begin_load, r, n, j, m), is_some & is_next)

    @corollary("H6, O11")
    def a_load_ends_by_its_number(self, r: Request, j: Job, ok: Bool) -> Bool:
        """Well or badly; any other report of a number that was given is late, and can come at any time."""
        is_own = self.loading[r] & (self.job[r] == j)
        is_under_way = exists(Request, lambda q: self.loading[q] & (self.job[q] == j))
        return all_of(
            iff(can(self.finish_load, r, j, ok), is_own),
            iff(can(self.report_late, j), (j < self.issued.value) & ~is_under_way),
        )

    @corollary("H6, O11")
    def a_load_that_takes_too_long_can_be_given_up(self, r: Request, m: Moment) -> Bool:
        """From its deadline on, and not before; nothing else has to happen first (S18)."""
        is_late = (self.time[m] >= self.deadline[r]) & (self.time[m] >= self.now.value)
        return iff(can(self.expire, r, m), self.loading[r] & is_late)

    @corollary("H5, O8")
    def whoever_is_inside_can_leave(self, r: Request) -> Bool:
        """Whatever is under way for it."""
        return iff(can(self.leave, r), self.inside[r])
