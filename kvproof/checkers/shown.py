"""A state that a solver found, and the step from there: read as plain data, and run in the concrete interpreter.

The concrete interpreter has no part in the encoding: a fault of the encoder cannot pass for a finding.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import z3

from ..machine.concrete import Concrete, IllFormed, State, Violation
from ..machine.formulas import Formula
from ..machine.model import Model
from ..machine.scope import Scope, ScopeError
from ..machine.symbolic import Snapshot, Symbolic
from ..machine.terms import Term, name_of
from ..machine.universe import Finite
from ..machine.writes import SCOPE
from .obligations import COROLLARIES, INITIALLY, Problems
from .states import names_of, side_by_side
from .trace import Operation, Trace

__all__ = ["ROUNDS", "Counterexample", "Start", "read_state", "replayed", "start_of"]

ROUNDS = 4
"""Rounds of a loop behind each of which a step is looked at."""


@dataclass(frozen=True, eq=False)
class Start:
    """A state of a scope, as plain data, and arguments for a step from there."""

    sizes: dict[str, int]
    params: dict[str, Any]
    before: dict[str, Any]
    args: tuple[int, ...]


@dataclass
class Counterexample:
    """A step that breaks a property: the states around it, and what the concrete interpreter says."""

    machine: str
    action: str
    goal: str
    rule: str
    sizes: dict[str, int]
    params: dict[str, Any]
    args: dict[str, int | bool]
    before: dict[str, Any]
    after: dict[str, Any] | None
    broken: str
    replayed: bool
    names: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def start(self) -> Start:
        """Where the step begins."""
        return Start(self.sizes, self.params, self.before, tuple(map(int, self.args.values())))

    @property
    def trace(self) -> Trace:
        """The step as a trace that `replay` runs."""
        operations = (
            [] if self.action in (INITIALLY, COROLLARIES) else [Operation(op=self.action, args=dict(self.args))]
        )
        note = f"breaks {self.goal} ({self.broken})"
        return Trace(self.machine, "machine", operations, self.sizes, self.params, note=note, initial=self.before)

    def render(self) -> str:
        """The step for people: what differs from an empty state, before and after side by side, changes marked."""
        call = f"{self.action}({', '.join(f'{k}={v}' for k, v in self.args.items())})"
        lines = [f"{self.machine}.{call} breaks {self.rule} {self.goal}".replace("  ", " "), f"  {self.broken}"]
        if not self.replayed:
            lines.append("  The concrete interpreter does not see this: an error of the kit, please report it.")
        return "\n".join([*lines, *self.table()])

    def table(self, first: str = "before", last: str = "after") -> list[str]:
        """What differs from an empty state, in two states side by side, changes marked."""
        after = self.before if self.after is None else self.after
        return side_by_side(self.names, self.params, self.before, after, (first, last))


def _number(found: z3.ModelRef, formula: Formula) -> int | bool | Fraction:
    """The value of a formula; an algebraic number, which no machine can hold, as a fraction close by."""
    if isinstance(formula, bool):
        return formula
    value = found.eval(formula, model_completion=True)
    if z3.is_bool(value):
        return bool(z3.is_true(value))
    if z3.is_int(value):
        return int(value.as_long())
    return Fraction(str(value.as_fraction() if z3.is_rational_value(value) else value.approx(20).as_fraction()))


def read_state(symbolic: Symbolic, snapshot: Snapshot, found: z3.ModelRef) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parameters, and a state of a model, as plain data."""
    model, universe = symbolic.model, symbolic.universe
    assert isinstance(universe, Finite)

    def table(kinds: tuple[type[Term], ...], function: Any, is_optional: bool, keys: tuple[Formula, ...] = ()) -> Any:
        if len(keys) < len(kinds):
            return [table(kinds, function, is_optional, (*keys, e)) for e in universe.elements(kinds[len(keys)])]
        value = _number(found, function(*keys))
        if isinstance(value, Fraction):
            return int(value) if value.denominator == 1 else str(value)
        return None if is_optional and value == -1 and not isinstance(value, bool) else value

    def order(name: str, of: type[Term], keys: tuple[Formula, ...]) -> list[Any]:
        has, rank = snapshot.functions[f"{name}.has"], snapshot.functions[f"{name}.rank"]
        members = [e for e in universe.elements(of) if _number(found, has(*keys, e))]
        return [_number(found, e) for e in sorted(members, key=lambda e: _number(found, rank(*keys, e)))]

    params = {n: table(m.kinds, symbolic.params[n], m.is_optional) for n, m in model.params.items()}
    state: dict[str, Any] = {
        n: table(m.kinds, snapshot.functions[n], m.is_optional)
        for n, m in model.maps.items()
        if not m.is_param and not m.scratch
    }
    for n, q in model.queues.items():  # one after the other, by however many keys
        orders = [order(n, q.of, keys) for keys in itertools.product(*map(universe.elements, q.kinds))]
        state[n] = orders if q.kinds else orders[0]
    return params, state


def start_of(
    symbolic: Symbolic, before: Snapshot, args: Sequence[Formula], sizes: dict[str, int], found: z3.ModelRef
) -> Start:
    """The state before a step and its arguments, of a model; the greatest number is one that has room for theirs."""
    params, state = read_state(symbolic, before, found)
    values = tuple(int(_number(found, a)) for a in args)
    numbers = [x for v in (*params.values(), *state.values(), list(values)) for x in _integers(v)]
    return Start(sizes | {"Int": max([8, *(2 * abs(n) for n in numbers)])}, params, state, values)


def replayed(
    model: Model, place: str, goal: str, sizes: dict[str, int], problems: Problems, found: z3.ModelRef
) -> Counterexample:
    """Run the step in the concrete interpreter and say what it breaks there."""
    start = start_of(problems.symbolic, problems.before, problems.args, sizes, found)
    scope = Scope(model, start.sizes, start.params)
    concrete = Concrete(model, scope, strict=True)
    seen = _seen(concrete, place, start.args, start.before, goal)
    prop = None if seen.prop is None else model.properties[seen.prop]
    shown = (
        {}
        if place in (INITIALLY, COROLLARIES)
        else dict(zip(map(name_of, model.actions[place].params), start.args, strict=True))
    )
    before = start.before if place != INITIALLY or seen.after is None else concrete.describe(seen.after)
    return Counterexample(
        model.name,
        place,
        _subject(goal) if prop is None else prop.name,
        "" if prop is None else prop.rule,
        scope.sizes,
        start.params,
        shown,
        before,
        None if seen.after is None else concrete.describe(seen.after),
        seen.broken or "the concrete interpreter finds nothing wrong",
        bool(seen.broken) and seen.is_legal,
        names_of(model),
    )


@dataclass
class _Seen:
    """What the concrete interpreter sees."""

    broken: str = ""
    prop: str | None = None
    """The property that is broken, where it is one."""
    after: State | None = None
    is_legal: bool = True
    """In the state before, every invariant and assumption holds."""


_HAS_A_VALUE = re.compile(r"(?:count )?(\S+) has a value")
"""What `corollaries` asks for of a count or a property."""


def _subject(goal: str) -> str:
    """The property, fact or value that a goal is about."""
    return goal.split(": ")[-1].split(" (")[0]


def _seen(concrete: Concrete, place: str, args: tuple[int, ...], before: dict[str, Any], goal: str) -> _Seen:
    """Go there, and look. What a run begins with follows from the parameters alone."""
    try:
        # Where the first state has no value, that is what is wrong.
        state = concrete.initial() if place == INITIALLY else concrete.state(before)
    except IllFormed as error:
        return _Seen(f"ill-formed: {error}") if place == INITIALLY else _Seen()
    try:
        wrong = concrete.violations(state, "assume")
        if place == INITIALLY:
            wrong += concrete.violations(state, "initially")
        else:
            wrong += [v for v in concrete.violations(state) if not v.prop.derived]
    except IllFormed as error:  # Some property of the state has no value.
        return _Seen(f"ill-formed: {error}", after=state if place == INITIALLY else None)
    if place in (INITIALLY, COROLLARIES):
        seen = _said(concrete, place, state, goal)
    else:
        seen = _step(concrete, state, place, args, goal)
    seen.is_legal = not wrong
    return seen


def _said(concrete: Concrete, place: str, state: State, goal: str) -> _Seen:
    """Look at what is said of one state."""
    try:
        if (unvalued := _HAS_A_VALUE.fullmatch(_subject(goal))) and place == COROLLARIES:
            concrete.demand_value(state, unvalued[1])
        broken = concrete.violations(state)
    except IllFormed as error:
        return _Seen(f"ill-formed: {error}", after=state)
    return _broken(state, [v for v in broken if v.prop.name == _subject(goal)])


def _step(concrete: Concrete, state: State, place: str, args: tuple[int, ...], goal: str) -> _Seen:
    """Make the step, whole and, where the goal stands in a loop, in part."""
    name = _subject(goal)
    stops = _stops(concrete.model, place, goal)
    try:
        if not concrete.is_enabled(state, place, args):
            return _Seen()
    except IllFormed as error:
        return _Seen(f"ill-formed: {error}")
    for stop in (None, *stops):
        after = concrete.copy(state)
        try:
            outcome = concrete.apply(after, place, args, stop=stop)
            broken = concrete.violations(after)
            if stop is None:
                broken += concrete.step_violations(state, after, place, args, outcome.result)
        except IllFormed as error:
            return _Seen(f"ill-formed: {error}", after=after)
        except ScopeError:
            if SCOPE in goal:
                return _Seen(goal)
            continue
        where = "" if stop is None else f", after {stop[1]} rounds of its loop"
        named = [v for v in broken if v.prop.name == name]
        if named:
            return _broken(after, named, where)
        if name in outcome.broken_facts:
            return _Seen(f"{name}: this does not hold{where}", after=after)
    return _Seen()


def _stops(model: Model, place: str, goal: str) -> list[tuple[int, int]]:
    """Where to stop within the loop that the goal speaks of: before the first rounds, and after them."""
    for number, loop in enumerate(model.actions[place].loops):
        if f"loop at {loop.line}: " in goal:
            return [(number, rounds) for rounds in range(ROUNDS + 1)]
    return []


def _broken(state: State, broken: list[Violation], where: str = "") -> _Seen:
    if not broken:
        return _Seen(after=state)
    return _Seen("; ".join(map(str, broken)) + where, broken[0].prop.name, state)


def _integers(value: Any) -> Iterator[int]:
    if isinstance(value, list):
        for v in value:
            yield from _integers(v)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield value
    elif isinstance(value, str):
        yield math.ceil(Fraction(value))
