"""Machines H are proved for any number of everything; and their mutants are refuted."""

from __future__ import annotations

import re

import pytest

from kvproof.checkers.prove import prove
from kvproof.machine import Machine, Model
from kvproof.spec.hybrid.aligned_split import AlignedSplit
from kvproof.spec.hybrid.connectors import Connectors
from kvproof.spec.hybrid.file_store import FileStore
from kvproof.spec.hybrid.groups import Groups
from kvproof.spec.hybrid.partial_loads import PartialLoads

from ..proofs import of_this_run
from . import broken_hybrid, broken_pieces
from .kept import sought
from .test_tiers import open_ends, step_that_breaks


@pytest.mark.parametrize(
    ("machine", "rules"),
    [
        (Groups, {"H4", "H8", "O11", "P2", "P3", "P5", "P7", "P9", "P13"}),
        (Connectors, {"H5", "H6", "O5", "O8", "O11", "P15"}),
        (PartialLoads, {"H5", "H6", "O7", "O8", "O11"}),
        (AlignedSplit, {"H7"}),
        (FileStore, {"H9"}),
    ],
    ids=lambda x: x.__name__ if isinstance(x, type) else "",
)
def test_the_machine_is_proved(machine: type[Machine], rules: set[str]) -> None:
    assert open_ends(prove(machine, proofs=of_this_run())) == []
    promised = Model.of(machine).properties.values()
    assert rules <= {r for p in promised if p.kind != "sometimes" for r in re.findall(r"[A-Z]\d+", p.rule)}


@pytest.mark.parametrize(
    ("machine", "action", "prop", "rule"),
    [sought(row) for row in (*broken_hybrid.BROKEN, *broken_pieces.BROKEN)],
)
def test_each_fault_is_refuted(machine: type[Machine], action: str, prop: str, rule: str) -> None:
    found = step_that_breaks(machine, action, prop)
    assert found is not None
    assert found.replayed
    assert rule in found.rule
