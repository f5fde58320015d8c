"""The reference implementation driven through every transition of a small scope."""

import runpy
from pathlib import Path

import pytest
from hypothesis import settings

from kvproof.checkers.lockstep import Lockstep, Specs
from kvproof.checkers.replay import replay_calls
from kvproof.checkers.walk import walk_in_lockstep
from kvproof.harness.instances import Instance
from kvproof.harness.pool.calls_target import CallsTarget
from kvproof.harness.pool.target import PoolTarget
from kvproof.machine import Model
from kvproof.machine.scope import Scope
from kvproof.refimpl.pool.manager import KVCacheManager, RequestId
from kvproof.spec.pool import Pool
from kvproof.spec.pool.calls import Calls

MODEL = Model.of(Pool)
SPECS = Specs(MODEL, PoolTarget)
MUTANTS: dict[str, tuple[type[PoolTarget], str]] = runpy.run_path(str(Path(__file__).with_name("mutants.py")))[
    "MUTANTS"
]


def scope(
    blocks: int,
    requests: int,
    slots: int,
    hashes: int,
    *,
    split: bool = False,
    null: bool = False,
    model: Model = MODEL,
) -> Scope:
    """Requests with the same two blocks of tokens; with a third hash, one for the first slot of the second block."""
    first, second = list(range(slots)), list(range(slots, 2 * slots))
    return Scope(
        model,
        {
            "Block": blocks + null,
            "Request": requests,
            "Hash": hashes,
            "Slot": slots,
            "Content": 2 * slots,
            "Position": 2,
            "Int": 3,
        },
        {
            "null": 0 if null else None,
            "caching": True,
            "split": split,
            "kv": [first, second, [slots, *[None] * (slots - 1)]][:hashes],
            "parent": [None, 0, 0][:hashes],
            "prompt": [[0, min(1, hashes - 1)]] * requests,
            "limit": [1] * requests,
            "need": [2] * requests,
        },
    )


@pytest.mark.parametrize(
    ("walked", "states", "transitions"),
    [
        (scope(2, 1, 1, 2, split=True, null=True), 834, 5146),
        (scope(2, 2, 1, 1), 1222, 9912),
        pytest.param(scope(2, 2, 1, 2), 1850, 15004, marks=pytest.mark.slow),
    ],
)
def test_every_transition_agrees(walked: Scope, states: int, transitions: int) -> None:
    report = walk_in_lockstep(SPECS, PoolTarget(Instance.of_scope(walked)))
    assert report.divergence is None, report
    assert report.complete
    assert (report.states, report.transitions) == (states, transitions)
    assert report.refusals > report.transitions


@pytest.mark.slow
@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize(("requests", "slots", "hashes"), [(2, 1, 2), (1, 2, 3)])
def test_every_transition_agrees_further_out(requests: int, slots: int, hashes: int, split: bool) -> None:
    most = 6 * settings().max_examples
    seen: list[int] = []
    instance = Instance.of_scope(scope(2, requests, slots, hashes, split=split, null=split))
    report = walk_in_lockstep(
        SPECS, PoolTarget(instance), max_states=most, on_progress=lambda states, _: seen.append(states)
    )
    assert report.divergence is None, report
    assert report.states == most or report.complete
    assert seen[-1] <= report.states


@pytest.mark.parametrize(
    "name", ["FreesInTableOrder", "WritesNextBlockToo", "WritesWhatIsShared", "KeepsOneBlock", "CountsRefusedQueries"]
)
def test_a_fault_is_met_on_the_shortest_way(name: str) -> None:
    kind, oracle = MUTANTS[name]
    instance = Instance.of_scope(scope(2, 2, 1, 2))
    report = walk_in_lockstep(Specs(MODEL, kind), kind(instance))
    assert report.divergence is not None
    assert report.divergence.oracle == oracle
    assert not report.complete
    again = replay_calls(MODEL, instance.scope, report.path, target=kind(instance))
    assert again.problem is not None
    assert again.problem.divergence == report.divergence
    assert again.done == len(report.path) - 1


CALLS = Specs(Model.of(Calls), CallsTarget)


def test_whatever_is_asked_is_done_or_refused() -> None:
    """Two requests, of which only one can have all that it wants: every call, refused ones among them."""
    target = CallsTarget(Instance.of_scope(scope(2, 2, 1, 1, model=CALLS.model)))
    report = walk_in_lockstep(CALLS, target, max_states=200)
    assert report.divergence is None, report
    assert (report.states, report.transitions) == (200, 5_115)


class _GivesWhatThereIs(KVCacheManager):
    """Of blocks that are too few, all are given."""

    def allocate(self, request_id: RequestId, n: int) -> list[int] | None:
        given = super().allocate(request_id, min(n, self.pool.num_free))
        return given if given is not None and len(given) == n else None


class _CountsBeforeItRefuses(KVCacheManager):
    """Who is refused has counted as a lookup."""

    def admit(self, request_id: RequestId, need: int) -> bool:
        self._queries += 1
        return super().admit(request_id, need)


class _LeavesQuietly(KVCacheManager):
    """Who is not inside can leave."""

    def preempt(self, request_id: RequestId) -> None:
        if self.is_inside(request_id):
            super().preempt(request_id)


ENTERED = [("ask_to_enter", (0,)), ("ask_to_enter", (1,)), ("ask_for", (0, 1))]


@pytest.mark.parametrize(
    ("manager", "call", "oracle"),
    [
        (_GivesWhatThereIs, ("ask_for", (1, 2)), "length"),
        (_CountsBeforeItRefuses, ("ask_to_enter", (0,)), "result"),
        (_LeavesQuietly, ("send_away", (2,)), "result"),
    ],
)
def test_a_refusal_in_part_is_met(
    manager: type[KVCacheManager], call: tuple[str, tuple[int, ...]], oracle: str
) -> None:
    class Wrong(CallsTarget):
        manager_kind = manager

    run = Lockstep(CALLS, Wrong(Instance.of_scope(scope(2, 3, 1, 1, model=CALLS.model))))
    assert [run.do(*made) for made in ENTERED] == [None] * len(ENTERED)
    divergence = run.do(*call)
    assert divergence is not None
    assert divergence.oracle == oracle
