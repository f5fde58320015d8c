"""The halts of released engines, in small: each as a machine, how it is found, and the machine beside it that goes on.

It is explored in `tests/explore/test_deadlocks.py`, and refuted for any size in `tests/smt/test_deadlocks.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvproof.machine import Machine
from kvproof.spec.liveness import deadlocks

__all__ = ["HALTS", "Halt"]


@dataclass(frozen=True)
class Halt:
    """One halt."""

    name: str
    """Of the machine that comes to it, on the command line."""
    goes_on: type[Machine]
    """The machine beside it."""
    found: str
    """As what the search finds it."""
    place: str
    """Where its proof fails."""
    refuted: str
    """What is refuted there."""

    def __str__(self) -> str:
        return self.name


HALTS = (
    Halt(
        "partial-hits",
        deadlocks.HitsInside,
        "invariant the_first_leaves_possible",
        "every state",
        "the_first_leaves_possible",
    ),
    Halt(
        "draft-slots",
        deadlocks.AlignedPrefill,
        "invariant every_prefill_ends_possible",
        "every state",
        "every_prefill_ends_possible",
    ),
    Halt(
        "look-ahead",
        deadlocks.GrowingRequests,
        "cycle the_first_leaves",
        "give_up",
        "the_first_leaves_lowered_by_give_up",
    ),
    Halt(
        "held-loads",
        deadlocks.ReservedLoads,
        "invariant who_loads_ends_possible",
        "every state",
        "who_loads_ends_possible",
    ),
    Halt(
        "lazy-stores",
        deadlocks.LazyStores,
        "cycle an_idle_engine_rests",
        "replace",
        "an_idle_engine_rests_lowered_by_replace",
    ),
)
