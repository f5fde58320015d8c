"""Fuzzing a real engine: its levels, each hunted in a process of its own, side by side."""

import math
import multiprocessing
import os
import queue
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

from hypothesis.configuration import set_hypothesis_home_dir
from platformdirs import user_cache_path

from ..checkers.fuzz import FuzzReport
from ..checkers.heap import heap_at_rest
from ..engines.build import Build, StoreError
from ..engines.cases import Cases, MoreOracles
from ..engines.catalog import ENGINES, driven
from ..engines.driver import requests
from ..engines.driver.command import Driver, is_driver
from ..engines.hunt import CLOSING, Report, hunt, judged_in
from ..engines.known import Known, expectation
from ..engines.session import Session, WorkerError
from ..engines.store import resolve
from ..errors import UsageError
from ..judge.record import Hello
from ..judge.sight import Sight
from .ending import check_not_ended, heed_the_end

__all__ = ["Plan", "hunt_levels", "levels_of", "more_oracles", "open_build", "open_target", "use_cache_of_drawings"]


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
    """The levels that a target may have."""
    return (requests.LEVEL,) if isinstance(build, Driver) else ENGINES[build.name].LEVELS


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


def hunt_levels(plan: Plan, on_progress: Callable[[Report], None]) -> list[Report | FuzzReport]:
    """Fuzz all levels of a plan and return their reports, in its order.

    Raises:
        UsageError: the engine cannot be driven.
    """
    jobs = min(plan.jobs or os.cpu_count() or 1, len(plan.levels))
    seconds = plan.seconds / math.ceil(len(plan.levels) / jobs)
    if jobs == 1:
        return [_run(plan, level, seconds, on_progress) for level in plan.levels]
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager:
        others = set(multiprocessing.active_children())
        with ProcessPoolExecutor(jobs, mp_context=context, initializer=heed_the_end) as pool:
            progress = manager.Queue()
            futures = [pool.submit(_run_aside, plan, level, seconds, progress) for level in plan.levels]
            try:
                _show(futures, progress, on_progress)
                return [future.result() for future in futures]
            except BaseException:
                # Who leaves early does not wait for their time to be over; each ends what it started.
                for future in futures:
                    future.cancel()
                for child in set(multiprocessing.active_children()) - others:
                    child.terminate()
                raise


def _show(
    futures: Sequence["Future[Report | FuzzReport]"], progress: Any, on_progress: Callable[[Report], None]
) -> None:
    """Pass reports on until all futures are done."""
    pending = set(futures)
    while pending:
        _, pending = wait(pending, timeout=0.2, return_when=FIRST_COMPLETED)
        try:
            while True:
                report = progress.get_nowait()
                on_progress(report)
        except queue.Empty:
            continue


def _run_aside(plan: Plan, level: str, seconds: float, progress: Any) -> Report | FuzzReport:
    check_not_ended()  # What was handed to this process already cannot be cancelled.
    said = time.monotonic()

    def tell(report: Report) -> None:
        nonlocal said
        if time.monotonic() - said > 0.5:
            said = time.monotonic()
            progress.put(Report(report.target, report.level, report.examples, report.steps, seconds=report.seconds))

    return _run(plan, level, seconds, tell)


def _run(plan: Plan, level: str, seconds: float, tell: Callable[[Report], None]) -> Report | FuzzReport:
    if isinstance(plan.build, Driver):
        return _hunt(plan, level, None, seconds, tell)
    cases = ENGINES[plan.build.name].cases(level)
    return _lockstep(plan, plan.build, seconds, tell) if cases is None else _hunt(plan, level, cases, seconds, tell)


def _lockstep(plan: Plan, build: Build, seconds: float, tell: Callable[[Report], None]) -> FuzzReport:
    from ..differential.catalog import LOCKSTEPS

    began = time.monotonic()

    def told(examples: int, steps: int) -> None:
        tell(Report(plan.target, POOL, examples, steps, seconds=time.monotonic() - began))

    return LOCKSTEPS[build.name].fuzz_pool(build, plan.target, plan.seed, plan.examples, plan.steps, seconds, told)


def more_oracles(level: str) -> MoreOracles | None:
    """The oracles that a level has of its own.

    Raises:
        UsageError: there is no such level.
    """
    if level == requests.LEVEL:
        return requests.more_oracles
    engines = [ENGINES[name] for name in driven()]
    known = dict.fromkeys(name for engine in engines for name in engine.LEVELS)
    if level not in known:
        raise UsageError(f"{level} is no level of an engine; the levels are {', '.join((*known, requests.LEVEL))}")
    found = [engine.cases(level) for engine in engines if level in engine.LEVELS]
    return next((cases.more_oracles for cases in found if cases is not None), None)


def use_cache_of_drawings() -> None:
    """Let Hypothesis keep what it keeps in the user's cache, and not in a folder where the user stands."""
    set_hypothesis_home_dir(user_cache_path("kvproof") / "hypothesis")


def _hunt(plan: Plan, level: str, cases: Cases | None, seconds: float, tell: Callable[[Report], None]) -> Report:
    try:
        use_cache_of_drawings()
        with heap_at_rest(), Session.of(plan.build) as session:
            hello = session.hello
            if level not in hello.levels:
                raise UsageError(f"{plan.target} has no level {level}; it has {', '.join(hello.levels)}")
            capabilities = hello.capabilities.get(level)
            more = requests.more_oracles if cases is None else cases.more_oracles
            return hunt(
                judged_in(session, more),
                plan.target,
                level,
                _profiles(plan, level, cases, hello),
                seed=plan.seed,
                seconds=seconds,
                examples=plan.examples,
                closing=CLOSING if capabilities is None else requests.closing(capabilities),
                sight=None if capabilities is None else Sight(),
                expected=expectation(plan.known, hello.engine, hello.version),
                on_progress=lambda report, _profile: tell(report),
            )
    except WorkerError as error:
        raise UsageError(f"{plan.target} cannot be driven: {error}") from error


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
