"""Values and conditions with one thing wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, assert_never, cast

from ...machine import operations as op
from ...machine.declarations import Map
from ...machine.model import Model
from ...machine.terms import Bool, Index, Int, Sort, Term
from ...machine.traversal import parts

__all__ = ["LONG", "Change", "Rewriting", "instead", "of_kind", "off_by_one"]

LONG = 72
"""Of a longer text only the part is shown that differs."""


@dataclass(frozen=True)
class Change:
    """A wrong term in the place of the right one, and what is left out in it, where that is all."""

    term: Any
    without: Term | None = None


Joined = op.And | op.Or

Stepped = op.Constant | op.Add | op.Subtract
"""Numbers that are changed by one as what they are."""

ONE = Int(op.Constant(1))


class Rewriting:
    """The mistakes that can be made in terms of a machine. A wrong term has the type of the right one."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def changes(self, term: Term, scope: Sequence[Term]) -> Iterator[Change]:
        """Every term that differs from this one by one mistake; ``scope``: what else could have been named."""
        match term.operation:
            case op.And() | op.Or() as joined:
                yield from self._in_chain(term, type(joined), scope)
                return
            case op.Constant() | op.Variable() | op.Temporary():
                yield from map(Change, self._here(term, scope))
                return
            case op.Forall(binders) | op.Exists(binders):
                yield from map(Change, self._here(term, scope))
                yield from self._in_parts(term, (*scope, *binders))
            case op.Implies(left, right):
                yield Change(right, without=left)
                yield from self._in_parts(term, scope)
            case _:
                yield from map(Change, self._here(term, scope))
                yield from self._in_parts(term, scope)

    def _in_parts(self, term: Term, scope: Sequence[Term]) -> Iterator[Change]:
        """Each operand with a mistake in it."""
        operation = term.operation
        for name, part in zip(operation.__match_args__, operation.values(), strict=True):
            if isinstance(part, Term):
                found = self.changes(part, scope)
            elif name == "keys":
                found = self.keys(part, scope)
            else:
                continue
            for change in found:
                wrong = replace(cast(Any, operation), **{name: change.term})
                yield replace(change, term=_like(term, wrong))

    def keys(self, keys: tuple[Term, ...], scope: Sequence[Term]) -> Iterator[Change]:
        """Every tuple of keys, or of arguments, that differs from this one by one mistake."""
        for place, key in enumerate(keys):
            for change in (*self.changes(key, scope), *map(Change, _next_to(key))):
                yield replace(change, term=(*keys[:place], change.term, *keys[place + 1 :]))

    def _in_chain(self, term: Term, joined: type[Joined], scope: Sequence[Term]) -> Iterator[Change]:
        """Of a conjunction or disjunction: each part left out, and each part with a mistake in it."""
        said = list(_chain(joined, term))
        for place, part in enumerate(said):
            yield Change(_chained(joined, [*said[:place], *said[place + 1 :]]), without=part)
            for change in self.changes(part, scope):
                whole = _chained(joined, [*said[:place], change.term, *said[place + 1 :]])
                yield replace(change, term=whole)

    def _here(self, term: Term, scope: Sequence[Term]) -> Iterator[Term]:
        """The mistakes that are made at the top of the term."""
        match term.operation:
            case op.Constant(value):
                yield from _literals(term, value)
            case op.Variable() | op.Temporary():
                yield from others(term, scope)
            case op.Less(left, right):
                yield _like(term, op.AtMost(left, right))
            case op.AtMost(left, right):
                yield _like(term, op.Less(left, right))
            case op.Equal(left, right):
                yield from _unequal(left, right)
            case op.Forall(binders, body):
                yield _like(term, op.Exists(binders, body))
            case op.Exists(binders, body):
                yield _like(term, op.Forall(binders, body))
            case op.Add(left, right):
                yield _like(term, op.Subtract(left, right))
            case op.Subtract(left, right):
                yield _like(term, op.Add(left, right))
            case op.FloorDivide():
                yield Int(op.Add(cast(Int, term), ONE))
            case op.Ite(condition, then, otherwise):
                yield _like(term, op.Ite(condition, otherwise, then))
            case op.Entry(view, name, keys):
                yield from (_like(term, op.Entry(view, other, keys)) for other in self.alike(name))
            case op.Head(view, name, keys) as read:
                yield _like(term, op.Tail(view, name, keys))
                yield from self._of_other_queues(term, read)
            case op.Tail(view, name, keys) as read:
                yield _like(term, op.Head(view, name, keys))
                yield from self._of_other_queues(term, read)
            case op.Has() | op.Empty() | op.Size() as read:
                yield from self._of_other_queues(term, read)
            case op.First(view, name, keys, element):
                yield _like(term, op.Has(view, name, keys, element))
            case op.Before(view, name, keys, earlier, later):
                yield _like(term, op.Before(view, name, keys, later, earlier))
            case (
                op.Not()
                | op.And()
                | op.Or()
                | op.Implies()
                | op.Within()
                | op.Multiply()
                | op.Divide()
                | op.Modulo()
                | op.ToReal()
                | op.Total()
            ):
                pass
            case unknown:
                assert_never(unknown)

    def _of_other_queues(self, term: Term, read: op.OfQueue) -> Iterator[Term]:
        """The same, said of another queue."""
        yield from (_like(term, replace(read, name=other)) for other in self.queues_like(read.name))

    def alike(self, name: str) -> Iterator[str]:
        """Other maps with keys and values of the same types, that change if this one does."""
        one = self.model.maps[name]
        for other, mapping in self.model.maps.items():
            if other != name and _are_alike(one, mapping):
                yield other

    def queues_like(self, name: str) -> Iterator[str]:
        """Other queues of the same elements, by the same keys."""
        one = self.model.queues[name]
        for other, queue in self.model.queues.items():
            if other != name and queue.of is one.of and queue.kinds == one.kinds:
                yield other


def instead(change: Change, old: Term) -> str:
    """What a change is, in words: of a long text only what differs."""
    new = change.term
    if change.without is not None and len(repr(old)) > LONG:
        return f"without `{change.without!r}`"
    while len(repr(old)) > LONG and (inner := _differing(new, old)) is not None:
        new, old = inner
    return f"`{new!r}` in place of `{old!r}`"


def _differing(new: Term, old: Term) -> tuple[Term, Term] | None:
    """The one part in which two terms of the same kind differ."""
    if type(new.operation) is not type(old.operation):
        return None
    pairs = zip(parts(new), parts(old), strict=False)
    found = [(a, b) for a, b in pairs if a is not b and repr(a) != repr(b)]
    return found[0] if len(found) == 1 else None


def others(term: Term, scope: Sequence[Term]) -> list[Term]:
    """What else of the term's sort could have been named."""
    return [o for o in of_kind(type(term), scope) if o.is_optional == term.is_optional and repr(o) != repr(term)]


def of_kind(kind: type[Term], scope: Sequence[Term]) -> list[Term]:
    """What of a sort can be named; of what reads alike, one."""
    if not issubclass(kind, Sort | Index):
        return []
    return list({repr(other): other for other in scope if type(other) is kind}.values())


def off_by_one(number: Term) -> Iterator[Term]:
    """A number that is one too great, or one too small."""
    if isinstance(number, Int) and not number.is_optional:
        yield Int(op.Add(number, ONE))
        yield Int(op.Subtract(number, ONE))


def _next_to(key: Term) -> Iterator[Term]:
    """The key before, or behind, that of an index; literals and sums are changed as such."""
    if isinstance(key, Int) and not isinstance(key.operation, Stepped) and not key.is_optional:
        yield from off_by_one(key)


def _literals(term: Term, value: object) -> Iterator[Term]:
    if isinstance(value, bool):
        yield _like(term, op.Constant(not value))
    elif isinstance(value, int) and isinstance(term, Int):
        yield _like(term, op.Constant(value + 1))
        if value > 0:
            yield _like(term, op.Constant(value - 1))
    elif isinstance(value, str) and isinstance(term, Sort):
        yield from (_like(term, op.Constant(x)) for x in term.extra if x != value)


def _unequal(a: Term, b: Term) -> Iterator[Term]:
    """Between numbers, "at most" or "at least" is weaker than "equal"."""
    if isinstance(a, Int) and isinstance(b, Int) and not a.is_optional and not b.is_optional:
        yield Bool(op.AtMost(a, b))
        yield Bool(op.AtMost(b, a))


def _are_alike(one: Map[Any], other: Map[Any]) -> bool:
    same_type = one.kinds == other.kinds and one.to is other.to and one.is_optional == other.is_optional
    return same_type and one.is_param == other.is_param and one.is_tally == other.is_tally


def _chain(joined: type[Joined], term: Term) -> Iterator[Term]:
    """What a conjunction (or disjunction) of several is made of, from left to right."""
    if isinstance(said := term.operation, joined):
        yield from _chain(joined, said.left)
        yield from _chain(joined, said.right)
    else:
        yield term


def _chained(joined: type[Joined], parts: Sequence[Term]) -> Term:
    whole = parts[0]
    for part in parts[1:]:
        whole = Bool(joined(cast(Bool, whole), cast(Bool, part)))
    return whole


def _like(term: Term, operation: op.Operation) -> Term:
    """A term of the same type."""
    return type(term)(operation, is_optional=term.is_optional)
