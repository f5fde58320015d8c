"""Quantifiers of which a part does not speak of what is bound.

A sort may have no elements, and of none of them everything is true: `forall(Block, lambda b: flag)` says nothing then,
and `flag` where there is one. The prover takes the parts of a conjunction one by one, each for the elements that it
names; so it would take `flag` for known. In what it proves that is more than what is asked, and what it has proved it
may rely on; in what it relies on without a proof, it is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from . import operations as op
from .fitting import is_within
from .mistakes import Line, MachineError
from .model import Model
from .program import Loop, statements, terms
from .terms import Sort, Term, name_of, number_of
from .traversal import clauses, numbers, walk

__all__ = ["check_named"]


def check_named(model: Model) -> None:
    """Look at all that a machine says.

    Raises:
        MachineError: a quantifier, an assumption, or what is said of the first state has a part that names no element
            of a sort which may have none, where that part is relied on.
    """
    for prop in model.properties.values():
        is_known = prop.kind in ("assume", "initially")
        if is_known:
            _check(prop.name, prop.binders, prop.formula, prop.line)
        _check_all(prop.name, prop.line, _all_of(prop.formula) if is_known else _not_asserted(prop.formula))
    for where, line, term in _used(model):
        _check_all(where, line, _all_of(term))
    for act in model.actions.values():
        for s in statements(act.body):
            for fact in s.facts.values() if isinstance(s, Loop) else ():
                _check_all(act.name, s.line, _not_asserted(fact))


def _used(model: Model) -> Iterator[tuple[str, Line, Term]]:
    """What decides, is stored, counted or returned: of what it is, and where it stands."""
    for act in model.actions.values():
        for s in statements(act.body):
            yield from ((act.name, s.line, term) for term in terms(s))
        if act.result is not None:
            yield act.name, act.line, act.result
    for count in model.counts.values():
        yield count.name, count.line, count.formula
        if count.weight is not None:
            yield count.name, count.line, count.weight
    for name, (_, value) in model.inits.items():
        yield f"the first value of {name}", (model.maps[name] if name in model.maps else model.queues[name]).line, value


def _all_of(term: Term) -> Iterator[op.Forall]:
    return (part.operation for part in walk(term) if isinstance(part.operation, op.Forall))


def _not_asserted(term: Term) -> Iterator[op.Forall]:
    """The quantifiers in a formula that is proved, and only then relied on, which are not simply asserted by it: one
    that is asserted may be proved and known with more than it says."""
    match term.operation:
        case op.And(left, right) | op.Or(left, right):
            yield from _not_asserted(left)
            yield from _not_asserted(right)
        case op.Implies(left, right):
            yield from _all_of(left)
            yield from _not_asserted(right)
        case op.Forall(_, body) | op.Exists(_, body):
            yield from _not_asserted(body)
        case _:
            yield from _all_of(term)


def _check_all(where: str, line: Line, quantifiers: Iterator[op.Forall]) -> None:
    for said in quantifiers:
        _check(where, said.binders, said.body, line)


def _check(where: str, binders: Sequence[Term], formula: Term, line: Line) -> None:
    for more, part in clauses(formula):
        named, bound = numbers(part), (*binders, *more)
        kinds = {type(b) for b in bound if number_of(b) in named}
        for b in bound:
            if isinstance(b, Sort) and not type(b).extra and not any(is_within(kind, type(b)) for kind in kinds):
                text = f"{where} says `{part!r}` for every {name_of(b)}, of which that does not speak: there may be no "
                raise MachineError(f"{text}{type(b).__name__}; say it by itself", line)
