"""Small formulas for Z3 that keep plain truths plain: what is decided at once never reaches the solver."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import z3

__all__ = [
    "Formula",
    "Function",
    "has_quantifier",
    "key_of",
    "land",
    "leq",
    "less",
    "lif",
    "limplies",
    "lnot",
    "lor",
    "num",
    "occurs",
    "real",
    "remembered",
    "replaced",
]

Formula = Any
"""A Z3 expression, or a Python bool where the truth is plain."""

Function = Callable[..., Formula]


def land(*parts: Formula) -> Formula:
    """Conjunction that keeps plain truths plain."""
    rest = [p for p in parts if p is not True]
    if any(p is False for p in rest):
        return False
    return True if not rest else rest[0] if len(rest) == 1 else z3.And(*rest)


def lor(*parts: Formula) -> Formula:
    """Disjunction that keeps plain truths plain."""
    rest = [p for p in parts if p is not False]
    if any(p is True for p in rest):
        return True
    return False if not rest else rest[0] if len(rest) == 1 else z3.Or(*rest)


def lnot(a: Formula) -> Formula:
    """Negation that keeps plain truths plain."""
    return not a if isinstance(a, bool) else z3.Not(a)


def limplies(a: Formula, b: Formula) -> Formula:
    """Implication that keeps plain truths plain."""
    return lor(lnot(a), b) if isinstance(a, bool) or isinstance(b, bool) else z3.Implies(a, b)


def lif(c: Formula, a: Formula, b: Formula) -> Formula:
    """Choice that keeps plain truths plain."""
    if isinstance(c, bool):
        return a if c else b
    if isinstance(a, bool) and isinstance(b, bool):
        return a if a == b else c if a else z3.Not(c)
    if isinstance(a, z3.ExprRef) and isinstance(b, z3.ExprRef) and a.eq(b):
        return a
    return z3.If(c, a, b)


def leq(a: Formula, b: Formula) -> Formula:
    """Equality, decided at once where both sides are the same text or two different constants."""
    if isinstance(a, bool) or isinstance(b, bool):
        if isinstance(a, bool) and isinstance(b, bool):
            return a == b
        plain, other = (a, b) if isinstance(a, bool) else (b, a)
        return other if plain else lnot(other)
    if a.eq(b):
        return True
    if z3.is_int_value(a) and z3.is_int_value(b):
        return bool(a.as_long() == b.as_long())
    if z3.is_rational_value(a) and z3.is_rational_value(b):
        return bool(a.as_fraction() == b.as_fraction())
    return a == b


def num(value: Formula) -> Formula:
    """An integer as a Z3 term."""
    return z3.IntVal(value) if isinstance(value, int) and not isinstance(value, bool) else value


def real(value: Formula) -> Formula:
    """An integer as an exact number."""
    return z3.RealVal(value.as_long()) if z3.is_int_value(value) else z3.ToReal(value)


def less(a: Formula, b: Formula, *, strict: bool) -> Formula:
    """Order of numbers, decided at once between constants."""
    a, b = num(a), num(b)
    if z3.is_int_value(a) and z3.is_int_value(b):
        return bool(a.as_long() < b.as_long() if strict else a.as_long() <= b.as_long())
    if z3.is_rational_value(a) and z3.is_rational_value(b):
        return bool(a.as_fraction() < b.as_fraction() if strict else a.as_fraction() <= b.as_fraction())
    return a < b if strict else a <= b


def key_of(keys: Iterable[Formula]) -> tuple[Any, ...]:
    """What makes two argument tuples the same text."""
    return tuple(k if isinstance(k, bool) else k.get_id() for k in keys)


def remembered(function: Function) -> Function:
    """The same function, computed once for each argument text."""
    known: dict[tuple[Any, ...], tuple[Formula, tuple[Formula, ...]]] = {}

    def look(*keys: Formula) -> Formula:
        place = key_of(keys)
        if place not in known:
            known[place] = (function(*keys), keys)  # the keys stay alive, so that their ids stay theirs
        return known[place][0]

    return look


def replaced(formula: Formula, pairs: Sequence[tuple[Formula, Formula]]) -> Formula:
    """The formula with parts replaced; what becomes plain is a plain truth."""
    if not pairs or not isinstance(formula, z3.ExprRef):
        return formula
    result = z3.substitute(formula, *pairs)
    return True if z3.is_true(result) else False if z3.is_false(result) else result


def occurs(part: Formula, formula: Formula) -> bool:
    """Whether the part stands somewhere in the formula."""
    return any(p.eq(part) for p in _parts(formula))


def has_quantifier(formula: Formula) -> bool:
    """Whether something in the formula is said of all or of some elements."""
    return any(z3.is_quantifier(p) for p in _parts(formula))


def _parts(formula: Formula) -> Iterator[z3.ExprRef]:
    """Everything that the formula is made of, each text once."""
    seen: set[int] = set()
    rest = [formula] if isinstance(formula, z3.ExprRef) else []
    while rest:
        part = rest.pop()
        if part.get_id() not in seen:
            seen.add(part.get_id())
            yield part
            rest += part.children()
