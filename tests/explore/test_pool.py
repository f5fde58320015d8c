"""Machine P, exhaustively in small scopes: its own counts of states, and what its mutants are caught by."""

from __future__ import annotations

from typing import Any

import pytest

from kvproof.checkers.explore import explore
from kvproof.checkers.transitions import transitions
from kvproof.machine import Machine, Model
from kvproof.machine.scope import Scope
from kvproof.spec.pool import Pool
from kvproof.spec.pool.calls import Calls
from kvproof.spec.pool.deferred import Deferred
from kvproof.spec.pool.lengths import Lengths
from tests.smt import broken_lengths

from ..marks import slow_but
from . import pools
from .chains import alone

# What differs from `pools.PLAIN`; then states, transitions and depth.
GOLDEN: dict[str, tuple[dict[str, Any], int, int, int]] = {
    "two blocks": ({}, 562, 3_966, 12),
    "two blocks, split": ({"split": True}, 554, 3_910, 12),
    "three blocks": ({"blocks": 3}, 6_702, 55_854, 19),
    "null block": ({"blocks": 3, "null": 0}, 2_274, 20_436, 14),
    "null block, split": ({"blocks": 3, "null": 0, "split": True}, 2_242, 20_148, 15),
    "no caching": ({"blocks": 3, "caching": False}, 1_344, 9_708, 11),
    "chain": ({"blocks": 3, **pools.CHAINED}, 13_974, 119_874, 21),
    "chain, split": ({"blocks": 3, "split": True, **pools.CHAINED}, 13_782, 119_076, 22),
}
LARGE: dict[str, tuple[dict[str, Any], int, int, int]] = {
    "half and full": ({"blocks": 3, "null": 0, "split": True, **pools.PARTIAL}, 29_866, 316_448, 18),
    "four blocks": ({"blocks": 4}, 101_712, 947_496, 24),
    "three whole blocks, half and full": ({"blocks": 3, **pools.PARTIAL}, 261_726, 2_749_110, 25),
}
# Without sharing or without scarcity some things cannot happen.
UNREACHED = {
    "no caching": ["a_block_is_shared", "a_hash_has_two_blocks", "a_free_block_can_still_be_found"],
    "four blocks": ["the_pool_is_exhausted"],
}
SMALL = [name for name, (_, states, _, _) in GOLDEN.items() if states < 2_500]


@pytest.mark.parametrize(
    "name", slow_but([*GOLDEN, *LARGE], [n for n in GOLDEN if n not in ("three blocks", "chain, split")])
)
def test_counts_and_properties(name: str) -> None:
    dialect, *counts = (GOLDEN | LARGE)[name]
    report = explore(Pool, pools.scope(**dialect))
    assert report.violations == []
    assert report.complete
    assert [report.states, report.transitions, report.depth] == counts
    assert report.unreached == UNREACHED.get(name, [])


def test_calls_that_may_be_refused_lead_nowhere_else() -> None:
    """The states are those of P, and each action's end can be reached by what P itself allows."""
    report = explore(Calls, pools.scope(Calls))
    assert (report.violations, report.complete) == ([], True)
    assert report.states == GOLDEN["two blocks"][1]
    assert report.transitions > GOLDEN["two blocks"][2]


TWO_TOKENS: dict[str, Any] = {"tokens": [2, 2], "block_tokens": 1, "need": [3, 3]}


def of_two_tokens(machine: type[Machine], limit: int) -> Scope:
    """Two requests of two blocks and of what they go on to write, both of which can be cached."""
    three = {"prompt": [[0, 1, 1]] * 2, "limit": [limit] * 2, "blocks": 3}
    return pools.scope(machine, **pools.CHAINED | three | TWO_TOKENS)


@pytest.mark.slow
def test_a_lookup_ends_before_the_last_token() -> None:
    report = explore(Lengths, of_two_tokens(Lengths, 1))
    assert (report.violations, report.complete, report.unreached) == ([], True, [])


@pytest.mark.parametrize(("mutant", "prop", "limit"), broken_lengths.BROKEN)
def test_a_limit_that_does_not_follow_from_the_length_is_found(mutant: type[Machine], prop: str, limit: int) -> None:
    found = explore(mutant, of_two_tokens(mutant, limit)).violations
    assert prop in {v.name for v in found}


def test_what_is_left_behind_waits_for_the_last_step_that_reads_it() -> None:
    """One request that comes back to what it left behind, and two steps."""
    scope = pools.scope(Deferred, prompt=[[0, 0]], limit=[1], need=[2], more={"Request": 1, "Pass": 2, "Int": 6})
    report = explore(Deferred, scope)
    assert (report.violations, report.complete, report.unreached) == ([], True, [])
    assert (report.states, report.transitions) == (2_384, 11_692)


@pytest.mark.parametrize("name", slow_but(SMALL, {"two blocks", "no caching"}))
def test_one_state_at_a_time_the_counts_are_the_same(name: str) -> None:
    dialect, *counts = GOLDEN[name]
    visits = list(transitions(Pool, pools.scope(**dialect)))
    assert [len(visits), sum(len(v.edges) for v in visits), max(len(v.path) for v in visits)] == counts
    keys = {v.key for v in visits}
    assert len(keys) == len(visits)
    assert {e.successor for v in visits for e in v.edges} | {visits[0].key} == keys


ALLOCATED = [("admit", (0,)), ("allocate", (0, 1))]
REGISTERED = [*ALLOCATED, ("write", (0, 0, 0, 0)), ("register", (0, 0, 0))]
MUTANTS: list[tuple[type[Machine], str, str, list[tuple[str, tuple[int, ...]]]]] = [
    (pools.ForgetKeepsTheMap, "invariant", "the_map_and_the_blocks_agree", [*REGISTERED, ("evict", (0,))]),
    (pools.AllocateWithoutRemoving, "step", "allocation_takes_the_head_in_order", ALLOCATED),
    (pools.TakeFromTheTail, "step", "allocation_takes_the_head_in_order", ALLOCATED),
    (pools.RemoveTwice, "ill-formed", "an element is removed from free, where it does not stand", ALLOCATED),
]


@pytest.mark.parametrize(("mutant", "kind", "name", "path"), MUTANTS, ids=lambda x: getattr(x, "__name__", None))
def test_mutants_are_caught_with_a_shortest_trace(
    mutant: type[Machine], kind: str, name: str, path: list[tuple[str, tuple[int, ...]]]
) -> None:
    report = explore(mutant, pools.scope(mutant))
    assert not report.complete
    (finding,) = report.violations
    assert (finding.kind, finding.name, finding.path) == (kind, name, path)


def test_a_release_while_referenced_is_caught() -> None:
    """Two holders are needed, so the trace is longer: a hash must be registered and found before the first lets go."""
    report = explore(pools.ReleaseWhileReferenced, pools.scope(pools.ReleaseWhileReferenced))
    assert {f.name for f in report.violations} == {
        "every_block_is_free_or_referenced",
        "free_exactly_when_unreferenced",
    }
    for finding in report.violations:
        assert [s.action for s in finding.trace].count("hit") == 1
        assert len(finding.trace) == 7
        last = finding.trace[-1].state
        assert last is not None
        assert any(last["ref_cnt"][b] > 0 for b in last["free"])


@pytest.mark.parametrize("join", ["_join_tail", "_join_head"])
def test_a_released_block_in_the_wrong_place_is_caught(join: str) -> None:
    """P10, whichever end is the wrong one."""
    wrong = {
        "_join_tail": lambda self, b: self.free.push_front(b),
        "_join_head": lambda self, b: self.free.push_back(b),
    }
    mutant = type("Misplaced", (Pool,), {join: wrong[join]})
    report = explore(mutant, pools.scope(mutant, blocks=3, split=True))
    assert "released_blocks_go_where_the_dialect_says" in {f.name for f in report.violations}


def test_without_checks_a_fault_is_not_looked_for() -> None:
    mutant = pools.AllocateWithoutRemoving
    by_steps = explore(mutant, pools.scope(mutant))
    without = explore(mutant, pools.scope(mutant), steps=False)
    assert [f.kind for f in by_steps.violations] == ["step"]
    assert {f.kind for f in without.violations} == {"invariant"}


def test_what_is_never_reached_is_named() -> None:
    report = explore(alone(Model.of(pools.NeverShared), "a_block_is_shared"), pools.scope(pools.NeverShared))
    assert report.violations == []
    assert report.unreached == ["a_block_is_shared"]
