"""A `BlockManager` or a `PrefixTree` fuzzed in this process: the cases of its level, judged by all its oracles."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property

import msgspec

from ..checkers.fuzz import nothing_from_modules
from ..checkers.heap import heap_at_rest
from ..engines.causes import Shown, merged, shown
from ..engines.driver import requests
from ..engines.hunt import hunt
from ..engines.report import Finding, HuntReport
from ..engines.verdicts import Judged, Result, judged_in, verdict
from ..engines.worker.frames import with_room
from ..judge.oracles.nothing_kept import NOTHING_KEPT
from ..judge.record import Answer, Case
from ..judge.sight import said
from ..judge.violation import Verdict, Violation
from .beside import beside_pool, check_comparable
from .ended import heeding, with_found
from .isolated import session_of
from .session import InProcess
from .subjects import Adapter, overrides, subject_of
from .telling import hint_of_hits, story, tell

__all__ = ["EXAMPLES", "SECONDS", "Fuzzed", "fuzz_manager", "judged_beside"]

EXAMPLES = 1000
"""So many cases where nothing else is said; each is a manager and up to forty operations."""

SECONDS = 10.0
"""The most time where nothing else is said."""

_LATE = 90.0
"""So many seconds more, where nothing was told: a case that hangs is run a dozen times, and each time to its limit."""

_FINDINGS = 4
"""With so many findings nothing more is sought: what one fault brings about breaks other rules too."""


@dataclass(frozen=True)
class Fuzzed:
    """What a run has shown of a manager, rule by rule."""

    kind: Adapter
    report: HuntReport

    @cached_property
    def broken(self) -> Mapping[str, list[str]]:
        """For each rule that is broken, what is wrong and how it comes to that, as text.

        One step may break several rules, and each of them is told. So is where the judge itself failed.
        """
        found: dict[str, list[str]] = {}
        for finding in (*self.report.findings, *self.report.astray):
            for each in _each(finding.verdict, self._rules):
                text = f"{story(self.kind, finding.case, each)}\n{_when(finding)}"
                found.setdefault(_rule_of(each.violation, self._rules), []).append(text)
        if not found:
            for case, verdict in self.report.met_once.values():
                for each in _each(verdict, self._rules):
                    found.setdefault(_rule_of(each.violation, self._rules), []).append(self._met_once(case, each))
        if not found and (never := self._never_hits()) is not None:
            found["P14 (nothing less)"] = [never]
        if not found and self.report.unsorted:
            found["L2"] = [self._not_seen_again()]
        return found

    @property
    def _rules(self) -> Collection[str]:
        return subject_of(self.kind).rules(self.kind)

    @property
    def unjudged(self) -> Mapping[str, str]:
        """The rules that could not be judged, and why: in the words of whoever writes a manager."""
        missing = {} if self.report.sight is None else self.report.sight.missing
        return {rule: ", ".join(dict.fromkeys(self._why(need) for need in needs)) for rule, needs in missing.items()}

    def _why(self, need: str) -> str:
        name = subject_of(self.kind).unlocks.get(need)
        if name is None or overrides(self.kind, name.removesuffix("()")):
            return said(need)
        return f"there is no {name}"

    def _met_once(self, case: Case, found: Verdict) -> str:
        """What a manager did once, and not when the case was played again: it broke the rule all the same.

        Of an engine that is no finding, since the worker or the machine may be to blame. Here nobody else can be.
        """
        lines = [*tell(self.kind.__qualname__, case, found)]
        lines.append("  met once, and not when this case alone was played again, so that there is no test to keep:")
        lines.append("  what happens depends on more than the calls (a class or module that keeps what cases before it")
        lines.append("  left there, random numbers, threads, the clock)")
        if found.violation.oracle == "hang":
            lines.append("  or the machine stood still, or was very busy: then there is nothing to mend")
        lines.append("")
        return "\n".join(lines)

    def _not_seen_again(self) -> str:
        """What there was no time to tell: it is no story, and must not pass for silence."""
        return (
            f"cases that broke a rule: {self.kind.__qualname__}\n"
            f"  what: {self.report.unsorted} kinds of them, which there was no time to see again: "
            f"{', '.join(self.report.left_over)}\n"
            "  more time tells which: --kvproof-time"
        )

    def _never_hits(self) -> str | None:
        """What no promise says: that a cache in which nothing is ever found is none."""
        activity = self.report.activity
        if not activity.asked_again or activity.hits:
            return None
        asked = f"{activity.asked_again:,} lookups asked for what had been computed before, none found anything"
        lines = [f"P14 a cache that never hits: {self.kind.__qualname__}", f"  what: {asked}"]
        lines.append('  a manager that caches nothing says so: dialect = {"keep": "none"}')
        return "\n".join([*lines, *hint_of_hits(self.kind)])


def fuzz_manager(
    kind: Adapter,
    *,
    examples: int | None = EXAMPLES,
    seconds: float = SECONDS,
    seed: int = 0,
    findings: int = _FINDINGS,
    lockstep: bool = False,
) -> Fuzzed:
    """Fuzz a manager or a tree; a manager also beside machine P where ``lockstep`` is true.

    The same seed draws the same cases.

    Raises:
        UsageError: it lacks what every manager has, or what is compared.
    """
    subject = subject_of(kind)
    if lockstep:
        check_comparable(kind)
    session = session_of(kind)
    can = session.hello.capabilities[subject.level]
    if lockstep:  # Machine P does one call after the other.
        one_by_one = [operation for operation in can.operations if operation not in requests.SEVERAL]
        can = msgspec.structs.replace(can, operations=one_by_one)
    met: list[Finding] = []

    def hear(found: list[Finding]) -> list[Finding]:
        met.extend(found)
        return []

    seen: dict[Shown, tuple[Case, Verdict]] = {}
    with heap_at_rest(), nothing_from_modules(), _telling(kind, met, seen), heeding() as heed:
        judged = judged_beside(session) if lockstep else judged_in(session, subject.more_oracles)
        report = with_room(
            lambda: hunt(
                _noted(judged, seen, heed),
                kind.__qualname__,
                subject.level,
                subject.profiles(can),
                seed=seed,
                seconds=seconds,
                examples=examples,
                findings=findings,
                closing=subject.closing(can),
                traits=subject.traits(can),
                late=_LATE,
                sight=subject.sight(),
                share=hear,
            )
        )
    return Fuzzed(kind, report)


def _noted(judged: Judged, seen: dict[Shown, tuple[Case, Verdict]], heed: Callable[[], None]) -> Judged:
    """The same, with a note of the shortest case that was seen to break a rule, for each way to show."""

    def noted(case: Case, known: Collection[tuple[str, ...]] = ()) -> Result:
        heed()
        found, answer = judged(case, known)
        heed()  # What was broken off in the midst of it says nothing of the manager.
        if found is not None:
            way = shown(found.violation)
            if way not in seen or found.at < seen[way][1].at:
                seen[way] = case, found
        return found, answer

    return noted


@contextmanager
def _telling(kind: Adapter, met: list[Finding], seen: Mapping[Shown, tuple[Case, Verdict]]) -> Iterator[None]:
    """Let who ends the hunt be told what it found, each cause once; where nothing is sure yet, what it saw.

    What ends it is an interruption, or what gives up the test, as pytest-timeout does.
    """
    try:
        yield
    except BaseException as error:
        found = merged(met, list(dict.fromkeys(finding.case.level for finding in met)))
        stories = [f"{story(kind, finding.case, finding.verdict)}\n{_when(finding)}" for finding in found]
        unsure = sorted(seen.values(), key=lambda each: each[1].at)[:_FINDINGS]
        with_found(error, stories or [f"{story(kind, *each)}\n{_UNSURE}" for each in unsure])
        raise


_UNSURE = "  not played again yet, and not made small"


def judged_beside(session: InProcess) -> Judged:
    """Cases judged by the oracles, and where these find nothing, by machine P."""

    def judged(case: Case, known: Collection[tuple[str, ...]]) -> tuple[Verdict | None, Answer]:
        found, answer = verdict(session, case, requests.more_oracles, known)
        return (beside_pool(answer) if found is None else found), answer

    return judged


def _each(found: Verdict, rules: Collection[str]) -> Iterator[Verdict]:
    """The verdict once for each rule that the step breaks, with what breaks it first."""
    told: set[str] = set()
    all_of_them = (found.violation, *found.also)
    for violation in all_of_them:
        if (rule := _rule_of(violation, rules)) not in told:
            told.add(rule)
            yield replace(found, violation=violation, also=tuple(v for v in all_of_them if v is not violation))


def _rule_of(violation: Violation, rules: Collection[str]) -> str:
    """The rule that is counted. A hit that is too long and one that is too short are told apart."""
    part = _PARTS.get((violation.rule, violation.oracle), violation.rule)
    if "host" in violation.key:
        part = _OF_HOST.get(part, part)
    if part == "P14" and violation.oracle not in _TOO_MUCH:
        part = "P14 (nothing less)"
    return part if part in rules else "L2"


_TOO_MUCH = ("length of a hit", NOTHING_KEPT)
"""What notices hits that are too long; all else of P14 notices those that are too short."""

_OF_HOST = {"P6": "P6 (host)", **dict.fromkeys(("P1", "P2", "P3"), "O1 (host counts)")}
"""What rules of a pool are called of the host's."""

_PARTS = {("R6", "order of eviction"): "R6 (order)"}
"""Rules that are judged in two parts, by what notices them."""


def _when(finding: Finding) -> str:
    needs = f"  it needs: {', '.join(sorted(finding.needs))}\n" if finding.needs else ""
    return f"{needs}  found after {finding.seconds:.1f} s ({finding.steps_until:,} steps) in profile {finding.profile}"
