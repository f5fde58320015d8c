"""What a term is made of, and terms with something else in the place of a part."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar, cast

from . import operations as op
from .terms import Bool, Term

__all__ = ["clauses", "inlined", "numbers", "parts", "rebuilt", "seen_in", "substituted", "unseen", "walk"]

T = TypeVar("T", bound=Term)


def parts(term: Term) -> list[Term]:
    """The terms directly below this one, in the order of the operation's fields; of quantifiers their binders too."""
    found: list[Term] = []
    for value in term.operation.values():
        if isinstance(value, Term):
            found.append(value)
        elif isinstance(value, tuple):
            found += value
    return found


def walk(term: Term) -> Iterator[Term]:
    """This term and all below it."""
    below = [term]
    while below:
        yield (one := below.pop())
        below.extend(reversed(parts(one)))


def unseen(term: Term, seen: set[int]) -> Iterator[Term]:
    """As `walk`, less what was seen before: a value that was read stands in every term that uses it."""
    below = [term]
    while below:
        one = below.pop()
        if id(one) not in seen:
            seen.add(id(one))
            yield one
            below.extend(reversed(parts(one)))


def numbers(term: Term) -> set[int]:
    """The numbers of the variables in the term, bound ones too."""
    return {t.operation.number for t in walk(term) if isinstance(t.operation, op.Variable)}


def rebuilt(term: T, change: Callable[[Term], Term]) -> T:
    """The term with something else in the place of each term directly below it; binders stay."""
    operation = term.operation

    def changed(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(change, value))
        return change(value) if isinstance(value, Term) else value

    if isinstance(operation, op.Quantified):
        made: op.Operation = type(operation)(operation.binders, cast(Bool, change(operation.body)))
    else:
        made = type(operation)(*map(changed, operation.values()))
    return type(term)(made, is_optional=term.is_optional)


def clauses(term: Term) -> list[tuple[tuple[Term, ...], Term]]:
    """The formula as a conjunction of smaller ones, each with the variables that are universally quantified in it.

    Conjunctions and universal quantifiers are taken apart, also on the right of an implication. A solver learns from a
    small formula as soon as its own terms occur, and not only when those of its neighbours do.
    """
    match term.operation:
        case op.And(left, right):
            return [*clauses(left), *clauses(right)]
        case op.Forall(outer, body):
            return [((*outer, *binders), part) for binders, part in clauses(body)]
        case op.Implies(left, right):
            return [(binders, Bool(op.Implies(left, cast(Bool, part)))) for binders, part in clauses(right)]
        case _:
            return [((), term)]


def inlined(term: T, temps: Container[int]) -> T:
    """The term with these temporaries replaced by the values that they were given."""
    match term.operation:
        case op.Temporary(number, value) if number in temps:
            return cast(T, inlined(value, temps))
        case op.Constant() | op.Variable() | op.Temporary():
            return term
        case _:
            return rebuilt(term, lambda part: inlined(part, temps))


def substituted(term: T, variables: Mapping[int, Term], temps: Mapping[int, Term]) -> T:
    """The term with these variables and temporaries replaced, also in what replaces the temporaries."""
    match term.operation:
        case op.Temporary(number) if number in temps:
            return cast(T, substituted(temps[number], variables, temps))
        case op.Variable(_, number):
            return cast(T, variables.get(number, term))
        case op.Constant() | op.Temporary():
            return term
        case _:
            return rebuilt(term, lambda part: substituted(part, variables, temps))


def seen_in(term: Term, view: str) -> Term:
    """The formula of a count, as it looks at the state of this view."""
    if view == "now":
        return term
    changed = rebuilt(term, lambda part: seen_in(part, view))
    if isinstance(read := changed.operation, op.Entry | op.Has):
        return type(term)(replace(read, view=view), is_optional=term.is_optional)
    return changed
