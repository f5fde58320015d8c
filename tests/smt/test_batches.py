"""The order of step, mirror and release, and the sum of latencies, are proved; and their mutants are refuted."""

from __future__ import annotations

import pytest

from kvproof.checkers.prove import prove
from kvproof.machine import Machine
from kvproof.spec.tiers.batches import Batches

from ..proofs import of_this_run
from . import broken_batches
from .test_tiers import open_ends, step_that_breaks


def test_steps_mirrors_and_releases_are_proved() -> None:
    assert open_ends(prove(Batches, proofs=of_this_run())) == []


@pytest.mark.parametrize(
    ("machine", "action", "prop", "rule"), broken_batches.BROKEN, ids=lambda x: getattr(x, "__name__", "")
)
def test_each_fault_is_refuted(machine: type[Machine], action: str, prop: str, rule: str) -> None:
    found = step_that_breaks(machine, action, prop)
    assert found is not None
    assert found.replayed
    assert rule in found.rule
