"""Random runs of a machine and a target together, by Hypothesis.

`state_machine` makes a `RuleBasedStateMachine` from any machine: one rule per action, whose arguments are picked from
those that are possible in the state at hand; some steps try what must be refused instead. Each run leaves out a few
actions, others each time (swarm testing). Hypothesis shrinks what fails. `fuzz` runs it and reports.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from unittest.mock import patch

from hypothesis import HealthCheck, Phase, Verbosity, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from hypothesis.errors import Flaky
from hypothesis.internal import constants_ast
from hypothesis.internal.conjecture import engine, providers
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from ..machine import Machine, Model
from .activity import Activity, Run
from .heap import heap_at_rest
from .lockstep import Call, Divergence, Lockstep, Specs
from .replay import shortened
from .script import to_script, to_trace
from .states import step_of
from .target import Args, Setting, Target
from .trace import Trace

__all__ = ["Coverage", "Difference", "FuzzReport", "first_difference", "fuzz", "state_machine"]

PICK = st.integers(0, 2**16 - 1)
"""What the arguments of a step are picked by. Its zero, to which Hypothesis shrinks, picks the first ones."""

_BATCH = 100
"""Examples between two looks at the clock."""


@dataclass
class Coverage:
    """How often an action was tried."""

    attempted: int = 0
    applied: int = 0
    """It was possible, and target and machine agreed."""
    refused: int = 0
    """It was not possible, and the target refused."""


@dataclass(frozen=True)
class Difference:
    """One difference between machine and target, with the shortest run that was found to show it."""

    oracle: str
    """The variable that differs first, or ``result``, ``events``, ``refusal``, ``stray``, ``residue``,
    ``crash``."""
    rule: str
    """The action that it differs after."""
    report: str
    """Both values, and how to get there: for people."""
    trace: Trace
    script: str
    """Python text that shows the difference without the machine."""
    steps: int


@dataclass
class FuzzReport:
    """What a run of the fuzzer did, and found."""

    target: str = ""
    level: str = ""
    examples: int = 0
    steps: int = 0
    coverage: dict[str, Coverage] = field(default_factory=dict)
    reached: dict[str, bool] = field(default_factory=dict)
    """Which of the machine's `sometimes` properties were true in some state."""
    activity: Activity = field(default_factory=Activity)
    findings: list[Difference] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def untested(self) -> list[str]:
        """The actions that were never applied."""
        return [name for name, c in self.coverage.items() if not c.applied]


class _Diverged(AssertionError):
    """Ends a run. Hypothesis tells failures apart by type and place, so each oracle has a subclass."""

    def __init__(self, found: Divergence, setting: Setting, calls: Sequence[Call]) -> None:
        super().__init__(str(found))
        self.found, self.setting, self.calls = found, setting, tuple(calls)


@cache
def _diverged_in(oracle: str) -> type[_Diverged]:
    return type(f"DivergedIn_{oracle}", (_Diverged,), {})


class _Runner(RuleBasedStateMachine):
    """One run. The rules that `state_machine` adds do no more than call these methods."""

    model: Model
    specs: Specs
    report: FuzzReport
    make_target: Callable[[Any], Target]

    run: Lockstep

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Call] = []
        self.left_out: set[str] = set()
        self.missing = [name for name, reached in self.report.reached.items() if not reached]

    def begin(self, instance: Setting, swarm: int) -> None:
        """A fresh target, the machine in its initial state, and the actions that this run does without."""
        optional = [name for name in self.model.actions if name not in self.specs.essential]
        count, swarm = swarm % min(4, len(optional) + 1), swarm // 4
        for _ in range(count):
            swarm, number = divmod(swarm, len(optional))
            self.left_out.add(optional.pop(number))
        self.instance = instance
        target = self.make_target(instance)
        self.run = Lockstep(self.specs, target)
        report = self.report
        report.target, report.level = target.name, target.level
        report.examples += 1
        self.activity = Run(report.activity, self.specs.kind.lookups)
        self._judge(self.run.compare(Call("initial", ())))

    def do(self, action: str, pick: int) -> None:
        """One step by the rule of this action.

        Six of eight picks want the action done in a way that leads somewhere, one in any possible way. Where there is
        none now, or the action is left out of this run, the next action for which there is one is done instead, so
        that no step is wasted. The eighth pick tries what must be refused.
        """
        mode, rest = pick & 7, pick >> 3
        if mode == 7 and self._probe(action, rest):
            return
        order = self.specs.order
        first = rest % len(order)
        for candidates in (self._worthwhile, self.run.enabled) if mode < 6 else (self.run.enabled,):
            for name in (action, *order[first:], *order[:first]):
                if name not in self.left_out and (args := candidates(name)):
                    self._apply(name, args[rest % len(args)])
                    return
        self._probe(action, rest)

    def _worthwhile(self, action: str) -> list[Args]:
        possible = self.run.enabled(action)
        return self.instance.worthwhile(self.run.state, action, possible) if possible else possible

    def _apply(self, action: str, args: Args) -> None:
        report = self.report
        report.steps += 1
        coverage = report.coverage[action]
        coverage.attempted += 1
        self.calls.append(Call(action, args))
        tight = self.activity.before(action, self.run)
        found = self.run.do(action, args)
        if found is not None:
            self._judge(found)
        coverage.applied += 1
        self.activity.applied(action, self.run, tight)
        if self.missing and report.steps % 8 == 0:  # Now and then: it costs as much as a step does.
            self._notice()

    def _probe(self, action: str, pick: int) -> bool:
        """Try what the target must refuse, if possible for one reason only; false where there is nothing."""
        near = self.run.near_misses(action, pick)
        args = near[(pick >> 3) % len(near)] if near else next(self.run.refusable(action, pick), None)
        if args is None:
            return False
        report = self.report
        report.steps += 1
        coverage = report.coverage[action]
        coverage.attempted += 1
        self.calls.append(Call(action, args, probe=True))
        found = self.run.probe(action, args)
        if found is not None:
            self._judge(found)
        coverage.refused += 1
        self.activity.refused()
        return True

    def _judge(self, found: Divergence | None) -> None:
        if found is not None:
            raise _diverged_in(found.oracle)(found, self.instance, self.calls)

    def _notice(self) -> None:
        for name in self.missing:
            if self.run.spec.holds_somewhere(self.run.state, name):
                self.report.reached[name] = True
        self.missing = [name for name in self.missing if not self.report.reached[name]]


def state_machine(
    machine: type[Machine] | Model,
    make_target: Callable[[Any], Target],
    instances: st.SearchStrategy[Any],
    *,
    specs: Specs,
    report: FuzzReport | None = None,
) -> type[RuleBasedStateMachine]:
    """A Hypothesis state machine that drives the machine and a target in each instance that ``instances`` draws.

    Args:
        machine: the specification.
        make_target: makes a fresh target for an instance.
        instances: draws the instances of the machine's parameters.
        specs: the machine's interpreters for this kind of target.
        report: where steps and coverage are counted.
    """
    model = machine if isinstance(machine, Model) else Model.of(machine)
    report = FuzzReport() if report is None else report
    _prepare(report, model)
    space: dict[str, Any] = {
        "model": model,
        "specs": specs,
        "report": report,
        "make_target": staticmethod(make_target),
        **rules(model, specs.weights, instances, _Runner.begin, _Runner.do),
    }
    return type(f"{model.name}Fuzz", (_Runner,), space)


def rules(
    model: Model,
    weights: Mapping[str, int],
    instances: st.SearchStrategy[Any],
    begin: Callable[[Any, Any, int], None],
    do: Callable[[Any, str, int], None],
) -> dict[str, Any]:
    """The rules for a machine, with their strategies; what they do is given.

    An action with a weight has so many rules. All rules share the name ``step``: Hypothesis leaves rules out of a run
    by their names, any of them, and a run without those that everything begins with would go nowhere.
    """

    def rule_of(name: str) -> Any:
        def step(self: Any, pick: int) -> None:
            do(self, name, pick)

        return rule(pick=PICK)(step)

    def start(self: Any, instance: Any, swarm: int) -> None:
        begin(self, instance, swarm)

    made: dict[str, Any] = {"begin_in": initialize(instance=instances, swarm=PICK)(start)}
    for name in model.actions:
        for number in range(weights.get(name, 1)):
            made[f"do_{name}_{number}"] = rule_of(name)
    return made


def fuzz(
    machine: type[Machine] | Model,
    make_target: Callable[[Any], Target],
    instances: st.SearchStrategy[Any],
    *,
    seed: int = 0,
    examples: int = 100,
    steps: int = 50,
    seconds: float | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    kind: type[Target] | None = None,
) -> FuzzReport:
    """Drive a machine and a target through random runs, and report where they differ.

    The same seed gives the same runs, unless ``seconds`` cuts them short.

    Args:
        machine: the specification.
        make_target: makes a fresh target for an instance: the class of the target, or any function with ``kind`` given.
        instances: draws the instances of the machine's parameters.
        seed: chooses the runs.
        examples: how many runs.
        steps: how many steps a run has at most.
        seconds: begin no further hundred of runs after so long.
        on_progress: called with the numbers of runs and of steps so far.
        kind: the class of the targets, where ``make_target`` is not that class.
    """
    model = machine if isinstance(machine, Model) else Model.of(machine)
    if kind is None:
        if not (isinstance(make_target, type) and issubclass(make_target, Target)):
            raise TypeError("make_target is no Target class: name the class of what it makes, as kind=...")
        kind = make_target
    specs = Specs(model, kind)
    report = FuzzReport(target=kind.name, level=kind.level)
    began = time.monotonic()
    _prepare(report, model)
    for batch in range(-(-examples // _BATCH)):
        count = min(_BATCH, examples - batch * _BATCH)
        scratch = FuzzReport()
        kind_of_run = state_machine(model, make_target, instances, specs=specs, report=scratch)
        failures = _run(seeded((seed << 32) + batch)(kind_of_run), count, steps)
        _add(report, scratch)
        report.findings = [_finding(specs, make_target, failure, seed) for failure in failures]
        report.seconds = time.monotonic() - began
        if on_progress is not None:
            on_progress(report.examples, report.steps)
        if report.findings or (seconds is not None and report.seconds >= seconds):
            break
    return report


def first_difference(
    model: Model, kind: type[Target], instances: st.SearchStrategy[Any], *, seed: int, examples: int, steps: int
) -> str | None:
    """Where a target differs first in such runs, by oracle and action, told at once and not made short; or None."""
    runs = state_machine(model, kind, instances, specs=Specs(model, kind))
    at_once = settings(profile(examples, steps), phases=(Phase.generate,))
    try:
        with heap_at_rest(), nothing_from_modules():
            run_state_machine_as_test(seeded(seed)(runs), settings=at_once)
    except _Diverged as failure:
        return f"{failure.found.oracle} after {failure.found.call.action}"
    except BaseExceptionGroup as group:
        failures = group.subgroup(_Diverged)
        if failures is None:
            raise
        found = _leaves(failures)[0].found
        return f"{found.oracle} after {found.call.action}"
    return None


def _prepare(report: FuzzReport, model: Model) -> None:
    for name in model.actions:
        report.coverage.setdefault(name, Coverage())
    for prop in model.of_kind("sometimes"):
        report.reached.setdefault(prop.name, False)


def _add(report: FuzzReport, more: FuzzReport) -> None:
    report.examples += more.examples
    report.steps += more.steps
    report.activity.add(more.activity)
    for name, coverage in more.coverage.items():
        mine = report.coverage[name]
        mine.attempted += coverage.attempted
        mine.applied += coverage.applied
        mine.refused += coverage.refused
    for name, reached in more.reached.items():
        report.reached[name] |= reached


def profile(examples: int, steps: int) -> settings:
    """The settings of a run: no example database, so that a run depends on its seed alone."""
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        derandomize=False,
        print_blob=False,
        verbosity=Verbosity.quiet,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )


@contextmanager
def nothing_from_modules() -> Iterator[None]:
    """Hypothesis draws numbers that stand in modules of this project now and then, of those that are loaded.

    What is drawn here only picks, so such numbers mean nothing; and a seed has to give the same run wherever it is
    used, whatever was imported before.
    """
    providers.CONSTANTS_CACHE.cache.clear()
    try:
        with patch.object(providers, "_get_local_constants", constants_ast.Constants):
            yield
    finally:  # a finding leaves by an exception
        providers.CONSTANTS_CACHE.cache.clear()


_SHRINKS = 60
"""How often Hypothesis makes a failing run simpler: enough for a small instance, which nothing else makes smaller."""


def _run(kind: Any, examples: int, steps: int) -> list[_Diverged]:
    try:
        # Calls are left out afterwards, which is quicker than drawing anew (`shortened`).
        with heap_at_rest(), nothing_from_modules(), patch.object(engine, "MAX_SHRINKS", _SHRINKS):
            run_state_machine_as_test(kind, settings=profile(examples, steps))
    except _Diverged as failure:
        return [failure]
    except BaseExceptionGroup as group:
        failures = group.subgroup(_Diverged)
        # What fails only sometimes (a flaky target) comes as a group too, and is a finding all the same.
        if failures is None or (group.split(_Diverged)[1] is not None and not isinstance(group, Flaky)):
            raise
        return list(_leaves(failures))
    return []


def _leaves(group: BaseExceptionGroup[_Diverged]) -> list[_Diverged]:
    found: list[_Diverged] = []
    for error in group.exceptions:
        found += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return found


def _finding(specs: Specs, make_target: Callable[[Any], Target], failure: _Diverged, seed: int) -> Difference:
    """A failure, told for people, as a trace, and as a script."""
    setting = failure.setting
    # Hypothesis has shrunk choices; whole calls may still be left out, since a step that became impossible is replaced.
    calls, found = shortened(specs.model, failure.calls, lambda: make_target(setting), failure.found)
    target = make_target(setting)
    try:
        spec, _ = specs.of(setting.scope)
        told = [f"  {target.spell(c.action, c.args)}{'  # must be refused' if c.probe else ''}" for c in calls]
        around = step_of(spec, spec.initial(), [(c.action, c.args) for c in calls])
        report = "\n".join([str(found), f"after {len(calls)} steps:", *told, "the machine around the last:", *around])
        trace = to_trace(spec, target, calls, seed=seed, note=str(found).splitlines()[0])
        script = to_script(spec, target, setting, calls, found)
    finally:
        target.close()
    return Difference(found.oracle, found.call.action, report, trace, script, len(calls))
