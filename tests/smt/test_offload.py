"""Machine O is proved for any number of everything; and its twins with a fault are refuted."""

from __future__ import annotations

import re

import pytest

from kvproof.checkers.heritage import heritage
from kvproof.checkers.prove import prove
from kvproof.machine import Machine, Model
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("machine", "action", "prop", "rule"), broken_offload.BROKEN, ids=lambda x: getattr(x, "__name__", "")
)
def test_each_fault_is_refuted(machine: type[Machine], action: str, prop: str, rule: str) -> None:
    report = prove(machine, only=[action], timeout=0.7)
    refuted = [o for o in report.obligations if o.verdict == "refuted" and o.counterexample is not None]
    assert all(o.counterexample is not None and o.counterexample.replayed for o in refuted)
    # Either the property itself, or a fact of the loop from which it follows.
    assert any(prop in o.goal or rule in o.rule or o.goal.startswith("loop at") for o in refuted), open_ends(report)
