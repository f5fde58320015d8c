"""What became of the obligations at one place of a machine, and a record of it where all of them are proved."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import msgspec

from ..machine import Model
from ..machine.canonical import Contents
from .proofs import SAMPLE, Proofs, place_digest
from .shown import Counterexample
from .solvers import Verdict

__all__ = ["Obligation", "Record", "Whole", "whole_digest"]


@dataclass
class Obligation:
    """One obligation and what became of it. ``prop`` names the property that it is about, if it is about one."""

    action: str
    goal: str
    rule: str
    verdict: Verdict
    seconds: float
    line: str = ""
    counterexample: Counterexample | None = None
    note: str = ""
    prop: str = ""


class _Kept(msgspec.Struct, frozen=True):
    """A record as it is stored: of each obligation the place, goal, rule, line and property."""

    obligations: list[tuple[str, str, str, str, str]]
    untouched: list[str]


@cache
def _contents(model: Model) -> Contents:
    return Contents(model)


@dataclass
class Record:
    """What was proved of one place of a machine, under the digest of everything that this depends on.

    Places in files are no part of that: they are written down as numbers, and read as what stands there now.
    """

    digest: str
    lines: list[str]

    @staticmethod
    def of(model: Model, place: str, solver: str) -> Record:
        """The record of a place, by its content."""
        contents = _contents(model).of_place(place)
        return Record(place_digest(contents, solver), [str(line) for c in contents for line in c.lines])

    def recall(self, proofs: Proofs) -> tuple[list[Obligation], list[str]] | None:
        """What was asked and proved, and the invariants that were not touched; None: nothing is known, or it is to be
        asked again."""
        known = proofs.place(self.digest, _Kept)
        if known is None or random.random() < SAMPLE:
            return None
        return [self._read(*fields) for fields in known.obligations], known.untouched

    def keep(self, proofs: Proofs, obligations: Sequence[Obligation], untouched: Sequence[str]) -> None:
        """Keep what was asked and proved."""
        numbers: dict[str, int] = {}
        for number, line in enumerate(self.lines):
            numbers.setdefault(line, number)

        def numbered(text: str) -> str:
            return _PLACE.sub(lambda found: f"@{numbers[found[0]]}@" if found[0] in numbers else found[0], text)

        rows = [(o.action, numbered(o.goal), o.rule, numbered(o.line), o.prop) for o in obligations]
        proofs.keep_place(self.digest, _Kept(rows, [*untouched]))

    def _read(self, action: str, goal: str, rule: str, line: str, prop: str) -> Obligation:
        def named(text: str) -> str:
            return _NUMBER.sub(lambda found: self._line(int(found[1])), text)

        return Obligation(action, named(goal), rule, "proved", 0.0, named(line), prop=prop)

    def _line(self, number: int) -> str:
        return self.lines[number] if number < len(self.lines) else "?"


class Whole(msgspec.Struct, frozen=True):
    """What was proved of a whole machine: its name, and how many actions and properties it has."""

    machine: str
    actions: int
    properties: int
    left_to_exploration: int
    places: dict[str, tuple[list[tuple[str, str, str, str]], list[str]]]
    """By place, in the order of the machine's text: of each obligation the goal, rule, line and property; and the
    invariants that were not touched there."""

    def at(self, place: str) -> tuple[list[Obligation], list[str]] | None:
        """What was proved at a place; None: it is to be asked again."""
        obligations, untouched = self.places[place]
        if random.random() < SAMPLE:
            return None
        return [
            Obligation(place, goal, rule, "proved", 0.0, line, prop=p) for goal, rule, line, p in obligations
        ], untouched


def whole_digest(text: str, solver: str) -> str:
    """Under which a whole machine is kept that is told from all others by this."""
    return place_digest([], "whole", text, solver)


_PLACE = re.compile(r"[^\s:@]+\.py:\d+")
_NUMBER = re.compile(r"@(\d+)@")
