"""What BLIS documents of its tiered cache (BC-1 to BC-6, INV-4), as traces without duplicate hashes.

No null block, ids from 0, freed blocks to the tail. The values that a trace records were written down from that
documentation. The reference implementation reproduces them; so does BLIS's own algorithm (`blis_mirror.py`), as none of
these sequences meets its fault.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import UNSET

from kvproof.checkers.replay import calls_of, replay, replay_calls, scope_of
from kvproof.checkers.trace import read_trace
from kvproof.harness.instances import Instance
from kvproof.harness.tiers.targets import MirrorTarget
from kvproof.machine import Machine, Model
from kvproof.spec.tiers.blis_mirror import BlisMirror
from kvproof.spec.tiers.mirror import Mirror

TRACES = sorted(Path(__file__).with_name("traces").glob("blis-*.jsonl"))


def test_the_traces_are_there() -> None:
    assert len(TRACES) >= 9


@pytest.mark.parametrize("path", TRACES, ids=lambda p: p.stem)
def test_the_reference_implementation_reproduces_it(path: Path) -> None:
    trace, model = read_trace(path), Model.of(Mirror)
    scope = scope_of(model, trace)
    assert (scope.params["null"], scope.params["split"]) == (None, False)
    assert any(op.snapshot is not UNSET for op in trace.operations)
    done = replay_calls(
        model, scope, calls_of(model, trace), target=MirrorTarget(Instance.of_scope(scope)), recorded=trace
    )
    assert done.problem is None, done.problem


@pytest.mark.parametrize("machine", [Mirror, BlisMirror])
@pytest.mark.parametrize("path", TRACES, ids=lambda p: p.stem)
def test_both_algorithms_reproduce_it(path: Path, machine: type[Machine]) -> None:
    done = replay(Model.of(machine), read_trace(path))
    assert done.problem is None, done.problem


def test_a_wrong_record_is_noticed() -> None:
    trace = read_trace(next(p for p in TRACES if p.stem == "blis-host-evicts-the-oldest"))
    last = trace.operations[-1]
    assert isinstance(last.snapshot, dict)
    last.snapshot["host"] = [3, 2]
    problem = replay(Model.of(Mirror), trace).problem
    assert problem is not None
    assert problem.kind == "snapshot"
