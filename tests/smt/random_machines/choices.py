"""Choices from a seed: the same seed makes the same machine, on every platform."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

__all__ = ["FEATURES", "Draw"]

T = TypeVar("T")

FEATURES = (
    "assume",
    "boolean_key",
    "can",
    "count",
    "division",
    "each",
    "event",
    "helper",
    "index",
    "inherit",
    "keyed_queue",
    "loop",
    "optional",
    "param",
    "quantifier",
    "queue",
    "real",
    "result",
    "scratch",
    "second_sort",
    "sum",
    "tally",
    "two_keys",
    "wide_sort",
)
"""What a machine may be made of. Each machine has some of these: a few at once meet more often than all at once."""


HEARD = 0.4
"""The share of machines with events in which somebody listens. Drawn beside, so that the others stay what they were."""

LOOKS = 0.3
"""Likewise: the share in which rounds of `each` read what they have written, and that in which is looked behind the
last index."""


class Draw:
    """A source of choices."""

    def __init__(self, seed: int | str, *, features: Sequence[str] | None = None) -> None:
        self.random = random.Random(f"machine {seed}")
        self.hears = random.Random(f"listener {seed}").random() < HEARD
        beside = random.Random(f"looks {seed}")
        self.looks_back = beside.random() < LOOKS
        """Rounds of `each` read what they have just written."""
        self.looks_behind = beside.random() < LOOKS
        """Counts by an index are read for numbers that may lie behind the last one."""
        share = self.random.uniform(0.15, 0.6)
        self.features = frozenset(f for f in FEATURES if self.random.random() < share)
        if features is not None:
            self.features = frozenset(features)
        if self.looks_behind:
            self.features |= {"index"}
        if self.looks_back:
            self.features |= {"each", "queue", "keyed_queue"}
        self._names: dict[str, int] = {}

    def has(self, feature: str) -> bool:
        """The machine may be made of this."""
        return feature in self.features

    def chance(self, p: float) -> bool:
        """True with this probability."""
        return self.random.random() < p

    def number(self, least: int, most: int) -> int:
        """An integer, both ends included."""
        return self.random.randint(least, most)

    def pick(self, items: Sequence[T]) -> T:
        """One of them."""
        return items[self.random.randrange(len(items))]

    def some(self, items: Sequence[T], most: int) -> list[T]:
        """Up to so many of them, in random order."""
        return self.random.sample(list(items), min(most, len(items)))

    def weighted(self, options: Sequence[tuple[float, Callable[[], T]]]) -> T:
        """What one of the functions makes, chosen by weight."""
        weights = [w for w, _ in options]
        ((_, chosen),) = self.random.choices(options, weights)
        return chosen()

    def name(self, stem: str) -> str:
        """A name that nothing else in this machine has."""
        self._names[stem] = self._names.get(stem, 0) + 1
        return f"{stem}{self._names[stem]}"
