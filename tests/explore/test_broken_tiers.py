"""What catches the mutants of M and D, BLIS's lookup among them; and the right machines, in small scopes."""

from __future__ import annotations

from typing import Any

import pytest

from kvproof.checkers.explore import explore
from kvproof.machine import Machine
from kvproof.spec.tiers.blis_mirror import BlisMirror
from kvproof.spec.tiers.mirror import Mirror
from kvproof.spec.tiers.pin import Pinned
from kvproof.spec.tiers.pinning_off import PinningOff
from kvproof.spec.tiers.tiered import Tiered
from tests.smt import broken_tiers

from .chains import alone, chain

NULL = {"null": 0, "blocks": 4}
SPLIT = {**NULL, "split": True}

# Machine, what differs from `chains.CHAIN`; then states, transitions and depth.
GOLDEN: list[tuple[type[Machine], dict[str, Any], int, int, int]] = [
    (Mirror, {}, 55_116, 478_242, 23),
    (Mirror, {"capacity": 1}, 55_344, 479_952, 23),
    (Pinned, NULL, 135_768, 2_022_162, 27),
]
LARGE: list[tuple[type[Machine], dict[str, Any], int, int, int]] = [
    (Tiered, NULL, 940_140, 15_046_176, 37),
]
UNREACHED: dict[type[Machine], set[str]] = {Mirror: {"a_block_is_shared", "the_pool_is_exhausted"}}


@pytest.mark.parametrize(
    ("machine", "changed", "states", "transitions", "depth"),
    [
        GOLDEN[0],
        *(pytest.param(*row, marks=pytest.mark.slow) for row in GOLDEN[1:]),
        *(pytest.param(*row, marks=pytest.mark.nightly) for row in LARGE),
    ],
)
def test_nothing_is_found_in_the_right_ones(
    machine: type[Machine], changed: dict[str, Any], states: int, transitions: int, depth: int
) -> None:
    report = explore(machine, chain(machine, **changed))
    assert report.violations == []
    assert (report.states, report.transitions, report.depth) == (states, transitions, depth)
    # One request alone shares nothing.
    assert set(report.unreached) == UNREACHED.get(machine, {"a_block_is_shared"})


@pytest.mark.slow
@pytest.mark.parametrize("changed", [NULL, pytest.param(SPLIT, marks=pytest.mark.nightly)])
def test_without_pinning_both_queues_are_one(changed: dict[str, Any]) -> None:
    report = explore(PinningOff, chain(PinningOff, **changed, pinning=False), max_states=200_000)
    assert report.violations == []


SCOPES: dict[type[Machine], dict[str, Any]] = {
    broken_tiers.StoresBeyondItsRoom: {"capacity": 1},
    # Three prompts of one block, one after the other.
    broken_tiers.EvictsTheMostRecent: {
        "blocks": 1,
        "requests": 3,
        "need": 1,
        "hashes": 3,
        "kv": [[0], [1], [1]],
        "parent": [None] * 3,
        "prompt": [[0] * 3, [1] * 3, [2] * 3],
        "limit": [0] * 3,
    },
    # One hash of its own, two that are not.
    broken_tiers.TouchesWhatItDoesNotAsk: {
        "hashes": 3,
        "kv": [[0], [1], [1]],
        "parent": [None, None, 0],
        "limit": [1],
    },
}


@pytest.mark.parametrize(
    ("machine", "_action", "prop", "rule"), broken_tiers.BROKEN, ids=[row[0].__name__ for row in broken_tiers.BROKEN]
)
def test_each_fault_is_found_with_a_shortest_trace(machine: type[Machine], _action: str, prop: str, rule: str) -> None:
    usual = NULL if issubclass(machine, Pinned) else {}
    scope = chain(machine, **SCOPES.get(machine, usual))
    # Of all that is claimed another property may tell of a nearer step, before this one tells of what comes of it.
    found = {v.name: v for v in explore(alone(scope.model, prop), scope).violations}
    assert prop in found
    assert rule in found[prop].rule


def test_blis_destroys_what_its_lookup_relies_on() -> None:
    """M6: a reload takes the free block that the lookup found, and did not hold."""
    found = {v.name: v for v in explore(BlisMirror, chain(BlisMirror)).violations}
    destroyed = found["a_reload_destroys_nothing_that_is_relied_on"]
    assert destroyed.rule == "M6"
    assert [s.action for s in destroyed.trace] == [
        "admit", "allocate", "write", "register", "write", "register", "mirror", "trim", "allocate", "trim", "hit",
    ]  # fmt: skip


def test_blis_lets_a_request_read_what_is_not_its_prefix() -> None:
    """P6: what was found first is claimed, although another hash's content stands there by then."""
    (wrong,) = explore(BlisMirror, chain(BlisMirror), steps=False).violations
    assert (wrong.name, wrong.rule) == ("a_request_reads_its_own_prefix", "P6")
    assert len(wrong.trace) == 11
    assert wrong.trace[-1].action == "hit"
