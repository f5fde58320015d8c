"""Statements: what an action does, in the order in which its text says so.

An action's text is run once by the recorder in `language.py`; these are what it leaves behind. Every value that is read
from the state is bound by a `Let` at the place where it was read: a read is a value, and a later write does not change
it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from .terms import Bool, Int, Line, Term

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
    "statements",
    "terms",
]


@dataclass(eq=False)
class Let:
    """Bind the value of ``value`` (as it is now) to the temporary ``name``."""

    name: int
    value: Term
    line: Line


@dataclass(eq=False)
class Require:
    """The action is only possible where this holds. Comes before every write."""

    condition: Bool
    line: Line


@dataclass(eq=False)
class Assign:
    """``map[keys] = value``; a scalar has no keys."""

    name: str
    keys: tuple[Term, ...]
    value: Term
    line: Line


@dataclass(eq=False)
class Push:
    """Put ``element``, which is in no place of the queue, at the back, at the front, or right before ``anchor``."""

    name: str
    keys: tuple[Term, ...]
    element: Term
    where: Literal["back", "front", "before"]
    anchor: Term | None
    line: Line


@dataclass(eq=False)
class Remove:
    """Take ``element``, which is in the queue, out of it."""

    name: str
    keys: tuple[Term, ...]
    element: Term
    line: Line


@dataclass(eq=False)
class Emit:
    """Report an event to whoever listens. ``heard`` is what a listener makes of it; no other state changes."""

    event: str
    args: tuple[Term, ...]
    heard: list[Statement]
    line: Line


@dataclass(eq=False)
class When:
    """``then`` where the condition holds, ``otherwise`` where it does not."""

    condition: Bool
    then: list[Statement]
    otherwise: list[Statement]
    line: Line


@dataclass(eq=False)
class Each:
    """The body for every element of the binders' sorts at once.

    Each round writes and reads only its own entries (those keyed by the binders) of what the body writes, so the order
    of the rounds does not matter; interpreters that need one take elements in ascending order.
    """

    binders: tuple[Term, ...]
    body: list[Statement]
    line: Line


@dataclass(eq=False)
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
    if isinstance(s, Let):
        return (s.value,)
    if isinstance(s, Require | When):
        return (s.condition,)
    if isinstance(s, Assign):
        return (*s.keys, s.value)
    if isinstance(s, Push):
        return (*s.keys, s.element) if s.anchor is None else (*s.keys, s.element, s.anchor)
    if isinstance(s, Remove):
        return (*s.keys, s.element)
    if isinstance(s, Emit):
        return s.args
    return (s.count,) if isinstance(s, Loop) else ()


def statements(body: list[Statement]) -> Iterator[Statement]:
    """Every statement of the body, those inside others too."""
    for s in body:
        yield s
        if isinstance(s, When):
            yield from statements(s.then)
            yield from statements(s.otherwise)
        elif isinstance(s, Each):
            yield from statements(s.body)
        elif isinstance(s, Emit):
            yield from statements(s.heard)
        elif isinstance(s, Loop):
            yield from statements(s.going_lets)
            yield from statements(s.body)
