"""Reports that may be stale or repeated are proved to be harmless; and the mutants of that are refuted."""

from __future__ import annotations

import pytest

from kvproof.checkers.prove import prove
from kvproof.machine import Machine
from kvproof.spec.offload.reports import Reports

from ..proofs import of_this_run
from . import broken_reports
from .test_tiers import open_ends, step_that_breaks

OWN = (
    "send_store",
    "send_load",
    "hear_store",
    "hear_load",
    "report_store",
    "report_load",
    "fail_load",
    "fail_abandoned_load",
)
"""What machine O does not say word by word."""


@pytest.mark.slow
def test_what_is_sent_and_heard_is_proved() -> None:
    assert open_ends(prove(Reports, only=OWN, proofs=of_this_run())) == []


@pytest.mark.nightly
def test_reports_are_proved() -> None:
    """All of it: what machine O says of its own actions as well."""
    assert open_ends(prove(Reports, proofs=of_this_run())) == []


@pytest.mark.slow
@pytest.mark.parametrize(("machine", "action", "prop"), broken_reports.BROKEN, ids=lambda x: getattr(x, "__name__", ""))
def test_each_report_that_is_misheard_is_refuted(machine: type[Machine], action: str, prop: str) -> None:
    found = step_that_breaks(machine, action, prop)
    assert found is not None
    assert found.replayed
    assert "O7" in found.rule
