"""A target through every transition of a small scope, beside the machine."""

import copy
import itertools
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from ..machine import Machine, Model
from ..machine.concrete import State
from .lockstep import Call, Divergence, Lockstep, Specs
from .target import Args, Target

__all__ = ["WalkReport", "lockstep", "walk_in_lockstep"]


@dataclass(frozen=True)
class WalkReport:
    """What an exhaustive walk has seen."""

    states: int
    transitions: int
    refusals: int
    complete: bool
    """Every reachable state was visited."""
    divergence: Divergence | None
    path: tuple[Call, ...]
    """The calls from the initial state to the divergence, the diverging one last."""


@dataclass
class _Visited:
    state: State
    came_from: "_Visited | None"
    call: Call | None

    def path(self) -> list[Call]:
        """The calls that lead here."""
        calls: list[Call] = []
        node: _Visited | None = self
        while node is not None and node.call is not None:
            calls.append(node.call)
            node = node.came_from
        return calls[::-1]


def lockstep(
    machine: type[Machine] | Model,
    target: Target,
    *,
    max_states: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> WalkReport:
    """Drive a target, in its initial state, through every transition of its scope (`walk_in_lockstep`)."""
    model = machine if isinstance(machine, Model) else Model.of(machine)
    return walk_in_lockstep(Specs(model, type(target)), target, max_states=max_states, on_progress=on_progress)


def walk_in_lockstep(
    specs: Specs,
    target: Target,
    *,
    max_states: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> WalkReport:
    """Drive the target through every transition of its scope, breadth first, and try everything that it must refuse.

    Args:
        specs: the machine.
        target: a target in its initial state.
        max_states: stop after so many states.
        on_progress: called with the number of states and of transitions done, now and then.
    """
    start = Lockstep(specs, target)
    seen = {start.spec.key(start.state)}
    queue: OrderedDict[int, tuple[_Visited, Target]] = OrderedDict()
    queue[0] = _Visited(start.state, None, None), target
    states = transitions = refusals = 0
    number = itertools.count(1)
    here = copy.copy(start)

    def report(divergence: Divergence | None, node: _Visited | None, complete: bool) -> WalkReport:
        path = (*node.path(), divergence.call) if divergence is not None and node is not None else ()
        return WalkReport(states, transitions, refusals, complete, divergence, path)

    divergence = start.compare(Call("initial", ()))
    if divergence is not None:
        return WalkReport(0, 0, 0, False, divergence, ())
    while queue:
        if max_states is not None and states >= max_states:
            return report(None, None, False)
        _, (node, run) = queue.popitem(last=False)
        states += 1
        here.state, here.target = node.state, run
        here._enabled = {}
        tried, divergence = _try_refusals(here)
        refusals += tried
        if divergence is not None:
            return report(divergence, node, False)
        for action in specs.model.actions:
            for args in here.enabled(action):
                there = here.fork()
                divergence = there.do(action, args)
                transitions += 1
                if divergence is not None:
                    return report(divergence, node, False)
                key = there.spec.key(there.state)
                if key not in seen:
                    seen.add(key)
                    queue[next(number)] = _Visited(there.state, node, Call(action, args)), there.target
                else:
                    there.target.close()
        run.close()
        if on_progress is not None and states % 100 == 0:
            on_progress(states, transitions)
    return report(None, None, True)


def _try_refusals(here: Lockstep) -> tuple[int, Divergence | None]:
    """Try all that must be refused. Whether anything changed is looked at once, and only then call by call."""
    tried: list[tuple[str, Args]] = [(a, args) for a in here.spec.model.actions for args in here.refusable(a)]
    untouched = here.target.fork()
    residue = here.target.residue()
    found: Divergence | None = None
    for action, args in tried:
        found = here.must_refuse(action, args)
        if found is not None:
            return len(tried), found
    call = Call("all that is refused", (), probe=True)
    found = here.refuse_strays(call) or here.compare(call)
    if found is None and (now := here.target.residue()) != residue:
        found = Divergence("residue", call, residue, now)
    if found is not None:
        here.target = untouched
        found = next(filter(None, (here.probe(action, args) for action, args in tried)), found)
    else:
        untouched.close()
    return len(tried), found
