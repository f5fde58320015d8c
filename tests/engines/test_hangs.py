"""A hang is what computes or sleeps too long, and nothing else: a busy machine is no fault of the engine's."""

import itertools
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from kvproof.engines import program
from kvproof.engines.hunt import hunt
from kvproof.engines.program import Lost, Program
from kvproof.engines.session import Asked, Limits, Session
from kvproof.engines.verdicts import begun_in, judged_in, verdict
from kvproof.engines.worker import serving
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


def ending(how: str) -> str:
    """What is said of a program that closes its output and then does something."""
    text = f"import os, sys, time; os.close(1); {how}; os._exit(3)"
    running = Program([sys.executable, "-c", text], os.environ, Limits(), folder=None, watched=False)
    try:
        with pytest.raises(Lost) as lost:
            running.line(60)
        return lost.value.failure.text
    finally:
        running.end()


GOES_ON = "the worker closed its output and went on running"


@pytest.fixture
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that say nothing more have half a second to end."""
    monkeypatch.setattr(program, "_ENDING", 0.5)


@pytest.mark.usefixtures("_short")
@pytest.mark.parametrize(
    ("step", "runnable", "said"),
    [(0.01, True, "the worker ended with status 3"), (0.01, False, GOES_ON), (0.4, True, GOES_ON)],
)
def test_a_program_that_waits_for_a_processor_has_longer_to_end(
    monkeypatch: pytest.MonkeyPatch, step: float, runnable: bool, said: str
) -> None:
    # How much a busy machine gives is its own affair: what the system tells is played.
    computed = itertools.count(0.0, step)
    monkeypatch.setattr(Program, "_computing", lambda _self: (next(computed), runnable))
    assert ending("time.sleep(3)") == said


@pytest.mark.usefixtures("_short")
def test_a_program_that_closes_its_output_and_sleeps_or_computes_goes_on_running() -> None:
    assert ending("time.sleep(60)") == GOES_ON
    assert ending("[None for _ in iter(int, 1)]") == GOES_ON


def test_a_program_that_has_ended_is_not_waited_for_though_its_child_has_the_output() -> None:
    began = time.monotonic()
    child = "import subprocess; subprocess.Popen(['sleep', '60'])"
    text = f"{child}; print('half an answer', flush=True); raise SystemExit(3)"
    running = Program([sys.executable, "-c", text], os.environ, Limits(), folder=None, watched=False)
    try:
        assert running.line(60) == b"half an answer", "what was said before is heard"
        with pytest.raises(Lost, match="ended with status 3") as lost:
            running.line(60)
    finally:
        running.end()
    assert lost.value.failure.kind == "crash"
    assert time.monotonic() - began < 30


@pytest.mark.usefixtures("_busy")
def test_nothing_hangs_on_a_busy_machine(session: Session) -> None:
    noticed, seconds = asked(session, "compute", seconds=LIMIT * 0.9)
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


def test_a_machine_that_stops_while_something_computes_makes_nobody_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = [0.0, 30.0, 0.1, 0.1, 0.25, 0.25, 0.25]  # A stop counts as computing to some systems.
    computed = itertools.accumulate(looks)
    monkeypatch.setattr(time, "process_time", lambda: next(computed))
    watch = serving._Watch(1.0)
    assert [watch.hangs(None) for _ in range(6)] == [False, False, False, False, False, True]


def test_a_process_that_is_stopped_for_a_while_does_not(session: Session) -> None:
    noticed, seconds = asked(session, "stop", seconds=LIMIT * 3)
    assert seconds > LIMIT * 2
    assert noticed is None


def test_behind_a_case_that_takes_all_the_time_none_is_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []
    with toy(Limits(start=60, operation=8, answer=2)) as driver:
        driver.ahead = 0  # As a driver of the user's is asked.
        ask = driver.ask

        def noted(case: Case, **how: Any) -> Asked:
            begun.append(len(case.ops))
            return ask(case, **how)

        monkeypatch.setattr(driver, "ask", noted)
        slow = cases().map(lambda case: Case("toy", {}, [*case.ops, ("slow", {"seconds": 8})]))
        hunt(
            judged_in(driver), "fake==1.0", "toy", {"toy": slow}, seconds=4.0, renew=driver.renew,
            begun=begun_in(driver), ready=driver.make_room,
        )  # fmt: skip
    assert len(begun) == 1


NODE = """node:internal/modules/cjs/loader:1228
  throw err;
  ^

Error: Cannot find module './pool.js'
Require stack:
- /home/me/driver.js
    at Module._resolveFilename (node:internal/modules/cjs/loader:1225:15)
  code: 'MODULE_NOT_FOUND'
}

Node.js v20.20.2
"""
GO = "panic: runtime error: index out of range [3]\n\ngoroutine 1 [running]:\nmain.main()\n\t/m.go:9 +0x1d\n"
RUST = "\nthread 'main' (7) panicked at src/main.rs:2:5:\nno room\nnote: run with `RUST_BACKTRACE=1` for a backtrace\n"
PYTHON = "Traceback (most recent call last):\nKeyError: 1\n\nDuring handling:\n  File a.py, line 1\nAssertionError\n"


@pytest.mark.parametrize(
    ("written", "why"),
    [
        (NODE, "Error: Cannot find module './pool.js'"),
        (GO, "panic: runtime error: index out of range [3]"),
        (RUST, "thread 'main' (7) panicked at src/main.rs:2:5: no room"),
        (PYTHON, "AssertionError"),
        ("an Error: of before\nKilled\n", "Killed"),
        ("    at nothing\n", "at nothing"),
    ],
)
def test_a_program_s_last_words_say_why_it_ended(written: str, why: str) -> None:
    """Whichever runtime it has: some write a trace of their calls behind it, or their version."""
    text = f"import sys; sys.stderr.write({written!r}); raise SystemExit(3)"
    assert ending(text).endswith(f"ended with status 3: {why}")
