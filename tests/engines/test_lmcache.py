"""LMCache's backend of chunks: what its level tells, and that each oracle sees the release broken in one way."""

import atexit
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kvproof.engines.cases import Cases
from kvproof.engines.catalog import ENGINES
from kvproof.engines.session import Limits, Session
from kvproof.engines.verdicts import close, verdict
from kvproof.judge.record import Answer, Case

from .installed import engine
from .toys import FAKES

NEWEST = "0.5.6"
ADAPTERS = Path(__file__).parents[2] / "kvproof/engines/lmcache/worker"

Op = tuple[str, dict[str, Any]]
PLAIN: dict[str, Any] = {"policy": "LRU", "units": 8, "sizes": [4, 4, 4]}


@cache
def broken() -> Session:
    """A session with the release, broken as a setup says: not at all where it says nothing."""
    build = engine(NEWEST, "lmcache")
    environment = {**build.environment(), "KVPROOF_TEST_ADAPTERS": str(ADAPTERS)}
    limits = Limits(start=300, operation=20, answer=120)
    made = Session.around(FAKES / "broken_lmcache.py", build.python, environment, limits)
    atexit.register(made.close)
    return made


def level() -> Cases:
    found = ENGINES["lmcache"].cases("offload")
    assert found is not None
    return found


def fault(setup: dict[str, Any], *ops: Op) -> tuple[tuple[str, str] | None, Answer]:
    """The rule that the closed case breaks, and what noticed."""
    found, told = verdict(broken(), close(Case("offload", setup, list(ops))), level().more_oracles)
    assert told.refused is None, told.refused
    return (None if found is None else (found.violation.rule, found.violation.oracle)), told


def store(*keys: int, **more: int) -> Op:
    return "store", {"keys": list(keys), **more}


def lookup(*keys: int, **more: int) -> Op:
    return "lookup", {"keys": list(keys), **more}


LOAD: Op = ("load", {"which": 0})
PUT: Op = ("put", {"which": 0})
UNPIN: Op = ("unpin", {"which": 0})

FAULTS: dict[str, tuple[list[Op], tuple[str, str]]] = {
    "evicts what is pinned": ([store(0, 1), lookup(0, 1), store(2)], ("O12", "evicts a pinned entry")),
    "evicts nothing": ([store(0, 1), store(2)], ("O12", "refused with enough evictable")),
    "not counted": ([store(0), lookup(0), LOAD], ("P2", "ref_cnt and holders")),
    "never unpinned": ([store(0), lookup(0), UNPIN], ("P2", "ref_cnt and holders")),
    "freed while held": ([store(0)], ("P2", "negative ref_cnt")),
    "half is lost": ([store(0, 1), store(2)], ("P2", "ref_cnt and holders")),
    "one place for all": ([store(0, 1, later=1), PUT, lookup(0, 1), LOAD], ("P2", "ref_cnt and holders")),
    "finds nothing": ([store(0), lookup(0)], ("P5", "a lookup finds what is there")),
    "never freed": ([store(0)], ("P2", "ref_cnt and holders")),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_broken_release_is_noticed_and_a_sound_one_is_not(name: str) -> None:
    ops, rule = FAULTS[name]
    found, told = fault(PLAIN, *ops)
    assert found is None
    assert not any(step.error for step in told.steps)
    assert fault({**PLAIN, "fault": name}, *ops)[0] == rule


FINDINGS: dict[str, tuple[dict[str, Any], list[Op], tuple[str, str]]] = {
    "finding 33": (
        {**PLAIN, "policy": "LFU", "layers": 1, "sizes": [4] * 4}, [store(0, 1), store(2, 3)],
        ("O12", "refused with enough evictable"),
    ),
    "finding 34": (PLAIN, [store(0), lookup(0, remove=1)], ("L2", "exception")),
    "finding 35": (
        {**PLAIN, "layers": 2}, [store(0, later=1), PUT, ("clear", {}), PUT],
        ("P5", "a chunk with some of its layers"),
    ),
    "finding 36": ({**PLAIN, "tensors": 2, "paged": True, "sizes": [2]}, [store(0)], ("L2", "exception")),
    "finding 37": (
        PLAIN, [store(0), lookup(0), ("remove", {"keys": [0]}), store(0), lookup(0), UNPIN],
        ("P2", "ref_cnt and holders"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FINDINGS)
def test_what_was_found_is_found(name: str) -> None:
    setup, ops, rule = FINDINGS[name]
    assert fault(setup, *ops)[0] == rule


def test_chunks_without_what_is_known_are_silent() -> None:
    made = level().traits
    assert made is not None
    traits, families = made(NEWEST), level().profiles(NEWEST)

    @settings(max_examples=60, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(st.one_of(*families.values()))
    def silent(case: Case) -> None:
        case = traits.only(case, {"layers", "pages", "MRU", "FIFO", "interleaved stores", "short chunks"})
        assert fault(case.setup, *case.ops)[0] is None

    broken()
    silent()


def test_what_the_release_or_the_adapter_does_not_know_is_refused() -> None:
    for more, why in (
        ({"colour": 1}, "no option colour"),
        ({"policy": "ARC"}, "policy is one of"),
        ({"sizes": [5]}, "a chunk has 1 to 4 tokens"),
        ({"fault": "drifted"}, "LocalCPUBackend.remove takes self, key, not"),
    ):
        told = broken().run(Case("offload", {**PLAIN, **more}, [])).answer
        assert told.refused is not None
        assert why in told.refused
