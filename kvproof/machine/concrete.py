"""The concrete interpreter: a machine on plain Python values, fast enough to be the oracle of a fuzzer.

Each action and property becomes one Python function. Maps are flat lists, queues ordered dictionaries, elements small
integers, none is -1. What a machine must not do (take the head of an empty queue, push a member, write at none) raises
`IllFormed`.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from .concrete_space import IllFormed, space
from .concrete_text import Writer
from .model import RESULT, Model, Promised, Property, written
from .scope import Scope
from .terms import Term, name_of

__all__ = ["Concrete", "IllFormed", "Outcome", "Result", "State", "Violation"]

Args = tuple[int, ...]
Reported = tuple[Any, ...]
Result = int | bool | Fraction | None
"""What an action returns; None where it returns nothing."""


class State:
    """One state: an attribute for each map (flat list) and queue (ordered dictionary, or a list of them)."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)

    def copy(self, changing: tuple[str, ...]) -> State:
        """A copy that shares what never changes."""
        fresh = State(**self.__dict__)
        for name in changing:
            value = self.__dict__[name]
            if isinstance(value, OrderedDict):
                fresh.__dict__[name] = value.copy()
            elif value and isinstance(value[0], OrderedDict):
                fresh.__dict__[name] = [q.copy() for q in value]
            else:
                fresh.__dict__[name] = value[:]
        return fresh


@dataclass(frozen=True)
class Outcome:
    """What an action reported: its events in order, and its result."""

    events: tuple[Reported, ...]
    result: Result
    broken_facts: tuple[str, ...] = ()
    """Where the action was stopped in a loop: the facts of that loop that do not hold there."""


@dataclass(frozen=True)
class Violation:
    """A property that does not hold, and for which values of its parameters."""

    prop: Property
    values: dict[str, int]

    def __str__(self) -> str:
        place = ", ".join(f"{k}={v}" for k, v in self.values.items())
        return f"{self.prop.rule} {self.prop.name}({place})"


class _Functions(dict[Any, Any]):
    """Functions of one kind, each made when it is first wanted: of a machine's hundreds a replay wants a few."""

    def __init__(self, make: Callable[[Any], Callable[..., Any]]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, name: Any) -> Callable[..., Any]:
        self[name] = function = self._make(name)
        return function


def _of_steps(promised: Promised, kind: Literal["fair", "only"], action: str) -> tuple[tuple[Term, ...], Term]:
    """What a promise says of the steps of an action, with its parameters."""
    params, said = getattr(promised, kind)[action]
    return (*promised.binders, *params), said


class Concrete:
    """A machine in one scope, ready to run.

    ``strict``: reading at none or at a negative index is ill-formed, as it is in proofs, and not False, 0 or none.
    ``like``: a machine in this scope of which this one differs in actions only; checks that both share are not made
    again.
    """

    def __init__(self, model: Model, scope: Scope, *, strict: bool = False, like: Concrete | None = None) -> None:
        self.model, self.scope = model, scope
        self.changing = tuple([n for n, m in model.maps.items() if not m.is_param] + list(model.queues))
        self._constants: dict[str, list[int]] = self._constant_counts(strict) if like is None else like._constants
        self._names = space() | {f"K_{n.replace('.', '_')}": v for n, v in self._constants.items()}
        text = Writer(model, scope, self._constants, strict=strict)
        actions, promises = model.actions, model.promises
        self._guard: Mapping[str, Callable[..., bool]] = _Functions(lambda name: self._made(text.guard(actions[name])))
        self._apply = _Functions(lambda name: self._made(text.apply(actions[name])))
        self._enabled: Mapping[str, Callable[..., Iterator[Args]]] = _Functions(
            lambda name: self._made(text.enabled(actions[name]))
        )
        self._check: Mapping[str, Callable[..., Any]] = _Functions(
            lambda name: (
                like._check[name]
                if like is not None and like.model.properties[name] is model.properties[name]
                else self._made(text.check(model.properties[name]))
            )
        )
        self._goals = _Functions(lambda name: self._made(text.formula(promises[name].binders, promises[name].goal)))
        self._serves = _Functions(lambda of: self._made(text.formula(*_of_steps(promises[of[0]], "fair", of[1]))))
        self._allows = _Functions(lambda of: self._made(text.formula(*_of_steps(promises[of[0]], "only", of[1]))))
        self._initial = self._made(text.initial())
        self._scratch: dict[str, list[tuple[str, Any]]] = {}

    def _made(self, text: str) -> Callable[..., Any]:
        """A function from its text."""
        made: dict[str, Callable[..., Any]] = {}
        exec(compile(text, f"<{self.model.name}>", "exec"), self._names, made)  # our own text, written from the model
        (function,) = made.values()
        return function

    # ------------------------------------------------------------------------------------------------ running

    def initial(self) -> State:
        """The first state, with the scope's parameters."""
        state = self._given()
        self._initial(state)
        return state

    def _given(self) -> State:
        """The scope's parameters, and nothing that depends on them yet."""
        model, scope = self.model, self.scope
        values: dict[str, Any] = {}
        for name, mapping in model.maps.items():
            if mapping.is_param:
                values[name] = scope.flat(name, mapping, scope.params[name])
            else:
                values[name] = [0] * _volume(scope, mapping.kinds)
        for name, queue in model.queues.items():
            values[name] = [OrderedDict() for _ in range(_volume(scope, queue.kinds))] if queue.kinds else OrderedDict()
        return State(**values)

    def is_enabled(self, state: State, action: str, args: Args) -> bool:
        """All that the action requires holds."""
        return self._guard[action](state, *args)

    def enabled(self, state: State, action: str) -> Iterator[Args]:
        """All arguments with which the action is possible, in order.

        What an action requires is asked as soon as its arguments are chosen, so perhaps before what stands before it.
        Where it has no value then, all is asked once more in the order in which it stands.
        """
        last: Args | None = None
        try:
            for last in self._enabled[action](state):
                yield last
        except IllFormed:
            sizes = [self.scope.size(type(param)) for param in self.model.actions[action].params]
            for args in itertools.product(*map(range, sizes)):
                if (last is None or args > last) and self.is_enabled(state, action, args):
                    yield args

    def apply(self, state: State, action: str, args: Args, *, stop: tuple[int, int] | None = None) -> Outcome:
        """Do the action, in place. The caller has made sure that it is enabled.

        ``stop``: of the loop with this number stop after so many rounds, in the middle of the action, to look at the
        state there (in a strict interpreter).
        """
        events, result, *facts = self._apply[action](state, *args, stop)
        if stop is None:
            for name, first in self._scratch_of(action):
                if state.__dict__[name] != first:
                    raise IllFormed(f"{name} is not back at its first value")
        return Outcome(tuple(events), result, *map(tuple, facts))

    def _scratch_of(self, action: str) -> list[tuple[str, Any]]:
        """The scratch maps that an action writes, each with the values that it has to leave there."""
        known = self._scratch.get(action)
        if known is None:
            maps = self.model.maps
            scratch = [n for n in sorted(written(self.model.actions[action].body)) if n in maps and maps[n].scratch]
            first = self.initial().__dict__ if scratch else {}
            known = self._scratch[action] = [(n, first[n]) for n in scratch]
        return known

    def after(self, state: State, action: str, args: Args) -> tuple[State, Outcome]:
        """The state after the action; the state given stays as it is."""
        fresh = self.copy(state)
        return fresh, self.apply(fresh, action, args)

    def copy(self, state: State) -> State:
        """A state that can change without changing this one."""
        return state.copy(self.changing)

    # ------------------------------------------------------------------------------------------------ judging

    def violations(self, state: State, kind: str = "invariant") -> list[Violation]:
        """The invariants (or assumptions) that the state breaks."""
        found = []
        for prop in self.model.of_kind(kind):
            broken = self._check[prop.name](state, state, *([0] * len(prop.given)))
            if broken is not None:
                found.append(Violation(prop, broken))
        return found

    def unassumed(self) -> list[Violation]:
        """The assumptions that the scope's parameters break: where they do, a first state may have no value."""
        return self.violations(self._given(), "assume")

    def step_violations(self, before: State, after: State, action: str, args: Args, result: Result) -> list[Violation]:
        """The properties of steps that this step, with this result, breaks."""
        parameters = [name_of(p) for p in self.model.actions[action].params]
        by_name = {**dict(zip(parameters, args, strict=True)), RESULT: result}
        found = []
        for prop in self.model.steps_for(action):
            broken = self._check[prop.name](after, before, *(by_name[n] for n in prop.given))
            if broken is not None:
                found.append(Violation(prop, broken))
        return found

    def holds_somewhere(self, state: State, name: str) -> bool:
        """Whether a `sometimes` property is true in this state."""
        return self._check[name](state, state) is not None

    def has_kept(self, state: State, promise: str, values: Args) -> bool:
        """The goal of a promise, for these values of its parameters, is reached in this state."""
        return bool(self._goals[promise](state, *values))

    def serves(self, state: State, promise: str, values: Args, action: str, args: Args) -> bool:
        """The step from this state is one of those that are not put off for ever, as the promise has it."""
        return action in self.model.promises[promise].fair and bool(
            self._serves[promise, action](state, *values, *args)
        )

    def allows(self, state: State, promise: str, values: Args, action: str, args: Args) -> bool:
        """The step from this state is one that is taken, as the promise has it."""
        return action not in self.model.promises[promise].only or bool(
            self._allows[promise, action](state, *values, *args)
        )

    def demand_value(self, state: State, name: str) -> None:
        """Look at what a property says of this state, or at what a count counts, for all elements of the scope.

        Raises:
            IllFormed: somewhere it has no value.
        """
        if name in self.model.counts:
            count = self.model.counts[name]
            binders, terms = (*count.elements, *count.keys), (count.formula, count.weight)
        else:
            prop = self.model.properties[name]
            binders, terms = prop.binders, (prop.formula, None)
        for term in terms:
            if term is not None:
                look = self._made(Writer(self.model, self.scope, {}, strict=True).formula(binders, term))
                for values in itertools.product(*(range(self.scope.size(type(b))) for b in binders)):
                    look(state, *values)

    # ------------------------------------------------------------------------------------------------ looking

    def key(self, state: State) -> tuple[Any, ...]:
        """What makes two states the same: all but parameters, tallies and scratch."""
        result: list[Any] = [tuple(state.__dict__[n]) for n, m in self.model.variables.items() if not m.scratch]
        for name, queue in self.model.queues.items():
            value = state.__dict__[name]
            result.append(tuple(tuple(q) for q in value) if queue.kinds else tuple(value))
        return tuple(result)

    def describe(self, state: State) -> dict[str, Any]:
        """The state as plain data: nested lists for maps, lists of elements for queues; None is none."""
        result: dict[str, Any] = {}
        for name, mapping in self.model.maps.items():
            if not mapping.is_param and not mapping.scratch:
                result[name] = self.scope.nested(mapping, state.__dict__[name])
        for name, queue in self.model.queues.items():
            value = state.__dict__[name]
            result[name] = [list(q) for q in value] if queue.kinds else list(value)
        return result

    def state(self, described: dict[str, Any]) -> State:
        """The opposite of `describe`; what is left out has its first value."""
        state = self._given()
        if not described.keys() >= set(self.changing):
            self._initial(state)
        for name, value in described.items():
            if name in self.model.queues:
                queues = value if self.model.queues[name].kinds else [value]
                made = [OrderedDict.fromkeys(q) for q in queues]
                state.__dict__[name] = made if self.model.queues[name].kinds else made[0]
            else:
                state.__dict__[name] = self.scope.flat(name, self.model.maps[name], value)
        return state

    def _constant_counts(self, strict: bool) -> dict[str, list[int]]:
        """Counts that read parameters only are computed once; one without a value has none wherever it is read."""
        model, scope = self.model, self.scope
        constants: dict[str, list[int]] = {}
        for name, count in model.counts.items():
            if count.reads:
                continue
            writer = Writer(model, scope, {}, strict=strict)
            body = writer.sum_of(count, "now")
            ranges = [range(scope.size(type(k))) for k in count.keys]
            params = ", ".join(["s", *(writer.var(k) for k in count.keys)])
            state = {n: scope.flat(n, m, scope.params[n]) for n, m in model.maps.items() if m.is_param}
            function = eval(f"lambda {params}: {body}", space())  # our own text, written from the model
            with suppress(IllFormed):
                constants[name] = [function(State(**state), *keys) for keys in itertools.product(*ranges)]
        return constants


def _volume(scope: Scope, kinds: tuple[type[Term], ...]) -> int:
    volume = 1
    for kind in kinds:
        volume *= scope.size(kind)
    return volume
