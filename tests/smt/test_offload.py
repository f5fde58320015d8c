"""Machine O is proved for any number of everything; and its twins with a fault are refuted."""

from __future__ import annotations

import re

import pytest

from kvproof.checkers.counterexample import find
from kvproof.checkers.heritage import heritage
from kvproof.checkers.obligations import of_action
from kvproof.checkers.prove import prove
from kvproof.machine import Machine, Model
from kvproof.machine.universe import Unbounded
from kvproof.spec.offload import Offload

from . import broken_offload
from .test_tiers import open_ends

RULES = {f"O{n}" for n in range(1, 13)} | {"P2", "P6", "P12", "L1", "L2"}


def test_machine_o_is_proved() -> None:
    report = prove(Offload)
    assert open_ends(report) == []
    model = Model.of(Offload)
    written = [p.rule for p in model.properties.values() if p.kind in ("invariant", "step")]
    written += [action.rule for action in model.actions.values()]
    assert {r for rules in written for r in re.findall(r"[A-Z]\d+", rules)} >= RULES


def test_what_p_does_alone_is_not_asked_again() -> None:
    inherited = heritage(Model.of(Offload))
    assert "ref_cnt_counts_holders" in inherited["allocate"].settled.properties
    # A register that loads may not use is P's with one requirement more; a reset of two tiers is another action.
    assert inherited["register"].of == ["Pool"]


# Half a minute each to the smallest state; the explorer finds them in a second.
LONG = {"KeepsPinsOfThePreempted", "LooksBeyondTheLastToken", "StoresWhatIsBeingComputed"}


@pytest.mark.parametrize(
    ("machine", "action", "prop", "rule"),
    [row for row in broken_offload.BROKEN if row[0].__name__ not in LONG],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_each_fault_is_refuted(machine: type[Machine], action: str, prop: str, rule: str) -> None:
    model = Model.of(machine)
    goals = [p.goal for p in of_action(model, action, Unbounded(model)).problems if p.goal.startswith(prop)]
    found = next((step for goal in goals if (step := find(model, action, goal, seconds=10.0))), None)
    assert found is not None
    assert found.replayed
    assert rule in found.rule
