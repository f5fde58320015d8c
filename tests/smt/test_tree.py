"""Machine R is proved for any tree and any number of requests; its broken and its idle copies are refuted."""

from __future__ import annotations

import re

import pytest

from kvproof.checkers.prove import prove
from kvproof.machine import Machine, Model
from kvproof.spec.tree import PrefixTree

from ..proofs import of_this_run
from . import broken_tree
from .kept import sought
from .test_tiers import open_ends, step_that_breaks


@pytest.mark.slow
def test_the_tree_is_proved() -> None:
    assert open_ends(prove(PrefixTree, proofs=of_this_run())) == []
    model = Model.of(PrefixTree)
    written = [p.rule for p in model.properties.values() if p.kind in ("invariant", "step")]
    written += [action.rule for action in model.actions.values()]
    assert {r for said in written for r in re.findall(r"[A-Z]\d+", said)} == {"L1", *(f"R{n}" for n in range(1, 9))}


@pytest.mark.parametrize(
    ("machine", "action", "prop"),
    [sought(row) for row in (*broken_tree.BROKEN, *broken_tree.IDLE)],
)
def test_each_fault_is_refuted(machine: type[Machine], action: str, prop: str) -> None:
    found = step_that_breaks(machine, action, prop)
    assert found is not None
    assert found.replayed
