"""The properties of steps of Connectors (machine H): what each action must do, and what it must not touch."""

from __future__ import annotations

from typing import Self

from ....machine import Bool, Int, all_of, exists, forall, iff, implies, ite, none, step
from ...hybrid.planner import Tokens
from ...pool import Hash, Request
from ...timed.links import Moment
from .actions import ConnectorsActions
from .state import Connector, Job

__all__ = ["ConnectorsSteps"]


class ConnectorsSteps(ConnectorsActions, abstract=True):
    """What each action is for, and what it leaves alone."""

    @step("H5, O5", of="resolve")
    def an_answer_is_kept_until_it_is_used(
        self, before: Self, c: Connector, r: Request, n: Tokens, d: Connector, q: Request
    ) -> Bool:
        """A store answers a lookup once; if it has something it keeps that. Every other answer is what it was."""
        is_asked = (c < self.count.value) & ~before.resolved[c, r]
        is_known = (d != c) | (q != r)
        is_same = iff(self.resolved[d, q], before.resolved[d, q]) & (self.answer[d, q] == before.answer[d, q])
        return all_of(
            all_of(is_asked, before.may_look_up(r), implies(is_known, is_same)),
            all_of(self.resolved[c, r], self.answer[c, r] == n, iff(self.holds[c, r], n > 0)),
        )

    @step("H5", unless="resolve")
    def nobody_answers_unasked(self, before: Self, c: Connector, r: Request) -> Bool:
        """Only a store changes what it has for a request."""
        return (self.answer[c, r] == before.answer[c, r]) & implies(self.resolved[c, r], before.resolved[c, r])

    @step("H5", of=("miss", "choose", "look_again", "decline", "begin_load", "leave"))
    def others_have_their_answers(self, before: Self, r: Request, q: Request, c: Connector) -> Bool:
        """What is used up is of the request that is answered, and of no other."""
        return implies((q != r) & before.resolved[c, q], self.resolved[c, q])

    @step("H5", unless=("miss", "choose", "look_again", "decline", "begin_load", "leave"))
    def answers_are_used_by_lookups(self, before: Self, c: Connector, r: Request) -> Bool:
        """What a store knows and keeps stays, until a lookup is answered, or what was promised is loaded or not."""
        is_kept = self.resolved[c, r] & (self.answer[c, r] == before.answer[c, r])
        return implies(before.resolved[c, r], is_kept) & implies(before.holds[c, r], self.holds[c, r])

    @step("H5", of=("wait", "miss", "choose"))
    def who_has_a_load_does_not_look_up(self, before: Self, r: Request) -> Bool:
        """Nor who had one during this stay."""
        return before.may_look_up(r)

    @step("H5", unless=("resolve", "store", "report_late"))
    def requests_go_on_by_themselves(self, before: Self, r: Request, q: Request) -> Bool:
        """Where something changes for one, all is as it was for every other."""
        return implies((r != q) & ~self._is_as_it_was(before, r), self._is_as_it_was(before, q))

    @step(
        "H5",
        of=(
            *("wait", "miss", "choose", "look_again", "decline"),
            *("begin_load", "finish_load", "expire", "leave"),
        ),
    )
    def only_who_acts_goes_on(self, before: Self, r: Request, q: Request) -> Bool:
        """Whoever does something does it to itself."""
        return implies(q != r, self._is_as_it_was(before, q))

    @step("H5", of=("resolve", "store", "report_late"))
    def requests_wait_meanwhile(self, before: Self, q: Request) -> Bool:
        """What stores do by themselves changes no stay and no load."""
        return self._is_as_it_was(before, q)

    def _is_as_it_was(self, before: Self, r: Request) -> Bool:
        """The request's stay, and its load."""
        return all_of(
            iff(self.inside[r], before.inside[r]),
            iff(self.counted[r], before.counted[r]),
            self.chosen[r] == before.chosen[r],
            self.promised[r] == before.promised[r],
            self._has_its_load(before, r),
        )

    def _has_its_load(self, before: Self, r: Request) -> Bool:
        return all_of(
            iff(self.loading[r], before.loading[r]),
            iff(self.over[r], before.over[r]),
            self.external[r] == before.external[r],
            self.arrived[r] == before.arrived[r],
            self.job[r] == before.job[r],
            self.deadline[r] == before.deadline[r],
        )

    @step("H5", unless=("wait", "miss", "choose", "leave"))
    def nobody_else_comes_or_goes(self, before: Self, r: Request) -> Bool:
        """A stay begins with a lookup, and ends when the request leaves."""
        return iff(self.inside[r], before.inside[r])

    @step("H5, P15", unless=("miss", "choose", "leave"))
    def a_stay_is_counted_by_lookups(self, before: Self, r: Request) -> Bool:
        """Once one is answered; and until it ends."""
        return iff(self.counted[r], before.counted[r])

    @step("H5, H6", unless="begin_load")
    def a_load_keeps_its_number(self, before: Self, r: Request) -> Bool:
        """And its deadline, also when it is over."""
        return (self.job[r] == before.job[r]) & (self.deadline[r] == before.deadline[r])

    @step("H5, H6", unless=("decline", "finish_load", "expire", "leave"))
    def a_stay_may_have_a_load(self, before: Self, r: Request) -> Bool:
        """Until it had one, or does without."""
        return iff(self.over[r], before.over[r])

    @step("H5", unless="store")
    def what_stores_keep_they_keep(self, before: Self, c: Connector, h: Hash) -> Bool:
        """Lookups and loads neither add nor remove anything."""
        return iff(self.kept[c, h], before.kept[c, h])

    @step("H6", unless=("begin_load", "expire"))
    def time_stands_still(self, before: Self) -> Bool:
        """Loads begin at some moment, and are given up at another."""
        return self.now.value == before.now.value

    @step("H5", of="wait")
    def only_who_has_no_answer_waits(self, before: Self, r: Request, c: Connector) -> Bool:
        """One that has not resolved blocks nobody else (S17); where the first wins, it is why all are deferred."""
        is_missing = exists(Connector, lambda d: (d < before.count.value) & ~before.has_answered(d, r))
        return all_of(
            implies(self.weighted.value, ~before.has_answered(c, r)),
            implies(~self.weighted.value, is_missing),
            self.inside[r],
        )

    @step("H5", of="miss")
    def a_miss_means_that_nobody_has_anything(self, before: Self, r: Request, c: Connector) -> Bool:
        """Of those that have answered."""
        return ~(before.has_answered(c, r) & (before.answer[c, r] > 0))

    @step("H5, O5", of="choose")
    def the_winner_has_what_it_promises(self, before: Self, r: Request, c: Connector) -> Bool:
        """It has resolved, keeps what it found, and may have one load more."""
        may_load = (c < self.count.value) & (before.pending[c] < self.most_pending.value)
        return all_of(before.resolved[c, r], before.holds[c, r], may_load, self.chosen[r] == c)

    @step("H5, P15", of=("choose", "miss"))
    def a_lookup_uses_up_the_answers(self, before: Self, r: Request, c: Connector) -> Bool:  # noqa: ARG002
        """The next one is answered anew, and is no first one of the stay."""
        return all_of(~self.resolved[c, r], self.counted[r], self.inside[r])

    @step("H5, O5", of=("look_again", "decline"))
    def what_was_promised_is_taken_back(self, before: Self, r: Request, c: Connector) -> Bool:  # noqa: ARG002
        """And nobody keeps anything for it."""
        return all_of(self.chosen[r] == none, self.promised[r] == 0, ~self.holds[c, r])

    @step("H5", of="decline")
    def who_declines_computes(self, before: Self, r: Request) -> Bool:  # noqa: ARG002
        """For the rest of its stay."""
        return self.over[r]

    @step("H5, H6", of="begin_load")
    def a_load_is_part_of_what_was_promised(self, before: Self, r: Request, n: Tokens, j: Job) -> Bool:
        """By the store that was chosen; it has the next number, and all its time before it."""
        is_new = ~before.loading[r] & (j == before.issued.value) & (self.issued.value == j + 1)
        return all_of(
            is_new & self.loading[r] & (self.job[r] == j) & (self.chosen[r] == before.chosen[r]),
            (self.external[r] == n) & (n > 0) & (n <= before.promised[r]),
            self.deadline[r] == self.now.value + self.patience.value,
        )

    @step("H5, H6", of="begin_load")
    def a_load_pins_what_it_reads(self, before: Self, r: Request, c: Connector, h: Hash) -> Bool:
        """In the store that loads, once more than before; and nothing in any other."""
        is_read = (self.chosen[r] == c) & self.wanted[r, h]
        return self.pins[c, h] == before.pins[c, h] + ite(is_read, 1, 0)

    @step("H5, H6", of=("finish_load", "expire", "leave"))
    def what_is_let_go_was_prepared(self, before: Self, r: Request, c: Connector, h: Hash) -> Bool:
        """Exactly that, once, however the load ends; others who read the same go on."""
        was_read = (before.chosen[r] == c) & before.prepared[r, h]
        return self.pins[c, h] == before.pins[c, h] - ite(was_read, 1, 0)

    @step("H6", unless=("begin_load", "finish_load", "expire", "leave"))
    def pins_come_and_go_with_loads(self, before: Self, c: Connector, h: Hash) -> Bool:
        """Nothing else pins, or lets go."""
        return self.pins[c, h] == before.pins[c, h]

    @step("H6", unless="begin_load")
    def numbers_are_given_by_loads(self, before: Self) -> Bool:
        """The next load has the next one."""
        return self.issued.value == before.issued.value

    @step("H6", of=("begin_load", "expire"))
    def time_moves_to_the_moment(self, before: Self, m: Moment) -> Bool:
        """Never back."""
        return (self.now.value == self.time[m]) & (before.now.value <= self.time[m])

    @step("H6", of="expire")
    def no_load_is_given_up_early(self, before: Self, r: Request) -> Bool:
        """It had all its time."""
        return before.loading[r] & (before.deadline[r] <= self.now.value)

    @step("H6, O11", of="finish_load")
    def a_load_ends_with_its_own_report(self, before: Self, r: Request, j: Job, ok: Bool) -> Bool:
        """Not with that of a load that was given up before (S18). What was to come has come, or nothing has."""
        is_over = before.loading[r] & (before.job[r] == j) & ~self.loading[r] & self.over[r]
        return all_of(
            is_over & (self.chosen[r] == none),
            implies(ok, (self.external[r] == before.external[r]) & (self.arrived[r] == before.external[r])),
            implies(~ok, (self.external[r] == 0) & (self.arrived[r] == 0)),
        )

    @step("H5", of="choose")
    def the_most_worth_wins(self, before: Self, r: Request, c: Connector, d: Connector, result: Int) -> Bool:
        """Of all that have something, none is worth more; of equals none comes before. Its tokens are the answer."""
        worth, other = before.answer[c, r] * before.weight[c], before.answer[d, r] * before.weight[d]
        wins = (other < worth) | ((other == worth) & (c <= d))
        return all_of(
            implies(self.weighted.value & before.offers(d, r), wins),
            implies(~self.weighted.value & before.offers(d, r), c <= d),
            (self.promised[r] == before.answer[c, r]) & (result == self.promised[r]),
        )

    @step("H5", of=("choose", "miss"))
    def nobody_is_waited_for(self, before: Self, r: Request) -> Bool:
        """Who has not resolved goes on looking; somebody has. Where the first wins, everybody has."""
        anybody = exists(Connector, lambda c: before.has_answered(c, r))
        everybody = forall(Connector, lambda c: implies(c < before.count.value, before.has_answered(c, r)))
        return (anybody & self.weighted.value) | (everybody & ~self.weighted.value)

    @step("H5", of="store")
    def all_store(self, before: Self, h: Hash, c: Connector, g: Hash) -> Bool:
        """Every one is offered what was computed, also what another keeps."""
        is_offered = (g == h) & (c < self.count.value)
        return iff(self.kept[c, g], before.kept[c, g] | is_offered)

    @step("H5, P15", of=("choose", "miss"))
    def an_answer_counts_once(self, before: Self, r: Request, c: Connector) -> Bool:
        """The first answered lookup of a stay counts at each store that has answered; later ones count nowhere."""
        asked = self.queries[c] - before.queries[c]
        is_counted = ~before.counted[r] & before.has_answered(c, r)
        missed = is_counted & (before.answer[c, r] == 0)
        return all_of(
            implies(is_counted, asked == 1) & implies(~is_counted, asked == 0),
            implies(missed, self.misses[c] == before.misses[c] + 1),
            implies(~missed, self.misses[c] == before.misses[c]),
        )

    @step("H5, P15", of="choose")
    def a_hit_counts_for_the_winner(self, before: Self, r: Request, c: Connector, d: Connector) -> Bool:
        """With its tokens; and for nobody else."""
        is_first = ~before.counted[r]
        return all_of(
            implies(is_first, self.hits[c] == before.hits[c] + 1),
            implies(is_first, self.hit_tokens[c] == before.hit_tokens[c] + before.answer[c, r]),
            implies((d != c) | ~is_first, self.hits[d] == before.hits[d]),
            implies((d != c) | ~is_first, self.hit_tokens[d] == before.hit_tokens[d]),
        )

    @step("H5, P15", of="miss")
    def a_miss_is_no_hit(self, before: Self, c: Connector) -> Bool:
        """Of any store."""
        return (self.hits[c] == before.hits[c]) & (self.hit_tokens[c] == before.hit_tokens[c])

    @step("H5, P15", unless=("choose", "miss"))
    def only_lookups_count(self, before: Self, c: Connector) -> Bool:
        """No other action changes a counter of a store."""
        return all_of(
            (self.queries[c] == before.queries[c]) & (self.misses[c] == before.misses[c]),
            (self.hits[c] == before.hits[c]) & (self.hit_tokens[c] == before.hit_tokens[c]),
        )

    @step("H6", of="report_late")
    def a_late_report_changes_nothing(self, before: Self, r: Request, c: Connector, h: Hash, j: Job) -> Bool:
        """No count, no pin, no load: of that number none is under way."""
        is_late = (j < before.issued.value) & ~(before.loading[r] & (before.job[r] == j))
        return is_late & self._is_as_it_was(before, r) & (self.pins[c, h] == before.pins[c, h])

    @step("H6, O11", of="expire")
    def a_load_given_up_is_computed(self, before: Self, r: Request) -> Bool:  # noqa: ARG002
        """Nothing of it counts."""
        return all_of(self.external[r] == 0, self.arrived[r] == 0, ~self.loading[r] & self.over[r])

    @step("H5, O8", of="leave")
    def nothing_is_left(self, before: Self, r: Request, c: Connector, h: Hash) -> Bool:
        """Of a request that has left, in no store."""
        is_over = before.inside[r] & all_of(~self.inside[r], self.promised[r] == 0, self.external[r] == 0)
        return all_of(~self.holds[c, r], ~self.prepared[r, h], ~self.resolved[c, r], is_over)
