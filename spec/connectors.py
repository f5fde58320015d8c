"""Several stores of KV behind one connector (H5, H6, O11).

A request asks all of them how many tokens they could load. They answer in their own time. Among those that have, the
one whose answer is worth most loads: tokens times weight, the first of equals. Nobody waits for one that has not
resolved, unless nobody has. Only the winner loads; what is computed is stored in all of them.

A load pins what it reads. It ends once: well, badly, or because it took too long; then exactly what it had pinned is
let go. A request whose load did not end well computes what was promised to it, and whatever is reported of that load
later changes nothing.
"""

from __future__ import annotations

from ..machine import (
    Bool,
    Count,
    Index,
    Int,
    Machine,
    Map,
    Param,
    Real,
    Scalar,
    Tally,
    action,
    all_of,
    assume,
    can,
    exists,
    forall,
    iff,
    implies,
    invariant,
    ite,
    none,
    optional,
    otherwise,
    sometimes,
    step,
    when,
)
from .links import Moment
from .planner import Tokens
from .pool import Hash, Request

__all__ = ["Connector", "Connectors", "Job"]


class Connector(Index):
    """A store. Its number is its place: of equals, the first is chosen."""


class Job(Index):
    """The number of a load, in the order in which they begin."""


class Connectors(Machine):
    """Requests, what was promised to them, and the loads that keep the promises."""

    # -------------------------------------------------------------------------------- parameters

    weighted = Param(to=Bool)
    """True: the most tokens times weight wins, and who has not resolved is not waited for. False: the first that has
    anything wins, and one that has not resolved defers all, as in released vLLM."""

    weight = Param(Connector, to=Int)
    """What a token from this store is worth."""

    most_pending = Param(to=Int)
    """The most loads that a store has at a time; one that has as many counts as not resolved."""

    count = Param(to=Int)
    """How many stores there are."""

    wanted = Param(Request, Hash, to=Bool)
    """What a load for the request reads."""

    patience = Param(to=Real)
    """How long a load may take."""

    time = Param(Moment, to=Real)
    """When something happens outside."""

    @assume("H5")
    def weights_are_positive(self, c: Connector) -> Bool:
        """And each store may load something."""
        return all_of(self.weight[c] > 0, self.most_pending.value > 0, self.patience.value > 0)

    # -------------------------------------------------------------------------------- what stores know

    resolved = Map(Connector, Request, to=Bool)
    """The store knows what it has for the request."""

    answer = Map(Connector, Request, to=Tokens, init=0)
    """How many tokens that is."""

    holds = Map(Connector, Request, to=Bool)
    """The store keeps what it found for the request, until it is told otherwise (O5)."""

    kept = Map(Connector, Hash, to=Bool)
    """What was offered to the store."""

    pins = Map(Connector, Hash, to=Int)
    """How many loads read this in the store."""

    # -------------------------------------------------------------------------------- requests

    inside = Map(Request, to=Bool)
    """The request has looked up, and has not left."""

    chosen = Map(Request, to=optional(Connector))
    """The store that was chosen, until its load ends."""

    promised = Map(Request, to=Int)
    """The tokens that it promised."""

    loading = Map(Request, to=Bool)
    """Its load is under way."""

    over = Map(Request, to=Bool)
    """A load has ended: no other is made during this stay."""

    external = Map(Request, to=Int)
    """The tokens that count as there, or as coming."""

    arrived = Map(Request, to=Int)
    """Ghost: the tokens that really have come."""

    prepared = Map(Request, Hash, to=Bool)
    """What the load of the request has pinned."""

    job = Map(Request, to=optional(Job))
    """The number of its load."""

    deadline = Map(Request, to=Real)
    """When that is given up."""

    # -------------------------------------------------------------------------------- everything else

    now = Scalar(to=Real)
    """The time."""

    issued = Scalar(to=Int)
    """The number of the next load."""

    counted = Map(Request, to=Bool)
    """A lookup of this stay was counted."""

    queries = Tally(Connector)
    """How often a store was asked and answered; once for each stay of a request."""

    hits = Tally(Connector)
    """How often it was chosen."""

    hit_tokens = Tally(Connector)
    """For how many tokens."""

    misses = Tally(Connector)
    """How often it had nothing."""

    pending = Count(Request, where=lambda m, r, c: m.chosen[r] == c, by=Connector)
    """The requests that wait for the store's loads, or for them to begin."""

    readers = Count(Request, where=lambda m, r, c, h: (m.chosen[r] == c) & m.prepared[r, h], by=(Connector, Hash))
    """The loads that read this there."""

    # -------------------------------------------------------------------------------- words

    def has_answered(self, c: Connector, r: Request) -> Bool:
        """The store has resolved, and is not busy with as many loads as it may have."""
        return (c < self.count.value) & self.resolved[c, r] & (self.pending[c] < self.most_pending.value)

    def is_deferred(self, r: Request) -> Bool:
        """There is no answer yet: nobody has one; where the first wins, somebody has none."""
        nobody = forall(Connector, lambda c: ~self.has_answered(c, r))
        somebody = exists(Connector, lambda c: (c < self.count.value) & ~self.has_answered(c, r))
        return (nobody & self.weighted.value) | (somebody & ~self.weighted.value)

    def offers(self, c: Connector, r: Request) -> Bool:
        """The store has answered, and has something."""
        return self.has_answered(c, r) & (self.answer[c, r] > 0)

    def is_better(self, c: Connector, d: Connector, r: Request) -> Bool:
        """Of two stores that have something, the first named is to be preferred to the other."""
        worth, other = self.answer[c, r] * self.weight[c], self.answer[d, r] * self.weight[d]
        is_worth_more = (worth > other) | ((worth == other) & (c < d))
        return (is_worth_more & self.weighted.value) | ((c < d) & ~self.weighted.value)

    def may_look_up(self, r: Request) -> Bool:
        """The request has no load, and had none during this stay."""
        return all_of(~self.loading[r], ~self.over[r], self.chosen[r] == none)

    # -------------------------------------------------------------------------------- stores

    @action("H5, O5")
    def resolve(self, c: Connector, r: Request, n: Tokens) -> None:
        """A store finds out what it has for a request, and keeps it for that."""
        self.require(c < self.count.value)
        self.require(~self.resolved[c, r])
        self.require(self.may_look_up(r))
        self.resolved[c, r] = True
        self.answer[c, r] = n
        self.holds[c, r] = n > 0

    @action("H5")
    def store(self, h: Hash) -> None:
        """What was computed is offered to all."""
        with self.each(Connector) as c, when(c < self.count.value):
            self.kept[c, h] = True

    # -------------------------------------------------------------------------------- lookups

    @action("H5")
    def wait(self, r: Request) -> None:
        """A lookup that has no answer yet changes nothing."""
        self.require(self.may_look_up(r))
        self.require(self.is_deferred(r))
        self.inside[r] = True

    @action("H5")
    def miss(self, r: Request) -> None:
        """A lookup finds that nobody has anything."""
        self.require(self.may_look_up(r))
        self.require(~self.is_deferred(r))
        self.require(forall(Connector, lambda c: ~self.offers(c, r)))
        self.inside[r] = True
        self._count(r)
        self._drop_answers(r)

    @action("H5, O5")
    def choose(self, r: Request, c: Connector) -> Int:
        """A lookup is answered by the store whose answer is worth most; the others let go what they hold for it."""
        self.require(self.may_look_up(r))
        self.require(~self.is_deferred(r))
        self.require(self.offers(c, r))
        self.require(forall(Connector, lambda d: implies((d != c) & self.offers(d, r), self.is_better(c, d, r))))
        promised = self.answer[c, r]
        with when(~self.counted[r]):
            self.hits.add(1, c)
            self.hit_tokens.add(promised, c)
        self._count(r)
        self._drop_answers(r)
        self.inside[r] = True
        self.chosen[r] = c
        self.promised[r] = promised
        self.holds[c, r] = True
        return promised

    def _count(self, r: Request) -> None:
        """Each store that has answered was asked, once in a stay (P15)."""
        is_new = ~self.counted[r]
        with self.each(Connector) as c, when(is_new & self.has_answered(c, r)):
            self.queries.add(1, c)
            with when(self.answer[c, r] == 0):
                self.misses.add(1, c)
        self.counted[r] = True

    def _drop_answers(self, r: Request) -> None:
        """What was answered is used up; who has not resolved goes on."""
        with self.each(Connector) as c, when(self.resolved[c, r]):
            self.resolved[c, r] = False
            self.holds[c, r] = False

    @action("H5, O5")
    def look_again(self, r: Request) -> None:
        """A further lookup takes the place of the one before: what was promised is taken back."""
        self.require(self.chosen[r] != none)
        self.require(~self.loading[r])
        self._take_back(r)

    @action("H5, O5")
    def decline(self, r: Request) -> None:
        """The request does without what was promised."""
        self.require(self.chosen[r] != none)
        self.require(~self.loading[r])
        self._take_back(r)
        self.over[r] = True

    def _take_back(self, r: Request) -> None:
        self.holds[self.chosen[r], r] = False
        self.chosen[r] = none
        self.promised[r] = 0

    # -------------------------------------------------------------------------------- loads

    @action("H5, H6")
    def begin_load(self, r: Request, n: Tokens, j: Job, m: Moment) -> None:
        """The chosen store begins to load; what is read is pinned."""
        self.require(j == self.issued.value)
        self.require(self.chosen[r] != none)
        self.require(~self.loading[r])
        self.require(n > 0)
        self.require(n <= self.promised[r])
        self.require(self.time[m] >= self.now.value)
        c = self.chosen[r]
        self.issued.value = j + 1
        self.now.value = self.time[m]
        self.job[r] = j
        self.deadline[r] = self.time[m] + self.patience.value
        self.loading[r] = True
        self.external[r] = n
        self.promised[r] = 0
        self.holds[c, r] = False
        with self.each(Hash) as h, when(self.wanted[r, h]):
            self.prepared[r, h] = True
            self.pins[c, h] = self.pins[c, h] + 1

    @action("H6, O11")
    def finish_load(self, r: Request, j: Job, ok: Bool) -> None:
        """A store reports the load of that number."""
        self.require(self.loading[r])
        self.require(self.job[r] == j)
        with when(ok):
            self.arrived[r] = self.external[r]
        with otherwise():
            self.external[r] = 0
        self._end_load(r)

    @action("H6, O11")
    def expire(self, r: Request, m: Moment) -> None:
        """A load has taken too long: it is given up."""
        self.require(self.loading[r])
        self.require(self.time[m] >= self.now.value)
        self.require(self.time[m] >= self.deadline[r])
        self.now.value = self.time[m]
        self.external[r] = 0
        self._end_load(r)

    @action("H6")
    def report_late(self, j: Job) -> None:
        """A store reports a load that has ended already. Nothing changes."""
        self.require(j < self.issued.value)
        self.require(forall(Request, lambda r: ~(self.loading[r] & (self.job[r] == j))))

    def _unpin(self, r: Request) -> None:
        """Exactly what the load of the request has pinned is let go."""
        c = self.chosen[r]
        with self.each(Hash) as h, when(self.prepared[r, h]):
            self.prepared[r, h] = False
            self.pins[c, h] = self.pins[c, h] - 1

    def _end_load(self, r: Request) -> None:
        self._unpin(r)
        self.loading[r] = False
        self.over[r] = True
        self.chosen[r] = none

    # -------------------------------------------------------------------------------- leaving

    @action("H5, O8")
    def leave(self, r: Request) -> None:
        """A request is preempted, or is done: its load is given up, and every store hears of it."""
        self.require(self.inside[r])
        self._unpin(r)
        with self.each(Connector) as d:
            self.resolved[d, r] = False
            self.holds[d, r] = False
        self.inside[r] = False
        self.loading[r] = False
        self.over[r] = False
        self.chosen[r] = none
        self.promised[r] = 0
        self.external[r] = 0
        self.arrived[r] = 0
        self.counted[r] = False

    # -------------------------------------------------------------------------------- invariants

    @invariant("H5")
    def a_load_is_of_one_store(self, r: Request, c: Connector) -> Bool:
        """Exactly the chosen one loads; and a request that has nothing chosen has nothing promised, nor a load."""
        return all_of(
            implies(self.chosen[r] == c, (c < self.count.value) & ~self.over[r] & self.inside[r]),
            implies(self.loading[r], (self.chosen[r] != none) & (self.job[r] != none)),
            iff(self.promised[r] > 0, (self.chosen[r] != none) & ~self.loading[r]),
            self.promised[r] >= 0,
        )

    @invariant("H5, O5")
    def only_who_may_be_needed_holds(self, c: Connector, r: Request) -> Bool:
        """A store holds what it found until the lookup is answered, and the chosen one until its load begins."""
        is_waited_for = self.resolved[c, r] & (self.answer[c, r] > 0)
        is_chosen = (self.chosen[r] == c) & ~self.loading[r]
        return iff(self.holds[c, r], is_waited_for | is_chosen)

    @invariant("H5")
    def an_answer_is_used_up(self, c: Connector, r: Request) -> Bool:
        """All stores are asked anew for the next lookup; none keeps its answer while another loads, or is done."""
        return implies((self.chosen[r] != none) | self.over[r], ~self.resolved[c, r])

    @invariant("H6")
    def pins_count_loads(self, c: Connector, h: Hash) -> Bool:
        """What is pinned is what some load has prepared, as often; nothing else, and nothing for ever."""
        return self.pins[c, h] == self.readers[c, h]

    @invariant("H6")
    def a_load_has_prepared_what_it_reads(self, r: Request, h: Hash) -> Bool:
        """And who does not load has prepared nothing."""
        return iff(self.prepared[r, h], self.loading[r] & self.wanted[r, h])

    @invariant("H6, O11")
    def what_counts_is_there_or_comes(self, r: Request) -> Bool:
        """Tokens count as there exactly if they have come, or a load is under way that brings them."""
        return all_of(
            implies(~self.loading[r], self.external[r] == self.arrived[r]),
            implies(self.loading[r], (self.external[r] > 0) & (self.arrived[r] == 0)),
            implies(~self.loading[r] & ~self.over[r], self.arrived[r] == 0),
        )

    @invariant("H6")
    def loads_have_different_numbers(self, r: Request, q: Request) -> Bool:
        """So a late report of one is not taken for another."""
        return all_of(
            implies(self.loading[r], exists(Job, lambda j: (self.job[r] == j) & (j < self.issued.value))),
            implies(self.loading[r] & self.loading[q] & (self.job[r] == self.job[q]), r == q),
        )

    @invariant("H5")
    def nobody_has_more_loads_than_it_may(self, c: Connector) -> Bool:
        """Backpressure defers; it drops nothing."""
        return self.pending[c] <= self.most_pending.value

    @invariant("H6")
    def a_load_that_takes_too_long_can_be_given_up(self, r: Request, m: Moment) -> Bool:
        """From its deadline on; nothing else has to happen first (S18)."""
        is_late = (self.time[m] >= self.deadline[r]) & (self.time[m] >= self.now.value)
        return implies(self.loading[r] & is_late, can(self.expire, r, m))

    @invariant("H5, O8")
    def nothing_is_known_of_who_is_not_inside(self, r: Request) -> Bool:
        """A stay begins with nothing chosen, loaded, counted or given up."""
        is_blank = all_of(self.chosen[r] == none, ~self.loading[r], ~self.over[r], ~self.counted[r])
        return implies(~self.inside[r], is_blank)

    # -------------------------------------------------------------------------------- steps

    @step("H5, O5", of="resolve")
    def an_answer_is_kept_until_it_is_used(self, before: Connectors, c: Connector, r: Request, n: Tokens) -> Bool:
        """A store answers a lookup once; if it has something it keeps that."""
        is_asked = (c < self.count.value) & ~before.resolved[c, r]
        return all_of(
            is_asked, self.resolved[c, r], self.answer[c, r] == n, iff(self.holds[c, r], n > 0), before.may_look_up(r)
        )

    @step("H5", unless=("miss", "choose", "look_again", "decline", "begin_load", "leave"))
    def answers_are_used_by_lookups(self, before: Connectors, c: Connector, r: Request) -> Bool:
        """What a store knows and keeps stays, until a lookup is answered, or what was promised is loaded or not."""
        is_kept = self.resolved[c, r] & (self.answer[c, r] == before.answer[c, r])
        return implies(before.resolved[c, r], is_kept) & implies(before.holds[c, r], self.holds[c, r])

    @step("H5", of=("wait", "miss", "choose"))
    def who_has_a_load_does_not_look_up(self, before: Connectors, r: Request) -> Bool:
        """Nor who had one during this stay."""
        return before.may_look_up(r)

    @step("H5", unless=("resolve", "store", "report_late"))
    def requests_go_on_by_themselves(self, before: Connectors, r: Request, q: Request) -> Bool:
        """Where something changes for one, all is as it was for every other."""
        return implies((r != q) & ~self._is_as_it_was(before, r), self._is_as_it_was(before, q))

    @step("H5", of=("resolve", "store", "report_late"))
    def requests_wait_meanwhile(self, before: Connectors, q: Request) -> Bool:
        """What stores do by themselves changes no stay and no load."""
        return self._is_as_it_was(before, q)

    def _is_as_it_was(self, before: Connectors, r: Request) -> Bool:
        """The request's stay, and its load."""
        return all_of(
            iff(self.inside[r], before.inside[r]),
            iff(self.counted[r], before.counted[r]),
            self.chosen[r] == before.chosen[r],
            self.promised[r] == before.promised[r],
            self._has_its_load(before, r),
        )

    def _has_its_load(self, before: Connectors, r: Request) -> Bool:
        return all_of(
            iff(self.loading[r], before.loading[r]),
            iff(self.over[r], before.over[r]),
            self.external[r] == before.external[r],
            self.arrived[r] == before.arrived[r],
            self.job[r] == before.job[r],
            self.deadline[r] == before.deadline[r],
        )

    @step("H5", of="wait")
    def only_who_has_no_answer_waits(self, before: Connectors, r: Request, c: Connector) -> Bool:
        """One that has not resolved blocks nobody else (S17); where the first wins, it is why all are deferred."""
        is_missing = exists(Connector, lambda d: (d < before.count.value) & ~before.has_answered(d, r))
        return all_of(
            implies(self.weighted.value, ~before.has_answered(c, r)),
            implies(~self.weighted.value, is_missing),
            self.inside[r],
        )

    @step("H5", of="miss")
    def a_miss_means_that_nobody_has_anything(self, before: Connectors, r: Request, c: Connector) -> Bool:
        """Of those that have answered."""
        return ~(before.has_answered(c, r) & (before.answer[c, r] > 0))

    @step("H5, O5", of="choose")
    def the_winner_has_what_it_promises(self, before: Connectors, r: Request, c: Connector) -> Bool:
        """It has resolved, keeps what it found, and may have one load more."""
        may_load = (c < self.count.value) & (before.pending[c] < self.most_pending.value)
        return all_of(before.resolved[c, r], before.holds[c, r], may_load, self.chosen[r] == c)

    @step("H5, P15", of=("choose", "miss"))
    def a_lookup_uses_up_the_answers(self, before: Connectors, r: Request, c: Connector) -> Bool:  # noqa: ARG002
        """The next one is answered anew, and is no first one of the stay."""
        return all_of(~self.resolved[c, r], self.counted[r], self.inside[r])

    @step("H5, O5", of=("look_again", "decline"))
    def what_was_promised_is_taken_back(self, before: Connectors, r: Request, c: Connector) -> Bool:  # noqa: ARG002
        """And nobody keeps anything for it."""
        return all_of(self.chosen[r] == none, self.promised[r] == 0, ~self.holds[c, r])

    @step("H5", of="decline")
    def who_declines_computes(self, before: Connectors, r: Request) -> Bool:  # noqa: ARG002
        """For the rest of its stay."""
        return self.over[r]

    @step("H5, H6", of="begin_load")
    def a_load_is_part_of_what_was_promised(self, before: Connectors, r: Request, n: Tokens, j: Job) -> Bool:
        """By the store that was chosen; it has the next number, and all its time before it."""
        is_new = ~before.loading[r] & (j == before.issued.value) & (self.issued.value == j + 1)
        return all_of(
            is_new & self.loading[r] & (self.job[r] == j) & (self.chosen[r] == before.chosen[r]),
            (self.external[r] == n) & (n > 0) & (n <= before.promised[r]),
            self.deadline[r] == self.now.value + self.patience.value,
        )

    @step("H5, H6", of="begin_load")
    def a_load_pins_what_it_reads(self, before: Connectors, r: Request, c: Connector, h: Hash) -> Bool:
        """In the store that loads, once more than before; and nothing in any other."""
        is_read = (self.chosen[r] == c) & self.wanted[r, h]
        return self.pins[c, h] == before.pins[c, h] + ite(is_read, 1, 0)

    @step("H5, H6", of=("finish_load", "expire", "leave"))
    def what_is_let_go_was_prepared(self, before: Connectors, r: Request, c: Connector, h: Hash) -> Bool:
        """Exactly that, once, however the load ends; others who read the same go on."""
        was_read = (before.chosen[r] == c) & before.prepared[r, h]
        return self.pins[c, h] == before.pins[c, h] - ite(was_read, 1, 0)

    @step("H6", unless=("begin_load", "finish_load", "expire", "leave"))
    def pins_come_and_go_with_loads(self, before: Connectors, c: Connector, h: Hash) -> Bool:
        """Nothing else pins, or lets go."""
        return self.pins[c, h] == before.pins[c, h]

    @step("H6", unless="begin_load")
    def numbers_are_given_by_loads(self, before: Connectors) -> Bool:
        """The next load has the next one."""
        return self.issued.value == before.issued.value

    @step("H6", of=("begin_load", "expire"))
    def time_moves_to_the_moment(self, before: Connectors, m: Moment) -> Bool:
        """Never back."""
        return (self.now.value == self.time[m]) & (before.now.value <= self.time[m])

    @step("H6", of="expire")
    def no_load_is_given_up_early(self, before: Connectors, r: Request) -> Bool:
        """It had all its time."""
        return before.loading[r] & (before.deadline[r] <= self.now.value)

    @step("H6, O11", of="finish_load")
    def a_load_ends_with_its_own_report(self, before: Connectors, r: Request, j: Job, ok: Bool) -> Bool:
        """Not with that of a load that was given up before (S18). What was to come has come, or nothing has."""
        is_over = before.loading[r] & (before.job[r] == j) & ~self.loading[r] & self.over[r]
        return all_of(
            is_over & (self.chosen[r] == none),
            implies(ok, (self.external[r] == before.external[r]) & (self.arrived[r] == before.external[r])),
            implies(~ok, (self.external[r] == 0) & (self.arrived[r] == 0)),
        )

    @step("H5", of="choose")
    def the_most_worth_wins(self, before: Connectors, r: Request, c: Connector, d: Connector, result: Int) -> Bool:
        """Of all that have something, none is worth more; of equals none comes before. Its tokens are the answer."""
        worth, other = before.answer[c, r] * before.weight[c], before.answer[d, r] * before.weight[d]
        wins = (other < worth) | ((other == worth) & (c <= d))
        return all_of(
            implies(self.weighted.value & before.offers(d, r), wins),
            implies(~self.weighted.value & before.offers(d, r), c <= d),
            (self.promised[r] == before.answer[c, r]) & (result == self.promised[r]),
        )

    @step("H5", of=("choose", "miss"))
    def nobody_is_waited_for(self, before: Connectors, r: Request) -> Bool:
        """Who has not resolved goes on looking; somebody has. Where the first wins, everybody has."""
        anybody = exists(Connector, lambda c: before.has_answered(c, r))
        everybody = forall(Connector, lambda c: implies(c < before.count.value, before.has_answered(c, r)))
        return (anybody & self.weighted.value) | (everybody & ~self.weighted.value)

    @step("H5", of="store")
    def all_store(self, before: Connectors, h: Hash, c: Connector, g: Hash) -> Bool:
        """Every one is offered what was computed, also what another keeps."""
        is_offered = (g == h) & (c < self.count.value)
        return iff(self.kept[c, g], before.kept[c, g] | is_offered)

    @step("H5, P15", of=("choose", "miss"))
    def an_answer_counts_once(self, before: Connectors, r: Request, c: Connector) -> Bool:
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
    def a_hit_counts_for_the_winner(self, before: Connectors, r: Request, c: Connector, d: Connector) -> Bool:
        """With its tokens; and for nobody else."""
        is_first = ~before.counted[r]
        return all_of(
            implies(is_first, self.hits[c] == before.hits[c] + 1),
            implies(is_first, self.hit_tokens[c] == before.hit_tokens[c] + before.answer[c, r]),
            implies((d != c) | ~is_first, self.hits[d] == before.hits[d]),
            implies((d != c) | ~is_first, self.hit_tokens[d] == before.hit_tokens[d]),
        )

    @step("H5, P15", unless=("choose", "miss"))
    def only_lookups_count(self, before: Connectors, c: Connector) -> Bool:
        """No other action changes a counter of a store."""
        return all_of(
            (self.queries[c] == before.queries[c]) & (self.misses[c] == before.misses[c]),
            (self.hits[c] == before.hits[c]) & (self.hit_tokens[c] == before.hit_tokens[c]),
        )

    @step("H6", of="report_late")
    def a_late_report_changes_nothing(self, before: Connectors, r: Request, c: Connector, h: Hash, j: Job) -> Bool:
        """No count, no pin, no load: of that number none is under way."""
        is_late = (j < before.issued.value) & ~(before.loading[r] & (before.job[r] == j))
        return is_late & self._is_as_it_was(before, r) & (self.pins[c, h] == before.pins[c, h])

    @step("H6, O11", of="expire")
    def a_load_given_up_is_computed(self, before: Connectors, r: Request) -> Bool:  # noqa: ARG002
        """Nothing of it counts."""
        return all_of(self.external[r] == 0, self.arrived[r] == 0, ~self.loading[r] & self.over[r])

    @step("H5, O8", of="leave")
    def nothing_is_left(self, before: Connectors, r: Request, c: Connector, h: Hash) -> Bool:
        """Of a request that has left, in no store."""
        is_over = before.inside[r] & all_of(~self.inside[r], self.promised[r] == 0, self.external[r] == 0)
        return all_of(~self.holds[c, r], ~self.prepared[r, h], ~self.resolved[c, r], is_over)

    # -------------------------------------------------------------------------------- what must be reachable

    @sometimes("H5")
    def a_later_store_may_win(self, r: Request, c: Connector, d: Connector) -> Bool:
        """While an earlier one has not resolved."""
        return all_of(c < d, ~self.resolved[c, r], can(self.choose, r, d))

    @sometimes("H6")
    def a_load_was_given_up(self, r: Request, q: Request) -> Bool:
        """While another is under way."""
        return all_of(self.over[r], self.arrived[r] == 0, self.job[r] != none, self.loading[q])

    @sometimes("H6")
    def a_late_report_comes_while_the_next_load_is_under_way(self, r: Request, j: Job) -> Bool:
        """Of the same request, which has left and come back."""
        return all_of(self.loading[r], self.job[r] != j, can(self.report_late, j))
