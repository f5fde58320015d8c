"""Several connectors as one (H5, H6, O5, O11, P15): rule by rule, against a model, and broken one way at a time."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kvproof.refimpl.errors import RefusedError
from kvproof.refimpl.hybrid.connector import BlockRef, Boundary, Completion, longest_match, needed_keys
from kvproof.refimpl.hybrid.connector_records import Counters, LoadEnd, LoadSnapshot, Outcome
from kvproof.refimpl.hybrid.multi_connector import MultiConnector
from kvproof.refimpl.pool.manager import RequestId

CHAIN = [Boundary(tokens, (b"key %d" % tokens,)) for tokens in range(1, 9)]


@dataclass
class Child:
    """A connector that answers what it is told to, and keeps strict books of what it holds."""

    name: str
    weight: float | Fraction = 1
    supports_hybrid: bool = True
    answer: int | None = 0
    held: dict[int, tuple[bytes, ...]] = field(default_factory=dict)
    jobs: dict[int, tuple[bytes, ...]] = field(default_factory=dict)
    released: list[tuple[int, tuple[bytes, ...]]] = field(default_factory=list)
    stored: list[tuple[int, tuple[BlockRef, ...]]] = field(default_factory=list)
    preemptions: list[set[int]] = field(default_factory=list)
    completions: list[Completion] = field(default_factory=list)
    takes: int = 100
    asked: int = 0

    def matched(self, request, chain, computed):
        self.asked += 1
        self.held.pop(request, None)
        if self.answer:
            self.held[request] = needed_keys(chain, computed, self.answer)
        return self.answer

    def drop(self, request):
        self.held.pop(request, None)

    def begin_load(self, job, request, blocks):
        keys = tuple(ref.key for ref in blocks)
        if not set(keys) <= set(self.held.get(request, ())):
            raise RefusedError("not held")
        assert job not in self.jobs
        del self.held[request]
        self.jobs[job] = keys

    def release(self, job, keys):
        assert self.jobs.pop(job, None) == tuple(keys)
        self.released.append((job, tuple(keys)))

    def store(self, request, blocks):
        self.stored.append((request, tuple(blocks)))
        return min(len(blocks), self.takes)

    def preempted(self, requests):
        self.preemptions.append(set(requests))

    def poll(self):
        done, self.completions = self.completions, []
        return done


def refs(computed: int, tokens: int) -> list[BlockRef]:
    """Where a load of ``tokens`` tokens goes."""
    return [BlockRef(key, place) for place, key in enumerate(needed_keys(CHAIN, computed, tokens))]


def make(*children: Child, cls: type[MultiConnector] = MultiConnector, **options) -> MultiConnector:
    """The connector under test; ``cls`` may be a broken one."""
    return cls(children, hybrid=True, **{"load_timeout": 10, **options})


def promised(*children: Child, cls=MultiConnector, computed: int = 0, **options) -> MultiConnector:
    """One with a promise to request 1."""
    multi = make(*children, cls=cls, **options)
    assert multi.matched(1, CHAIN, computed)
    return multi


class TestChains:
    def test_h4_a_boundary_counts_when_all_before_it_and_its_own_are_there(self):
        chain = [
            Boundary(2, (b"full 2",), (b"state 2",)),
            Boundary(4, (b"full 4",), (b"state 4",)),
            Boundary(6, (b"full 6",), (b"state 6",)),
        ]

        def found(*missing: bytes, computed: int = 0) -> int:
            best = longest_match(chain, computed, lambda key: key not in missing)
            return 0 if best is None else best.tokens

        assert found() == 6
        assert found(b"state 6") == 4
        assert found(b"state 2", b"state 4") == 6
        assert found(b"full 4") == 2
        chain[0] = Boundary(2, (b"full 2",), (b"state 2", b"window 2"))
        assert found(b"full 4", b"window 2") == 0  # Each group needs its own.
        assert found(b"full 4", b"state 2") == 0
        assert found(b"full 2", b"full 4", computed=4) == 6
        assert found(computed=6) == 0
        chain[1] = Boundary(4, (b"full 4", b"other 4"))
        assert found(b"other 4") == found(b"full 4") == 2  # One of two groups of full attention is not enough.
        chain[1] = Boundary(4, (b"full 4",), (b"state 4",))
        assert needed_keys(chain, 0, 4) == (b"full 2", b"full 4", b"state 4")
        assert needed_keys(chain, 2, 4) == (b"full 4", b"full 6", b"state 6")
        with pytest.raises(ValueError, match="3 tokens is no boundary beyond 0"):
            needed_keys(chain, 0, 3)
        with pytest.raises(ValueError, match="no boundary"):
            needed_keys(chain, 6, 0)


class TestStart:
    def test_h5_a_child_without_hybrid_support_is_refused_by_name(self):
        children = [Child("fast"), Child("old", supports_hybrid=False), Child("older", supports_hybrid=False)]
        with pytest.raises(TypeError, match=r"\['old', 'older'\]"):
            MultiConnector(children, hybrid=True)
        MultiConnector(children, hybrid=False)

    @pytest.mark.parametrize(
        ("children", "options"),
        [
            ([], {}),
            ([Child("same"), Child("same")], {}),
            ([Child("zero", weight=0)], {}),
            ([Child("endless", weight=float("inf"))], {}),
            ([Child("nan", weight=float("nan"))], {}),
            ([Child("a"), Child("none", weight=0)], {}),
            ([Child("a")], {"dialect": "best"}),
            ([Child("a")], {"load_timeout": 0}),
            ([Child("a")], {"load_timeout": float("nan")}),
            ([Child("a")], {"max_pending": 0}),
        ],
    )
    def test_what_means_nothing_is_refused(self, children, options):
        with pytest.raises(RefusedError):
            MultiConnector(children, hybrid=True, **options)


def winner_of(*offers: tuple[float | Fraction, int | None], cls=MultiConnector, dialect="weighted"):
    """The place of the child that loads, for (weight, answer) of each; and the answer as a whole."""
    children = [Child(str(place), weight, answer=answer) for place, (weight, answer) in enumerate(offers)]
    multi = make(*children, cls=cls, dialect=dialect)
    answer = multi.matched(1, CHAIN, 0)
    state = multi.snapshot().requests[1]
    if answer:
        assert [bool(child.held) for child in children] == [place == state.child for place in range(len(children))]
    return state.child, answer


def check_ties(cls=MultiConnector) -> None:
    assert winner_of((1, 4), (2, 2), (4, 1), cls=cls) == (0, 4)
    assert winner_of((1, 3), (2, 2), (4, 1), cls=cls) == (1, 2)


def check_unresolved_children_block_nobody(cls=MultiConnector) -> None:
    assert winner_of((9, None), (1, 2), cls=cls) == (1, 2)
    assert winner_of((1, 2), (9, None), cls=cls) == (0, 2)
    assert winner_of((9, None), (1, 0), cls=cls) == (None, 0)
    assert winner_of((9, None), (1, None), cls=cls) == (None, None)


class TestChoice:
    def test_h5_the_highest_product_wins_and_the_first_of_equals(self):
        check_ties()
        assert winner_of((1, 8), (3, 3)) == (1, 3)
        assert winner_of((1, 0), (1, 0)) == (None, 0)

    def test_h5_products_compare_exactly(self):
        assert 3 * 0.1 > 0.3  # In floating point the second of these equals would win.
        assert winner_of((Fraction(3, 10), 1), (Fraction(1, 10), 3)) == (0, 1)

    def test_h5_an_unresolved_child_blocks_nobody_and_all_of_them_defer(self):
        check_unresolved_children_block_nobody()

    def test_h5_dialect_first_takes_the_first_hit_and_any_unresolved_defers(self):
        assert winner_of((1, 0), (1, 2), (9, 8), dialect="first") == (1, 2)
        assert winner_of((1, 2), (9, None), dialect="first") == (None, None)
        assert winner_of((1, 0), (9, 0), dialect="first") == (None, 0)

    def test_o5_losers_drop_what_they_hold_also_those_of_an_earlier_deferral(self):
        fast, slow = Child("fast", answer=2), Child("slow", answer=None)
        multi = make(fast, slow, dialect="first")
        assert multi.matched(1, CHAIN, 0) is None
        assert fast.held == {1: (b"key 1", b"key 2")}
        fast.answer, slow.answer = 0, 1
        assert multi.matched(1, CHAIN, 0) == 1
        assert (fast.held, slow.held) == ({}, {1: (b"key 1",)})

    def test_h5_a_child_that_still_looks_may_look_on_when_another_was_chosen(self):
        """It holds nothing yet; told to drop, it would begin anew each time, and never have an answer."""

        class Slow(Child):
            def drop(self, request):
                super().drop(request)
                self.asked = 0

            def matched(self, request, chain, computed):
                self.answer = 4 if self.asked else None
                return super().matched(request, chain, computed)

        fast, slow = Child("fast", answer=2), Slow("slow")
        multi = promised(fast, slow)
        assert multi.snapshot().requests[1].child == 0
        assert multi.matched(1, CHAIN, 0) == 4
        assert (fast.held, set(slow.held)) == ({}, {1})

    def test_a_further_lookup_takes_the_place_of_the_one_before(self):
        fast, slow = Child("fast", weight=5, answer=3), Child("slow", answer=4)
        multi = promised(fast, slow)
        fast.answer = 0
        assert multi.matched(1, CHAIN, 2) == 4
        assert (fast.held, slow.held) == ({}, {1: needed_keys(CHAIN, 2, 4)})
        assert [counts.pending_loads for counts in multi.counters().values()] == [0, 1]


class TestCounters:
    def test_p15_a_lookup_counts_once_per_stay_when_it_resolves(self):
        a, b, c = Child("a", answer=None), Child("b", answer=None), Child("c", answer=None)
        multi = make(a, b, c)
        for _ in range(3):
            assert multi.matched(1, CHAIN, 0) is None
        assert multi.counters() == {name: Counters() for name in "abc"}
        a.answer, b.answer, c.answer = 5, 2, 0
        for _ in range(3):
            assert multi.matched(1, CHAIN, 0) == 5
        assert multi.counters() == {
            "a": Counters(queries=1, hits=1, hit_tokens=5, pending_loads=1),
            "b": Counters(queries=1),
            "c": Counters(queries=1, misses=1),
        }
        multi.preempted({1})
        assert multi.matched(1, CHAIN, 0) == 5
        assert multi.counters()["a"] == Counters(queries=2, hits=2, hit_tokens=10, pending_loads=1)

    def test_the_counters_given_out_are_copies(self):
        multi = make(Child("a"))
        multi.counters()["a"].queries = 7
        multi.snapshot().counters[0].queries = 7
        assert multi.counters()["a"].queries == 0


class TestBackpressure:
    def test_h5_a_child_with_its_fill_of_loads_has_not_resolved_and_nothing_is_lost(self):
        only = Child("only", answer=2)
        multi = make(only, max_pending=2)
        assert [multi.matched(request, CHAIN, 0) for request in (1, 2, 3)] == [2, 2, None]
        job = multi.begin_load(1, refs(0, 2), 2, now=0)
        assert multi.matched(3, CHAIN, 0) is None
        assert multi.counters()["only"] == Counters(2, 2, 4, pending_loads=2, deferrals=2)
        assert multi.matched(2, CHAIN, 0) == 2  # Its own promise is not in its way.
        multi.finish_load(job, ok=True)
        assert multi.matched(3, CHAIN, 0) == 2

    def test_h5_others_answer_meanwhile(self):
        busy, idle = Child("busy", weight=9, answer=4), Child("idle", answer=1)
        multi = make(busy, idle, max_pending=1)
        assert [multi.matched(request, CHAIN, 0) for request in (1, 2)] == [4, 1]

    def test_h5_a_child_that_is_not_asked_keeps_what_it_found_until_the_lookup_is_answered(self):
        busy, slow = Child("busy", answer=2), Child("slow", answer=None)
        multi = make(busy, slow, dialect="first", max_pending=1)
        assert multi.matched(1, CHAIN, 0) is None
        slow.answer = 0
        assert multi.matched(2, CHAIN, 0) == 2
        assert multi.matched(1, CHAIN, 0) is None
        assert set(busy.held) == {1, 2}  # Deferred, and nothing is dropped.

    def test_o5_a_child_that_was_not_asked_drops_what_it_found_when_another_answers(self):
        busy, other, slow = Child("busy", answer=2), Child("other", answer=0), Child("slow", answer=None)
        multi = make(busy, other, slow, max_pending=1)
        multi.dialect = "first"
        assert multi.matched(1, CHAIN, 0) is None
        multi.dialect = "weighted"
        assert multi.matched(2, CHAIN, 0) == 2
        other.answer = 1
        assert multi.matched(1, CHAIN, 0) == 1
        assert (set(busy.held), set(other.held)) == ({2}, {1})

    def test_h5_stores_are_settled_when_every_child_has_room(self):
        eager, busy = Child("eager"), Child("busy", takes=1)
        multi = make(eager, busy)
        blocks = [BlockRef(b"a", 1), BlockRef(b"b", 2), BlockRef(b"c", 3)]
        assert multi.store(1, iter(blocks)) == 1  # An iterator can be read once only: it is.
        assert eager.stored == busy.stored == [(1, tuple(blocks))]
        busy.takes = 100
        assert multi.store(1, blocks[1:]) == 2


def check_failed_load(cls=MultiConnector) -> None:
    """O11: after a failed load both counts say what is really there."""
    child = Child("a", answer=3)
    multi = promised(child, cls=cls, computed=2)
    job = multi.begin_load(1, refs(2, 3), 3, now=0)
    state = multi.snapshot().requests[1]
    assert (state.computed, state.external) == (2, 3)
    assert multi.finish_load(job, ok=False) == LoadEnd(job, 1, "failed", 2, 0)
    state = multi.snapshot().requests[1]
    assert (state.phase, state.computed, state.external) == ("over", 2, 0)
    assert (child.held, child.jobs) == ({}, {})


def check_timeout(cls=MultiConnector) -> None:
    """H6: a load that takes too long is cancelled, what was prepared is released, what comes late counts nothing."""
    child = Child("a", answer=3)
    multi = promised(child, cls=cls, computed=2)
    job = multi.begin_load(1, refs(2, 3), 3, now=5)
    assert multi.expire(14) == ()
    assert multi.expire(15) == (LoadEnd(job, 1, "expired", 2, 0),)
    assert child.released == [(job, needed_keys(CHAIN, 2, 3))]
    assert multi.counters()["a"] == Counters(1, 1, 3, pending_loads=0, expired=1)
    before = multi.snapshot()
    child.completions = [Completion(job, True), Completion(job, False)]
    assert multi.poll() == []
    assert multi.finish_load(job, ok=True) is None
    assert multi.expire(99) == ()
    after = multi.snapshot()
    assert after.requests == before.requests
    assert (after.loads, after.counters) == ({}, before.counters)
    assert child.released == [(job, needed_keys(CHAIN, 2, 3))]


class TestLoads:
    def test_only_the_winner_loads_and_its_tokens_count_from_the_begin(self):
        fast, slow = Child("fast", weight=2, answer=3), Child("slow", answer=4)
        multi = promised(fast, slow, computed=1)
        job = multi.begin_load(1, iter(refs(1, 3)), 3, now=0)
        assert (fast.jobs, slow.jobs, slow.held) == ({job: needed_keys(CHAIN, 1, 3)}, {}, {})
        assert multi.finish_load(job, ok=True) == LoadEnd(job, 1, "loaded", 1, 3)
        assert multi.counters()["fast"].pending_loads == 0
        assert fast.released == [(job, needed_keys(CHAIN, 1, 3))]

    def test_less_may_be_loaded_than_was_promised(self):
        child = Child("a", answer=4)
        multi = promised(child)
        multi.begin_load(1, refs(0, 2), 2, now=0)
        state = multi.snapshot().requests[1]
        assert (state.computed, state.external, child.held) == (0, 2, {})

    def test_o11_a_failed_load_gives_back_both_counts(self):
        check_failed_load()

    def test_h6_a_load_past_its_time_is_cancelled_and_a_late_completion_changes_nothing(self):
        check_timeout()

    def test_h6_all_that_are_late_are_cancelled_and_no_other(self):
        child = Child("a", answer=1)
        multi = make(child)
        for request, now in ((1, 0), (2, 5), (3, 3), (4, 9)):  # The third cannot begin before the second: G3.
            assert multi.matched(request, CHAIN, 0) == 1
            multi.begin_load(request, refs(0, 1), 1, now=now)
        assert multi.snapshot().now == 9
        assert [end.request for end in multi.expire(15)] == [1, 2, 3]
        assert multi.expire(2) == ()
        assert multi.snapshot().now == 15
        assert [load.request for load in multi.snapshot().loads.values()] == [4]

    def test_a_stay_has_one_load_and_whose_load_failed_does_not_wait_again(self):
        child = Child("a", answer=3)
        multi = promised(child)
        multi.finish_load(multi.begin_load(1, refs(0, 3), 3, now=0), ok=False)
        asked = child.asked
        assert multi.matched(1, CHAIN, 0) == 0
        assert child.asked == asked
        multi.finished(1)
        assert multi.matched(1, CHAIN, 0) == 3

    def test_a_promise_can_be_declined(self):
        child = Child("a", answer=3)
        multi = promised(child)
        multi.decline(1)
        assert child.held == {}
        assert multi.counters()["a"].pending_loads == 0
        assert multi.matched(1, CHAIN, 0) == 0

    def test_poll_takes_what_every_child_has_completed(self):
        a, b = Child("a", weight=9, answer=1), Child("b", answer=2)
        multi = promised(a, b)
        first = multi.begin_load(1, refs(0, 1), 1, now=0)
        a.answer = 0
        assert multi.matched(2, CHAIN, 0) == 2
        second = multi.begin_load(2, refs(0, 2), 2, now=0)
        a.completions, b.completions = [Completion(first, True)], [Completion(second, False)]
        assert [(end.request, end.outcome) for end in multi.poll()] == [(1, "loaded"), (2, "failed")]
        assert [counts.failed for counts in multi.counters().values()] == [0, 1]


class TestIllegalCalls:
    def test_they_change_nothing(self):
        child = Child("a", answer=3)
        multi = promised(child)
        before = multi.snapshot()
        twice = [*refs(0, 1), *refs(0, 1)]
        for illegal in (
            lambda: multi.matched(1, CHAIN, -1),
            lambda: multi.matched(2, CHAIN, -1),
            lambda: multi.decline(2),
            lambda: multi.begin_load(2, refs(0, 1), 1, now=7),
            lambda: multi.begin_load(1, refs(0, 3), 4, now=7),
            lambda: multi.begin_load(1, refs(0, 3), 0, now=7),
            lambda: multi.begin_load(1, [], 1, now=7),
            lambda: multi.begin_load(1, twice, 1, now=7),
            lambda: multi.begin_load(1, refs(3, 1), 1, now=7),  # Not held: the child refuses.
            lambda: multi.preempted([{1}, {1}]),
        ):
            with pytest.raises(RefusedError):
                illegal()
            assert multi.snapshot() == before
        multi.begin_load(1, refs(0, 3), 3, now=0)
        before = multi.snapshot()
        for illegal in (lambda: multi.matched(1, CHAIN, 0), lambda: multi.decline(1)):
            with pytest.raises(RefusedError):
                illegal()
            assert multi.snapshot() == before
        assert multi.finish_load(99, ok=True) is None
        assert multi.snapshot() == before


class TestLeaving:
    def test_h5_preemptions_reach_every_child_in_either_form(self):
        a, b = Child("a", answer=2), Child("b")
        multi = make(a, b)
        for request in (1, 2, 3):
            multi.matched(request, CHAIN, 0)
        job = multi.begin_load(2, refs(0, 2), 2, now=0)
        multi.preempted({1, 2, 9})
        assert a.preemptions == b.preemptions == [{1, 2, 9}]
        assert a.released == [(job, needed_keys(CHAIN, 0, 2))]
        assert (set(a.held), a.jobs) == ({3}, {})
        multi.preempted([set(), {3}])
        assert (a.preemptions[1:], b.preemptions[1:]) == ([set()], [{3}])
        assert a.held == {}
        assert multi.snapshot().requests == {}
        assert multi.counters()["a"].pending_loads == 0
        assert multi.finish_load(job, ok=True) is None

    def test_o8_a_request_may_finish_at_any_moment(self):
        child = Child("a", answer=2)
        multi = promised(child)
        multi.finished(1)
        multi.finished(1)
        assert child.held == {}
        multi.matched(1, CHAIN, 0)
        job = multi.begin_load(1, refs(0, 2), 2, now=0)
        multi.finished(1)
        assert child.released == [(job, needed_keys(CHAIN, 0, 2))]
        assert multi.counters()["a"].pending_loads == 0
        assert multi.finish_load(job, ok=True) is None


# With one thing broken each, the checks above must fail.


class ComputedOnly(MultiConnector):
    """S16: the computed count is given back, the external one is not."""

    def _end(self, job, outcome):
        stay = self._close(job)
        if outcome == "failed":
            stay.computed = 0
        return LoadEnd(job, 1, outcome, stay.computed, stay.external)


class NoneBlocksAll(MultiConnector):
    """S17: whoever has not resolved defers everybody."""

    def _is_deferred(self, answers):
        return None in answers


class NeverExpires(MultiConnector):
    """S18: a load may take for ever."""

    def expire(self, now):
        return ()


class LateCounts(MultiConnector):
    """S18: what completes late counts all the same."""

    def expire(self, now):
        self._late = dict(self._loads)
        return super().expire(now)

    def finish_load(self, job, *, ok):
        late = getattr(self, "_late", {})
        if job in late and job not in self._loads:
            self._stays[late[job].request].external = 3
        return super().finish_load(job, ok=ok)


class ReleasesTwice(MultiConnector):
    """S18: the late completion releases what the timeout has released."""

    def finish_load(self, job, *, ok):
        if job not in self._loads:
            self.children[0].release(job, ())
        return super().finish_load(job, ok=ok)


class LastOfEquals(MultiConnector):
    """The last of equals wins."""

    def _winner(self, answers: Sequence[int | None]):
        backwards = super()._winner([0 if a is None else a for a in answers])
        scores = [(a or 0) * weight for a, weight in zip(answers, self._weights, strict=True)]
        if backwards is None:
            return None
        return max(place for place, score in enumerate(scores) if score == max(scores))


@pytest.mark.parametrize(
    ("check", "broken"),
    [
        (check_failed_load, ComputedOnly),
        (check_unresolved_children_block_nobody, NoneBlocksAll),
        (check_timeout, NeverExpires),
        (check_timeout, LateCounts),
        (check_timeout, ReleasesTwice),
        (check_ties, LastOfEquals),
    ],
)
def test_what_is_broken_is_noticed(check, broken):
    check()
    with pytest.raises(AssertionError):
        check(broken)


# Any order of everything, against books kept the plain way.


class Place(NamedTuple):
    """Where a request stands."""

    phase: str
    computed: int = 0
    external: int = 0
    promised: int = 0
    child: int | None = None


class Machine(RuleBasedStateMachine):
    """Three children, four requests. Kept here: where each request stands, the loads in flight, those that ended."""

    requests = st.integers(1, 4)

    @initialize(
        dialect=st.sampled_from(["weighted", "first"]),
        max_pending=st.sampled_from([None, 1, 2]),
        weights=st.tuples(*[st.sampled_from([1, 2, 0.5, Fraction(1, 3)])] * 3),
    )
    def start(self, dialect, max_pending, weights):
        self.kids = [Child(name, weight) for name, weight in zip("abc", weights, strict=True)]
        self.multi = make(*self.kids, dialect=dialect, max_pending=max_pending)
        self.dialect, self.weights = dialect, weights
        self.bound = 99 if max_pending is None else max_pending
        self.now = 0
        assert self.multi.expire(self.now) == ()
        self.places: dict[RequestId, Place] = {}
        self.loads: dict[int, LoadSnapshot] = {}
        self.ended: list[int] = []
        self.counted: set[int] = set()

    def place(self, request: int) -> Place:
        return self.places.get(request, Place("absent"))

    def pending(self, index: int) -> int:
        """The loads that a child is chosen for or that are in flight."""
        promised = sum(place.phase == "promised" and place.child == index for place in self.places.values())
        return promised + sum(load.child == index for load in self.loads.values())

    def best(self, seen: list[int | None]) -> int | None:
        """Who wins."""
        best, score = None, Fraction(0)
        for index, answer in enumerate(seen):
            product = Fraction(answer or 0) * Fraction(self.weights[index])
            if product > score and (best is None or self.dialect == "weighted"):
                best, score = index, product
        return best

    @rule(request=requests, computed=st.integers(0, 2), answers=st.tuples(*[st.sampled_from([None, 0, 1, 2, 4])] * 3))
    def look(self, request, computed, answers):
        for child, answer in zip(self.kids, answers, strict=True):
            child.answer = answer
        phase = self.place(request).phase
        if phase == "loading":
            return
        if phase == "over":
            assert self.multi.matched(request, CHAIN, computed) == 0
            return
        self.places[request] = Place("open", computed)
        seen = [None if self.pending(index) >= self.bound else answer for index, answer in enumerate(answers)]
        got = self.multi.matched(request, CHAIN, computed)
        if (None in seen) if self.dialect == "first" else seen == [None] * 3:
            assert got is None
            return
        self.counted.add(request)
        best = self.best(seen)
        assert got == (0 if best is None else seen[best])
        if best is not None:
            self.places[request] = Place("promised", computed, 0, got or 0, best)

    @rule(request=requests, less=st.booleans(), passes=st.integers(-3, 1))
    def begin(self, request, less, passes):
        phase, computed, _, promised, child = self.place(request)
        if phase != "promised" or child is None:
            return
        tokens = 1 if less else promised
        told = self.now + passes
        self.now = max(self.now, told)
        job = self.multi.begin_load(request, refs(computed, tokens), tokens, told)
        assert job not in self.ended
        self.loads[job] = LoadSnapshot(request, child, needed_keys(CHAIN, computed, tokens), self.now + 10)
        self.places[request] = Place("loading", computed, tokens, 0, child)

    @rule(request=requests)
    def decline(self, request):
        place = self.place(request)
        if place.phase == "promised":
            self.multi.decline(request)
            self.places[request] = Place("over", place.computed)

    def end(self, job: int, outcome: Outcome) -> LoadEnd:
        """Note that a load ended, and return what must be said of it."""
        request = self.loads.pop(job).request
        self.ended.append(job)
        _, computed, external, *_ = self.places[request]
        self.places[request] = Place("over", computed, external if outcome == "loaded" else 0)
        return LoadEnd(job, request, outcome, computed, self.places[request].external)

    @precondition(lambda self: self.loads)
    @rule(data=st.data(), ok=st.booleans())
    def finish(self, data, ok):
        job = data.draw(st.sampled_from(sorted(self.loads)))
        assert self.multi.finish_load(job, ok=ok) == self.end(job, "loaded" if ok else "failed")

    @precondition(lambda self: self.ended)
    @rule(data=st.data(), ok=st.booleans())
    def late(self, data, ok):
        before = self.multi.snapshot()
        assert self.multi.finish_load(data.draw(st.sampled_from(self.ended)), ok=ok) is None
        assert self.multi.snapshot() == before

    @rule(passes=st.integers(-2, 11))
    def expire(self, passes):
        told = self.now + passes
        self.now = max(self.now, told)
        late = [job for job, load in self.loads.items() if load.deadline <= self.now]
        assert self.multi.expire(told) == tuple(self.end(job, "expired") for job in late)

    def gone(self, requests) -> None:
        """Forget requests, and the loads that were in flight for them."""
        for request in requests:
            self.places.pop(request, None)
            self.counted.discard(request)
        for job in [job for job, load in self.loads.items() if load.request in requests]:
            del self.loads[job]
            self.ended.append(job)

    @rule(parts=st.lists(st.sets(requests), min_size=3, max_size=3), one_set=st.booleans())
    def preempt(self, parts, one_set):
        told = [parts[0]] * 3 if one_set else parts
        self.multi.preempted(parts[0] if one_set else parts)
        assert [child.preemptions[-1] for child in self.kids] == told
        self.gone(set().union(*told))

    @rule(request=requests)
    def leave(self, request):
        self.multi.finished(request)
        self.gone([request])

    @invariant()
    def agrees(self):
        state = self.multi.snapshot()
        shown = {
            request: Place(entry.phase, entry.computed, entry.external, entry.promised, entry.child)
            for request, entry in state.requests.items()
        }
        assert shown == self.places
        assert {request for request, entry in state.requests.items() if entry.counted} == self.counted
        assert (state.now, state.loads) == (self.now, self.loads)
        for index, child in enumerate(self.kids):
            assert child.jobs == {job: load.keys for job, load in self.loads.items() if load.child == index}
            promised = {
                request for request, place in self.places.items() if place.phase == "promised" and place.child == index
            }
            assert promised <= set(child.held)
            # While a lookup is deferred, and only then, others that have resolved hold something too.
            extra = set(child.held) - promised
            assert all(self.places[request].phase == "open" and self.dialect == "first" for request in extra)
            counts = state.counters[index]
            assert counts.pending_loads == self.pending(index) <= self.bound
            assert counts.hits + counts.misses <= counts.queries
            assert counts.hits <= counts.hit_tokens


TestAnyOrder = Machine.TestCase
TestAnyOrder.settings = settings(stateful_step_count=40)
