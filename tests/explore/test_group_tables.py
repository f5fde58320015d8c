"""Groups over one pool, exhaustively in a small scope; and what finds their mutants."""

from __future__ import annotations

from typing import Any

import pytest

from kvproof.checkers.explore import explore
from kvproof.harness.scopes import smallest_scope
from kvproof.machine import Machine, Model
from kvproof.machine.scope import Scope
from kvproof.spec.hybrid.group_tables import GroupTables
from tests.smt import broken_group_tables

from .chains import alone

SWAPPED: dict[str, dict[str, Any]] = {"AsksForAnyGroup": {"prompt": [[0, 0], [0, 0]]}}
"""Parameters that the assumption of the mutant allows."""


def test_nothing_is_wrong_with_groups_over_a_pool() -> None:
    """Two tables of one sequence; nobody shares a block there."""
    small = smallest_scope(GroupTables)
    report = explore(small.model, small)
    assert (report.violations, report.unreached) == ([], ["a_block_is_shared"])
    assert (report.states, report.transitions, report.depth) == (1_154, 8_136, 16)


@pytest.mark.parametrize(
    ("machine", "prop"),
    [(machine, prop) for machine, _, prop, _ in broken_group_tables.BROKEN],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_each_fault_is_found(machine: type[Machine], prop: str) -> None:
    only, small = alone(Model.of(machine), prop), smallest_scope(machine)
    params = small.params | SWAPPED.get(machine.__name__, {})
    assert prop in {v.name for v in explore(only, Scope(only, small.sizes, params)).violations}
