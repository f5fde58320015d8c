"""The promise of the pool with a line: kept in a small scope, and by nothing less than what it assumes (L1)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kvproof.checkers.explore import explore
from kvproof.harness.scopes import find_scope
from kvproof.machine import Machine, Model, Promise, eventually
from kvproof.machine.scope import Scope
from kvproof.spec.liveness.served import Served
from kvproof.spec.pool import Request

PLAIN = {"Block": 2, "Request": 2, "Position": 2, "Hash": 2, "Content": 3}


def judged(machine: type[Machine], *, caching: bool = False) -> list[str]:
    """What is broken in a small scope."""
    scope = find_scope(machine, PLAIN, split=True, null=False, caching=caching, seed=0)
    if caching:  # each request is to find something, and to need something besides
        found = {"prompt": [[0, 1], [0, 1]], "limit": [1, 1], "need": [2, 2]}
        scope = Scope(Model.of(machine), scope.sizes, {**scope.params, **found})
    report = explore(machine, scope, steps=False)
    return [f"{found.kind} {found.name}" for found in report.violations]


def without(kind: str, action: str) -> type[Machine]:
    """The pool with a line, whose promise assumes less of one action."""

    class Without(Served):
        @eventually("L1")
        def every_request_ends(self, r: Request) -> Promise:
            said = super().every_request_ends(r)
            left = tuple(s for s in getattr(said, kind) if s.action != action)
            return replace(said, only=left) if kind == "only" else replace(said, fair=left)

    return Without


def test_every_request_ends() -> None:
    assert judged(Served) == []


@pytest.mark.parametrize("action", ["allocate", "preempt", "trim"])
def test_a_scheduler_that_takes_other_steps_starves_somebody(action: str) -> None:
    assert judged(without("only", action)) == ["cycle every_request_ends"]


@pytest.mark.nightly
def test_a_lookup_that_leaves_nothing_starves_somebody() -> None:
    assert judged(without("only", "hit"), caching=True) == ["cycle every_request_ends"]


@pytest.mark.parametrize("action", ["admit", "allocate", "preempt", "finish"])
def test_a_scheduler_that_puts_off_a_step_stops(action: str) -> None:
    assert judged(without("fair", action)) == ["invariant every_request_ends_possible"]
