"""The driver in Go (docs/examples/go-driver): four calls of a pool, behind a pipe."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from kvproof.engines.driver import conformance
from kvproof.engines.driver.command import Driver
from kvproof.engines.session import Session

from .test_exec import LIMITS, hunted

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "go-driver"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The example, built by the compiler that is here and with no other module."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("go is not installed: the example is in Go")
    built = tmp_path_factory.mktemp("go") / "pool"
    here = {**os.environ, "GOTOOLCHAIN": "local", "GOPROXY": "off", "GOFLAGS": "-mod=mod"}
    subprocess.run([go, "build", "-o", str(built), "."], cwd=EXAMPLE, env=here, check=True)
    return str(built)


def test_it_conforms_and_is_right_and_short(program: str) -> None:
    with Session.of(Driver((program,)), LIMITS) as session:
        assert conformance.check(session).failed == []
    assert hunted((program,), 100).findings == []
    assert len((EXAMPLE / "main.go").read_text().splitlines()) <= 60


@pytest.mark.parametrize("fault", ["no-touch", "no-parent"])
def test_a_planted_fault_is_found(program: str, fault: str) -> None:
    rules = {finding.violation.rule for finding in hunted((program, fault), 60, seconds=10).findings}
    assert {"P6", "P3"} & rules


def test_a_panic_is_a_finding_with_the_line_that_raised_it(program: str) -> None:
    findings = hunted((program, "panic"), 30, seconds=5).findings
    assert {finding.violation.rule for finding in findings} == {"L2"}
    assert "pool.go" in findings[0].violation.text + str(findings[0])
