"""Transformers' continuous batching: what its levels tell, and that each oracle sees the release broken in one way."""

from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kvproof.engines.cases import Cases
from kvproof.engines.catalog import ENGINES
from kvproof.engines.session import Session
from kvproof.engines.verdicts import close, verdict
from kvproof.judge.record import Answer, Case

from .installed import broken_session

NEWEST = "5.24.0"

Op = tuple[str, dict[str, Any]]
FULL = {"layers": ["full"], "page": 4, "blocks": 6}
HYBRID = {"layers": ["full", "window", "window"], "page": 4, "blocks": 6, "window": 5}


@cache
def broken() -> Session:
    """The release, broken as a setup says: not at all where it says nothing."""
    return broken_session(NEWEST, "transformers")


def of(level: str) -> Cases:
    found = ENGINES["transformers"].cases(level)
    assert found is not None
    return found


def fault(case: Case) -> tuple[tuple[str, str] | None, Answer]:
    """The rule that the closed case breaks, and what noticed."""
    found, told = verdict(broken(), close(case), of(case.level).more_oracles)
    assert told.refused is None, told.refused
    return (None if found is None else (found.violation.rule, found.violation.oracle)), told


def start(*tokens: int) -> Op:
    return "start", {"tokens": list(tokens)}


def grow(most: int, pick: int = 0) -> Op:
    return "grow", {"most": most, "pick": pick}


def add(*tokens: int, most: int = 1) -> Op:
    return "add", {"tokens": list(tokens), "most": most}


STEP: Op = ("step", {"token": 0})
FINISH: Op = ("finish", {"pick": 0})
AGAIN = [start(*[0] * 9), grow(9), start(*[0] * 9), grow(9, 1)]
STARVED = [add(*[0] * 8, most=5), add(*[1] * 8, most=5), add(*[2] * 8, most=5), STEP, STEP, STEP, STEP]

FAULTS: dict[str, tuple[str, dict[str, Any], list[Op], tuple[str, str]]] = {
    "freed twice": ("pool", FULL, [start(0, 0), grow(2), FINISH], ("P3", "block queued twice")),
    "not counted": ("pool", FULL, AGAIN, ("P2", "ref_cnt and holders")),
    "lost": ("pool", FULL, [start(*[0] * 4), grow(4), FINISH], ("P2", "ref_cnt and holders")),
    "short hit": ("manager", FULL, AGAIN, ("P14", "a shorter hit than what is cached")),
    "whole hit": ("manager", FULL, [start(*[0] * 8), grow(8), start(*[0] * 8)], ("P14", "length of a hit")),
    "one key": ("manager", FULL, [start(0, 1, 1, 1), start(0, 2, 2, 2)], ("P13", "one key, two contents")),
    "not registered": (
        "manager", FULL, [start(*[0] * 9), grow(9)], ("P14", "what was computed is not cached"),
    ),
    "not kept": ("pool", FULL, [start(*[0] * 9), grow(9), FINISH], ("P14", "what was computed is not cached")),
    "kept for ever": (
        "manager", FULL, [start(*[0] * 9), grow(9), ("finish", {"pick": 0, "drop": 1})],
        ("P11", "evict leaves an entry"),
    ),
    "always evicts": ("manager", FULL, [start(0), ("evict", {})], ("P11", "what an evict says")),
    "shares always": (
        "pool", {**FULL, "sharing": False}, [start(*[0] * 9), grow(9)], ("P14", "kept though nothing is to be"),
    ),
    "greedy": (
        "pool", {**FULL, "layers": ["window"], "window": 8, "blocks": 1}, [start(0), grow(1)],
        ("P7", "refused though there is room"),
    ),
    "one behind": ("pool", FULL, [start(*[0] * 6), grow(3), grow(3)], ("P6", "a forward pass read")),
    "small ring": ("manager", HYBRID, [start(*[0] * 9), grow(3), grow(3), grow(3)], ("P6", "a forward pass read")),
    "half a fork": (
        "manager", HYBRID, [start(*[0] * 6), grow(6), ("fork", {}), grow(1, 1)], ("P6", "a forward pass read"),
    ),
    "partly stored": (
        "manager", {**FULL, "blocks": 2}, [start(*[0] * 12), grow(12)], ("P7", "a refused admission changes something"),
    ),
    "never freed": ("scheduler", FULL, [add(0, 1), STEP], ("L2", "blocks held for ever")),
    "not restored": ("scheduler", {**FULL, "blocks": 5, "host": 8}, STARVED, ("P6", "a forward pass read")),
    "host leak": (
        "scheduler", {**FULL, "blocks": 5, "host": 8}, [*STARVED, ("cancel", {"pick": 1}), STEP],
        ("L2", "blocks held for ever"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_broken_release_is_noticed_and_a_sound_one_is_not(name: str) -> None:
    level, setup, ops, rule = FAULTS[name]
    found, told = fault(Case(level, setup, ops))
    assert found is None
    assert not any(step.error for step in told.steps)
    assert fault(Case(level, {**setup, "fault": name}, ops))[0] == rule


@pytest.mark.parametrize("level", ["pool", "manager"])
def test_caches_are_silent(level: str) -> None:
    families = of(level).profiles(NEWEST)

    @settings(
        max_examples=400,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.one_of(*families.values()))
    def silent(case: Case) -> None:
        assert fault(case)[0] is None

    broken()
    silent()


def test_what_is_read_back_is_what_was_written_windows_included() -> None:
    _, told = fault(Case("scheduler", HYBRID, [add(*[0] * 6, most=3), STEP, STEP]))
    reads = [effect for step in told.steps[:3] for effect in step.effects if effect[0] == "read"]
    assert reads[3:] == [
        ["read", "r0", 0, [0, 1, 2, 3, 4, 5, 4102]],
        ["read", "r0", 1, [2, 3, 4, 5, 4102]],
        ["read", "r0", 2, [2, 3, 4, 5, 4102]],
    ]


def test_unequal_blocks_are_runs_of_pages_that_nobody_has_twice() -> None:
    _, told = fault(Case("scheduler", HYBRID, [add(*[0] * 6, most=3), STEP]))
    state = told.steps[1].state
    assert state is not None
    pages = [page for table in state.tables["r0"] for page in table]
    assert len(pages) == len(set(pages)) == 6
    assert sorted(pages + (state.pools["device"].free or [])) == [*range(18)]


def test_what_the_release_or_the_adapter_does_not_know_is_refused() -> None:
    for more, why in (
        ({"colour": 1}, "no option colour"),
        ({"page": 2}, "page_size must be at least 4"),
        ({"fault": "drifted"}, "PagedAttentionCache.free_blocks takes self, request, not"),
    ):
        told = broken().run(Case("scheduler", {**FULL, **more}, [])).answer
        assert told.refused is not None
        assert why in told.refused


@pytest.mark.parametrize("level", ["scheduler", "manager", "pool"])
def test_a_case_loses_every_trait_that_it_has(level: str) -> None:
    made = of(level).traits
    assert made is not None
    traits = made(NEWEST)

    @settings(max_examples=60, deadline=None)
    @given(st.one_of(*of(level).profiles(NEWEST).values()))
    def loses(case: Case) -> None:
        assert set(traits.only(case, ()).setup["layers"]) == {"full"}
        assert not traits.of(traits.only(case, ()))

    loses()
