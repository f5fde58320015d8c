"""The concrete interpreter: a machine on plain Python values, fast enough to be the oracle of a fuzzer.

Each action and property becomes one Python function. Maps are flat lists, queues ordered dictionaries, elements small
integers, none is -1. What a machine must not do (take the head of an empty queue, push a member, write at none) raises
`IllFormed`.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast

from .concrete_space import IllFormed, space
from .concrete_text import Writer
from .model import RESULT, Model, Property
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


class Concrete:
    """A machine in one scope, ready to run.

    ``strict``: reading at none or at a negative index is ill-formed, as it is in proofs, and not False, 0 or none.
    """

    def __init__(self, model: Model, scope: Scope, *, strict: bool = False) -> None:
        self.model, self.scope = model, scope
        self.changing = tuple([n for n, m in model.maps.items() if not m.is_param] + list(model.queues))
        self._constants = self._constant_counts()
        writer = Writer(model, scope, self._constants, strict=strict)
        self.source = writer.module()
        names = space() | {f"K_{n.replace('.', '_')}": v for n, v in self._constants.items()}
        exec(compile(self.source, f"<{model.name}>", "exec"), names)  # our own text, written from the model
        self._guard = {n: cast(Callable[..., bool], names[f"guard_{n}"]) for n in model.actions}
        self._apply = {n: cast(Callable[..., Any], names[f"apply_{n}"]) for n in model.actions}
        self._enabled = {n: cast(Callable[..., Iterator[Args]], names[f"enabled_{n}"]) for n in model.actions}
        self._check = {n: cast(Callable[..., Any], names[f"check_{n}"]) for n in model.properties}
        self._goals = {n: cast(Callable[..., bool], names[f"goal_{n}"]) for n in model.promises}
        self._serves = {
            (n, act): cast(Callable[..., bool], names[f"serves_{n}_{act}"])
            for n, promised in model.promises.items()
            for act in promised.fair
        }
        self._allows = {
            (n, act): cast(Callable[..., bool], names[f"allows_{n}_{act}"])
            for n, promised in model.promises.items()
            for act in promised.only
        }
        self._initial = cast(Callable[[State], None], names["initial"])

    # ------------------------------------------------------------------------------------------------ running

    def initial(self) -> State:
        """The first state, with the scope's parameters."""
        model, scope = self.model, self.scope
        values: dict[str, Any] = {}
        for name, mapping in model.maps.items():
            if mapping.is_param:
                values[name] = scope.flat(name, mapping, scope.params[name])
            else:
                values[name] = [0] * _volume(scope, mapping.kinds)
        for name, queue in model.queues.items():
            values[name] = [OrderedDict() for _ in range(_volume(scope, queue.kinds))] if queue.kinds else OrderedDict()
        state = State(**values)
        self._initial(state)
        return state

    def is_enabled(self, state: State, action: str, args: Args) -> bool:
        """All that the action requires holds."""
        return self._guard[action](state, *args)

    def enabled(self, state: State, action: str) -> Iterator[Args]:
        """All arguments with which the action is possible."""
        return self._enabled[action](state)

    def apply(self, state: State, action: str, args: Args, *, stop: tuple[int, int] | None = None) -> Outcome:
        """Do the action, in place. The caller has made sure that it is enabled.

        ``stop``: of the loop with this number stop after so many rounds, in the middle of the action, to look at the
        state there (in a strict interpreter).
        """
        events, result, *facts = self._apply[action](state, *args, stop)
        return Outcome(tuple(events), result, *map(tuple, facts))

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
        serves = self._serves.get((promise, action))
        return serves is not None and bool(serves(state, *values, *args))

    def allows(self, state: State, promise: str, values: Args, action: str, args: Args) -> bool:
        """The step from this state is one that is taken, as the promise has it."""
        allows = self._allows.get((promise, action))
        return allows is None or bool(allows(state, *values, *args))

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
        state = self.initial()
        for name, value in described.items():
            if name in self.model.queues:
                queues = value if self.model.queues[name].kinds else [value]
                made = [OrderedDict.fromkeys(q) for q in queues]
                state.__dict__[name] = made if self.model.queues[name].kinds else made[0]
            else:
                state.__dict__[name] = self.scope.flat(name, self.model.maps[name], value)
        return state

    def _constant_counts(self) -> dict[str, list[int]]:
        """Counts that read parameters only are computed once."""
        model, scope = self.model, self.scope
        constants: dict[str, list[int]] = {}
        for name, count in model.counts.items():
            if count.reads:
                continue
            writer = Writer(model, scope, {})
            body = writer.sum_of(count, "now")
            ranges = [range(scope.size(type(k))) for k in count.keys]
            params = ", ".join(["s", *(writer.var(k) for k in count.keys)])
            state = {n: scope.flat(n, m, scope.params[n]) for n, m in model.maps.items() if m.is_param}
            function = eval(f"lambda {params}: {body}", space())  # our own text, written from the model
            constants[name] = [function(State(**state), *keys) for keys in itertools.product(*ranges)]
        return constants


def _volume(scope: Scope, kinds: tuple[type[Term], ...]) -> int:
    volume = 1
    for kind in kinds:
        volume *= scope.size(kind)
    return volume
