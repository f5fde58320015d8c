"""The worker and its session against an engine that misbehaves in every way."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvproof.engines.session import WORKER, Limits, Session, WorkerError
from kvproof.engines.verdicts import verdict
from kvproof.judge.record import Case

from .toys import FAKES, toy

ADD: tuple[str, dict[str, Any]] = ("add", {"tokens": [0, 1, 2]})
LIMITS = Limits(start=20, operation=3, answer=8, memory=100, line=2**20)


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with toy(LIMITS) as session:
        assert session.hello, "it is started: what starts behind it is one that was lost"
        yield session


def case(*ops: tuple[str, dict[str, Any]], **setup: object) -> Case:
    return Case("toy", setup, list(ops))


def test_says_hello(session: Session) -> None:
    assert (session.hello.engine, session.hello.version, session.hello.levels) == ("fake", "1.0", ["toy"])


def test_the_same_message_gives_the_same_answer_also_in_a_fresh_process(session: Session) -> None:
    ops = case(ADD, ADD, ("finish", {"pick": 0}), ("store", {"pick": 0}), ("drain", {}))
    first, again = session.run(ops).answer, session.run(ops).answer
    with toy(LIMITS) as other:
        fresh = other.run(ops).answer
    assert first.steps == again.steps == fresh.steps
    assert len(first.steps) == 5


def test_digests_stand_for_states(session: Session) -> None:
    ops = case(ADD, ("evict", {"pick": 4}), ADD)
    digests = session.run(ops, snapshots="digest", full_at=[2]).answer.steps
    assert digests[0].digest == digests[1].digest != digests[2].digest
    assert [step.state is None for step in digests] == [True, True, False]
    assert digests[2].state == session.run(ops).answer.steps[2].state
    assert all(step.state is None and step.digest is None for step in session.run(ops, snapshots="none").answer.steps)


def test_a_setup_that_the_engine_does_not_take_is_no_finding(session: Session) -> None:
    assert session.run(case(blocks=1)).answer.refused == "too few blocks"
    assert verdict(session, case(blocks=1))[0] is None


def test_an_exception_in_the_setup_is_a_finding(session: Session) -> None:
    found, _ = verdict(session, case(ADD, fault="setup"))
    assert found is not None
    assert found.violation.key[0] == "ValueError"


def test_an_exception_ends_the_sequence_and_not_the_worker(session: Session) -> None:
    before = session.starts
    found, answer = verdict(session, case(ADD, ("raise", {}), ADD))
    assert found is not None
    assert found.at == 1 == len(answer.steps) - 1
    assert found.violation.rule == "L2"
    assert "the toy is broken" in found.violation.text
    assert session.starts == before


def test_an_engine_that_spins_is_stopped_in_the_operation(session: Session) -> None:
    before = session.starts
    found, answer = verdict(session, case(ADD, ("spin", {})))
    assert found is not None
    assert answer.steps[1].error is not None
    assert answer.steps[1].error.type == "Hang"
    assert found.violation.oracle == "hang"
    assert session.starts == before


def test_memory_is_limited(session: Session) -> None:
    found, answer = verdict(session, case(ADD, ("memory", {"megabytes": 2000})))
    assert found is not None
    assert answer.steps[1].error is not None
    assert answer.steps[1].error.type == "MemoryError"
    assert session.run(case(ADD)).failure is None


def test_what_an_engine_prints_is_not_taken_for_an_answer(session: Session) -> None:
    assert verdict(session, case(("print", {}), ADD))[0] is None


@pytest.mark.parametrize(
    ("op", "kind", "words"),
    [
        (("crash", {}), "crash", "signal 11"),
        (("killed", {}), "crash", "signal 9"),
        (("exit", {}), "crash", "status 3"),
        pytest.param(("swallow", {}), "hang", "not answered in time", marks=pytest.mark.slow),
        (("garbage", {}), "garbage", "garbage"),
        (("flood", {"bytes": 2**21}), "flood", "longer than"),
    ],
)
def test_a_lost_worker_is_a_finding_and_the_run_goes_on(
    session: Session, op: tuple[str, dict[str, object]], kind: str, words: str
) -> None:
    before = session.starts
    found, _ = verdict(session, case(ADD, op, ADD))
    assert found is not None
    assert (found.violation.rule, found.violation.oracle) == ("L2", kind)
    assert words in found.violation.text
    if kind in ("crash", "hang"):
        assert found.at == 1, "where it happened is known: the steps before it were told one by one"
    assert verdict(session, case(ADD))[0] is None, "a fresh worker goes on"
    assert (session.starts == before) == (kind == "crash"), "a copy that is lost costs no import of the engine"


def test_without_copies_a_worker_that_is_lost_is_started_again() -> None:
    with Session.around(FAKES / "fake_engine.py", Path(sys.executable), os.environ, LIMITS) as alone:
        found, _ = verdict(alone, case(ADD, ("crash", {}), ADD))
        assert found is not None
        assert ("signal 11" in found.violation.text, found.at) == (True, 1)
        assert verdict(alone, case(ADD))[0] is None
        assert alone.starts == 3, "one that says each step at once, and one that goes on"


def test_what_an_operation_started_ends_with_the_worker_that_is_lost(session: Session) -> None:
    before = session.starts
    assert verdict(session, case(("orphan", {}), ("crash", {})))[0] is not None
    assert verdict(session, case(ADD))[0] is None
    assert session.starts > before


def test_a_copy_that_is_lost_says_its_own_last_words(session: Session) -> None:
    first, second = (session.run(case((op, {}))).failure for op in ("last_words", "killed"))
    assert first is not None
    assert second is not None
    assert (first.text, second.text) == (
        "the worker ended with status 3: my last words",
        "the worker ended with signal 9",
    )


def test_what_a_lost_copy_left_of_a_long_message_is_passed_over(session: Session) -> None:
    bad, long = case(("crash", {}), note='{"again":7}\n' * 30_000), case(ADD, note='{"again":7}' * 30_000)
    before = session.starts
    asked = [session.ask(each) for each in (bad, long, bad, long)]
    failed = [session.answer(each).failure is not None for each in asked]
    assert (failed, session.starts) == ([True, False] * 2, before)


@pytest.mark.parametrize("limits", [{"levels": ["toy"]}, {}], ids=["by copies", "by itself"])
def test_a_worker_that_nobody_listens_to_any_more_ends(limits: dict[str, Any]) -> None:
    """As when the kit was killed in the midst of a case, and another process still holds the standard input."""
    command = [sys.executable, str(WORKER), str(FAKES / "fake_engine.py"), json.dumps(limits)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    ) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        try:
            assert b"hello" in worker.stdout.readline()
            worker.stdout.close()
            worker.stdin.write(b'{"id": 1, "level": "toy", "setup": {}, "ops": []}\n')
            worker.stdin.flush()
            assert worker.wait(20) == 0
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(worker.pid, signal.SIGKILL)


def test_a_slow_engine_within_its_limits_is_fine(session: Session) -> None:
    assert verdict(session, case(("slow", {"seconds": 0.3}), ADD))[0] is None


def test_a_worker_that_cannot_start_says_why() -> None:
    with pytest.raises(WorkerError, match="cannot be run"):
        _ = Session(["/nonexistent/python"]).hello
    with pytest.raises(WorkerError, match=r"did not start.*No module named"):
        _ = Session.around(FAKES / "absent_engine.py", Path(sys.executable), os.environ, LIMITS).hello
    with pytest.raises(WorkerError, match="protocol 99"):
        _ = Session(
            [sys.executable, "-c", 'print(\'{"hello":{"protocol":99,"engine":"x","version":"1","levels":[]}}\')']
        ).hello


# Cases that are given to a worker before it has answered those before them.


@pytest.mark.parametrize("first", [True, False])
def test_of_two_cases_that_a_worker_was_given_the_one_it_was_at_is_to_blame(session: Session, first: bool) -> None:
    bad, good = case(ADD, ("crash", {}), ADD), case(ADD, ADD, ADD)
    alone, before = session.run(good).answer, session.starts
    asked = [session.ask(each) for each in ((bad, good) if first else (good, bad))]
    of_bad, of_good = (session.answer(each) for each in (asked if first else asked[::-1]))
    assert of_bad.failure is not None
    assert (of_bad.failure.kind, [step.op for step in of_bad.answer.steps]) == ("crash", ["add"])
    assert of_good.failure is None
    assert of_good.answer.steps == alone.steps
    assert session.starts == before
    assert session.run(good).answer.steps == alone.steps


def test_two_cases_that_both_break_the_worker_are_two_failures(session: Session) -> None:
    asked = [session.ask(case(ADD, (op, {}))) for op in ("exit", "killed")]
    failures = [session.answer(each).failure for each in asked]
    assert [failure is not None and failure.text.partition(":")[0] for failure in failures] == [
        "the worker ended with status 3", "the worker ended with signal 9",
    ]  # fmt: skip


def test_cases_and_answers_may_be_longer_than_a_pipe_holds(session: Session) -> None:
    long = case(*[ADD] * 600, note="x" * 200_000)
    asked = [session.ask(long) for _ in range(3)]
    answers = [session.answer(each).answer for each in reversed(asked)]
    assert [len(answer.steps) for answer in answers] == [600] * 3
    assert len({answer.id for answer in answers}) == 3


def test_the_time_of_a_case_begins_when_the_one_before_it_is_over() -> None:
    def failures(*seconds: float) -> list[str | None]:
        asked = [slow.ask(case(("slow", {"seconds": each}))) for each in seconds]
        return [None if (failed := slow.answer(each).failure) is None else failed.kind for each in asked]

    with toy(Limits(start=2, operation=30, answer=2)) as slow:
        assert failures(1.4, 1.4) == [None, None]
        assert failures(0.1, 6, 0.1) == [None, "hang", None]


def test_what_else_is_said_comes_after_what_was_asked(session: Session) -> None:
    asked = session.ask(case(ADD, ADD))
    session.renew()
    assert asked.run is not None
    assert session.answer(asked).answer.steps == session.run(case(ADD, ADD)).answer.steps
    asked = session.ask(case(ADD, ADD))
    assert session.exchange({"level": "toy", "setup": {}, "ops": [], "snapshots": "full"}).failure is None
    assert len(session.answer(asked).answer.steps) == 2


def test_a_session_that_was_closed_in_between_asks_again(session: Session) -> None:
    asked = [session.ask(case(ADD)), session.ask(case(ADD, ADD))]
    session.close()
    assert session.hello.engine == "fake"
    assert [len(session.answer(each).answer.steps) for each in asked] == [1, 2]
