"""The explorer's own parts: the set of states, traces, limits, and that it does not hide a fault of an interpreter."""

from __future__ import annotations

import math
from contextlib import suppress
from itertools import accumulate
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kvproof.checkers.confirming import Disagreement
from kvproof.checkers.explore import explore
from kvproof.checkers.growth import expected
from kvproof.checkers.prove import prove
from kvproof.checkers.transitions import transitions
from kvproof.checkers.visited import Full, StateSet
from kvproof.machine import Bool, Index, Machine, Map, Model, Scalar, action, invariant, sometimes
from kvproof.machine.concrete import Concrete
from kvproof.machine.layout import Layout
from kvproof.machine.scope import Scope, ScopeError
from kvproof.spec.pool import Pool

from . import pools
from .alloc import Alloc, scope

CPU = torch.device("cpu")


class Crowded(StateSet):
    """A set whose hash function is as bad as can be."""

    def _slots(self, words: torch.Tensor) -> torch.Tensor:
        return words[0] % 3


@pytest.mark.parametrize("kind", [StateSet, Crowded])
@settings(max_examples=50, deadline=None)
@given(batches=st.lists(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2**62)), max_size=40), max_size=6))
def test_a_set_of_states_is_a_set(kind: type[StateSet], batches: list[list[tuple[int, int]]]) -> None:
    seen = kind(2, device=CPU, capacity=4)
    expected: set[tuple[int, ...]] = set()
    for batch in batches:
        # Once more in reverse, so that equal states meet within one batch.
        doubled = batch + batch[::-1]
        before = seen.count
        seen.add(torch.tensor(doubled, dtype=torch.int64).reshape(-1, 2).T)
        arrived = {tuple(s) for s in seen.states(before, seen.count).T.tolist()}
        assert arrived == set(batch) - expected
        expected |= set(batch)
        assert seen.count == len(expected)


@pytest.mark.parametrize("words", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_a_large_set_grows_and_forgets_nothing(words: int) -> None:
    seen = StateSet(words, device=CPU)
    states = torch.randint(0, 1 << 30, (words, 300_000), generator=torch.Generator().manual_seed(1))
    seen.add(states)
    count = seen.count
    assert count == len(torch.unique(states, dim=1).T)
    seen.add(states.flip(1))
    assert seen.count == count
    assert seen.peak_bytes > count * 8 * words


@pytest.mark.slow
def test_states_of_several_words() -> None:
    """They take more than 63 bits; the counts are those of the concrete interpreter."""
    wide = pools.scope(blocks=3, null=0, caching=False, **pools.PARTIAL)
    assert Layout(wide.model, wide).words == 2
    visits = list(transitions(Pool, wide))
    report = explore(Pool, wide)
    assert (report.states, report.transitions) == (len(visits), sum(len(v.edges) for v in visits))


def test_a_crowded_table_gives_the_same_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvproof.checkers.explore.StateSet", Crowded)
    report = explore(Pool, pools.scope())
    assert (report.states, report.transitions) == (562, 3_966)


def test_the_limit_is_kept() -> None:
    report = explore(Alloc, scope(Alloc, 4, 2, 2), max_states=1_000)
    assert not report.complete
    assert report.violations == []
    assert 1_000 <= report.states < 31_833


def test_full_memory_ends_it_with_what_is_known() -> None:
    whole = explore(Alloc, scope(Alloc, 4, 2, 2))
    report = explore(Alloc, scope(Alloc, 4, 2, 2), max_bytes=250_000)
    assert (report.stopped, report.complete, report.limit_bytes) == ("memory", False, 250_000)
    assert report.peak_bytes <= 250_000
    assert 1_000 < report.states < whole.states
    assert 0 < report.explored_depth <= report.depth <= whole.depth
    assert (whole.stopped, whole.explored_depth) == (None, whole.depth)


def test_a_violation_among_the_states_that_were_reached_last_is_found() -> None:
    """The states of the level that was under way are judged too."""
    whole = explore(pools.ForgetKeepsTheMap, pools.scope())
    (found,) = whole.violations
    report = explore(pools.ForgetKeepsTheMap, pools.scope(), max_states=whole.states - 1)
    assert report.stopped == "states"
    assert [v.name for v in report.violations] == [found.name]
    assert report.violations[0].path == found.path


def test_a_set_keeps_to_its_limit_while_it_grows() -> None:
    seen = StateSet(2, device=CPU, limit=1 << 20)
    states = torch.arange(100_000, dtype=torch.int64).expand(2, -1)
    with pytest.raises(Full):
        seen.add(states)
    for start in range(0, states.shape[1], 1_000):
        with suppress(Full):
            seen.add(states[:, start : start + 1_000])
    assert 10_000 < seen.count < 60_000
    assert seen.peak_bytes <= 1 << 20
    assert torch.equal(seen.states(0, seen.count).sort(dim=1).values, states[:, : seen.count])


def test_how_many_states_there_will_be_is_guessed_from_how_their_number_grows() -> None:
    binomial = [0, *accumulate(math.comb(40, k) for k in range(41))]
    early = expected(binomial[:12])
    assert early is not None
    assert 2**40 / 50 < early < 2**40 * 50
    late = expected(binomial[:36])
    assert late is not None
    assert 0.9 < late / 2**40 < 1.1
    doubling = [0, *(2**k for k in range(12))]
    assert expected(doubling) == math.inf
    assert expected(doubling, most=2**20) == 2**20
    assert expected(doubling[:5]) is None


def test_what_is_hopeless_is_not_begun_unless_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvproof.checkers.explore._PILOT", range(1_000, 1_000_000))
    big = scope(Alloc, 12, 5, 3)
    report = explore(Alloc, big, max_bytes=1 << 20, anyway=False)
    assert report.stopped == "hopeless"
    assert report.expected is not None
    assert report.expected > 100 * (1 << 20) / 32
    assert explore(Alloc, big, max_bytes=1 << 20).stopped == "memory"


def test_progress_is_told() -> None:
    told: list[tuple[int, int, int]] = []
    report = explore(Alloc, scope(Alloc, 3, 2, 2), on_progress=lambda *numbers: told.append(numbers))
    assert told == sorted(told)
    assert told[-1][:2] == (report.states, report.transitions)


def test_leaving_the_scope_says_which_size_to_enlarge() -> None:
    narrow = pools.scope()
    narrow.sizes["Int"] = 1
    with pytest.raises(ScopeError, match=r"a value of length leaves the scope, where it is 0 to 1; give Int a greater"):
        explore(Pool, Scope(narrow.model, narrow.sizes, narrow.params))


class Row(Index):
    pass


class Table(Machine):
    """A table that is filled row by row; the length of a full one is the number behind its last row."""

    length = Scalar(to=Row)
    filled = Map(Row, to=Bool)

    @action("X")
    def append(self) -> None:
        self.require(Row.has(self.length.value))
        self.filled[self.length.value] = True
        self.length.value = self.length.value + 1

    @invariant("X")
    def what_is_behind_is_empty(self, r: Row) -> Bool:
        return self.filled[r] == (r < self.length.value)

    @sometimes("X")
    def it_is_full(self) -> Bool:
        return ~Row.has(self.length.value)


@pytest.mark.parametrize("rows", [1, 2, 3, 4])
def test_an_index_may_be_the_number_behind_the_last(rows: int) -> None:
    assert prove(Table).holds
    report = explore(Table, Scope(Model.of(Table), {"Row": rows}))
    assert report.complete
    assert (report.states, report.unreached, report.violations) == (rows + 1, [], [])


def test_parameters_that_break_an_assumption_are_refused() -> None:
    with pytest.raises(ScopeError, match="the_last_token_is_computed"):
        explore(Pool, pools.scope(limit=[2, 2]))


def test_a_fault_of_an_interpreter_is_not_reported_as_one_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    mutant = pools.ForgetKeepsTheMap
    monkeypatch.setattr(Concrete, "violations", lambda *_: [])
    with pytest.raises(Disagreement, match="holds in the concrete interpreter"):
        explore(mutant, pools.scope(mutant))


def test_every_visit_can_be_replayed() -> None:
    small = pools.scope()
    concrete = Concrete(small.model, small)
    states: dict[Any, Any] = {}
    for visit in transitions(Pool, small, max_states=200):
        state = concrete.initial()
        for name, args in visit.path:
            assert concrete.is_enabled(state, name, args)
            concrete.apply(state, name, args)
        assert concrete.key(state) == visit.key
        assert concrete.describe(state) == visit.state
        states[visit.key] = visit
    assert len(states) == 200
