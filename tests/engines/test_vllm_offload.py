"""The level `offload`: what it tells of releases of vLLM, and the faults that are known of them."""

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvproof.engines.verdicts import close, verdict
from kvproof.engines.vllm.levels.offload import more_oracles, profiles
from kvproof.judge.judging import Judge
from kvproof.judge.oracles.offload_manager import OffloadManagerOracle
from kvproof.judge.record import Answer, Case, PoolState, State, Step, World

from .installed import session

NEWEST = "0.33.0"

MANAGER = {"kind": "manager", "policy": "lru", "chunks": 2, "keys": 16, "groups": 1, "threshold": 0, "tracker": 4,
           "events": True, "again": False}  # fmt: skip
SIMPLE = {"kind": "simple", "groups": [{"kind": "full", "block": 2}], "blocks": 12, "host": 12, "lazy": False,
          "workers": 1, "budget": 8, "max_len": 16, "events": False}  # fmt: skip

Op = tuple[str, dict[str, Any]]


def answer(version: str, setup: dict[str, Any], *ops: Op) -> Answer:
    return session(version).run(Case("offload", setup, list(ops))).answer


def fault(version: str, setup: dict[str, Any], *ops: Op) -> tuple[str, str] | None:
    """The rule that the closed case breaks, and what noticed."""
    found, told = verdict(session(version), close(Case("offload", setup, list(ops))), more_oracles)
    assert told.refused is None, told.refused
    return None if found is None else (found.violation.rule, found.violation.oracle)


def effects(told: Answer, kind: str) -> list[Any]:
    return [effect[1:] for step in told.steps for effect in step.effects if effect[0] == kind]


# The chunk manager


def offer(*keys: int, request: int = 0) -> Op:
    return "offer", {"request": request, "keys": list(keys)}


def load(*keys: int) -> Op:
    return "load", {"request": 1, "keys": list(keys)}


def touch(*keys: int) -> Op:
    return "touch", {"request": 0, "keys": list(keys)}


def lookup(*keys: int) -> Op:
    return "lookup", {"request": 2, "keys": list(keys)}


def stored(which: int = 0, ok: int = 1) -> Op:
    return "stored", {"which": which, "ok": ok}


LOADED: Op = ("loaded", {"which": 0})


@pytest.mark.parametrize("version", ["0.16.0", "0.19.0", "0.22.1", "0.26.0", NEWEST])
def test_keys_are_stored_found_loaded_and_evicted(version: str) -> None:
    told = answer(version, MANAGER, offer(0, 1), lookup(0), stored(), load(0, 5), offer(2, 3), LOADED, offer(2, 3))
    results = [step.result for step in told.steps]
    assert results[0] == {"store": [0, 1], "chunks": [0, 1], "evicted": [], "eligible": [0, 1]}
    assert results[1] == {"hits": []}
    assert results[3] == {"hits": [0], "chunks": [0]}
    assert results[4] == {"refused": True, "eligible": [2, 3]}
    assert sorted(results[6]["evicted"]) == [0, 1]
    assert effects(told, "stored") == [["host", None, [0, 1], None]]
    assert [sorted(removed[2]) for removed in effects(told, "removed")] == [[0, 1]]
    states = [step.state for step in told.steps]
    assert states[0] is not None
    assert states[0].pools["host"].ref == [1, 1]
    assert states[1] is None
    assert states[3] is not None
    assert states[3].pools["host"].ref == [1, 0]
    assert states[3].holds == {"host": [0]}
    assert states[3].pools["host"].cached == [(0, 0, [0]), (1, 0, [1])]


def test_a_failed_store_gives_its_chunks_back() -> None:
    told = answer(NEWEST, MANAGER, offer(0, 1), stored(ok=0), lookup(0, 1), offer(2, 3))
    assert told.steps[2].result == {"hits": []}
    assert told.steps[3].result["store"] == [2, 3]
    assert fault(NEWEST, MANAGER, offer(0, 1), stored(ok=0), lookup(0, 1), offer(2, 3)) is None


@pytest.mark.parametrize(("version", "there"), [("0.16.0", True), ("0.17.1", True), ("0.19.0", False), (NEWEST, False)])
@pytest.mark.parametrize("policy", ["lru", "arc"])
def test_an_offer_evicts_its_own_key(version: str, there: bool, policy: str) -> None:
    found = fault(version, {**MANAGER, "policy": policy}, offer(0), stored(), offer(0, 1, 2))
    assert found == (("O12", "evicts a key of its own") if there else None)


BY_LOOKUPS = [lookup(0), lookup(0), offer(0), stored(), *[lookup(k) for k in (1, 1, 2, 2)], offer(0, 1, 2)]
BY_OFFERS = [offer(0), offer(0), offer(1, 2), stored(), offer(0, 1, 2)]


@pytest.mark.parametrize(
    ("version", "ops", "there"),
    [
        ("0.19.0", BY_LOOKUPS, True),
        ("0.28.0", BY_LOOKUPS, True),
        ("0.30.0", BY_OFFERS, True),
        ("0.32.0", BY_OFFERS, False),
        (NEWEST, BY_OFFERS, False),
    ],
)
def test_an_offer_evicts_its_own_key_below_the_threshold(version: str, ops: list[Op], there: bool) -> None:
    """Releases count sightings by lookups, later ones by offers; two keys are counted."""
    found = fault(version, {**MANAGER, "threshold": 2, "tracker": 2}, *ops)
    assert found == (("O12", "evicts a key of its own") if there else None)


@pytest.mark.parametrize(("version", "there"), [("0.19.0", True), ("0.28.0", True), ("0.30.0", False), (NEWEST, False)])
def test_arc_refuses_though_enough_is_evictable(version: str, there: bool) -> None:
    ops = [offer(0), stored(), offer(2, 3), touch(0), touch(0), ("drain", {}), offer(8, 9, request=4)]
    found = fault(version, {**MANAGER, "policy": "arc"}, *ops)
    assert found == (("O12", "refused with enough evictable") if there else None)


def test_a_release_without_a_threshold_refuses_one() -> None:
    assert answer("0.16.0", {**MANAGER, "threshold": 2}).refused is not None


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_the_newest_chunk_manager_keeps_the_rules(data: st.DataObject) -> None:
    family = data.draw(st.sampled_from(["lru", "arc", "threshold", "again"]))
    case = data.draw(profiles(NEWEST)[family])
    found, _ = verdict(session(NEWEST), close(case), more_oracles)
    assert found is None, found.violation


def wrong(setup: dict[str, Any], *steps: tuple[str, dict[str, Any], Any]) -> list[str]:
    """The rules that an oracle finds broken in made-up steps."""
    notes = {"sightings": "offers", "finish": "use"}
    world = msgspec.convert({"groups": [], "tiers": {"host": {"blocks": 2}}, "hash_block": 1, "notes": notes}, World)
    oracle = OffloadManagerOracle(world, {**MANAGER, **setup})
    return [v.rule for op, args, result in steps for v in oracle.step(Step(op, args, result=result))]


def taken(*keys: int, chunks: list[int], evicted: tuple[int, ...] = (), store: tuple[int, ...] | None = None) -> Any:
    """An offer of keys, and the answer that these go to these chunks."""
    answered = {"store": [*keys] if store is None else [*store], "chunks": chunks, "evicted": [*evicted]}
    return "offer", {"request": 0, "keys": [*keys]}, {**answered, "eligible": [*keys]}


ONE = taken(0, chunks=[0])
DONE = ("stored", {"keys": [0], "ok": 1}, None)
HELD = ("load", {"request": 1, "keys": [0]}, {"hits": [0], "chunks": [0]})


@pytest.mark.parametrize(
    ("rule", "steps"),
    [
        ("P6", [ONE, taken(1, chunks=[0])]),
        ("O3", [ONE, taken(0, chunks=[1])]),
        ("O12", [ONE, taken(1, chunks=[0], evicted=(0,))]),
        ("O12", [ONE, DONE, HELD, taken(1, chunks=[0], evicted=(0,))]),
        ("O12", [ONE, DONE, ("offer", {"keys": [1]}, {"refused": True, "eligible": [1]})]),
        ("O12", [taken(1, chunks=[0, 1], store=(1, 2))]),
        ("O12", [ONE, DONE, taken(1, chunks=[1], evicted=(0,))]),
        ("O9", [ONE, taken(0, 1, chunks=[], store=())]),
        ("P7", [taken(1, chunks=[])]),
        ("P5", [ONE, DONE, ("lookup", {"keys": [0]}, {"hits": []})]),
        ("P6", [ONE, DONE, ("load", {"request": 1, "keys": [0]}, {"hits": [0], "chunks": [1]})]),
    ],
)
def test_the_oracle_sees(rule: str, steps: list[tuple[str, dict[str, Any], Any]]) -> None:
    assert wrong({}, *steps[:-1]) == []
    assert wrong({}, *steps)[0] == rule


def test_the_oracle_sees_how_often_keys_were_seen() -> None:
    nothing: dict[str, Any] = {"store": [], "chunks": [], "evicted": [], "eligible": []}
    once = {"threshold": 2}
    seen: tuple[str, dict[str, Any], Any] = ("offer", {"request": 0, "keys": [0]}, nothing)
    assert wrong(once, seen, ONE) == []
    assert wrong(once, ONE) == ["O12"]
    assert wrong(once, seen, seen) == ["O9"]
    more: list[tuple[str, dict[str, Any], Any]] = [("offer", {"request": 0, "keys": [k]}, nothing) for k in range(1, 5)]
    assert wrong(once, seen, *more, seen) == []  # Five keys, of which four are counted.


def test_whether_a_reset_forgets_how_often_keys_were_seen_is_open() -> None:
    once = {"threshold": 2}
    reset: tuple[str, dict[str, Any], Any] = ("reset", {}, True)
    nothing: dict[str, Any] = {"store": [], "chunks": [], "evicted": [], "eligible": []}
    seen: tuple[str, dict[str, Any], Any] = ("offer", {"request": 0, "keys": [0]}, nothing)
    assert wrong(once, seen, reset, ONE) == []
    assert wrong(once, seen, reset, seen) == []
    assert wrong(once, reset, ONE) == ["O12"]
    assert wrong(once, seen, reset, seen, seen) == ["O9"]


def test_the_oracle_sees_that_what_was_used_last_goes_first() -> None:
    full = [taken(0, 1, chunks=[0, 1]), ("stored", {"keys": [0, 1], "ok": 1}, None)]
    later: tuple[str, dict[str, Any], Any] = ("touch", {"request": 1, "keys": [0]}, None)
    assert wrong({}, *full, later, taken(2, chunks=[1], evicted=(1,))) == []
    assert wrong({}, *full, later, taken(2, chunks=[0], evicted=(0,))) == ["O12"]
    assert wrong({"policy": "arc"}, *full, later, taken(2, chunks=[0], evicted=(0,))) == []
    # What was loaded behind the touch may have been used then, and so may what the request named that has ended.
    load: tuple[str, dict[str, Any], Any] = ("load", {"request": 2, "keys": [1]}, {"hits": [1], "chunks": [1]})
    loaded: tuple[str, dict[str, Any], Any] = ("loaded", {"keys": [1]}, None)
    assert wrong({}, *full, later, load, loaded, taken(2, chunks=[0], evicted=(0,))) == []
    assert wrong({}, *full, later, ("finish", {"request": 0}, None), taken(2, chunks=[0], evicted=(0,))) == []
    # The end of a request uses what it had, unless a reset came before.
    ended: tuple[str, dict[str, Any], Any] = ("finish", {"request": 2}, None)
    assert wrong({}, *full, load, later, loaded, ended, taken(2, chunks=[1], evicted=(1,))) == ["O12"]
    assert wrong({}, *full, load, later, loaded, ended, taken(2, chunks=[0], evicted=(0,))) == []


def test_what_did_not_change_is_judged_by_what_was_told_last() -> None:
    """A state is told once: an operation that should have changed it has left it as it was."""
    pool = PoolState(ref=[1, 0], num_free=1, cached=[])
    tiers = {"device": {"blocks": 1}, "host": {"blocks": 2}}
    world = msgspec.convert({"groups": [{"kind": "full", "block": 1}], "tiers": tiers, "hash_block": 1}, World)
    judge = Judge(world, more_oracles(Case("offload", MANAGER, [])))
    op, args, result = ONE
    assert not judge.step(Step(op, args, result=result, state=State({"host": pool}, holds={"host": [0]})))
    assert not judge.step(Step("lookup", {"keys": [0]}, result={"hits": []}))
    assert {v.rule for v in judge.step(Step("stored", {"keys": [0], "ok": 1}))} == {"P2", "P5"}


def test_the_oracle_sees_that_a_reset_leaves_a_trace() -> None:
    reset: tuple[str, dict[str, Any], Any] = ("reset", {}, True)
    other = taken(0, chunks=[1])
    assert wrong({"again": True}, ONE, reset, ONE) == []
    assert wrong({"again": True}, ONE, reset, other) == ["P11"]


# The host block pool


def add(shared: int, own: int = 0, most: int = 1, **more: int) -> Op:
    return "add", {"family": 0, "shared": shared, "own": own, "tail": 1, "most": most, **more}


def step(**more: int) -> Op:
    return "step", {"most": 16, "sample": 0, "stop": 0, **more}


WORK: Op = ("work", {"which": 0, "all": 1})
RESET: Op = ("reset", {"connector": True, "running": 0})


@pytest.mark.parametrize("version", ["0.19.0", "0.24.0", NEWEST])
def test_blocks_are_stored_and_loaded_again(version: str) -> None:
    play = [add(6, 1, most=3), step(), step(), WORK, step(), step(), ("drain", {}), ("reset", {}), add(6, 2), step()]
    told = answer(version, SIMPLE, *play, WORK, step(), step())
    copies = [copy for copy in effects(told, "copy") if copy[1] == "begin"]
    assert copies[0][2] == [["device", 1, "host", 1], ["device", 2, "host", 2], ["device", 3, "host", 3]]
    assert effects(told, "lookup")[-1] == ["r2", 0, 6, 7]
    loaded = copies[-1][2]
    assert [pair[:2] for pair in loaded] == [["host", 1], ["host", 2], ["host", 3]]
    assert effects(told, "compute")[-1] == ["r2", 6, [1, 2]]
    assert effects(told, "end") == [["r1", "finished"], ["r2", "finished"]]


@pytest.mark.parametrize(("version", "there"), [("0.19.0", True), ("0.20.2", True), ("0.22.1", False), (NEWEST, False)])
def test_a_block_is_stored_twice_at_once(version: str, there: bool) -> None:
    found = fault(version, SIMPLE, add(4, 2), step(), add(2, 1), step(), step(), add(6, 2), step(), step())
    assert (found == ("O3", "stored twice")) is there


@pytest.mark.parametrize(("version", "there"), [("0.19.0", True), ("0.28.0", True), ("0.30.0", False), (NEWEST, False)])
def test_what_the_last_step_completes_is_never_stored(version: str, there: bool) -> None:
    found = fault(version, SIMPLE, add(2), step())
    assert found == (("O9", "never stored") if there else None)


def test_a_stale_completion_changes_nothing() -> None:
    repeat: Op = ("repeat", {"which": 0})
    play = [add(4, most=3), step(), step(), step(), repeat, WORK, step(), repeat, step(), repeat]
    assert fault(NEWEST, {**SIMPLE, "workers": 2}, *play, ("drain", {}), repeat) is None
    told = answer(NEWEST, SIMPLE, *play)
    assert told.steps[4].skipped
    assert told.steps[7].args["of"] == ["store", 0]


@pytest.mark.parametrize("lazy", [False, True])
def test_aborts_preemptions_and_vain_lookups_leak_nothing(lazy: bool) -> None:
    pick = {"which": 0}
    play = [add(6, most=4), add(6, 2, most=4), step(), ("preempt", pick), ("probe", pick), step(), WORK, step(),
            ("abort", pick), step(), ("reset", {}), add(6, 1, most=2), ("probe", pick), ("abort", pick), add(6, 1),
            step(), ("abort", pick), step()]  # fmt: skip
    assert fault(NEWEST, {**SIMPLE, "lazy": lazy}, *play) is None


def test_a_host_tier_in_a_release_without_one_is_refused() -> None:
    assert answer("0.17.1", SIMPLE).refused is not None


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_every_case_is_told_to_its_end(data: st.DataObject) -> None:
    family = data.draw(st.sampled_from([name for name in profiles(NEWEST) if name.startswith("simple")]))
    case = close(data.draw(profiles(NEWEST)[family]))
    told = session(NEWEST).run(case)
    assert told.failure is None
    assert told.answer.refused is None
    assert len(told.answer.steps) == len(case.ops)
    assert told.answer.steps[-1].error is None
    assert session(NEWEST).run(case).answer.steps == told.answer.steps
