"""Slices side by side: which target has the next one, and what becomes of processes that are lost."""

import multiprocessing
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from ...engines.driver.command import Driver
from ...engines.schedule import Schedule
from ..gaps import Gap
from ..hunting import Plan, is_beside
from .slices import Order, Told, work
from .store import Slice, Store

__all__ = ["Campaign", "Running", "arms_of"]

_SHORTEST, _LONGEST = 20.0, 120.0
"""Seconds of a slice: the start of an engine takes some, and what one slice learned others shall use soon."""

_TURNS = 4
"""So many slices each arm would have, if all had as many."""

_LEAST = 5.0
"""Seconds that are too few for a slice."""

_LOST = 3
"""An arm whose processes are lost so often in a row is given up."""


@dataclass
class Running:
    """A slice under way."""

    order: Order
    process: BaseProcess
    line: Connection
    began: float
    """On the monotonic clock."""
    told: dict[str, Told] = field(default_factory=dict)
    """By level, what it said last."""
    level: str = ""
    """Where it is now."""
    failed: str = ""


Arm = tuple[str, tuple[str, ...]]
"""A target, and levels of it that are hunted together."""


def arms_of(plan: Plan) -> list[Plan]:
    """A plan by its arms: the levels that are hunted together, and each that goes beside a machine for itself."""
    beside = [level for level in plan.levels if is_beside(plan, level)]
    judged = tuple(level for level in plan.levels if level not in beside)
    return [replace(plan, levels=levels) for levels in (judged, *((level,) for level in beside)) if levels]


class Campaign:
    """The processes of a campaign. A context manager that ends them."""

    def __init__(self, store: Store, plans: Sequence[Plan], seconds: float, jobs: int) -> None:
        """Prepare slices of these plans, each of one target, for so long."""
        self._store, self._seconds, self.jobs = store, seconds, jobs
        # What is hunted comes first at every target, what goes beside a machine behind it.
        arms = [(number, plan) for each in plans for number, plan in enumerate(arms_of(each))]
        self._plans = {(plan.target, plan.levels): plan for _, plan in sorted(arms, key=lambda arm: arm[0])}
        self._schedule: Schedule[Arm] = Schedule([*self._plans], plans[0].seed, _learned([*store.slices().values()]))
        self._length = min(_LONGEST, max(_SHORTEST, seconds * jobs / _TURNS / len(self._plans)))
        self._before = sum(done.wall for done in store.slices().values()) / jobs
        self._began = time.monotonic()
        self._undone = 0
        """Slices of this run that did not come to their end."""
        self._lost_in_a_row: dict[Arm, int] = {}
        self.running: list[Running] = []
        self.lost = 0
        """Processes that ended without a word."""
        self.gaps: dict[Arm, Gap] = {}
        """What could not be hunted."""

    def __enter__(self) -> "Campaign":
        return self

    def __exit__(self, *_: object) -> None:
        for each in self.running:
            each.process.terminate()
        for each in self.running:
            each.process.join(_LEAST)
            if each.process.is_alive():
                each.process.kill()

    @property
    def elapsed(self) -> float:
        """Seconds that the campaign has lasted, with what it lasted before it was interrupted."""
        return self._before + time.monotonic() - self._began

    @property
    def over(self) -> bool:
        """Whether no slice is under way and none will be."""
        return not self.running and (self._seconds - self.elapsed < _LEAST or not self._able())

    def go_on(self) -> list[Running]:
        """Begin what slices can be, listen for a moment, and return those that ended."""
        while len(self.running) < self.jobs and self._seconds - self.elapsed >= _LEAST and (able := self._able()):
            self._begin(self._schedule.next(able))
        lines = [each.line for each in self.running]
        for each in [each for each in self.running if each.line in wait(lines, timeout=0.5)]:
            self._listen(each)
        ended = [each for each in self.running if not each.process.is_alive()]
        for each in ended:
            self._end(each)
        return ended

    def _able(self) -> set[Arm]:
        """The arms that can have a slice now. Of a driver nobody knows whether there may be two."""
        busy = {each.order.plan.target for each in self.running if isinstance(each.order.plan.build, Driver)}
        return {arm for arm in self._plans if arm not in self.gaps and arm[0] not in busy}

    def _begin(self, arm: Arm) -> None:
        plan, number = self._plans[arm], len(self._store.slices()) + len(self.running) + self._undone
        left = self._seconds - self.elapsed
        # What would be left over is too short for another one.
        seconds = left if left < self._length + _SHORTEST / 2 else self._length
        plan = replace(plan, seed=(plan.seed << 16) + number, seconds=seconds)
        order = Order(self._store.root, self._store.new_name(), plan, self.elapsed, time.time() + left)
        context = multiprocessing.get_context("spawn")
        line, theirs = context.Pipe(duplex=False)
        process = context.Process(target=work, args=(order, theirs), name=f"kvproof {order.name}")
        process.start()
        theirs.close()
        self.running.append(Running(order, process, line, time.monotonic()))

    @staticmethod
    def _listen(each: Running) -> None:
        with suppress(EOFError, ConnectionResetError):
            while each.line.poll():
                told = each.line.recv()
                if told.failed:
                    each.failed = told.failed
                else:
                    each.level, each.told[told.level] = told.level, told

    def _end(self, each: Running) -> None:
        self._listen(each)
        each.process.join()
        self.running.remove(each)
        plan = each.order.plan
        arm, done = (plan.target, plan.levels), self._store.slices().get(each.order.name)
        if done is not None:
            self._lost_in_a_row[arm] = 0
            self._schedule.reward(arm, done.brought, done.seconds)
            return
        self._undone += 1
        part = f"{plan.target}, level{'s' * (len(plan.levels) > 1)} {', '.join(plan.levels)}"
        if each.failed:
            self.gaps[arm] = Gap(part, each.failed, "the same command tries it again")
            return
        self.lost += 1
        self._lost_in_a_row[arm] = self._lost_in_a_row.get(arm, 0) + 1
        if self._lost_in_a_row[arm] == _LOST:
            self.gaps[arm] = Gap(part, f"{_LOST} processes in a row were lost", "the same command tries it again")


def _learned(slices: Sequence[Slice]) -> dict[Arm, tuple[float, float]]:
    """What the arms brought so far, by a schedule that sees it again."""
    arms = [*dict.fromkeys((done.target, done.levels) for done in slices)]
    schedule: Schedule[Arm] = Schedule(arms, 0, dict.fromkeys(arms, (0.0, 0.0)))
    for done in slices:
        schedule.reward((done.target, done.levels), done.brought, done.seconds)
    return schedule.learned
