"""Replay: the operations of a trace once more, on the machine alone or on a target beside it.

A trace may come from anywhere: what it says is held against the limits (`bounds.py`) before anything is made of it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from ..machine import Model
from ..machine.concrete import Concrete, IllFormed, Result, State, Violation
from ..machine.model import Action
from ..machine.scope import Scope, ScopeError, plain
from ..machine.terms import Bool, name_of
from ..untrusted.text import json_text
from .bounds import check_args, check_counts, check_scope, check_sizes, check_state, check_values
from .circling import Circling
from .lockstep import Call, Divergence, Lockstep, Specs, interpreter
from .states import step_of
from .target import Args, Target
from .trace import Trace, TraceError

__all__ = ["Problem", "Replay", "calls_of", "replay", "replay_calls", "scope_of", "setting_of", "shortened"]


@dataclass(frozen=True)
class Problem:
    """The first thing that is wrong in a replay."""

    kind: Literal["impossible", "result", "snapshot", "violation", "ill-formed", "divergence"]
    """``impossible``, ``result``, ``snapshot`` (the machine differs from what was recorded), ``violation`` (it breaks a
    property of its own), ``ill-formed`` (it does what no machine may do), or ``divergence`` (the target differs)."""
    at: int
    """After how many operations: 0 is the initial state."""
    text: str
    divergence: Divergence | None = None
    around: tuple[str, ...] = ()
    """The machine's states before and after the operation, side by side, for people."""


@dataclass(frozen=True)
class Replay:
    """How far a replay came."""

    operations: int
    """How many there are."""
    done: int
    """How many were done without a problem."""
    problem: Problem | None = None


def replay(
    model: Model, trace: Trace, make_target: Callable[[Any], Target] | None = None, setting: Any = None
) -> Replay:
    """Replay a trace that was recorded on ``model``.

    Args:
        model: the machine.
        trace: its operations are actions of the machine, its dialect the machine's parameters.
        make_target: makes the target to compare with, from ``setting``; by default the machine is replayed alone.
        setting: what the target is made from.

    Raises:
        TraceError: the trace is none of this machine, or asks for more than a trace may.
    """
    calls = calls_of(model, trace)
    scope = scope_of(model, trace) if make_target is None else setting.scope
    _check(model, scope, calls, trace, counts=make_target is not None)
    spec = interpreter(model, scope)
    if (problem := _wrong_with_start(spec)) is not None:  # What no implementation needs to be made with.
        return Replay(len(calls), 0, problem)
    target = None if make_target is None else make_target(setting)
    try:
        return replay_calls(model, scope, calls, target=target, recorded=trace)
    finally:
        if target is not None:
            target.close()


def _wrong_with_start(spec: Concrete) -> Problem | None:
    """The first assumption that the parameters break, or what has no value with them."""
    try:
        if broken := spec.unassumed():
            return Problem("violation", 0, str(broken[0]))
        spec.initial()
    except IllFormed as error:
        return Problem("ill-formed", 0, str(error))
    return None


def _check(model: Model, scope: Scope, calls: Sequence[Call], trace: Trace, *, counts: bool) -> None:
    """Make sure that all of a trace is within the limits, and within its own scope."""
    try:
        check_sizes(scope.sizes)
        check_scope(model, scope)
        if counts:
            check_counts(scope)
        if trace.initial is not None:
            check_state(model, scope, trace.initial)
    except ScopeError as error:
        raise TraceError(f"the trace does not fit machine {model.name}: {error}") from error
    for number, call in enumerate(calls, start=1):
        try:
            check_args(model, scope, call.action, call.args)
        except ScopeError as error:
            raise TraceError(f"operation {number}: {error}") from error


def replay_calls(
    model: Model, scope: Scope, calls: Sequence[Call], *, target: Target | None = None, recorded: Trace | None = None
) -> Replay:
    """Make the calls, and stop at the first problem.

    Args:
        model: the machine.
        scope: its sizes and parameters.
        calls: what to do; probes must not be possible.
        target: a fresh target in the same scope, to compare with.
        recorded: the trace that the calls come from, whose results and snapshots are compared too.

    Raises:
        TraceError: the calls leave the scope.
    """
    run, at = _Run(model, scope, target, recorded), 0
    try:
        problem = run.begin()
        while problem is None and at < len(calls):
            at += 1
            problem = run.step(at, calls[at - 1])
        problem = problem or run.end()
    except IllFormed as error:
        problem = Problem("ill-formed", at, str(error))
    except ScopeError as error:
        raise TraceError(f"operation {at} leaves the trace's scope: {error}") from error
    if problem is None:
        return Replay(len(calls), len(calls))
    return Replay(len(calls), max(problem.at - 1, 0), run.shown(problem, calls))


class _Run:
    """A replay under way: the machine, and the target beside it if there is one."""

    def __init__(self, model: Model, scope: Scope, target: Target | None, recorded: Trace | None) -> None:
        self._lockstep = None if target is None else Lockstep(Specs(model, type(target)), target)
        self._spec = interpreter(model, scope) if self._lockstep is None else self._lockstep.spec
        self._recorded = recorded
        self._state = _first(self._spec, recorded) if self._lockstep is None else self._lockstep.state
        self._circling = Circling(self._spec)
        self._rose: Problem | None = None

    def begin(self) -> Problem | None:
        """What is wrong with the first state."""
        spec, state = self._spec, self._state
        starts_anew = self._recorded is None or self._recorded.initial is None
        demands = [*_broken(spec, state), *spec.violations(state, "assume")]
        if broken := demands + (spec.violations(state, "initially") if starts_anew else []):
            return Problem("violation", 0, str(broken[0]))
        if self._lockstep is not None and (found := self._lockstep.compare(Call("initial", ()))) is not None:
            return Problem("divergence", 0, str(found), found)
        return None

    def step(self, number: int, call: Call) -> Problem | None:
        """Make a call; what is wrong with it, or after it."""
        action, args = call.action, call.args
        if self._spec.is_enabled(self._state, action, args) == call.probe:
            text = f"{action}{args} is {'' if call.probe else 'not '}possible in the machine"
            return Problem("impossible", number, text)
        if call.probe:
            found = None if self._lockstep is None else self._lockstep.probe(action, args)
            result: Result | UnsetType = UNSET
        else:
            before = self._spec.copy(self._state)
            self._circling.leave(before, action, args)
            found, returned = self._do(action, args)
            result, broken = returned, _broken(self._spec, self._state)
            broken += self._spec.step_violations(before, self._state, action, args, returned)
            if severe := [v for v in broken if not v.prop.ranks]:
                return Problem("violation", number, str(severe[0]))
            if broken and self._rose is None:
                self._rose = Problem("violation", number, str(broken[0]))
            if circle := next(self._circling.broken(self._state), None):
                return Problem("violation", number, self._round(*circle))
        if found is not None:
            return Problem("divergence", number, str(found), found)
        return None if self._recorded is None else self._otherwise(number, call, self._recorded, result)

    def end(self) -> Problem | None:
        """What is wrong with the whole: steps that raise a measure, unless they are part of a way round for ever."""
        return self._rose

    def _round(self, name: str, values: tuple[int, ...]) -> str:
        promised = self._spec.model.promises[name]
        place = ", ".join(f"{name_of(b)}={v}" for b, v in zip(promised.binders, values, strict=True))
        return f"{promised.rule} {name}({place}): it was here before, and can go round like this for ever"

    def shown(self, problem: Problem, calls: Sequence[Call]) -> Problem:
        """A problem with the states around it."""
        first = _first(self._spec, None if self._lockstep is not None else self._recorded)
        around = step_of(self._spec, first, [(call.action, call.args) for call in calls[: problem.at]])
        return replace(problem, around=tuple(around))

    def _do(self, action: str, args: Args) -> tuple[Divergence | None, Result]:
        """Do a possible action; where the target differs, and the machine's result."""
        if self._lockstep is None:
            return None, self._spec.apply(self._state, action, args).result
        return self._lockstep.do(action, args), self._lockstep.result

    def _otherwise(self, number: int, call: Call, recorded: Trace, result: Result | UnsetType) -> Problem | None:
        """What the trace says otherwise than the machine."""
        action, args, operation = call.action, call.args, recorded.operations[number - 1]
        if not isinstance(result, UnsetType) and operation.result not in (UNSET, plain(result)):
            text = f"{action}{args} gives {result}, and {operation.result} was recorded"
            return Problem("result", number, text)
        if isinstance(operation.snapshot, dict):
            described = self._spec.describe(self._state)
            for name, value in operation.snapshot.items():
                if name in described and described[name] != value:
                    text = f"{name} is {described[name]} after {action}{args}, and {value} was recorded"
                    return Problem("snapshot", number, text)
        return None


def _first(spec: Concrete, recorded: Trace | None) -> State:
    """The state in which a trace begins; that of a proof's counterexample is any that satisfies the invariants."""
    if recorded is None or recorded.initial is None:
        return spec.initial()
    try:
        return spec.state(recorded.initial)
    except (ScopeError, KeyError, TypeError, IndexError) as error:
        raise TraceError(f"the state in which the trace begins is none of {spec.model.name}: {error}") from error


def _broken(spec: Concrete, state: State) -> list[Violation]:
    """The inductive invariants that the state breaks, or the corollaries where these all hold."""
    broken = spec.violations(state)
    return [v for v in broken if not v.prop.derived] or broken


def scope_of(model: Model, trace: Trace) -> Scope:
    """The machine's sizes and parameters in a trace: those under ``params`` of its dialect, or the dialect itself.

    Raises:
        TraceError: they do not fit the machine, or are beyond what a trace may ask for.
    """
    params = trace.dialect.get("params", trace.dialect)
    if not isinstance(params, dict):
        raise TraceError("the parameters of the machine in the trace's dialect are no mapping; record the trace again")
    values = {n: v for n, v in params.items() if n in model.params}
    try:
        check_sizes(trace.sizes)
        check_values(values)
        scope = Scope(model, dict(trace.sizes), values)
        check_scope(model, scope)
    except ScopeError as error:
        raise TraceError(f"the trace does not fit machine {model.name}: {error}") from error
    return scope


def setting_of(trace: Trace) -> dict[str, Any] | None:
    """What the target's setting described itself as, where the trace has it.

    Raises:
        TraceError: it is beyond what a trace may ask for.
    """
    described = trace.dialect.get("setting")
    if not isinstance(described, dict):
        return None
    sizes, params = described.get("sizes"), described.get("params")
    if not isinstance(sizes, dict) or not isinstance(params, dict):
        raise TraceError("the setting in the trace's dialect has no sizes or no params; record the trace again")
    try:
        check_sizes(sizes)
        check_values(params)
    except ScopeError as error:
        raise TraceError(f"the trace's setting cannot be made: {error}") from error
    return described


def calls_of(model: Model, trace: Trace) -> list[Call]:
    """The operations as calls; those whose result is ``{"refused": true}`` are probes."""
    calls: list[Call] = []
    for number, operation in enumerate(trace.operations, start=1):
        action = model.actions.get(operation.op)
        if action is None:
            raise TraceError(f"operation {number} is {operation.op}, which is no action of {model.name}")
        names = [name_of(p) for p in action.params]
        values = operation.args
        if wrong := _wrong(action, values):
            raise TraceError(f"operation {number}: {operation.op} {wrong}; record the trace again")
        is_probe = isinstance(operation.result, dict) and operation.result.get("refused") is True
        calls.append(Call(operation.op, tuple(int(values[n]) for n in names), is_probe))
    return calls


def _wrong(action: Action, values: dict[str, Any]) -> str:
    """What is wrong with the arguments of an operation; nothing where each parameter has one of its kind."""
    kinds = {name_of(p): type(p) for p in action.params}
    for name, kind in kinds.items():
        if name not in values:
            return f"is given no {name}"
        value = values[name]
        if not isinstance(value, int) or (isinstance(value, bool) and kind is not Bool):
            return f"takes a number as {name}, not {json_text(msgspec.json.encode(value))}"
    unknown = sorted(values.keys() - kinds.keys())
    return f"has no parameter {unknown[0]}" if unknown else ""


def shortened(
    model: Model, calls: Sequence[Call], make_target: Callable[[], Target], wanted: Divergence
) -> tuple[list[Call], Divergence]:
    """Leave out calls for as long as the target still differs in the same variable after the same action.

    What becomes impossible without a call goes with it: all that a request did, where its admission goes.

    Returns:
        the calls that are left, and the divergence after the last of them.
    """

    def diverges(candidate: Sequence[Call]) -> tuple[list[Call], Divergence] | None:
        target = make_target()
        try:
            run = Lockstep(Specs(model, type(target)), target)
            done: list[Call] = []
            for call in candidate:
                if run.spec.is_enabled(run.state, call.action, call.args) == call.probe:
                    continue
                done.append(call)
                found = (run.probe if call.probe else run.do)(call.action, call.args)
                if found is not None:
                    same = (found.oracle, found.call.action) == (wanted.oracle, wanted.call.action)
                    return (done, found) if same else None
            return None
        finally:
            target.close()

    best, divergence = list(calls), wanted
    size = max(1, len(best) // 2)
    while True:
        at = 0
        shrunk = False
        while at < len(best):
            candidate = best[:at] + best[at + size :]
            outcome = diverges(candidate)
            if outcome is None:
                at += size
            else:
                (best, divergence), shrunk = outcome, True
        if size == 1 and not shrunk:
            return best, divergence
        size = size if shrunk and size == 1 else max(1, size // 2)
