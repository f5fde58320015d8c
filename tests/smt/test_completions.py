"""What the shipped machines promise is proved for any size, and not where one thing is otherwise (L1, L2)."""

from __future__ import annotations

import pytest

from kvproof.checkers.prove import prove
from kvproof.machine import Bool, Machine, action
from kvproof.machine.model import Model
from kvproof.spec.hybrid.connectors import Job
from kvproof.spec.liveness.completions import LoadsEnd, TransfersEnd
from kvproof.spec.liveness.served import Served
from kvproof.spec.offload import HostBlock, Worker
from kvproof.spec.pool import Request

from ..proofs import of_this_run

NIGHTLY = pytest.mark.nightly


@pytest.mark.parametrize(
    "machine", [LoadsEnd, pytest.param(Served, marks=pytest.mark.slow), pytest.param(TransfersEnd, marks=NIGHTLY)]
)
def test_it_is_proved(machine: type[Machine]) -> None:
    assert Model.of(machine).promises
    assert [o.goal for o in prove(machine, proofs=of_this_run()).obligations if o.verdict != "proved"] == []


class NeverReports(TransfersEnd):
    """A report changes nothing: it can be made again and again."""

    @action("O7")
    def report_store(self, c: HostBlock, w: Worker, ok: Bool) -> None:
        self._require_store_report(c, w, ok)


class HearsNothing(LoadsEnd):
    """A report of a load changes nothing."""

    @action("H6, O11")
    def finish_load(self, r: Request, j: Job, ok: Bool) -> None:
        self.require(self.loading[r] & (self.job[r] == j))


class PreemptsAnybody(Served):
    """Somebody who is preempted goes to the end of the line: whoever came first can be overtaken for ever."""

    @action("P9, P10, L1")
    def preempt(self, r: Request) -> None:
        super().preempt(r)
        self.line.remove(r)
        self.line.push_back(r)


@pytest.mark.parametrize(
    ("machine", "place", "broken"),
    [
        (HearsNothing, "finish_load", "every_load_ends_lowered_by_finish_load"),
        pytest.param(NeverReports, "report_store", "every_store_ends_lowered_by_report_store", marks=NIGHTLY),
        pytest.param(PreemptsAnybody, "preempt", "places_are_counted", marks=NIGHTLY),
    ],
)
def test_it_is_refuted(machine: type[Machine], place: str, broken: str) -> None:
    report = prove(machine, only=[place], timeout=2)
    assert broken in {o.goal.split(" (")[0].split(": ")[-1] for o in report.obligations if o.verdict == "refuted"}
