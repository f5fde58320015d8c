"""The order of step, mirror and release, and the sum of latencies, exhaustively in a small scope; and their mutants."""

from __future__ import annotations

import pytest

from kvproof.checkers.explore import explore
from kvproof.harness.scopes import smallest_scope
from kvproof.machine import Machine, Model
from kvproof.machine.scope import Scope
from kvproof.spec.tiers.batches import Batches
from tests.smt import broken_batches

from .chains import alone


def test_nothing_is_wrong_with_steps_and_their_mirrors() -> None:
    small = smallest_scope(Batches)
    report = explore(small.model, small)
    assert (report.violations, report.unreached) == ([], [])
    assert (report.states, report.transitions, report.depth) == (21_204, 178_302, 17)


@pytest.mark.parametrize(
    ("machine", "prop"),
    [(machine, prop) for machine, _, prop, _ in broken_batches.BROKEN],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_each_fault_is_found(machine: type[Machine], prop: str) -> None:
    only, small = alone(Model.of(machine), prop), smallest_scope(machine)
    assert prop in {v.name for v in explore(only, Scope(only, small.sizes, small.params)).violations}
