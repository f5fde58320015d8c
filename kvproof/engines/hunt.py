"""The hunt: random cases against an engine, judged step by step; what breaks a rule is told once for each cause.

Most of the time goes into searching. It comes in rounds: cases are collected (`collecting.py`), families getting time
by what they still bring (`schedule.py`); then, in time set aside, what was collected is told apart by its causes and
made small (`sorting.py`). The next round searches behind what was found.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, TypeVar

from hypothesis import strategies as st

from ..judge.record import Answer, Case
from ..judge.sight import Sight
from ..judge.violation import HARMLESS, KIT
from . import clock
from .causes import Causes
from .collecting import Collector, Ground, Memory
from .known import Listed
from .report import Finding, HuntReport
from .schedule import Schedule
from .sorting import GRACE, Share, Sorter
from .traits import Traits
from .verdicts import CLOSING, Begun, Judged

__all__ = ["hunt", "hunt_levels", "looked_up"]

_FIRST = (0.12, 10.0)
"""The first round: a part of the time, and seconds that it takes at most. It is short, since what is common is met at
once and lies before the rest."""

_LONGER = 1.6
"""By how much each round is longer than the one before, and seconds of the longest."""
_LONGEST = 60.0

_TRIED = 0.25
"""The part of the time that cases may take which others found worth it, before any is drawn."""

_LAST = 0.92
"""The part of the time at which the last search ends; what was collected then is sorted."""

_SORTING = 0.1
"""The part of the time that sorting may take, all rounds but the last together."""

_GRACE = 0.05
"""The part of the time by which sorting may take longer where a symptom was never told."""

_STEPS = 500.0
"""How many steps stand for a second where the clock has no say."""

T = TypeVar("T")


def hunt(
    judged: Judged,
    target: str,
    level: str,
    profiles: Mapping[str, st.SearchStrategy[Case]],
    *,
    closing: Sequence[tuple[str, dict[str, Any]]] = CLOSING,
    traits: Traits | None = None,
    sight: Sight | None = None,
    **how: Any,
) -> HuntReport:
    """Hunt at one level, as `hunt_levels` does; ``sight`` sees what is told, where that depends on the target."""
    ground = Ground(level, profiles, closing, traits or Traits(()), sight)
    return hunt_levels(judged, target, [ground], **how)[0]


def hunt_levels(
    judged: Judged,
    target: str,
    grounds: Sequence[Ground],
    *,
    seed: int = 0,
    seconds: float = 60.0,
    examples: int | None = None,
    findings: int | None = None,
    listed: Listed | None = None,
    renew: Callable[[], None] = lambda: None,
    share: Share = lambda _: [],
    memory: Memory | None = None,
    begun: Begun | None = None,
    start: float = 0.0,
    ready: Callable[[], None] = lambda: None,
    late: float = 0.0,
    on_progress: Callable[[HuntReport, str], None] = lambda _r, _p: None,
    on_case: Callable[[Answer], None] = lambda _: None,
) -> list[HuntReport]:
    """Hunt for faults at some levels of an engine; return a report for each.

    Args:
        judged: runs a case of any of the levels and says what is wrong with it.
        target: what the engine is called in reports.
        grounds: the levels, and the families of cases of each.
        seed: chooses the cases; the same seed draws the same ones, until the clock or a finding changes the turns.
        seconds: for how long.
        examples: how many cases at most, per level.
        findings: with so many, nothing more is sought.
        listed: findings that are no news.
        renew: lets the next case run in a fresh worker.
        share: tells other processes that hunt the same engine of findings, and returns theirs.
        memory: what earlier hunts left; what this one saw is added to it.
        begun: lets the engine begin with a case that was drawn, so that it works while the one before is judged; by
            default ``judged`` runs one after the other.
        start: seconds that it takes to start an engine that was lost; the hunt ends in time all the same.
        ready: waits until the engine can begin with a case.
        late: so many seconds more may be taken to see again what was never told: what hangs takes long each time.
        on_progress: called after each turn.
        on_case: called with what the engine told of each case that was drawn: of none that only makes one smaller.
    """
    budget = _Budget(clock.monotonic(), seconds, examples, findings)
    reports = {ground.level: HuntReport(target, ground.level, sight=ground.sight) for ground in grounds}
    for ground in grounds:
        reports[ground.level].profiles.update(dict.fromkeys(ground.profiles, 0))
    causes, memory = Causes(listed=listed), memory or Memory()
    collector = Collector(
        judged,
        causes,
        lambda report, more, until: budget.passed(report, more) >= until,
        on_case,
        grounds,
        seed,
        memory,
        examples is None,
        begun,
        start,
        ready,
    )
    search = _Search(budget, causes, collector, reports, seed, memory, on_progress)
    end = budget.began + seconds + max(GRACE, _GRACE * seconds, late)
    sorter = Sorter(judged, causes, renew, reports, budget.began, seed, share, end)
    ends = _rounds(seconds, start)
    for finding in share([]):
        causes.add(finding)
    search.try_first(memory.first)
    for number, until in enumerate(ends):
        last = number == len(ends) - 1
        while not budget.found_enough(len(causes.findings)):
            # Where a number of findings is enough, there may be several searches in a round.
            search.go_on(until if examples is None or not last else 1.0)
            room = seconds - budget.spent if last else seconds * _SORTING / len(ends)
            sorter.sort(collector, clock.monotonic() + room, _GRACE * seconds, last=last)
            if all(budget.passed(report) >= until for report in reports.values()):
                break
    for finding in causes.findings:
        report = reports.get(finding.case.level)
        if report is not None and finding.violation.rule == KIT:
            report.astray.append(finding)
        elif report is not None:
            report.findings.append(finding if listed is None else looked_up(finding, listed))
    for report in reports.values():
        report.seconds = budget.spent
        left = sorter.unsorted(collector, report.level)
        report.unsorted += len(left)
        report.left_over = {each.name: (each.case, each.verdict) for each in left} | report.left_over
    memory.learned |= search.learned
    return [*reports.values()]


@dataclass(frozen=True)
class _Budget:
    """What a hunt may take: seconds, and perhaps cases of each level and a number of findings."""

    began: float
    seconds: float
    examples: int | None
    findings: int | None

    @property
    def spent(self) -> float:
        """Seconds since it began."""
        return clock.monotonic() - self.began

    def passed(self, report: HuntReport, more: int = 0) -> float:
        """The part of what was asked for that is over: of the time, or of the cases, with so many more."""
        by_time = self.spent / self.seconds
        return by_time if self.examples is None else max(by_time, (report.examples + more) / self.examples)

    def found_enough(self, findings: int) -> bool:
        """Whether so many findings are all that were asked for."""
        return self.findings is not None and findings >= self.findings


class _Search:
    """Searches all levels and families, which get turns by what they bring."""

    def __init__(
        self,
        budget: _Budget,
        causes: Causes,
        collector: Collector,
        reports: Mapping[str, HuntReport],
        seed: int,
        memory: Memory,
        on_progress: Callable[[HuntReport, str], None],
    ) -> None:
        self._budget, self._causes, self._collector, self._reports = budget, causes, collector, reports
        self._seed, self._on_progress = seed, on_progress
        grounds = collector.grounds.values()
        arms = [*_by_turns([[(ground, profile) for profile in ground.profiles] for ground in grounds])]
        named = {(ground.level, profile): (ground, profile) for ground, profile in arms}
        known = {named[name]: what for name, what in memory.learned.items() if name in named}
        self._schedule = Schedule(arms, seed, known)

    @property
    def learned(self) -> dict[tuple[str, str], tuple[float, float]]:
        """By level and family, what it brought and what that cost."""
        return {(ground.level, profile): what for (ground, profile), what in self._schedule.learned.items()}

    def try_first(self, cases: Iterable[Case]) -> None:
        """Try cases that others found worth it, in a part of the time."""
        for case in cases:
            if case.level in self._reports and self._budget.passed(self._reports[case.level]) < _TRIED:
                self._collector.try_first(self._reports[case.level], self._collector.grounds[case.level], case)

    def go_on(self, until: float) -> None:
        """Search, until that part of the hunt is over at all levels, or there may be enough findings."""
        schedule, passed = self._schedule, self._budget.passed
        while not self._budget.found_enough(len(self._causes.findings) + self._collector.untold):
            arms = {arm for arm in schedule.arms if passed(self._reports[arm[0].level]) < until}
            if not arms:
                return
            self._take_turn(*schedule.next(arms), until)

    def _take_turn(self, ground: Ground, profile: str, until: float) -> None:
        report = self._reports[ground.level]
        before, steps = report.spent.searched, report.steps
        turn = (self._seed << 32) + self._schedule.turns
        brought = self._collector.turn(report, ground, profile, turn, until)
        # Where only the number of cases is limited, the same seed shall do the same: the clock has no say.
        by_clock = self._budget.examples is None
        cost = report.spent.searched - before if by_clock else (report.steps - steps) / _STEPS
        self._schedule.reward((ground, profile), brought, cost)
        report.seconds = self._budget.spent
        self._on_progress(report, profile)


def looked_up(finding: Finding, listed: Listed) -> Finding:
    """A finding, with what a list has of it."""
    expected = _why_expected(finding, listed)
    if expected is not None:
        return replace(finding, expected=expected)
    sure, level = not finding.unfinished, finding.case.level
    return replace(finding, expected=None, perhaps=listed.perhaps(finding.violation, level, finding.needs, sure=sure))


def _why_expected(finding: Finding, listed: Listed) -> str | None:
    """Why a finding is no news, or None. What one step breaks at once has one cause, whichever of it is on the list;
    but what leaves the engine's blocks as they are is no cause of what does not."""
    shows = (finding.violation, *(each for each in finding.verdict.also if each.rule not in HARMLESS))
    return next(filter(None, (listed.why(each, finding.case.level, finding.needs) for each in shows)), None)


def _by_turns(levels: Sequence[Sequence[T]]) -> Iterator[T]:
    """The first of each, then the second of each, and so on: a short search shall see something of every level."""
    for each in zip_longest(*levels):
        yield from (arm for arm in each if arm is not None)


def _rounds(seconds: float, start: float) -> list[float]:
    """The parts of the time at which searches end: with a crash at the very end, and the two starts that it costs, the
    hunt is over in time."""
    last = min(_LAST, max(_TRIED, 1.0 + _GRACE - 2 * start / seconds))
    part, most = _FIRST
    length = min(part * seconds, most)
    ends = [length]
    while ends[-1] + 1.5 * length < last * seconds:
        length = min(_LONGER * length, _LONGEST)
        ends.append(ends[-1] + length)
    return [*(end / seconds for end in ends[:-1]), last]
