"""Whether a term's value is sure to be an element of a type, as far as the term itself says so."""

from __future__ import annotations

from . import operations as op
from .terms import RESULT, Index, Int, Sort, Term, is_natural

__all__ = ["fits", "is_surely", "is_within", "may_be_none", "may_misfit"]


def is_within(kind: type, other: type) -> bool:
    """Each value of the one type is one of the other.

    What Python calls a subclass of a sort is the wider one where it names elements of its own.
    """
    if issubclass(kind, Sort) and issubclass(other, Sort) and Sort not in (kind, other):
        return kind.base is other.base and set(kind.extra) <= set(other.extra)
    return issubclass(kind, other)


def fits(term: Term, kind: type[Term]) -> bool:
    """The type of the term says that it is an element of the sort: not none, nor an extra element of a wider sort."""
    return not term.is_optional and (not isinstance(term, Sort) or set(term.extra) <= set(getattr(kind, "extra", ())))


def is_surely(term: Term, kind: type[Term]) -> bool:
    """The term says that it is an element: an index has to be a variable of that kind, as others may lie behind it."""
    said = term.operation
    is_own = isinstance(said, op.Variable) and type(term) is kind and said.name != RESULT
    return fits(term, kind) and (not isinstance(term, Int) or is_own)


def may_misfit(term: Term, kind: type[Term], *, is_optional: bool) -> bool:
    """What the term says may be none of what is stored as this kind: it may be missing, of a wider sort, or below 0."""
    is_wider = isinstance(term, Sort) and not set(term.extra) <= set(getattr(kind, "extra", ()))
    is_number = isinstance(term, Int) and issubclass(kind, Index) and not is_natural(term)
    return is_wider or is_number or (term.is_optional and not is_optional)


def may_be_none(term: Term, *, is_optional: bool) -> bool:
    """None may be stored where that is allowed, by a term that may be missing: a number below 0 only looks like it."""
    return is_optional and term.is_optional
