"""Formulas over columns of numbers, simplified while they are built.

A column is one field of many states: a tensor with one small number a state. The batched interpreter runs a machine's
text once, on `Node`s instead of numbers; equal formulas are one node, constants are folded, and what is known
(because an action requires it) is used. `columns.py` writes the formulas out as torch operations.

Truth values are the numbers 0 and 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

__all__ = ["Graph", "Node", "Value", "high", "low"]


class Node:
    """A formula. Its value lies between ``lo`` and ``hi``; nodes are equal only if they are the same."""

    __slots__ = ("args", "hi", "lo", "op")

    def __init__(self, op: str, args: tuple[Any, ...], lo: int, hi: int) -> None:
        self.op, self.args, self.lo, self.hi = op, args, lo, hi


Value = Node | int
"""A formula, or a number."""


def low(value: Value) -> int:
    """The least that the value can be."""
    return value if isinstance(value, int) else value.lo


def high(value: Value) -> int:
    """The most that the value can be."""
    return value if isinstance(value, int) else value.hi


_COMPLEMENT = {"eq": "ne", "ne": "eq"}


class Graph:
    """Builds formulas."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[Any, ...], Node] = {}
        self._known: dict[Node, int] = {}

    def column(self, field: int, lo: int, hi: int) -> Value:
        """The value of a field of the state."""
        return self._make("col", (field,), lo, hi)

    def look(self, value: Value) -> Value:
        """The value, or the number that it is known to be."""
        return value if isinstance(value, int) else self._known.get(value, value)

    @contextmanager
    def assuming(self, condition: Value) -> Iterator[None]:
        """Inside, the condition is known to hold. What is built there only counts where it does."""
        before = dict(self._known)
        try:
            if isinstance(condition, Node):
                self._learn(condition, 1)
            yield
        finally:
            self._known = before

    def _learn(self, node: Node, truth: int) -> None:
        if node.op == "not":
            self._learn(node.args[0], 1 - truth)
            return
        if node.op == ("and" if truth else "or"):
            for part in node.args:
                self._learn(part, truth)
        opposite = self.negate(node)
        self._known[node] = truth
        if isinstance(opposite, Node):
            self._known[opposite] = 1 - truth
        if node.op == ("eq" if truth else "ne") and isinstance(node.args[1], int):
            self._known[node.args[0]] = node.args[1]

    def _make(self, op: str, args: tuple[Any, ...], lo: int, hi: int) -> Value:
        key = (op, *args)
        node = self._nodes.get(key)
        if node is None:
            node = self._nodes[key] = Node(op, args, lo, hi)
        return self._known.get(node, node) if self._known else node

    # ------------------------------------------------------------------------------------------------ truth values

    def negate(self, a: Value) -> Value:
        """Not a."""
        if isinstance(a, int):
            return 1 - a
        if a.op == "not":
            return cast(Value, a.args[0])
        if a.op in _COMPLEMENT:
            return self._make(_COMPLEMENT[a.op], a.args, 0, 1)
        if a.op == "le":
            x, y = a.args
            return self.ge(x, y + 1) if isinstance(y, int) else self._make("lt", (y, x), 0, 1)
        if a.op == "ge":
            return self.le(a.args[0], a.args[1] - 1)
        if a.op == "lt":
            return self._make("le", (a.args[1], a.args[0]), 0, 1)
        return self._make("not", (a,), 0, 1)

    def both(self, a: Value, b: Value) -> Value:
        """a and b."""
        if isinstance(a, int):
            return b if a else 0
        if isinstance(b, int):
            return a if b else 0
        if a is b:
            return a
        if self.negate(a) is b:
            return 0
        return self._make("and", (a, b), 0, 1)

    def either(self, a: Value, b: Value) -> Value:
        """a or b."""
        if isinstance(a, int):
            return 1 if a else b
        if isinstance(b, int):
            return 1 if b else a
        if a is b:
            return a
        if self.negate(a) is b:
            return 1
        return self._make("or", (a, b), 0, 1)

    def every(self, values: Iterable[Value]) -> Value:
        """All of them."""
        result: Value = 1
        for value in values:
            result = self.both(result, value)
        return result

    def some(self, values: Iterable[Value]) -> Value:
        """At least one of them."""
        result: Value = 0
        for value in values:
            result = self.either(result, value)
        return result

    # ------------------------------------------------------------------------------------------------ comparisons

    def eq(self, a: Value, b: Value) -> Value:
        """a equals b."""
        if isinstance(a, int):
            a, b = b, a
        if isinstance(a, int):
            return int(a == b)
        if isinstance(b, int):
            return self._is(a, b)
        if a is b:
            return 1
        if a.hi < b.lo or b.hi < a.lo:
            return 0
        if a.op == "pick" or b.op == "pick":
            (pick, other) = (a, b) if a.op == "pick" else (b, a)
            return self.some(self.both(c, self.eq(other, v)) for c, v in zip(*pick.args, strict=True))
        return self._make("eq", (a, b), 0, 1)

    def _is(self, a: Node, number: int) -> Value:
        if not a.lo <= number <= a.hi:
            return 0
        if (a.lo, a.hi) == (0, 1):
            return a if number else self.negate(a)
        through = self._through(a, number, self.eq)
        return self._make("eq", (a, number), 0, 1) if through is None else through

    def _through(self, a: Node, number: int, compare: Callable[[Value, Value], Value]) -> Value | None:
        """Compare with a number what stands below the outermost operation, where that is simpler."""
        if a.op == "pick":
            conditions, values = a.args
            return self.some(c for c, v in zip(conditions, values, strict=True) if compare(v, number))
        if a.op == "add" and isinstance(a.args[1], int):
            return compare(a.args[0], number - a.args[1])
        if a.op == "where" and (isinstance(a.args[1], int) or isinstance(a.args[2], int)):
            return self.where(a.args[0], compare(a.args[1], number), compare(a.args[2], number))
        if a.op == "mul" and (a.args[0].lo, a.args[0].hi) == (0, 1):
            return self.where(a.args[0], compare(a.args[1], number), compare(0, number))
        return None

    def le(self, a: Value, b: Value) -> Value:
        """a is at most b."""
        if high(a) <= low(b) or a is b:
            return 1
        if low(a) > high(b):
            return 0
        if isinstance(a, int):
            return self.ge(b, a)
        if not isinstance(b, int):
            return self._make("le", (a, b), 0, 1)
        if b == a.lo:
            return self.eq(a, b)
        if b == a.hi - 1:
            return self.negate(self.eq(a, a.hi))
        through = self._through(a, b, self.le)
        return self._make("le", (a, b), 0, 1) if through is None else through

    def ge(self, a: Value, b: Value) -> Value:
        """a is at least b."""
        if isinstance(a, int) or isinstance(b, Node):
            return self.le(b, a)
        if b <= a.lo:
            return 1
        if b > a.hi:
            return 0
        if b == a.hi:
            return self.eq(a, b)
        if b == a.lo + 1:
            return self.negate(self.eq(a, a.lo))
        through = self._through(a, b, self.ge)
        return self._make("ge", (a, b), 0, 1) if through is None else through

    def lt(self, a: Value, b: Value) -> Value:
        """a is less than b."""
        if isinstance(b, int):
            return self.le(a, b - 1)
        if isinstance(a, int):
            return self.ge(b, a + 1)
        if a.hi < b.lo:
            return 1
        if a.lo >= b.hi or a is b:
            return 0
        return self._make("lt", (a, b), 0, 1)

    # ------------------------------------------------------------------------------------------------ numbers

    def add(self, a: Value, b: Value) -> Value:
        """a + b."""
        if isinstance(a, int):
            a, b = b, a
        if isinstance(a, int):
            return a + cast(int, b)
        if b == 0:
            return a
        if isinstance(b, int) and a.op == "add" and isinstance(a.args[1], int):
            return self.add(a.args[0], a.args[1] + b)
        return self._make("add", (a, b), a.lo + low(b), a.hi + high(b))

    def sub(self, a: Value, b: Value) -> Value:
        """a - b."""
        if isinstance(b, int):
            return self.add(a, -b)
        if a is b:
            return 0
        if isinstance(a, int):
            return self.add(self.mul(b, -1), a)
        if a.op in ("add", "sub") and a.args[0] is b:
            return a.args[1] if a.op == "add" else self.mul(a.args[1], -1)
        if a.op == "where" and (a.args[1] is b or a.args[2] is b):
            return self.where(a.args[0], self.sub(a.args[1], b), self.sub(a.args[2], b))
        return self._make("sub", (a, b), a.lo - b.hi, a.hi - b.lo)

    def mul(self, a: Value, factor: int) -> Value:
        """The value times a number."""
        if isinstance(a, int):
            return a * factor
        if factor == 0:
            return 0
        if factor == 1:
            return a
        if a.op == "mul":
            return self.mul(a.args[0], a.args[1] * factor)
        ends = (a.lo * factor, a.hi * factor)
        return self._make("mul", (a, factor), min(ends), max(ends))

    def product(self, a: Value, b: Value) -> Value:
        """a * b; the factor with the fewer possible values is told apart by them."""
        if isinstance(b, int):
            return self.mul(a, b)
        if isinstance(a, int):
            return self.mul(b, a)
        if a.hi - a.lo < b.hi - b.lo:
            a, b = b, a
        return self.cases(b, lambda number: self.mul(a, number))

    def cases(self, a: Node, value: Callable[[int], Value]) -> Value:
        """What ``value`` gives for the number that a is."""
        result = value(a.lo)
        for number in range(a.lo + 1, a.hi + 1):
            result = self.where(self.eq(a, number), value(number), result)
        return result

    def quotient(self, a: Value, divisor: int) -> Value:
        """a divided by a positive number, rounded down."""
        if isinstance(a, int):
            return a // divisor
        if divisor == 1:
            return a
        return self._make("quotient", (a, divisor), a.lo // divisor, a.hi // divisor)

    def larger(self, a: Value, b: Value) -> Value:
        """The larger of the two."""
        if a is b or low(a) >= high(b):
            return a
        if low(b) >= high(a):
            return b
        if isinstance(a, int):
            a, b = b, a
        return self._make("max", (a, b), max(low(a), low(b)), max(high(a), high(b)))

    def total(self, values: Iterable[Value]) -> Value:
        """The sum."""
        result: Value = 0
        for value in values:
            result = self.add(result, value)
        return result

    def where(self, condition: Value, a: Value, b: Value) -> Value:
        """a where the condition holds, else b."""
        if isinstance(condition, int):
            return a if condition else b
        if a is b or a == b:
            return a
        if condition.op in ("not", "ne"):
            return self.where(self.negate(condition), b, a)
        if condition.op == "eq" and condition.args[0] is a and isinstance(condition.args[1], int):
            return self.where(condition, condition.args[1], b)
        if min(low(a), low(b)) >= 0 and max(high(a), high(b)) <= 1 and (isinstance(a, int) or isinstance(b, int)):
            return self._where_truth(condition, a, b)
        if isinstance(a, int) and isinstance(b, int):
            return self.add(self.mul(condition, a - b), b)
        if isinstance(a, Node) and a.op == "where" and a.args[2] is b:
            return self.where(self.both(condition, a.args[0]), a.args[1], b)
        if isinstance(b, Node) and b.op == "where" and b.args[1] is a:
            return self.where(self.either(condition, b.args[0]), a, b.args[2])
        return self._make("where", (condition, a, b), min(low(a), low(b)), max(high(a), high(b)))

    def _where_truth(self, condition: Node, a: Value, b: Value) -> Value:
        if isinstance(a, int):
            return self.either(condition, b) if a else self.both(self.negate(condition), b)
        return self.either(self.negate(condition), a) if b else self.both(condition, a)

    def pick(self, conditions: Sequence[Value], values: Sequence[int]) -> Value:
        """The number whose condition holds. At most one does; where none does the value does not matter."""
        cases = [(c, v) for c, v in zip(conditions, values, strict=True) if c != 0]
        if len(cases) == 1 or any(c == 1 for c, _ in cases):
            return next((v for c, v in cases if c == 1), cases[0][1])
        if not cases:
            return values[0]
        # Where none holds the sum is 0, which therefore must lie within the bounds.
        numbers = [v for _, v in cases]
        return self._make("pick", (tuple(c for c, _ in cases), tuple(numbers)), min(0, *numbers), max(0, *numbers))
