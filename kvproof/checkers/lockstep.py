"""A machine and a target side by side: the same action on both, and everything compared.

The fuzzer, the replayer and the exhaustive walk (`walk.py`) all make their steps here, so a difference means the same
thing everywhere.
"""

import copy
import dataclasses
import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..machine import Action, Model
from ..machine import operations as op
from ..machine.concrete import Concrete, IllFormed, Result
from ..machine.program import Require, Statement
from ..machine.scope import Scope
from ..machine.terms import Term
from ..machine.traversal import walk
from ..untrusted.text import one_line
from .target import Args, Fields, Target, nested, observable

__all__ = ["Call", "Divergence", "Lockstep", "Specs", "interpreter"]


@dataclass(frozen=True, slots=True)
class Call:
    """One step: an action that is possible, or a ``probe``, which is not and must be refused."""

    action: str
    args: Args
    probe: bool = False


@dataclass(frozen=True)
class Divergence:
    """The first thing in which machine and target differ, after one call."""

    oracle: str
    """A variable of the machine, or ``result``, ``events``, ``refusal``, ``stray``, ``residue`` or ``crash``."""
    call: Call
    expected: Any
    actual: Any
    also: tuple[str, ...] = ()
    """The other variables that differ."""

    def __str__(self) -> str:
        """What was done, and both values."""
        done = f"{'trying ' if self.call.probe else ''}{self.call.action}{self.call.args}"
        lines = [
            f"{self.oracle} differs after {done}",
            f"  specification:  {self.expected}",
            f"  implementation: {self.actual}",
        ]
        if self.also:
            lines.append(f"  also different: {', '.join(self.also)}")
        return "\n".join(lines)


class Specs:
    """Interpreters of one machine, made once per size: writing and compiling one takes longer than a run does."""

    def __init__(self, model: Model, kind: type[Target]) -> None:
        """For ``model``, and for targets of the given kind."""
        shown = (*kind.fields, *kind.kept_for, *kind.kept_for.values())
        unknown = [f for f in shown if f not in model.maps and f not in model.queues]
        if unknown:
            raise ValueError(f"{kind.__name__} shows {', '.join(unknown)}, which {model.name} does not have")
        self.model = model
        self.kind = kind
        self.fields = kind.fields
        self.weights = kind.weights
        self.essential = kind.essential
        self.order = [
            name
            for n in range(max(kind.weights.values(), default=1))
            for name in model.actions
            if kind.weights.get(name, 1) > n
        ]
        """The actions, those with weight more often."""
        self.guards = _guards_for(model, kind)
        self.near: dict[str, list[str]] = {name: [] for name in model.actions}
        """Per action, the guards of which exactly one requirement is missing."""
        for guard in self.guards.actions:
            if guard.startswith("near_"):
                self.near[guard.split("_", 2)[2]].append(guard)

    def of(self, scope: Scope) -> tuple[Concrete, Concrete]:
        """The interpreter of the machine, and that of the guards of what a target refuses, in this scope."""
        return interpreter(self.model, scope), interpreter(self.guards, scope)


_GUARDS: dict[tuple[Any, ...], Model] = {}
_SPECS: dict[tuple[Model, tuple[Any, ...]], Concrete] = {}


def interpreter(model: Model, scope: Scope) -> Concrete:
    """The interpreter in this scope; written and compiled once for all scopes that differ in other parameters only."""
    key = (*sorted(scope.sizes.items()), *(repr(scope.params[n]) for n in _compiled_in(model)))
    made = _SPECS.get((model, key))
    if made is None:
        made = _SPECS[model, key] = Concrete(model, dataclasses.replace(scope, model=model))
    spec = copy.copy(made)
    spec.scope = scope
    return spec


@functools.cache
def _compiled_in(model: Model) -> list[str]:
    """The parameters that an interpreter's text depends on: those that counts over parameters alone read."""
    formulas = [count.formula for count in model.counts.values() if not count.reads]
    reads = [p.operation for f in formulas for p in walk(f)]
    return sorted({read.name for read in reads if isinstance(read, op.Entry | op.Has)})


def _guards_for(model: Model, kind: type[Target]) -> Model:
    """What `_guards` makes, once for all kinds of targets that refuse the same."""
    contract = (model, kind.fields, *(frozenset(table.items()) for table in (kind.unjudged, kind.ignored)))
    made = _GUARDS.get(contract)
    if made is None:
        made = _GUARDS[contract] = _guards(model, kind)
    return made


def _guards(model: Model, kind: type[Target]) -> Model:
    """Guards as actions of a machine of their own.

    For each action ``judged_`` one with what the target looks at, ``strict_`` one with what it must refuse, and for
    each requirement that it looks at, by number, one with all others: ``near_0_`` and so on.
    """
    for table in (kind.unjudged, kind.ignored):
        for name, marks in table.items():
            if name not in model.actions:
                raise ValueError(f"{kind.__name__} speaks of an action {name} that {model.name} does not have")
            for mark in marks:
                if not any(_is_marked(r, frozenset({mark})) for r in model.actions[name].requirements):
                    raise ValueError(f"{kind.__name__}: no requirement of {name} is or reads {mark}")
    actions: dict[str, Action] = {}
    for name, action in model.actions.items():
        prefix: list[Statement] = [*action.asking]
        shown = {*kind.fields, *model.params}
        unjudged, ignored = (table.get(name, frozenset()) for table in (kind.unjudged, kind.ignored))
        judged = [
            s
            for s in prefix
            if not isinstance(s, Require) or not (_is_marked(s, unjudged) or _read(model, s.condition) - shown)
        ]
        strict = [s for s in judged if not isinstance(s, Require) or not _is_marked(s, ignored)]
        bodies = {"judged": judged, "strict": strict}
        for number, left_out in enumerate(s for s in judged if isinstance(s, Require)):
            bodies[f"near_{number}"] = [s for s in judged if s is not left_out]
        for label, body in bodies.items():
            actions[f"{label}_{name}"] = dataclasses.replace(action, name=f"{label}_{name}", body=body, result=None)
    return dataclasses.replace(model, actions=actions, properties={})


def _is_marked(requirement: Require, marks: frozenset[str]) -> bool:
    """By its text, or by a variable or parameter that it reads."""
    condition = requirement.condition
    return repr(condition) in marks or any(
        isinstance(read := p.operation, op.Entry) and read.name in marks for p in walk(condition)
    )


def _read(model: Model, condition: Term) -> set[str]:
    """The variables and parameters that a condition reads, also through counts."""
    names: set[str] = set()
    for part in walk(condition):
        match part.operation:
            case op.Total(_, name):
                names |= set(model.counts[name].reads)
            case op.Size(_, name):
                names |= set(model.counts[f"{name}.size"].reads)
            case op.Read(_, name):
                names.add(name)
    return names


class Lockstep:
    """One run of a machine and a target together."""

    def __init__(self, specs: Specs, target: Target) -> None:
        """Begin, both in their initial states."""
        self.spec, self._guards = specs.of(target.scope)
        self._near = specs.near
        self.target = target
        self.state = self.spec.initial()
        self.result: Result = None
        """The machine's result of the latest step."""
        self.events: tuple[tuple[Any, ...], ...] = ()
        """What it reported in it."""
        queues = specs.model.queues
        self._kind = specs.kind
        self._maps = [f for f in specs.fields if f not in queues and f not in specs.kind.kept_for]
        self._plain = [f for f in specs.fields if f in queues and not queues[f].kinds]
        self._keyed = [f for f in specs.fields if f in queues and queues[f].kinds]
        self._fields = specs.fields
        self._enabled: dict[str, list[Args]] = {}

    def enabled(self, action: str) -> list[Args]:
        """All arguments with which the action is possible now."""
        known = self._enabled.get(action)
        if known is None:
            known = self._enabled[action] = list(self.spec.enabled(self.state, action))
        return known

    def refusable(self, action: str, start: int = 0) -> Iterator[Args]:
        """The arguments that the target must refuse, or answer with doing nothing; the ``start``-th tuple first."""
        scope = self.spec.scope
        sizes = [scope.size(type(p)) for p in self.spec.model.actions[action].params]
        volume = 1
        for size in sizes:
            volume *= size
        judged = f"judged_{action}"
        for offset in range(volume):
            rest = (start + offset) % volume
            args: list[int] = []
            for size in reversed(sizes):
                rest, argument = divmod(rest, size)
                args.append(argument)
            candidate = tuple(reversed(args))
            if not self._guards.is_enabled(self.state, judged, candidate):
                yield candidate

    def near_misses(self, action: str, which: int) -> list[Args]:
        """Arguments that the target must refuse for one reason only; ``which`` chooses the reason."""
        near = self._near[action]
        for guard in near[which % len(near) :][:2] if near else ():
            candidates, judged = self._satisfying(guard), f"judged_{action}"
            if found := [args for args in candidates if not self._guards.is_enabled(self.state, judged, args)]:
                return found
        return []

    def _satisfying(self, guard: str) -> list[Args]:
        """Arguments that satisfy a guard; none where what it requires means nothing without what it leaves out."""
        try:
            return list(self._guards.enabled(self.state, guard))
        except IllFormed:
            return []

    def do(self, action: str, args: Args) -> Divergence | None:
        """Make a possible step on both sides and compare result, events, and all that can be observed."""
        outcome = self.spec.apply(self.state, action, args)
        self.result, self.events = outcome.result, outcome.events
        self._enabled.clear()
        try:
            answer = self.target.apply(action, args)
        except Exception as error:
            return self._crashed(Call(action, args), error)
        if answer.refused is not None:
            return Divergence("refusal", Call(action, args), "possible", f"refused: {answer.refused}")
        if answer.result != outcome.result:
            return Divergence("result", Call(action, args), outcome.result, answer.result)
        if not self.target.reports:
            return self.compare(Call(action, args))
        if answer.events != outcome.events and _in_no_order(answer.events) != _in_no_order(outcome.events):
            return Divergence("events", Call(action, args), list(outcome.events), list(answer.events))
        return self.compare(Call(action, args))

    def probe(self, action: str, args: Args) -> Divergence | None:
        """Try what is not possible, and what names nothing: it must be refused, and nothing may change."""
        call = Call(action, args, probe=True)
        residue = self.target.residue()
        divergence = self.must_refuse(action, args) or self.refuse_strays(call) or self.compare(call)
        if divergence is None and (now := self.target.residue()) != residue:
            return Divergence("residue", call, residue, now)
        return divergence

    def must_refuse(self, action: str, args: Args) -> Divergence | None:
        """The part of a probe that looks at the answer only."""
        call = Call(action, args, probe=True)
        try:
            answer = self.target.refuse(action, args)
        except Exception as error:
            return self._crashed(call, error)
        if answer.refused is None and not self._guards.is_enabled(self.state, f"strict_{action}", args):
            return Divergence("refusal", call, "not possible", f"done, with result {answer.result}")
        if answer.events:
            return Divergence("events", call, [], list(answer.events))
        return None

    def refuse_strays(self, call: Call) -> Divergence | None:
        """Make the calls that name what is not there, beside one that was refused."""
        try:
            done = self.target.strays()
        except Exception as error:
            return self._crashed(call, error)
        return Divergence("stray", call, "all of them refused", f"done: {', '.join(done)}") if done else None

    def compare(self, call: Call) -> Divergence | None:
        """Everything that can be observed, whole."""
        try:
            actual = self.target.flat()
        except Exception as error:
            return self._crashed(call, error)
        state = self.state.__dict__
        same = (
            all(state[f] == actual[f] for f in self._maps)
            and all([*state[f]] == actual[f] for f in self._plain)
            and all(list(map(list, state[f])) == actual[f] for f in self._keyed)
        )
        if same and not self._kind.kept_for:
            return None
        return self._difference(call, actual)

    def expected(self) -> Fields:
        """The machine's side of what is compared."""
        return observable(self._kind, self.spec.scope, self.state)

    def fork(self) -> "Lockstep":
        """A second run in the same state."""
        forked = copy.copy(self)
        forked.state, forked.target, forked._enabled = self.spec.copy(self.state), self.target.fork(), {}
        return forked

    def _difference(self, call: Call, actual: Fields) -> Divergence | None:
        expected = self.expected()
        different = [f for f in self._fields if expected[f] != actual[f]]
        if not different:
            return None
        first = different[0]
        both = [_readable(self.spec.scope, first, side[first]) for side in (expected, actual)]
        return Divergence(first, call, both[0], both[1], tuple(different[1:]))

    @staticmethod
    def _crashed(call: Call, error: Exception) -> Divergence:
        return Divergence("crash", call, "an answer", one_line(f"{type(error).__name__}: {error}"))


def _readable(scope: Scope, name: str, value: list[Any]) -> Any:
    try:
        return nested(scope, {name: value})[name]
    except (IndexError, ValueError):
        return value


def _in_no_order(events: tuple[tuple[Any, ...], ...]) -> list[Any]:
    """Runs of one kind of event, sorted: what an action does for each hash of a block has no order."""
    return [sorted(run, key=repr) for _, run in itertools.groupby(events, key=lambda e: e[0])]
