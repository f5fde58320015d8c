"""Statements: what an action does, in the order in which its text says so.

An action's text is run once by the recorder in `recorder.py`; these are what it leaves behind. `Statement` is a closed
union, over which interpreters match. Every value that is read from the state is bound by a `Let` at the place where it
was read: a read is a value, and a later write does not change it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, assert_never

from .mistakes import Line
from .terms import Bool, Int, Term

__all__ = [
    "Assign",
    "Each",
    "Emit",
    "Let",
    "Loop",
    "Push",
    "Remove",
    "Require",
    "Statement",
    "When",
    "bodies",
    "statements",
    "terms",
]


@dataclass(frozen=True, eq=False)
class Let:
    """Bind the value of ``value`` (as it is now) to the temporary ``name``."""

    name: int
    value: Term
    line: Line


@dataclass(frozen=True, eq=False)
class Require:
    """The action is only possible where this holds. Comes before every write."""

    condition: Bool
    line: Line


@dataclass(frozen=True, eq=False)
class Assign:
    """``map[keys] = value``; a scalar has no keys."""

    name: str
    keys: tuple[Term, ...]
    value: Term
    line: Line


@dataclass(frozen=True, eq=False)
class Push:
    """Put ``element``, which is in no place of the queue, at the back, at the front, or right before ``anchor``."""

    name: str
    keys: tuple[Term, ...]
    element: Term
    where: Literal["back", "front", "before"]
    anchor: Term | None
    line: Line


@dataclass(frozen=True, eq=False)
class Remove:
    """Take ``element``, which is in the queue, out of it."""

    name: str
    keys: tuple[Term, ...]
    element: Term
    line: Line


@dataclass(frozen=True, eq=False)
class Emit:
    """Report an event to whoever listens. ``heard`` is what a listener makes of it; no other state changes."""

    event: str
    args: tuple[Term, ...]
    heard: list[Statement]
    line: Line


@dataclass(frozen=True, eq=False)
class When:
    """``then`` where the condition holds, ``otherwise`` where it does not."""

    condition: Bool
    then: list[Statement]
    otherwise: list[Statement]
    line: Line


@dataclass(frozen=True, eq=False)
class Each:
    """The body for every element of the binders' sorts at once.

    Each round writes and reads only its own entries (those keyed by the binders) of what the body writes, so the order
    of the rounds does not matter; interpreters that need one take elements in ascending order.
    """

    binders: tuple[Term, ...]
    body: list[Statement]
    line: Line


@dataclass(frozen=True, eq=False)
class Loop:
    """The body for index = 0, 1, … below ``count``, and only as long as ``going`` holds before a round.

    ``going_lets`` are the reads of ``going``, taken anew before each round. ``facts`` hold before each round and after
    the last (with index = number of rounds done); views named ``entry:<number>`` in them are the state before the first
    round.
    """

    number: int
    index: Int
    count: Int
    going_lets: list[Statement]
    going: Bool
    body: list[Statement]
    facts: dict[str, Bool]
    result: int
    line: Line


Statement = Let | Require | Assign | Push | Remove | Emit | When | Each | Loop


def terms(s: Statement) -> tuple[Term, ...]:
    """What the statement itself evaluates before anything else happens; not what stands inside it."""
    match s:
        case Let():
            return (s.value,)
        case Require() | When():
            return (s.condition,)
        case Assign():
            return (*s.keys, s.value)
        case Push():
            return (*s.keys, s.element) if s.anchor is None else (*s.keys, s.element, s.anchor)
        case Remove():
            return (*s.keys, s.element)
        case Emit():
            return s.args
        case Each():
            return ()
        case Loop():
            return (s.count,)
        case unknown:
            assert_never(unknown)


def bodies(s: Statement) -> tuple[list[Statement], ...]:
    """The lists of statements that stand inside this one."""
    match s:
        case When():
            return s.then, s.otherwise
        case Each():
            return (s.body,)
        case Emit():
            return (s.heard,)
        case Loop():
            return s.going_lets, s.body
        case Let() | Require() | Assign() | Push() | Remove():
            return ()
        case unknown:
            assert_never(unknown)


def statements(body: list[Statement]) -> Iterator[Statement]:
    """Every statement of the body, those inside others too."""
    for s in body:
        yield s
        for inner in bodies(s):
            yield from statements(inner)
