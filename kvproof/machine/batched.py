"""The batched interpreter: a machine on many states at once, as columns of numbers on any torch device.

A state is a few 64-bit words. Each action with each choice of its arguments (an *instance*) is run once,
symbolically, on formulas over the fields of a state (`columns.py`): arguments and parameters are constants,
quantifiers and loops are unrolled, a read with a key that depends on the state chooses among all entries. What is
left is a short program of tensor operations, which gives the condition under which the instance is possible, and by
how much it changes each word of the state.

Parameters, tallies and scratch maps are no part of a state. A tally counts from 0 in each step.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import torch

from .columns import Columns, Graph, Node, Program, Value, compiled, dtype_for, high, low
from .concrete import State
from .declarations import Map
from .model import RESULT, Action, Model, Property
from .program import Assign, Each, Emit, Let, Loop, Push, Remove, Require, Statement, When
from .scope import NONE, Scope, ScopeError
from .terms import Bool, Int, MachineError, Real, Sort, Term, may_be_none, may_misfit

__all__ = ["Batched", "Field", "Instance", "Layout", "Moves"]

WORD = 63
"""Bits used of each word: all but the sign."""

MOST_CASES = 1 << 10
"""The most values that a factor or a divisor may have, where another number depends on the state as well."""

_ILL_FORMED = "ill-formed: "


# ------------------------------------------------------------------------------------------------ layout


@dataclass(frozen=True)
class Field:
    """One entry of a map, or the place of one element in a queue (0: absent, 1: first, …), in a packed state."""

    name: str
    place: int
    lo: int
    hi: int
    word: int
    offset: int
    width: int


class Layout:
    """Where each part of a state stands in its words."""

    def __init__(self, model: Model, scope: Scope) -> None:
        self.model, self.scope = model, scope
        self.fields: list[Field] = []
        self.first: dict[str, int] = {}
        self._word = self._offset = 0
        for name, mapping in model.variables.items():
            if not mapping.scratch:
                self._add(name, volume(scope, mapping.kinds), *_bounds(scope, mapping.to, mapping.is_optional))
        for name, queue in model.queues.items():
            members = scope.size(queue.of)
            self._add(name, volume(scope, queue.kinds) * members, 0, members)
        self.words = self._word + 1

    def _add(self, name: str, entries: int, lo: int, hi: int) -> None:
        self.first[name] = len(self.fields)
        width = (hi - lo).bit_length()
        if width > WORD:
            raise ScopeError(f"a value of {name} needs more than {WORD} bits; give Int or Real a smaller size")
        for place in range(entries):
            if self._offset + width > WORD:
                self._word, self._offset = self._word + 1, 0
            self.fields.append(Field(name, place, lo, hi, self._word, self._offset, width))
            self._offset += width

    def pack(self, states: Sequence[State]) -> torch.Tensor:
        """States as words: one row a word, one column a state."""
        packed = [[0] * len(states) for _ in range(self.words)]
        for column, state in enumerate(states):
            for field, number in zip(self.fields, self._numbers(state), strict=True):
                if not field.lo <= number <= field.hi:
                    raise self.misfit(field)
                packed[field.word][column] |= (int(number) - field.lo) << field.offset
        return torch.tensor(packed, dtype=torch.int64).reshape(self.words, len(states))

    def _numbers(self, state: State) -> Iterator[int]:
        for name in self.first:
            value = state.__dict__[name]
            queue = self.model.queues.get(name)
            if queue is None:
                is_exact = self.model.maps[name].to is Real
                yield from (scaled(self.scope, Fraction(v), name) for v in value) if is_exact else value
                continue
            for members in value if queue.kinds else [value]:
                ranks = {e: i for i, e in enumerate(members, 1)}
                yield from (ranks.get(e, 0) for e in range(self.scope.size(queue.of)))

    def describe(self, words: Sequence[int]) -> dict[str, Any]:
        """One state as plain data, as `Concrete.describe` gives it (tallies are left out)."""
        numbers: dict[str, list[int]] = {name: [] for name in self.first}
        for f in self.fields:
            numbers[f.name].append((words[f.word] >> f.offset & ((1 << f.width) - 1)) + f.lo)
        result: dict[str, Any] = {}
        for name, flat in numbers.items():
            queue = self.model.queues.get(name)
            if queue is None:
                mapping = self.model.maps[name]
                result[name] = self.scope.nested(mapping, [self._number(mapping, v) for v in flat])
                continue
            members = self.scope.size(queue.of)
            queues = [_members(flat[i : i + members]) for i in range(0, len(flat), members)]
            result[name] = queues if queue.kinds else queues[0]
        return result

    def _number(self, mapping: Map[Any], packed: int) -> int | bool | Fraction:
        if mapping.to is Real:
            return Fraction(packed, self.scope.sizes["Real"])
        return bool(packed) if mapping.to is Bool else packed

    def columns(self, words: torch.Tensor) -> Columns:
        """The fields of packed states."""
        return Columns(lambda index: self._column(words, self.fields[index]))

    @staticmethod
    def _column(words: torch.Tensor, f: Field) -> torch.Tensor:
        raw = (words[f.word] >> f.offset) & ((1 << f.width) - 1)
        return (raw + f.lo if f.lo else raw).to(dtype_for(f.lo, f.hi))

    def misfit(self, field: Field) -> ScopeError:
        """A value does not fit into its field."""
        to = self.model.maps[field.name].to
        root = "Int" if to in (Int, Real) else self.scope.root(to)
        most = field.hi // self.scope.sizes["Real"] if to is Real else field.hi
        return ScopeError(
            f"a value of {field.name} leaves the scope, where it is {field.lo} to {most}; give {root} a greater "
            f"size (now {self.scope.sizes.get(root)}), or bound what the machine does"
        )


def _members(ranks: list[int]) -> list[int]:
    return sorted((e for e, rank in enumerate(ranks) if rank), key=lambda e: ranks[e])


def volume(scope: Scope, kinds: Sequence[type[Term]]) -> int:
    """How many entries a map with these keys has."""
    return math.prod(scope.size(k) for k in kinds)


def scaled(scope: Scope, number: Fraction, what: str) -> int:
    """An exact number as it is packed: how many times 1/Real."""
    unit = scope.sizes["Real"]
    units = number * unit
    if units.denominator != 1:
        raise ScopeError(
            f"{what} is {number}, no multiple of 1/{unit}; give Real a size of which {number.denominator} is a divisor"
        )
    return int(units)


def too_coarse(scope: Scope) -> str:
    """What is said of a number that would have to be rounded."""
    return f"a number is no multiple of 1/{scope.sizes['Real']}; give Real a size that has more divisors"


def _bounds(scope: Scope, kind: type[Term], is_optional: bool) -> tuple[int, int]:
    if kind is Real:
        return 0, scope.sizes["Int"] * scope.sizes["Real"]
    return NONE if is_optional else 0, scope.size(kind) - 1


# ------------------------------------------------------------------------------------------------ running the text


@dataclass(frozen=True)
class Flaw:
    """Something that must not happen, and when it does."""

    what: str
    is_scope: bool
    when: Value


World = dict[str, list[Value]]
"""The entries of every map, and the ranks of every queue's elements."""


class _Run:
    """Runs statements and terms on formulas."""

    def __init__(self, graph: Graph, model: Model, scope: Scope, now: World, before: World) -> None:
        self.graph, self.model, self.scope = graph, model, scope
        self.now, self.before = now, before
        self.variables: dict[int, Value] = {}
        self.temps: dict[int, Value] = {}
        self.path: list[Value] = []
        self.flaws: list[Flaw] = []
        self.requires: list[Value] = []

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
        """The value of a term."""
        op, a, g = t.op, t.args, self.graph
        if op == "lit":
            return int(a[0]) if isinstance(a[0], bool) else self._literal(t)
        if op == "var":
            return self.variables[a[1]]
        if op == "temp":
            return g.look(self.temps[a[0]])
        if op == "not":
            return g.negate(self.term(a[0]))
        if op in ("and", "or", "implies"):
            return self._connective(op, a)
        if op in ("eq", "lt", "le", "add", "sub"):
            function: Callable[[Value, Value], Value] = getattr(g, op)
            return self._fitting(function(self.term(a[0]), self.term(a[1])))
        if op in ("floordiv", "mod"):
            return self._whole(op, a[0], a[1])
        if op == "real":
            return self._fitting(g.mul(self.term(a[0]), self.scope.sizes["Real"]))
        if op in ("mul", "div") and isinstance(t, Real):
            return self._product(a[0], a[1]) if op == "mul" else self._ratio(a[0], a[1])
        if op == "mul":
            left, right = self.term(a[0]), self.term(a[1])
            if not isinstance(left, int) and not isinstance(right, int):
                raise MachineError(f"{t!r}: one factor of a product is a number or a parameter without keys")
            return g.mul(left, right) if isinstance(right, int) else g.mul(right, int(left))  # type: ignore[arg-type]
        if op == "within":
            number = self.term(a[0])
            return g.both(g.ge(number, 0), g.lt(number, self.scope.size(a[1])))
        if op == "ite":
            return self._choice(a)
        if op in ("forall", "exists"):
            return self._quantified(op == "forall", a[0], a[1])
        return self._read(t)

    def _literal(self, t: Term) -> int:
        number = self.scope.number(type(t), t.args[0])
        return scaled(self.scope, Fraction(number), "a number in the text") if isinstance(t, Real) else int(number)

    def _product(self, a: Term, b: Term) -> Value:
        """Of exact numbers. A factor that is an integer is taken as it is, so that nothing needs to be divided."""
        if a.op == "real":
            a, b = b, a
        if b.op == "real":
            return self._times(self.term(a), self.term(b.args[0]))
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
        """The number, if it is not too large to be computed with."""
        if low(number) < -(1 << WORD) or high(number) >= 1 << WORD:
            raise ScopeError(f"a number needs more than {WORD} bits; give Int or Real a smaller size")
        return number

    def _ratio(self, a: Term, b: Term) -> Value:
        g, unit = self.graph, self.scope.sizes["Real"]
        whole = b.op == "real"
        dividend, divisor = self.term(a), self.term(b.args[0] if whole else b)
        if not whole:
            dividend = self._fitting(g.mul(dividend, unit))
        self.flaw("a number is divided by 0", g.eq(divisor, 0))

        def by(number: int) -> Value:
            with self.only_if(g.eq(divisor, number)):
                return self._exact(dividend, number)

        if isinstance(divisor, int):
            return by(divisor) if divisor else 0
        self._few(divisor, "a divisor")
        return g.cases(divisor, lambda number: by(number) if number else 0)

    def _whole(self, op: str, a: Term, b: Term) -> Value:
        g = self.graph
        dividend, divisor = self.term(a), self.term(b)
        self.flaw("a number is divided by one that is not positive", g.le(divisor, 0))

        def by(number: int) -> Value:
            if number <= 0:
                return 0
            whole = g.quotient(dividend, number)
            return whole if op == "floordiv" else g.sub(dividend, g.mul(whole, number))

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

    def _connective(self, op: str, a: tuple[Any, ...]) -> Value:
        g = self.graph
        first = self.term(a[0])
        if op == "implies":
            first = g.negate(first)
        if first == (0 if op == "and" else 1):
            return first
        with self.only_if(first if op == "and" else g.negate(first)):
            second = self.term(a[1])
        return g.both(first, second) if op == "and" else g.either(first, second)

    def _choice(self, a: tuple[Any, ...]) -> Value:
        condition = self.term(a[0])
        if isinstance(condition, int):
            return self.term(a[1] if condition else a[2])
        with self.only_if(condition):
            then = self.term(a[1])
        with self.only_if(self.graph.negate(condition)):
            otherwise = self.term(a[2])
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
            self.variables[variable.args[1]] = number

    def _read(self, t: Term) -> Value:
        op, view, name, keys = t.op, t.args[0], t.args[1], t.args[2]
        world = self.before if view == "before" else self.now
        at = [self.term(k) for k in keys]
        if op == "count":
            return self._count(name, at, view)
        if op == "get":
            mapping = self.model.maps[name]
            default = NONE if mapping.is_optional else 0
            return self.entry(world[name], self._sizes(mapping.kinds), at, default)
        g, queue = self.graph, self.model.queues[name]
        elements = [self.term(e) for e in t.args[3:]]
        ranks = self.ranks(world, name, at)
        if op in ("has", "first", "before"):
            size = [self.scope.size(queue.of)]
            places = [self.entry(ranks, size, [e], 0) for e in elements]
            if op == "before":
                return g.both(g.ge(places[0], 1), g.lt(places[0], places[1]))
            return g.ge(places[0], 1) if op == "has" else g.eq(places[0], 1)
        size_now = self.size(ranks)
        if op == "size":
            return size_now
        if op == "empty":
            return g.eq(size_now, 0)
        self.flaw(f"the {op} of an empty queue ({name})", g.eq(size_now, 0))
        if op == "head":
            return g.pick([g.eq(r, 1) for r in ranks], range(len(ranks)))
        assert op == "tail"
        return g.pick([g.both(g.ge(r, 1), g.eq(r, size_now)) for r in ranks], range(len(ranks)))

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
            ones = []
            for elements in itertools.product(*(range(self.scope.size(type(e))) for e in count.elements)):
                self.bind(count.elements, elements)
                counts = self.term(count.formula)
                amount = 1 if count.weight is None or counts == 0 else self.term(count.weight)
                ones.append(counts if amount == 1 else self.graph.where(counts, amount, 0))
            entries.append(self._fitting(self.graph.total(ones)))
        self.now = saved
        return self.entry(entries, sizes, at, 0)

    # ------------------------------------------------------------------------------------------------ statements

    def body(self, statements: Sequence[Statement]) -> None:
        """Run statements in order."""
        for statement in statements:
            self.statement(statement)

    def statement(self, s: Statement) -> None:
        """Run one statement."""
        if isinstance(s, Let):
            self.temps[s.name] = self.term(s.value)
        elif isinstance(s, Require):
            self.requires.append(self.term(s.condition))
        elif isinstance(s, Assign):
            self._assign(s)
        elif isinstance(s, Push | Remove):
            self._queue(s)
        elif isinstance(s, Emit):
            self.body(s.heard)  # Nothing else of the state changes.
        elif isinstance(s, When):
            self.branch(self.term(s.condition), lambda: self.body(s.then), lambda: self.body(s.otherwise))
        elif isinstance(s, Each):
            for numbers in itertools.product(*(range(self.scope.size(type(b))) for b in s.binders)):
                self.bind(s.binders, numbers)
                self.body(s.body)
        elif isinstance(s, Loop):
            self._loop(s)

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


# ------------------------------------------------------------------------------------------------ instances


@dataclass(frozen=True)
class Instance:
    """An action with its arguments."""

    number: int
    action: str
    args: tuple[int, ...]


@dataclass(frozen=True)
class Moves:
    """What one instance does to a batch: ``parents`` are the rows of the states in which it is possible."""

    instance: Instance
    parents: torch.Tensor
    words: torch.Tensor
    faults: tuple[tuple[str, torch.Tensor], ...]
    """Broken properties of steps (or ``ill-formed: …``), each with the places in ``parents`` that show it."""


@dataclass(frozen=True)
class _Effect:
    """A compiled instance: the change of each word; whether anything is wrong; then what, one column for each fault.

    ``misfits`` are those of the faults that mean that a value left the scope.
    """

    program: Program
    words: tuple[int, ...]
    judged: tuple[str, ...]
    misfits: frozenset[str]


@dataclass(frozen=True)
class _Judges:
    """Compiled properties: first whether the scope is too coarse to judge each, then what each finds."""

    names: tuple[str, ...]
    program: Program


class Batched:
    """A machine in one scope, on batches of packed states."""

    def __init__(self, model: Model, scope: Scope, *, device: str | torch.device = "cpu", steps: bool = True) -> None:
        self.model, self.scope, self.device, self.steps = model, scope, torch.device(device), steps
        self.layout = Layout(model, scope)
        self._graph = Graph()
        self._start = self._first_values()
        self._effects: dict[int, _Effect] = {}
        self.instances: list[Instance] = []
        guards: list[Value] = []
        self._looks: list[tuple[Instance, Flaw, Program]] = []
        for act in model.actions.values():
            for args in itertools.product(*(range(scope.size(type(p))) for p in act.params)):
                guard, flaws = self._guard(act, args)
                instance = Instance(len(guards), act.name, args)
                self._looks += [(instance, f, compiled([f.when])) for f in flaws]
                if guard != 0:
                    self.instances.append(instance)
                    guards.append(guard)
        self._guards = compiled(guards)

    # ------------------------------------------------------------------------------------------------ states

    def initial(self) -> torch.Tensor:
        """The first state."""
        packed = [0] * self.layout.words
        for f in self.layout.fields:
            packed[f.word] |= (self._first(f) - f.lo) << f.offset
        return torch.tensor(packed, dtype=torch.int64, device=self.device).reshape(-1, 1)

    def _first(self, f: Field) -> int:
        queue = self.model.queues.get(f.name)
        entries = self._start[f.name]
        number = entries[f.place]
        assert isinstance(number, int)
        if queue is None:
            if not f.lo <= number <= f.hi:
                raise self.layout.misfit(f)
            return number
        members = self.scope.size(queue.of)
        begin = f.place - f.place % members
        return sum(1 for v in entries[begin : f.place + 1] if v) if number else 0

    def pack(self, states: Sequence[State]) -> torch.Tensor:
        """States of the concrete interpreter as words."""
        return self.layout.pack(states).to(self.device)

    def describe(self, words: torch.Tensor) -> dict[str, Any]:
        """One state as plain data."""
        return self.layout.describe([int(w) for w in words.reshape(-1).tolist()])

    def _first_values(self) -> World:
        """Every entry as a number: parameters, and what the others are at first (queues: who stands in them)."""
        world: World = {}
        for name, mapping in self.model.params.items():
            world[name] = [
                scaled(self.scope, Fraction(v), f"parameter {name}") if mapping.to is Real else int(v)
                for v in self.scope.flat(name, mapping, self.scope.params[name])
            ]
        run = _Run(self._graph, self.model, self.scope, world, world)
        found: World = {}
        for name, (keys, value) in self.model.inits.items():
            entries: list[Value] = []
            for numbers in itertools.product(*(range(self.scope.size(type(k))) for k in keys)):
                run.bind(keys, numbers)
                entries.append(run.term(value))
                if name in self.model.maps:
                    run.fits(name, value, self.model.maps[name], entries[-1])
            for flaw in run.flaws:
                raise ScopeError(f"the first value of {name}: {flaw.what}")
            found[name] = entries
        return {**world, **found}

    def _world(self) -> World:
        """Every entry of a state: fields, and first values for what is no part of it."""
        world = {name: entries[:] for name, entries in self._start.items()}
        for index, f in enumerate(self.layout.fields):
            world[f.name][f.place] = self._graph.look(self._graph.column(index, f.lo, f.hi))
        return world

    # ------------------------------------------------------------------------------------------------ steps

    def moves(self, words: torch.Tensor, *, only: tuple[str, tuple[int, ...]] | None = None) -> Iterator[Moves]:
        """All steps from the states, one instance after the other; those that are possible nowhere are left out.

        ``only``: the steps of this action with these arguments.
        """
        columns = self.layout.columns(words)
        for instance, flaw, look in self._looks:
            if only not in (None, (instance.action, instance.args)):
                continue
            (flag,) = look(columns)
            rows = torch.arange(words.shape[1], device=self.device) if isinstance(flag, int) else _positions(flag)
            if len(rows) and flaw.is_scope:
                raise ScopeError(f"{instance.action}{instance.args}: {flaw.what}")
            if len(rows):
                fault = (f"{_ILL_FORMED}{flaw.what}", torch.arange(len(rows), device=self.device))
                yield Moves(instance, rows, words.index_select(1, rows), (fault,))
        for instance, guard in zip(self.instances, self._guards(columns), strict=True):
            if only not in (None, (instance.action, instance.args)):
                continue
            rows = (
                _positions(guard)
                if isinstance(guard, torch.Tensor)
                else torch.arange(words.shape[1], device=self.device)
            )
            if len(rows):
                yield self._move(instance, words, columns, rows)

    def _move(self, instance: Instance, words: torch.Tensor, columns: Columns, rows: torch.Tensor) -> Moves:
        effect = self._effect(instance)
        total = words.shape[1]
        # Small operations on all rows are cheaper than gathering columns, unless few rows take part.
        is_sparse = len(rows) * 8 < total
        results = effect.program(columns.rows(rows) if is_sparse else columns)

        def gathered(value: torch.Tensor | int) -> torch.Tensor:
            if isinstance(value, int):
                return torch.full_like(rows, value, dtype=torch.int8)
            return value if is_sparse or len(rows) == total else value.index_select(0, rows)

        after = torch.empty((len(words), len(rows)), dtype=torch.int64, device=self.device)
        changed = dict(zip(effect.words, results, strict=False))
        for word in range(len(words)):
            change = changed.get(word, 0)
            if isinstance(change, int) or is_sparse:
                torch.index_select(words[word], 0, rows, out=after[word])
                if isinstance(change, torch.Tensor) or change:
                    after[word] += change
            else:
                torch.index_select(words[word] + change, 0, rows, out=after[word])
        is_judged, *flags = results[len(effect.words) :]
        if (isinstance(is_judged, int) and not is_judged) or not int(gathered(is_judged).count_nonzero()):
            return Moves(instance, rows, after, ())
        return Moves(instance, rows, after, self._faults(instance, effect, [gathered(flag) for flag in flags]))

    def _faults(
        self, instance: Instance, effect: _Effect, flags: list[torch.Tensor]
    ) -> tuple[tuple[str, torch.Tensor], ...]:
        """What is wrong, by rows. Of a row that is ill-formed only that is said, and only what came first."""
        stopped = torch.zeros_like(flags[0])
        faults = []
        for what, flag in zip(effect.judged, flags, strict=True):
            rows = _positions(flag & (stopped ^ 1))
            if len(rows) and what in effect.misfits:
                raise ScopeError(f"{instance.action}{instance.args}: {what}")
            if len(rows):
                faults.append((what, rows))
            if what.startswith(_ILL_FORMED):
                stopped |= flag
        return tuple(faults)

    def _run(self) -> _Run:
        world = self._world()
        return _Run(self._graph, self.model, self.scope, world, world)

    def _guard(self, act: Action, args: tuple[int, ...]) -> tuple[Value, list[Flaw]]:
        """When the action is possible, and when already asking that is ill-formed."""
        run = self._run()
        run.bind(act.params, args)
        last = max((i for i, s in enumerate(act.body) if isinstance(s, Require)), default=-1)
        for s in act.body[: last + 1]:
            if isinstance(s, Let | Require):
                run.statement(s)
                run.path = run.requires
        return self._graph.every(run.requires), run.flaws

    def _effect(self, instance: Instance) -> _Effect:
        effect = self._effects.get(instance.number)
        if effect is None:
            effect = self._effects[instance.number] = self._compile(instance)
        return effect

    def _compile(self, instance: Instance) -> _Effect:
        act = self.model.actions[instance.action]
        with self._graph.assuming(self._guard(act, instance.args)[0]):
            run = self._run()
            before = run.before = self._world()
            run.bind(act.params, instance.args)
            run.body([s for s in act.body if not isinstance(s, Require)])
            changes, misfits = self._changes(before, run.now)
            ill_formed: dict[str, Value] = {}
            for flaw in run.flaws:
                what, found = (flaw.what, misfits) if flaw.is_scope else (f"{_ILL_FORMED}{flaw.what}", ill_formed)
                found[what] = self._graph.either(found.get(what, 0), flaw.when)
            broken: dict[str, Value] = {}
            given: dict[str, Value] = dict(zip([p.args[0] for p in act.params], instance.args, strict=True))
            if act.result is not None:
                given[RESULT] = run.term(act.result)
            for prop in self.model.steps_for(act.name) if self.steps else ():
                broken[prop.name], coarse = self._broken_step(prop, given, before, run.now)
                if coarse != 0:
                    misfits[f"{prop.name}: {too_coarse(self.scope)}"] = coarse
        judged = {what: value for what, value in (ill_formed | broken | misfits).items() if value != 0}
        program = compiled([*changes.values(), self._graph.some(judged.values()), *judged.values()])
        return _Effect(program, tuple(changes), tuple(judged), frozenset(misfits))

    def _changes(self, before: World, after: World) -> tuple[dict[int, Value], dict[str, Value]]:
        """By how much each word changes, and when a new value would not fit into its field."""
        g = self._graph
        by_word: dict[int, list[tuple[Value, int]]] = {}
        misfits: dict[str, Value] = {}
        for f in self.layout.fields:
            old, new = before[f.name][f.place], after[f.name][f.place]
            if old is new:
                continue
            by_word.setdefault(f.word, []).append((g.sub(new, old), f.offset))
            if f.name in self.model.maps and (low(new) < f.lo or high(new) > f.hi):
                outside = g.negate(g.both(g.ge(new, f.lo), g.le(new, f.hi)))
                name = str(self.layout.misfit(f))
                misfits[name] = g.either(misfits.get(name, 0), outside)
        return {word: self._joined(parts) for word, parts in by_word.items()}, misfits

    def _joined(self, parts: list[tuple[Value, int]]) -> Value:
        """The sum of differences at their offsets; neighbours first, so that most of it is done in narrow integers."""
        g = self._graph
        constant = sum(d << offset for d, offset in parts if isinstance(d, int))
        # Only a value out of the scope would take it further than a word goes.
        constant = (constant + (1 << 63)) % (1 << 64) - (1 << 63)
        rest = [(d, offset) for d, offset in parts if isinstance(d, Node)]
        while len(rest) > 1:
            joined: list[tuple[Node, int]] = []
            for (a, at), (b, above) in zip(rest[::2], rest[1::2], strict=False):
                both = g.add(a, g.mul(b, 1 << (above - at)))
                assert isinstance(both, Node)
                joined.append((both, at))
            rest = joined + rest[len(joined) * 2 :]
        return g.add(g.mul(rest[0][0], 1 << rest[0][1]), constant) if rest else constant

    def _broken_step(self, prop: Property, given: dict[str, Value], before: World, after: World) -> tuple[Value, Value]:
        run = _Run(self._graph, self.model, self.scope, after, before)
        run.bind(tuple(prop.given.values()), [given[n] for n in prop.given])
        return self._broken(run, prop)

    # ------------------------------------------------------------------------------------------------ properties

    def _broken(self, run: _Run, prop: Property) -> tuple[Value, Value]:
        """When the property fails for some values of its parameters (or, for `sometimes`, holds for some).

        And when that cannot be told, because the scope has not the numbers for it.
        """
        values = []
        for numbers in itertools.product(*(range(self.scope.size(type(b))) for b in prop.binders)):
            run.bind(prop.binders, numbers)
            value = run.term(prop.formula)
            values.append(value if prop.kind == "sometimes" else self._graph.negate(value))
        flawed = [f.when for f in run.flaws if not f.is_scope] if prop.kind != "sometimes" else []
        coarse = self._graph.some(f.when for f in run.flaws if f.is_scope)
        return self._graph.some([*values, *flawed]), coarse

    def _judges(self, props: Iterable[Property]) -> _Judges:
        pairs = {p.name: self._broken(self._run(), p) for p in props}
        values, coarse = [value for value, _ in pairs.values()], [coarse for _, coarse in pairs.values()]
        return _Judges(tuple(pairs), compiled([*coarse, *values]))

    @cached_property
    def _invariants(self) -> _Judges:
        return self._judges(self.model.of_kind("invariant"))

    @cached_property
    def _sometimes(self) -> dict[str, _Judges]:
        return {p.name: self._judges([p]) for p in self.model.of_kind("sometimes")}

    def broken(self, words: torch.Tensor) -> list[tuple[str, torch.Tensor]]:
        """The invariants that some of the states break, with the rows of those states."""
        return list(self._judged(self._invariants, words))

    def reaches(self, words: torch.Tensor, name: str) -> bool:
        """Whether a `sometimes` property is true in one of the states."""
        return any(self._judged(self._sometimes[name], words))

    def _judged(self, judges: _Judges, words: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
        """What is flagged, with the rows."""
        flags = judges.program(self.layout.columns(words))
        for number, (name, flag) in enumerate(zip(judges.names * 2, flags, strict=True)):
            if isinstance(flag, int) and flag:
                rows = torch.arange(words.shape[1], device=self.device)
            elif isinstance(flag, int) or not int(flag.count_nonzero()):
                continue
            else:
                rows = _positions(flag)
            if number < len(judges.names):
                raise ScopeError(f"{name}: {too_coarse(self.scope)}")
            yield name, rows


def _positions(flags: torch.Tensor) -> torch.Tensor:
    """The rows in which the truth value is 1."""
    if flags.device.type == "cpu":
        return torch.from_numpy(flags.numpy().view(bool).nonzero()[0])  # several times faster than torch's own
    return flags.nonzero().squeeze(1)
