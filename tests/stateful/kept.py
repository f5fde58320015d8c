"""Ways on which mutants show, as traces: each was found from nothing once, by the fuzzer or by a walk, and kept.

Where a mutant shows is a matter of milliseconds once it is known; to find it takes seconds to minutes. So every run of
the tests goes these ways, and ``make nightly`` finds each anew. ``python -m tests.stateful.kept`` writes them anew, as
is needed where a machine's actions have changed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from kvproof.checkers.lockstep import Divergence, Specs
from kvproof.checkers.replay import calls_of, replay_calls, setting_of
from kvproof.checkers.script import to_trace
from kvproof.checkers.target import Target
from kvproof.checkers.trace import Operation, Trace, read_trace, write_trace
from kvproof.checkers.walk import walk_in_lockstep
from kvproof.machine import Model

__all__ = ["shows_again", "sought", "trace_of_walk"]

TRACES = Path(__file__).with_name("traces") / "mutants"


def shows_again(
    name: str, mutant: Callable[[Any], Target], right: Callable[[Any], Target], model: Model, load: Callable[[Any], Any]
) -> Divergence:
    """What a mutant does wrong at the end of its kept way, on which the implementation itself does nothing wrong."""
    trace = read_trace(TRACES / f"{name}.jsonl")
    instance, calls = load(setting_of(trace)), calls_of(model, trace)
    assert replay_calls(model, instance.scope, calls, target=right(instance)).problem is None
    again = replay_calls(model, instance.scope, calls, target=mutant(instance))
    assert again.problem is not None
    assert again.problem.divergence is not None, again.problem
    assert again.done == len(calls) - 1
    return again.problem.divergence


def sought(names: Iterable[str], quick: Sequence[str]) -> list[Any]:
    """Mutants to be found from nothing: the first of the quick ones always, the others in CI, the rest at night."""
    marks = {True: pytest.mark.slow, False: pytest.mark.nightly}
    return [name if name == quick[0] else pytest.param(name, marks=marks[name in quick]) for name in names]


def trace_of_walk(specs: Specs, make_mutant: Callable[[Any], Target], instance: Any, max_states: int) -> Trace | None:
    """The way on which an exhaustive walk notices a mutant."""
    walked = walk_in_lockstep(specs, make_mutant(instance), max_states=max_states)
    if walked.divergence is None:
        return None
    spec, _ = specs.of(instance.scope)
    note = str(walked.divergence).splitlines()[0]
    return to_trace(spec, make_mutant(instance), walked.path, seed=None, note=note)


def keep(name: str, trace: Trace) -> None:
    """Keep where a mutant shows: what was called, and in which instance."""
    refused = {"refused": True}
    operations = [Operation(o.op, o.args, o.result if o.result == refused else UNSET) for o in trace.operations]
    TRACES.mkdir(exist_ok=True)
    write_trace(TRACES / f"{name}.jsonl", replace(trace, operations=operations, initial=None))


def main() -> None:
    """Search all anew."""
    from . import test_mutants, test_offload, test_tiers, test_tree

    for module in (test_mutants, test_tiers, test_offload, test_tree):
        for name in module.KEPT:
            keep(name, module.found(name))
            print(name, file=sys.stderr)


if __name__ == "__main__":
    main()
