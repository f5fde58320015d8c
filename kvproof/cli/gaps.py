"""Gaps: parts of a run in which nothing was judged. A command that has one says which and why, and never answers 0."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import ExitStatus
from ..untrusted.text import one_line
from .output import Output

if TYPE_CHECKING:
    from ..checkers.explore import ExploreReport
    from ..checkers.fuzz import FuzzReport
    from ..checkers.prove import ProveReport
    from ..engines.driver.conformance import ConformanceReport
    from ..engines.report import HuntReport

__all__ = [
    "NO_NEGATIVE",
    "Gap",
    "about",
    "conclude",
    "of_conformance",
    "of_exploration",
    "of_fuzz",
    "of_hunt",
    "of_proof",
    "of_replay",
]

NO_NEGATIVE = "numbers that an action is given are never negative here"
"""What an exploration does not try."""

_NAMED = 6
"""So many kinds of what was met are named."""


@dataclass(frozen=True)
class Gap:
    """A part of a run that judged nothing."""

    part: str
    """Which: ``level scheduler``, ``capacity 10``."""
    why: str
    """What kept it from being judged."""
    mend: str
    """What to do about it."""
    fault: bool = False
    """Whether kvproof itself is to blame."""

    def __str__(self) -> str:
        return f"not judged: {self.part}: {self.why}; {self.mend}"


def conclude(output: Output, *, found: bool, gaps: Sequence[Gap], undecided: bool = False) -> ExitStatus:
    """Say what was not judged, and return the exit status: what was found outweighs what was not looked at. A fault of
    kvproof is neither."""
    for gap in gaps:
        output.line(str(gap))
    if found:
        return ExitStatus.REFUTED
    if any(gap.fault for gap in gaps):
        return ExitStatus.UNUSABLE
    return ExitStatus.UNDECIDED if gaps or undecided else ExitStatus.HOLDS


def of_hunt(report: "HuntReport") -> Iterator[Gap]:
    """What a hunt at one level of an engine did not judge."""
    part, activity = f"level {report.level}", report.activity
    for each in report.astray:
        at = f"after {each.case.ops[each.verdict.at][0]}" if each.verdict.at < len(each.case.ops) else "at its end"
        yield Gap(
            f"{part}, cases like one of {len(each.case.ops)} operations {at}",
            each.violation.text.removesuffix("; please report it"),
            f"report it with its trace, which kvproof fuzz {report.target} --level {report.level} --traces DIR writes",
            fault=True,
        )
    taken = report.examples - report.refused
    if report.findings and not report.steps:
        return  # An engine that fails at once was judged by that.
    if not report.examples:
        yield Gap(part, "no case was run in the time that there was", "give it more with --time")
    elif not taken:
        because = one_line(report.refusal, 300) or "it gave no reason"
        why = f"all {report.examples:,} setups were refused, the last because: {because}"
        yield Gap(part, why, "let it take them, or name another --level or --profile")
    elif not report.steps:
        why = f"no step was done in {taken:,} cases: of {report.skipped:,} operations each was skipped"
        yield Gap(part, why, "see with kvproof protocol-check what the driver makes of them")
    elif report.sight is not None and not report.sight.judged:
        missing = "; ".join(sorted(set(report.sight.unjudged.values())))
        yield Gap(part, f"no rule could be judged: {missing}", "let the driver tell more (docs/protocol.md)")
    elif report.sight is not None and not {"compute", "ran"} & report.sight.told:
        why = f"nothing was computed in {report.steps:,} steps: no effect compute was told"
        yield Gap(part, why, "let requests in, and tell what is computed of them (docs/protocol.md)")
    elif report.sight is None and not activity.states:
        yield Gap(part, "no state was told, so no rule could be judged", "let the worker tell states")
    elif activity.asked_again and not activity.hits:
        why = f"{activity.asked_again:,} lookups asked for what had been computed before, and none found anything"
        mend = 'mend the lookup, or say {"dialect": {"keep": "none"}} in the notes of a world that caches nothing'
        yield Gap(f"{part}, prefix hits", why, mend)
    if report.unsorted and not report.findings:
        what = f" ({', '.join([*report.left_over][:_NAMED])})" if report.left_over else ""
        why = f"{report.unsorted:,} kinds of cases broke a rule{what}, and there was no time to see them again"
        yield Gap(part, why, "give it more with --time")
    if report.unconfirmed and not report.findings:
        what = ", ".join(f"{name} ({count:,})" for name, count in report.unconfirmed.items())
        why = f"cases broke a rule, and a fresh worker did not show it again: {what}"
        yield Gap(part, why, "see what the engine, or its driver, keeps from case to case or takes from outside")


def of_fuzz(report: "FuzzReport", part: str) -> Iterator[Gap]:
    """What random runs beside a machine did not judge: actions that were never applied."""
    more = "give more --examples or --time, or another --seed"
    if not report.examples:
        yield Gap(part, "no run was made", more)
    elif not report.steps:
        yield Gap(part, f"no step was done in {report.examples:,} runs", "allow more --steps")
    elif report.untested and not report.findings:
        yield Gap(part, f"never applied: {', '.join(report.untested)}", more)


def of_proof(report: "ProveReport") -> Iterator[Gap]:
    """What a proof did not judge: a machine that promises nothing, or does nothing."""
    if not report.properties:
        yield Gap(report.machine, "the machine has no property to prove", "give it an @invariant or a @step")
    elif not report.actions:
        yield Gap(report.machine, "the machine has no action, so it never leaves its first state", "give it an @action")


def of_exploration(report: "ExploreReport", label: str) -> Iterator[Gap]:
    """What an exploration did not judge."""
    if report.violations:
        return
    if not report.properties:
        yield Gap(label, "the machine has no property to judge", "give it an @invariant or a @step")
    if report.complete and not report.transitions:
        numbers = f"; {NO_NEGATIVE}" if report.numbered else ""
        yield Gap(label, f"no action is possible in the first state{numbers}", "give larger sizes, or other parameters")
    elif not report.complete:
        yield _unfinished(report, label)


def _unfinished(report: "ExploreReport", label: str) -> Gap:
    """Where an exploration stopped, and why."""
    known = f"it stopped after {report.states:,} states, all that {report.explored_depth} steps reach among them"
    guess = about(report.expected)
    there_are = f"; there are perhaps {guess}" if guess else ""
    if report.stopped == "states":
        return Gap(label, known + there_are, "give a larger --max-states, or smaller sizes")
    room = _room(report.limit_bytes or 0)
    if report.stopped == "memory":
        return Gap(
            label, f"{known}, and has no room for more in {room}{there_are}", "give more --memory, or smaller sizes"
        )
    mend = "give smaller sizes, --max-states for a part of them, or --anyway to go on until memory is full"
    return Gap(label, f"{known}; there are perhaps {guess}, far more than {room} hold", mend)


def _room(size: int) -> str:
    return f"{size / 2**30:,.1f} GiB" if size >= 2**30 else f"{size / 2**20:,.1f} MiB"


def about(states: float | None) -> str:
    """A guess in words, no more exact than it is; nothing where there is none."""
    if states is None:
        return ""
    if states >= 1e12:
        return "more than a million million"
    digits = max(0, len(str(round(states))) - 1)
    return f"{round(states, -digits):,.0f}"


def of_replay(part: str, requests: int, turned_away: int, found: bool) -> Iterator[Gap]:
    """What a replay of a workload did not judge, by how many of its requests are larger than the device."""
    if turned_away >= requests and not found:
        why = f"all {requests:,} requests are larger than the device, so that none was let in"
        yield Gap(part, why, "give a larger --capacity")


def of_conformance(report: "ConformanceReport") -> Iterator[Gap]:
    """What the checks of a driver did not look at."""
    if not any(outcome.verdict == "passed" for outcome in report.outcomes):
        yield Gap("the protocol", "no check concerned the driver", "name its operations in the hello")
    elif not report.sight.judged:
        missing = "; ".join(sorted(set(report.sight.unjudged.values())))
        yield Gap("the engine", f"no rule can be judged by what the driver tells: {missing}", "let it tell more")
