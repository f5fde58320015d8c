"""The clean twin of vLLM's level ``pool``, beside machine P as a release is (`kvproof.differential.vllm.pool`)."""

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from kvproof.checkers.fuzz import FuzzReport
from kvproof.differential.vllm.pool import fuzz_pool
from kvproof.engines.build import Build
from kvproof.engines.session import Limits, Session

__all__ = ["RELEASES", "beside_machine_p"]

RELEASES = ("0.22.1", "0.27.1", "0.33.0")
"""One for each order in which releases free blocks (P10); the twin has the same."""

_ADAPTER = Path(__file__).parents[1] / "tests/engines/fakes/twins/vllm/vllm_engine.py"
_LIMITS = Limits(start=60, operation=20, answer=60)
_STEPS = 50


def beside_machine_p(seconds: float, number: int, fault: str = "") -> Iterator[FuzzReport]:
    """Yield how it went in each of the orders, which share the time, until they differ."""
    began = time.monotonic()
    for at, release in enumerate(RELEASES):
        # What is driven beside a machine takes no setups from without: the worker itself is told.
        environment = {**os.environ, "KVPROOF_TEST_RELEASE": release, "KVPROOF_TEST_FAULT": fault}
        python = Path(sys.executable)
        with Session.around(_ADAPTER, python, environment, _LIMITS, ["pool"]) as session:
            build = Build("vllm", release, python)
            left = (seconds - (time.monotonic() - began)) / (len(RELEASES) - at)
            report = fuzz_pool(build, build.label, number, None, _STEPS, left, session=session)
        yield report
        if report.findings:
            return
