"""What the system tells of running processes: what they compute, and the memory that they take. Linux only."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Running", "begun_with", "in_group", "running"]


@dataclass(frozen=True)
class Running:
    """A process."""

    group: int
    computed: float
    """Seconds, of the program and of the system for it."""
    memory: int
    """Bytes."""
    is_runnable: bool
    """It computes, or waits for nothing but a processor or a disk: imports are read from one."""


def running(number: int | str) -> Running | None:
    """What is told of a process; None where nothing is: it has ended, or this system does not tell."""
    told_by = Path("/proc", str(number))
    with suppress(OSError, ValueError, IndexError):
        told = _stat(told_by)
        pages = int((told_by / "statm").read_text().split()[1])
        ticks = int(told[11]) + int(told[12])
        memory = pages * os.sysconf("SC_PAGE_SIZE")
        return Running(int(told[2]), ticks / os.sysconf("SC_CLK_TCK"), memory, told[0] in "RD")
    return None


def _stat(process: Path) -> list[str]:
    """What is told of a process behind its name, which may have spaces: state, parent, group; user and system time as
    12th and 13th, the moment of its beginning as 20th."""
    return (process / "stat").read_text().rpartition(")")[2].split()


def in_group(group: int) -> Iterator[Running]:
    """The processes of a group: a program that leads one, and what it started."""
    for process in Path("/proc").glob("[0-9]*"):
        told = running(process.name)
        if told is not None and told.group == group:
            yield told


def begun_with(variable: str) -> Iterator[int]:
    """The numbers of the processes that were begun with this in their environment (``NAME=value``): also those that
    left the group that they were started in."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if variable.encode() in _environment(process).split(b"\0"):
                yield int(process.name)


_YOUNG = 10.0
"""Seconds since a process began, in which it may be about to become another program."""

_LOOKS, _WAIT = 100, 0.01
"""So often it is looked for what that has become, after so many seconds each."""


def _environment(process: Path) -> bytes:
    """What a process was begun with. Who became another program a moment ago has none for a while: whoever started it
    goes on already, and a busy machine lets it wait there."""
    for _ in range(_LOOKS):
        told = (process / "environ").read_bytes()
        if told or not _is_becoming(process):
            return told
        time.sleep(_WAIT)
    return b""


def _is_becoming(process: Path) -> bool:
    """Whether it is a program, not a thread of the system's or what is left of one, and young."""
    os.readlink(process / "exe")
    began = int(_stat(process)[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - began < _YOUNG
