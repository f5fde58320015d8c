"""Activity: what happened in random runs of a machine beside a target, counted from what both agreed on."""

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from .lockstep import Lockstep

__all__ = ["Activity", "Run"]

_NEARLY_FULL = 4
"""A pool is nearly full when at most one in so many of its blocks is free."""

_ASKED = frozenset({"evict", "reset"})
"""Actions that forget hashes because they are asked to."""


@dataclass
class Activity:
    """Counts over all runs."""

    lookups: int = 0
    hits: int = 0
    """Lookups that found something."""
    hit_blocks: int = 0
    """Blocks that they found (connectors: tokens), where the machine tells how many."""
    tight_hits: int = 0
    """Hits in a pool of which at most a quarter was free."""
    evictions: int = 0
    """Hashes that were reported removed though nobody asked for that, on any tier."""
    stored_again: int = 0
    """Hashes that were reported stored after such an eviction."""
    refusals: int = 0
    """Steps that are not possible, and were refused."""
    preemptions: int = 0

    def add(self, other: "Activity") -> None:
        """Add the counts of other runs."""
        for name, count in self.to_json().items():
            setattr(self, name, count + getattr(other, name))

    def to_json(self) -> dict[str, int]:
        """The counts by name."""
        return dataclasses.asdict(self)


@dataclass
class Run:
    """One run: what must be remembered to count it."""

    total: Activity
    lookups: frozenset[str]
    """The actions that look something up."""
    _evicted: set[Any] = field(default_factory=set)

    def before(self, action: str, run: Lockstep) -> bool:
        """Look at the state before an action; return whether a hit would be one in a nearly full pool."""
        free, blocks = vars(run.state).get("free"), run.spec.scope.sizes.get("Block")
        if action not in self.lookups or free is None or blocks is None:
            return False
        return len(free) * _NEARLY_FULL <= blocks

    def applied(self, action: str, run: Lockstep, tight: bool) -> None:
        """Count an action that both sides did."""
        total = self.total
        if action in self.lookups:
            total.lookups += 1
            if run.result:
                total.hits += 1
                total.hit_blocks += 0 if isinstance(run.result, bool) else int(run.result)
                total.tight_hits += tight
        elif action == "preempt":
            total.preemptions += 1
        for name, *key in run.events:
            if name.endswith("removed") and action not in _ASKED:
                total.evictions += 1
                self._evicted.add((name.removesuffix("removed"), key[0]))
            elif name.endswith("stored") and (place := (name.removesuffix("stored"), key[0])) in self._evicted:
                total.stored_again += 1
                self._evicted.discard(place)

    def refused(self) -> None:
        """Count an action that is not possible, and was refused."""
        self.total.refusals += 1
