"""The reference implementation driven through every transition of a small scope."""

import runpy
from pathlib import Path

import pytest
from hypothesis import settings

from kvproof.checkers.lockstep import Specs, walk_in_lockstep
from kvproof.checkers.replay import replay_calls
from kvproof.harness.instances import Instance
from kvproof.harness.pool.target import PoolTarget
from kvproof.machine import Model
from kvproof.machine.scope import Scope
from kvproof.spec.pool import Pool

MODEL = Model.of(Pool)
SPECS = Specs(MODEL, PoolTarget)
MUTANTS: dict[str, tuple[type[PoolTarget], str]] = runpy.run_path(str(Path(__file__).with_name("mutants.py")))[
    "MUTANTS"
]


def scope(blocks: int, requests: int, slots: int, hashes: int, *, split: bool = False, null: bool = False) -> Scope:
    """Requests with the same two blocks of tokens; with a third hash, one for the first slot of the second block."""
    first, second = list(range(slots)), list(range(slots, 2 * slots))
    return Scope(
        MODEL,
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
        (scope(2, 2, 1, 2), 1850, 15004),
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
