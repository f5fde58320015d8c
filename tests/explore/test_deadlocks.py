"""The halts of released engines, in small: each is found as a halt or a cycle, and not in the machine beside it."""

from __future__ import annotations

import pytest

from kvproof.checkers.explore import explore
from kvproof.harness.machines import find_machine
from kvproof.harness.scopes import smallest_scope
from tests.deadlocks import HALTS, Halt


@pytest.mark.parametrize("halt", HALTS, ids=str)
def test_a_halt_is_found(halt: Halt) -> None:
    machine = find_machine(halt.name)
    (found,) = explore(machine, smallest_scope(machine)).violations
    assert f"{found.kind} {found.name}" == halt.found
    assert len(found.trace) <= 5


@pytest.mark.parametrize("halt", HALTS, ids=str)
def test_the_machine_beside_it_goes_on(halt: Halt) -> None:
    report = explore(halt.goes_on, smallest_scope(halt.goes_on))
    assert (report.violations, report.complete) == ([], True)
