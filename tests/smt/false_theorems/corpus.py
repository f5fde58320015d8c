"""The register of the corpus: which machines state something false, and which are their true mutants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kvproof.machine import Machine

__all__ = ["FALSE", "REFUSED", "TRUE", "False_", "Refused", "false", "refused", "true"]


@dataclass(frozen=True)
class False_:
    """A machine, and what a run of it breaks: a property, or in parentheses the action that is ill-formed."""

    machine: type[Machine]
    broken: str


@dataclass(frozen=True)
class Refused:
    """What makes a machine that the reader must refuse, and a piece of what it says then."""

    make: Callable[[], type[Machine]]
    says: str


FALSE: list[False_] = []
REFUSED: list[Refused] = []
TRUE: list[type[Machine]] = []
"""Machines of which everything that they state is true."""


def false(broken: str) -> Callable[[type[Machine]], type[Machine]]:
    """The machine states something false."""

    def note(machine: type[Machine]) -> type[Machine]:
        FALSE.append(False_(machine, broken))
        return machine

    return note


def refused(says: str) -> Callable[[Callable[[], type[Machine]]], Callable[[], type[Machine]]]:
    """What the function makes is refused where it is made or read."""

    def note(make: Callable[[], type[Machine]]) -> Callable[[], type[Machine]]:
        REFUSED.append(Refused(make, says))
        return make

    return note


def true(machine: type[Machine]) -> type[Machine]:
    """The machine is the mended mutant of a false one."""
    TRUE.append(machine)
    return machine
