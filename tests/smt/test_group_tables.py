"""Groups over one pool are proved for any number of everything; and their mutants are refuted."""

from __future__ import annotations

import pytest

from kvproof.checkers.prove import prove
from kvproof.machine import Machine
from kvproof.spec.hybrid.group_tables import GroupTables

from ..proofs import of_this_run
from . import broken_group_tables
from .test_tiers import open_ends, step_that_breaks


@pytest.mark.parametrize("only", [["register", "every state"], pytest.param(None, marks=pytest.mark.nightly)])
def test_tags_keep_groups_apart(only: list[str] | None) -> None:
    """What P does alone is P's; all of it is asked at night."""
    assert open_ends(prove(GroupTables, only=only, proofs=of_this_run())) == []


@pytest.mark.parametrize(
    ("machine", "action", "prop", "rule"),
    [
        # Through the loops of a lookup and of an allocation it takes seconds.
        pytest.param(*row, marks=() if row[1] == "register" else pytest.mark.slow, id=row[0].__name__)
        for row in broken_group_tables.BROKEN
    ],
)
def test_each_fault_is_refuted(machine: type[Machine], action: str, prop: str, rule: str) -> None:
    found = step_that_breaks(machine, action, prop)
    assert found is not None
    assert found.replayed
    assert rule in found.rule
