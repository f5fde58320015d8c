"""Terms as TLA+ expressions. The state that a term reads is a record with a field for each map and queue.

What a term needs to have a value is an expression of its own. It is looked at first, so that what is wrong is reported
in the machine's words, and not as an error of TLC's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from ...machine import Bool, Real
from ...machine.terms import Term, parts
from .setting import Names, Setting, is_sure

__all__ = ["NEEDS", "Need", "TlaTerms", "Vocabulary", "conjunction", "implied"]

Need = Literal["proper", "exact"]
NEEDS: tuple[Need, Need] = ("proper", "exact")
"""That a term has a value; that it is one that the scope can write down."""

SIGNS = {"eq": "=", "lt": "<", "le": "<=", "add": "+", "sub": "-", "mul": "*", "and": "/\\", "or": "\\/"}


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
        op, a = t.op, t.args
        if op == "lit":
            return self._literal(t)
        if op == "var":
            return self.variables[a[1]]
        if op == "temp":
            return self.temps.get(a[0]) or self.value(a[1])
        if op in ("mul", "div") and isinstance(t, Real):
            return self._product(a) if op == "mul" else self._ratio(a)
        if op in SIGNS:
            return f"({self.value(a[0])} {SIGNS[op]} {self.value(a[1])})"
        if op == "implies":
            return f"({self.value(a[0])} => {self.value(a[1])})"
        if op == "not":
            return f"~({self.value(a[0])})"
        if op in ("floordiv", "mod"):
            sign = "\\div" if op == "floordiv" else "%"
            return f"({self.value(a[0])} {sign} {self.value(a[1])})"
        if op == "real":
            return f"({self.value(a[0])} * {self.setting.unit})"
        if op == "ite":
            return f"(IF {self.value(a[0])} THEN {self.value(a[1])} ELSE {self.value(a[2])})"
        if op == "within":
            return f"({self.value(a[0])} \\in 0..{self.setting.scope.size(a[1]) - 1})"
        if op in ("forall", "exists"):
            quantifier = "\\A" if op == "forall" else "\\E"
            return f"({quantifier} {self.bind(a[0])} : {self.value(a[1])})"
        return self._read(t)

    def _literal(self, t: Term) -> str:
        if isinstance(t, Bool):
            return "TRUE" if t.args[0] else "FALSE"
        if t.args[0] is None:
            return "none"
        number = self.setting.literal(t)
        return str(number) if number >= 0 else f"({number})"

    def bind(self, binders: Sequence[Term]) -> str:
        """New names for variables, and the sets that they run over."""
        bound = []
        for b in binders:
            self.variables[b.args[1]] = self.words.names.new(b.args[0])
            bound.append(f"{self.variables[b.args[1]]} \\in {self.words.set_of(type(b))}")
        return ", ".join(bound)

    def _factors(self, a: Sequence[Term]) -> tuple[str, str, bool]:
        """Of a product of exact numbers, or of a quotient: both texts; whether the second is a whole number."""
        first, second = a
        whole = second.op == "real"
        return self.value(first), self.value(second.args[0] if whole else second), whole

    def _product(self, a: Sequence[Term]) -> str:
        first, second, whole = self._factors(_whole_last(a))
        product = f"({first} * {second})"
        return product if whole else f"Quotient({product}, {self.setting.unit})"

    def _ratio(self, a: Sequence[Term]) -> str:
        first, second, whole = self._factors(a)
        return f"Quotient({first if whole else f'({first} * {self.setting.unit})'}, {second})"

    # ------------------------------------------------------------------------------------------------ reading

    def _read(self, t: Term) -> str:
        op, view, name, keys = t.op, t.args[0], t.args[1], t.args[2]
        record = self.before if view == "before" else self.now
        if op == "count":
            count = self.setting.model.counts[name]
            kinds = [type(k) for k in count.keys]
            text = f"{self.words.operators[name]}({', '.join([record, *map(self.value, keys)])})"
            return self._inside(kinds, keys, text, "0")
        if op == "get":
            mapping = self.setting.model.maps[name]
            base = self.words.operators[name] if mapping.is_param else self.words.field(record, name)
            default = "FALSE" if mapping.to is Bool else "none" if mapping.is_optional else "0"
            return self._inside(mapping.kinds, keys, base + self.place(keys), default)
        queue = self.queue(record, name, keys)
        elements = [self.value(e) for e in t.args[3:]]
        if op in ("has", "first", "before"):
            operator = {"has": "Has", "first": "First", "before": "Before"}[op]
            return f"{operator}({', '.join([queue, *elements])})"
        if op == "empty":
            return f"({queue} = <<>>)"
        if op == "size":
            return f"Len({queue})"
        return f"Head({queue})" if op == "head" else f"{queue}[Len({queue})]"

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
        op, a = t.op, t.args
        if op in ("lit", "var") or (op == "temp" and a[0] in self.temps):
            return "TRUE"
        if op == "temp":
            return self.need(a[1], what)
        if op in ("and", "implies"):
            return conjunction([self.need(a[0], what), implied(self.value(a[0]), self.need(a[1], what))])
        if op == "or":
            return conjunction([self.need(a[0], what), implied(f"~({self.value(a[0])})", self.need(a[1], what))])
        if op == "ite":
            condition = self.value(a[0])
            ways = [
                implied(condition, self.need(a[1], what)),
                implied(f"~({condition})", self.need(a[2], what)),
            ]
            return conjunction([self.need(a[0], what), *ways])
        if op in ("forall", "exists"):
            return self._needed_of_each(op == "forall", a[0], a[1], what)
        return conjunction([*(self.need(part, what) for part in parts(t)), self._own_need(t, what)])

    def _own_need(self, t: Term, what: Need) -> str:
        op, a = t.op, t.args
        if op == "count":
            return self._needed_of_count(t, what)
        if what == "exact":
            return self._exactness(t) if op in ("mul", "div") and isinstance(t, Real) else "TRUE"
        if op in ("floordiv", "mod"):
            return f"({self.value(a[1])} > 0)"
        if op == "div":
            return f"({self.value(a[1])} # 0)"
        if op in ("head", "tail"):
            return f"({self.queue(self.before if a[0] == 'before' else self.now, a[1], a[2])} # <<>>)"
        return "TRUE"

    def _exactness(self, t: Term) -> str:
        if t.op == "mul":
            first, second, whole = self._factors(_whole_last(t.args))
            return "TRUE" if whole else f"Divides({self.setting.unit}, {first} * {second})"
        first, second, whole = self._factors(t.args)
        dividend = first if whole else f"{first} * {self.setting.unit}"
        return f"(({second} # 0) => Divides({second}, {dividend}))"

    def _needed_of_each(self, universal: bool, binders: Sequence[Term], body: Term, what: Need) -> str:
        """Element after element, in order, as long as none has decided."""
        bound = self.bind(binders)
        needed = self.need(body, what)
        if needed == "TRUE":
            return "TRUE"
        these = [self.variables[b.args[1]] for b in binders]
        saved = dict(self.variables)
        earlier = self.bind(binders)
        those = [self.variables[b.args[1]] for b in binders]
        undecided = self.value(body) if universal else f"~({self.value(body)})"
        self.variables = saved
        before = _ahead(binders, those, these)
        return f"(\\A {bound} : (\\A {earlier} : ({before} => {undecided})) => {needed})"

    def _needed_of_count(self, t: Term, what: Need) -> str:
        """Of a count: what its formula needs, for each element."""
        count = self.setting.model.counts[t.args[1]]
        saved = dict(self.variables), self.now
        self.now = self.before if t.args[0] == "before" else self.now
        keys = [self.value(k) for k in t.args[2]]
        self.variables.update({k.args[1]: text for k, text in zip(count.keys, keys, strict=True)})
        bound = self.bind(count.elements)
        needed = self.need(count.formula, what)
        if count.weight is not None:
            needed = conjunction([needed, implied(self.value(count.formula), self.need(count.weight, what))])
        self.variables, self.now = saved
        if needed == "TRUE":
            return "TRUE"
        return implied(self.inside([type(k) for k in count.keys], t.args[2]), f"(\\A {bound} : {needed})")


def _whole_last(a: Sequence[Term]) -> Sequence[Term]:
    """The factors, one that is a whole number last."""
    return (a[1], a[0]) if a[0].op == "real" else a


def _ahead(binders: Sequence[Term], those: Sequence[str], these: Sequence[str]) -> str:
    """Those come before these, in the order in which elements are taken."""
    ways: list[str] = []
    same: list[str] = []
    for b, x, y in zip(binders, those, these, strict=True):
        is_less = f"(~{x} /\\ {y})" if isinstance(b, Bool) else f"{x} < {y}"
        ways.append(conjunction([*same, is_less]))
        same.append(f"{x} = {y}")
    return "(" + " \\/ ".join(ways) + ")"
