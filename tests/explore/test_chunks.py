"""Chunks by key, exhaustively in a small scope; and what finds their mutants."""

from __future__ import annotations

import pytest

from kvproof.checkers.explore import explore
from kvproof.harness.scopes import smallest_scope
from kvproof.machine import Machine, Model
from kvproof.machine.scope import Scope
from kvproof.spec.offload.chunks import Chunks
from tests.smt import broken_chunks

from .chains import alone


def test_nothing_is_wrong_with_offers_of_many_keys() -> None:
    small = smallest_scope(Chunks)
    report = explore(small.model, small)
    assert (report.violations, report.unreached) == ([], [])
    assert (report.states, report.transitions, report.depth) == (125, 844, 9)


@pytest.mark.parametrize(
    ("machine", "prop"),
    [(machine, prop) for machine, _, prop, _ in broken_chunks.BROKEN],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_each_fault_is_found(machine: type[Machine], prop: str) -> None:
    only, small = alone(Model.of(machine), prop), smallest_scope(machine)
    assert prop in {v.name for v in explore(only, Scope(only, small.sizes, small.params)).violations}
