"""Every action does its job: who leaves something out is refuted by a step that the concrete interpreter confirms."""

from __future__ import annotations

import pytest

from kvproof.machine import Machine

from . import careless_machines, idle_machines, idle_tiers
from .kept import sought
from .test_tiers import step_that_breaks

IDLE = [*idle_machines.IDLE, *idle_tiers.IDLE]


@pytest.mark.parametrize(
    ("machine", "action", "prop"),
    [sought(row) for row in IDLE],
)
def test_who_does_not_do_its_job_is_refuted(machine: type[Machine], action: str, prop: str) -> None:
    step = step_that_breaks(machine, action, prop)
    assert step is not None
    assert step.replayed


@pytest.mark.parametrize(("machine", "action", "prop"), [sought(row) for row in careless_machines.CARELESS])
def test_who_does_more_than_its_job_is_refuted(machine: type[Machine], action: str, prop: str) -> None:
    step = step_that_breaks(machine, action, prop)
    assert step is not None
    assert step.replayed
