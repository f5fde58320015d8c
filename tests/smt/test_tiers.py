"""Machines M and D, their composition, and D without pinning: proved; and their twins with a fault refuted."""

from __future__ import annotations

import re

import pytest

from kvproof.checkers.heritage import heritage
from kvproof.checkers.prove import ProveReport, prove
from kvproof.machine import Machine, Model, when
from kvproof.spec.mirror import Mirror
from kvproof.spec.pin import Pinned
from kvproof.spec.pinning_off import PinningOff
from kvproof.spec.pool import Block, Pool, Request
from kvproof.spec.statistics import Statistics
from kvproof.spec.tiered import Tiered

from . import broken_tiers


def open_ends(report: ProveReport) -> list[tuple[str, str, str, str]]:
    return [(o.action, o.goal, o.verdict, o.note) for o in report.obligations if o.verdict != "proved"]


@pytest.mark.parametrize(
    ("machine", "rules"),
    [
        (Mirror, {"M1", "M2", "M3", "M4", "M5", "M6", "M7", "M8"}),
        (Pinned, {"D1", "D2", "D3", "D4", "D5", "D6", "D7"}),
        (PinningOff, {"D6"}),
        (Tiered, {"M1", "M2", "M5", "D2", "D3", "D5"}),
    ],
    ids=lambda x: x.__name__ if isinstance(x, type) else "",
)
def test_the_machine_is_proved(machine: type[Machine], rules: set[str]) -> None:
    assert open_ends(prove(machine)) == []
    # Where a property speaks of nothing that any action writes (M1), no question is left to ask.
    promised = [p for p in Model.of(machine).properties.values() if p.kind in ("invariant", "step", "assume")]
    assert rules <= {r for p in promised for r in re.findall(r"[A-Z]\d+", p.rule)}


@pytest.mark.parametrize(
    ("machine", "action", "prop", "rule"),
    [
        pytest.param(*row, marks=() if row[0] in broken_tiers.AT_ONCE else pytest.mark.slow, id=row[0].__name__)
        for row in broken_tiers.BROKEN
        if row[1] != "hit"
    ],
)
def test_each_fault_is_refuted(machine: type[Machine], action: str, prop: str, rule: str) -> None:
    report = prove(machine, only=[action], timeout=2.0)
    refuted = [o for o in report.obligations if o.verdict == "refuted" and o.counterexample is not None]
    assert all(o.counterexample is not None and o.counterexample.replayed for o in refuted)
    # Either the property itself, or a fact of the loop from which it follows.
    assert any(prop in o.goal or rule in o.rule or o.goal.startswith("loop at") for o in refuted), open_ends(report)


# ------------------------------------------------------------------------------------------------ what is inherited


def test_what_an_extension_leaves_alone_is_not_asked_again() -> None:
    mirror = heritage(Model.of(Mirror))
    assert mirror["allocate"].of == ["Statistics", "Pool"]
    assert "free_exactly_when_unreferenced" in mirror["allocate"].settled.properties
    assert mirror["hit"].of == []
    tiered = heritage(Model.of(Tiered))
    assert tiered["drop"].of == ["Pinned"]
    # P's queue is not all of D's: nothing is taken over from P.
    assert {h for place in heritage(Model.of(Pinned)).values() for h in place.of} == set()


class CountsMore(Statistics):
    """Writes state of its own only."""

    def finish(self, r: Request) -> None:
        """A request leaves, and is noted."""
        super().finish(r)
        self.queries.add(0)


class WritesBaseState(Pool):
    """One write to P's state more, at the end of one action."""

    def finish(self, r: Request) -> None:
        """A request leaves, and the one block that it held last is lost."""
        super().finish(r)
        self.running[r] = True


class WritesBaseStateSometimes(Pool):
    """The same statements, one of them under a condition."""

    def _release(self, b: Block) -> None:
        left = self.ref_cnt[b] - 1
        with when(left != 1):
            self.ref_cnt[b] = left
        with when(left == 0):
            self._join(b)


class AsksForLess(Pool):
    """A requirement of P is missing."""

    def skip(self, r: Request) -> None:
        """A position gets the null block, whether the request is running or not."""
        self.table[r, self.length[r]] = self.null.value
        self.length[r] = self.length[r] + 1


class PromisesSomethingElse(Pool):
    """An invariant of P's name says less, so nothing that rests on it may be taken over."""

    def the_map_and_the_blocks_agree(self, b: Block) -> bool:  # type: ignore[override]
        """Nothing."""
        return self.ref_cnt[b] == self.ref_cnt[b]  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("machine", "action"),
    [(WritesBaseState, "finish"), (WritesBaseStateSometimes, "trim"), (AsksForLess, "skip")],
)
def test_an_action_that_does_something_else_is_not_inherited(machine: type[Machine], action: str) -> None:
    inherited = heritage(Model.of(machine))
    assert inherited[action].of == []
    assert inherited["evict"].of == ["Pool"]


def test_nothing_is_inherited_from_a_base_whose_invariants_changed() -> None:
    assert all(h.of == [] for h in heritage(Model.of(PromisesSomethingElse)).values())
    assert all("Pool" in h.of for h in heritage(Model.of(CountsMore)).values())


def test_alone_asks_everything() -> None:
    short, whole = prove(Statistics, only=["skip"]), prove(Statistics, only=["skip"], alone=True)
    assert short.inherited > 0
    assert short.bases == {"Pool"}
    assert (whole.inherited, whole.bases) == (0, set())
    assert len(short.obligations) < len(whole.obligations)
    assert open_ends(short) == open_ends(whole) == []
