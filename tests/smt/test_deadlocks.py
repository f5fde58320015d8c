"""The halts of released engines, in small: each is refuted for any size, and the machine beside it is proved."""

from __future__ import annotations

import pytest

from kvproof.checkers.prove import prove
from kvproof.harness.machines import find_machine
from tests.deadlocks import HALTS, Halt


@pytest.mark.parametrize("halt", HALTS, ids=str)
def test_it_goes_on(halt: Halt) -> None:
    assert [o.goal for o in prove(halt.goes_on, jobs=1).obligations if o.verdict != "proved"] == []


@pytest.mark.parametrize(
    "halt", [pytest.param(h, marks=pytest.mark.slow if str(h) == "look-ahead" else ()) for h in HALTS], ids=str
)
def test_it_stops(halt: Halt) -> None:
    report = prove(find_machine(halt.name), jobs=1, only=[halt.place], timeout=1)
    assert {(o.goal.split(" (")[0], o.verdict) for o in report.obligations if o.verdict != "proved"} == {
        (halt.refuted, "refuted")
    }
