"""Which family of cases is searched next: the one that is expected to bring most for its time.

Each family is an arm of a bandit. What it brings is counted (behaviours that were never seen, and weighted more, faults
that were never seen), as events of a Poisson process whose rate has a Gamma distribution; the next arm is the one whose
rate, drawn from that distribution, is highest (Thompson sampling). What lies back is discounted, since arms run dry. An
arm that brings nothing any more is still drawn now and then, as its rate is never known to be nought.
"""

import random
from collections.abc import Collection
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
    turns: int = 0


class Schedule(Generic[T]):
    """The arms, and what each brought."""

    def __init__(self, arms: list[T], seed: int) -> None:
        """Schedule these; each has a turn before any has a second one."""
        self._arms = [_Arm(what) for what in arms]
        self._dice = random.Random(seed)
        self._last: _Arm[T] | None = None

    @property
    def arms(self) -> list[T]:
        """All arms."""
        return [arm.what for arm in self._arms]

    @property
    def turns(self) -> int:
        """How many turns there were."""
        return sum(arm.turns for arm in self._arms)

    def next(self, arms: Collection[T]) -> T:
        """The arm whose turn it is, of these."""
        able = [arm for arm in self._arms if arm.what in arms]
        new = [arm for arm in able if not arm.turns]
        self._last = new[0] if new else max(able, key=lambda arm: self._dice.gammavariate(*_belief(arm)))
        return self._last.what

    def reward(self, brought: float, cost: float) -> None:
        """Note what the last turn brought, and what it cost."""
        arm = self._last
        assert arm is not None
        arm.brought = arm.brought * _MEMORY + brought
        arm.cost = arm.cost * _MEMORY + cost
        arm.turns += 1


def _belief(arm: _Arm[T]) -> tuple[float, float]:
    """Shape and scale of what is believed of an arm's rate."""
    shape, rate = _PRIOR
    return shape + arm.brought, 1 / (rate + arm.cost)
