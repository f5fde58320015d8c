"""Whether a property of steps speaks of what tallies counted in the step, and not of what they counted in all.

A tally is no part of a state: the explorer counts each step from 0, and a proof knows nothing of what was counted
before. Both are right only of properties that stay as they are if all tallies begin elsewhere.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from . import operations as op
from .mistakes import Line, MachineError
from .model import Model
from .terms import Term
from .traversal import parts, walk

__all__ = ["check_reads_none", "counts_in_all"]

Entry = tuple[Any, ...]
Factors = tuple[Any, ...]
"""Numbers that do not move, as they are written, that are multiplied with each other; in order."""

Shift = dict[tuple[Entry, Factors], Any]
"""How much a number grows for each unit by which an entry of a tally begins higher, times these; never 0."""


def check_reads_none(model: Model, name: str, term: Term, line: Line) -> None:
    """Of what is said of states.

    Raises:
        MachineError: it looks at a tally, of which there is nothing in a state.
    """
    for read in (part.operation for part in walk(term)):
        if isinstance(read, op.Entry) and model.is_tally(read.name):
            text = f"{name} reads the tally {read.name}, of which properties of steps alone can speak"
            raise MachineError(text, line)


def counts_in_all(model: Model, formula: Term) -> str | None:
    """Return a tally of which the formula says how much it has counted since the first state; None: there is none."""
    try:
        Shifts(model).of(formula)
    except _Absolute as absolute:
        return str(absolute)
    return None


class _Absolute(Exception):
    """What a term says depends on where a tally began."""


class Shifts:
    """What terms become if all tallies begin elsewhere, the same entry by the same amount before and after a step."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._known: dict[int, Shift] = {}

    def of(self, term: Term) -> Shift:
        """Return how the term's value moves.

        Raises:
            _Absolute: it changes in another way than by an amount that does not depend on the state.
        """
        known = self._known.get(id(term))
        if known is None:
            known = self._known[id(term)] = self._of(term)
        return known

    def _of(self, term: Term) -> Shift:
        match term.operation:
            case op.Entry(_, name, keys) if self.model.is_tally(name):
                self._still(keys)
                return {((name, *map(_written, keys)), ()): 1}
            case op.Add(left, right):
                return self._sum(left, right, 1)
            case op.Subtract(left, right):
                return self._sum(left, right, -1)
            case op.Multiply(left, right):
                return self._product(left, right)
            case op.Divide(left, right) if isinstance(by := _number(right), Fraction) and by:
                return {moves: Fraction(factor) / by for moves, factor in self.of(left).items()}
            case op.Temporary(_, value):
                return self.of(value)
            case op.ToReal(of):
                return self.of(of)
            case op.Ite(condition, then, otherwise):
                self._still([condition])
                return self._same(then, otherwise)
            case op.Equal(left, right) | op.Less(left, right) | op.AtMost(left, right):
                self._same(left, right)
            case _:
                self._still(parts(term))
        return {}

    def _still(self, terms: Iterable[Term]) -> None:
        for term in terms:
            for entry, _ in self.of(term):
                raise _Absolute(entry[0])

    def _sum(self, left: Term, right: Term, sign: int) -> Shift:
        total: Shift = defaultdict(int, self.of(left))
        for moves, factor in self.of(right).items():
            total[moves] += sign * factor
        return {moves: factor for moves, factor in total.items() if factor}

    def _product(self, left: Term, right: Term) -> Shift:
        """A number that moves, multiplied with one that does not."""
        still, moving = (right, left) if self.of(left) else (left, right)
        self._still([still])
        if (number := _number(still)) is not None:
            return {moves: factor * number for moves, factor in self.of(moving).items() if number}
        more = _written(still)
        return {(entry, tuple(sorted((*by, more), key=repr))): f for (entry, by), f in self.of(moving).items()}

    def _same(self, left: Term, right: Term) -> Shift:
        """Both move together: what is said of them beside each other stays as it is."""
        one, other = self.of(left), self.of(right)
        for moves in one.keys() | other.keys():
            if one.get(moves, 0) != other.get(moves, 0):
                raise _Absolute(moves[0][0])
        return one


def _number(term: Term) -> Fraction | None:
    """The number that the text says, if it is one."""
    match term.operation:
        case op.Constant(int() | Fraction() as value):
            return Fraction(value)
        case op.ToReal(of) | op.Temporary(_, of):
            return _number(of)
        case _:
            return None


def _written(term: Term) -> tuple[Any, ...]:
    """The term as plain values, equal where the text is: `==` between terms is a term itself."""
    values = term.operation.values()
    return type(term.operation), *(
        _written(v) if isinstance(v, Term) else tuple(map(_written, v)) if isinstance(v, tuple) else v for v in values
    )
