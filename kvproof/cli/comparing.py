"""An engine beside the reference implementation, case by case: the hunt for cases in which they do not do the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from ..checkers.heap import heap_at_rest
from ..checkers.trace import encode_trace
from ..differential.catalog import COMPARISONS, Comparison
from ..differential.outcome import Outcome
from ..engines.build import Build, StoreError
from ..engines.driver.command import is_driver
from ..engines.hunt import hunt
from ..engines.report import Finding, HuntReport
from ..engines.session import Limits, Session, WorkerError
from ..engines.store import resolve
from ..errors import UsageError
from ..judge.record import Answer, Case
from ..judge.violation import Verdict, Violation
from ..untrusted.text import file_stem
from .findings import trace_of
from .gaps import Gap
from .hunting import use_cache_of_drawings
from .schema import runs as schema

__all__ = ["Compared", "Tally", "compare_build", "compare_one", "gaps_of", "subject_of", "to_json", "trace_name"]

DIFFERS = "differs"
"""Stands where a finding has its rule: that both do the same is none of the specification's."""

_LIMITS = Limits(start=300.0, operation=20.0, answer=120.0)
"""A case is played to the end on both sides, and a whole trace is one operation of a mocker."""


@dataclass
class Tally:
    """What was compared."""

    steps: int = 0
    """Operations that did something."""
    compared: int = 0
    """Those of them after which both were compared and agreed."""
    counts: Counter[str] = field(default_factory=Counter)
    """What was compared that could have differed."""
    parted: Counter[str] = field(default_factory=Counter)
    """Why a comparison ended before its case did, and how often."""
    broken: dict[tuple[str, str], str] = field(default_factory=dict)
    """The rules that the engine broke on the way: what was seen first, by rule and oracle."""

    def see(self, outcome: Outcome) -> None:
        """Count a case."""
        self.steps += outcome.steps
        self.compared += outcome.compared
        self.counts += outcome.counts
        if outcome.parted is not None:
            self.parted[outcome.parted] += 1
        for violation in outcome.broken:
            self.broken.setdefault((violation.rule, violation.oracle), violation.text)


@dataclass
class Compared:
    """What came of it."""

    target: str
    subject: str
    report: HuntReport
    """The cases, and the disagreements as findings."""
    tally: Tally


def subject_of(target: str, subject: str | None) -> tuple[Build, str, Comparison]:
    """The build that a target names, and what of it is compared.

    Raises:
        UsageError: there is no such build, or nothing by that name to compare.
    """
    if is_driver(target):
        raise UsageError(
            "compare takes releases, not exec:COMMAND or python:MODULE:CLASS; kvproof fuzz judges a driver of your own"
        )
    names = [name.split("/") for name in COMPARISONS]
    try:
        build = resolve(target, list(dict.fromkeys(engine for engine, _ in names)))
    except StoreError as error:
        raise UsageError(str(error)) from error
    subjects = [what for engine, what in names if engine == build.name]
    if subject is None and len(subjects) == 1:
        subject = subjects[0]
    if subject not in subjects:
        asked = "needs a --subject" if subject is None else f"has no subject {subject}"
        raise UsageError(f"compare {target} {asked}; of {build.name} there is {' and '.join(subjects)}")
    return build, subject, COMPARISONS[f"{build.name}/{subject}"]


def compare_build(
    build: Build,
    target: str,
    subject: str,
    comparison: Comparison,
    *,
    profiles: Collection[str] = (),
    seed: int,
    seconds: float,
    examples: int | None,
    on_progress: Callable[[HuntReport], None],
    on_finding: Callable[[Finding], None] = lambda _: None,
) -> Compared:
    """Draw cases, and let both do each of them; ``on_finding`` hears of a disagreement as soon as it is sure.

    Raises:
        UsageError: the engine cannot be driven, or has no such family of cases.
    """
    use_cache_of_drawings()
    tally = Tally()
    try:
        with heap_at_rest(), Session.of(build, _LIMITS) as session:
            families = comparison.profiles(session.hello.version)
            if unknown := sorted(set(profiles) - set(families)):
                raise UsageError(f"subject {subject} has no profile {unknown[0]}; it has {', '.join(families)}")
            judged = _Judged(session, comparison)

            def hear(found: list[Finding]) -> list[Finding]:
                last = judged.last  # What is counted is the case that was drawn last, and none that is played again.
                for finding in found:
                    on_finding(judged.as_played(finding))
                judged.last = last
                return []

            report = hunt(
                judged,
                target,
                comparison.LEVEL,
                {name: cases for name, cases in families.items() if not profiles or name in profiles},
                seed=seed,
                seconds=seconds,
                examples=examples,
                closing=(),
                on_progress=lambda report, _: on_progress(report),
                on_case=lambda _: tally.see(judged.last) if judged.last is not None else None,
                share=hear,
            )
            report.findings = [judged.as_played(finding) for finding in report.findings]
    except WorkerError as error:
        raise UsageError(f"{target} cannot be driven: {error}") from error
    return Compared(target, subject, report, tally)


def compare_one(build: Build, target: str, subject: str, comparison: Comparison, case: Case) -> Compared:
    """Let both do one case.

    Raises:
        UsageError: the engine cannot be driven, or does not take the case.
    """
    report = HuntReport(target, comparison.LEVEL)
    tally = Tally()
    try:
        with Session.of(build, _LIMITS) as session:
            judged = _Judged(session, comparison)
            found, answer = judged(case, ())
            report.examples = 1
            report.steps = sum(not step.skipped for step in answer.steps)
            if answer.refused is not None:
                raise UsageError(f"{target} does not take the setup of this case: {answer.refused}")
            if judged.last is not None:
                tally.see(judged.last)
            if found is not None:
                report.findings = [judged.as_played(Finding(found, case, "", 0.0, 0))]
    except WorkerError as error:
        raise UsageError(f"{target} cannot be driven: {error}") from error
    return Compared(target, subject, report, tally)


class _Judged:
    """Runs cases on both sides; what is wrong with one is that they disagree, or that the engine fails."""

    def __init__(self, session: Session, comparison: Comparison) -> None:
        self._session, self._comparison = session, comparison
        self.last: Outcome | None = None

    def __call__(self, case: Case, known: Collection[tuple[str, ...]]) -> tuple[Verdict | None, Answer]:
        self.last = outcome = self._comparison.compare(self._session, case)
        differs = outcome.disagreement
        if differs is None:
            return None, outcome.answer
        violation = Violation(DIFFERS, differs.what, str(differs), (differs.op,))
        if violation.signature in known:
            return None, outcome.answer
        return Verdict(violation, differs.at, outcome.answer), outcome.answer

    def as_played(self, finding: Finding) -> Finding:
        """The finding with its case as it was played: what was one operation may be several steps of both."""
        found, _ = self(finding.case, ())
        if found is None or self.last is None or found.violation.signature != finding.violation.signature:
            return finding
        return Finding(found, self.last.case, finding.profile, finding.seconds, finding.steps_until)


def trace_name(target: str, subject: str, finding: Finding) -> str:
    """A name for a disagreement's trace."""
    return file_stem("-".join((target.replace("==", "-"), subject, *finding.violation.signature))) + ".jsonl"


def gaps_of(compared: Compared) -> Iterator[Gap]:
    """What a comparison of an engine with the reference implementation did not look at."""
    report, tally = compared.report, compared.tally
    if report.findings:
        return
    if not report.examples:
        yield Gap("the comparison", "no case was run in the time that there was", "give it more with --time")
    elif report.refused == report.examples:
        why = f"all {report.examples:,} setups were refused, the last because: {report.refusal}"
        yield Gap("the comparison", why, "name another --profile or release")
    elif not tally.compared:
        why = "; ".join(tally.parted) or "no operation did anything"
        yield Gap("the comparison", f"nothing was compared: {why}", "give it more --time, or another --seed")


def to_json(compared: Compared) -> schema.Compare:
    """What came of it, for programs."""
    report, tally = compared.report, compared.tally
    return schema.Compare(
        target=compared.target,
        subject=compared.subject,
        examples=report.examples,
        profiles=report.profiles,
        steps=tally.steps,
        compared=tally.compared,
        counts=dict(tally.counts),
        parted=dict(tally.parted),
        broken=[schema.Broken(rule=rule, oracle=oracle, text=text) for (rule, oracle), text in tally.broken.items()],
        disagreements=[
            schema.Disagreement(
                what=finding.violation.oracle,
                text=finding.violation.text,
                profile=finding.profile,
                steps=len(finding.case.ops),
                trace=encode_trace(trace_of(compared.target, finding.case, finding.verdict)).decode(),
            )
            for finding in report.findings
        ],
        seconds=report.seconds,
        gaps=list(gaps_of(compared)),
    )
