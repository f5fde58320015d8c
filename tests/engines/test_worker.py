"""The worker and its session against an engine that misbehaves in every way."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvproof.engines.session import Limits, Session, WorkerError
from kvproof.engines.verdicts import verdict
from kvproof.judge.record import Case

from .toys import FAKES, toy

ADD: tuple[str, dict[str, Any]] = ("add", {"tokens": [0, 1, 2]})
LIMITS = Limits(start=20, operation=3, answer=8, memory=100, line=2**20)


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with toy(LIMITS) as session:
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
        (("swallow", {}), "hang", "not answered in time"),
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
    assert session.starts > before


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
