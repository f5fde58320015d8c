"""A mutant: a machine of which one action is wrong in one place."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import assert_never

from ...machine.mistakes import Line
from ...machine.model import Action, Model
from ...machine.program import Assign, Each, Emit, Let, Loop, Push, Remove, Require, Statement, When
from ...machine.reading import with_action
from ...machine.terms import Term

__all__ = ["Mutant", "shown", "shown_line"]


@dataclass(frozen=True, eq=False)
class Mutant:
    """A machine of which one action differs from its text in one place.

    ``operator`` is the kind of mistake, ``what`` the mistake in the machine's own words, ``line`` where it was made;
    ``number`` counts the mutants of one action that these do not tell apart (a helper that is called twice).
    """

    original: Model
    action: Action
    line: Line
    operator: str
    what: str
    number: int = 1

    @property
    def name(self) -> str:
        """The same for the same mutant of the same text, whichever others there are."""
        again = f" ({self.number})" if self.number > 1 else ""
        return f"{self.original.name}.{self.action.name} {shown_line(self.line)} {self.operator}: {self.what}{again}"

    @cached_property
    def model(self) -> Model:
        """The machine with this action in the place of the right one."""
        return with_action(self.original, self.action)

    def __str__(self) -> str:
        return f"{shown_line(self.line)} {self.action.name}: {self.what}"


def shown_line(line: Line) -> str:
    """A place in a text with the folder that it stands in: `pool/actions.py:123`."""
    return f"{Path(*Path(line.file).parts[-2:])}:{line.number}"


def shown(s: Statement) -> str:
    """A statement as its author would write it, in one line."""
    match s:
        case Let():
            return repr(s.value)
        case Require():
            return f"require({s.condition!r})"
        case Assign():
            return f"{_entry(s.name, s.keys)} = {s.value!r}"
        case Push():
            place = f"push_before({s.anchor!r}, " if s.anchor is not None else f"push_{s.where}("
            return f"{_entry(s.name, s.keys)}.{place}{s.element!r})"
        case Remove():
            return f"{_entry(s.name, s.keys)}.remove({s.element!r})"
        case Emit():
            return f"{s.event}({_listed(s.args)})"
        case When():
            return f"when({s.condition!r})"
        case Each():
            return f"each({', '.join(type(b).__name__ for b in s.binders)})"
        case Loop():
            return f"loop({s.count!r})"
        case unknown:
            assert_never(unknown)


def _entry(name: str, keys: tuple[Term, ...]) -> str:
    return f"{name}[{_listed(keys)}]" if keys else name


def _listed(terms: tuple[Term, ...]) -> str:
    return ", ".join(map(repr, terms))
