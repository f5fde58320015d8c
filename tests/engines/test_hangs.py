"""A hang is what computes or sleeps too long, and nothing else: a busy machine is no fault of the engine's."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from kvproof.engines.hunt import hunt
from kvproof.engines.session import Limits, Session
from kvproof.engines.verdicts import judged_in, verdict
from kvproof.judge.record import Case

from .toys import cases, toy

LIMIT = 0.4
"""Seconds that an operation may compute."""


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with toy(Limits(start=60, operation=LIMIT, answer=60)) as session:
        yield session


@pytest.fixture
def _busy() -> Iterator[None]:
    """All processors are kept busy, several times over."""
    spinning = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(3 * (os.cpu_count() or 1))
    ]  # fmt: skip
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


def asked(session: Session, op: str, **args: Any) -> tuple[str | None, float]:
    """What is noticed, and how long the operation took."""
    began = time.monotonic()
    found, _ = verdict(session, Case("toy", {}, [(op, args)]))
    return None if found is None else found.violation.oracle, time.monotonic() - began


@pytest.mark.usefixtures("_busy")
def test_nothing_hangs_on_a_busy_machine(session: Session) -> None:
    noticed, seconds = asked(session, "compute", seconds=LIMIT * 0.8)
    assert seconds > LIMIT, "by the clock it would have been one"
    assert noticed is None
    report = hunt(judged_in(session), "fake==1.0", "toy", {"toy": cases()}, seconds=20, examples=40)
    assert report.findings == []
    assert report.unconfirmed == {}


@pytest.mark.usefixtures("_busy")
def test_what_computes_too_long_hangs_there_too(session: Session) -> None:
    assert asked(session, "compute", seconds=LIMIT * 4)[0] == "hang"


def test_what_sleeps_too_long_hangs(session: Session) -> None:
    assert asked(session, "slow", seconds=LIMIT / 2)[0] is None
    assert asked(session, "slow", seconds=LIMIT * 8)[0] == "hang"


def test_a_process_that_is_stopped_for_a_while_does_not(session: Session) -> None:
    noticed, seconds = asked(session, "stop", seconds=LIMIT * 3)
    assert seconds > LIMIT * 2
    assert noticed is None
