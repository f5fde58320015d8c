"""The explorer on the model of the baselines: the counts of TLC, Spin and plain Python, to the state."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
import torch

from kvproof.checkers.explore import explore
from kvproof.machine.batched import Batched

from .alloc import Alloc, AllocBug, scope

COUNTS = {
    (3, 2, 2): (2_106, 19_491),
    (4, 2, 2): (31_833, 365_533),
    (4, 3, 2): (368_793, 5_929_015),
    (5, 2, 2): (536_544, 7_126_939),
}
SLOW = {(4, 3, 2), (5, 2, 2)}


@pytest.mark.parametrize("sizes", [pytest.param(s, marks=pytest.mark.slow) if s in SLOW else s for s in COUNTS])
def test_counts_are_those_of_the_baselines(sizes: tuple[int, int, int]) -> None:
    report = explore(Alloc, scope(Alloc, *sizes))
    assert (report.states, report.generated) == COUNTS[sizes]
    assert report.complete
    assert report.violations == []
    assert report.unreached == []
    assert report.peak_bytes < 100 * report.states + (1 << 20)


def test_nothing_but_the_judgement_depends_on_checking() -> None:
    report = explore(Alloc, scope(Alloc, 3, 2, 2), check=False)
    assert (report.states, report.generated) == COUNTS[3, 2, 2]


def small_card(most: int) -> Any:
    """Batches of more states than this are too much, as they are for a card with little memory."""
    moves = Batched.moves

    def within(self: Batched, words: torch.Tensor) -> Any:
        if words.shape[1] > most:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return moves(self, words)

    return patch.object(Batched, "moves", within)


def test_what_does_not_fit_at_once_is_expanded_in_parts() -> None:
    with small_card(100):
        report = explore(Alloc, scope(Alloc, 3, 2, 2))
    assert (report.states, report.generated) == COUNTS[3, 2, 2]
    assert report.complete


def test_where_not_even_one_state_fits_it_stops() -> None:
    with small_card(0):
        report = explore(Alloc, scope(Alloc, 3, 2, 2))
    assert (report.stopped, report.complete) == ("memory", False)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_counts_on_a_gpu() -> None:
    report = explore(Alloc, scope(Alloc, 4, 2, 2), device="cuda")
    assert (report.states, report.generated) == COUNTS[4, 2, 2]


def test_a_block_that_does_not_leave_the_queue_is_refuted() -> None:
    report = explore(AllocBug, scope(AllocBug, 3, 2, 2))
    assert not report.complete
    assert {f.name for f in report.violations} == {"conservation", "free_exactly_when_unreferenced"}
    for finding in report.violations:
        assert finding.kind == "invariant"
        assert finding.path == [("alloc", (0,))]
        assert finding.initial["free"] == [0, 1, 2]
        assert finding.trace[0].state is not None
        assert finding.trace[0].state["free"] == [0, 1, 2]
        assert finding.trace[0].state["ref"] == [1, 0, 0]
    assert str(report.violations[1]) == "FreeIffZero free_exactly_when_unreferenced(b=0) after 1 steps: alloc(r=0)"
