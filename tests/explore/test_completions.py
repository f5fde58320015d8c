"""What is in flight ends, in a small scope (L2): no cycle on which a store or a load goes on for ever, and no halt."""

from __future__ import annotations

import pytest

from kvproof.checkers.explore import ExploreReport, explore
from kvproof.harness.scopes import find_scope
from kvproof.machine import Bool, Machine, Model, action, forall, implies
from kvproof.machine.scope import Scope
from kvproof.spec.liveness.completions import TransfersEnd
from kvproof.spec.offload import HostBlock, Worker
from kvproof.spec.pool import Block


def explored(machine: type[Machine]) -> ExploreReport:
    """One request that finds on the host what it left there, and two workers."""
    small = {"Block": 2, "Request": 1, "Position": 2, "Hash": 1, "Content": 2, "Worker": 2}
    scope = find_scope(machine, small, split=True, null=None, caching=True, seed=0)
    found = {"prompt": [[0, 0]], "limit": [1], "need": [2]}
    return explore(machine, Scope(Model.of(machine), scope.sizes, {**scope.params, **found}), steps=False)


@pytest.mark.slow
def test_transfers_end() -> None:
    report = explored(TransfersEnd)
    assert (report.violations, report.complete) == ([], True)
    assert report.unreached == []


class StoreReportedAgain(TransfersEnd):
    """A report of a store changes nothing: it can be made again and again."""

    @action("O7")
    def report_store(self, c: HostBlock, w: Worker, ok: Bool) -> None:
        self._require_store_report(c, w, ok)


class LoadReportedAgain(TransfersEnd):
    """A report of a load changes nothing."""

    @action("O7")
    def report_load(self, b: Block, w: Worker, ok: Bool) -> None:
        self._require_load_report(b, w, ok)
        is_last = forall(Worker, lambda v: (v == w) | ~self.loading[b, v])
        self.require(implies(is_last, ok & ~self.load_failed[b]))


@pytest.mark.parametrize(
    ("machine", "promise"), [(StoreReportedAgain, "every_store_ends"), (LoadReportedAgain, "every_load_ends")]
)
def test_a_transfer_that_goes_on_for_ever_is_found(machine: type[Machine], promise: str) -> None:
    (found,) = explored(machine).violations
    assert (found.kind, found.name) == ("cycle", promise)
