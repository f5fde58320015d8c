"""Walking a machine: every state that it reaches in small scopes, as far as patience goes, each judged.

The concrete interpreter runs the machine and has no part in proofs. It is a little stricter here: a read at none, or at
an element of another sort, has no value, and a property or action that reads there is ill-formed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any
from unittest.mock import patch

from kvproof.machine import Bool, Index, Int, Machine, Model, Property, Real, Sort, concrete_space
from kvproof.machine import concrete as interpreter
from kvproof.machine import operations as op
from kvproof.machine.concrete import Args, Concrete, IllFormed, State
from kvproof.machine.concrete_text import Writer
from kvproof.machine.model import RESULT
from kvproof.machine.scope import Scope, ScopeError
from kvproof.machine.terms import Term, name_of

from .choices import Draw

__all__ = ["COROLLARIES", "INITIALLY", "Violation", "Walk", "walk"]

INITIALLY, COROLLARIES = "initially", "every state"
"""Where a property is broken, if not by an action."""

ROUNDS = 8
"""So many scopes are tried."""
STATES = 40
"""So many states are looked at in each."""
ARGUMENTS = 10
"""So many ways to call one action in one state."""
INTEGERS = (0, 1, -1, 2, 3, -2, 5)
"""What a parameter may be where there is no end of its values."""
LARGEST = 1000
"""Numbers beyond this are not followed."""


@dataclass
class Violation:
    """What does not hold: a property, or the well-formedness of a statement or first value."""

    prop: str
    """The property; empty where a statement or first value is ill-formed."""
    place: str
    """The action that broke it, or one of the places above."""
    what: str
    sizes: dict[str, int]
    params: dict[str, Any]
    trace: list[str]

    def __str__(self) -> str:
        sizes = ", ".join(f"{n}={v}" for n, v in {**self.sizes, **self.params}.items())
        return f"{self.prop or 'ill-formed'}: {self.what} [{sizes}] {'; '.join(self.trace) or 'at first'}"


@dataclass
class Walk:
    """What a walk saw."""

    violations: dict[str, Violation] = field(default_factory=dict)
    """By property; an ill-formed statement by its place, in parentheses."""
    states: int = 0
    steps: int = 0
    moved: set[str] = field(default_factory=set)
    """The actions that were possible somewhere."""
    disagreements: list[str] = field(default_factory=list)
    """Where two parts of the concrete interpreter differ."""


def walk(machine: type[Machine], seed: int | str, *, rounds: int = ROUNDS, states: int = STATES) -> Walk:
    """Walk the machine in a few scopes drawn from the seed."""
    model, draw, found = Model.of(machine), Draw(f"walk {seed}"), Walk()
    for number in range(rounds):
        scope = _scope(model, draw, number)
        _InScope(model, scope, draw, found, states).go()
        if number == 2:
            _compare_guards(model, scope, found)
    return found


# ------------------------------------------------------------------------------------------------ scopes


def _scope(model: Model, draw: Draw, number: int) -> Scope:
    """Sizes and parameters, from the smallest on."""
    most = min(3, 1 + number // 2)
    sizes = {Scope.root(k): draw.number(1, most + issubclass(k, Index)) for k in model.sorts.values()}
    plain = Scope.__new__(Scope)  # without parameters yet, only to know how large a table has to be
    plain.model, plain.sizes = model, {"Int": 3, **sizes}
    params = {name: _table(plain, draw, list(m.kinds), m.to, m.is_optional) for name, m in model.params.items()}
    return Scope(model, sizes, params)


def _table(scope: Scope, draw: Draw, kinds: list[type[Term]], to: type[Term], is_optional: bool) -> Any:
    if kinds:
        return [_table(scope, draw, kinds[1:], to, is_optional) for _ in range(scope.size(kinds[0]))]
    if is_optional and draw.chance(0.3):
        return None
    if to is Bool:
        return draw.chance(0.5)
    if to is Real:
        return draw.pick((Fraction(0), Fraction(1), Fraction(1, 2), Fraction(-1, 3)))
    return draw.number(0, scope.size(to) - 1) if issubclass(to, Sort | Index) else draw.pick(INTEGERS)


def _values(scope: Scope, kind: type[Term]) -> tuple[Any, ...]:
    """All values of a parameter of an action, or some where there is no end of them."""
    if kind is Bool:
        return (False, True)
    return tuple(range(scope.size(kind))) if issubclass(kind, Sort | Index) else INTEGERS


# ------------------------------------------------------------------------------------------------ the interpreter

_NO_VALUE = """
def no_value(read):
    raise IllFormed(read + " has no value")
"""


class _StrictWriter(Writer):
    """Writes reads so that those without a value are noticed."""

    def read(self, t: Term, read: op.Reading) -> str:
        text = super().read(t, read)
        checks = []
        for kind, key in zip(self._kinds(read), read.keys, strict=True):
            shown = self.term(key)
            if issubclass(kind, Index):
                checks += [f"{shown} >= 0"] * (not isinstance(key.operation, op.Variable))
            elif issubclass(kind, Sort):
                checks.append(f"0 <= {shown} < {self.scope.size(kind)}")
        return f"({text} if {' and '.join(checks)} else no_value({repr(t)!r}))" if checks else text

    def _kinds(self, read: op.Reading) -> list[type[Term]]:
        match read:
            case op.Total():
                return [type(k) for k in self.model.counts[read.name].keys]
            case op.Entry():
                return list(self.model.maps[read.name].kinds)
            case _:
                return list(self.model.queues[read.name].kinds)


class _StrictConcrete(Concrete):
    """The concrete interpreter, with properties judged one by one."""

    def __init__(self, model: Model, scope: Scope) -> None:
        helpers = concrete_space.HELPERS + _NO_VALUE
        with patch.object(interpreter, "Writer", _StrictWriter), patch.object(concrete_space, "HELPERS", helpers):
            super().__init__(model, scope)

    def meets(self, kind: str, state: State) -> bool:
        """The properties of a kind hold, and have values."""
        try:
            return not self.violations(state, kind)
        except IllFormed:
            return False

    def parameters(self) -> State:
        """A state of which only the parameters are known."""
        params = self.model.params.items()
        return State(**{n: self.scope.flat(n, m, self.scope.params[n]) for n, m in params})

    def judged(self, prop: Property, now: State, before: State, given: dict[str, Any]) -> str:
        """Why the property does not hold; empty where it does."""
        try:
            broken = self._check[prop.name](now, before, *(given[n] for n in prop.given))
        except IllFormed as error:
            return f"no value: {error}"
        return "" if broken is None else f"false for {broken}"


class _InScope:
    """The walk in one scope, breadth first."""

    def __init__(self, model: Model, scope: Scope, draw: Draw, found: Walk, most: int) -> None:
        self.model, self.scope, self.draw, self.found, self.most = model, scope, draw, found, most
        self.concrete = _StrictConcrete(model, scope)
        self.ways: dict[Any, tuple[Any, str]] = {}
        """For each state: from which it was reached first, and by what."""
        self.rest: dict[str, Any] = {}
        """The first values of scratch."""

    def go(self) -> None:
        concrete = self.concrete
        if not concrete.meets("assume", concrete.parameters()):
            return
        try:
            start = concrete.initial()
        except IllFormed as error:
            self._report("", INITIALLY, str(error), [])
            return
        except ScopeError:
            return
        if not concrete.meets("initially", start):
            return
        self.rest = {n: getattr(start, n) for n, m in self.model.maps.items() if m.scratch}
        self.ways[concrete.key(start)] = (None, "")
        self._judge(start, INITIALLY)
        waiting = [start]
        for state in waiting:
            for after, action, step in self._steps(state):
                key = concrete.key(after)
                if key in self.ways or len(waiting) >= self.most or _is_large(key):
                    continue
                self.ways[key] = (concrete.key(state), step)
                self._judge(after, action)
                waiting.append(after)
        self.found.states += len(waiting)

    def _steps(self, state: State) -> Iterator[tuple[State, str, str]]:
        """The steps from a state, each judged: the state after it, the action, and the step in words."""
        for name, action in self.model.actions.items():
            choices = list(itertools.product(*[_values(self.scope, type(p)) for p in action.params]))
            for args in self.draw.some(choices, ARGUMENTS):
                step = f"{name}({', '.join(map(str, args))})"
                after = self._step(state, name, args, step)
                if after is not None:
                    yield after, name, step

    def _step(self, state: State, name: str, args: Args, step: str) -> State | None:
        concrete = self.concrete
        try:
            if not concrete.is_enabled(state, name, args):
                return None
            self.found.moved.add(name)
            after, outcome = concrete.after(state, name, args)
        except IllFormed as error:
            self._report("", name, str(error), [*self._way(state), step])
            return None
        except ScopeError:
            return None
        self.found.steps += 1
        for scratch, first in self.rest.items():
            if getattr(after, scratch) != first:  # what follows begins as if it were, so it has to be
                self._report("", name, f"{scratch} is not back at its first value", [*self._way(state), step])
                return None
        names = [name_of(p) for p in self.model.actions[name].params]
        given = {**dict(zip(names, args, strict=True)), RESULT: outcome.result}
        for prop in self.model.steps_for(name):
            if prop.name not in self.found.violations:
                what = concrete.judged(prop, after, state, given)
                if what:
                    self._report(prop.name, name, what, [*self._way(state), f"{step} -> {outcome.result}"])
        return after

    def _judge(self, state: State, action: str) -> None:
        for prop in self.model.of_kind("invariant"):
            if prop.name not in self.found.violations:
                what = self.concrete.judged(prop, state, state, {})
                if what:
                    self._report(prop.name, COROLLARIES if prop.derived else action, what, self._way(state))

    def _report(self, prop: str, place: str, what: str, way: list[str]) -> None:
        violation = Violation(prop, place, what, dict(self.scope.sizes), self.scope.params, way)
        self.found.violations.setdefault(prop or f"({place})", violation)

    def _way(self, state: State) -> list[str]:
        steps: list[str] = []
        key = self.concrete.key(state)
        while key is not None:
            key, step = self.ways[key]
            steps.append(step)
        return steps[-2::-1]


def _is_large(key: Any) -> bool:
    if isinstance(key, tuple):
        return any(map(_is_large, key))
    return key is not None and abs(key) > LARGEST


def _compare_guards(model: Model, scope: Scope, found: Walk) -> None:
    """What is possible in the first state: by asking for all arguments at once, and for each."""
    concrete = Concrete(model, scope)
    try:
        state = concrete.initial()
    except (IllFormed, ScopeError):
        return
    for name, action in model.actions.items():
        if any(type(p) is Int for p in action.params):
            continue
        try:
            each = itertools.product(*[_values(scope, type(p)) for p in action.params])
            one_by_one = {a for a in each if concrete.is_enabled(state, name, a)}
        except IllFormed:
            continue
        try:
            at_once = set(concrete.enabled(state, name))
        except IllFormed as error:
            found.disagreements.append(f"enabled({name}) is ill-formed ({error}), and no single guard is")
            continue
        if at_once != one_by_one:
            found.disagreements.append(f"enabled({name}) gives {at_once}, the guards {one_by_one}")
