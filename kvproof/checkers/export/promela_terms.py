"""Terms as Promela expressions: quantifiers, counts and sums written out, what is known computed.

What a term needs to have a value (a head needs a queue that is not empty) goes beside its value, as a condition of its
own: whoever uses the term asserts it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, assert_never

from ...machine import Bool, Map, Real
from ...machine import operations as op
from ...machine.model import CountOf
from ...machine.terms import Term, number_of
from .bounded import (
    FALSE,
    NONE,
    TRUE,
    Expr,
    TooLarge,
    add,
    at_most,
    both,
    choose,
    constant,
    divided,
    either,
    equal,
    every,
    less,
    negate,
    remainder,
    some,
    sub,
    times,
    total,
)
from .setting import Setting

__all__ = ["Array", "Cells", "Fixed", "Store", "Terms", "Value"]


# ------------------------------------------------------------------------------------------------ where values stand


class Cells(Protocol):
    """The entries of a map or queue, one after the other."""

    def at(self, place: Expr) -> Expr:
        """The entry at this place, which is there."""


@dataclass(frozen=True)
class Fixed:
    """Entries that never change."""

    values: Sequence[Expr]

    def at(self, place: Expr) -> Expr:
        """A number, or a choice among those that the place may mean."""
        by_value: dict[Expr, list[int]] = {}
        for i in range(max(place.lo, 0), min(place.hi, len(self.values) - 1) + 1):
            by_value.setdefault(self.values[i], []).append(i)
        *others, result = sorted(by_value, key=lambda v: len(by_value[v])) or [constant(0)]
        for v in others:
            result = choose(some(equal(place, constant(i)) for i in by_value[v]), v, result)
        return result


@dataclass(frozen=True)
class Array:
    """A Promela array of ``count`` entries, each between these numbers."""

    name: str
    lo: int
    hi: int
    count: int

    def at(self, place: Expr) -> Expr:
        """A reading of the variable."""
        return Expr(f"{self.name}[{place.text}]", self.lo, self.hi).within(self.lo, self.hi)

    def all(self) -> list[Expr]:
        """All entries."""
        return [self.at(constant(i)) for i in range(self.count)]


@dataclass
class Store:
    """The state as it is read at some moment. A queue stands under its name; its lengths under ``NAME.size``."""

    cells: dict[str, Cells]

    def changed(self, name: str, cells: Cells) -> Store:
        """The same but for one."""
        return Store({**self.cells, name: cells})


# ------------------------------------------------------------------------------------------------ terms


@dataclass(frozen=True)
class Value:
    """A value; when it is one (``proper``); and when it is a number that the scope can write down (``exact``)."""

    expr: Expr
    proper: Expr = TRUE
    exact: Expr = TRUE


def _all_proper(values: Iterable[Value]) -> tuple[Expr, Expr]:
    listed = list(values)
    return every(v.proper for v in listed), every(v.exact for v in listed)


@dataclass
class Terms:
    """Gives terms their expressions, at one moment of one action."""

    setting: Setting
    now: Store
    before: Store
    variables: dict[int, Expr] = field(default_factory=dict)
    temps: dict[int, Expr | Value] = field(default_factory=dict)

    def value(self, t: Term) -> Value:
        """The value of a term."""
        match t.operation:
            case op.Constant(value):
                return Value(NONE if value is None else constant(self.setting.literal(t, value)))
            case op.Variable(_, number):
                return Value(self.variables[number])
            case op.Temporary(number, value):
                known = self.temps.get(number)
                return self.value(value) if known is None else known if isinstance(known, Value) else Value(known)
            case op.And(left, right):
                return self._and(self.value(left), right)
            case op.Or(left, right):
                return self._or(self.value(left), right)
            case op.Implies(left, right):
                return self._or(_plain(negate, [self.value(left)]), right)
            case op.Not(of):
                return _plain(negate, [self.value(of)])
            case op.Ite(condition, then, otherwise):
                return self._choice(t, self.value(condition), then, otherwise)
            case op.Forall(binders, body):
                return self._quantified(True, binders, body)
            case op.Exists(binders, body):
                return self._quantified(False, binders, body)
            case op.Within(number, index):
                return self._within(self.value(number), self.setting.scope.size(index))
            case op.Equal(left, right):
                return self._equal(left, right)
            case op.Less(left, right):
                return _plain(less, self._values(left, right))
            case op.AtMost(left, right):
                return _plain(at_most, self._values(left, right))
            case op.Add(left, right):
                return _plain(add, self._values(left, right))
            case op.Subtract(left, right):
                return _plain(sub, self._values(left, right))
            case op.Multiply(left, right):
                return self._product(left, right) if isinstance(t, Real) else _plain(times, self._values(left, right))
            case op.Divide(dividend, divisor):
                return self._ratio(dividend, divisor)
            case op.FloorDivide(dividend, divisor):
                return self._rounded(divided, dividend, divisor)
            case op.Modulo(dividend, divisor):
                return self._rounded(remainder, dividend, divisor)
            case op.ToReal(of):
                return _plain(lambda a: times(a, constant(self.setting.unit)), self._values(of))
            case op.Read() as read:
                return self._read(read)
            case unknown:
                assert_never(unknown)

    def _values(self, *terms: Term) -> list[Value]:
        return [self.value(t) for t in terms]

    def _rounded(self, operation: Callable[[Expr, Expr], Expr], a: Term, b: Term) -> Value:
        """A division that is rounded down, by what has to be positive."""
        dividend, divisor = self._values(a, b)
        result = _plain(operation, [dividend, divisor])
        return Value(result.expr, both(result.proper, less(constant(0), divisor.expr)), result.exact)

    def _equal(self, a: Term, b: Term) -> Value:
        return _plain(lambda *exprs: self._same((a, b), exprs), self._values(a, b))

    @staticmethod
    def _same(terms: Sequence[Term], exprs: Sequence[Expr]) -> Expr:
        """Whether two are the same. What is surely there is not none, also where it is the number that none is here."""
        surely = [not t.is_optional for t in terms]
        if surely[0] == surely[1]:
            return equal(*exprs)
        missing = equal(exprs[surely.index(False)], NONE)
        is_mistaken = equal(exprs[surely.index(True)], NONE) != FALSE
        return both(negate(missing), equal(*exprs)) if is_mistaken else equal(*exprs)

    # ------------------------------------------------------------------------------------------------ exact numbers

    def _product(self, a: Term, b: Term) -> Value:
        """Of exact numbers. A factor that is an integer is taken as it is, so that nothing needs to be divided."""
        if isinstance(a.operation, op.ToReal):
            a, b = b, a
        whole, factor = _as_whole(b)
        left, right = self._values(a, factor)
        proper, exact = _all_proper((left, right))
        product = times(left.expr, right.expr)
        return Value(product, proper, exact) if whole else self._exactly(product, self.setting.unit, proper, exact)

    def _ratio(self, a: Term, b: Term) -> Value:
        whole, divisor = _as_whole(b)
        left, right = self._values(a, divisor)
        proper, exact = _all_proper((left, right))
        dividend = left.expr if whole else times(left.expr, constant(self.setting.unit))
        is_number = negate(equal(right.expr, constant(0)))
        proper = both(proper, is_number)
        if right.expr.value is not None:
            return self._exactly(dividend, right.expr.value, proper, exact)
        widest = max(abs(dividend.lo), abs(dividend.hi))
        quotient = Expr(f"({dividend.text} / {right.expr.text})", -widest if _signed(dividend, right) else 0, widest)
        rest = Expr(f"(({dividend.text} % {right.expr.text}) == 0)", 0, 1)
        return Value(quotient, proper, both(exact, either(negate(is_number), rest)))

    def _exactly(self, a: Expr, divisor: int, proper: Expr, exact: Expr) -> Value:
        """The quotient, which must not be rounded."""
        if divisor in (0, 1):
            return Value(a, proper, exact)
        if a.value is not None:
            whole, rest = divmod(a.value, divisor)
            return Value(constant(whole), proper, FALSE if rest else exact)
        ends = sorted((a.lo // divisor, a.hi // divisor))
        by = constant(divisor)
        quotient = Expr(f"({a.text} / {by.text})", ends[0], ends[1] + (divisor < 0))
        return Value(quotient, proper, both(exact, Expr(f"(({a.text} % {by.text}) == 0)", 0, 1)))

    # ------------------------------------------------------------------------------------------------ formulas

    def _and(self, a: Value, right: Term) -> Value:
        """The second is looked at only where the first leaves it open."""
        if a.expr == FALSE:
            return a
        b = self.value(right)
        return Value(
            both(a.expr, b.expr), both(a.proper, _where(a.expr, b.proper)), both(a.exact, _where(a.expr, b.exact))
        )

    def _or(self, a: Value, right: Term) -> Value:
        is_open = negate(a.expr)
        if is_open == FALSE:
            return Value(TRUE, a.proper, a.exact)
        b = self.value(right)
        joined = either(a.expr, b.expr)
        return Value(joined, both(a.proper, _where(is_open, b.proper)), both(a.exact, _where(is_open, b.exact)))

    def _choice(self, t: Term, condition: Value, a: Term, b: Term) -> Value:
        if condition.expr.value is not None:
            chosen = self._chosen(t, a if condition.expr.value else b)
            return Value(chosen.expr, both(condition.proper, chosen.proper), both(condition.exact, chosen.exact))
        then, otherwise = self._chosen(t, a), self._chosen(t, b)
        return Value(
            choose(condition.expr, then.expr, otherwise.expr),
            both(condition.proper, choose(condition.expr, then.proper, otherwise.proper)),
            both(condition.exact, choose(condition.expr, then.exact, otherwise.exact)),
        )

    def _chosen(self, t: Term, way: Term) -> Value:
        """One of the two. A number that stands where none may be must not be the one that none is here."""
        value = self.value(way)
        if t.is_optional and not way.is_optional and equal(value.expr, NONE) != FALSE:
            raise TooLarge(f"a number that may be {NONE.lo} stands beside none, which is {NONE.lo} in Promela")
        return value

    @staticmethod
    def _within(number: Value, size: int) -> Value:
        """The number is one of an index of this size."""
        inside = both(at_most(constant(0), number.expr), less(number.expr, constant(size)))
        return Value(inside, number.proper, number.exact)

    def universally(self, binders: tuple[Term, ...], body: Term) -> Value:
        """The formula, for all values of these."""
        return self._quantified(True, binders, body)

    def _quantified(self, universal: bool, binders: tuple[Term, ...], body: Term) -> Value:
        """Element after element, as long as none has decided."""
        exprs: list[Expr] = []
        proper: list[Expr] = []
        exact: list[Expr] = []
        for numbers in self.setting.every(type(b) for b in binders):
            self.bind(binders, numbers)
            one = self.value(body)
            if one.proper != TRUE or one.exact != TRUE:
                is_open = every(exprs) if universal else negate(some(exprs))
                proper.append(_where(is_open, one.proper))
                exact.append(_where(is_open, one.exact))
            exprs.append(one.expr)
            if one.expr == (FALSE if universal else TRUE):
                break
        return Value(every(exprs) if universal else some(exprs), every(proper), every(exact))

    def bind(self, variables: Sequence[Term], numbers: Sequence[int]) -> None:
        """Give variables their values."""
        for variable, number in zip(variables, numbers, strict=True):
            self.variables[number_of(variable)] = constant(number)

    # ------------------------------------------------------------------------------------------------ reading

    def _read(self, read: op.Reading) -> Value:
        keys = self._values(*read.keys)
        proper, exact = _all_proper(keys)
        at = [k.expr for k in keys]
        store = self.before if read.view == "before" else self.now
        match read:
            case op.Total(view, name):
                return Value(*self._count(self.setting.model.counts[name], at, view, proper, exact))
            case op.Entry(_, name):
                mapping = self.setting.model.maps[name]
                is_there, place = self.place(mapping.kinds, at)
                entry = self.entry(store, name, mapping, place, is_there)
                return Value(choose(is_there, entry, NONE if mapping.is_optional else constant(0)), proper, exact)
            case op.Size() | op.Empty() | op.Head() | op.Tail() | op.Has() | op.First() | op.Before():
                elements = self._values(*read.elements)
                also, exactly = _all_proper(elements)
                expr, needs = self._queue(read, store, at, [e.expr for e in elements])
                return Value(expr, every((proper, also, needs)), both(exact, exactly))
            case unknown:
                assert_never(unknown)

    @staticmethod
    def entry(store: Store, name: str, mapping: Map[Any], place: Expr, is_there: Expr) -> Expr:
        """An entry of a map that is there."""
        found = constant(0) if is_there == FALSE else store.cells[name].at(place)
        return found.within(0, 1) if mapping.to is Bool else found

    def place(self, kinds: Sequence[type[Term]], at: Sequence[Expr]) -> tuple[Expr, Expr]:
        """Whether the keys are elements, and the offset of their entry if they are."""
        sizes = [self.setting.scope.size(k) for k in kinds]
        checks: list[Expr] = []
        place = constant(0)
        for key, size in zip(at, sizes, strict=True):
            checks += [at_most(constant(0), key), less(key, constant(size))]
            inside = key.within(0, size - 1)
            place = add(times(place, constant(size)), inside)
        return every(checks), place

    def ranges(self, name: str, at: Sequence[Expr]) -> tuple[Expr, Expr, Expr, int]:
        """Of one queue: whether it is in the scope, its number, where its first place is, how many places it has."""
        queue = self.setting.model.queues[name]
        is_there, number = self.place(queue.kinds, at)
        capacity = self.setting.scope.size(queue.of)
        return is_there, number, times(number, constant(capacity)), capacity

    def _queue(self, read: op.OfQueue, store: Store, at: Sequence[Expr], elements: Sequence[Expr]) -> tuple[Expr, Expr]:
        """What a queue answers, and when it has an answer. Outside of the scope nothing stands in any queue."""
        name = read.name
        is_there, number, begin, capacity = self.ranges(name, at)
        if is_there == FALSE:
            has_none = isinstance(read, op.Head | op.Tail)
            return (TRUE if isinstance(read, op.Empty) else FALSE), (FALSE if has_none else TRUE)
        size = store.cells[f"{name}.size"].at(number)
        places = [store.cells[name].at(add(begin, constant(i))) for i in range(capacity)]
        is_filled = both(is_there, less(constant(0), size))
        real = [is_there, every(less(e, constant(capacity)) for e in elements)]
        match read:
            case op.Size():
                return choose(is_there, size, constant(0)), TRUE
            case op.Empty():
                return negate(is_filled), TRUE
            case op.Head():
                return places[0].within(0, capacity - 1), is_filled
            case op.Tail():
                last = store.cells[name].at(sub(add(begin, size), constant(1)))
                return last.within(0, capacity - 1), is_filled
            case op.Has():
                return every([*real, some(equal(p, elements[0]) for p in places)]), TRUE
            case op.First():
                return every([*real, equal(places[0], elements[0])]), TRUE
            case op.Before():
                pairs = itertools.combinations(places, 2)
                ways = (both(equal(p, elements[0]), equal(q, elements[1])) for p, q in pairs)
                return every([*real, some(ways)]), TRUE
            case unknown:
                assert_never(unknown)

    def _count(
        self, count: CountOf, at: Sequence[Expr], view: str, proper: Expr, exact: Expr
    ) -> tuple[Expr, Expr, Expr]:
        """The elements that count, or what they weigh, one by one; nothing counts for keys outside of the scope."""
        is_there, _ = self.place([type(k) for k in count.keys], at)
        if is_there == FALSE:
            return constant(0), proper, exact
        saved = self.now, dict(self.variables)
        self.now = self.before if view == "before" else self.now
        for key, kind_of, expr in zip(count.keys, (type(k) for k in count.keys), at, strict=True):
            self.variables[number_of(key)] = expr.within(0, self.setting.scope.size(kind_of) - 1)
        amounts: list[Expr] = []
        for numbers in self.setting.every(type(e) for e in count.elements):
            self.bind(count.elements, numbers)
            counts = self.value(count.formula)
            amount = Value(constant(1)) if count.weight is None else self.value(count.weight)
            amounts.append(choose(counts.expr, amount.expr, constant(0)))
            weighs = both(is_there, counts.expr)
            proper = every((proper, _where(is_there, counts.proper), _where(weighs, amount.proper)))
            exact = every((exact, _where(is_there, counts.exact), _where(weighs, amount.exact)))
        self.now, self.variables = saved
        return choose(is_there, total(amounts), constant(0)), proper, exact


def _plain(operation: Callable[..., Expr], operands: Sequence[Value]) -> Value:
    """An operation that has a value wherever its operands have."""
    return Value(operation(*[o.expr for o in operands]), *_all_proper(operands))


def _as_whole(factor: Term) -> tuple[bool, Term]:
    """Whether it is an integer, taken as an exact number; and the integer, or else the number itself."""
    said = factor.operation
    return (True, said.of) if isinstance(said, op.ToReal) else (False, factor)


def _where(condition: Expr, needed: Expr) -> Expr:
    """It is needed only there."""
    return either(negate(condition), needed)


def _signed(dividend: Expr, divisor: Value) -> bool:
    return dividend.lo < 0 or divisor.expr.lo < 0
