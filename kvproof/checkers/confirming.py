"""What an exploration found in the batched interpreter, replayed in the concrete one.

So a fault of either is never taken for one of the machine.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from ..machine.batched import Instance
from ..machine.concrete import Concrete, IllFormed, Outcome, State
from ..machine.terms import name_of
from .circling import Circling
from .cycles import Lasso

__all__ = ["Confirming", "Disagreement", "ErrorTrace", "TraceStep"]


class Disagreement(RuntimeError):
    """Two interpreters of one machine differ: a fault of kvproof, not of the machine."""


@dataclass(frozen=True)
class TraceStep:
    """One step of a trace: the action with its arguments by name, what it reported, and the state after it."""

    action: str
    args: dict[str, int]
    outcome: Outcome | None
    """None where the step is ill-formed, so that it has no end."""
    state: dict[str, Any] | None


@dataclass(frozen=True)
class ErrorTrace:
    """What does not hold, and a shortest way there."""

    kind: Literal["invariant", "step", "ill-formed", "cycle"]
    """``invariant``, ``step``, ``ill-formed``, or ``cycle``: a promise is broken by going round for ever."""
    name: str
    """The property or promise; for an ill-formed step, what it did."""
    rule: str
    values: dict[str, int]
    """The values of the property's parameters for which it fails."""
    initial: dict[str, Any]
    trace: tuple[TraceStep, ...]
    around: tuple[str, ...] = ()
    """The states before and after the last step, side by side, for people."""
    returns_to: int | None = None
    """Of a cycle: the state after the last step is that after so many steps, from which it goes on so for ever."""

    @property
    def path(self) -> list[tuple[str, tuple[int, ...]]]:
        """The actions and their arguments."""
        return [(s.action, tuple(s.args.values())) for s in self.trace]

    def __str__(self) -> str:
        values = ", ".join(f"{k}={v}" for k, v in self.values.items())
        steps = "; ".join(f"{s.action}({', '.join(f'{k}={v}' for k, v in s.args.items())})" for s in self.trace)
        rounds = "" if self.returns_to is None else f"; and so on from step {self.returns_to + 1}, for ever"
        return f"{self.rule} {self.name}({values}) after {len(self.trace)} steps: {steps}{rounds}"


class Confirming:
    """Replays ways to states, and says what is broken there."""

    def __init__(self, concrete: Concrete) -> None:
        self.concrete, self.model = concrete, concrete.model

    def state(self, path: list[Instance], reached: dict[str, Any], name: str) -> ErrorTrace:
        """The invariant of this name is broken at the end of a way, in the state that is ``reached`` there.

        Raises:
            Disagreement: not in the concrete interpreter.
        """
        state, initial, trace = self._replayed(path, reached, name)
        try:
            broken = {v.prop.name: v for v in self.concrete.violations(state)}
        except IllFormed as error:
            rule = self.model.properties[name].rule
            return ErrorTrace("ill-formed", f"{name}: {error}", rule, {}, initial, tuple(trace))
        if name not in broken:
            raise Disagreement(
                f"invariant {name} holds in the concrete interpreter, but not in the batched one: "
                f"{self._described(state)}"
            )
        return ErrorTrace("invariant", name, broken[name].prop.rule, broken[name].values, initial, tuple(trace))

    def step(self, path: list[Instance], reached: dict[str, Any], last: Instance, name: str) -> ErrorTrace:
        """The property of steps of this name is broken by a step at the end of a way; or the step is ill-formed.

        Raises:
            Disagreement: not in the concrete interpreter.
        """
        state, initial, trace = self._replayed(path, reached, name)
        is_ill_formed = name.startswith("ill-formed: ")
        try:
            after, step = self._step(state, last)
        except IllFormed:
            if not is_ill_formed:
                raise Disagreement(
                    f"{last.action}{last.args} is ill-formed, but the batched interpreter only found {name}"
                ) from None
            step = TraceStep(last.action, self._named(last), None, None)
            rule = self.model.actions[last.action].rule
            return ErrorTrace("ill-formed", name.removeprefix("ill-formed: "), rule, {}, initial, (*trace, step))
        try:
            assert step.outcome is not None
            found = self.concrete.step_violations(state, after, last.action, last.args, step.outcome.result)
            broken = {v.prop.name: v for v in found}
        except IllFormed as error:
            rule = self.model.properties[name].rule
            return ErrorTrace("ill-formed", f"{name}: {error}", rule, {}, initial, (*trace, step))
        if name not in broken:
            raise Disagreement(
                f"{last.action}{last.args} does not break {name} in the concrete interpreter: {self._described(state)}"
            )
        return ErrorTrace("step", name, broken[name].prop.rule, broken[name].values, initial, (*trace, step))

    def cycle(self, lasso: Lasso, stem: list[Instance], around: list[Instance]) -> ErrorTrace:
        """A promise is broken by going ``around`` for ever, at the end of a way.

        Raises:
            Disagreement: not in the concrete interpreter.
        """
        state = self.concrete.initial()
        initial, trace = self._described(state), list[TraceStep]()
        run = Circling(self.concrete)
        for instance in [*stem, *around]:
            run.leave(state, instance.action, instance.args)
            state, step = self._step(state, instance)
            trace.append(step)
        promised = self.model.promises[lasso.promise]
        values = dict(zip((name_of(b) for b in promised.binders), lasso.values, strict=True))
        if (lasso.promise, lasso.values) not in run.broken(state):
            raise Disagreement(f"{promised.name}{values} is not broken by a cycle in the concrete interpreter")
        return ErrorTrace("cycle", promised.name, promised.rule, values, initial, tuple(trace), returns_to=len(stem))

    def _replayed(
        self, path: Iterable[Instance], reached: dict[str, Any], name: str
    ) -> tuple[State, dict[str, Any], list[TraceStep]]:
        """The state at the end of a way, the first one, and the steps between."""
        state = self.concrete.initial()
        initial, trace = self._described(state), list[TraceStep]()
        for instance in path:
            state, step = self._step(state, instance)
            trace.append(step)
        if self._described(state) != reached:
            raise Disagreement(
                f"the way to a state that breaks {name} ends in another state: {[(i.action, i.args) for i in path]}"
            )
        return state, initial, trace

    def _step(self, state: State, instance: Instance) -> tuple[State, TraceStep]:
        if not self.concrete.is_enabled(state, instance.action, instance.args):
            raise Disagreement(
                f"{instance.action}{instance.args} is not possible in the concrete interpreter: "
                f"{self._described(state)}"
            )
        after, outcome = self.concrete.after(state, instance.action, instance.args)
        return after, TraceStep(instance.action, self._named(instance), outcome, self._described(after))

    def _named(self, instance: Instance) -> dict[str, int]:
        names = [name_of(p) for p in self.model.actions[instance.action].params]
        return dict(zip(names, instance.args, strict=True))

    def _described(self, state: State) -> dict[str, Any]:
        return {
            n: v
            for n, v in self.concrete.describe(state).items()
            if n not in self.model.maps or not self.model.maps[n].is_tally
        }
