"""Clocks that an engine waits on: a virtual one that jumps, and the wall's. Whoever waits cannot tell which (G4)."""

import time
from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    """What tells the time, in seconds from an origin of its own, and lets it pass."""

    def now(self) -> float:
        """Return the time; it never runs backward (G3)."""

    def wait_until(self, until: float) -> float:
        """Return at that time, or at once if it is past; return what time it is then: ``until`` or later."""


class VirtualClock:
    """A clock that is wherever somebody waits for it to be."""

    def __init__(self, now: float = 0.0) -> None:
        """Begin at ``now``."""
        self._now = now

    def now(self) -> float:
        """Return the time."""
        return self._now

    def wait_until(self, until: float) -> float:
        """Be there, unless it is past."""
        self._now = max(self._now, until)
        return self._now


class WallClock:
    """A clock of the machine, from 0 at its making on."""

    def __init__(
        self,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        *,
        resolution: float = time.get_clock_info("monotonic").resolution,
    ) -> None:
        """Wait on ``monotonic`` by ``sleep``, both in seconds; tests give others.

        Who is woken no more than ``resolution`` off was woken in time: the sums of floats are off by less.
        """
        self._monotonic = monotonic
        self._sleep = sleep
        self._resolution = resolution
        self._origin = monotonic()

    def now(self) -> float:
        """Return the time."""
        return self._monotonic() - self._origin

    def wait_until(self, until: float) -> float:
        """Sleep until then; who is woken late is told so."""
        while (left := until - self.now()) > self._resolution:
            self._sleep(left)
        reached = self.now()
        return until if reached - until <= self._resolution else reached
