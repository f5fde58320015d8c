"""The hunt: random cases against an engine, judged step by step; what breaks a rule is made small and reported once.

Hypothesis draws the cases and shrinks what fails; then operations are left out for as long as the same fault remains. A
fault that was found is set aside and the hunt goes on, so that one run tells of many.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Protocol

import msgspec
from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from hypothesis.errors import Flaky

from ..judge.activity import Activity
from ..judge.judging import judge
from ..judge.oracles.words import garbage
from ..judge.record import Answer, Case
from ..judge.sight import Sight
from ..judge.violation import Verdict, Violation
from .cases import MoreOracles
from .reduce import reduced
from .session import Failure, Run

__all__ = ["CLOSING", "Finding", "Judged", "Report", "Runs", "close", "hunt", "judged_in", "verdict"]

CLOSING: list[tuple[str, dict[str, Any]]] = [("drain", {}), ("reset", {})]
"""How a sequence ends: everything must come to rest, and rest must be empty."""

_BATCH = 40
"""Cases of one profile between two looks at the clock."""

_SHRINK = 1 / 30
"""The part of a hunt's time for which Hypothesis may shrink what a batch found, and twice that for leaving out
operations and arguments afterwards."""


class Runs(Protocol):
    """Whoever runs cases: a session with a worker, or a manager in this process."""

    def run(self, case: Case) -> Run:
        """Do a case."""


Judged = Callable[[Case, Collection[tuple[str, ...]]], tuple[Verdict | None, Answer]]
"""Runs a case and says what is wrong with it, passing over what has a known signature; and what the engine told."""


@dataclass(frozen=True)
class Finding:
    """A fault, with the smallest case that shows it."""

    verdict: Verdict
    case: Case
    profile: str
    seconds: float
    """From the start of the hunt to its first sight."""
    steps_until: int
    """Steps that the hunt had done by then."""
    expected: str | None = None
    """Why it is no news, where a list of known findings says so."""

    @property
    def violation(self) -> Violation:
        """The rule that is broken."""
        return self.verdict.violation


@dataclass
class Report:
    """What a hunt did and found."""

    target: str
    level: str
    examples: int = 0
    steps: int = 0
    skipped: int = 0
    """Operations that had nothing to act on."""
    refused: int = 0
    """Setups that the engine did not take."""
    refusal: str = ""
    """Why it did not take the last of them."""
    profiles: dict[str, int] = field(default_factory=dict)
    """Cases of each family that the engine took."""
    activity: Activity = field(default_factory=Activity)
    coverage: dict[str, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    seconds: float = 0.0
    steady_seconds: float = 0.0
    steady_steps: int = 0
    """What the speed is measured by: batches up to their first finding, without the very first."""
    sight: Sight | None = None
    """Which rules could be judged, where that depends on what the target can tell."""

    @property
    def speed(self) -> float | None:
        """Steps per second with all oracles on, drawing included, shrinking not."""
        return self.steady_steps / self.steady_seconds if self.steady_seconds else None


def close(case: Case, closing: Sequence[tuple[str, dict[str, Any]]] = CLOSING) -> Case:
    """The case with the closing operations."""
    return msgspec.structs.replace(case, ops=[*case.ops, *closing])


def verdict(
    session: Runs, case: Case, more: MoreOracles | None = None, known: Collection[tuple[str, ...]] = ()
) -> tuple[Verdict | None, Answer]:
    """Run a case and judge it: the first step that breaks a rule, if one does.

    Violations that are ``known`` are passed over as `judge` does.
    """
    run = session.run(case)
    answer = run.answer
    found = judge(answer, None if more is None else more(case), known)
    if found is None and run.failure is not None:
        found = len(answer.steps), [of_failure(run.failure)]
    elif found is None and (unanswered := _unanswered(case, answer)):
        found = len(answer.steps), [garbage("answer", unanswered)]
    if found is None:
        return None, answer
    at, violations = found
    return Verdict(violations[0], at, answer, tuple(violations[1:])), answer


def _unanswered(case: Case, answer: Answer) -> str | None:
    """What an answer leaves out: what nobody told cannot be judged, and must not pass for right."""
    if answer.refused is not None:
        return None
    if answer.world is None:
        return "the answer has neither a world nor a refusal"
    asked, told = [name for name, _ in case.ops], [step.op for step in answer.steps]
    ended = bool(answer.steps) and answer.steps[-1].error is not None
    if told == (asked[: len(told)] if ended else asked):
        return None
    return f"{len(asked)} operations were asked, and the answer's {len(told)} steps do not fit them"


def of_failure(failure: Failure) -> Violation:
    """A worker that was lost on legal calls."""
    return Violation("L2", failure.kind, failure.text, (failure.kind,))


class _FoundError(Exception):
    def __init__(self, verdict: Verdict, case: Case) -> None:
        super().__init__(verdict.violation.text)
        self.verdict, self.case = verdict, case


class _ShrunkEnough(BaseException):
    """Ends what Hypothesis shrinks, which would go on drawing cases that nobody runs."""


@cache
def _found_by(_signature: tuple[str, ...]) -> type[_FoundError]:
    """Hypothesis tells failures apart by their type: one for each signature."""
    return type("Found", (_FoundError,), {})


def judged_in(session: Runs, more: MoreOracles | None = None) -> Judged:
    """Cases run in a session, and judged by the oracles and ``more``."""
    return lambda case, known: verdict(session, case, more, known)


def hunt(
    judged: Judged,
    target: str,
    level: str,
    profiles: Mapping[str, st.SearchStrategy[Case]],
    *,
    seed: int = 0,
    seconds: float = 60.0,
    examples: int | None = None,
    findings: int | None = None,
    closing: Sequence[tuple[str, dict[str, Any]]] = CLOSING,
    sight: Sight | None = None,
    expected: Callable[[Violation, Case], str | None] = lambda _v, _c: None,
    on_progress: Callable[[Report, str], None] = lambda _r, _p: None,
    on_case: Callable[[Answer], None] = lambda _: None,
) -> Report:
    """Hunt for faults.

    Args:
        judged: runs a case and says what is wrong with it.
        target: what the engine is called in reports.
        level: which of its levels is driven.
        profiles: families of cases, by name; they take turns.
        seed: chooses the cases; the same seed draws the same ones, until the clock or a finding changes the turns.
        seconds: for how long.
        examples: how many cases at most.
        findings: with so many, nothing more is sought.
        closing: how each sequence ends.
        sight: sees what is told, where that depends on the target.
        expected: says why a violation is no news, or None.
        on_progress: called after each batch.
        on_case: called with what the engine told of each case that was drawn: of none that only makes one smaller.
    """
    report = Report(target, level, sight=sight)
    seen: set[tuple[str, ...]] = set()
    began = time.monotonic()

    def over() -> bool:
        enough = findings is not None and len(report.findings) >= findings
        return enough or time.monotonic() - began >= seconds or (examples is not None and report.examples >= examples)

    report.profiles.update(dict.fromkeys(profiles, 0))
    batch = 0
    while profiles and not over():
        for name, cases in profiles.items():
            steps, taken = report.steps, report.examples - report.refused
            hunter = _Hunter(judged, report, seen, closing, over, min(6.0, seconds * _SHRINK), on_case)
            for found in hunter.batch((seed << 32) + batch, cases):
                first = hunter.first[found.verdict.violation.signature]
                small = reduced(
                    close(found.case, closing),
                    found.verdict,
                    lambda case: judged(case, seen)[0],
                    min(10.0, seconds * _SHRINK * 2),
                )
                why = expected(small[1].violation, small[0])
                report.findings.append(Finding(small[1], small[0], name, first[0] - began, first[1], why))
                seen.add(found.verdict.violation.signature)
                seen.add(small[1].violation.signature)
            report.profiles[name] += report.examples - report.refused - taken
            if batch:
                until = min((found[1] for found in hunter.first.values()), default=report.steps)
                report.steady_seconds += hunter.searching
                report.steady_steps += until - steps
            report.seconds = time.monotonic() - began
            batch += 1
            on_progress(report, name)
            if over():
                break
    return report


class _Hunter:
    """One batch of cases of one profile."""

    def __init__(
        self,
        judged: Judged,
        report: Report,
        seen: set[tuple[str, ...]],
        closing: Sequence[tuple[str, dict[str, Any]]],
        over: Callable[[], bool],
        shrinking: float,
        on_case: Callable[[Answer], None],
    ) -> None:
        self._on_case = on_case
        self._shrinking, self._closing = shrinking, closing
        self.judged, self.report, self.seen, self.over = judged, report, seen, over
        self.first: dict[tuple[str, ...], tuple[float, int]] = {}
        self.searching = 0.0
        self._failed: dict[bytes, _FoundError] = {}
        self._smallest: dict[tuple[str, ...], _FoundError] = {}
        self._began = time.monotonic()

    def batch(self, seed: int, cases: st.SearchStrategy[Case]) -> list[_FoundError]:
        """Draw and run cases; return what was found, shrunk."""
        run = seeded(seed)(settings(_SETTINGS)(given(cases)(self._one)))
        found: list[_FoundError] = []
        try:
            run()
        except _ShrunkEnough:
            found = [*self._smallest.values()]
        except _FoundError as error:
            found = [error]
        except BaseExceptionGroup as group:
            failures, others = group.split(_FoundError)
            if failures is None or (others is not None and not isinstance(group, Flaky)):
                raise
            found = list(_leaves(failures))
        if not self.first:
            self.searching = time.monotonic() - self._began
        return found

    def _one(self, case: Case) -> None:
        """One case. After a first failure Hypothesis shrinks: for a while it may, then it is left."""
        key = msgspec.json.encode(case)
        if key in self._failed:
            raise self._failed[key]
        shrinking = bool(self.first)
        if shrinking and time.monotonic() - self._began - self.searching > self._shrinking:
            raise _ShrunkEnough
        if not shrinking and self.over():
            return
        found, answer = self.judged(close(case, self._closing), self.seen)
        if not shrinking:
            self._count(answer)
            self._on_case(answer)
        if found is None or found.violation.signature in self.seen:
            return
        signature = found.violation.signature
        if signature not in self.first:
            if not self.first:
                self.searching = time.monotonic() - self._began
            self.first[signature] = time.monotonic(), self.report.steps
        self._failed[key] = error = _found_by(signature)(found, case)
        smallest = self._smallest.get(signature)
        if smallest is None or len(case.ops) <= len(smallest.case.ops):
            self._smallest[signature] = error
        raise error

    def _count(self, answer: Answer) -> None:
        report = self.report
        report.examples += 1
        if answer.refused is not None:
            report.refused, report.refusal = report.refused + 1, answer.refused
        report.activity.see(answer)
        if report.sight is not None:
            report.sight.see(answer, report.activity)
        for step in answer.steps:
            if step.skipped:
                report.skipped += 1
            else:
                report.steps += 1
                report.coverage[step.op] = report.coverage.get(step.op, 0) + 1


_SETTINGS = settings(
    max_examples=_BATCH,
    deadline=None,
    database=None,
    derandomize=False,
    print_blob=False,
    verbosity=Verbosity.quiet,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)


def _leaves(group: BaseExceptionGroup[_FoundError]) -> Iterator[_FoundError]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error
