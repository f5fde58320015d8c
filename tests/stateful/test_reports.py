"""Reports that may be stale or repeated, beside the reference implementation: on a way to each kind of them."""

from __future__ import annotations

import pytest

from kvproof.checkers.lockstep import Lockstep, Specs
from kvproof.harness.instances import Instance
from kvproof.machine import Model
from kvproof.refimpl.offload.manager import OffloadManager
from kvproof.refimpl.offload.transfers import WorkerReport
from kvproof.spec.offload.reports import Reports

from ..explore.tiers import scope
from .reports_target import ReportsTarget

SPECS = Specs(Model.of(Reports), ReportsTarget)

Call = tuple[str, tuple[int, ...]]

COMPUTED: list[Call] = [("admit", (0,)), ("allocate", (0, 1)), ("write", (0, 0, 0, 0)), ("process", (0,))]
STORED: list[Call] = [
    *COMPUTED,
    ("register", (0, 0, 0)),
    ("offer", (0,)),
    ("send_store", (0, 0)),
    ("copy_out", (0, 0)),
    ("hear_store", (0, 0, 1)),
]
STORED_AGAIN: list[Call] = [
    *STORED,
    ("preempt", (0,)),
    ("reset", ()),
    ("admit", (0,)),
    ("allocate", (0, 1)),
    ("write", (0, 0, 0, 0)),
    ("process", (1,)),
    ("register", (0, 0, 0)),
    ("offer", (0,)),
    ("send_store", (0, 1)),
]
LOADED: list[Call] = [
    *STORED,
    ("preempt", (0,)),
    ("evict", (0,)),
    ("admit", (0,)),
    ("look", (0,)),
    ("load", (0, 1)),
    ("send_load", (1, 1)),
    ("copy_in", (1, 0)),
    ("hear_load", (1, 0, 1)),
]
STALE: dict[str, tuple[list[Call], Call]] = {
    "a store, once more": (STORED, ("hear_store", (0, 0, 1))),
    "a store, once more, and badly": (STORED, ("hear_store", (0, 0, 0))),
    "a store to what is filled again": (STORED_AGAIN, ("hear_store", (0, 0, 1))),
    "a load, once more": (LOADED, ("hear_load", (1, 0, 1))),
    "a load, once more, and badly": (LOADED, ("hear_load", (1, 0, 0))),
}


def driven(target: type[ReportsTarget], way: list[Call]) -> Lockstep:
    """Machine and implementation, after a way on which they agree."""
    run = Lockstep(SPECS, target(Instance.of_scope(scope("reports", blocks=2, requests=1, hashes=1, numbers=3))))
    for call in way:
        assert run.do(*call) is None, call
    return run


@pytest.mark.parametrize("name", STALE)
def test_what_is_stale_changes_nothing(name: str) -> None:
    way, stale = STALE[name]
    assert driven(ReportsTarget, way).do(*stale) is None


def test_after_a_stale_report_the_awaited_one_counts() -> None:
    way, stale = STALE["a store to what is filled again"]
    run = driven(ReportsTarget, way)
    for call in (stale, ("copy_out", (0, 0)), ("hear_store", (1, 0, 1)), ("hear_store", (1, 0, 1))):
        assert run.do(*call) is None, call


class _ThanksForEverything(OffloadManager):
    """Who asks whether a report was awaited is told that it was."""

    def report(self, report: WorkerReport) -> bool:
        return super().report(report) or True


class _TakesTheOldestForTheNewest(OffloadManager):
    """A report that nobody awaits is taken for one of the transfer that began last."""

    def report(self, report: WorkerReport) -> bool:
        newest = max(self._transfers, default=report.id)
        return super().report(report) or super().report(WorkerReport(report.worker, newest, report.ok))


class _CountsWhatIsStale(OffloadManager):
    """A report that nobody awaits leaves something behind that no table shows."""

    def report(self, report: WorkerReport) -> bool:
        is_awaited = super().report(report)
        self._queries += not is_awaited
        return is_awaited


@pytest.mark.parametrize(
    ("manager", "name", "oracle"),
    [
        (_ThanksForEverything, "a load, once more", "result"),
        (_TakesTheOldestForTheNewest, "a store to what is filled again", "result"),
        (_CountsWhatIsStale, "a store, once more", "result"),
    ],
)
def test_a_report_that_is_misheard_is_met(manager: type[OffloadManager], name: str, oracle: str) -> None:
    class Wrong(ReportsTarget):
        manager_kind = manager

    way, stale = STALE[name]
    divergence = driven(Wrong, way).do(*stale)
    assert divergence is not None
    assert divergence.oracle == oracle
