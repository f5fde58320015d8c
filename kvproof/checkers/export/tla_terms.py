"""Terms as TLA+ expressions. The state that a term reads is a record with a field for each map and queue.

What a term needs to have a value is an expression of its own. It is looked at first, so that what is wrong is reported
in the machine's words, and not as an error of TLC's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, assert_never

from ...machine import Bool, Real
from ...machine import operations as op
from ...machine.terms import Term, name_of, number_of
from ...machine.traversal import parts
from .setting import Names, Setting, is_sure

__all__ = ["NEEDS", "Need", "TlaTerms", "Vocabulary", "conjunction", "implied"]

Need = Literal["proper", "exact"]
NEEDS: tuple[Need, Need] = ("proper", "exact")
"""That a term has a value; that it is one that the scope can write down."""


def conjunction(conditions: Sequence[str]) -> str:
    """All of them, from left to right."""
    asked = [c for c in conditions if c != "TRUE"]
    return "TRUE" if not asked else asked[0] if len(asked) == 1 else "(" + " /\\ ".join(asked) + ")"


def implied(condition: str, needed: str) -> str:
    """It is needed only there."""
    return "TRUE" if needed == "TRUE" else f"({condition} => {needed})"


@dataclass(frozen=True)
class Vocabulary:
    """What everything is called in one module."""

    names: Names
    sets: dict[str, str]
    """The set of each sort's elements."""
    operators: dict[str, str]
    """Parameters, counts, properties of steps, and each map and queue as it is (or as it is at first)."""
    fields: dict[str, str]
    """Each map and queue in a record."""

    def set_of(self, kind: type[Term]) -> str:
        """The set of all elements of a sort."""
        return "BOOLEAN" if issubclass(kind, Bool) else self.sets[kind.__name__]

    def field(self, record: str, name: str) -> str:
        """A map or queue of a record; TLC would make `Now` anew for each look at one of its fields."""
        return self.operators[name] if record == "Now" else f"{record}.{self.fields[name]}"


@dataclass
class TlaTerms:
    """Gives terms their text. ``now`` and ``before`` are the names of records."""

    setting: Setting
    words: Vocabulary
    now: str = "Now"
    before: str = "Now"
    variables: dict[int, str] = field(default_factory=dict)
    temps: dict[int, str] = field(default_factory=dict)

    # ------------------------------------------------------------------------------------------------ values

    def value(self, t: Term) -> str:
        """The text of a term."""
        match t.operation:
            case op.Constant(value):
                return self._literal(t, value)
            case op.Variable(_, number):
                return self.variables[number]
            case op.Temporary(number, value):
                return self.temps.get(number) or self.value(value)
            case op.Not(of):
                return f"~({self.value(of)})"
            case op.And(left, right):
                return self._infix(left, "/\\", right)
            case op.Or(left, right):
                return self._infix(left, "\\/", right)
            case op.Implies(left, right):
                return self._infix(left, "=>", right)
            case op.Equal(left, right):
                return self._infix(left, "=", right)
            case op.Less(left, right):
                return self._infix(left, "<", right)
            case op.AtMost(left, right):
                return self._infix(left, "<=", right)
            case op.Add(left, right):
                return self._infix(left, "+", right)
            case op.Subtract(left, right):
                return self._infix(left, "-", right)
            case op.Multiply(left, right):
                return self._product(left, right) if isinstance(t, Real) else self._infix(left, "*", right)
            case op.Divide(dividend, divisor):
                return self._ratio(dividend, divisor)
            case op.FloorDivide(dividend, divisor):
                return self._infix(dividend, "\\div", divisor)
            case op.Modulo(dividend, divisor):
                return self._infix(dividend, "%", divisor)
            case op.ToReal(of):
                return f"({self.value(of)} * {self.setting.unit})"
            case op.Within(number, index):
                return f"({self.value(number)} \\in 0..{self.setting.scope.size(index) - 1})"
            case op.Ite(condition, then, otherwise):
                return f"(IF {self.value(condition)} THEN {self.value(then)} ELSE {self.value(otherwise)})"
            case op.Forall(binders, body):
                return f"(\\A {self.bind(binders)} : {self.value(body)})"
            case op.Exists(binders, body):
                return f"(\\E {self.bind(binders)} : {self.value(body)})"
            case op.Read() as read:
                return self._read(read)
            case unknown:
                assert_never(unknown)

    def _infix(self, left: Term, sign: str, right: Term) -> str:
        return f"({self.value(left)} {sign} {self.value(right)})"

    def _literal(self, t: Term, value: object) -> str:
        if isinstance(value, bool):
            return "TRUE" if value else "FALSE"
        if value is None:
            return "none"
        number = self.setting.literal(t, value)
        return str(number) if number >= 0 else f"({number})"

    def bind(self, binders: Sequence[Term]) -> str:
        """New names for variables, and the sets that they run over."""
        bound = []
        for b in binders:
            name = self.variables[number_of(b)] = self.words.names.new(name_of(b))
            bound.append(f"{name} \\in {self.words.set_of(type(b))}")
        return ", ".join(bound)

    def _factors(self, first: Term, second: Term) -> tuple[str, str, bool]:
        """Of a product of exact numbers, or of a quotient: both texts; whether the second is a whole number."""
        if isinstance(whole := second.operation, op.ToReal):
            return self.value(first), self.value(whole.of), True
        return self.value(first), self.value(second), False

    def _product(self, a: Term, b: Term) -> str:
        first, second, whole = self._factors(*_whole_last(a, b))
        product = f"({first} * {second})"
        return product if whole else f"Quotient({product}, {self.setting.unit})"

    def _ratio(self, a: Term, b: Term) -> str:
        first, second, whole = self._factors(a, b)
        return f"Quotient({first if whole else f'({first} * {self.setting.unit})'}, {second})"

    # ------------------------------------------------------------------------------------------------ reading

    def _record(self, view: str) -> str:
        return self.before if view == "before" else self.now

    def _read(self, read: op.Reading) -> str:
        match read:
            case op.Total(view, name, keys):
                kinds = [type(k) for k in self.setting.model.counts[name].keys]
                given = ", ".join([self._record(view), *map(self.value, keys)])
                return self._inside(kinds, keys, f"{self.words.operators[name]}({given})", "0")
            case op.Entry(view, name, keys):
                mapping = self.setting.model.maps[name]
                field = self.words.operators[name] if mapping.is_param else self.words.field(self._record(view), name)
                default = "FALSE" if mapping.to is Bool else "none" if mapping.is_optional else "0"
                return self._inside(mapping.kinds, keys, field + self.place(keys), default)
            case op.Size():
                return f"Len({self._queue_of(read)})"
            case op.Empty():
                return f"({self._queue_of(read)} = <<>>)"
            case op.Head():
                return f"Head({self._queue_of(read)})"
            case op.Tail():
                queue = self._queue_of(read)
                return f"{queue}[Len({queue})]"
            case op.Has():
                return f"Has({self._queue_of(read)}, {self.value(read.element)})"
            case op.First():
                return f"First({self._queue_of(read)}, {self.value(read.element)})"
            case op.Before():
                return f"Before({self._queue_of(read)}, {self.value(read.earlier)}, {self.value(read.later)})"
            case unknown:
                assert_never(unknown)

    def _queue_of(self, read: op.OfQueue) -> str:
        return self.queue(self._record(read.view), read.name, read.keys)

    def place(self, keys: Sequence[Term]) -> str:
        """The keys, one after the other."""
        return "".join(f"[{self.value(k)}]" for k in keys)

    def queue(self, record: str, name: str, keys: Sequence[Term]) -> str:
        """The queue of these keys; an empty one outside of the scope."""
        kinds = self.setting.model.queues[name].kinds
        return self._inside(kinds, keys, self.words.field(record, name) + self.place(keys), "<<>>")

    def _inside(self, kinds: Sequence[type[Term]], keys: Sequence[Term], text: str, default: str) -> str:
        inside = self.inside(kinds, keys)
        return text if inside == "TRUE" else f"(IF {inside} THEN {text} ELSE {default})"

    def inside(self, kinds: Sequence[type[Term]], keys: Sequence[Term]) -> str:
        """The keys are elements of the sorts."""
        return conjunction(
            [
                f"{self.value(key)} \\in {self.words.set_of(kind)}"
                for kind, key in zip(kinds, keys, strict=True)
                if not is_sure(kind, key)
            ]
        )

    # ------------------------------------------------------------------------------------------------ what is needed

    def need(self, t: Term, what: Need) -> str:
        """When the term has a value, or one that the scope can write down."""
        match t.operation:
            case op.Constant() | op.Variable():
                return "TRUE"
            case op.Temporary(number, value):
                return "TRUE" if number in self.temps else self.need(value, what)
            case op.And(left, right) | op.Implies(left, right):
                return conjunction([self.need(left, what), implied(self.value(left), self.need(right, what))])
            case op.Or(left, right):
                return conjunction([self.need(left, what), implied(f"~({self.value(left)})", self.need(right, what))])
            case op.Ite(test, then, otherwise):
                condition = self.value(test)
                ways = [
                    implied(condition, self.need(then, what)),
                    implied(f"~({condition})", self.need(otherwise, what)),
                ]
                return conjunction([self.need(test, what), *ways])
            case op.Forall(binders, body):
                return self._needed_of_each(True, binders, body, what)
            case op.Exists(binders, body):
                return self._needed_of_each(False, binders, body, what)
            case op.Multiply(left, right) if isinstance(t, Real) and what == "exact":
                first, second, whole = self._factors(*_whole_last(left, right))
                exactness = "TRUE" if whole else f"Divides({self.setting.unit}, {first} * {second})"
                return self._needed(t, what, exactness)
            case op.Divide(dividend, divisor):
                is_number = f"({self.value(divisor)} # 0)"
                return self._needed(t, what, is_number if what == "proper" else self._divides(dividend, divisor))
            case op.FloorDivide(_, divisor) | op.Modulo(_, divisor):
                return self._needed(t, what, f"({self.value(divisor)} > 0)" if what == "proper" else "TRUE")
            case op.Total() as read:
                return self._needed(t, what, self._needed_of_count(read, what))
            case op.Head() | op.Tail() as read:
                return self._needed(t, what, f"({self._queue_of(read)} # <<>>)" if what == "proper" else "TRUE")
            case (
                op.Not()
                | op.Equal()
                | op.Less()
                | op.AtMost()
                | op.Within()
                | op.Add()
                | op.Subtract()
                | op.Multiply()
                | op.ToReal()
                | op.Entry()
                | op.Size()
                | op.Empty()
                | op.Has()
                | op.First()
                | op.Before()
            ):
                return self._needed(t, what, "TRUE")
            case unknown:
                assert_never(unknown)

    def _needed(self, t: Term, what: Need, own: str) -> str:
        """What the operands need, and what the operation itself does."""
        return conjunction([*(self.need(part, what) for part in parts(t)), own])

    def _divides(self, a: Term, b: Term) -> str:
        first, second, whole = self._factors(a, b)
        dividend = first if whole else f"{first} * {self.setting.unit}"
        return f"(({second} # 0) => Divides({second}, {dividend}))"

    def _needed_of_each(self, universal: bool, binders: Sequence[Term], body: Term, what: Need) -> str:
        """Element after element, in order, as long as none has decided."""
        bound = self.bind(binders)
        needed = self.need(body, what)
        if needed == "TRUE":
            return "TRUE"
        these = [self.variables[number_of(b)] for b in binders]
        saved = dict(self.variables)
        earlier = self.bind(binders)
        those = [self.variables[number_of(b)] for b in binders]
        undecided = self.value(body) if universal else f"~({self.value(body)})"
        self.variables = saved
        before = _ahead(binders, those, these)
        return f"(\\A {bound} : (\\A {earlier} : ({before} => {undecided})) => {needed})"

    def _needed_of_count(self, read: op.Total, what: Need) -> str:
        """Of a count: what its formula needs, for each element."""
        count = self.setting.model.counts[read.name]
        saved = dict(self.variables), self.now
        self.now = self._record(read.view)
        keys = [self.value(k) for k in read.keys]
        self.variables.update({number_of(k): text for k, text in zip(count.keys, keys, strict=True)})
        bound = self.bind(count.elements)
        needed = self.need(count.formula, what)
        if count.weight is not None:
            needed = conjunction([needed, implied(self.value(count.formula), self.need(count.weight, what))])
        self.variables, self.now = saved
        if needed == "TRUE":
            return "TRUE"
        return implied(self.inside([type(k) for k in count.keys], read.keys), f"(\\A {bound} : {needed})")


def _whole_last(a: Term, b: Term) -> tuple[Term, Term]:
    """The factors, one that is a whole number last."""
    return (b, a) if isinstance(a.operation, op.ToReal) else (a, b)


def _ahead(binders: Sequence[Term], those: Sequence[str], these: Sequence[str]) -> str:
    """Those come before these, in the order in which elements are taken."""
    ways: list[str] = []
    same: list[str] = []
    for b, x, y in zip(binders, those, these, strict=True):
        is_less = f"(~{x} /\\ {y})" if isinstance(b, Bool) else f"{x} < {y}"
        ways.append(conjunction([*same, is_less]))
        same.append(f"{x} = {y}")
    return "(" + " \\/ ".join(ways) + ")"
