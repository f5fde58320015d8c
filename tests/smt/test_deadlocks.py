"""The halts of released engines, in small: each is refuted for any size, and the machine beside it is proved."""

from __future__ import annotations

import pytest

from kvproof.checkers.prove import prove
from kvproof.machine import Machine
from kvproof.spec.liveness import deadlocks


@pytest.mark.parametrize(
    "machine",
    [
        deadlocks.HitsInside,
        deadlocks.AlignedPrefill,
        deadlocks.GrowingRequests,
        deadlocks.ReservedLoads,
        deadlocks.LazyStores,
    ],
)
def test_it_goes_on(machine: type[Machine]) -> None:
    assert [o.goal for o in prove(machine, jobs=1).obligations if o.verdict != "proved"] == []


@pytest.mark.parametrize(
    ("machine", "place", "broken"),
    [
        (deadlocks.HitsInsideAtAnyPrice, "every state", "the_first_leaves_possible"),
        (deadlocks.PrefillBesideDrafts, "every state", "every_prefill_ends_possible"),
        (deadlocks.LookAhead, "give_up", "the_first_leaves_lowered_by_give_up"),
        (deadlocks.HeldLoads, "every state", "who_loads_ends_possible"),
        (deadlocks.LazyStoresOfAll, "replace", "an_idle_engine_rests_lowered_by_replace"),
    ],
)
def test_it_stops(machine: type[Machine], place: str, broken: str) -> None:
    report = prove(machine, jobs=1, only=[place], timeout=1)
    assert {(o.goal.split(" (")[0], o.verdict) for o in report.obligations if o.verdict != "proved"} == {
        (broken, "refuted")
    }
