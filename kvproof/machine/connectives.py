"""Formulas and choices, as the text of a machine writes them."""

from __future__ import annotations

from fractions import Fraction
from typing import TypeVar, cast

from . import operations as op
from .mistakes import MachineError, is_asked_by_a_text
from .terms import FALSE, TRUE, Bool, Int, Term, as_bool, as_number, as_term, is_none, none, same_type

__all__ = ["all_of", "any_of", "iff", "implies", "ite"]

T = TypeVar("T", bound=Term)

_OF_NONE = (
    "`{}` of no conditions at all is {} whatever the state is, and says nothing of it: put them there, or leave it out"
)


def implies(a: Bool, b: Bool) -> Bool:
    """If a then b. The second is only looked at where the first holds."""
    return Bool(op.Implies(as_bool(a), as_bool(b)))


def iff(a: Bool, b: Bool) -> Bool:
    """Both or neither."""
    return Bool(op.Equal(as_bool(a), as_bool(b)))


def ite(condition: Bool, then: T | int | bool | Fraction, otherwise: T | int | bool | Fraction) -> T:
    """One value or the other."""
    a, b = as_term(then), as_term(otherwise)
    a, b = as_number(type(b), a), as_number(type(a), b)
    if not same_type(a, b):
        raise MachineError(f"the two values of ite differ in type: {a!r}, {b!r}")
    if is_none(a) and is_none(b):
        return cast(T, none)  # of no sort yet
    kind = type(b) if is_none(a) or issubclass(type(b), type(a)) else type(a)
    is_optional = a.is_optional or b.is_optional
    if isinstance(a, Int) and isinstance(b, Int) and type(a) is not type(b) and not is_optional:
        kind = Int
    return cast(T, kind(op.Ite(as_bool(condition), a, b), is_optional=is_optional))


def all_of(*conditions: Bool) -> Bool:
    """Every one of them, from left to right."""
    if not conditions and is_asked_by_a_text():
        raise MachineError(_OF_NONE.format("all_of", "true"))
    result = TRUE
    for c in conditions:
        result = as_bool(c) if result is TRUE else result & as_bool(c)
    return result


def any_of(*conditions: Bool) -> Bool:
    """At least one of them."""
    if not conditions and is_asked_by_a_text():
        raise MachineError(_OF_NONE.format("any_of", "false"))
    result = FALSE
    for c in conditions:
        result = as_bool(c) if result is FALSE else result | as_bool(c)
    return result
