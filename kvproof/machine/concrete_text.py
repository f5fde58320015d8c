"""A machine's actions and properties as the text of Python functions, for the concrete interpreter."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any, assert_never

from . import operations as op
from .candidates import candidates
from .declarations import Map
from .fitting import is_surely, may_be_none, may_misfit
from .model import Action, CountOf, Model, Property
from .program import Assign, Each, Emit, Let, Loop, Push, Remove, Require, Statement, When
from .scope import NONE, Scope
from .terms import Bool, Sort, Term, name_of, number_of
from .traversal import parts, seen_in

__all__ = ["Writer"]


class Writer:
    """Writes a machine's actions and properties as Python text."""

    def __init__(self, model: Model, scope: Scope, constants: dict[str, list[int]], *, strict: bool = False) -> None:
        self.model, self.scope, self.constants, self.strict = model, scope, constants, strict
        self.loops: list[Loop] = []
        """The loops of the action that is being written."""
        self.lines: list[str] = []
        self.indent = 0

    # ------------------------------------------------------------------------------------------------ text

    def put(self, line: str) -> None:
        """Write a line."""
        self.lines.append("    " * self.indent + line)

    def _taken(self) -> str:
        """The text of the function that was written."""
        text = "\n".join(self.lines) + "\n"
        self.lines, self.indent = [], 0
        return text

    @staticmethod
    def var(term: Term) -> str:
        """What a variable is called in the text."""
        return f"{name_of(term)}_{number_of(term)}"

    # ------------------------------------------------------------------------------------------------ terms

    def term(self, t: Term) -> str:
        """The text of a term."""
        match t.operation:
            case op.Constant(value):
                plain = isinstance(value, bool | Fraction)
                return repr(value) if plain else str(self.scope.number(type(t), value))
            case op.Variable():
                return self.var(t)
            case op.Temporary(number):
                return f"t{number}"
            case op.Not(of):
                return f"(not {self.term(of)})"
            case op.And(left, right):
                return f"({self.term(left)} and {self.term(right)})"
            case op.Or(left, right):
                return f"({self.term(left)} or {self.term(right)})"
            case op.Implies(left, right):
                return f"(not {self.term(left)} or {self.term(right)})"
            case op.Equal(left, right):
                return f"({self.term(left)} == {self.term(right)})"
            case op.Less(left, right):
                return f"({self.term(left)} < {self.term(right)})"
            case op.AtMost(left, right):
                return f"({self.term(left)} <= {self.term(right)})"
            case op.Add(left, right):
                return f"({self.term(left)} + {self.term(right)})"
            case op.Subtract(left, right):
                return f"({self.term(left)} - {self.term(right)})"
            case op.Multiply(left, right):
                return f"({self.term(left)} * {self.term(right)})"
            case op.Divide(dividend, divisor):
                return f"ratio({self.term(dividend)}, {self.term(divisor)})"
            case op.FloorDivide(dividend, divisor):
                return f"whole({self.term(dividend)}, {self.term(divisor)})"
            case op.Modulo(dividend, divisor):
                return f"rest({self.term(dividend)}, {self.term(divisor)})"
            case op.ToReal(of):
                return self.term(of)
            case op.Within(index_number, index):
                return f"(0 <= {self.term(index_number)} < {self.scope.size(index)})"
            case op.Ite(condition, then, otherwise):
                return f"({self.term(then)} if {self.term(condition)} else {self.term(otherwise)})"
            case op.Forall() as quantified:
                return f"all({self.term(quantified.body)} {self._places(quantified)})"
            case op.Exists() as quantified:
                return f"any({self.term(quantified.body)} {self._places(quantified)})"
            case op.Read() as read:
                return self.read(t, read)
            case unknown:
                assert_never(unknown)

    def _places(self, quantified: op.Quantified) -> str:
        """The elements that a quantifier looks at: all, or where only one can matter that one.

        A strict interpreter looks at all: its reads may be ill-formed at others.
        """
        only = {} if self.strict else candidates(quantified)
        loops = []
        for b in quantified.binders:
            size, number = self.scope.size(type(b)), number_of(b)
            place = f"single({self.term(only[number])}, {size})" if number in only else f"range({size})"
            loops.append(f"for {self.var(b)} in {place}")
        return " ".join(loops)

    def _loops(self, binders: Iterable[Term]) -> str:
        return " ".join(f"for {self.var(b)} in range({self.scope.size(type(b))})" for b in binders)

    def read(self, t: Term, read: op.Reading) -> str:  # noqa: ARG002 - for interpreters that are stricter
        """The text of a term that looks at a state."""
        state = {"now": "s", "before": "p"}.get(read.view) or read.view.replace(":", "_")
        match read:
            case op.Entry(_, name, keys):
                return self._entry(state, name, keys)
            case op.Total(view, name, keys):
                return self._count(name, keys, view)
            case op.Size():
                return f"len({self._queue_of(state, read)})"
            case op.Empty():
                return f"(not {self._queue_of(state, read)})"
            case op.Head():
                return f"head({self._queue_of(state, read)})"
            case op.Tail():
                return f"tail({self._queue_of(state, read)})"
            case op.Has():
                return f"({self.term(read.element)} in {self._queue_of(state, read)})"
            case op.First():
                return f"(next(iter({self._queue_of(state, read)}), -2) == {self.term(read.element)})"
            case op.Before():
                queue = self._queue_of(state, read)
                return f"precedes({queue}, {self.term(read.earlier)}, {self.term(read.later)})"
            case unknown:
                assert_never(unknown)

    def _entry(self, state: str, name: str, keys: tuple[Term, ...]) -> str:
        mapping = self.model.maps[name]
        default = "False" if mapping.to is Bool else str(NONE) if mapping.is_optional else "0"
        place = self._place(mapping.kinds, keys)
        guard = self._in_range(mapping.kinds, keys)
        text = f"{state}.{name}[{place}]"
        return f"({text} if {guard} else {self._missing(name, mapping.kinds, keys, default)})" if guard else text

    def _queue_of(self, state: str, read: op.OfQueue) -> str:
        return self._queue(state, read.name, read.keys)

    def _queue(self, state: str, name: str, keys: tuple[Term, ...]) -> str:
        kinds = self.model.queues[name].kinds
        if not kinds:
            return f"{state}.{name}"
        guard = self._in_range(kinds, keys)
        text = f"{state}.{name}[{self._place(kinds, keys)}]"
        return f"({text} if {guard} else {self._missing(name, kinds, keys, 'NOTHING')})" if guard else text

    def _missing(self, name: str, kinds: tuple[type[Term], ...], keys: tuple[Term, ...], default: str) -> str:
        """What is read where the keys are no elements. Behind the last index everybody may look."""
        if not self.strict:
            return default
        shown = "".join(f"{self.term(k)}, " for k in keys)
        return f"missing({name!r}, ({shown}), ({self._sizes(kinds)}), {default})"

    def _sizes(self, kinds: tuple[type[Term], ...]) -> str:
        """How many elements the sorts have; indices go on behind the last one of a scope."""
        return "".join(f"{self.scope.size(k) if issubclass(k, Sort) else None}, " for k in kinds)

    def _place(self, kinds: tuple[type[Term], ...], keys: tuple[Term, ...]) -> str:
        if not keys:
            return "0"
        text = self.term(keys[0])
        for kind, key in zip(kinds[1:], keys[1:], strict=True):
            text = f"({text}) * {self.scope.size(kind)} + {self.term(key)}"
        return text

    def _in_range(self, kinds: tuple[type[Term], ...], keys: tuple[Term, ...]) -> str:
        """The condition under which the keys are elements; empty where they always are."""
        checks = []
        for kind, key in zip(kinds, keys, strict=True):
            if not is_surely(key, kind):
                checks.append(f"0 <= {self.term(key)} < {self.scope.size(kind)}")
        return " and ".join(checks)

    def _count(self, name: str, keys: tuple[Term, ...], view: str) -> str:
        count = self.model.counts[name]
        kinds = tuple(type(k) for k in count.keys)
        if name in self.constants:
            text = f"K_{name.replace('.', '_')}[{self._place(kinds, keys)}]"
        else:
            text = self.sum_of(count, view)
            if keys:
                names = ", ".join(self.var(k) for k in count.keys)
                text = f"(lambda {names}: {text})({', '.join(self.term(k) for k in keys)})"
        guard = self._in_range(kinds, keys)
        return f"({text} if {guard} else {self._missing(name, kinds, keys, '0')})" if guard else text

    def sum_of(self, count: CountOf, view: str) -> str:
        """The text of a count or sum, taken afresh."""
        loops = self._loops(count.elements)
        formula = seen_in(count.formula, view)
        amount = "1" if count.weight is None else self.term(seen_in(count.weight, view))
        return f"sum({amount} {loops} if {self.term(formula)})"

    # ------------------------------------------------------------------------------------------------ functions

    def initial(self) -> str:
        """Gives every entry of a state its first value."""
        self.put("def initial(s):")
        self.indent += 1
        for name, (keys, value) in self.model.inits.items():
            for key in keys:
                self.put(f"for {self.var(key)} in range({self.scope.size(type(key))}):")
                self.indent += 1
            if name in self.model.queues:
                kinds = self.model.queues[name].kinds
                self.put(
                    f"if {self.term(value)}: {self._queue('s', name, keys[: len(kinds)])}[{self.var(keys[-1])}] = None"
                )
            else:
                mapping = self.model.maps[name]
                self.put(f"s.{name}[{self._place(mapping.kinds, keys)}] = {self._stored(name, value, mapping)}")
            self.indent -= len(keys)
        self.put("return s")
        return self._taken()

    def guard(self, act: Action) -> str:
        """Whether an action is possible with these arguments."""
        self._function(f"guard_{act.name}", act.params)
        for s in act.asking:
            if isinstance(s, Let):
                self._statement(s)
            else:
                self.put(f"if not {self.term(s.condition)}: return False")
        self.put("return True")
        return self._taken()

    def enabled(self, act: Action) -> str:
        """All arguments with which an action is possible."""
        self._function(f"enabled_{act.name}", ())
        waiting = act.asking
        seen: set[int] = set()
        depth = 0
        for param in (None, *act.params):
            if param is not None:
                self.put(f"for {self.var(param)} in range({self.scope.size(type(param))}):")
                self.indent += 1
                depth += 1
                seen.add(number_of(param))
            rest: list[Let | Require] = []
            for s in waiting:
                value = s.value if isinstance(s, Let) else s.condition
                if not _needs(value) <= seen:
                    rest.append(s)
                elif isinstance(s, Let):
                    self._statement(s)
                    seen.add(-s.name)
                else:
                    self.put(f"if not {self.term(s.condition)}: {'continue' if depth else 'return'}")
            waiting = rest
        self.put(f"yield ({''.join(self.var(p) + ', ' for p in act.params)})")
        return self._taken()

    def apply(self, act: Action) -> str:
        """Does an action, in place."""
        self._function(f"apply_{act.name}", act.params, ", stop=None")
        self.loops = act.loops
        self.put("events = []")
        for statement in act.body:
            self._statement(statement)
        self.put(f"return events, {'None' if act.result is None else self.term(act.result)}")
        return self._taken()

    def formula(self, params: tuple[Term, ...], formula: Term) -> str:
        """Whether a formula holds, for these values of its parameters."""
        self._function("holds", params)
        self.put(f"return {self.term(formula)}")
        return self._taken()

    def check(self, prop: Property) -> str:
        """Returns None where the property holds, else the values for which it does not (opposite for `sometimes`)."""
        self.put(f"def check_{prop.name}(s, p{''.join(', ' + self.var(v) for v in prop.given.values())}):")
        self.indent += 1
        for binder in prop.binders:
            self.put(f"for {self.var(binder)} in range({self.scope.size(type(binder))}):")
            self.indent += 1
        values = ", ".join(f"{name_of(b)!r}: {self.var(b)}" for b in prop.binders)
        if prop.kind == "sometimes":
            # What has no value is no witness, and others are still looked at.
            self.put("try:")
            self.put(f"    if {self.term(prop.formula)}: return {{{values}}}")
            self.put("except IllFormed: pass")
        else:
            self.put(f"if not {self.term(prop.formula)}: return {{{values}}}")
        self.indent -= len(prop.binders)
        self.put("return None")
        return self._taken()

    def _function(self, name: str, params: tuple[Term, ...], more: str = "") -> None:
        self.put(f"def {name}(s{''.join(', ' + self.var(p) for p in params)}{more}):")
        self.indent += 1
        self.put("p = s")

    # ------------------------------------------------------------------------------------------------ statements

    def _body(self, body: list[Statement]) -> None:
        self.indent += 1
        for statement in body:
            self._statement(statement)
        if not body:
            self.put("pass")
        self.indent -= 1

    def _statement(self, s: Statement) -> None:
        match s:
            case Let():
                self.put(f"t{s.name} = {self.term(s.value)}")
            case Require():
                pass  # Whoever applies an action has asked for it.
            case Assign():
                mapping = self.model.maps[s.name]
                self._demand(mapping.kinds, s.keys, s.name)
                self.put(f"s.{s.name}[{self._place(mapping.kinds, s.keys)}] = {self._stored(s.name, s.value, mapping)}")
            case Push():
                queue, element = self._queue_to_write(s), self.term(s.element)
                if s.where == "before":
                    assert s.anchor is not None
                    self.put(f"push_before({queue}, {self.term(s.anchor)}, {element})")
                else:
                    self.put(f"push_{s.where}({queue}, {element})")
            case Remove():
                self.put(f"remove({self._queue_to_write(s)}, {self.term(s.element)})")
            case Emit():
                self.put(f"events.append(({s.event!r}, {''.join(self.term(a) + ', ' for a in s.args)}))")
                for heard in s.heard:
                    self._statement(heard)
            case When():
                self.put(f"if {self.term(s.condition)}:")
                self._body(s.then)
                if s.otherwise:
                    self.put("else:")
                    self._body(s.otherwise)
            case Each():
                self._each(s)
            case Loop():
                self._loop(s)
            case unknown:
                assert_never(unknown)

    def _queue_to_write(self, s: Push | Remove) -> str:
        queue = self.model.queues[s.name]
        self._demand((*queue.kinds, queue.of), (*s.keys, s.element), s.name)
        return self._queue("s", s.name, s.keys)

    def _each(self, s: Each) -> None:
        for b in s.binders:
            self.put(f"for {self.var(b)} in range({self.scope.size(type(b))}):")
            self.indent += 1
        self.indent -= 1
        self._body(s.body)
        self.indent -= len(s.binders) - 1

    def _stored(self, name: str, term: Term, mapping: Map[Any]) -> str:
        """The value, looked at where its type does not say that it is an element (or none, where that may be)."""
        value, to = self.term(term), mapping.to
        if not may_misfit(term, to, is_optional=mapping.is_optional):
            return value
        least = NONE if may_be_none(term, is_optional=mapping.is_optional) else 0
        size = self.scope.size(to) if issubclass(to, Sort) else None
        return f"stored({name!r}, {to.__name__!r}, {value}, {least}, {size})"

    def _loop(self, s: Loop) -> None:
        index, limit, rounds = self.var(s.index), f"n{s.number}", f"t{s.result}"
        self.put(f"{limit} = {self.term(s.count)}; {rounds} = 0")
        if self.strict:
            self.put(f"entry_{s.number} = copied(s)")
        self.put(f"while {rounds} < {limit}:")
        self.indent += 1
        self._stop(s, rounds)
        self.put(f"{index} = {rounds}")
        for let in s.going_lets:
            self._statement(let)
        self.put(f"if not {self.term(s.going)}: break")
        self.indent -= 1
        self._body(s.body)
        self.indent += 1
        self.put(f"{rounds} += 1")
        self.indent -= 1
        self._stop(s, rounds)

    def _stop(self, s: Loop, rounds: str) -> None:
        """In the middle of the action: to look at the state, and at what is said of the loop."""
        if not self.strict:
            return
        self.put(f"if stop == ({self.loops.index(s)}, {rounds}):")
        self.indent += 1
        self.put(f"{self.var(s.index)} = {rounds}; broken = []")
        for name, fact in s.facts.items():
            self.put(f"if not {self.term(fact)}: broken.append({name!r})")
        self.put("return events, None, broken")
        self.indent -= 1

    def _demand(self, kinds: tuple[type[Term], ...], keys: tuple[Term, ...], name: str) -> None:
        guard = self._in_range(kinds, keys)
        if guard:
            shown = "(" + "".join(self.term(k) + ", " for k in keys) + ")"
            self.put(f"if not ({guard}): out_of_range({name!r}, {shown}, ({self._sizes(kinds)}))")


def _needs(term: Term) -> set[int]:
    """Variables and temporaries (as negative numbers) that must be known before the term is."""
    match term.operation:
        case op.Temporary(number):
            return {-number}
        case op.Variable(_, number):
            return {number}
        case op.Forall(binders, body) | op.Exists(binders, body):
            return _needs(body).difference(map(number_of, binders))
        case _:
            return {number for part in parts(term) for number in _needs(part)}
