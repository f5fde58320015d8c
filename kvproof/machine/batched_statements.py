"""Statements on formulas over the fields of a state, for the batched interpreter."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, assert_never

from .batched_terms import TermRun, World
from .declarations import Map
from .fitting import may_be_none, may_misfit
from .graph import Graph, Value, high, low
from .model import Model
from .program import Assign, Each, Emit, Let, Loop, Push, Remove, Require, Statement, When
from .scope import NONE, Scope
from .terms import Sort, Term

__all__ = ["StatementRun"]


class StatementRun(TermRun):
    """Runs statements: ``now`` changes, ``requires`` are the conditions that were asked for."""

    def __init__(self, graph: Graph, model: Model, scope: Scope, now: World, before: World) -> None:
        super().__init__(graph, model, scope, now, before)
        self.requires: list[Value] = []

    def body(self, statements: Sequence[Statement]) -> None:
        """Run statements in order."""
        for statement in statements:
            self.statement(statement)

    def statement(self, s: Statement) -> None:
        """Run one statement."""
        match s:
            case Let():
                self.temps[s.name] = self.term(s.value)
            case Require():
                self.requires.append(self.term(s.condition))
            case Assign():
                self._assign(s)
            case Push() | Remove():
                self._queue(s)
            case Emit():
                self.body(s.heard)  # Nothing else of the state changes.
            case When():
                self.branch(self.term(s.condition), lambda: self.body(s.then), lambda: self.body(s.otherwise))
            case Each():
                for numbers in itertools.product(*(range(self.scope.size(type(b))) for b in s.binders)):
                    self.bind(s.binders, numbers)
                    self.body(s.body)
            case Loop():
                self._loop(s)
            case unknown:
                assert_never(unknown)

    def branch(self, condition: Value, then: Callable[[], None], otherwise: Callable[[], None]) -> None:
        """Run one or the other, or where it depends on the state both, and join what they did."""
        if isinstance(condition, int):
            (then if condition else otherwise)()
            return
        start = self.now
        self.now = {name: entries[:] for name, entries in start.items()}
        with self.under(condition):
            then()
        one, self.now = self.now, {name: entries[:] for name, entries in start.items()}
        with self.under(self.graph.negate(condition)):
            otherwise()
        for name, entries in self.now.items():
            for i, (a, b) in enumerate(zip(one[name], entries, strict=True)):
                if a is not b:
                    entries[i] = self.graph.where(condition, a, b)

    def _loop(self, s: Loop) -> None:
        rounds = f"rounds of {s.number}"
        self.now[rounds] = [0]
        count = self.term(s.count)

        def rest(done: int) -> None:
            self.now[rounds] = [done]
            more = self.graph.lt(done, count)
            self.branch(more, lambda: attempt(done), lambda: None)

        def attempt(done: int) -> None:
            self.bind((s.index,), (done,))
            self.body(s.going_lets)
            self.branch(self.term(s.going), lambda: one(done), lambda: None)

        def one(done: int) -> None:
            self.bind((s.index,), (done,))
            self.body(s.body)
            rest(done + 1)

        rest(0)
        self.temps[s.result] = self.now.pop(rounds)[0]

    def _demand(self, name: str, kinds: Sequence[type[Term]], keys: Sequence[Value]) -> None:
        """What is written stands in the scope."""
        g = self.graph
        none = g.some(g.eq(key, NONE) for key in keys)
        self.flaw(f"{name} is written at none, which is no key", none)
        outside = [
            g.some([g.le(key, NONE - 1), g.ge(key, self.scope.size(kind))])
            for kind, key in zip(kinds, keys, strict=True)
        ]
        roots = ", ".join(self.scope.root(k) for k in kinds)
        what = f"{name} is written outside of the scope; give its sorts ({roots}) a greater size"
        self.flaw(what, g.both(g.negate(none), g.some(outside)), is_scope=True)

    def _places(self, kinds: Sequence[type[Term]], keys: Sequence[Value]) -> Iterator[tuple[int, Value]]:
        """The entries that the keys may name, and when they do."""
        for numbers in itertools.product(
            *(
                range(max(low(k), 0), min(high(k), self.scope.size(kind) - 1) + 1)
                for kind, k in zip(kinds, keys, strict=True)
            )
        ):
            condition = self.graph.every(self.graph.eq(k, n) for k, n in zip(keys, numbers, strict=True))
            if condition != 0:
                yield self.scope.place(kinds, numbers), condition

    def _assign(self, s: Assign) -> None:
        mapping = self.model.maps[s.name]
        kinds = mapping.kinds
        keys, value = [self.term(k) for k in s.keys], self.term(s.value)
        self._demand(s.name, kinds, keys)
        self.fits(s.name, s.value, mapping, value)
        entries = self.now[s.name]
        for place, condition in self._places(kinds, keys):
            entries[place] = self.graph.where(condition, value, self.graph.look(entries[place]))

    def fits(self, name: str, term: Term, mapping: Map[Any], value: Value) -> None:
        """What is stored is an element, or none where that may be; looked at where the term does not say so."""
        if not may_misfit(term, mapping.to, is_optional=mapping.is_optional):
            return
        least = NONE if may_be_none(term, is_optional=mapping.is_optional) else 0
        wrong = [self.graph.le(value, least - 1)]
        if issubclass(mapping.to, Sort):
            wrong.append(self.graph.ge(value, self.scope.size(mapping.to)))
        self.flaw(f"{name} gets what is no {mapping.to.__name__}", self.graph.some(wrong))

    def _queue(self, s: Push | Remove) -> None:
        queue = self.model.queues[s.name]
        keys, element = [self.term(k) for k in s.keys], self.term(s.element)
        anchor = self.term(s.anchor) if isinstance(s, Push) and s.anchor is not None else None
        self._demand(s.name, (*queue.kinds, queue.of), (*keys, element))
        members = self.scope.size(queue.of)
        entries = self.now[s.name]
        for place, condition in list(self._places(queue.kinds, keys)):
            at = slice(place * members, (place + 1) * members)
            old = [self.graph.look(r) for r in entries[at]]
            with self.under(condition):
                new = (
                    self._removed(s.name, old, element)
                    if isinstance(s, Remove)
                    else self._pushed(s, old, element, anchor)
                )
            entries[at] = [self.graph.where(condition, n, o) for n, o in zip(new, old, strict=True)]

    def _removed(self, name: str, ranks: list[Value], element: Value) -> list[Value]:
        g = self.graph
        rank = self.entry(ranks, [len(ranks)], [element], 0)
        self.flaw(f"an element is removed from {name}, where it does not stand", g.eq(rank, 0))
        return [g.where(g.eq(element, e), 0, g.sub(g.look(r), g.lt(rank, r))) for e, r in enumerate(ranks)]

    def _pushed(self, s: Push, ranks: list[Value], element: Value, anchor: Value | None) -> list[Value]:
        g = self.graph
        rank = self.entry(ranks, [len(ranks)], [element], 0)
        self.flaw(f"an element is pushed to {s.name}, where it already stands", g.ge(rank, 1))
        place: Value
        if s.where == "back":
            place, pushed = g.add(self.size(ranks), 1), ranks
        elif s.where == "front":
            place, pushed = 1, [g.add(r, g.ge(r, 1)) for r in ranks]
        else:
            assert anchor is not None
            place = self.entry(ranks, [len(ranks)], [anchor], 0)
            self.flaw(f"an element is pushed to {s.name} before one that does not stand there", g.eq(place, 0))
            pushed = [g.add(r, g.le(place, r)) for r in ranks]
        return [g.where(g.eq(element, e), place, r) for e, r in enumerate(pushed)]
