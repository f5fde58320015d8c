"""One action with its arguments, as a step of a Promela model.

The step is a `d_step`: nothing comes between its condition and its end. What it reads it keeps in temporaries, and
where a number may lie is followed from statement to statement, so that only what can go wrong is asserted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, assert_never

from ...machine import Map, Sort
from ...machine.fitting import may_misfit
from ...machine.mistakes import Line
from ...machine.model import RESULT, written
from ...machine.program import Assign, Each, Emit, Let, Loop, Push, Remove, Require, Statement, When
from ...machine.terms import Term, name_of, number_of
from .bounded import FALSE, NONE, TRUE, Expr, add, at_most, both, constant, either, equal, every, less, negate, some
from .promela_file import PromelaFile, narrowest, refusing, said
from .promela_terms import Array, Store, Terms, Value
from .setting import Plan

__all__ = ["Step"]


class Step:
    """One action with its arguments."""

    def __init__(self, file: PromelaFile, plan: Plan, args: Sequence[int]) -> None:
        self.file, self.plan, self.action = file, plan, plan.action
        self.setting = file.setting
        self.open = 0
        """How many temporaries are in use."""
        self.most = 0
        """How many were."""
        self.depth = 2
        self.resets: list[str] = []
        names = [name_of(p) for p in plan.action.params]
        self.given = {n: constant(v) for n, v in zip(names, args, strict=True)}
        self.label = said(f"{plan.action.name}({', '.join(f'{n}={v}' for n, v in zip(names, args, strict=True))})")

    def put(self, line: str) -> None:
        """Add a line of the step."""
        self.file.put("  " * self.depth + line)

    def terms(self, now: Store, before: Store) -> Terms:
        """A translator of terms that knows the arguments."""
        numbers = {number_of(p): self.given[name_of(p)] for p in self.action.params}
        return Terms(self.setting, now, before, numbers)

    def write(self) -> None:
        """Everything of this step."""
        guard = self._guard()
        if guard == FALSE:
            return
        self.depth = 1
        self.put(f"/* {said(self.action.rule)} */")
        self.put(f':: d_step {{ {guard.text} -> printf("STEP {self.label}\\n");')
        self.depth = 2
        before = self._remember()
        self.moment = self.terms(self._working(), before)
        self.body(self.plan.body)
        self._end(before)
        self.depth = 1
        self.put("}")

    # ------------------------------------------------------------------------------------------------ begin and end

    def _guard(self) -> Expr:
        """When the step is possible. Where that has no answer, an option of its own fails."""
        terms = self.terms(self.file.state, self.file.state)
        asked: list[Expr] = []
        for s in self.plan.action.asking:
            value = terms.value(s.value if isinstance(s, Let) else s.condition)
            for needed, what in self._needs(value, s.line):
                self._no_answer(asked, needed, what)
            if isinstance(s, Require):
                asked.append(value.expr)
            else:
                terms.temps[s.name] = value.expr
        return every(asked)

    def _needs(self, value: Value, line: Line) -> tuple[tuple[Expr, str], tuple[Expr, str]]:
        """What must hold for a value to be one, and what is said where it does not."""
        return (
            (value.proper, f"{self.action.name} ({line}) asks for what is not there"),
            (value.exact, f"{self.action.name} ({line}) needs numbers finer than 1/Real"),
        )

    def _no_answer(self, asked: Sequence[Expr], needed: Expr, what: str) -> None:
        wrong = every([*asked, negate(needed)])
        if wrong != FALSE:
            says = f'printf("STEP {self.label}\\n"); printf("BROKEN {said(what)}\\n"); assert(false)'
            self.file.put(f"  :: d_step {{ {wrong.text} -> {says} }}")

    def _remember(self) -> Store:
        """The state before the step: copies of what is written and looked at, and the rest as it stands."""
        store = self.file.state
        for name in sorted(self.plan.remembered):
            for part in (name, f"{name}.size") if name in self.setting.model.queues else (name,):
                array = store.cells[part]
                if isinstance(array, Array):  # scratch and tallies have one value before every step
                    store = store.changed(part, self._copy(array))
        return store

    def _copy(self, array: Array) -> Array:
        kind = narrowest(array.lo, array.hi)
        copy = self.file.rest(f"before_{array.name}", kind, [FALSE] * array.count, array.lo, array.hi)
        self.put(" ".join(f"{copy.name}[{i}] = {array.name}[{i}];" for i in range(array.count)))
        self.resets += [f"{copy.name}[{i}] = 0" for i in range(array.count)]
        return copy

    def _working(self) -> Store:
        """Where the step reads and writes; scratch and tallies have variables where it writes them."""
        store = self.file.state
        for name, mapping in self.setting.model.maps.items():
            if name not in self.plan.written or not (mapping.scratch or mapping.is_tally):
                continue
            values = self.file.first(name)
            lo, hi = min(v.lo for v in values), max(v.hi for v in values)
            own = self.file.rest(f"w_{name}", narrowest(*self.file.widest(mapping)), values, lo, hi)
            self.resets += [f"{own.name}[{i}] = {v.text}" for i, v in enumerate(values)]
            store = store.changed(name, own)
        return store

    def _end(self, before: Store) -> None:
        """The new state lies in the scope, the step has its properties, and what is beside the state is put back."""
        given = {**self._result(), **self.given}
        now = self.moment.now
        for name in self.setting.state():
            array, mapping = now.cells[name], self.setting.model.maps[name]
            _, hi = self.setting.bounds(mapping)
            assert isinstance(array, Array)
            fits = every(self._is_within(mapping, e, hi) for e in array.all())
            self.require(fits, f"a value of {name} leaves the scope, where it is at most {hi}")
            now = now.changed(name, Array(array.name, *self.file.bounds(mapping), array.count))
        for prop in self.plan.steps:
            with refusing(prop.name, prop.line):
                self.file.judge(prop, self.terms(now, before), given, "  " * self.depth)
        self.resets += [f"t_{i} = 0" for i in range(self.most)]
        self.put("; ".join(self.resets) or "skip")

    def _result(self) -> dict[str, Expr]:
        """What the step returns, where a property asks for it."""
        result = self.action.result
        if result is None:
            return {}
        value = self.moment.value(result)
        asserted, *more = self._needs(value, self.action.line)
        is_asked = any(RESULT in p.given for p in self.plan.steps)
        for needed, what in (asserted, *(more if is_asked else ())):
            self.require(needed, what)
        return {RESULT: value.expr}

    def _is_within(self, mapping: Map[Any], value: Expr, hi: int) -> Expr:
        """The value is one that a state of the scope has there."""
        if mapping.is_optional and issubclass(mapping.to, Sort):
            return TRUE  # what is stored was looked at
        fits = both(at_most(constant(0), value), at_most(value, constant(hi)))
        return either(equal(value, NONE), fits) if mapping.is_optional else fits

    def require(self, condition: Expr, what: str) -> None:
        """An assertion."""
        self.file.require(condition, what, "  " * self.depth)

    # ------------------------------------------------------------------------------------------------ temporaries

    @contextmanager
    def _block(self) -> Iterator[None]:
        """Temporaries of a block are free again behind it."""
        opened = self.open
        self.depth += 1
        yield
        self.depth -= 1
        self.open = opened

    def keep(self, expr: Expr) -> Expr:
        """The value as it is now, whatever is written later."""
        if expr.value is not None or re.fullmatch(r"t_\d+", expr.text):
            return expr
        name = self.temporary(expr.lo, expr.hi)
        self.put(f"{name} = {expr.text};")
        return Expr(name, expr.lo, expr.hi)

    def temporary(self, lo: int, hi: int) -> str:
        """A variable that nobody uses now."""
        number, self.open = self.open, self.open + 1
        self.most = max(self.most, self.open)
        known = self.file.temporaries
        if number == len(known):
            known.append((0, 0))
        known[number] = (min(lo, known[number][0]), max(hi, known[number][1]))
        return f"t_{number}"

    # ------------------------------------------------------------------------------------------------ statements

    def body(self, statements: Sequence[Statement]) -> None:
        """Statements in order."""
        for s in statements:
            with refusing(self.action.name, s.line):
                self.statement(s)

    def statement(self, s: Statement) -> None:
        """One statement."""
        match s:
            case Let():
                value = self.value(s.value, s.line)
                if s.name in self.plan.used:
                    self.moment.temps[s.name] = self.keep(value)
            case Assign():
                self._assign(s)
            case Push() | Remove():
                self._queue(s)
            case When():
                self._when(s)
            case Each():
                for numbers in self.setting.every(type(b) for b in s.binders):
                    self.moment.bind(s.binders, numbers)
                    opened = self.open
                    self.body(s.body)
                    self.open = opened
            case Loop():
                self._loop(s)
            case Require() | Emit():
                raise TypeError(f"a {type(s).__name__} is no part of a plan")
            case unknown:
                assert_never(unknown)

    def value(self, t: Term, line: Line) -> Expr:
        """The value of a term, after asserting that it has one."""
        value = self.moment.value(t)
        for needed, what in self._needs(value, line):
            self.require(needed, what)
        return value.expr

    def _assign(self, s: Assign) -> None:
        mapping = self.setting.model.maps[s.name]
        keys = [self.value(k, s.line) for k in s.keys]
        value = self.value(s.value, s.line)
        place = self._place(s.name, mapping.kinds, s.keys, keys, s.line)
        if may_misfit(s.value, mapping.to, is_optional=mapping.is_optional):
            value = self._stored(s, mapping, value)
        lo, hi = self.file.widest(mapping)
        if mapping.is_optional and not s.value.is_optional:
            hi = NONE.lo - 1  # no number may be taken for none
        fits = both(at_most(constant(lo), value), at_most(value, constant(hi)))
        self.require(fits, f"{s.name} ({s.line}) leaves the scope by far in the middle of a step")
        value = value.within(lo, hi)
        array = self.moment.now.cells[s.name]
        assert isinstance(array, Array)
        self.put(f"{array.name}[{place.text}] = {value.text};")
        self._widen(s.name, value.lo, value.hi)

    def _widen(self, name: str, lo: int, hi: int) -> None:
        """An entry may have one of these values from now on."""
        array = self.moment.now.cells[name]
        assert isinstance(array, Array)
        wider = Array(array.name, min(array.lo, lo), max(array.hi, hi), array.count)
        self.moment.now = self.moment.now.changed(name, wider)

    def _stored(self, s: Assign, mapping: Map[Any], value: Expr) -> Expr:
        """What is stored is an element, or none where that may be."""
        is_none = equal(value, NONE) if s.value.is_optional else FALSE
        proper = at_most(constant(0), value)
        if issubclass(mapping.to, Sort):
            proper = both(proper, at_most(value, constant(self.setting.scope.size(mapping.to) - 1)))
        proper = either(is_none, proper) if mapping.is_optional else both(negate(is_none), proper)
        self.require(proper, f"{s.name} ({s.line}) gets what is no {mapping.to.__name__}")
        return value.within(*self.file.bounds(mapping)) if issubclass(mapping.to, Sort) else value.within(0, value.hi)

    def _place(
        self, name: str, kinds: Sequence[type[Term]], terms: Sequence[Term], keys: Sequence[Expr], line: Line
    ) -> Expr:
        """Where an entry is written; none is no key, and the scope has the others."""
        is_none = some(equal(k, NONE) for k, t in zip(keys, terms, strict=True) if t.is_optional)
        self.require(negate(is_none), f"{name} ({line}) is written at none, which is no key")
        is_there, place = self.moment.place(kinds, keys)
        self.require(is_there, f"{name} ({line}) is written outside of the scope")
        return place

    def _queue(self, s: Push | Remove) -> None:
        queue = self.setting.model.queues[s.name]
        keys = [self.keep(self.value(k, s.line)) for k in s.keys]
        element = self.keep(self.value(s.element, s.line))
        anchor = None
        if isinstance(s, Push) and s.anchor is not None:
            anchor = self.keep(self.value(s.anchor, s.line))
        self._place(s.name, (*queue.kinds, queue.of), (*s.keys, s.element), (*keys, element), s.line)
        _, number, begin, capacity = self.moment.ranges(s.name, keys)
        name, size = self.file.array(s.name).name, f"{self.file.array(f'{s.name}.size').name}[{number.text}]"
        member = self._has(s.name, begin, capacity, element)
        if isinstance(s, Remove):
            self.require(member, f"{s.name} ({s.line}): an element is removed from where it does not stand")
            self.put(f"remove_{name}({begin.text}, {size}, {element.text});")
            return
        self.require(negate(member), f"{s.name} ({s.line}): an element is pushed to where it already stands")
        if s.where == "back":
            self.put(f"push_back_{name}({begin.text}, {size}, {element.text});")
        elif s.where == "front":
            self.put(f"push_front_{name}({begin.text}, {size}, {element.text});")
        else:
            assert anchor is not None
            stands = self._has(s.name, begin, capacity, anchor)
            self.require(stands, f"{s.name} ({s.line}): an element is pushed before one that does not stand there")
            self.put(f"push_before_{name}({begin.text}, {size}, {anchor.text}, {element.text});")

    def _has(self, name: str, begin: Expr, capacity: int, element: Expr) -> Expr:
        """The element stands in the queue; none stands in no queue."""
        places = [self.file.array(name).at(add(begin, constant(i))) for i in range(capacity)]
        return both(less(element, constant(capacity)), some(equal(p, element) for p in places))

    def _when(self, s: When) -> None:
        condition = self.value(s.condition, s.line)
        if condition.value is not None:
            self.body(s.then if condition.value else s.otherwise)
            return
        start = self.moment.now
        self.put(f"if :: {condition.text} ->")
        with self._block():
            self.body(s.then)
            self.put("skip")
        one, self.moment.now = self.moment.now, start
        self.put(":: else ->")
        with self._block():
            self.body(s.otherwise)
            self.put("skip")
        self.put("fi;")
        self._join(one)

    def _join(self, other: Store) -> None:
        """After a branch an entry may have what either way has left there."""
        for name, array in other.cells.items():
            if isinstance(array, Array):
                self._widen(name, array.lo, array.hi)

    def _loop(self, s: Loop) -> None:
        limit = self.keep(self.value(s.count, s.line))
        if limit.hi <= 0:
            self.moment.temps[s.result] = constant(0)
            return
        for name in written(s.body) & self.setting.model.maps.keys():
            self._widen(name, *self.file.widest(self.setting.model.maps[name]))
        rounds = Expr(self.temporary(0, limit.hi), 0, limit.hi)
        self.put(f"{rounds.text} = 0;")
        self.put(f"do :: {less(rounds, limit).text} ->")
        with self._block():
            self.moment.variables[number_of(s.index)] = rounds.within(0, limit.hi - 1)
            for let in s.going_lets:
                self.statement(let)
            going = self.value(s.going, s.line)
            if going != TRUE:
                self.put(f"if :: {going.text} -> skip :: else -> break fi;")
            self.body(s.body)
            self.put(f"{rounds.text} = {rounds.text} + 1")
        self.put(":: else -> break od;")
        self.moment.temps[s.result] = rounds
