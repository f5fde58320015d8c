"""Machines M and D and both together, beside the reference implementation: at random, and through every transition."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings

from kvproof.checkers.fuzz import Difference, fuzz
from kvproof.checkers.lockstep import Call, Specs
from kvproof.checkers.replay import replay, replay_calls, setting_of
from kvproof.checkers.trace import Trace, decode_trace, encode_trace
from kvproof.checkers.walk import walk_in_lockstep
from kvproof.harness.instances import TIER_SIZES, Instance, instances
from kvproof.harness.levels import level_for
from kvproof.harness.machines import find_machine
from kvproof.harness.tiers.targets import TARGETS
from kvproof.machine import Model
from kvproof.machine.concrete import Concrete
from kvproof.machine.scope import Scope

from ..explore.tiers import scope
from .kept import shows_again, sought
from .tier_mutants import MUTANTS

TIERS = ("mirror", "pin", "tiered")

# The caller's business: the implementation is told nothing of it, so that it has nothing to refuse.
UNTOLD = {"schedule", "process"}


@pytest.mark.slow
@pytest.mark.parametrize("level", TIERS)
def test_the_implementation_does_what_the_machine_does(level: str) -> None:
    machine, target = find_machine(level), TARGETS[level]
    assert level_for(machine).target is target
    report = fuzz(machine, target, instances(machine=machine), seed=1, examples=400)
    assert not report.findings, report.findings[0].report
    assert report.untested == []
    assert {name for name, c in report.coverage.items() if not c.refused} <= UNTOLD, report.coverage
    assert all(report.reached.values()), report.reached


@pytest.mark.parametrize("level", TIERS)
@settings(max_examples=15)
@given(seed=...)
def test_instances_are_instances_of_the_machine(level: str, seed: int) -> None:
    machine = find_machine(level)
    instance = Instance.from_seed(seed, machine=machine)
    assert instance.scope.model.machine is machine
    spec = Concrete(instance.scope.model, instance.scope)
    assert spec.violations(spec.initial(), "assume") == []
    assert Instance.load(instance.describe()).scope == instance.scope


def test_instances_of_tiers_have_room_for_gaps() -> None:
    made = [
        Instance.make(size, null=True, seed=seed, more={"capacity": 2, "cost": 1})
        for size in TIER_SIZES[1:]
        for seed in range(20)
    ]
    assert sum(max(w.scope.params["limit"]) >= 2 for w in made) >= 0.9 * len(made)


def test_a_reload_that_takes_no_time_is_no_instance() -> None:
    with pytest.raises(ValueError, match="bandwidths are finite"):
        Instance.make(TIER_SIZES[0], more={"capacity": 1, "cost": 0})


def test_parameters_of_no_machine_are_no_instance() -> None:
    with pytest.raises(ValueError, match="the parameters"):
        Instance.make(TIER_SIZES[0], more={"capacity": 1})


# Scope, then states and transitions: those of the explorer, in tests/explore/test_tiers.py.
WALKS: dict[str, tuple[Scope, int, int]] = {
    "mirror": (scope("mirror", blocks=2, requests=1, hashes=2), 2_402, 16_084),
    "mirror, two requests": (scope("mirror", blocks=2, requests=2, hashes=1), 3_740, 31_988),
    "pin": (scope("pin", blocks=2, requests=1, hashes=2, null=True), 3_044, 33_674),
    "tiered": (scope("tiered", blocks=2, requests=1, hashes=1, null=True), 2_400, 27_084),
}


AT_NIGHT = {"mirror", "mirror, two requests", "pin"}
"""What is in these is in the walk of both together, and each goes a way of its own further out."""


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.nightly if n in AT_NIGHT else ()) for n in WALKS])
def test_every_transition_agrees(name: str) -> None:
    walked, states, transitions = WALKS[name]
    target = level_for(walked.model.machine).target
    report = walk_in_lockstep(Specs(walked.model, target), target(Instance.of_scope(walked)))
    assert report.divergence is None, report
    assert report.complete
    assert (report.states, report.transitions) == (states, transitions)


@pytest.mark.parametrize(
    ("level", "split"),
    [
        ("mirror", False),
        ("pin", False),
        pytest.param("tiered", False, marks=pytest.mark.nightly),
        *(pytest.param(level, True, marks=pytest.mark.slow) for level in TIERS),
    ],
)
def test_every_transition_agrees_further_out(level: str, split: bool) -> None:
    """Three blocks and lookups of two: gaps, and reloads that end for lack of room."""
    most = 6 * settings().max_examples
    walked = scope(
        level, blocks=3, requests=1, hashes=2, positions=3, limit=2, capacity=2, null=level != "mirror", split=split
    )
    target = level_for(walked.model.machine).target
    report = walk_in_lockstep(Specs(walked.model, target), target(Instance.of_scope(walked)), max_states=most)
    assert report.divergence is None, report
    assert report.states == most or report.complete


# ---------------------------------------------------------------------------------------------------- must fail

Calls = Sequence[tuple[str, tuple[int, ...]]]
COMPUTED: Calls = [
    ("admit", (0,)),
    ("allocate", (0, 2)),
    ("write", (0, 0, 0, 0)),
    ("write", (0, 1, 0, 1)),
    ("register", (0, 0, 0)),
    ("register", (0, 1, 1)),
]
MIRRORED: Calls = [*COMPUTED, ("mirror", (0,))]
ALL_THREE_GO: Calls = [("allocate", (0, 1)), ("evict", (0,)), ("preempt", (0,))]
LATER: Calls = [("admit", (0,)), ("hit", (0,))]

# Faults that take thousands of runs to meet, or minutes to shrink; here is where they show.
RARE: dict[str, tuple[Scope, Calls]] = {
    # The first block is on the host only, the second the head of the free queue.
    "ReloadsBeforeClaiming": (
        scope("mirror", blocks=3, requests=1, hashes=2, positions=3, limit=2, capacity=2),
        [*MIRRORED, *ALL_THREE_GO, ("admit", (0,)), ("allocate", (0, 1)), ("preempt", (0,)), *LATER],
    ),
    # Both blocks are on the host only, and one of three is free.
    "HoldsOnlyWholeReloads": (
        scope("mirror", blocks=3, requests=2, hashes=2, positions=3, limit=2, capacity=2),
        [*MIRRORED, ("evict", (0,)), ("evict", (1,)), ("preempt", (0,)), ("admit", (1,)), ("allocate", (1, 2)), *LATER],
    ),
    # Two blocks are pinned, and one is demoted.
    "DemotesYoungestFirst": (
        scope("pin", blocks=2, requests=1, hashes=2, null=True, window=2),
        [*COMPUTED, ("drop", (0, 2)), ("demote", (1,))],
    ),
    # The host has the first block, and the only block that nobody holds is pinned.
    "ReloadsIntoFreeBlocksOnly": (
        scope("tiered", blocks=2, requests=2, hashes=2, capacity=2, null=True),
        [*MIRRORED, ("drop", (0, 2)), ("preempt", (0,)), ("admit", (1,)), ("allocate", (1, 1)), *LATER],
    ),
}

_found: dict[str, Difference] = {}


def finding(name: str) -> Difference:
    """The finding in which a mutant must be noticed."""
    if name not in _found:
        mutant = MUTANTS[name]
        machine = find_machine(mutant.kind.level)
        report = fuzz(machine, mutant.kind, instances(machine=machine), seed=7, examples=2_000)
        by_place = {(f.oracle, f.rule): f for f in report.findings}
        noticed = [by_place[mutant.oracle, rule] for rule in mutant.rules if (mutant.oracle, rule) in by_place]
        assert noticed, f"{name} was noticed in {list(by_place)} only"
        _found[name] = noticed[0]
    return _found[name]


def test_there_is_a_mutant_for_everything_that_is_compared_here() -> None:
    new = {field for level in TIERS for field in TARGETS[level].fields} - set(TARGETS["pool"].fields)
    assert new <= {mutant.oracle for mutant in MUTANTS.values()}


KEPT = [name for name in MUTANTS if name not in RARE]
SOUGHT = ("MirrorsWrongBlock", "SaysOtherBlocksWereDropped", "DropsToTheHost")
"""One of each level that the fuzzer finds anew in every run of the tests."""


def found(name: str) -> Trace:
    """The way on which the fuzzer notices a mutant."""
    return finding(name).trace


@pytest.mark.parametrize("name", KEPT)
def test_a_fault_shows_where_it_was_found(name: str) -> None:
    mutant = MUTANTS[name]
    level = mutant.kind.level
    seen = shows_again(name, mutant.kind, TARGETS[level], Model.of(find_machine(level)), Instance.load)
    assert seen.oracle == mutant.oracle
    assert seen.call.action in mutant.rules


@pytest.mark.parametrize("name", sought(KEPT, SOUGHT))
def test_the_fuzzer_notices(name: str) -> None:
    found, mutant = finding(name), MUTANTS[name]
    assert found.steps == len(found.trace.operations) <= 25
    trace = decode_trace(encode_trace(found.trace))
    assert (trace.level, trace.subject) == (mutant.kind.level, "refimpl")
    setting = setting_of(trace)
    assert setting is not None
    model = Model.of(find_machine(trace.level))
    again = replay(model, trace, mutant.kind, Instance.load(setting))
    assert again.problem is not None
    assert again.problem.divergence is not None
    assert (again.problem.divergence.oracle, again.done) == (mutant.oracle, len(trace.operations) - 1)
    assert replay(model, trace, TARGETS[trace.level], Instance.load(setting)).problem is None


@pytest.mark.parametrize("name", RARE)
def test_a_rare_fault_shows_where_it_must(name: str) -> None:
    (walked, calls), mutant = RARE[name], MUTANTS[name]
    instance, path = Instance.of_scope(walked), [Call(*c) for c in calls]
    found = replay_calls(walked.model, walked, path, target=mutant.kind(instance))
    assert found.problem is not None
    assert found.problem.divergence is not None, found.problem
    assert (found.problem.divergence.oracle, found.problem.divergence.call.action) == (mutant.oracle, calls[-1][0])
    assert calls[-1][0] in mutant.rules
    assert found.done == len(path) - 1
    assert replay_calls(walked.model, walked, path, target=TARGETS[mutant.kind.level](instance)).problem is None
