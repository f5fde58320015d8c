"""Machine O, exhaustively in small scopes: its counts of states; and what finds its mutants."""

from __future__ import annotations

from typing import Any

import pytest

from kvproof.checkers.explore import explore
from kvproof.machine import Machine, Model
from kvproof.machine.scope import Scope
from tests.smt import broken_offload

from ..marks import rows_but, slow_but
from .chains import alone
from .tiers import scope

ONE: dict[str, Any] = {"blocks": 2, "requests": 1, "hashes": 2}
TWO: dict[str, Any] = {"blocks": 2, "requests": 2, "hashes": 1}
WORKERS: dict[str, Any] = {"blocks": 2, "requests": 1, "hashes": 1, "workers": 2, "slots": 2}
"""Each of two workers copies one of two slots."""

GAP: dict[str, Any] = {"blocks": 3, "requests": 1, "hashes": 2, "positions": 3, "limit": 2, "null": True}
AHEAD = "one_worker_is_ahead"

# What is explored; states, transitions and depth; what cannot happen there.
GOLDEN: dict[str, tuple[dict[str, Any], tuple[int, int, int], set[str]]] = {
    "eager": (ONE, (23_277, 188_272, 26), {AHEAD}),
    "lazy": ({**ONE, "lazy": True}, (16_687, 126_216, 27), {AHEAD}),
    "lazy, split": ({**ONE, "lazy": True, "split": True}, (17_171, 130_250, 29), {AHEAD}),
    "two requests": (TWO, (24_357, 256_076, 23), {AHEAD}),
    "two requests, lazy, split": ({**TWO, "lazy": True, "split": True}, (12_201, 122_354, 22), {AHEAD}),
    "two requests, two hashes": ({**TWO, "hashes": 2}, (150_523, 1_712_940, 29), {AHEAD}),
    "two host blocks": ({**ONE, "hosts": 2}, (178_304, 1_455_712, 37), {AHEAD}),
    "two workers": (WORKERS, (235_641, 2_599_710, 29), set()),
}
LARGE: dict[str, tuple[dict[str, Any], tuple[int, int, int], set[str]]] = {
    "three blocks": (GAP, (5_481_213, 60_782_785, 39), {AHEAD}),
}


@pytest.mark.parametrize(
    "name",
    [
        *slow_but(GOLDEN, {"eager"}, {"two requests, two hashes", "two host blocks"}),
        *(pytest.param(n, marks=pytest.mark.nightly) for n in LARGE),
    ],
)
def test_nothing_is_wrong_in_small_scopes(name: str) -> None:
    sizes, counts, unreached = (GOLDEN | LARGE)[name]
    small = scope("offload", **sizes)
    report = explore(small.model, small)
    assert report.violations == []
    assert (report.states, report.transitions, report.depth) == counts
    assert set(report.unreached) == unreached


OFTEN = {
    *("FailureCountsAsSuccess", "FinishesWithoutFlush", "ForgetsTheListeners", "ReadsWhatItDoesNotHold"),
    *("RefusesAndEvicts", "ScansWhatIsHeld", "StoresWhatIsBeingComputed"),
}
"""Faults of all kinds, which a desk looks for; CI looks for all."""

SCOPES: dict[type[Machine], dict[str, Any]] = {
    # Another request hits a block that is on its way to the host.
    broken_offload.StoresTwiceAtOnce: {**TWO, "hosts": 2},
    broken_offload.EndsWithTheFirstReport: WORKERS,
    broken_offload.EndsWithTheFirstFailure: WORKERS,
    broken_offload.ScansWhatIsHeld: {**ONE, "lazy": True},
}


@pytest.mark.parametrize(("machine", "_action", "prop", "rule"), rows_but(broken_offload.BROKEN, OFTEN))
def test_each_fault_is_found(machine: type[Machine], _action: str, prop: str, rule: str) -> None:
    small = scope("offload", **SCOPES.get(machine, ONE))
    # Of all that is claimed another property may tell of a nearer step, before this one tells of what comes of it.
    only = alone(Model.of(machine), prop)
    found = {v.name: v for v in explore(only, Scope(only, small.sizes, small.params)).violations}
    assert prop in found
    assert rule in found[prop].rule
