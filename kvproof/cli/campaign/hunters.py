"""Who does the slices of a campaign: here processes of this machine, in `cluster.py` those of others."""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Protocol

from .slices import Order, Told, work
from .store import Store

__all__ = ["MOMENT", "Arm", "Hunter", "HunterProcess", "Hunters", "Processes"]

MOMENT = 0.5
"""Seconds that are waited for a word."""

_PATIENCE = 5.0
"""Seconds in which who is told to end does so."""

Arm = tuple[str, tuple[str, ...]]
"""A target, and levels of it that are hunted together."""


class Hunter(Protocol):
    """Does the slices of one arm, one after the other; its engine stays ready between them."""

    @property
    def arm(self) -> Arm:
        """What it hunts."""

    @property
    def is_alive(self) -> bool:
        """Whether more can come of it."""

    @property
    def how_lost(self) -> str:
        """How it ended, where it did without a word."""

    def send(self, order: Order) -> None:
        """Give it a slice. If it was lost while it waited, that is seen where the slice ends."""

    def told(self) -> list[Told]:
        """What it said since this was asked last. Whatever it had found before it said so is in the folder."""

    def end(self) -> None:
        """End it, and with it the engine that it started."""


class Hunters(Protocol):
    """Where hunters come from."""

    @property
    def jobs(self) -> int:
        """So many hunt at once."""

    @property
    def most(self) -> int:
        """So many may be there, with those that wait for another slice."""

    def new(self, arm: Arm, store: Store) -> Hunter:
        """A new one, for the campaign in this folder; its engine starts with its first slice."""

    def wait(self, hunters: Sequence[Hunter]) -> None:
        """Wait until one of these, which are its own, says something, or for a moment."""


class HunterProcess:
    """A process of this machine."""

    def __init__(self, arm: Arm) -> None:
        """Start it."""
        context = multiprocessing.get_context("spawn")
        self.line, theirs = context.Pipe()
        name = f"kvproof {' '.join((arm[0], *arm[1]))}"
        self._arm = arm
        self.process: BaseProcess = context.Process(target=work, args=(theirs,), name=name)
        self.process.start()
        theirs.close()

    @property
    def arm(self) -> Arm:
        """What it hunts."""
        return self._arm

    @property
    def is_alive(self) -> bool:
        """Whether more can come of it."""
        return self.process.is_alive()

    @property
    def how_lost(self) -> str:
        """Its status."""
        return f"status {self.process.exitcode}"

    def send(self, order: Order) -> None:
        """Give it a slice."""
        with suppress(BrokenPipeError):
            self.line.send(order)

    def told(self) -> list[Told]:
        """What it said."""
        said: list[Told] = []
        with suppress(EOFError, ConnectionResetError):
            while self.line.poll():
                said.append(self.line.recv())
        return said

    def end(self) -> None:
        """End it."""
        self.line.close()
        self.process.terminate()
        self.process.join(_PATIENCE)
        if self.process.is_alive():
            self.process.kill()


class Processes:
    """Processes of this machine. Twice as many as hunt may be there: more would take memory for nothing."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self.most = 2 * jobs

    def new(self, arm: Arm, store: Store) -> HunterProcess:  # noqa: ARG002 - it writes there itself
        """Start one."""
        return HunterProcess(arm)

    def wait(self, hunters: Sequence[Hunter]) -> None:
        """Wait for a word, or for the end of one."""
        lines: list[Connection] = [each.line for each in hunters if isinstance(each, HunterProcess)]
        wait(lines, timeout=MOMENT)
