"""A promise in a small scope: no reachable cycle with fair steps on which it is never kept, and no halt before it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kvproof.checkers.cycles import _Edges, _lasso
from kvproof.checkers.explore import explore
from kvproof.checkers.replay import replay
from kvproof.checkers.trace import read_trace, write_trace
from kvproof.cli.commands.explore import to_trace
from kvproof.machine import Machine, Model
from kvproof.machine.scope import Scope
from tests import promises


def broken(machine: type[Machine]) -> list[str]:
    """What does not hold."""
    report = explore(machine, Scope(Model.of(machine), promises.SIZES))
    return [f"{found.kind} {found.name}" for found in report.violations]


def test_a_cycle_without_fair_steps_is_no_fault() -> None:
    assert broken(promises.Jobs) == []


@pytest.mark.parametrize(
    ("machine", "around"),
    [
        (promises.Undone, {"work", "undo"}),
        (promises.Idle, {"work"}),
        (promises.Starved, {"begin", "work"}),
    ],
)
def test_going_round_for_ever(machine: type[Machine], around: set[str], tmp_path: Path) -> None:
    model = Model.of(machine)
    scope = Scope(model, promises.SIZES)
    report = explore(machine, scope)
    (found,) = report.violations
    assert (found.kind, found.name, found.rule) == ("cycle", "every_job_ends", "L2")
    assert found.returns_to is not None
    assert found.returns_to < len(found.trace)
    assert {s.action for s in found.trace[found.returns_to :]} == around
    states = [found.initial, *(s.state for s in found.trace)]
    assert states[found.returns_to] == states[-1]
    assert "for ever" in str(found)
    write_trace(tmp_path / "trace.jsonl", to_trace(report, scope.params))
    again = replay(model, read_trace(tmp_path / "trace.jsonl"))
    assert again.problem is not None
    assert (again.problem.kind, again.problem.at) == ("violation", len(found.trace))
    assert "every_job_ends" in again.problem.text


@pytest.mark.parametrize("machine", [promises.Locked, promises.Nobody])
def test_a_halt_before_the_goal(machine: type[Machine]) -> None:
    assert broken(machine) == ["invariant every_job_ends_possible"]


@settings(max_examples=100, deadline=None)
@given(
    steps=st.sets(st.tuples(st.integers(0, 7), st.integers(0, 7), st.booleans()), max_size=16),
    open_=st.lists(st.booleans(), min_size=8, max_size=8),
)
def test_the_search_finds_what_there_is(steps: set[tuple[int, int, bool]], open_: list[bool]) -> None:
    """Beside the definition: a fair step, and a way back to where it began, where nothing is reached."""
    inside = {(a, b, f) for a, b, f in steps if open_[a] and open_[b]}
    reach = {(a, b) for a, b, _ in inside} | {(a, a) for a in range(8)}
    for middle in range(8):
        reach |= {(a, b) for a in range(8) for b in range(8) if {(a, middle), (middle, b)} <= reach}
    rows = torch.tensor(sorted(inside), dtype=torch.int32).reshape(-1, 3)
    found = _lasso(
        torch.tensor(open_), _Edges(rows[:, 0], rows[:, 1], torch.ones(len(rows)).long(), rows[:, 2].long()), 1
    )
    assert (found is not None) == any(f and (b, a) in reach for a, b, f in inside)
    if found is not None:
        following = [*found[1:], found[0]]
        assert (found[0], following[0], True) in inside
        assert all({(a, b, True), (a, b, False)} & inside for a, b in zip(found, following, strict=True))
