"""Values and conditions with one thing wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...machine.declarations import Map
from ...machine.model import Model
from ...machine.terms import Bool, Index, Int, Sort, Term, literal, make, parts

__all__ = ["LONG", "Change", "Rewriting", "instead", "of_kind", "off_by_one"]

LONG = 72
"""Of a longer text only the part is shown that differs."""


@dataclass(frozen=True)
class Change:
    """A wrong term in the place of the right one, and what is left out in it, where that is all."""

    term: Any
    without: Term | None = None


BOUNDARY = {"lt": "le", "le": "lt"}
QUANTIFIER = {"forall": "exists", "exists": "forall"}
SIGN = {"add": "sub", "sub": "add"}
END = {"head": "tail", "tail": "head"}


class Rewriting:
    """The mistakes that can be made in terms of a machine. A wrong term has the type of the right one."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def changes(self, term: Term, scope: Sequence[Term]) -> Iterator[Change]:
        """Every term that differs from this one by one mistake; ``scope``: what else could have been named."""
        if term.op in ("and", "or"):
            yield from self._in_chain(term, scope)
            return
        yield from map(Change, self._here(term, scope))
        if term.op in ("lit", "var", "temp"):
            return
        if term.op == "implies":
            yield Change(term.args[1], without=term.args[0])
        if term.op in QUANTIFIER:
            scope = (*scope, *term.args[0])
        for place, part in enumerate(term.args):
            if isinstance(part, Term):
                found = self.changes(part, scope)
            elif isinstance(part, tuple) and term.op not in QUANTIFIER:
                found = self.keys(part, scope)
            else:
                continue
            for change in found:
                yield replace(change, term=_with(term, place, change.term))

    def keys(self, keys: tuple[Term, ...], scope: Sequence[Term]) -> Iterator[Change]:
        """Every tuple of keys, or of arguments, that differs from this one by one mistake."""
        for place, key in enumerate(keys):
            for change in (*self.changes(key, scope), *map(Change, _next_to(key))):
                yield replace(change, term=(*keys[:place], change.term, *keys[place + 1 :]))

    def _in_chain(self, term: Term, scope: Sequence[Term]) -> Iterator[Change]:
        """Of a conjunction or disjunction: each part left out, and each part with a mistake in it."""
        said = list(_chain(term.op, term))
        for place, part in enumerate(said):
            yield Change(_chained(term.op, [*said[:place], *said[place + 1 :]]), without=part)
            for change in self.changes(part, scope):
                whole = _chained(term.op, [*said[:place], change.term, *said[place + 1 :]])
                yield replace(change, term=whole)

    def _here(self, term: Term, scope: Sequence[Term]) -> Iterator[Term]:
        """The mistakes that are made at the top of the term."""
        op, a = term.op, term.args
        if op in BOUNDARY:
            yield _like(term, BOUNDARY[op], *a)
        elif op == "eq":
            yield from _unequal(a[0], a[1])
        elif op in QUANTIFIER:
            yield _like(term, QUANTIFIER[op], *a)
        elif op in SIGN:
            yield _like(term, SIGN[op], *a)
        elif op == "floordiv":
            yield make(Int, "add", term, literal(1))
        elif op == "ite":
            yield _like(term, "ite", a[0], a[2], a[1])
        elif op in END:
            yield _like(term, END[op], *a)
        elif op == "first":
            yield _like(term, "has", *a)
        elif op == "before":
            yield _like(term, "before", *a[:3], a[4], a[3])
        elif op == "lit":
            yield from _literals(term)
        elif op in ("var", "temp"):
            yield from others(term, scope)
        if op == "get":
            yield from (_like(term, op, a[0], n, a[2]) for n in self.alike(a[1]))
        elif op in ("has", "empty", "size", "head", "tail"):
            yield from (_like(term, op, a[0], n, *a[2:]) for n in self.queues_like(a[1]))

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
    if new.op != old.op or len(new.args) != len(old.args):
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
        yield make(Int, "add", number, literal(1))
        yield make(Int, "sub", number, literal(1))


def _next_to(key: Term) -> Iterator[Term]:
    """The key before, or behind, that of an index; literals and sums are changed as such."""
    if isinstance(key, Int) and key.op not in ("lit", "add", "sub") and not key.is_optional:
        yield from off_by_one(key)


def _literals(term: Term) -> Iterator[Term]:
    value = term.args[0]
    if isinstance(value, bool):
        yield make(Bool, "lit", not value)
    elif isinstance(value, int) and isinstance(term, Int):
        yield make(type(term), "lit", value + 1)
        if value > 0:
            yield make(type(term), "lit", value - 1)
    elif isinstance(value, str) and isinstance(term, Sort):
        yield from (make(type(term), "lit", x) for x in term.extra if x != value)


def _unequal(a: Term, b: Term) -> Iterator[Term]:
    """Between numbers, "at most" or "at least" is weaker than "equal"."""
    if isinstance(a, Int) and isinstance(b, Int) and not a.is_optional and not b.is_optional:
        yield make(Bool, "le", a, b)
        yield make(Bool, "le", b, a)


def _are_alike(one: Map[Any], other: Map[Any]) -> bool:
    same_type = one.kinds == other.kinds and one.to is other.to and one.is_optional == other.is_optional
    return same_type and one.is_param == other.is_param and one.is_tally == other.is_tally


def _chain(op: str, term: Term) -> Iterator[Term]:
    """What a conjunction (or disjunction) of several is made of, from left to right."""
    if term.op == op:
        yield from _chain(op, term.args[0])
        yield from _chain(op, term.args[1])
    else:
        yield term


def _chained(op: str, parts: Sequence[Term]) -> Term:
    whole = parts[0]
    for part in parts[1:]:
        whole = make(Bool, op, whole, part)
    return whole


def _like(term: Term, op: str, *args: Any) -> Term:
    return make(type(term), op, *args, is_optional=term.is_optional)


def _with(term: Term, place: int, part: Any) -> Term:
    return _like(term, term.op, *term.args[:place], part, *term.args[place + 1 :])
