"""Where a quantifier has to look: of ``exists b: b == t & ...`` at t alone, whatever else there is."""

from __future__ import annotations

from collections.abc import Iterator

from . import operations as op
from .terms import Term, number_of
from .traversal import numbers, parts

__all__ = ["candidates"]


def candidates(quantified: op.Quantified) -> dict[int, Term]:
    """Binders, by number, that only one element is asked of; and the term that names it.

    A term may name binders to the left of its own. What may be ill-formed (the head of a queue, quotients) is still
    looked at wherever it would be: nothing behind it is taken into account.
    """
    equations = [*_equations(quantified)]
    found: dict[int, Term] = {}
    unknown = {number_of(binder) for binder in quantified.binders}
    for binder in quantified.binders:
        number = number_of(binder)
        for one, other in equations:
            is_it = isinstance(one.operation, op.Variable) and number_of(one) == number
            if is_it and number not in found and unknown.isdisjoint(numbers(other)):
                found[number] = other
        unknown.discard(number)
    return found


def _equations(quantified: op.Quantified) -> Iterator[tuple[Term, Term]]:
    """The equations, read both ways, without which a quantifier's body says nothing."""
    match quantified, quantified.body.operation:
        case op.Exists(), _:
            asked: Term = quantified.body
        case op.Forall(), op.Implies(premise, _):
            asked = premise
        case _:
            return
    for part in _conjuncts(asked):
        if not _is_total(part):
            return
        match part.operation:
            case op.Equal(left, right):
                yield left, right
                yield right, left


def _conjuncts(term: Term) -> Iterator[Term]:
    """From left to right, as they are looked at."""
    match term.operation:
        case op.And(left, right):
            yield from _conjuncts(left)
            yield from _conjuncts(right)
        case _:
            yield term


def _is_total(term: Term) -> bool:
    """It has a value, whatever the state and its variables are. A temporary has its value already."""
    match term.operation:
        case op.Temporary():
            return True
        case op.Head() | op.Tail() | op.Divide() | op.FloorDivide() | op.Modulo():
            return False
        case _:
            return all(map(_is_total, parts(term)))
