"""The hunt on the toy engine: it is silent where nothing is wrong, and finds, shrinks and tells what is."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

from kvproof.checkers.trace import decode_trace, encode_trace
from kvproof.cli.findings import case_of, file_name, report_to_json, tell, trace_of, violation_of
from kvproof.engines import clock, collecting
from kvproof.engines.drawing import DRAWING
from kvproof.engines.hunt import hunt
from kvproof.engines.known import Known, KnownError, Listed, read_known
from kvproof.engines.report import HuntReport
from kvproof.engines.session import Failure, Limits, Session
from kvproof.engines.verdicts import Begun, Result, begun_in, judged_in, of_failure, verdict
from kvproof.judge.record import Answer, Case, Step, World
from kvproof.judge.violation import Verdict, Violation

from .toys import cases, toy


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with toy(Limits(start=30, operation=2, answer=10)) as session:
        yield session


def hunted(session: Session, examples: int = 200, **setup: object) -> HuntReport:
    return hunt(
        judged_in(session), "fake==1.0", "toy", {"toy": cases(**setup)}, seconds=60, examples=examples,
        renew=session.renew,
    )  # fmt: skip


def test_the_right_toy_is_left_in_peace(session: Session) -> None:
    report = hunted(session)
    assert report.findings == []
    assert report.examples >= 200
    assert set(report.coverage) >= {"add", "finish", "evict", "store", "complete", "more", "drain", "reset"}


@pytest.mark.parametrize(
    ("fault", "rule", "length"),
    [
        pytest.param("P13", "P13", 2, marks=pytest.mark.slow),
        ("wrong table", "P6", 2),
        pytest.param("removed early", "P12", 3, marks=pytest.mark.slow),
        pytest.param("leak", "P2", 2, marks=pytest.mark.slow),
        pytest.param("host content", "P6", 3, marks=pytest.mark.slow),
    ],
)
def test_a_fault_is_found_and_made_small(session: Session, fault: str, rule: str, length: int) -> None:
    report = hunted(session, 400, fault=fault)
    found = [finding for finding in report.findings if finding.violation.rule == rule]
    assert found, report.findings
    assert len(found[0].case.ops) <= length, found[0].case.ops


def test_the_engine_works_on_the_next_case_while_one_is_judged_and_nothing_else_changes(session: Session) -> None:
    def told(ahead: Begun | None) -> tuple[object, ...]:
        cases_seen: list[int] = []
        report = hunt(
            judged_in(session), "fake==1.0", "toy", {"a": cases(fault="P13"), "b": cases(fault="leak")}, seed=3,
            seconds=600, examples=150, renew=session.renew, on_case=lambda answer: cases_seen.append(len(answer.steps)),
            begun=ahead,
        )  # fmt: skip
        found = [(finding.case, finding.violation, finding.steps_until, finding.needs) for finding in report.findings]
        return cases_seen, report.examples, report.steps, report.profiles, report.coverage, found

    waiting, most = 0, 0
    in_session = begun_in(session)

    def begun(case: Case) -> Callable[[], Result]:
        nonlocal waiting, most
        waiting += 1
        most = max(most, waiting)
        answered = in_session(case)

        def end() -> Result:
            nonlocal waiting
            waiting -= 1
            return answered()

        return end

    ahead = told(begun)
    assert ahead == told(None)
    assert ahead[1] == 150
    assert (most, waiting) == (2, 0)


def test_a_case_that_ends_the_worker_is_the_one_that_is_told(session: Session) -> None:
    calm = cases()
    crash = calm.map(lambda case: Case("toy", {}, [*case.ops, ("exit", {})] if len(case.ops) == 7 else case.ops))
    report = hunt(
        judged_in(session), "fake==1.0", "toy", {"toy": crash}, seconds=60, examples=60, renew=session.renew,
        begun=begun_in(session),
    )  # fmt: skip
    assert report.examples == 60
    assert [(finding.violation.rule, finding.case.ops[-1][0]) for finding in report.findings] == [("L2", "exit")]


@pytest.mark.parametrize(
    "start", [*(pytest.param(start, marks=pytest.mark.slow) for start in (0.01, 2.0)), 8.0, 20.0, 35.0]
)
@pytest.mark.parametrize("shown", ["often", "seldom"])
def test_a_hunt_ends_in_time_though_each_crash_costs_two_starts(
    monkeypatch: pytest.MonkeyPatch, start: float, shown: str
) -> None:
    """The clock is the engine's: it goes on by what a case takes, and by a start within a crash and one behind it."""
    now, runs, world = 0.0, True, World([], {}, 1)

    def monotonic() -> float:
        nonlocal now
        now += 1e-5
        return now

    monkeypatch.setattr(clock, "monotonic", monotonic)

    def judged(case: Case, _known: object) -> Result:
        nonlocal now, runs
        now += 0.05 + (0 if runs else start)
        steps = [Step(op, args) for op, args in case.ops]
        added = [sum(args["tokens"]) for op, args in case.ops if op == "add"]
        crashes = len(added) > 3 and (shown == "often" or sum(added) % 17 == 3)
        runs = not crashes
        if not crashes:
            return None, Answer(0, world=world, steps=steps)
        now += start
        answer = Answer(0, world=world, steps=steps[:-1])
        return Verdict(of_failure(Failure("crash", "it ended")), len(steps) - 1, answer), answer

    def renew() -> None:
        nonlocal runs
        runs = False

    report = hunt(judged, "fake==1.0", "toy", {"toy": cases()}, seconds=100, renew=renew, start=start)
    assert now <= 110
    assert now >= 80 - 2 * start, "nor does it give up"
    if start <= 8:
        assert [finding.violation.oracle for finding in report.findings] == ["crash"]
    else:
        assert report.findings or report.unsorted, "what there was no time for is said"


@pytest.mark.slow
def test_a_fault_is_reported_once_and_others_after_it(session: Session) -> None:
    report = hunted(session, 600, fault="P13")
    signatures = [finding.violation.signature for finding in report.findings]
    assert len(signatures) == len(set(signatures))


def test_a_finding_is_told_traced_and_seen_again(session: Session) -> None:
    report = hunted(session, 400, fault="P13")
    finding = next(f for f in report.findings if f.violation.rule == "P13")
    trace = decode_trace(encode_trace(trace_of("fake==1.0", finding.case, finding.verdict, seed=0)))
    assert violation_of(trace) == finding.violation
    again, _ = verdict(session, case_of(trace))
    assert again is not None
    assert again.violation == finding.violation
    text = "\n".join(tell("fake==1.0", finding.case, finding.verdict, "trace.jsonl"))
    assert "rule P13: A hash key stands for one content" in text
    assert "kvproof replay trace.jsonl --target fake==1.0" in text
    assert "device ref_cnt" in text
    assert file_name("fake==1.0", finding).startswith("fake-1.0-toy-P13-one-key-two-contents")
    assert report_to_json(report).findings[0].trace


KNOWN = Known("fake", "P13", "salts are ignored", "https://example.org/1", ">=1,<2")


def test_known_findings_are_told_apart(session: Session) -> None:
    listed = Listed([KNOWN], "fake", "1.0")
    report = hunt(
        judged_in(session), "fake==1.0", "toy", {"toy": cases(fault="P13")}, seconds=60, examples=300, listed=listed
    )
    known = [finding for finding in report.findings if finding.expected is not None]
    assert [finding.expected for finding in known] == ["salts are ignored (https://example.org/1)"]
    # What the same step breaks besides may stand in front.
    assert "P13" in [violation.rule for violation in known[0].all_symptoms]


@pytest.mark.parametrize(("needs", "is_news"), [([], False), (["mamba"], True)])
def test_what_the_same_step_breaks_is_known_with_it(session: Session, needs: list[str], is_news: bool) -> None:
    entry = Known("fake", "L2", "a leak", "https://example.org/2", oracle="blocks held for ever", needs=needs)
    listed, leaking = Listed([entry], "fake", "1.0"), {"toy": cases(fault="leak")}
    report = hunt(judged_in(session), "fake==1.0", "toy", leaking, seconds=60, examples=100, listed=listed)
    (leak,) = report.findings
    assert (leak.violation.rule, {violation.rule for violation in leak.verdict.also}) == ("P2", {"L2"})
    assert (leak.expected is None) == is_news


def test_a_known_finding_is_one_of_its_releases_and_its_rule_only() -> None:
    violation = Violation("P13", "one key, two contents", "...", ("a", "b"))
    assert KNOWN.fits("fake", "1.5", violation, "toy")
    assert not KNOWN.fits("fake", "2.0", violation, "toy")
    assert not KNOWN.fits("other", "1.5", violation, "toy")
    assert not KNOWN.fits("fake", "1.5", Violation("P6", "one key, two contents", "..."), "toy")
    assert Known("fake", "P13", "", "", key=["a"]).fits("fake", "1", violation, "toy")
    assert not Known("fake", "P13", "", "", key=["b"]).fits("fake", "1", violation, "toy")
    assert not Known("fake", "P13", "", "", level="pool").fits("fake", "1", violation, "toy")


def test_an_entry_never_hides_another_cause() -> None:
    """What shows alike and needs something else is news."""
    violation = Violation("L1", "requests that never end", "...", ("device",))
    drafts = Known("fake", "L1", "look-ahead slots", "", needs=["drafts", "window"])
    assert drafts.fits("fake", "1", violation, "toy", {"window", "drafts"})
    assert not drafts.fits("fake", "1", violation, "toy", {"window"})
    assert not drafts.fits("fake", "1", violation, "toy", {"window", "drafts", "mamba"})
    assert not drafts.fits("fake", "1", violation, "toy")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[known]]\nengine='x'", "missing required field"),
        ("[[known]", "no list of known findings"),
        ("[[known]]\nengine='x'\nrule='P1'\nreason=''\nlink=''\nreleases='new'", "is no range"),
    ],
)
def test_a_list_that_is_none_is_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "known.toml"
    path.write_text(text)
    with pytest.raises(KnownError, match=words):
        read_known(path)
    with pytest.raises(KnownError, match="cannot be read"):
        read_known(tmp_path / "absent.toml")


def test_cases_are_drawn_anew_and_none_is_made_of_parts_of_another() -> None:
    """What Hypothesis makes of parts of other cases is mostly the simplest of all: a hunt would go on with nothing."""
    ops = st.integers(3, 30).flatmap(lambda n: st.binary(min_size=n, max_size=n))

    def drawn(drawing: settings, seed: int) -> list[bytes]:
        found: list[bytes] = []
        case = st.tuples(st.lists(st.integers(0, 3), max_size=3), ops)
        seeded(seed)(drawing(given(case)(lambda case: found.append(case[1]))))()
        return found

    sizes = [len(play) for seed in range(20) for play in drawn(DRAWING, seed)]
    assert len(sizes) == 20 * 40
    assert sum(size == 3 for size in sizes) < 0.1 * len(sizes)
    assert drawn(DRAWING, 1) == drawn(DRAWING, 1)
    usual = [len(play) for seed in range(20) for play in drawn(settings(DRAWING, backend="hypothesis"), seed)]
    assert sum(size == 3 for size in usual) > 0.2 * len(usual), "the usual way draws enough now: then it may be taken"


@pytest.mark.slow
def test_what_never_brings_a_fault_is_worth_less_than_what_does() -> None:
    """A level of which each second shows much that is new, and none of it ever a fault, would have all the time."""
    worth = collecting._Worth()
    assert worth.of("quiet", 10, 0) == pytest.approx(10), "of one level alone each behaviour counts as one"
    assert [worth.of("quiet", 10, 0) for _ in range(50)] == pytest.approx([10] * 50)
    faulty = [worth.of("faulty", 10, n % 5 == 0) for n in range(50)]
    assert faulty[-1] == pytest.approx(10)
    assert worth.of("quiet", 10, 0) < 3
