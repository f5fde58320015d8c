"""Machine O is proved for any number of everything; and its mutants are refuted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kvproof.checkers.proofs import Proofs
from kvproof.checkers.prove import prove
from kvproof.machine import Machine, Model
from kvproof.spec.offload import Offload
from kvproof.spec.pool import Pool

from ..proofs import of_this_run
from . import broken_offload
from .kept import sought
from .test_tiers import nothing_is_sampled, open_ends, recalled, step_that_breaks

RULES = {f"O{n}" for n in range(1, 13)} | {"P2", "P6", "P12", "L1", "L2"}


@pytest.mark.slow
def test_machine_o_is_proved() -> None:
    report = prove(Offload, proofs=of_this_run())
    assert open_ends(report) == []
    model = Model.of(Offload)
    written = [p.rule for p in model.properties.values() if p.kind in ("invariant", "step")]
    written += [action.rule for action in model.actions.values()]
    assert {r for rules in written for r in re.findall(r"[A-Z]\d+", rules)} >= RULES


@pytest.mark.usefixtures(nothing_is_sampled.__name__)
def test_what_p_does_alone_is_not_asked_again(tmp_path: Path) -> None:
    proofs = Proofs(tmp_path / "proofs.sqlite")
    assert prove(Pool, only=["allocate", "register"], proofs=proofs).holds
    assert "ref_cnt_counts_holders" in recalled(Offload, "allocate", proofs)
    # A register that loads may not use is P's with one requirement more.
    assert "the_map_and_the_blocks_agree" in recalled(Offload, "register", proofs)


# Half a minute each to the smallest state; the explorer finds them in a second.
LONG = {"KeepsPinsOfThePreempted", "LooksBeyondTheLastToken", "StoresWhatIsBeingComputed"}


@pytest.mark.parametrize(
    ("machine", "action", "prop", "rule"),
    [sought(row) for row in broken_offload.BROKEN if row[0].__name__ not in LONG],
)
def test_each_fault_is_refuted(machine: type[Machine], action: str, prop: str, rule: str) -> None:
    found = step_that_breaks(machine, action, prop)
    assert found is not None
    assert found.replayed
    assert rule in found.rule
