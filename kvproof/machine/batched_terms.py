"""Terms on formulas over the fields of a state, for the batched interpreter."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import assert_never

from . import operations as op
from .graph import Graph, Node, Value, high, low
from .layout import WORD, scaled, too_coarse
from .model import CountOf, Model
from .scope import NONE, Scope, ScopeError
from .terms import Real, Term, number_of

__all__ = ["Flaw", "TermRun", "World"]

MOST = 1 << (WORD - 1)
"""All numbers are less, and more than its negative: room for one sum or difference more of two such."""

MOST_CASES = 1 << 10
"""The most values that a factor or a divisor may have, where another number depends on the state as well."""


@dataclass(frozen=True)
class Flaw:
    """Something that must not happen, and when it does."""

    what: str
    is_scope: bool
    when: Value


World = dict[str, list[Value]]
"""The entries of every map, and the ranks of every queue's elements."""


class TermRun:
    """Gives terms their values, as formulas over the fields of a state."""

    def __init__(self, graph: Graph, model: Model, scope: Scope, now: World, before: World) -> None:
        self.graph, self.model, self.scope = graph, model, scope
        self.now, self.before = now, before
        self.variables: dict[int, Value] = {}
        self.temps: dict[int, Value] = {}
        self.path: list[Value] = []
        self.flaws: list[Flaw] = []

    def flaw(self, what: str, when: Value, *, is_scope: bool = False) -> None:
        """Note what must not happen on the present path."""
        if when != 0:
            happens = self.graph.every([*self.path, when])
            if happens != 0:
                self.flaws.append(Flaw(what, is_scope, happens))

    @contextmanager
    def under(self, condition: Value) -> Iterator[None]:
        """What happens inside only happens where the condition holds."""
        self.path.append(condition)
        with self.graph.assuming(condition):
            yield
        self.path.pop()

    @contextmanager
    def only_if(self, condition: Value) -> Iterator[None]:
        """As `under`, for terms: the path alone, so that equal formulas stay equal."""
        self.path.append(condition)
        yield
        self.path.pop()

    # ------------------------------------------------------------------------------------------------ terms

    def term(self, t: Term) -> Value:
        """The value of a term, which is not too large to be computed with: torch would wrap around."""
        value = self._value(t)
        if isinstance(value, Node) and not -MOST < value.lo <= value.hi < MOST:
            raise ScopeError(
                f"{t!r} needs more than {WORD - 1} bits; give Int or Real a smaller size, or compute with less"
            )
        return value

    def _value(self, t: Term) -> Value:
        g = self.graph
        match t.operation:
            # What there is most of comes first: every case before it is one more question.
            case op.Variable(_, number):
                return self.variables[number]
            case op.Read() as read:
                return self._read(read)
            case op.And(left, right):
                return self._and(self.term(left), right)
            case op.Not(of):
                return g.negate(self.term(of))
            case op.Constant(value):
                return int(value) if isinstance(value, bool) else self._literal(t, value)
            case op.Temporary(number):
                return g.look(self.temps[number])
            case op.Or(left, right):
                return self._or(self.term(left), right)
            case op.Implies(left, right):
                return self._or(g.negate(self.term(left)), right)
            case op.Equal(left, right):
                return g.eq(self.term(left), self.term(right))
            case op.Less(left, right):
                return g.lt(self.term(left), self.term(right))
            case op.AtMost(left, right):
                return g.le(self.term(left), self.term(right))
            case op.Add(left, right):
                return g.add(self.term(left), self.term(right))
            case op.Subtract(left, right):
                return g.sub(self.term(left), self.term(right))
            case op.Multiply(left, right):
                if isinstance(t, Real):
                    return self._product(left, right)
                return self._times(self.term(left), self.term(right))
            case op.Divide(dividend, divisor):
                return self._ratio(dividend, divisor)
            case op.FloorDivide(dividend, divisor):
                return self._whole(dividend, divisor, lambda _, whole, __: whole)
            case op.Modulo(dividend, divisor):
                return self._whole(dividend, divisor, lambda a, whole, by: g.sub(a, g.mul(whole, by)))
            case op.ToReal(of):
                return g.mul(self.term(of), self.scope.sizes["Real"])
            case op.Within(position, index):
                place = self.term(position)
                return g.both(g.ge(place, 0), g.lt(place, self.scope.size(index)))
            case op.Ite(condition, then, otherwise):
                return self._choice(self.term(condition), then, otherwise)
            case op.Forall(binders, body):
                return self._quantified(True, binders, body)
            case op.Exists(binders, body):
                return self._quantified(False, binders, body)
            case unknown:
                assert_never(unknown)

    def _literal(self, t: Term, value: object) -> int:
        number = self.scope.number(type(t), value)
        return scaled(self.scope, Fraction(number), "a number in the text") if isinstance(t, Real) else int(number)

    def _product(self, a: Term, b: Term) -> Value:
        """Of exact numbers. A factor that is an integer is taken as it is, so that nothing needs to be divided."""
        if isinstance(a.operation, op.ToReal):
            a, b = b, a
        if isinstance(whole := b.operation, op.ToReal):
            return self._times(self.term(a), self.term(whole.of))
        return self._exact(self._times(self.term(a), self.term(b)), self.scope.sizes["Real"])

    def _times(self, a: Value, b: Value) -> Value:
        """The product, in as many cases as the factor with the fewer values has."""
        if isinstance(a, Node) and isinstance(b, Node):
            self._few(a if a.hi - a.lo < b.hi - b.lo else b, "a factor")
        return self._fitting(self.graph.product(a, b))

    def _few(self, number: Node, what: str) -> None:
        """A case for each of its values must be possible."""
        if number.hi - number.lo >= MOST_CASES:
            values = f"{number.hi - number.lo + 1:,}"
            raise ScopeError(
                f"{what} may have {values} values, too many to tell apart; give Int or Real a smaller size"
            )

    def _fitting(self, number: Value) -> Value:
        """A number on the way to a value, if it is not too large to be computed with."""
        if not -MOST < low(number) <= high(number) < MOST:
            raise ScopeError(f"a number needs more than {WORD - 1} bits; give Int or Real a smaller size")
        return number

    def _ratio(self, a: Term, b: Term) -> Value:
        g, unit = self.graph, self.scope.sizes["Real"]
        if isinstance(whole := b.operation, op.ToReal):
            dividend, divisor = self.term(a), self.term(whole.of)
        else:
            dividend, divisor = self.term(a), self.term(b)
            dividend = self._fitting(g.mul(dividend, unit))
        self.flaw("a number is divided by 0", g.eq(divisor, 0))

        def by(number: int) -> Value:
            with self.only_if(g.eq(divisor, number)):
                return self._exact(dividend, number)

        if isinstance(divisor, int):
            return by(divisor) if divisor else 0
        self._few(divisor, "a divisor")
        return g.cases(divisor, lambda number: by(number) if number else 0)

    def _whole(self, a: Term, b: Term, result: Callable[[Value, Value, int], Value]) -> Value:
        """A division that is rounded down; ``result`` of the dividend, the quotient and the divisor."""
        g = self.graph
        dividend, divisor = self.term(a), self.term(b)
        self.flaw("a number is divided by one that is not positive", g.le(divisor, 0))

        def by(number: int) -> Value:
            return result(dividend, g.quotient(dividend, number), number) if number > 0 else 0

        if isinstance(divisor, int):
            return by(divisor)
        self._few(divisor, "a divisor")
        return g.cases(divisor, by)

    def _exact(self, a: Value, divisor: int) -> Value:
        """The quotient, which must not be rounded."""
        g = self.graph
        if divisor < 0:
            a, divisor = g.mul(a, -1), -divisor
        result = g.quotient(a, divisor)
        rest = g.negate(g.eq(g.sub(a, g.mul(result, divisor)), 0))
        self.flaw(too_coarse(self.scope), rest, is_scope=True)
        return result

    def _and(self, first: Value, right: Term) -> Value:
        if first == 0:
            return first
        with self.only_if(first):
            second = self.term(right)
        return self.graph.both(first, second)

    def _or(self, first: Value, right: Term) -> Value:
        if first == 1:
            return first
        with self.only_if(self.graph.negate(first)):
            second = self.term(right)
        return self.graph.either(first, second)

    def _choice(self, condition: Value, a: Term, b: Term) -> Value:
        if isinstance(condition, int):
            return self.term(a if condition else b)
        with self.only_if(condition):
            then = self.term(a)
        with self.only_if(self.graph.negate(condition)):
            otherwise = self.term(b)
        return self.graph.where(condition, then, otherwise)

    def _quantified(self, universal: bool, binders: tuple[Term, ...], body: Term) -> Value:
        g, result = self.graph, int(universal)
        join = g.both if universal else g.either
        value: Value = result
        depth = len(self.path)
        for numbers in itertools.product(*(range(self.scope.size(type(b))) for b in binders)):
            self.bind(binders, numbers)
            one = self.term(body)
            value = join(value, one)
            if value == 1 - result:
                break
            # The next element is only looked at where this one has not decided.
            self.path.append(one if universal else g.negate(one))
        del self.path[depth:]
        return value

    def bind(self, variables: Sequence[Term], numbers: Sequence[Value]) -> None:
        """Give variables their values."""
        for variable, number in zip(variables, numbers, strict=True):
            self.variables[number_of(variable)] = number

    def _read(self, read: op.Reading) -> Value:
        match read:
            case op.Total(view, name, keys):
                return self._count(name, [self.term(k) for k in keys], view)
            case op.Entry(view, name, keys):
                mapping = self.model.maps[name]
                default = NONE if mapping.is_optional else 0
                at = [self.term(k) for k in keys]
                return self.entry(self._world(view)[name], self._sizes(mapping.kinds), at, default)
            case op.Has() | op.First() | op.Before():
                return self._place(read)
            case op.Size() | op.Empty() | op.Head() | op.Tail():
                return self._length(read)
            case unknown:
                assert_never(unknown)

    def _world(self, view: str) -> World:
        return self.before if view == "before" else self.now

    def _place(self, read: op.Has | op.First | op.Before) -> Value:
        """What is said of where elements stand in a queue."""
        g = self.graph
        at = [self.term(k) for k in read.keys]
        elements = [self.term(e) for e in read.elements]
        ranks = self.ranks(self._world(read.view), read.name, at)
        places = [self.entry(ranks, [len(ranks)], [e], 0) for e in elements]
        match read:
            case op.Has():
                return g.ge(places[0], 1)
            case op.First():
                return g.eq(places[0], 1)
            case op.Before():
                return g.both(g.ge(places[0], 1), g.lt(places[0], places[1]))
            case unknown:
                assert_never(unknown)

    def _length(self, read: op.Size | op.Empty | op.Head | op.Tail) -> Value:
        """What depends on how many elements stand in a queue."""
        g = self.graph
        ranks = self.ranks(self._world(read.view), read.name, [self.term(k) for k in read.keys])
        size = self.size(ranks)
        match read:
            case op.Size():
                return size
            case op.Empty():
                return g.eq(size, 0)
            case op.Head():
                self.flaw(f"the head of an empty queue ({read.name})", g.eq(size, 0))
                return g.pick([g.eq(r, 1) for r in ranks], range(len(ranks)))
            case op.Tail():
                self.flaw(f"the tail of an empty queue ({read.name})", g.eq(size, 0))
                return g.pick([g.both(g.ge(r, 1), g.eq(r, size)) for r in ranks], range(len(ranks)))
            case unknown:
                assert_never(unknown)

    def _sizes(self, kinds: Sequence[type[Term]]) -> list[int]:
        return [self.scope.size(k) for k in kinds]

    def size(self, ranks: Sequence[Value]) -> Value:
        """How many elements stand in the queue: the rank of the last."""
        result: Value = 0
        for rank in ranks:
            result = self.graph.larger(rank, result)
        return result

    def ranks(self, world: World, name: str, at: Sequence[Value]) -> list[Value]:
        """The ranks of all elements in one queue; there is nothing in a queue outside of the scope."""
        queue, flat = self.model.queues[name], world[name]
        members = self.scope.size(queue.of)
        return [self.entry(flat[e::members], self._sizes(queue.kinds), at, 0) for e in range(members)]

    def entry(self, entries: Sequence[Value], sizes: Sequence[int], keys: Sequence[Value], default: int) -> Value:
        """Read an entry of a map; outside of the scope and at none it is the default."""
        if not keys:
            return self.graph.look(entries[0])
        key, stride = keys[0], math.prod(sizes[1:])

        def below(number: int) -> Value:
            return self.entry(entries[number * stride : (number + 1) * stride], sizes[1:], keys[1:], default)

        if isinstance(key, int):
            return below(key) if 0 <= key < sizes[0] else default
        inside = range(max(key.lo, 0), min(key.hi, sizes[0] - 1) + 1)
        cases = [(self.graph.eq(key, v), v) for v in inside]
        values: list[tuple[Value, Value]] = []
        for condition, v in cases:
            if condition != 0:
                with self.graph.assuming(condition):
                    values.append((condition, below(v)))
        if key.lo < 0 and key.op != "pick":
            values.append((self.graph.le(key, -1), default))
        if key.hi >= sizes[0]:
            values.append((self.graph.ge(key, sizes[0]), default))
        return self._chosen(values)

    def _chosen(self, cases: list[tuple[Value, Value]]) -> Value:
        """The value whose condition holds; one does. The most frequent value needs no condition."""
        groups: dict[Value, list[Value]] = {}
        for condition, value in cases:
            groups.setdefault(value, []).append(condition)
        rest = max(groups, key=lambda v: len(groups[v]))
        result = rest
        for value, conditions in groups.items():
            if value != rest:
                result = self.graph.where(self.graph.some(conditions), value, result)
        return result

    def _count(self, name: str, at: Sequence[Value], view: str) -> Value:
        """Counts are taken afresh; keys that depend on the state choose among the counts of all keys."""
        count = self.model.counts[name]
        sizes = self._sizes([type(k) for k in count.keys])
        saved = self.now
        self.now = self.before if view == "before" else self.now
        entries: list[Value] = []
        for numbers in itertools.product(*(range(n) for n in sizes)):
            if any(isinstance(k, int) and k != n for k, n in zip(at, numbers, strict=True)):
                entries.append(0)
                continue
            self.bind(count.keys, numbers)
            with self.only_if(self.graph.every([self.graph.eq(k, n) for k, n in zip(at, numbers, strict=True)])):
                entries.append(self._sum_of(count))
        self.now = saved
        return self.entry(entries, sizes, at, 0)

    def _sum_of(self, count: CountOf) -> Value:
        """What the elements count, at the key that is bound."""
        ones = []
        for elements in itertools.product(*(range(self.scope.size(type(e))) for e in count.elements)):
            self.bind(count.elements, elements)
            counts = self.term(count.formula)
            amount = 1 if count.weight is None or counts == 0 else self.term(count.weight)
            ones.append(counts if amount == 1 else self.graph.where(counts, amount, 0))
        return self._fitting(self.graph.total(ones))
