"""Mutants of a machine: every action with one mistake, for each mistake that its recorded text leaves room for.

A guard, a write, an event is forgotten, or said of something else; an end of a queue, a boundary, a number is the one
beside it; a condition is dropped, negated or weakened; a loop makes one round more or less. What is read by nobody is
left alone, and so is what says how a mistake is noticed: the facts of loops, and what listeners make of events.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Literal, assert_never

from ...machine import operations as op
from ...machine.language import Machine
from ...machine.mistakes import MachineError
from ...machine.model import Action, Model
from ...machine.program import (
    Assign,
    Each,
    Emit,
    Let,
    Loop,
    Push,
    Remove,
    Require,
    Statement,
    When,
    statements,
    terms,
)
from ...machine.reading import reported
from ...machine.rounds import check_each
from ...machine.terms import FALSE, TRUE, Bool, Term, literal, none
from ...machine.traversal import parts
from .mutant import Mutant, shown
from .places import Place, places, with_statements
from .rewriting import LONG, Change, Rewriting, Stepped, instead, of_kind, off_by_one

__all__ = ["OPERATORS", "is_inherited", "mutants_of", "refusal"]

OPERATORS = {
    "forget guard": "what an action requires is not asked",
    "negate guard": "the opposite of it is asked",
    "weaken guard": "a part, a boundary or a quantifier of it is wrong, or it is asked of something else",
    "forget write": "a write does not happen",
    "redirect write": "it happens at another entry, or in another map or queue",
    "wrong value": "something else is written",
    "queue end": "an element joins the other end",
    "forget event": "an event is not reported",
    "wrong event": "it is reported twice, or of something else",
    "always": "a `when` happens whatever its condition says",
    "never": "it never happens",
    "swap branches": "it happens where its condition does not hold",
    "weaken condition": "a part, a boundary or a quantifier of its condition is wrong",
    "wrong read": "something else is read",
    "loop count": "a loop makes one round more or less, or none",
    "loop on": "it does not stop, or stops elsewhere",
    "wrong result": "the action returns something else",
}
"""The kinds of mistakes, and what goes wrong."""

Variant = tuple[str, str, Sequence[Statement]]
"""The operator, what it does, and the statements in the place of the right one."""


def mutants_of(model: Model, actions: Collection[str] = ()) -> Iterator[Mutant]:
    """All mutants of a machine, of those of its actions only that are named, if any are, in the order of the text."""
    rewriting = Rewriting(model)
    for name, action in model.actions.items():
        if actions and name not in actions:
            continue
        seen: Counter[tuple[str, ...]] = Counter()
        for mutant in (*_in_statements(rewriting, action), *_in_result(rewriting, action)):
            known = (_at(mutant), mutant.operator, mutant.what)
            seen[known] += 1
            yield replace(mutant, number=seen[known])


def is_inherited(mutant: Mutant) -> bool:
    """A machine that this one extends has the same mutant of the same action: it is judged there."""
    return any(_named(mutant) in _mutants_named(base) for base in _bases(mutant.original.machine))


def refusal(mutant: Mutant) -> str | None:
    """Why the text of the mutant is none that a machine could have: the reader notices it. None where it is one."""
    try:
        for s in statements(mutant.action.body):
            if isinstance(s, Each):
                check_each(mutant.original, s)
    except MachineError as error:
        return str(error)
    return None


@cache
def _bases(machine: type[Machine]) -> list[Model]:
    """The machines that this one extends; a class that is no whole machine by itself has no mutants."""
    found = []
    for base in machine.__mro__[1:]:
        if issubclass(base, Machine) and base is not Machine:
            with suppress(MachineError):
                found.append(Model.of(base))
    return found


@cache
def _mutants_named(model: Model) -> frozenset[tuple[str, ...]]:
    return frozenset(map(_named, mutants_of(model)))


def _named(mutant: Mutant) -> tuple[str, ...]:
    """What tells a mutant from others, in a machine and in those that extend it."""
    return mutant.action.name, _at(mutant), mutant.operator, mutant.what, str(mutant.number)


def _at(mutant: Mutant) -> str:
    """Where it was made: the parts of many machines stand in files of one name."""
    return f"{mutant.line.file}:{mutant.line.number}"


# ------------------------------------------------------------------------------------------------ statements


def _in_statements(rewriting: Rewriting, action: Action) -> Iterator[Mutant]:
    used = _used(action)
    for place in places(action):
        s = place.statement
        if isinstance(s, Let) and s.name not in used:
            continue
        for operator, what, wrong in _variants(rewriting, place):
            yield Mutant(rewriting.model, with_statements(action, place.path, wrong), s.line, operator, what)


def _used(action: Action) -> set[int]:
    """The values that were read and are used for something else than another read that nobody uses."""
    found: set[int] = set()
    wanted = [t for s in statements(action.body) if not isinstance(s, Let) for t in _looked_at(s)]
    wanted += [action.result] if action.result is not None else []
    values = {s.name: s.value for s in statements(action.body) if isinstance(s, Let)}
    while wanted:
        term = wanted.pop()
        if isinstance(said := term.operation, op.Temporary):
            number = said.number
            if number not in found:
                found.add(number)
                wanted += [values[number]] if number in values else []
        else:
            wanted += parts(term)
    return found


def _looked_at(s: Statement) -> tuple[Term, ...]:
    return (*terms(s), s.going) if isinstance(s, Loop) else terms(s)


def _variants(rewriting: Rewriting, place: Place) -> Iterator[Variant]:
    """What can go wrong in one statement."""
    s, scope = place.statement, place.scope
    match s:
        case Let():
            for change in rewriting.changes(s.value, scope):
                yield "wrong read", instead(change, s.value), [replace(s, value=change.term)]
        case Require():
            yield from _guards(rewriting, s, scope)
        case Assign():
            yield "forget write", f"forgets `{shown(s)}`", []
            yield from _assigned(rewriting, s, scope)
        case Push() | Remove():
            yield "forget write", f"forgets `{shown(s)}`", []
            yield from _queued(rewriting, s, scope)
        case Emit():
            yield "forget event", f"forgets `{shown(s)}`", []
            yield "wrong event", f"reports `{shown(s)}` twice", [s, s]
            for change in rewriting.keys(s.args, scope):
                yield _rewritten("wrong event", s, reported(rewriting.model, s, change.term))
        case When():
            yield from _conditions(rewriting, s, scope)
        case Loop():
            yield from _loops(rewriting, s, scope)
        case Each():
            pass  # Its body has places of its own.
        case unknown:
            assert_never(unknown)


def _guards(rewriting: Rewriting, s: Require, scope: Sequence[Term]) -> Iterator[Variant]:
    yield "forget guard", f"does not ask {_quoted(s.condition)}", []
    yield "negate guard", f"asks for the opposite of {_quoted(s.condition)}", [replace(s, condition=~s.condition)]
    for change in rewriting.changes(s.condition, scope):
        yield "weaken guard", f"asks {instead(change, s.condition)}", [replace(s, condition=change.term)]


def _assigned(rewriting: Rewriting, s: Assign, scope: Sequence[Term]) -> Iterator[Variant]:
    for change in rewriting.keys(s.keys, scope):
        yield _rewritten("redirect write", s, replace(s, keys=change.term))
    for name in rewriting.alike(s.name):
        yield _rewritten("redirect write", s, replace(s, name=name))
    for change in (*rewriting.changes(s.value, scope), *map(Change, _other_values(rewriting, s, scope))):
        new = replace(s, value=change.term)
        said = instead(change, s.value)
        short = len(shown(s)) <= LONG
        yield _rewritten("wrong value", s, new) if short else ("wrong value", f"writes {said} to {s.name}", [new])


def _other_values(rewriting: Rewriting, s: Assign, scope: Sequence[Term]) -> Iterator[Term]:
    """What else could be written, where the value as a whole is the mistake."""
    if not isinstance(s.value.operation, Stepped):
        yield from off_by_one(s.value)
    if isinstance(s.value, Bool) and not isinstance(s.value.operation, op.Constant):
        yield ~s.value
    mapping = rewriting.model.maps[s.name]
    if mapping.is_optional and isinstance(s.value.operation, op.Constant) and s.value.operation.value is None:
        yield from of_kind(mapping.to, scope)
    elif mapping.is_optional:
        yield none


def _queued(rewriting: Rewriting, s: Push | Remove, scope: Sequence[Term]) -> Iterator[Variant]:
    for change in rewriting.keys(s.keys, scope):
        yield _rewritten("redirect write", s, replace(s, keys=change.term))
    for change in rewriting.changes(s.element, scope):
        yield _rewritten("redirect write", s, replace(s, element=change.term))
    for name in rewriting.queues_like(s.name):
        yield _rewritten("redirect write", s, replace(s, name=name))
    if isinstance(s, Push):
        ends: list[Literal["front", "back"]] = ["front", "back"]
        for end in ends:
            if end != s.where:
                yield _rewritten("queue end", s, replace(s, where=end, anchor=None))
        for change in rewriting.changes(s.anchor, scope) if s.anchor is not None else ():
            yield _rewritten("queue end", s, replace(s, anchor=change.term))


def _conditions(rewriting: Rewriting, s: When, scope: Sequence[Term]) -> Iterator[Variant]:
    said = _quoted(s.condition)
    yield "always", f"does what stands under `when({said[1:-1]})` in any case", [replace(s, condition=TRUE)]
    yield "never", f"never does what stands under `when({said[1:-1]})`", [replace(s, condition=FALSE)]
    yield "swap branches", f"`when` the opposite of {said}", [replace(s, condition=~s.condition)]
    for change in rewriting.changes(s.condition, scope):
        yield "weaken condition", f"`when` {instead(change, s.condition)}", [replace(s, condition=change.term)]


def _loops(rewriting: Rewriting, s: Loop, scope: Sequence[Term]) -> Iterator[Variant]:
    whole = [*off_by_one(s.count), literal(0)]
    for change in (*rewriting.changes(s.count, scope), *map(Change, whole)):
        yield "loop count", f"makes {instead(change, s.count)} rounds", [replace(s, count=change.term)]
    if not isinstance(s.going.operation, op.Constant):
        said = _quoted(s.going)
        yield "loop on", f"goes on whether or not {said}", [replace(s, going=TRUE)]
        yield "loop on", f"goes on while not {said}", [replace(s, going=~s.going)]
        for change in rewriting.changes(s.going, scope):
            yield "loop on", f"goes on while {instead(change, s.going)}", [replace(s, going=change.term)]


def _rewritten(operator: str, old: Statement, new: Statement) -> Variant:
    """One statement in the place of another."""
    return operator, f"`{shown(new)}` in place of `{shown(old)}`", [new]


def _quoted(term: Term) -> str:
    said = repr(term)
    return f"`{said if len(said) <= 2 * LONG else said[: 2 * LONG] + ' …'}`"


# ------------------------------------------------------------------------------------------------ results


def _in_result(rewriting: Rewriting, action: Action) -> Iterator[Mutant]:
    if action.result is None:
        return
    whole = [*off_by_one(action.result), *([~action.result] if isinstance(action.result, Bool) else [])]
    for change in (*rewriting.changes(action.result, action.params), *map(Change, whole)):
        what = f"returns {instead(change, action.result)}"
        yield Mutant(rewriting.model, replace(action, result=change.term), action.line, "wrong result", what)
