"""Replay: the operations of a trace once more, on the machine alone or on a target beside it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import UNSET, UnsetType

from ..machine import Model
from ..machine.concrete import Concrete, State, Violation
from ..machine.scope import Scope, ScopeError
from .lockstep import Call, Divergence, Lockstep, Specs, interpreter
from .target import Target
from .trace import Trace, TraceError

__all__ = ["Problem", "Replay", "calls_of", "replay", "replay_calls", "scope_of", "setting_of", "shortened"]


@dataclass(frozen=True)
class Problem:
    """The first thing that is wrong in a replay."""

    kind: str
    """``impossible``, ``result``, ``snapshot`` (the machine differs from what was recorded), ``violation`` (it breaks a
    property of its own), or ``divergence`` (the target differs from it)."""
    at: int
    """After how many operations: 0 is the initial state."""
    text: str
    divergence: Divergence | None = None


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
        TraceError: the trace is none of this machine.
    """
    target = None if make_target is None else make_target(setting)
    try:
        scope = scope_of(model, trace) if target is None else target.scope
        return replay_calls(model, scope, calls_of(model, trace), target=target, recorded=trace)
    finally:
        if target is not None:
            target.close()


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
    """
    lockstep = None if target is None else Lockstep(Specs(model, type(target)), target)
    spec = interpreter(model, scope) if lockstep is None else lockstep.spec
    state = _first(spec, recorded) if lockstep is None else lockstep.state

    def stop(kind: str, at: int, text: object, divergence: Divergence | None = None) -> Replay:
        return Replay(len(calls), max(at - 1, 0), Problem(kind, at, str(text), divergence))

    starts_anew = recorded is None or recorded.initial is None
    demands = [*_broken(spec, state), *spec.violations(state, "assume")]
    if broken := demands + (spec.violations(state, "initially") if starts_anew else []):
        return stop("violation", 0, broken[0])
    if lockstep is not None and (found := lockstep.compare(Call("initial", ()))) is not None:
        return stop("divergence", 0, found, found)
    for number, call in enumerate(calls, start=1):
        action, args = call.action, call.args
        if spec.is_enabled(state, action, args) == call.probe:
            return stop(
                "impossible", number, f"{action}{args} is {'' if call.probe else 'not '}possible in the machine"
            )
        found = None
        result: int | bool | UnsetType | None = UNSET
        if call.probe:
            found = None if lockstep is None else lockstep.probe(action, args)
        else:
            before = spec.copy(state)
            if lockstep is None:
                result = spec.apply(state, action, args).result
            else:
                found = lockstep.do(action, args)
                result = lockstep.result
            broken = _broken(spec, state) + spec.step_violations(before, state, action, args)
            if broken:
                return stop("violation", number, broken[0])
        if found is not None:
            return stop("divergence", number, found, found)
        if recorded is not None:
            operation = recorded.operations[number - 1]
            if result is not UNSET and operation.result not in (UNSET, result):
                return stop("result", number, f"{action}{args} gives {result}, and {operation.result} was recorded")
            if isinstance(operation.snapshot, dict):
                described = spec.describe(state)
                for name, value in operation.snapshot.items():
                    if name in described and described[name] != value:
                        text = f"{name} is {described[name]} after {action}{args}, and {value} was recorded"
                        return stop("snapshot", number, text)
    return Replay(len(calls), len(calls))


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
    """The machine's sizes and parameters in a trace: those under ``params`` of its dialect, or the dialect itself."""
    params = trace.dialect.get("params", trace.dialect)
    if not isinstance(params, dict):
        raise TraceError("the parameters of the machine in the trace's dialect are no mapping; record the trace again")
    try:
        return Scope(model, dict(trace.sizes), {n: v for n, v in params.items() if n in model.params})
    except ScopeError as error:
        raise TraceError(f"the trace does not fit machine {model.name}: {error}") from error


def setting_of(trace: Trace) -> dict[str, Any] | None:
    """What the target's setting described itself as, where the trace has it."""
    described = trace.dialect.get("setting")
    return described if isinstance(described, dict) else None


def calls_of(model: Model, trace: Trace) -> list[Call]:
    """The operations as calls; those whose result is ``{"refused": true}`` are probes."""
    calls: list[Call] = []
    for number, operation in enumerate(trace.operations, start=1):
        action = model.actions.get(operation.op)
        if action is None:
            raise TraceError(f"operation {number} is {operation.op}, which is no action of {model.name}")
        names = [p.args[0] for p in action.params]
        values = operation.args
        if set(values) != set(names) or not all(isinstance(v, int) for v in values.values()):
            raise TraceError(f"operation {number}: {operation.op} takes {', '.join(names) or 'nothing'}, not {values}")
        is_probe = isinstance(operation.result, dict) and operation.result.get("refused") is True
        calls.append(Call(operation.op, tuple(int(values[n]) for n in names), is_probe))
    return calls


def shortened(
    model: Model, calls: Sequence[Call], make_target: Callable[[], Target], wanted: Divergence
) -> tuple[list[Call], Divergence]:
    """Leave out calls for as long as the target still differs in the same variable after the same action.

    Returns:
        the calls that are left, and the divergence after the last of them.
    """

    def diverges(candidate: Sequence[Call]) -> tuple[int, Divergence] | None:
        target = make_target()
        try:
            run = Lockstep(Specs(model, type(target)), target)
            for number, call in enumerate(candidate, start=1):
                if run.spec.is_enabled(run.state, call.action, call.args) == call.probe:
                    return None
                found = (run.probe if call.probe else run.do)(call.action, call.args)
                if found is not None:
                    same = (found.oracle, found.call.action) == (wanted.oracle, wanted.call.action)
                    return (number, found) if same else None
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
                best, divergence, shrunk = candidate[: outcome[0]], outcome[1], True
        if size == 1 and not shrunk:
            return best, divergence
        size = size if shrunk and size == 1 else max(1, size // 2)
