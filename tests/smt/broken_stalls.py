"""A device that may stall, with one thing wrong each (G1): what `prove` must refute, and `explore` find."""

from __future__ import annotations

from kvproof.machine import Machine, exists, forall, ite
from kvproof.spec.pool import Request
from kvproof.spec.timed.links import Link, Links, Transfer
from kvproof.spec.timed.stalls import Stalls


class WaitsForEver(Stalls):
    """Nothing will happen any more, and nobody says so where every slot is free."""

    def stall(self) -> None:
        self.require(self.free.value < self.slots.value)
        super().stall()


class StallsBesideACopy(Stalls):
    """A stall is said while a copy is under way that would make room."""

    def stall(self) -> None:
        self.require(exists(Request, lambda r: self.waiting[r]))
        self.require(self.nobody_can_run())
        self.stalls.add(1)


class StallsBesideTheReady(Stalls):
    """A stall is said because one request waits, though another fits."""

    def stall(self) -> None:
        self.require(exists(Request, lambda r: self.waiting[r] & ~self._can_run(r)))
        self.require(forall(Transfer, lambda t: ~self.moving[t]))
        self.stalls.add(1)


class StallsWithoutAWord(Stalls):
    """It is noticed, and not counted."""

    def stall(self) -> None:
        self.require(exists(Request, lambda r: self.waiting[r]))
        self.require(self.nobody_can_run())
        self.require(forall(Transfer, lambda t: ~self.moving[t]))
        self.stalls.add(0)


class CopiesMakeRoom(Stalls):
    """What is being copied is free already."""

    def leave(self, r: Request, t: Transfer, x: Link) -> None:
        super().leave(r, t, x)
        self.free.value = self.free.value + self.need[r]


class CopiesKeepTheirSlots(Stalls):
    """What was copied is never free: the device stalls for want of slots that nobody has."""

    def _complete(self, t: Transfer) -> None:
        super(Stalls, self)._complete(t)
        self.carried[t] = 0


class TimePassesTheReady(Stalls):
    """Time moves on while somebody fits."""

    def advance_to_deadline(self, t: Transfer) -> None:
        Links.advance_to_deadline(self, t)


class EntersInPart(Stalls):
    """Who does not fit takes what there is, and runs."""

    def enter(self, r: Request) -> None:
        self.require(self.waiting[r])
        self.require(self.free.value >= 1)
        self.waiting[r] = False
        self.running[r] = True
        self.free.value = ite(self.need[r] <= self.free.value, self.free.value - self.need[r], 0)


BROKEN: list[tuple[type[Machine], str, str, str]] = [
    (WaitsForEver, "every state", "a_stall_is_said_when_nothing_will_happen", "G1"),
    (StallsBesideACopy, "every state", "only_who_never_fits_stalls", "L1"),
    (StallsBesideTheReady, "every state", "a_stall_is_said_when_nothing_will_happen", "G1"),
    (StallsWithoutAWord, "stall", "a_stall_is_counted", "G1"),
    (CopiesMakeRoom, "leave", "no_copy_makes_room", "P1"),
    (CopiesKeepTheirSlots, "complete", "no_copy_makes_room", "P1"),
    (TimePassesTheReady, "advance_to_deadline", "time_waits_for_who_can_run", "G1"),
    (EntersInPart, "enter", "no_copy_makes_room", "P1"),
]
"""Machine, the action that goes wrong, the property that it breaks, and the rule."""
