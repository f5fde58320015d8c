"""Sorting: what a search collected is told apart by its causes, made small and seen again in fresh workers.

What shows in a way that was never told comes first, then what cannot be a known cause, since it lacks what that needs.
A case that has all that a known cause needs, and shows the same with nothing else, is that cause: it is not made small
again.
"""

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

from ..judge.record import Case
from ..judge.violation import Verdict, Violation
from . import clock
from .causes import Causes, Shown, shown
from .collecting import Collector, Ground, Sample
from .reduce import Reduction
from .report import Finding, HuntReport, Way
from .verdicts import Judged

__all__ = ["GRACE", "Share", "Sorter"]

Share = Callable[[list[Finding]], list[Finding]]
"""Tells other processes what was found, and returns what they found since."""

_SEEN_AGAIN = 2
"""So often a finding is seen again, each time in a fresh worker, before it is told."""

GRACE = 2.0
"""Seconds more, all together, for cases that show what was never told, though the time is over."""

_RESERVE = 0.5
"""Seconds before the end in which nothing is made smaller: a run that takes longer than those before it would leave no
time to see a finding again, and it would not be told at all."""

_RUNS = 6
"""So many runs of a case that shows what was never told are waited for, however long each takes."""

_ALIKE = 6
"""So many cases that a known cause explains are looked at in one round, of each way to show."""


class Sorter:
    """Finds the causes of what was collected."""

    def __init__(
        self,
        judged: Judged,
        causes: Causes,
        renew: Callable[[], None],
        reports: Mapping[str, HuntReport],
        began: float,
        seed: int,
        share: Share,
        end: float = float("inf"),
    ) -> None:
        """Sort until a moment of the monotonic clock at most, seeing again included."""
        self._judged, self.causes, self._renew, self._reports = judged, causes, renew, reports
        self._began, self._seed, self._dice = began, seed, random.Random(seed)
        self._share = share
        self._end = end
        self._begun: list[tuple[Sample, Reduction | None]] = []
        self._until = self._grace = 0.0
        self._last = False
        self._doubted: set[tuple[frozenset[str], frozenset[str], Shown]] = set()
        self._gone_on: set[tuple[frozenset[str], Shown]] = set()
        self._told: list[tuple[Sample, Reduction | None]] = []
        """What others told unfinished, and where this one has come with it."""

    def sort(self, collector: Collector, until: float, grace: float, *, last: bool) -> None:
        """Look at what was collected, until a moment of the monotonic clock; what is left over stays collected.

        What shows in a way that was never told is looked at in any case, and may take some seconds of grace more. What
        was begun is finished another time; the last time it is told as it is, if nothing that shows so was told. Who
        hunts the same engine later has that from `Share`, and goes on with it where time is left.
        """
        self._until, self._grace, self._last = until, until + max(GRACE, grace), last
        self._hear([])
        begun, self._begun = self._begun, []
        self._told = [(sample, reduction) for sample, reduction in begun if sample.told is not None] + self._told
        for sample, reduction in begun:
            if sample.told is None:
                self._timed(sample, reduction)
        alike = Counter[Shown]()
        while samples := collector.first():
            sample = min(samples, key=self._promise)
            way, explained = shown(sample.verdict.violation), self._explained(sample)
            if explained:  # All that is left may be what is known.
                self._go_on(collector.grounds)
            if clock.monotonic() >= until and not self._untold(sample):
                break
            alike[way] += explained
            if alike[way] > _ALIKE:
                collector.forget(sample)
                continue
            collector.take(sample)
            self._timed(sample, None)
        self._hear([])
        self._go_on(collector.grounds)
        self._generalise(collector.grounds)

    def _timed(self, sample: Sample, reduction: Reduction | None) -> None:
        """Look at a sample, and note how long that took."""
        began, spent = clock.monotonic(), self._reports[sample.ground.level].spent
        confirmed = spent.confirmed
        self._look_at(sample, reduction)
        spent.shrunk += clock.monotonic() - began - (spent.confirmed - confirmed)

    def _hear(self, found: list[Finding]) -> None:
        """Tell other processes what was found, and take in what they found since."""
        for finding in self._share(found):
            self.causes.add(finding)

    def _go_on(self, grounds: Mapping[str, Ground]) -> None:
        """Look once more at what others told before there was time to see what it needs."""
        for told in self.causes.findings:
            level, what = told.case.level, (told.needs, shown(told.violation))
            if told.unfinished and level in grounds and what not in self._gone_on:
                self._gone_on.add(what)
                if not self.causes.lists(told.violation, level, told.needs):
                    self._told.append((replace(self._met(told, grounds[level]), told=told), None))
        while self._told and clock.monotonic() < self._until:
            self._timed(*self._told.pop(0))

    def _met(self, told: Finding, ground: Ground) -> Sample:
        """A finding as a case that was just met."""
        since = self._began + told.seconds
        return Sample(told.case, told.verdict, told.needs, ground, told.profile, since, told.steps_until, told.cost)

    def _generalise(self, grounds: Mapping[str, Ground]) -> None:
        """Where two findings show alike, see whether what both need is enough; then it is one cause."""
        for a, b in self.causes.alike():
            if not self._joins(a, b, grounds):
                self._joins(b, a, grounds)

    def _joins(self, finding: Finding, other: Finding, grounds: Mapping[str, Ground]) -> bool:
        """Whether a finding shows with no more than what it has in common with the other one; then that is told."""
        common, level = finding.needs & other.needs, finding.case.level
        doubt = (finding.needs, common, shown(finding.violation))
        if finding.needs == common or doubt in self._doubted or level not in grounds:
            return False
        if clock.monotonic() >= self._grace:
            return False
        self._doubted.add(doubt)
        ground = grounds[level]
        again = Reduction(finding.case, finding.verdict, self._judge, ground.traits, self._grace)
        if not again.doubt(common, self._seed):
            return False
        if other.needs == common:
            self.causes.unite(other, finding)
            return True
        again.shorten()
        again.simplify()
        met = self._met(finding, ground)
        self._tell(replace(met, case=again.case, verdict=again.verdict, traits=again.needs), again)
        return True

    def unsorted(self, collector: Collector, level: str) -> list[Sample]:
        """The cases of a level that were not looked at and that no known cause accounts for."""
        samples = [*collector.first(), *(sample for sample, _ in self._begun)]
        left = [sample for sample in samples if sample.ground.level == level]
        return [each for each in left if not self.causes.accounts_for(each.verdict, level, each.traits)]

    def _promise(self, sample: Sample) -> tuple[object, ...]:
        """What makes a sample worth a look: the least comes first. Of those that are explained any may hide another
        cause."""
        explained = self._explained(sample)
        return (not self._untold(sample), explained, self._dice.random() if explained else 0.0, *sample.effort)

    def _untold(self, sample: Sample) -> bool:
        """Whether nothing that shows so was ever told."""
        return not self.causes.of(sample.verdict.violation, sample.ground.level)

    def _deadline(self, sample: Sample, cost: float) -> float:
        """Until when a sample may be made small: time to see it again is left."""
        end = self._end - max(_SEEN_AGAIN * cost, _RESERVE)
        if not self._untold(sample):
            return min(self._until, end)
        return min(max(self._grace, clock.monotonic() + _RUNS * cost), end)

    def _explained(self, sample: Sample) -> bool:
        """Whether a known cause shows so and needs nothing that the case lacks."""
        return self.causes.explains(sample.verdict.violation, sample.ground.level, sample.traits)

    def _look_at(self, sample: Sample, reduction: Reduction | None) -> None:
        violation, level = sample.verdict.violation, sample.ground.level
        if reduction is None:
            deadline = self._deadline(sample, sample.cost)
            reduction = Reduction(sample.case, sample.verdict, self._judge, sample.ground.traits, deadline, sample.cost)
            if not self._shows(reduction):
                if reduction.late:  # It was not tried: another round may.
                    self._begun.append((sample, None))
                else:
                    self._lost(sample)
                return
        reduction.go_on(self._deadline(sample, reduction.cost))
        known = [needs for needs in self.causes.of(violation, level) if needs != sample.thought]
        if not any(reduction.jump(needs) for needs in known):
            reduction.strip()
            # With what a known cause needs it might show as well, if it came a little differently.
            any(reduction.doubt(needs, self._seed) for needs in known if needs < reduction.needs)
        if reduction.finished and self._is_known(sample, reduction):
            return
        if not reduction.finished and not (self._last and self._is_news(sample, reduction)):
            self._begun.append((sample, reduction))
        elif self.causes.lists(violation, level, reduction.needs):
            self._tell(sample, reduction)
        else:
            reduction.shorten()
            reduction.unfold()
            reduction.strip()
            if reduction.verdict.behind is not None:
                self._consequence(sample, reduction, reduction.verdict.behind)
            elif not self._is_known(sample, reduction):
                reduction.simplify()
                reduction.strip()  # What is simple may need less than what was not.
                if not self._is_known(sample, reduction):
                    self._tell(sample, reduction)

    def _consequence(self, sample: Sample, reduction: Reduction, behind: Violation) -> None:
        """Note what shows only behind something else; that is looked at first, where one operation did both and so it
        was never met."""
        if not self.causes.of(behind, sample.ground.level):
            found = self._judge(reduction.case)
            about = None if found is None else found.about(behind.signature)
            if about is not None:
                first = replace(sample, case=reduction.case, verdict=about, traits=reduction.needs, told=None)
                self._look_at(first, None)
        self.causes.consequence(behind, reduction.verdict.violation)

    def _is_news(self, sample: Sample, reduction: Reduction) -> bool:
        """Whether what is not finished is told: nothing that shows so was, or it was told to need more."""
        return self._untold(sample) if sample.told is None else reduction.needs < sample.told.needs

    def _is_known(self, sample: Sample, reduction: Reduction) -> bool:
        """Whether a case is one of a known cause; it is counted there. What was told is told again, as what came of
        it: else nobody knew that it is the one that needs less."""
        cause = self.causes.cause_of(reduction.verdict.violation, reduction.needs)
        if cause is None or sample.told is not None:
            return False
        level = sample.ground.level
        self.causes.met(cause, Way(reduction.needs, reduction.case, reduction.verdict), level)
        return True

    def _shows(self, reduction: Reduction) -> bool:
        """Whether the fault shows again at all; the worker may be to blame that it does not, and a fresh one tries."""
        if reduction.cut():
            return True
        self._renew()
        return reduction.cut()

    def _judge(self, case: Case) -> Verdict | None:
        return self._judged(case, ())[0]

    def _tell(self, sample: Sample, reduction: Reduction) -> None:
        began, spent = clock.monotonic(), self._reports[sample.ground.level].spent
        if began + _SEEN_AGAIN * reduction.cost > self._end:
            self._begun.append((sample, reduction))  # It counts as not sorted: what is not seen again is no finding.
            return
        seen = all(self._again(reduction) for _ in range(_SEEN_AGAIN))
        spent.confirmed += clock.monotonic() - began
        if not seen:
            self._lost(sample)
            return
        finding = Finding(
            reduction.verdict,
            reduction.case,
            sample.profile,
            sample.at - self._began,
            sample.steps_until,
            needs=reduction.needs,
            unfinished=not reduction.finished,
            cost=reduction.cost,
            was=() if sample.told is None else (sample.told.needs, *sample.told.was),
            bare=reduction.traits.bare,
            circumstances=reduction.traits.circumstances(reduction.case),
        )
        self.causes.add(finding)
        self._hear([finding])  # At once: who ends this process shall not end what it found.

    def _again(self, reduction: Reduction) -> bool:
        """Whether a fresh worker shows the same, and nothing before that was not there before."""
        self._renew()
        found = self._judge(reduction.case)
        about = None if found is None else found.about(reduction.verdict.violation.signature)
        return about is not None and (about.behind is None or reduction.verdict.behind is not None)

    def _lost(self, sample: Sample) -> None:
        """What is not seen again is no finding."""
        report = self._reports[sample.ground.level]
        report.unconfirmed[sample.name] = report.unconfirmed.get(sample.name, 0) + 1
        report.met_once.setdefault(sample.name, (sample.case, sample.verdict))
