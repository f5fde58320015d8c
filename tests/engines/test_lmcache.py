"""LMCache's engine and its backend of chunks: what their levels tell, and that each oracle sees the release broken in
one way."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kvproof.engines.cases import Cases
from kvproof.engines.catalog import ENGINES, levels_of_release
from kvproof.engines.known import Listed, read_known
from kvproof.engines.session import Session
from kvproof.engines.verdicts import close, verdict
from kvproof.judge.record import Answer, Case
from kvproof.judge.violation import Violation

from .installed import broken_session, session

NEWEST = "0.5.6"
DOCS = Path(__file__).parents[2] / "docs"

Op = tuple[str, dict[str, Any]]
PLAIN: dict[str, Any] = {"policy": "LRU", "units": 8, "sizes": [4, 4, 4]}
WHOLE: dict[str, Any] = {"policy": "LRU", "units": 8}
L1: dict[str, Any] = {"policy": "LRU", "units": 12, "ratio": 1.0}


@cache
def broken() -> Session:
    """The release, broken as a setup says: not at all where it says nothing."""
    return broken_session(NEWEST, "lmcache")


def level(name: str) -> Cases:
    found = ENGINES["lmcache"].cases(name)
    assert found is not None
    return found


def level_of(setup: dict[str, Any]) -> str:
    """The level that takes a setup: each has one option that the others do not know."""
    return "offload" if "sizes" in setup else "l1" if "ratio" in setup else "engine"


def fault(setup: dict[str, Any], *ops: Op) -> tuple[tuple[str, str] | None, Answer]:
    """The rule that the closed case breaks, and what noticed."""
    name = level_of(setup)
    found, told = verdict(broken(), close(Case(name, setup, list(ops))), level(name).more_oracles)
    assert told.refused is None, told.refused
    return (None if found is None else (found.violation.rule, found.violation.oracle)), told


def arrive(*runs: tuple[int, int], **more: int) -> Op:
    return "arrive", {"runs": [list(run) for run in runs], **more}


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
    "evicts first": ([store(0), store(1)], ("O12", "evicts more than it needs")),
    "refuses all": ([store(0)], ("O12", "refused with room")),
    "stores nothing": ([store(0)], ("P5", "what is stored is there")),
    "clears none": ([store(0), ("clear", {})], ("P11", "what is cleared is gone")),
    "clears silently": ([store(0), ("clear", {})], ("P15", "what a clear says")),
    "finds nothing": ([store(0), lookup(0)], ("P5", "a lookup finds what is there")),
    "never freed": ([store(0)], ("P2", "ref_cnt and holders")),
}


BEGIN: Op = ("begin", {})
LAYER: Op = ("layer", {})
FINISH: Op = ("finish", {})
SERVED = [arrive((1, 9)), BEGIN, FINISH]

OF_THE_ENGINE: dict[str, tuple[list[Op], tuple[str, str]]] = {
    "evicts what is pinned": (
        [*SERVED, arrive((2, 4)), arrive((1, 9)), BEGIN, FINISH], ("O12", "evicts a pinned entry")
    ),
    "evicts nothing": ([*SERVED, arrive((2, 5)), BEGIN, FINISH], ("O12", "refused with enough evictable")),
    "finds nothing": ([*SERVED, arrive((1, 9))], ("P5", "a lookup finds what is there")),
    "never undone": ([*SERVED, arrive((1, 9)), ("abort", {"which": 0})], ("P2", "ref_cnt and holders")),
    "clears nothing": ([*SERVED, ("clear", {"runs": [[1, 4]]})], ("P11", "what is cleared is gone")),
    "any prefix": ([arrive((1, 4), (2, 4)), arrive((2, 4))], ("P13", "one key, two contents")),
    "the wrong way round": ([*SERVED, arrive((1, 9)), BEGIN, FINISH], ("P6", "a forward pass read")),
}  # fmt: skip


DONE: Op = ("finish", {"which": 0})
READ: Op = ("read", {"which": 0})
EVICT: Op = ("evict", {})

OF_L1: dict[str, tuple[list[Op], tuple[str, str]]] = {
    "never given back": ([store(0), DONE, ("delete", {"keys": [0]})], ("P3", "counter of the free queue")),
    "never done": ([store(0), DONE, lookup(0), READ], ("P2", "ref_cnt and holders")),
    "deletes what is read": ([store(0), DONE, lookup(0), ("delete", {"keys": [0]})], ("P2", "ref_cnt and holders")),
    "takes nothing": ([store(0), DONE, EVICT], ("O12", "evicts nothing though it could")),
    "tells no deletion": ([store(0), DONE, ("delete", {"keys": [0]})], ("P12", "events and map")),
    "leaves all": ([store(0), DONE, ("clear", {})], ("P11", "what is cleared is gone")),
}  # fmt: skip


@pytest.mark.parametrize(
    ("setup", "name"),
    [(PLAIN, name) for name in FAULTS] + [(WHOLE, name) for name in OF_THE_ENGINE] + [(L1, name) for name in OF_L1],
)
def test_a_broken_release_is_noticed_and_a_sound_one_is_not(setup: dict[str, Any], name: str) -> None:
    ops, rule = {"offload": FAULTS, "engine": OF_THE_ENGINE, "l1": OF_L1}[level_of(setup)][name]
    found, told = fault(setup, *ops)
    assert found is None
    assert not any(step.error for step in told.steps)
    assert fault({**setup, "fault": name}, *ops)[0] == rule


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
    "finding 84": ({**PLAIN, "layers": 2}, [store(0), ("clear", {})], ("P15", "what a clear says")),
    "finding 36": ({**PLAIN, "tensors": 2, "paged": True, "sizes": [2]}, [store(0)], ("L2", "exception")),
    "finding 37": (
        PLAIN, [store(0), lookup(0), ("remove", {"keys": [0]}), store(0), lookup(0), UNPIN],
        ("P2", "ref_cnt and holders"),
    ),
    "finding 37, by requests": (
        WHOLE,
        [*SERVED, arrive((1, 5)), ("clear", {"runs": [[1, 4]]}), arrive((1, 6)), ("begin", {"first": 1}), FINISH,
         arrive((1, 5)), BEGIN],
        ("P2", "ref_cnt and holders"),
    ),
    "finding 42": (
        {**WHOLE, "layers": 1}, [*SERVED, ("clear", {"runs": [[1, 4]]})], ("P11", "what is cleared is gone")
    ),
    "finding 43": (
        {**WHOLE, "layers": 1}, [*SERVED, arrive((1, 5)), arrive((1, 5)), BEGIN, FINISH],
        ("P2", "ref_cnt and holders"),
    ),
    "finding 44": (
        {**WHOLE, "layers": 1}, [*SERVED, arrive((1, 5)), arrive((2, 8)), arrive((1, 5))], ("L2", "exception")
    ),
    "finding 45": ({**WHOLE, "layers": 2}, [arrive((1, 4)), BEGIN, LAYER, LAYER, arrive((1, 4))],
        ("P2", "ref_cnt and holders"),
    ),
    "finding 46": ({**WHOLE, "layers": 1}, [("freeze", {"on": 1}), arrive((1, 4))], ("L2", "exception")),
    "finding 47": (
        {**WHOLE, "prefetch": True}, [*SERVED, arrive((1, 5)), BEGIN, FINISH], ("P2", "negative ref_cnt")
    ),
    "finding 48": (
        {**WHOLE, "prefetch": True}, [*SERVED, arrive((1, 9), skip=4), BEGIN], ("P2", "ref_cnt and holders")
    ),
    "finding 49": (
        L1, [("prefetch", {"keys": [0]}), store(0), DONE, DONE, READ], ("P5", "an entry is lost")
    ),
    "finding 50": (
        {**L1, "ratio": 0.2},
        [("prefetch", {"keys": [0]}), store(0), ("finish", {"which": 1}), store(1), ("finish", {"which": 1}), EVICT],
        ("O12", "evicts nothing though it could"),
    ),
    "finding 51": (
        L1, [("prefetch", {"keys": [0]}), store(0), DONE, READ, ("tick", {"hundreds": 6}), EVICT],
        ("O12", "evicts nothing though it could"),
    ),
    "finding 51, cleared": (
        L1,
        [("prefetch", {"keys": [0]}), store(0), ("finish", {"which": 1}), ("clear", {}), ("tick", {"hundreds": 6}),
         EVICT],
        ("O12", "evicts nothing though it could"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FINDINGS)
def test_what_was_found_is_found(name: str) -> None:
    setup, ops, rule = FINDINGS[name]
    of = level_of(setup)
    found, _ = verdict(broken(), close(Case(of, setup, ops)), level(of).more_oracles)
    assert found is not None
    assert next(v for v in found.violations if v.oracle != "what a clear says" or name == "finding 84").rule == rule[0]


def told_of(setup: dict[str, Any], *ops: Op) -> list[Violation]:
    """What the first step that is wrong breaks."""
    found, _ = verdict(broken(), close(Case(level_of(setup), setup, list(ops))), level("engine").more_oracles)
    assert found is not None
    return [found.violation, *found.also]


def test_what_is_known_of_prefetching_hides_nothing_else() -> None:
    listed = Listed(read_known(DOCS / "known.toml"), "lmcache", NEWEST)
    prefetch = {**WHOLE, "prefetch": True}
    seen = told_of(prefetch, *FINDINGS["finding 47"][1])
    assert {violation.rule for violation in seen} == {"P2", "P3"}
    assert listed.why(seen[0], "engine", {"prefetch"})
    (beside, *_) = told_of({**prefetch, "fault": "crosses what is prefetched"}, *SERVED, arrive((1, 9)), BEGIN)
    assert (beside.rule, beside.oracle) == ("P6", "a forward pass read")
    assert listed.why(beside, "engine", {"prefetch"}) is None


@pytest.mark.parametrize(
    ("name", "traits"),
    [
        # Layers of stores that come between each other are finding 35.
        ("offload", {"layers", "pages", "MRU", "FIFO", "short chunks"}),
        ("offload", {"interleaved stores", "pages", "MRU", "FIFO", "short chunks"}),
        ("engine", {"short chunks", "MRU", "FIFO", "LFU", "freeze", "clear", "abort", "computed here",
                    "several requests in a pass", "out of turn"}),
        ("l1", {"ARC", "failed write", "several readers", "readers", "crash", "clear", "delete", "touch",
                "eviction"}),
    ],
)  # fmt: skip
def test_chunks_without_what_is_known_are_silent(name: str, traits: set[str]) -> None:
    made = level(name).traits
    assert made is not None
    known, families = made(NEWEST), level(name).profiles(NEWEST)

    @settings(max_examples=150, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(st.one_of(*families.values()))
    def silent(case: Case) -> None:
        case = close(known.only(case, traits))
        # A clear of layers counts two tokens for each (finding 84), which leaves everything as it is.
        found, told = verdict(broken(), case, level(name).more_oracles, {("P15", "what a clear says")})
        assert told.refused is None, told.refused
        assert found is None, found.violation

    broken()
    silent()


def test_what_the_release_or_the_adapter_does_not_know_is_refused() -> None:
    for setup, more, why in (
        (PLAIN, {"colour": 1}, "no option colour"),
        (PLAIN, {"policy": "ARC"}, "policy is one of"),
        (PLAIN, {"sizes": [5]}, "a chunk has 1 to 4 tokens"),
        (PLAIN, {"fault": "drifted"}, "LocalCPUBackend.remove takes self, key, not"),
        (WHOLE, {"colour": 1}, "no option colour"),
        (WHOLE, {"layers": 1, "prefetch": True}, "is not prefetched"),
        (L1, {"colour": 1}, "no option colour"),
        (L1, {"fault": "drifted memory"}, "L1Manager.is_key_evictable takes self, k, not"),
        (WHOLE, {"fault": "drifted engine"}, "LMCacheEngine.lookup_unpin takes self, request, not"),
    ):
        told = broken().run(Case(level_of(setup), {**setup, **more}, [])).answer
        assert told.refused is not None
        assert why in told.refused


@pytest.mark.parametrize("release", ["0.5.2", "0.5.3", "0.5.4", "0.5.5"])
def test_of_older_releases_the_memory_of_the_multiprocess_mode_is_not_driven(release: str) -> None:
    levels = levels_of_release("lmcache", release)
    assert levels == ("engine", "offload")
    assert set(levels) == set(session(release, "lmcache").hello.levels)


def test_a_chunk_that_is_removed_leaves_no_pin_since_its_removal_lets_go_of_it() -> None:
    """Before, the pin is its lookup's until that lets go of it, which it cannot: then it is nobody's (finding 81)."""
    ops: list[Op] = [("store", {"keys": [0]}), ("lookup", {"keys": [0]}), ("remove", {"keys": [0]})]
    case = close(Case("offload", PLAIN, ops))
    assert verdict(session(NEWEST, "lmcache"), case)[0] is None
    found, _ = verdict(session("0.5.5", "lmcache"), case)
    assert found is not None
    assert (found.violation.rule, found.violation.key) == ("P2", ("host", "too many"))
