"""The halts of released engines, in small: each is found as a halt or a cycle, and not in the machine beside it."""

from __future__ import annotations

import pytest

from kvproof.checkers.explore import explore
from kvproof.harness.machines import find_machine
from kvproof.harness.scopes import smallest_scope
from kvproof.machine import Machine
from kvproof.spec.liveness import deadlocks

HALTS = {
    "partial-hits": "invariant the_first_leaves_possible",
    "draft-slots": "invariant every_prefill_ends_possible",
    "look-ahead": "cycle the_first_leaves",
    "held-loads": "invariant who_loads_ends_possible",
    "lazy-stores": "cycle an_idle_engine_rests",
}


@pytest.mark.parametrize("name", HALTS)
def test_a_halt_is_found(name: str) -> None:
    machine = find_machine(name)
    (found,) = explore(machine, smallest_scope(machine)).violations
    assert f"{found.kind} {found.name}" == HALTS[name]
    assert len(found.trace) <= 5


@pytest.mark.parametrize(
    "machine",
    [
        deadlocks.HitsInside,
        deadlocks.AlignedPrefill,
        deadlocks.GrowingRequests,
        deadlocks.ReservedLoads,
        deadlocks.LazyStores,
    ],
)
def test_the_machine_beside_it_goes_on(machine: type[Machine]) -> None:
    report = explore(machine, smallest_scope(machine))
    assert (report.violations, report.complete) == ([], True)
