"""Slices of a campaign: hunts of one target that know what those before them found, in a process of their own.

A process does one slice after the other, and its engine stays ready between them. What a slice finds is in the folder
as soon as it was seen again, so that a process that is lost loses nothing that it found.
"""

import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from ...engines.build import Build
from ...engines.collecting import Memory
from ...engines.report import Finding, HuntReport
from ...engines.session import Session, WorkerError
from ...errors import UsageError
from ...judge.record import Case
from ...judge.violation import KIT
from ..ending import heed_nothing_more, heed_the_end
from ..gaps import of_fuzz, of_hunt
from ..hunting import Part, Plan, hunt_beside, hunt_in, is_beside, opened
from .store import Difference, Sighting, Slice, Store, Stretch

__all__ = ["Order", "Told", "work"]

_TELL = 0.5
"""Seconds between two words about what is going on."""


@dataclass(frozen=True)
class Order:
    """What a slice shall do."""

    folder: Path
    name: str
    plan: Plan
    """With one target; its levels are those of the slice."""
    after: float
    """Seconds that the campaign had lasted before."""


@dataclass(frozen=True)
class Told:
    """What a slice says of itself: at a level, that it is over, or why it cannot be."""

    level: str = ""
    examples: int = 0
    steps: int = 0
    over: bool = False
    failed: str = ""


def work(line: Connection) -> None:
    """Do the slices that come on a line, all of the same levels of one target, and say there what is going on.

    Who is told to end ends, and so does who is not listened to, or not spoken to any more.
    """
    try:
        heed_the_end()
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # From a terminal: the campaign ends its processes itself.
        with ExitStack() as kept:
            session: Session | None = None
            while True:
                order: Order = line.recv()
                began = time.monotonic()
                try:
                    if session is None:
                        session = _opened(order.plan, kept)
                    else:
                        session.renew()
                    line.send(Told(order.plan.levels[0]))
                    _do(order, session, line, began)
                except (UsageError, WorkerError) as error:
                    line.send(Told(failed=str(error)))
                    return
                line.send(Told(over=True))
    except (KeyboardInterrupt, BrokenPipeError, ConnectionResetError, EOFError):
        return
    finally:
        heed_nothing_more()


def _opened(plan: Plan, kept: ExitStack) -> Session | None:
    """What the levels of a plan are hunted in; none for a level beside a machine, which has its own."""
    if isinstance(plan.build, Build) and is_beside(plan, plan.levels[0]):
        return None
    return kept.enter_context(opened(plan, plan.levels))


def _do(order: Order, session: Session | None, line: Connection, began: float) -> None:
    store, plan = Store(order.folder), order.plan
    said = 0.0

    def tell(report: HuntReport) -> None:
        nonlocal said
        if time.monotonic() - said > _TELL:
            said = time.monotonic()
            line.send(Told(report.level, report.examples, report.steps))

    if session is None:
        assert isinstance(plan.build, Build)
        done = _beside(order, plan.build, store, tell, began)
    else:
        done = _hunted(order, session, store, tell, began)
    store.finish(order.name, done)


def _beside(order: Order, build: Build, store: Store, tell: Callable[[HuntReport], None], began: float) -> Slice:
    """Let a block pool go beside machine P. Nobody can say what that still brings, other than what was found."""
    from ..refimpl_fuzzing import finding_of

    plan = order.plan
    report = hunt_beside(plan, build, plan.seconds, tell)
    for number, found in enumerate(report.findings):
        seen = Difference(plan.target, build.name, report.level, order.after + report.seconds, finding_of(found))
        store.see(f"{order.name}-{number}", seen)
    gaps = [*of_fuzz(report, f"{plan.target}, level {report.level}")]
    stretch = Stretch(report.level, report.examples, report.steps, gaps=gaps)
    return Slice(plan.target, plan.levels, report.seconds, time.monotonic() - began, 0.0, [stretch])


def _hunted(order: Order, session: Session, store: Store, tell: Callable[[HuntReport], None], began: float) -> Slice:
    plan, hello, ready = order.plan, session.hello, time.monotonic()
    tried = _untried(store, plan.target, hello.engine)
    memory = _recalled(store, plan.target)
    memory.first = [case for cases in tried.values() for case in cases]
    before = frozenset(memory.behaviours)
    heard: set[str] = set()

    def share(found: list[Finding]) -> list[Finding]:
        for finding in (each for each in found if each.violation.rule != KIT):
            name = f"{order.name}-{len(heard)}"
            heard.add(name)
            after = order.after + time.monotonic() - began
            store.see(name, Sighting(plan.target, hello.engine, hello.version, after, finding))
        news = {name: s for name, s in store.sightings().items() if s.target == plan.target and name not in heard}
        heard.update(news)
        return [sighting.finding for sighting in news.values()]

    part = Part(plan.levels, plan.seconds, plan.examples)
    reports = hunt_in(session, plan, part, tell, share, memory)
    now = time.monotonic()
    return Slice(
        plan.target,
        plan.levels,
        now - ready,
        now - began,
        memory.brought,
        [_stretch(report) for report in reports],
        sorted(memory.behaviours - before),
        [(*names, *what) for names, what in memory.learned.items()],
        hello.engine,
        [case for _, case in memory.telling],
        [*tried],
    )


def _stretch(report: HuntReport) -> Stretch:
    return Stretch(
        report.level,
        report.examples,
        report.steps,
        report.refused,
        report.unconfirmed,
        report.unsorted,
        [*of_hunt(report)],
    )


def _recalled(store: Store, target: str) -> Memory:
    """What the slices of a target left."""
    memory = Memory()
    for done in store.slices().values():
        if done.target == target:
            memory.behaviours.update(done.behaviours)
            memory.learned.update({(level, family): (brought, cost) for level, family, brought, cost in done.learned})
    return memory


def _untried(store: Store, target: str, engine: str) -> dict[str, list[Case]]:
    """The cases that showed something at other targets of the engine and were never tried at this one, by what they
    come from: those of causes first."""
    slices = store.slices()
    done = {name for each in slices.values() if each.target == target for name in each.tried}
    causes = {
        name: [s.finding.case] for name, s in store.sightings().items() if s.engine == engine and s.target != target
    }
    telling = {name: s.telling for name, s in slices.items() if s.engine == engine and s.target != target}
    return {name: cases for name, cases in (causes | telling).items() if name not in done}
