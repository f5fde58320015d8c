"""Chunks by key are proved for any number of everything; and their mutants are refuted."""

from __future__ import annotations

import pytest

from kvproof.checkers.prove import prove
from kvproof.machine import Machine
from kvproof.spec.offload.chunks import Chunks

from ..proofs import of_this_run
from . import broken_chunks
from .kept import sought
from .test_tiers import open_ends, step_that_breaks


def test_an_offer_of_many_keys_is_proved() -> None:
    assert open_ends(prove(Chunks, proofs=of_this_run())) == []


@pytest.mark.parametrize(("machine", "action", "prop", "rule"), [sought(row) for row in broken_chunks.BROKEN])
def test_each_fault_is_refuted(machine: type[Machine], action: str, prop: str, rule: str) -> None:
    found = step_that_breaks(machine, action, prop)
    assert found is not None
    assert found.replayed
    assert rule in found.rule
