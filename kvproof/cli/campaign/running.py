"""Slices side by side: which target has the next one, by whom, and what becomes of those that are lost."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ...engines.driver.command import Driver
from ...engines.schedule import Schedule
from ..gaps import Gap
from ..hunting import Plan, is_beside
from .hunters import Arm, Hunter, Hunters
from .slices import Order, Told
from .store import Slice, Store

__all__ = ["Campaign", "Running", "arms_of"]

_SHORTEST, _LONGEST = 20.0, 120.0
"""Seconds of a slice: the start of an engine takes some, and what one slice learned others shall use soon."""

_TURNS = 4
"""So many slices each arm would have, if all had as many."""

_LEAST = 5.0
"""Seconds that are too few for a slice."""

_LOST = 3
"""An arm whose hunters are lost so often in a row is given up."""


@dataclass
class Running:
    """A slice under way."""

    order: Order
    hunter: Hunter
    began: float
    """On the monotonic clock."""
    told: dict[str, Told] = field(default_factory=dict)
    """By level, what it said last."""
    level: str = ""
    """Where it is now; nowhere before the engine is ready."""
    over: bool = False
    failed: str = ""


def arms_of(plan: Plan) -> list[Plan]:
    """A plan by its arms: the levels that are hunted together, and each that goes beside a machine for itself."""
    beside = [level for level in plan.levels if is_beside(plan, level)]
    judged = tuple(level for level in plan.levels if level not in beside)
    return [replace(plan, levels=levels) for levels in (judged, *((level,) for level in beside)) if levels]


class Campaign:
    """The hunters of a campaign. A context manager that ends them."""

    def __init__(self, store: Store, plans: Sequence[Plan], seconds: float, hunters: Hunters) -> None:
        """Prepare slices of these plans, each of one target, for so long."""
        self._store, self._seconds, self._hunters = store, seconds, hunters
        jobs = hunters.jobs
        # What is hunted comes first at every target, what goes beside a machine behind it.
        arms = [(number, plan) for each in plans for number, plan in enumerate(arms_of(each))]
        self._plans = {(plan.target, plan.levels): plan for _, plan in sorted(arms, key=lambda arm: arm[0])}
        self._schedule: Schedule[Arm] = Schedule([*self._plans], plans[0].seed, _learned([*store.slices().values()]))
        self._length = min(_LONGEST, max(_SHORTEST, seconds * jobs / _TURNS / len(self._plans)))
        self.elapsed = sum(done.seconds for done in store.slices().values()) / jobs
        """Seconds in which something was hunted, with those before an interruption: while engines start and nothing is
        hunted, no time is lost."""
        self._looked = time.monotonic()
        self._undone = 0
        """Slices of this run that did not come to their end."""
        self._lost_in_a_row: dict[Arm, int] = {}
        self.running: list[Running] = []
        self._idle: list[Hunter] = []
        """Those between two slices, the one that waits longest first."""
        self.lost = 0
        """How many ended without a word."""
        self.gaps: dict[Arm, Gap] = {}
        """What could not be hunted."""

    def __enter__(self) -> "Campaign":
        return self

    def __exit__(self, *_: object) -> None:
        for hunter in (*(each.hunter for each in self.running), *self._idle):
            hunter.end()

    @property
    def over(self) -> bool:
        """Whether no slice is under way and none will be."""
        return not self.running and (self._left < _LEAST or not self._able())

    @property
    def _left(self) -> float:
        """The seconds in which nobody has hunted yet."""
        return self._seconds - self.elapsed

    def go_on(self) -> list[Running]:
        """Begin what slices can be, listen for a moment, and return those that ended."""
        while len(self.running) < self._hunters.jobs and self._left >= _LEAST and (able := self._able()):
            self._begin(self._schedule.next(able))
        self._make_room()
        self._hunters.wait([each.hunter for each in self.running])
        self._look()
        for each in self.running:
            self._listen(each)
        ended = [each for each in self.running if each.over or not each.hunter.is_alive]
        for each in ended:
            self._end(each)
        return ended

    def _look(self) -> None:
        """Let the time pass in which something was hunted."""
        now = time.monotonic()
        if any(each.level for each in self.running):
            self.elapsed += now - self._looked
        self._looked = now

    def _able(self) -> set[Arm]:
        """The arms that can have a slice now. Of a driver nobody knows whether there may be two."""
        busy = {each.order.plan.target for each in self.running if isinstance(each.order.plan.build, Driver)}
        return {arm for arm in self._plans if arm not in self.gaps and arm[0] not in busy}

    def _begin(self, arm: Arm) -> None:
        plan, number = self._plans[arm], len(self._store.slices()) + len(self.running) + self._undone
        # What would be left over is too short for another one.
        seconds = self._left if self._left < self._length + _SHORTEST / 2 else self._length
        plan = replace(plan, seed=(plan.seed << 16) + number, seconds=seconds)
        order = Order(self._store.root, self._store.new_name(), plan, self.elapsed)
        hunter = self._hunter(arm)
        hunter.send(order)
        self.running.append(Running(order, hunter, time.monotonic()))

    def _hunter(self, arm: Arm) -> Hunter:
        """Somebody for an arm: who has its engine ready, if there is one."""
        hunter = next((hunter for hunter in reversed(self._idle) if hunter.arm == arm), None)
        if hunter is not None:
            self._idle.remove(hunter)
            return hunter
        self._make_room(for_more=1)
        return self._hunters.new(arm, self._store)

    def _make_room(self, *, for_more: int = 0) -> None:
        """End who waits longest, where more are there than may be: there may be fewer than before."""
        while self._idle and len(self._idle) + len(self.running) + for_more > self._hunters.most:
            self._idle.pop(0).end()

    @staticmethod
    def _listen(each: Running) -> None:
        for told in each.hunter.told():
            each.over, each.failed = told.over, told.failed
            if told.level:
                each.level, each.told[told.level] = told.level, told

    def _end(self, each: Running) -> None:
        self._listen(each)
        self.running.remove(each)
        if each.over:
            self._idle.append(each.hunter)
        else:
            each.hunter.end()
        arm, plan = each.hunter.arm, each.order.plan
        done = self._store.slices().get(each.order.name)
        if done is not None:
            self._lost_in_a_row[arm] = 0
            self._schedule.reward(arm, done.brought, done.seconds)
            return
        self._undone += 1
        # Else what was lost at its first turn would wait for its next one until all others run dry.
        self._schedule.forfeit(arm)
        part = f"{plan.target}, level{'s' * (len(plan.levels) > 1)} {', '.join(plan.levels)}"
        if each.failed:
            self.gaps[arm] = Gap(part, each.failed, "the same command tries it again")
            return
        self.lost += 1
        self._lost_in_a_row[arm] = self._lost_in_a_row.get(arm, 0) + 1
        if self._lost_in_a_row[arm] == _LOST:
            why = f"{_LOST} processes in a row were lost ({each.hunter.how_lost})"
            self.gaps[arm] = Gap(part, why, "the same command tries it again")


def _learned(slices: Sequence[Slice]) -> dict[Arm, tuple[float, float]]:
    """What the arms brought so far, by a schedule that sees it again."""
    arms = [*dict.fromkeys((done.target, done.levels) for done in slices)]
    schedule: Schedule[Arm] = Schedule(arms, 0, dict.fromkeys(arms, (0.0, 0.0)))
    for done in slices:
        schedule.reward((done.target, done.levels), done.brought, done.seconds)
    return schedule.learned
