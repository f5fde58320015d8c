"""How many states an exploration may come to, guessed from how it grew so far, and how many memory has room for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import torch

from ..machine import Model
from ..machine.scope import Scope

__all__ = ["available_bytes", "choices", "expected"]

_LEAST = 5
"""Levels before there is anything to be said."""

_AT_ONCE = 3
"""A guess is the least of those at the ends of so many levels: one that is too high stops what could be done."""


def expected(levels: Sequence[int], most: float = math.inf) -> float | None:
    """How many states there will be, by how many there were at the beginning and after each level; None: too early.

    From level to level there are more by a factor, and that shrinks: it is taken to go on shrinking as it did. While it
    does not, only ``most``, what the bits of a state can tell apart, is a bound.
    """
    ends = [len(levels) - back for back in range(_AT_ONCE) if len(levels) - back > _LEAST]
    guesses = [_guess(levels[:end]) for end in ends]
    return min([*guesses, most]) if guesses else None


def _guess(levels: Sequence[int]) -> float:
    new = [after - before for before, after in pairwise(levels)]
    if not new[-1] or not all(new):
        return levels[-1]
    factors = [after / before for before, after in pairwise(new)]
    factor, shrinking = factors[-1], math.sqrt(factors[-1] / factors[-3])
    if shrinking >= 1:
        return math.inf if factor > 1 else levels[-1] + new[-1] / max(1 - factor, 1e-9)
    total, more = float(levels[-1]), float(new[-1])
    while more > 1 and total < math.inf:
        factor *= shrinking
        more *= factor
        total += more
    return total


def choices(model: Model, scope: Scope) -> dict[str, int]:
    """How many choices of arguments each action has: all of them are tried in each state."""
    return {
        name: math.prod(scope.size(type(param)) for param in action.params) for name, action in model.actions.items()
    }


def available_bytes(device: torch.device) -> int | None:
    """The memory that is free on a device; None where the system does not tell."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    told = [room for room in (_of_machine(), _of_group()) if room is not None]
    return min(told, default=None)


def _of_machine() -> int | None:
    """What Linux says is there for a new program."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        (line,) = (line for line in lines if line.startswith("MemAvailable:"))
        return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        return None


def _of_group() -> int | None:
    """What is left of the limit that a container sets."""
    folder = Path("/sys/fs/cgroup")
    try:
        return int((folder / "memory.max").read_text()) - int((folder / "memory.current").read_text())
    except (OSError, ValueError):  # there is none, or it says "max"
        return None
