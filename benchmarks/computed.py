"""A clock of computing for hunts: a busy machine shows the same as a quiet one.

The processes that hunt import the script anew that was started; where that calls `take_over` when it is imported, the
budget of each is what it and its engine compute.
"""

import os
import resource
import time
from pathlib import Path

import kvproof.cli.hunting
import kvproof.engines.collecting
import kvproof.engines.hunt
import kvproof.engines.reduce
import kvproof.engines.sorting

__all__ = ["Computed", "take_over"]

_TICKS = os.sysconf("SC_CLK_TCK")


class Computed:
    """A clock that shows the seconds that this process and all that it started have computed."""

    def __init__(self) -> None:
        self._shown = 0.0

    def monotonic(self) -> float:
        """The time; it does not go back where a process ends while it is read."""
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        now = time.process_time() + ended.ru_utime + ended.ru_stime + _below(os.getpid()) / _TICKS
        self._shown = max(self._shown, now)
        return self._shown


def _below(process: int) -> int:
    """Ticks of a process's children that run, and of theirs."""
    try:
        tasks = [*Path("/proc", str(process), "task").iterdir()]
        children = [int(child) for task in tasks for child in (task / "children").read_text().split()]
        told = [Path("/proc", str(child), "stat").read_text().rpartition(")")[2].split() for child in children]
    except OSError:
        return 0
    # Behind the name: user and system time as 12th and 13th, then those of children that ended.
    return sum(sum(map(int, each[11:15])) for each in told) + sum(map(_below, children))


def take_over() -> None:
    """Let hunts of this process go by what is computed."""
    clock = Computed()
    for module in (
        kvproof.cli.hunting,
        kvproof.engines.collecting,
        kvproof.engines.hunt,
        kvproof.engines.reduce,
        kvproof.engines.sorting,
    ):
        vars(module)["time"] = clock
