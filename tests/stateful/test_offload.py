"""Machine O beside the reference implementation: at random, and through every transition of small scopes."""

from typing import Any

import pytest
from hypothesis import given, settings

from kvproof.checkers.fuzz import fuzz
from kvproof.checkers.lockstep import Specs
from kvproof.checkers.trace import Trace
from kvproof.checkers.walk import walk_in_lockstep
from kvproof.harness.instances import Instance, instances
from kvproof.harness.levels import level_for
from kvproof.harness.offload.target import OffloadTarget
from kvproof.harness.tiers.targets import TARGETS
from kvproof.machine import Model
from kvproof.machine.concrete import Concrete
from kvproof.spec.offload import Offload

from ..explore.tiers import scope
from .kept import shows_again, sought, trace_of_walk
from .offload_mutants import MUTANTS

SMALL: dict[str, Any] = {"blocks": 2, "requests": 1, "hashes": 1}

# Scope; then states and transitions, those of the explorer.
WALKS: dict[str, tuple[dict[str, Any], int, int]] = {
    "eager": (SMALL, 3_657, 26_422),
    "lazy": ({**SMALL, "lazy": True}, 2_341, 16_172),
}


@pytest.mark.slow
def test_the_implementation_does_what_the_machine_does() -> None:
    assert level_for(Offload).target is OffloadTarget
    report = fuzz(Offload, OffloadTarget, instances(machine=Offload), seed=1, examples=600)
    assert not report.findings, report.findings[0].report
    assert {name for name, c in report.coverage.items() if not c.refused} == set()
    assert report.untested == []


@settings(max_examples=15)
@given(seed=...)
def test_instances_are_instances_of_the_machine(seed: int) -> None:
    instance = Instance.from_seed(seed, machine=Offload)
    spec = Concrete(instance.scope.model, instance.scope)
    assert spec.violations(spec.initial(), "assume") == []
    assert Instance.load(instance.describe()).scope == instance.scope


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param("eager", marks=pytest.mark.nightly), "lazy"])
def test_every_transition_agrees(name: str) -> None:
    sizes, states, transitions = WALKS[name]
    walked = scope("offload", **sizes)
    report = walk_in_lockstep(Specs(walked.model, OffloadTarget), OffloadTarget(Instance.of_scope(walked)))
    assert report.divergence is None, report
    assert report.complete
    assert (report.states, report.transitions) == (states, transitions)


@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param({**SMALL, "workers": 2, "slots": 2}, marks=pytest.mark.slow),
        pytest.param({**SMALL, "requests": 2, "hosts": 2}, marks=pytest.mark.slow),
        pytest.param({**SMALL, "hashes": 2, "split": True, "hosts": 2}, marks=pytest.mark.slow),
        {**SMALL, "hashes": 2, "split": True, "lazy": True},
        pytest.param(
            {**SMALL, "blocks": 3, "hashes": 2, "positions": 3, "limit": 2, "null": True}, marks=pytest.mark.nightly
        ),
    ],
)
def test_every_transition_agrees_further_out(sizes: dict[str, Any]) -> None:
    most = 6 * settings().max_examples
    walked = scope("offload", **sizes)
    target = OffloadTarget(Instance.of_scope(walked))
    report = walk_in_lockstep(Specs(walked.model, OffloadTarget), target, max_states=most)
    assert report.divergence is None, report
    assert report.states == most or report.complete


# ---------------------------------------------------------------------------------------------------- must fail


KEPT = list(MUTANTS)
SOUGHT = ("KeepsWhatFailed", "ScansFromTheTail", "CopiesTheNeighbour")
"""These a walk finds anew in every run of the tests."""


def found(name: str) -> Trace:
    """The way on which a walk notices a mutant."""
    kind, more, _ = MUTANTS[name]
    walked = scope("offload", **{**SMALL, **more})
    trace = trace_of_walk(Specs(walked.model, kind), kind, Instance.of_scope(walked), max_states=20_000)
    assert trace is not None
    return trace


@pytest.mark.parametrize("name", KEPT)
def test_a_fault_shows_where_it_was_found(name: str) -> None:
    kind, _, oracles = MUTANTS[name]
    seen = shows_again(name, kind, OffloadTarget, Model.of(Offload), Instance.load)
    assert seen.oracle in oracles, seen


@pytest.mark.parametrize("name", sought(KEPT, SOUGHT))
def test_a_walk_notices_each_fault(name: str) -> None:
    assert found(name).operations


def test_the_level_is_known_by_its_name() -> None:
    assert TARGETS["offload"] is OffloadTarget
