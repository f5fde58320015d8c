"""Machine R beside the reference implementation's prefix tree: at random, and through every transition."""

from __future__ import annotations

import pytest

from kvproof.checkers.fuzz import Difference, fuzz
from kvproof.checkers.lockstep import Specs
from kvproof.checkers.trace import Trace
from kvproof.checkers.walk import walk_in_lockstep
from kvproof.harness.levels import level_for
from kvproof.harness.scopes import find_scope
from kvproof.harness.tree.instances import TreeInstance, tree_instances
from kvproof.harness.tree.target import TreeTarget
from kvproof.machine import Model
from kvproof.machine.scope import Scope
from kvproof.spec.tree import PrefixTree

from .kept import shows_again, sought
from .tree_mutants import MUTANTS

MODEL = Model.of(PrefixTree)


def scope(**sizes: int) -> Scope:
    return find_scope(PrefixTree, sizes, split=False, null=None, caching=True, seed=0)


@pytest.mark.slow
def test_the_implementation_does_what_the_machine_does() -> None:
    assert level_for(PrefixTree).target is TreeTarget
    report = fuzz(PrefixTree, TreeTarget, tree_instances(PrefixTree), seed=1, examples=200)
    assert not report.findings, report.findings[0].report
    assert report.untested == []
    assert all(c.refused for c in report.coverage.values()), report.coverage
    assert all(report.reached.values()), report.reached


# The counts are the explorer's, in tests/explore/test_tree.py.
@pytest.mark.parametrize(
    ("sizes", "states", "transitions"),
    [
        ({"Page": 2, "Prefix": 3}, 656, 6_832),
        pytest.param({}, 10_662, 126_834, marks=pytest.mark.nightly),
    ],
)
def test_every_transition_agrees(sizes: dict[str, int], states: int, transitions: int) -> None:
    report = walk_in_lockstep(Specs(MODEL, TreeTarget), TreeTarget(TreeInstance.of_scope(scope(**sizes))))
    assert report.divergence is None, report
    assert report.complete
    assert (report.states, report.transitions) == (states, transitions)


def test_a_page_of_one_token_is_always_full() -> None:
    params = scope().params
    with pytest.raises(ValueError, match="always full"):
        TreeInstance(Scope(MODEL, scope().sizes, params | {"need": [n + 1 for n in params["whole"]]}))


def test_an_instance_is_made_again_from_its_description() -> None:
    instance = TreeInstance.of_scope(scope(Page=4))
    assert TreeInstance.load(instance.describe()).scope == instance.scope


# ---------------------------------------------------------------------------------------------------- must fail

KEPT = list(MUTANTS)
SOUGHT = ("LocksOneNode", "KeepsDuplicates", "RemovesSilently")
"""Those that the fuzzer finds anew in every run of the tests, in a second."""

_found: dict[str, Difference] = {}


def finding(name: str) -> Difference:
    """The finding in which a mutant must be noticed."""
    if name not in _found:
        mutant = MUTANTS[name]
        report = fuzz(PrefixTree, mutant.kind, tree_instances(PrefixTree), seed=7, examples=400)
        noticed = [f for f in report.findings if f.oracle == mutant.oracle]
        assert noticed, f"{name} was noticed in {[f.oracle for f in report.findings]} only"
        _found[name] = noticed[0]
    return _found[name]


def found(name: str) -> Trace:
    """The way on which the fuzzer notices a mutant."""
    return finding(name).trace


@pytest.mark.parametrize("name", KEPT)
def test_a_fault_shows_where_it_was_found(name: str) -> None:
    mutant = MUTANTS[name]
    assert shows_again(name, mutant.kind, TreeTarget, MODEL, TreeInstance.load).oracle == mutant.oracle


@pytest.mark.parametrize("name", sought(KEPT, SOUGHT))
def test_the_fuzzer_notices(name: str) -> None:
    noticed = finding(name)
    assert noticed.steps == len(noticed.trace.operations) <= 25
