"""The search: cases are drawn, run and judged; those that break a rule are set aside, and made small later."""

import random
import zlib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import seed as seeded
from hypothesis import strategies as st

from ..judge.record import Answer, Case, Step
from ..judge.sight import Sight
from ..judge.violation import Verdict, Violation
from . import clock
from .causes import Causes, Shown, shown
from .drawing import DRAWING
from .report import Finding, HuntReport
from .traits import Traits
from .verdicts import CLOSING, Begun, Judged, close

__all__ = ["FIRST", "Collector", "Ground", "Memory", "Sample"]

FIRST = "tried first"
"""The family of cases that were not drawn here."""

_SECONDS = 1.0
"""How long a turn of a family lasts at most."""

_AHEAD = 1
"""So many cases the engine is given before what came of those before them is looked at: both are at work meanwhile."""

_KEPT = 8
"""Cases that are kept of one symptom and one set of traits. The shortest make the least work."""

_TELLING = 64
"""Cases that a hunt leaves to others, for what they showed."""

_FAULT = 25.0
"""What a fault counts that was never seen, beside a behaviour that was never seen."""

_STRAIGHT = 1 / 8
"""The part of the cases that is run as it was drawn, though each so far that had what a known cause needs showed it."""


@dataclass(frozen=True, eq=False)
class Ground:
    """A level, and what it is hunted with."""

    level: str
    profiles: Mapping[str, st.SearchStrategy[Case]]
    closing: Sequence[tuple[str, dict[str, Any]]] = tuple(CLOSING)
    traits: Traits = field(default_factory=lambda: Traits(()))
    sight: Sight | None = None
    """Sees what is told, where that depends on the target."""


@dataclass(frozen=True, eq=False)
class Sample:
    """A case that broke a rule."""

    case: Case
    verdict: Verdict
    """With the symptom in front that it is kept for."""
    traits: frozenset[str]
    ground: Ground
    profile: str
    at: float
    """When it was met, on the monotonic clock."""
    steps_until: int
    cost: float = 0.0
    """Seconds that seeing it again may take."""
    told: Finding | None = None
    """What was told of it, when there was no time to see all that it needs."""

    @property
    def name(self) -> str:
        """What it shows, in words."""
        return f"{self.verdict.violation.rule} {self.verdict.violation.oracle}"

    @property
    def place(self) -> tuple[tuple[str, ...], frozenset[str]]:
        """What it shows, and the traits of its case."""
        return self.verdict.violation.signature, self.traits

    @property
    def thought(self) -> frozenset[str] | None:
        """What it was told to need."""
        return None if self.told is None else self.told.needs

    @property
    def effort(self) -> tuple[bool, int, int]:
        """What makes samples easy: nothing broken before, few traits, few operations."""
        return self.verdict.behind is not None, len(self.traits), self.verdict.at


@dataclass
class Memory:
    """What a hunt takes along from those before it, and leaves to those after it."""

    behaviours: set[int] = field(default_factory=set)
    """What an engine did: pairs of what two steps in a row did."""
    learned: dict[tuple[str, str], tuple[float, float]] = field(default_factory=dict)
    """By level and family, what it brought and what that cost (`Schedule.learned`)."""
    first: Sequence[Case] = ()
    """Cases that are tried before any is drawn."""
    brought: float = 0.0
    """What this hunt brought, in all."""
    telling: list[tuple[int, Case]] = field(default_factory=list)
    """The cases that showed most of what was never seen, and how much each did: those to try first elsewhere."""

    def keep(self, news: int, case: Case) -> None:
        """Keep a case, if it is one of those that showed most."""
        if news and (len(self.telling) < _TELLING or news > self.telling[-1][0]):
            self.telling.append((news, case))
            self.telling.sort(key=lambda each: -each[0])
            del self.telling[_TELLING:]


class _Shows:
    """How often each known cause shows in cases that have all that it needs.

    A cause may need nothing but a connector, and show in one case of a hundred with it. To leave that connector out
    would hide all else that it does.
    """

    def __init__(self) -> None:
        self._of: dict[tuple[Shown, frozenset[str]], tuple[int, int]] = {}

    def rate(self, cause: Finding) -> float:
        """The part of such cases that showed it; near one where there were few."""
        shows, cases = self._of.get(_name(cause), (0, 0))
        return (shows + 1) / (cases + 1)

    def see(self, liable: Iterable[Finding], found: Sequence[Violation]) -> None:
        """Note what was found in a case that has all that these causes need."""
        ways = {shown(violation) for violation in found}
        for cause in liable:
            shows, cases = self._of.get(_name(cause), (0, 0))
            here = not ways.isdisjoint(map(shown, cause.explains))
            self._of[_name(cause)] = shows + here, cases + 1


def _name(cause: Finding) -> tuple[Shown, frozenset[str]]:
    """What a cause stays known by, whatever else it comes to be told with."""
    return shown(cause.violation), cause.needs


class _Worth:
    """What a behaviour that was never seen is worth at each level: as many faults as came of one there so far, beside
    the level where most did.

    A level of which each second shows a hundred new behaviours, and hardly ever a fault, would have all the time.
    """

    def __init__(self) -> None:
        self._behaviours: Counter[str] = Counter()
        self._faults: Counter[str] = Counter()

    def of(self, level: str, news: int, faults: int) -> float:
        """What a case brought; both are counted from now on."""
        self._behaviours[level] += news
        self._faults[level] += faults
        return _FAULT * faults + news * self._rate(level) / max(map(self._rate, self._behaviours))

    def _rate(self, level: str) -> float:
        """So many faults came of a behaviour there; a few are believed of a level of which nothing is known."""
        return (2 + self._faults[level]) / (2 * _FAULT + self._behaviours[level])


class _Over(BaseException):
    """Ends a turn: Hypothesis would go on drawing cases that nobody runs."""


class Collector:
    """Searches, one turn of a family at a time."""

    def __init__(
        self,
        judged: Judged,
        causes: Causes,
        over: Callable[[HuntReport, int, float], bool],
        on_case: Callable[[Answer], None],
        grounds: Sequence[Ground],
        seed: int,
        memory: Memory,
        timed: bool = True,
        begun: Begun | None = None,
        start: float = 0.0,
        ready: Callable[[], None] = lambda: None,
    ) -> None:
        """Search with what is known of causes and behaviours; unless ``timed``, the clock ends no turn.

        ``over`` says whether a part of the hunt is over when so many more cases of a report have ended; ``start`` is
        what it takes to start an engine that was lost, in seconds; ``ready`` waits until it can begin with a case.
        """
        self._most = _SECONDS if timed else float("inf")
        self.grounds = {ground.level: ground for ground in grounds}
        self._begun = begun or (lambda case: lambda: judged(case, ()))
        self._causes, self._over, self._on_case = causes, over, on_case
        self._start, self._ready = start, ready
        self._seen: set[int] = set()
        self._memory = memory
        self._met: set[tuple[tuple[str, ...], frozenset[str]]] = set()
        self._dice = random.Random(seed)
        self._shows = _Shows()
        self._worth = _Worth()
        self.samples: dict[tuple[tuple[str, ...], frozenset[str]], list[Sample]] = {}
        """What was met and not looked at: by symptom and traits of the case, a few each."""

    def turn(self, report: HuntReport, ground: Ground, profile: str, seed: int, until: float) -> float:
        """Search one family for a while, until that part of the hunt is over; return what it brought
        (`Schedule.reward`)."""
        began, brought = clock.monotonic(), 0.0
        steps, taken = report.steps, report.examples - report.refused
        begun: deque[Callable[[], float]] = deque()
        ends: list[BaseException] = []

        def one(drawn: Case) -> None:
            """Run a case. What ends the hunt is kept from Hypothesis, which takes it for a failure of what it tests,
            and plays it again: in time or not, with the same end or with none."""
            try:
                run(drawn)
            except _Over:
                raise
            except BaseException as error:
                ends.append(error)
                raise _Over from error

        def run(drawn: Case) -> None:
            nonlocal brought
            self._ready()  # One that hangs may have taken what there was of time: then none is begun behind it.
            if self._over(report, len(begun), until) or clock.monotonic() - began > self._most:
                raise _Over
            case, liable = self._avoiding(ground, close(drawn, ground.closing))
            if self._is_new(case):
                begun.append(self._try(report, ground, profile, case, liable))
            while len(begun) > _AHEAD:
                brought += begun.popleft()()

        # One family's draws depend on nothing but the seed.
        with suppress(_Over):
            seeded(seed)(DRAWING(given(ground.profiles[profile])(one)))()
        if ends:
            raise ends[0]
        brought += sum(end() for end in begun)
        seconds = clock.monotonic() - began
        report.spent.searched += seconds
        report.profiles[profile] = report.profiles.get(profile, 0) + report.examples - report.refused - taken
        if steps:
            report.steady_seconds += seconds
            report.steady_steps += report.steps - steps
        self._memory.brought += brought
        return brought

    def try_first(self, report: HuntReport, ground: Ground, case: Case) -> None:
        """Try a case that others found worth it."""
        began = clock.monotonic()
        if self._is_new(case):
            self._memory.brought += self._try(report, ground, FIRST, case, [])()
        report.spent.searched += clock.monotonic() - began

    def _is_new(self, case: Case) -> bool:
        """Whether a case was not run before: each turn begins with the simplest case of all."""
        key, before = hash(msgspec.json.encode(case)), len(self._seen)
        self._seen.add(key)
        return len(self._seen) > before

    def _try(
        self, report: HuntReport, ground: Ground, profile: str, case: Case, liable: Sequence[Finding]
    ) -> Callable[[], float]:
        """Let the engine begin with a case; return what waits for its end, takes it in and says what it brought.

        ``liable``: the known causes that it has all for.
        """
        result = self._begun(case)

        def end() -> float:
            began = clock.monotonic()
            found, answer = result()
            cost = clock.monotonic() - began
            # Who waited for a start lost the engine: it starts once to say each step, and once more for who comes next.
            cost += self._start if cost >= self._start else 0.0
            _count(report, answer)
            self._on_case(answer)
            self._shows.see(liable, [] if found is None else found.violations)
            self._memory.keep(news := self._news(ground, answer), case)
            faults = 0 if found is None else self._keep(report, ground, profile, case, found, cost)
            return self._worth.of(ground.level, news, faults)

        return end

    @property
    def untold(self) -> int:
        """In how many ways that no known cause shows in cases were collected."""
        first = [(s.verdict.violation, s.ground.level) for s in self.first()]
        return len({shown(violation) for violation, level in first if not self._causes.of(violation, level)})

    def first(self) -> list[Sample]:
        """Of each symptom and each set of traits the sample that makes the least work."""
        return [kept[0] for kept in self.samples.values()]

    def take(self, sample: Sample) -> None:
        """Give a sample away."""
        kept = self.samples[sample.place]
        kept.remove(sample)
        if not kept:
            del self.samples[sample.place]

    def put_back(self, sample: Sample) -> None:
        """Take a sample back that was not looked at."""
        self.samples.setdefault(sample.place, []).insert(0, sample)

    def forget(self, sample: Sample) -> None:
        """Forget all samples that are like this one."""
        del self.samples[sample.place]

    def _avoiding(self, ground: Ground, case: Case) -> tuple[Case, list[Finding]]:
        """The case, without something that a known cause needs where that would mostly show: what lies behind it shall
        be seen. With it, the causes that it has all for."""
        traits = ground.traits.of(case)
        hiding = self._causes.hiding
        for cause in hiding:
            if cause.needs <= traits and self._dice.random() < (1 - _STRAIGHT) * self._shows.rate(cause):
                case = ground.traits.avoiding(case, self._dice.choice(sorted(cause.needs)))
                traits = ground.traits.of(case)
        return case, [cause for cause in hiding if cause.needs <= traits]

    def _keep(self, report: HuntReport, ground: Ground, profile: str, case: Case, found: Verdict, cost: float) -> int:
        """Set a case aside for each of its symptoms; return how many of them are news, which no known cause explains.

        A known cause shows with ever more traits that it does not need, and has ever other consequences: a family that
        only meets these brings nothing.
        """
        traits, news = ground.traits.of(case), 0
        for signature in dict.fromkeys(v.signature for v in found.violations):
            about = found.about(signature)
            assert about is not None
            if (signature, traits) not in self._met:
                news += not self._causes.accounts_for(about, ground.level, traits)
            self._met.add((signature, traits))
            kept = self.samples.setdefault((signature, traits), [])
            kept.append(Sample(case, about, traits, ground, profile, clock.monotonic(), report.steps, cost))
            kept.sort(key=lambda sample: sample.effort)
            del kept[_KEPT:]
        return news

    def _news(self, ground: Ground, answer: Answer) -> int:
        """How much of what the engine did was never seen: pairs of what two steps in a row did."""
        before, found, seen = 0, 0, self._memory.behaviours
        level = _number(ground.level)
        for step in answer.steps:
            if step.skipped:
                continue
            now = _shape(step)
            pair = hash((level, before, now))
            found += pair not in seen
            seen.add(pair)
            before = now
        return found


def _shape(step: Step) -> int:
    """What a step did, without the numbers."""
    told = frozenset(_number(effect[0]) for effect in step.effects if effect and isinstance(effect[0], str))
    state = step.state
    loads = () if state is None else (min(state.waiting, 2), min(state.running, 2), min(state.pending, 2))
    held = () if state is None else tuple(len(p.free or ()) * 4 <= len(p.ref or ()) for p in state.pools.values())
    return hash((_number(step.op), step.result is False, step.error is not None, told, loads, held))


@lru_cache(4096)
def _number(name: str) -> int:
    """A name as a number that is the same in every process: hashes of texts are not."""
    return zlib.crc32(name.encode(errors="backslashreplace"))


def _count(report: HuntReport, answer: Answer) -> None:
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
