"""Small random machines, proved and walked: nothing is proved that a walk refutes (`random_machines`).

A fault that is put back into the prover has to be seen. More machines: ``make random-machines``.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from kvproof.checkers.proofs import Proofs
from kvproof.machine import MachineError, model

from ..marks import slow_but
from .random_machines.comparing import Outcome, compare, compared
from .random_machines.constructs import CONSTRUCTS, constructs
from .random_machines.faults import FAULTS
from .random_machines.loading import is_of_a_text, load
from .random_machines.machines import MachineText, draw_machine
from .random_machines.proving import open_goals
from .random_machines.running import Finding, run_range
from .random_machines.shown import SHOWN
from .random_machines.shrinking import shrunk
from .random_machines.walking import walk

FEW, MANY = 25, 100
"""So many machines for one test."""

AT_NIGHT = [pytest.param(n, marks=pytest.mark.nightly) for n in range(100, 300, FEW)]

PROVED = 0.7
"""The share of machines of which something has to be proved: a prover that proves nothing makes no mistakes."""


def _text(findings: list[Finding]) -> str:
    return "\n\n".join(f"seed {f.seed}: {f.kind}: {f.what}\n{f.source}" for f in findings)


def _no_false_theorem(first: int, count: int) -> None:
    tally = run_range(first, count)
    assert not tally.findings, _text(tally.findings)
    assert tally.verdicts.get("proved", 0) >= PROVED * count, tally.verdicts
    assert tally.refuted >= count // 3, "the walk has to refute something, or nothing can be seen"


@pytest.mark.parametrize(
    "first", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(FEW, 100, FEW)), *AT_NIGHT]
)
def test_nothing_false_is_proved(first: int) -> None:
    _no_false_theorem(first, FEW)


@pytest.mark.nightly
@pytest.mark.parametrize("first", range(10_000, 12_000, MANY))
def test_nothing_false_is_proved_of_many(first: int) -> None:
    _no_false_theorem(first, MANY)


def _compared(seed: int) -> Outcome:
    outcome = compare(seed)
    model._known.clear()
    return outcome


COVERING = (4, 63, 88, 145, 149, 152, 160, 183)
"""Seeds of machines that are proved and that together use every construct."""


def test_every_construct_is_used_by_a_machine_that_is_proved() -> None:
    used: set[str] = set()
    for seed in COVERING:
        outcome = _compared(seed)
        assert outcome.verdict == "proved"
        assert outcome.theorems
        assert outcome.text is not None
        used |= constructs(outcome.text.source)
    assert used == set(CONSTRUCTS)


# ------------------------------------------------------------------------------------------------ faults

NOTICED = {  # found by asking each fault of one seed after the other
    "statements_need_no_value": 1,
    "first_states_are_not_asked": 1,
    "what_is_asked_is_known": 1,
    "counts_need_no_members": 92,
    "optional_values_are_never_none": 1,
    "none_is_a_key": 1,
    "steps_begin_where_they_end": 2,
    "corollaries_are_known": 2,
    "members_may_be_pushed": 2,
    "loop_facts_are_asked_at_first_only": 86,
    "loop_facts_are_asked_in_rounds_only": 375,
    "lemmas_hold_anywhere": 13,
    "counts_are_compared_without_condition": 25,
    "loops_leave_one_thing_alone": 92,
    "counts_stay": 23,
    "one_untouched_is_enough": 133,
    "queues_are_pushed_at_the_other_end": 29,
    "first_values_have_any_type": 26,
    "rounds_need_not_keep_invariants": 41,
    "indices_have_no_end": 54,
    "one_of_a_group_is_enough": 55,
    "members_count_twice": 92,
    "anything_is_an_element": 138,
    "counts_stay_when_many_change": 159,
    "loops_leave_counts_alone": 92,
    "extra_elements_are_ordinary": 118,
    "sums_count_once": 200,
}
"""By fault: the first seed whose machine shows it."""


def test_every_fault_is_put_back() -> None:
    assert NOTICED.keys() | SHOWN.keys() | {"proofs_need_no_facts"} == FAULTS.keys()


LONG = {"loops_leave_one_thing_alone", "loops_leave_counts_alone", "members_count_twice", "indices_have_no_end"}
"""Noticed in half a second or more, of a larger machine."""


@pytest.mark.parametrize("fault", slow_but(NOTICED, NOTICED.keys() - LONG))
def test_a_fault_is_noticed(fault: str) -> None:
    with FAULTS[fault]():
        assert _compared(NOTICED[fault]).verdict == "false theorem"


RECALLED = """
from kvproof.machine import *

class M(Machine):
    x = Scalar(to=Int)
    @action("X")
    def act(self):
        self.require(self.x.value == 1)
    @step("X", of="act")
    def st(self, before: "M") -> Bool:
        return self.x.value == 1
"""
"""The proof needs what the action requires."""


def _is_noticed(source: str) -> bool:
    """All is proved, and the walk refutes something."""
    machine = load(source, "M")
    return any(walk(machine, seed).violations for seed in range(4)) and not list(open_goals(machine))


@pytest.mark.parametrize("fault", SHOWN)
def test_a_fault_that_few_machines_show_is_noticed(fault: str) -> None:
    with FAULTS[fault]():
        assert _is_noticed(SHOWN[fault])
    with contextlib.suppress(MachineError):
        assert not _is_noticed(SHOWN[fault])


def test_proofs_are_recalled_with_what_they_needed() -> None:
    proofs = Proofs(Path(":memory:"))
    assert not list(open_goals(load(RECALLED, "M"), proofs=proofs))
    weaker = RECALLED.replace("self.require(self.x.value == 1)", "pass")
    assert list(open_goals(load(weaker, "M"), proofs=proofs))
    with FAULTS["proofs_need_no_facts"]():
        assert not list(open_goals(load(weaker, "M"), proofs=proofs))


def test_an_error_of_a_text_is_told_from_one_of_the_kit() -> None:
    with pytest.raises(ZeroDivisionError) as of_the_text:
        walk(load(RECALLED.replace("self.x.value == 1)", "self.x.value == 1 // 0)"), "M"), 0)
    assert is_of_a_text(of_the_text.value)
    with pytest.raises(ZeroDivisionError) as of_another:
        _ = 1 // 0
    assert not is_of_a_text(of_another.value)


def test_the_same_seed_draws_the_same_machine() -> None:
    assert [draw_machine(s).source for s in range(20)] == [draw_machine(s).source for s in range(20)]


def test_a_finding_is_made_small() -> None:
    def is_seen(text: MachineText) -> bool:
        model._known.clear()
        return compared(text).verdict == "false theorem"

    text = draw_machine(NOTICED["counts_stay"])
    with FAULTS["counts_stay"]():
        small = shrunk(text, is_seen)
        assert is_seen(small)
    assert not is_seen(small)
    assert len(small.source.splitlines()) < len(text.source.splitlines()) / 2
