"""Reports that may be stale or repeated, exhaustively in a small scope; and what finds the mutants of that."""

from __future__ import annotations

from typing import Any

import pytest

from kvproof.checkers.explore import explore
from kvproof.machine import Machine, Model
from kvproof.machine.scope import Scope
from tests.smt import broken_reports

from ..marks import rows_but
from .chains import alone
from .tiers import scope

ONE: dict[str, Any] = {"blocks": 2, "requests": 1, "hashes": 1}
OTHERS: dict[type[Machine], dict[str, Any]] = {
    broken_reports.ForgetsWhatWasCopied: {**ONE, "workers": 2, "slots": 2},
}
"""Where one worker is heard before another."""


@pytest.mark.slow
def test_nothing_stale_does_anything() -> None:
    small = scope("reports", **ONE)
    report = explore(small.model, small)
    assert (report.violations, report.complete) == ([], True)
    assert (report.states, report.transitions) == (39_137, 406_666)
    assert report.unreached == ["one_worker_is_ahead"]


@pytest.mark.parametrize(
    ("machine", "_action", "prop"), rows_but(broken_reports.BROKEN, {"FreesTwice", "HearsTwice", "KeepsItsNumber"})
)
def test_each_report_that_is_misheard_is_found(machine: type[Machine], _action: str, prop: str) -> None:
    """By what it breaks, whatever else it breaks before."""
    small = scope("reports", **OTHERS.get(machine, ONE))
    only = alone(Model.of(machine), prop)
    found = explore(only, Scope(only, small.sizes, small.params)).violations
    assert prop in {v.name for v in found}
