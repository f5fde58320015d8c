"""A device that may stall, exhaustively in a small scope: there is always a way on, or a stall; and its mutants."""

from __future__ import annotations

import pytest

from kvproof.checkers.explore import explore
from kvproof.harness.scopes import smallest_scope
from kvproof.machine import Bool, Machine, Model, any_of, can, exists, implies, invariant
from kvproof.machine.scope import Scope
from kvproof.spec.pool import Request
from kvproof.spec.timed.links import Transfer
from kvproof.spec.timed.stalls import Stalls
from tests.smt import broken_stalls

from .chains import alone


class GoesOnOrStalls(Stalls):
    """What no prover can know without counting: of any number of deadlines, one is the earliest."""

    @invariant("G1")
    def something_happens_or_is_said(self) -> Bool:
        """As long as somebody waits."""
        goes_on = exists(Transfer, lambda t: can(self.complete, t) | can(self.advance_to_deadline, t))
        is_busy = exists(Request, lambda r: self.running[r] | can(self.enter, r))
        is_left = exists(Request, lambda r: self.waiting[r])
        return implies(is_left, any_of(is_busy, goes_on, can(self.stall)))


class WaitsForEver(GoesOnOrStalls, broken_stalls.WaitsForEver):
    """There is no way on, and nobody says so."""


def test_nothing_is_wrong_with_a_device_that_may_stall() -> None:
    small = smallest_scope(Stalls)
    report = explore(small.model, small)
    assert report.violations == []
    assert (report.states, report.transitions, report.depth) == (936, 2_844, 14)
    # What links alone do with two of them, or with a third copy, is theirs.
    assert report.unreached == ["a_later_copy_ends_first", "two_end_at_one_time"]


def test_there_is_always_a_way_on_or_a_stall() -> None:
    assert explore(GoesOnOrStalls, smallest_scope(GoesOnOrStalls)).violations == []
    only, small = alone(Model.of(WaitsForEver), "something_happens_or_is_said"), smallest_scope(WaitsForEver)
    found = explore(only, Scope(only, small.sizes, small.params)).violations
    assert [v.name for v in found] == ["something_happens_or_is_said"]


@pytest.mark.parametrize(
    ("machine", "prop"),
    [(machine, prop) for machine, _, prop, _ in broken_stalls.BROKEN],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_each_fault_is_found(machine: type[Machine], prop: str) -> None:
    only, small = alone(Model.of(machine), prop), smallest_scope(machine)
    assert prop in {v.name for v in explore(only, Scope(only, small.sizes, small.params)).violations}
