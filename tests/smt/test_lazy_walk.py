"""The lazy walk is proved for any queue, target and host; and its mutants are refuted."""

from __future__ import annotations

import pytest

from kvproof.checkers.prove import prove
from kvproof.machine import Machine
from kvproof.spec.offload.lazy_walk import LazyWalk

from ..proofs import of_this_run
from . import broken_lazy_walk
from .test_tiers import open_ends, step_that_breaks


def test_a_walk_with_a_cursor_is_proved() -> None:
    assert open_ends(prove(LazyWalk, proofs=of_this_run())) == []


@pytest.mark.parametrize(
    ("machine", "action", "prop", "rule"), broken_lazy_walk.BROKEN, ids=lambda x: getattr(x, "__name__", "")
)
def test_each_fault_is_refuted(machine: type[Machine], action: str, prop: str, rule: str) -> None:
    found = step_that_breaks(machine, action, prop)
    assert found is not None
    assert found.replayed
    assert rule in found.rule
