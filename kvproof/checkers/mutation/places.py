"""The places of a recorded text: every statement with what may be named there, and the text with one replaced."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, assert_never, cast

from ...machine import operations as op
from ...machine.model import Action
from ...machine.program import Assign, Each, Emit, Let, Loop, Push, Remove, Require, Statement, When
from ...machine.terms import Int, Term

__all__ = ["Place", "places", "with_statements"]

Path = tuple[tuple[str, int], ...]
"""From the action's body inwards: the list of statements, and the position in it."""


@dataclass(frozen=True)
class Place:
    """A statement of an action, where it stands, and the parameters, elements and values that may be named there."""

    statement: Statement
    path: Path
    scope: tuple[Term, ...]


def places(action: Action) -> Iterator[Place]:
    """Every statement of the action, those inside others after them."""
    yield from _places(action.body, "body", (), action.params)


def _places(body: Sequence[Statement], block: str, outer: Path, scope: tuple[Term, ...]) -> Iterator[Place]:
    for number, s in enumerate(body):
        path = (*outer, (block, number))
        yield Place(s, path, scope)
        match s:
            case Let():
                scope = (*scope, _value(s))
            case When():
                yield from _places(s.then, "then", path, scope)
                yield from _places(s.otherwise, "otherwise", path, scope)
            case Each():
                yield from _places(s.body, "body", path, (*scope, *s.binders))
            case Loop():
                inside = (*scope, s.index)
                yield from _places(s.going_lets, "going_lets", path, inside)
                read = tuple(_value(let) for let in s.going_lets if isinstance(let, Let))
                yield from _places(s.body, "body", path, (*inside, *read))
                scope = (*scope, Int(op.Temporary(s.result, s.index)))
            case Require() | Assign() | Push() | Remove() | Emit():
                pass  # What listeners make of an event is no place for mistakes.
            case unknown:
                assert_never(unknown)


def _value(let: Let) -> Term:
    """What the text names by this `Let`."""
    return type(let.value)(op.Temporary(let.name, let.value), is_optional=let.value.is_optional)


def with_statements(action: Action, path: Path, statements: Sequence[Statement]) -> Action:
    """The action with the statement at this path replaced by these; all others are the very same objects, but for those
    around it."""
    return replace(action, body=_replaced(action.body, path, statements))


def _replaced(body: Sequence[Statement], path: Path, statements: Sequence[Statement]) -> list[Statement]:
    (_, number), *inner = path
    if not inner:
        return [*body[:number], *statements, *body[number + 1 :]]
    around, block = body[number], inner[0][0]
    within = _replaced(getattr(around, block), tuple(inner), statements)
    return [*body[:number], replace(cast(Any, around), **{block: within}), *body[number + 1 :]]
