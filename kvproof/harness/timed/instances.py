"""Instances for machines in virtual time: bandwidths, sizes and moments, all exact, and what requests ask for.

Here nothing comes from tokens: a tier in virtual time knows blocks by their keys only, and any key will do.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

from ...checkers.target import NONE
from ...machine import Machine, Model
from ...machine.concrete import State
from ...spec.timed.links import Links
from ...spec.timed.shared_tier import SharedTier
from ...spec.timed.timed_tiers import TimedTiers
from ..scoped_instance import ScopedInstance, drawn, row

__all__ = ["TimedInstance", "model_of", "timed_instances"]

Exact = int | str
"""An exact number as JSON has it: an integer, or text such as 1/3."""

BANDWIDTHS: Sequence[Exact] = (1, 2, 3, "1/2", "5/3", 1, 2, 0, -1)
"""In bytes per unit of time; the last two are instantaneous."""

BYTES: Sequence[Exact] = (2, 1, 3, "3/2", "1/3", 4, 2, 0)

TIMES: Sequence[Exact] = (1, 2, 3, 5, 8, 13, 21, "1/2", "7/2", "20/3", 0, -1)
"""The last two are past when everything begins."""

SIZES: Mapping[type[Machine], Sequence[dict[str, int]]] = {
    Links: (
        {"Link": 1, "Transfer": 2, "Moment": 2},
        {"Link": 2, "Transfer": 4, "Moment": 4},
        {"Link": 3, "Transfer": 8, "Moment": 5},
    ),
    TimedTiers: (
        {"Link": 2, "Transfer": 4, "Moment": 2, "Block": 2, "Hash": 2, "Request": 1, "Position": 3},
        {"Link": 1, "Transfer": 6, "Moment": 3, "Block": 3, "Hash": 3, "Request": 2, "Position": 3},
        {"Link": 2, "Transfer": 8, "Moment": 4, "Block": 4, "Hash": 4, "Request": 2, "Position": 4},
        {"Link": 3, "Transfer": 9, "Moment": 4, "Block": 5, "Hash": 5, "Request": 3, "Position": 4},
    ),
    SharedTier: (
        {"Link": 1, "Transfer": 2, "Moment": 3, "Worker": 2, "Hash": 2},
        {"Link": 1, "Transfer": 4, "Moment": 6, "Worker": 2, "Hash": 4},
        {"Link": 1, "Transfer": 6, "Moment": 9, "Worker": 3, "Hash": 6},
    ),
}
"""The sizes that random instances have, the smallest first. They are few because each costs an interpreter."""


def model_of(machine: type[Machine]) -> Model:
    """The machine, as the reference implementation is held against it.

    A shared tier has its link for itself: there ``start``, the traffic of others, is left out.
    """
    model = Model.of(machine)
    if issubclass(machine, SharedTier) and "start" in model.actions:
        return _SHARED if machine is SharedTier else _without_start(model)
    return model


def _without_start(model: Model) -> Model:
    return dataclasses.replace(model, actions={name: a for name, a in model.actions.items() if name != "start"})


_SHARED = _without_start(Model.of(SharedTier))


@dataclass(frozen=True)
class TimedInstance(ScopedInstance):
    """One instance of the parameters of `Links`, `TimedTiers` or `SharedTier`."""

    SIZES = SIZES

    def __post_init__(self) -> None:
        """Refuse what the implementation cannot be told."""
        if issubclass(self.scope.model.machine, SharedTier) and (
            self.scope.sizes["Link"] > 1 or len(set(self.numbers("bytes"))) > 1
        ):
            raise ValueError("a shared tier has one link, and blocks of one size: give one Link, and equal bytes")

    # The parameters that implementations ask for.

    @property
    def keys(self) -> list[bytes]:
        """The key of each hash."""
        return [b"hash %d" % h for h in range(self.scope.sizes["Hash"])]

    @property
    def prefixes(self) -> list[list[int]]:
        """The hashes that each request looks for, up to the first that there is none of."""
        rows: list[list[int | None]] = self.scope.params["prefix"]
        ends = [row.index(None) if None in row else len(row) for row in rows]
        return [[h for h in row[:end] if h is not None] for row, end in zip(rows, ends, strict=True)]

    # What a setting is.

    @staticmethod
    def model_of(machine: type[Machine]) -> Model:
        """The machine, as the reference implementation is held against it."""
        return model_of(machine)

    def steering(self, state: State) -> object:
        """What a server would do, and what leads somewhere."""
        return _Steering(self, state)


def timed_instances(machine: type[Machine]) -> st.SearchStrategy[TimedInstance]:
    """Draws instances of all sizes for this machine; Hypothesis shrinks to the first size and the first numbers."""
    return drawn(TimedInstance, machine, _params)


def _params(machine: type[Machine], size: Mapping[str, int]) -> dict[str, st.SearchStrategy[Any]]:
    """The strategy of each parameter."""
    bandwidth, amount, time = (st.sampled_from(list(of)) for of in (BANDWIDTHS, BYTES, TIMES))
    transfers = size["Transfer"]
    same = issubclass(machine, SharedTier)
    params: dict[str, st.SearchStrategy[Any]] = {
        "bandwidth": row(bandwidth, size["Link"]),
        "bytes": amount.map(lambda one: [one] * transfers) if same else row(amount, transfers),
        "time": row(time, size["Moment"]),
    }
    if not issubclass(machine, TimedTiers):
        return params
    link = st.integers(0, size["Link"] - 1)
    return params | {
        "down": link,
        "up": link.map(lambda x: size["Link"] - 1 - x),
        "block_bytes": amount,
        "batch": st.sampled_from([2, 1, 3]),
        "capacity": st.sampled_from([2, 1, 3, 2, 1, 4, 3, 0]),
        "prefix": row(_prefix(size["Hash"], size["Position"]), size["Request"]),
    }


def _prefix(hashes: int, positions: int) -> st.SearchStrategy[list[int | None]]:
    """Most requests begin alike, and part somewhere. Behind the last hash is none, so that a lookup ends (P14)."""

    def row(length: int, branch: int, other: int) -> list[int | None]:
        named: list[int | None] = [h % hashes for h in range(length)]
        if branch < length:
            named[branch] = other
        return named + [None] * (positions - length)

    length = st.integers(1, positions - 1).map(lambda short: positions - short)
    return st.builds(row, length, st.sampled_from([positions, *range(positions)]), st.integers(0, hashes - 1))


class _Steering:
    """Which of the possible steps lead somewhere, in one state."""

    def __init__(self, instance: TimedInstance, state: State) -> None:
        self.instance, self.now = instance, vars(state)
        self.time: list[Fraction] = self.now["time"]

    def _is_ahead(self, m: int) -> bool:
        return bool(self.time[m] > self.now["now"][0])

    def _start(self, t: int, _x: int, _m: int) -> bool:
        """The tiers' own copies need ids too."""
        return "free" not in self.now or t + 4 < self.instance.scope.sizes["Transfer"]

    def _advance(self, m: int) -> bool:
        """While something is on its way; of a shared tier, to where the worker is that is furthest behind."""
        if "clock" in self.now:
            return self._is_ahead(m) and bool(self.time[m] == min(self.now["clock"]))
        return self._is_ahead(m) and any(self.now["moving"])

    # ------------------------------------------------------------------------------------------------ a shared tier

    def _look(self, _w: int, h: int) -> bool:
        """For what somebody stored."""
        return h in self.now["stores"]

    def _work(self, w: int, m: int) -> bool:
        """The worker that is furthest behind goes on, and not as far as it can."""
        clock = self.now["clock"]
        later = [time for time in self.time if time > clock[w]]
        return clock[w] == min(clock) and self.time[m] in sorted(later)[:2]

    # ------------------------------------------------------------------------------------------------ tiers

    def _register(self, _b: int, h: int) -> bool:
        """What some request looks for."""
        return any(h in row for row in self.instance.prefixes)

    def _release(self, b: int) -> bool:
        """What can be found; another block where there is no name left for it."""
        return self.now["holds"][b] != NONE or NONE not in self.now["found"]

    def _touch(self, _b: int) -> bool:
        """Seldom: who is hit all the time is never evicted."""
        return not any(self.now["moving"])

    def _ship(self, _t: int) -> bool:
        """What is full, or will get no fuller."""
        return len(self.now["gathered"]) == self.now["batch"][0] or not self.now["idle"]

    def _allocate(self) -> bool:
        """As long as there is something to compute."""
        return NONE in self.now["found"]
