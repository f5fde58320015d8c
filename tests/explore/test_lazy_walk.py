"""The lazy walk, exhaustively in a small scope: that a call comes to an end; and what finds its mutants."""

from __future__ import annotations

import pytest

from kvproof.checkers.explore import explore
from kvproof.harness.scopes import smallest_scope
from kvproof.machine import Bool, Machine, Model, can, exists, implies, invariant
from kvproof.machine.scope import Scope
from kvproof.spec.offload.lazy_walk import LazyWalk
from kvproof.spec.pool import Block
from tests.smt import broken_lazy_walk

from .chains import alone


class ComesToAnEnd(LazyWalk):
    """What no prover can know without counting: of the blocks ahead, one is the next. And each look counts one down."""

    @invariant("O4, L2")
    def a_call_goes_on_or_stops(self) -> Bool:
        """As long as it is under way."""
        return implies(~self.is_over(), exists(Block, lambda b: can(self.look, b)) | can(self.stop))


class NeverStops(ComesToAnEnd):
    """A call looks at as many blocks as its target says, also where there are fewer."""

    def stop(self) -> None:
        self.require(self.is_over())
        super().stop()


class FollowsItsCursor(broken_lazy_walk.KeepsItsCursor):
    """The cursor may point to a block that is in use, as long as no call begins."""

    def the_cursor_stands_in_the_queue(self, b: Block) -> Bool:
        """When a call is under way."""
        return self.is_over() | super().the_cursor_stands_in_the_queue(b)

    def what_was_passed_is_settled(self, b: Block) -> Bool:
        """So that nothing was passed over by the time that it is looked for."""
        return self.is_over() | super().what_was_passed_is_settled(b)


def test_nothing_is_wrong_with_a_walk() -> None:
    small = smallest_scope(LazyWalk)
    report = explore(small.model, small)
    assert (report.violations, report.unreached) == ([], [])
    assert (report.states, report.transitions, report.depth) == (2_943, 9_084, 25)


def test_a_call_comes_to_an_end() -> None:
    assert explore(ComesToAnEnd, smallest_scope(ComesToAnEnd)).violations == []
    only, small = alone(Model.of(NeverStops), "a_call_goes_on_or_stops"), smallest_scope(NeverStops)
    found = explore(only, Scope(only, small.sizes, small.params)).violations
    assert [v.name for v in found] == ["a_call_goes_on_or_stops"]


def test_a_cursor_that_has_moved_passes_over_what_is_reused_first() -> None:
    """Where only its being in use is looked at: hit, given back at the tail, and everything before it was passed."""
    only, small = alone(Model.of(FollowsItsCursor), "what_was_passed_is_settled"), smallest_scope(FollowsItsCursor)
    found = explore(only, Scope(only, small.sizes, small.params)).violations
    assert [v.name for v in found] == ["what_was_passed_is_settled"]
    done = [step.action for step in found[0].trace]
    assert done.index("hit") < done.index("give_back", done.index("hit")) < len(done)


@pytest.mark.parametrize(
    ("machine", "prop"),
    [(machine, prop) for machine, _, prop, _ in broken_lazy_walk.BROKEN],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_each_fault_is_found(machine: type[Machine], prop: str) -> None:
    only, small = alone(Model.of(machine), prop), smallest_scope(machine)
    assert prop in {v.name for v in explore(only, Scope(only, small.sizes, small.params)).violations}
