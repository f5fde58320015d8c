"""What a change breaks and what it mends: the same cases on both sides of it, and each side's findings on the other.

Cases are drawn by one seed, but turns depend on the clock and on what is found. So whatever one side is found to do
wrong is played on the other too, and only that decides.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from ..engines.build import Build
from ..engines.causes import merged
from ..engines.driver.command import Driver
from ..engines.report import Finding, HuntReport
from ..engines.session import Session, WorkerError
from ..errors import UsageError
from .behaviour import Behaviour, compare_behaviour
from .engine_replay import Outcome, outcome_in
from .findings import finding_to_json
from .gaps import Gap, of_hunt
from .hunting import POOL, Plan, hunt_levels, levels_of, more_oracles
from .schema import runs as schema

__all__ = ["Change", "Changes", "Fate", "Side", "SoFar", "check_sides", "common_levels"]

_HUNTING = 0.85
"""The part of the time that goes into hunts; the rest is for what is no fault."""

Fate = Literal["broken", "mended", "both", "unlike"]
"""What the change has to do with a fault: it brings it, it takes it away, neither. ``unlike``: nothing can be said, for
the other side does something else wrong in that case, or cannot be asked."""


@dataclass(frozen=True)
class Side:
    """One side of the change, and what was found on it."""

    name: Literal["base", "head"]
    plan: Plan
    reports: list[HuntReport]

    @property
    def gaps(self) -> Iterator[Gap]:
        """The levels at which nothing was judged."""
        for report in self.reports:
            for gap in of_hunt(report):
                yield replace(gap, part=f"{self.name} {self.plan.target}, {gap.part}")


@dataclass(frozen=True)
class Change:
    """A fault that one side shows, and what the other side does in the same case."""

    side: Side
    finding: Finding
    elsewhere: Outcome

    @property
    def fate(self) -> Fate:
        """What the change has to do with it."""
        if self.elsewhere.kind == "same":
            return "both"
        if self.elsewhere.kind == "none":
            return "broken" if self.side.name == "head" else "mended"
        return "unlike"

    @property
    def is_news(self) -> bool:
        """Whether no list of known findings has it."""
        return self.finding.expected is None


@dataclass(frozen=True)
class Changes:
    """What was found on both sides."""

    base: Side
    head: Side
    changes: list[Change]
    behaviour: list[Behaviour] = field(default_factory=list)
    """What is different and no fault, level by level."""

    @property
    def gaps(self) -> list[Gap]:
        """What was not judged, on either side."""
        return [*self.base.gaps, *self.head.gaps]

    def has(self, fate: Fate) -> bool:
        """Whether something of that fate is news."""
        return any(change.fate == fate and change.is_news for change in self.changes)

    def shows_otherwise(self, change: Change) -> bool:
        """Whether the other side of what is broken or mended breaks the same rule in the same way in another case.

        Then the change may have moved a fault, and not made or mended it: with another order of eviction, a block goes
        at another time, and what was wrong before shows in other cases.
        """
        other = self.base if change.side is self.head else self.head
        shown = (change.finding.case.level, change.finding.violation.rule, change.finding.violation.oracle)
        return change.fate in ("broken", "mended") and any(
            (finding.case.level, finding.violation.rule, finding.violation.oracle) == shown
            for report in other.reports
            for finding in report.findings
        )

    def to_json(self) -> schema.CheckChange:
        """The same for programs."""
        sides = (self.base, self.head)
        return schema.CheckChange(
            base=self.base.plan.target,
            head=self.head.plan.target,
            levels=list(self.head.plan.levels),
            seed=self.head.plan.seed,
            examples={side.name: sum(report.examples for report in side.reports) for side in sides},
            steps={side.name: sum(report.steps for report in side.reports) for side in sides},
            changes=[
                schema.Changed(
                    fate=change.fate,
                    found_on=change.side.name,
                    finding=finding_to_json(change.side.plan.target, change.finding),
                    elsewhere=change.elsewhere.kind,
                    what=change.elsewhere.words,
                )
                for change in self.changes
            ],
            behaviour=[behaviour.to_json() for behaviour in self.behaviour],
            seconds=sum(max((report.seconds for report in side.reports), default=0.0) for side in sides),
            gaps=self.gaps,
        )


def common_levels(base: Build | Driver, head: Build | Driver, wanted: Iterable[str]) -> tuple[str, ...]:
    """The levels at which both sides are judged by rules: those that are wanted, or all. The level `pool` is judged
    beside a machine, which is no rule that one side keeps and the other breaks.

    Raises:
        UsageError: there is none, or one is wanted that they do not share.
    """
    found = [level for level in levels_of(head) if level in levels_of(base) and level != POOL]
    if not found:
        raise UsageError("base and head have no level in common; name two builds of one engine, or two drivers")
    unknown = sorted(set(wanted) - set(found))
    if unknown:
        raise UsageError(f"base and head are not compared at level {unknown[0]}; name one of {', '.join(found)}")
    return tuple(wanted) or tuple(found)


@dataclass
class SoFar:
    """What was found until now: who ends the command does not end that."""

    met: list[tuple[Side, Finding]] = field(default_factory=list)
    """What was found on a side, in the order in which it was."""
    played: list[Change] = field(default_factory=list)
    """What was played on the other side too."""

    @property
    def changes(self) -> list[Change]:
        """What the other side was asked of, each fault once."""
        return [*_once(self.played)]

    @property
    def unasked(self) -> list[tuple[Side, Finding]]:
        """What was found on a side, each cause once, and not played on the other yet."""
        asked = {(change.side.name, *_name(change.finding)) for change in self.played}
        sides = {side.name: side for side, _ in self.met}.values()
        found = [
            (side, finding)
            for side in sides
            for finding in merged([met for of, met in self.met if of.name == side.name], side.plan.levels)
        ]
        return [(side, finding) for side, finding in found if (side.name, *_name(finding)) not in asked]


def check_sides(
    base: Plan, head: Plan, on_progress: Callable[[str, HuntReport], None], so_far: SoFar | None = None
) -> Changes:
    """Hunt on both sides, play what was found on each on the other, and compare what they do where nothing is wrong.

    What was found is told to ``so_far`` at once.

    Raises:
        UsageError: one side cannot be driven.
    """
    so_far = SoFar() if so_far is None else so_far
    hunts = [replace(plan, seconds=plan.seconds * _HUNTING) for plan in (base, head)]
    before = _hunted(Side("base", hunts[0], []), on_progress, so_far)
    after = _hunted(Side("head", hunts[1], []), on_progress, so_far)
    for change in (*_changes(after, before), *_changes(before, after)):
        so_far.played.append(change)
    seconds = 2 * base.seconds * (1 - _HUNTING)
    return Changes(before, after, [*_once(so_far.played)], compare_behaviour(base, head, seconds))


def _hunted(side: Side, on_progress: Callable[[str, HuntReport], None], so_far: SoFar) -> Side:
    reports = hunt_levels(
        side.plan,
        lambda report: on_progress(side.name, report),
        lambda finding: so_far.met.append((side, finding)),
    )
    return replace(side, reports=[report for report in reports if isinstance(report, HuntReport)])


def _changes(found: Side, other: Side) -> Iterator[Change]:
    """What was found on one side, each with what the other does in its case: one worker plays them all."""
    findings = [finding for report in found.reports for finding in report.findings]
    if not findings:
        return
    build = other.plan.build
    try:
        with Session.of(build) as session:
            for finding in findings:
                case = finding.case
                own = more_oracles(case.level, build)
                outcome = outcome_in(session, build, case, finding.violation, own)
                yield Change(found, finding, outcome)
    except WorkerError as error:
        raise UsageError(f"{other.plan.target} cannot be driven: {error}") from error


def _once(changes: Iterable[Change]) -> Iterator[Change]:
    """What both sides do wrong was found on both, most often: it is told once."""
    told: set[tuple[str, ...]] = set()
    for change in changes:
        name = _name(change.finding)
        if change.fate != "both" or name not in told:
            yield change
        if change.fate == "both":
            told.add(name)


def _name(finding: Finding) -> tuple[str, ...]:
    """What findings are told apart by, where it matters which fault they are."""
    return (finding.case.level, *finding.violation.signature)
