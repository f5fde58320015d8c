"""Fuzzing a real engine: its levels, each hunted in a process of its own, side by side."""

import multiprocessing
import os
import queue
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.managers import SyncManager
from typing import Any

from hypothesis.configuration import set_hypothesis_home_dir
from platformdirs import user_cache_path

from ..checkers.fuzz import FuzzReport
from ..checkers.heap import heap_at_rest
from ..checkers.processes import end_with_the_parent
from ..engines.build import Build, StoreError
from ..engines.cases import Cases, MoreOracles
from ..engines.catalog import ENGINES, driven, levels_of_release
from ..engines.causes import merged
from ..engines.collecting import Ground, Memory
from ..engines.driver import requests
from ..engines.driver.command import Driver, is_driver
from ..engines.driver.traits import of_requests
from ..engines.hunt import hunt_levels as run_hunt
from ..engines.hunt import looked_up
from ..engines.known import Known, Listed
from ..engines.report import Finding, HuntReport
from ..engines.session import Session, WorkerError
from ..engines.sorting import Share
from ..engines.store import resolve
from ..engines.traits import Traits
from ..engines.verdicts import CLOSING, begun_in, judged_in
from ..errors import UsageError
from ..judge.record import Case, Hello
from ..judge.sight import Sight
from .ending import check_not_ended, heed_the_end
from .gaps import Gap

__all__ = [
    "POOL", "Part", "Plan", "grounds", "hunt_beside", "hunt_in", "hunt_levels", "is_beside", "levels_of",
    "more_oracles", "open_build", "open_target", "opened", "use_cache_of_drawings",
]  # fmt: skip


_BESIDE = 0.1
"""The part of all processes' time that goes to a level beside a machine."""

POOL = "pool"
"""The level that goes beside machine P, step by step."""


def open_build(target: str) -> Build:
    """The build that a target names.

    Raises:
        UsageError: there is none, or it is not installed.
    """
    try:
        return resolve(target)
    except StoreError as error:
        raise UsageError(str(error)) from error


def open_target(target: str) -> Build | Driver:
    """The build or the driver that a target names.

    Raises:
        UsageError: there is no such engine, or the driver's command cannot be read.
    """
    try:
        return Driver.of(target) if is_driver(target) else resolve(target)
    except StoreError as error:
        raise UsageError(str(error)) from error


def levels_of(build: Build | Driver) -> tuple[str, ...]:
    """The levels that a target may have: of a release those that it has cases for."""
    if isinstance(build, Driver):
        return (requests.LEVEL,)
    return levels_of_release(build.name, build.version)


@dataclass(frozen=True)
class Plan:
    """What is to be hunted."""

    build: Build | Driver
    target: str
    levels: tuple[str, ...]
    seed: int
    seconds: float
    """In all, whatever the number of levels."""
    examples: int | None = None
    """Per level."""
    known: tuple[Known, ...] = ()
    profiles: tuple[str, ...] = ()
    """Only these families of cases; all when empty."""
    steps: int = 50
    """The most steps of a run of the level `pool`."""
    jobs: int = 0
    """Levels that are hunted at once; 0: one for each processor."""


@dataclass(frozen=True)
class Part:
    """What one process hunts: some families of all levels, or the level `pool`."""

    levels: tuple[str, ...]
    seconds: float
    examples: int | None
    number: int = 0
    of: int = 1
    """Of each so many families it takes one: that with its number, and so on."""


Told = HuntReport | FuzzReport | Gap
"""What comes of one level; the level beside a machine may be a gap, and what was found at others is no worse for it."""


def hunt_levels(
    plan: Plan, on_progress: Callable[[HuntReport], None], on_finding: Callable[[Finding], None] = lambda _: None
) -> list[Told]:
    """Fuzz all levels of a plan and return their reports, in its order.

    ``on_finding`` hears of each finding as soon as it is sure: who ends the hunt shall not end what it found.

    Raises:
        UsageError: the engine cannot be driven, or not at the only level that is asked for.
    """
    done: list[Told] = []
    for found in _done(plan, _parts(plan), on_progress, on_finding):
        done += found
    return [*_merged(plan, done)]


def _parts(plan: Plan) -> list[list[Part]]:
    """What is hunted, process by process. Drivers are asked by one: nobody knows whether there may be two."""
    beside = tuple(level for level in plan.levels if is_beside(plan, level))
    judged = tuple(level for level in plan.levels if level not in beside)
    jobs = 1 if isinstance(plan.build, Driver) else plan.jobs or os.cpu_count() or 1
    if plan.examples is not None:
        jobs = min(jobs, plan.examples)
    if not judged:
        return [[Part(beside, plan.seconds, plan.examples)]]
    # What goes beside a proved machine has a fixed part of all the time: nobody can say what it still brings.
    apart = min(0.5, _BESIDE * jobs) * plan.seconds if beside else 0.0
    parts = []
    for number in range(jobs):
        first = [Part(beside, apart, plan.examples)] if beside and not number else []
        examples = None if plan.examples is None else plan.examples // jobs + (number < plan.examples % jobs)
        seconds = plan.seconds - (apart if first else 0.0)
        parts.append([*first, Part(judged, seconds, examples, number, jobs)])
    return parts


def is_beside(plan: Plan, level: str) -> bool:
    """Whether a level goes beside machine P, step by step."""
    return not isinstance(plan.build, Driver) and ENGINES[plan.build.name].cases(level) is None


def _done(
    plan: Plan,
    parts: list[list[Part]],
    on_progress: Callable[[HuntReport], None],
    on_finding: Callable[[Finding], None],
) -> list[list[Told]]:
    """Hunt all parts, side by side where there are several."""

    def hear(found: list[Finding]) -> list[Finding]:
        for finding in found:
            on_finding(finding)
        return []

    if len(parts) == 1:
        return [_run(plan, parts[0], on_progress, hear)]
    context = multiprocessing.get_context("spawn")
    manager = SyncManager(ctx=context)
    manager.start(end_with_the_parent)
    with manager:
        others = set(multiprocessing.active_children())
        with ProcessPoolExecutor(len(parts), mp_context=context, initializer=_begin_aside) as pool:
            progress, board = manager.Queue(), manager.list()
            futures = [
                pool.submit(_run_aside, plan, part, progress, board, number) for number, part in enumerate(parts)
            ]
            try:
                _show(futures, progress, on_progress, board, on_finding)
            except BaseException:
                # Who leaves early does not wait for their time to be over; each ends what it started.
                for future in futures:
                    future.cancel()
                for child in set(multiprocessing.active_children()) - others:
                    child.terminate()
                raise
            return [future.result() for future in futures]


def _merged(plan: Plan, done: Sequence[Told]) -> Iterator[Told]:
    """A report for each level, in the order of the plan; each cause once, at the first level that shows it."""
    hunted = [report for report in done if isinstance(report, HuntReport)]
    found = merged((finding for report in hunted for finding in report.findings), plan.levels)
    astray = merged((finding for report in hunted for finding in report.astray), plan.levels)
    for level in plan.levels:
        of_level = [told for told in done if (told.level if isinstance(told, HuntReport) else POOL) == level]
        first = of_level[0]
        if isinstance(first, HuntReport):
            for report in of_level[1:]:
                assert isinstance(report, HuntReport)
                first.add(report)
            first.findings = [finding for finding in found if finding.case.level == level]
            first.astray = [finding for finding in astray if finding.case.level == level]
        yield first


def _show(
    futures: Sequence["Future[list[Told]]"],
    progress: Any,
    on_progress: Callable[[HuntReport], None],
    board: Any,
    on_finding: Callable[[Finding], None],
) -> None:
    """Pass on what all processes together did at a level, and found, until all futures are done."""
    pending, heard = set(futures), 0
    last: dict[tuple[int, str], HuntReport] = {}
    while pending:
        _, pending = wait(pending, timeout=0.2, return_when=FIRST_COMPLETED)
        for _, finding in board[heard:]:
            heard += 1
            on_finding(finding)
        try:
            while True:
                number, report = progress.get_nowait()
                last[number, report.level] = report
                of_level = [told for (_, level), told in last.items() if level == report.level]
                examples, steps = sum(told.examples for told in of_level), sum(told.steps for told in of_level)
                on_progress(HuntReport(report.target, report.level, examples, steps, seconds=report.seconds))
        except queue.Empty:
            continue


def _begin_aside() -> None:
    heed_the_end()
    end_with_the_parent()


def _run_aside(plan: Plan, parts: list[Part], progress: Any, board: Any, number: int) -> list[Told]:
    check_not_ended()  # What was handed to this process already cannot be cancelled.
    said = time.monotonic()

    def tell(report: HuntReport) -> None:
        nonlocal said
        if time.monotonic() - said > 0.5:
            said = time.monotonic()
            told = HuntReport(report.target, report.level, report.examples, report.steps, seconds=report.seconds)
            progress.put((number, told))

    heard = 0

    def share(found: list[Finding]) -> list[Finding]:
        nonlocal heard
        board.extend([(number, finding) for finding in found])
        news: list[tuple[int, Finding]] = board[heard:]
        heard += len(news)
        return [finding for teller, finding in news if teller != number]

    return _run(plan, parts, tell, share)


def _run(plan: Plan, parts: list[Part], tell: Callable[[HuntReport], None], share: Share = lambda _: []) -> list[Told]:
    """Hunt the parts of one process, one after the other in one session: to start an engine takes its time."""
    done: list[Told] = []
    began = time.monotonic()
    with opened(plan, [level for part in parts for level in part.levels]) as session:
        started = time.monotonic() - began
        left = 0.0
        for number, part in enumerate(parts):
            if number:
                session.renew()
            part, begun = replace(part, seconds=part.seconds + left), time.monotonic()
            if isinstance(plan.build, Driver) or not is_beside(plan, part.levels[0]):
                reports = hunt_in(session, plan, part, tell, share)
                reports[0].spent.started = started
                done += reports
            else:
                done += [_beside(plan, plan.build, part, tell, session) for _ in part.levels]
            left = max(0.0, part.seconds - (time.monotonic() - begun))  # as of a level that cannot be driven
    return done


def _beside(plan: Plan, build: Build, part: Part, tell: Callable[[HuntReport], None], session: Session) -> Told:
    """What comes of the level beside a machine: of several levels it takes none of the others with it."""
    try:
        return hunt_beside(plan, build, part.seconds, tell, session)
    except UsageError as error:
        if len(plan.levels) == 1:
            raise
        return Gap(f"level {POOL}", str(error), "name the other levels")


def hunt_beside(
    plan: Plan, build: Build, seconds: float, tell: Callable[[HuntReport], None], session: Session | None = None
) -> FuzzReport:
    """Let a release's block pool go beside machine P for a while, in this session or in one of its own.

    Raises:
        UsageError: it cannot be driven, or does not behave as its release is known to.
    """
    from ..differential.catalog import LOCKSTEPS

    began = time.monotonic()

    def told(examples: int, steps: int) -> None:
        tell(HuntReport(plan.target, POOL, examples, steps, seconds=time.monotonic() - began))

    fuzz_pool = LOCKSTEPS[build.name].fuzz_pool
    return fuzz_pool(build, plan.target, plan.seed, plan.examples, plan.steps, seconds, told, session)


def more_oracles(level: str, build: Build | Driver) -> MoreOracles | None:
    """The oracles that a level of a build has of its own; none where the build has no such level.

    Raises:
        UsageError: nobody has such a level.
    """
    if level == requests.LEVEL:
        return requests.more_oracles
    known = dict.fromkeys(level for name in driven() for level in ENGINES[name].LEVELS)
    if level not in known:
        raise UsageError(f"{level} is no level of an engine; the levels are {', '.join((*known, requests.LEVEL))}")
    cases = None if isinstance(build, Driver) else ENGINES[build.name].cases(level)
    return None if cases is None else cases.more_oracles


def use_cache_of_drawings() -> None:
    """Let Hypothesis keep what it keeps in the user's cache, and not in a folder where the user stands."""
    set_hypothesis_home_dir(user_cache_path("kvproof") / "hypothesis")


@contextmanager
def opened(plan: Plan, levels: Sequence[str]) -> Iterator[Session]:
    """Give a session with what is to be hunted, ready for these levels.

    Raises:
        UsageError: on the way in or later: the engine cannot be driven, or has no such level.
    """
    try:
        use_cache_of_drawings()
        with heap_at_rest(), Session.of(plan.build, levels=levels) as session:
            unknown = [level for level in levels if level not in session.hello.levels]
            if unknown:
                there_are = ", ".join(session.hello.levels) or "none"
                raise UsageError(f"{plan.target} has no level {unknown[0]}; it has {there_are}")
            yield session
    except WorkerError as error:
        raise UsageError(f"{plan.target} cannot be driven: {error}") from error


def hunt_in(
    session: Session,
    plan: Plan,
    part: Part,
    tell: Callable[[HuntReport], None],
    share: Share,
    memory: Memory | None = None,
) -> list[HuntReport]:
    """Hunt a part of a plan in an open session; return a report for each of its levels.

    Raises:
        UsageError: the engine cannot be driven with what the plan wants.
        WorkerError: it cannot be started any more.
    """
    hello = session.hello

    listed = Listed(plan.known, hello.engine, hello.version)

    def more(case: Case) -> Callable[[Any], list[Any]] | None:
        return _own_oracles(plan, case)

    return run_hunt(
        judged_in(session, more),
        plan.target,
        [_ground(plan, part, level, hello) for level in part.levels],
        seed=plan.seed * part.of + part.number,
        seconds=part.seconds,
        examples=part.examples,
        listed=listed,
        renew=session.renew,
        share=lambda found: share([looked_up(finding, listed) for finding in found]),
        memory=memory,
        begun=begun_in(session, more),
        start=0.0 if session.forks else session.starting,
        ready=session.make_room,
        on_progress=lambda report, _profile: tell(report),
    )


def grounds(plan: Plan, hello: Hello) -> list[Ground]:
    """What each level of a plan is hunted with, all of its families.

    Raises:
        UsageError: as `hunt_in`.
    """
    return [_ground(plan, Part(plan.levels, plan.seconds, plan.examples), level, hello) for level in plan.levels]


def _own_oracles(plan: Plan, case: Case) -> Callable[[Any], list[Any]] | None:
    """What makes the oracles of a case's own level."""
    more = more_oracles(case.level, plan.build)
    return None if more is None else more(case)


def _ground(plan: Plan, part: Part, level: str, hello: Hello) -> Ground:
    """What a level is hunted with in one process."""
    cases = None if isinstance(plan.build, Driver) else ENGINES[plan.build.name].cases(level)
    capabilities = hello.capabilities.get(level)
    profiles = [*_profiles(plan, level, cases, hello).items()]
    own = dict(profiles[part.number :: part.of])
    closing = CLOSING if capabilities is None else requests.closing(capabilities)
    return Ground(level, own, closing, _traits(cases, hello, level), None if capabilities is None else Sight())


def _traits(cases: Cases | None, hello: Hello, level: str) -> Traits:
    """What cases of a level are made smaller by."""
    if cases is None:
        return of_requests(hello.capabilities[level])
    return Traits(()) if cases.traits is None else cases.traits(hello.version)


def _profiles(plan: Plan, level: str, cases: Cases | None, hello: Hello) -> Mapping[str, Any]:
    """The families of cases that are wanted.

    Raises:
        UsageError: there are none, or the driver does not say what it can do.
    """
    if cases is None:
        can = hello.capabilities.get(level)
        if can is None or not {"start", "finish"} <= set(can.operations):
            raise UsageError(
                f"{plan.target} does not say that it can start and finish requests; let its hello name the operations "
                "in capabilities.requests"
            )
        if min(can.block_tokens, default=0) < 1 or can.tokens_per_grow < 1:
            raise UsageError(f"{plan.target} says no block_tokens, or sizes below 1; mend its hello")
        found: Mapping[str, Any] = requests.profiles(can)
    else:
        found = cases.profiles(hello.version)
    if plan.profiles:
        wanted = {name: cases for name, cases in found.items() if name in plan.profiles}
        if not wanted:
            raise UsageError(f"level {level} has no profile {', '.join(plan.profiles)}; it has {', '.join(found)}")
        return wanted
    return found
