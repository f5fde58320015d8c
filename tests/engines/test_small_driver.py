"""The small driver in JavaScript (docs/examples/small-driver): five calls of a pool, behind a pipe."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kvproof.engines.driver import conformance
from kvproof.engines.driver.command import Driver
from kvproof.engines.session import Session

from .test_exec import LIMITS, hunted

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "small-driver"


def driver(*more: str) -> tuple[str, ...]:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed: the example is in JavaScript")
    return (node, str(EXAMPLE / "driver.js"), *more)


def test_it_conforms_and_is_right_and_short() -> None:
    with Session.of(Driver(driver()), LIMITS) as session:
        assert conformance.check(session).failed == []
    assert hunted(driver(), 100).findings == []
    assert len((EXAMPLE / "driver.js").read_text().splitlines()) <= 60


@pytest.mark.parametrize("fault", ["no-touch", "no-parent"])
def test_a_planted_fault_is_found(fault: str) -> None:
    rules = {finding.violation.rule for finding in hunted(driver(fault), 60, seconds=120).findings}
    assert {"P6", "P3"} & rules
