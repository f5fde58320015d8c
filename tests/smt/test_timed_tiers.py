"""Machine G is proved for any number of everything, and for any times and sizes; its mutants are refuted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kvproof.checkers.proofs import Proofs
from kvproof.checkers.prove import prove
from kvproof.machine import Machine, Model
from kvproof.spec.timed.links import Links
from kvproof.spec.timed.shared_tier import SharedTier
from kvproof.spec.timed.stalls import Stalls
from kvproof.spec.timed.timed_tiers import TimedTiers

from ..proofs import of_this_run
from . import broken_stalls, broken_timed
from .kept import sought
from .test_tiers import nothing_is_sampled, open_ends, recalled, step_that_breaks


@pytest.mark.parametrize(
    ("machine", "rules"),
    [
        (Links, {"G1", "G2", "G3"}),
        pytest.param(
            TimedTiers,
            {"G1", "G2", "G3", "G4", "G5", "G6", "G7", "P1", "P3", "P12", "O3"},
            marks=pytest.mark.slow,
        ),
        (SharedTier, {"G1", "G2", "G3", "G8", "O3"}),
        (Stalls, {"G1", "G2", "G3", "P1", "L1"}),
    ],
    ids=lambda x: x.__name__ if isinstance(x, type) else "",
)
def test_the_machine_is_proved(machine: type[Machine], rules: set[str]) -> None:
    assert open_ends(prove(machine, proofs=of_this_run())) == []
    model = Model.of(machine)
    written = [p.rule for p in model.properties.values() if p.kind in ("invariant", "step")]
    written += [action.rule for action in model.actions.values()]
    assert {r for said in written for r in re.findall(r"[A-Z]\d+", said)} == rules


@pytest.mark.slow
@pytest.mark.usefixtures(nothing_is_sampled.__name__)
def test_what_links_do_alone_is_not_asked_again(tmp_path: Path) -> None:
    proofs = Proofs(tmp_path / "proofs.sqlite")
    assert prove(Links, proofs=proofs).holds
    own = {"start", "advance", "advance_to_deadline", "complete"}
    assert Model.of(Links).actions.keys() == own
    for machine in (TimedTiers, SharedTier):
        assert "a_link_is_shared_fairly" in recalled(machine, "advance", proofs)
        for action in own:
            assert recalled(machine, action, proofs)


def test_that_divisors_are_not_0_is_asked() -> None:
    """A share is a division by the number of active transfers, a deadline one by the bandwidth."""
    asked = [o.goal for o in prove(Links, only=["advance", "advance_to_deadline"]).obligations]
    divisions = {o for o in asked if "/" in o and o.endswith("has a value")}
    assert any("/ active[" in o for o in divisions)
    assert any("/ bandwidth[" in o for o in divisions)


# Some seconds each to the smallest state; the explorer finds them in one.


@pytest.mark.parametrize(
    ("machine", "action", "prop", "rule"),
    [sought(row) for row in (*broken_timed.BROKEN, *broken_stalls.BROKEN)],
)
def test_each_fault_is_refuted(machine: type[Machine], action: str, prop: str, rule: str) -> None:
    found = step_that_breaks(machine, action, prop)
    assert found is not None
    assert found.replayed
    assert rule in found.rule
