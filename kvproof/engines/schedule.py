"""Which family of cases is searched next: the one that is expected to bring most for its time.

Each family is an arm of a bandit. What it brings is counted (behaviours that were never seen, and weighted more, faults
that were never seen), as events of a Poisson process whose rate has a Gamma distribution; the next arm is the one whose
rate, drawn from that distribution, is highest (Thompson sampling). What lies back is discounted, since arms run dry. An
arm that brings nothing any more is still drawn now and then, as its rate is never known to be nought.
"""

import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["Schedule"]

_MEMORY = 0.8
"""By how much what was brought counts less with each further turn of its arm."""

_PRIOR = (1.0, 0.5)
"""What is believed of an arm before its first turn: an event in half a unit of cost."""

T = TypeVar("T")


@dataclass
class _Arm(Generic[T]):
    what: T
    brought: float = 0.0
    cost: float = 0.0
    begun: int = 0


class Schedule(Generic[T]):
    """The arms, and what each brought."""

    def __init__(self, arms: list[T], seed: int, learned: Mapping[T, tuple[float, float]] | None = None) -> None:
        """Schedule these; each has a turn before any has a second one, but for what an earlier schedule learned."""
        self._arms = {what: _Arm(what) for what in arms}
        self._dice = random.Random(seed)
        self.turns = 0
        """How many turns there were."""
        for what, (brought, cost) in (learned or {}).items():
            if what in self._arms:
                self._arms[what] = _Arm(what, brought, cost, begun=1)

    @property
    def arms(self) -> list[T]:
        """All arms."""
        return [*self._arms]

    @property
    def learned(self) -> dict[T, tuple[float, float]]:
        """What each arm brought that had a turn, and what it cost, as far as that still counts."""
        return {arm.what: (arm.brought, arm.cost) for arm in self._arms.values() if arm.begun}

    def next(self, arms: Collection[T]) -> T:
        """The arm whose turn it is, of these."""
        able = [arm for arm in self._arms.values() if arm.what in arms]
        new = [arm for arm in able if not arm.begun]
        chosen = new[0] if new else max(able, key=lambda arm: self._dice.gammavariate(*_belief(arm)))
        chosen.begun += 1
        return chosen.what

    def forfeit(self, what: T) -> None:
        """Note that a turn of an arm did not take place, by no choice of its own: it is owed to it."""
        self._arms[what].begun -= 1

    def reward(self, what: T, brought: float, cost: float) -> None:
        """Note what a turn of an arm brought, and what it cost. Turns may be under way side by side."""
        arm = self._arms[what]
        arm.brought = arm.brought * _MEMORY + brought
        arm.cost = arm.cost * _MEMORY + cost
        self.turns += 1


def _belief(arm: _Arm[T]) -> tuple[float, float]:
    """Shape and scale of what is believed of an arm's rate."""
    shape, rate = _PRIOR
    return shape + arm.brought, 1 / (rate + arm.cost)
