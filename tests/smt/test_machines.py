"""The machines that extend P, or stand beside it: proved; and each broken copy is refuted."""

from __future__ import annotations

import pytest

from kvproof.checkers.obligations import problems_of
from kvproof.checkers.prove import ProveReport, prove
from kvproof.machine import Machine, Model, none, when
from kvproof.machine.universe import Unbounded
from kvproof.spec.pool import Block, Pool
from kvproof.spec.pool.calls import Calls
from kvproof.spec.pool.deferred import Deferred
from kvproof.spec.pool.keys import Keys, UntaggedKeys
from kvproof.spec.pool.lengths import Lengths
from kvproof.spec.pool.linked_list import LinkedPool
from kvproof.spec.pool.statistics import Statistics

from ..proofs import of_this_run
from . import broken_calls, broken_deferred, broken_lengths
from .test_tiers import step_that_breaks


def open_ends(report: ProveReport) -> list[tuple[str, str, str, str]]:
    return [(o.action, o.goal, o.verdict, o.note) for o in report.obligations if o.verdict != "proved"]


BESIDE_P = [pytest.param(machine, marks=pytest.mark.nightly) for machine in (Calls, Deferred, Lengths)]
EXTENDED = [pytest.param(machine, marks=pytest.mark.slow) for machine in (LinkedPool, Statistics)]


@pytest.mark.parametrize("machine", [Keys, *EXTENDED, *BESIDE_P], ids=lambda m: m.__name__)
def test_the_machine_is_proved(machine: type[Machine]) -> None:
    assert open_ends(prove(machine, proofs=of_this_run())) == []


@pytest.mark.parametrize(
    "machine", [pytest.param(m, marks=pytest.mark.slow) for m in (Calls, Deferred)], ids=lambda m: m.__name__
)
def test_what_comes_beside_p_is_proved(machine: type[Pool]) -> None:
    """The actions that P does not have, and what follows; that P's own keep all of it is proved at night."""
    added = [name for name in Model.of(machine).actions if name not in Model.of(Pool).actions]
    assert open_ends(prove(machine, only=[*added, "every state"], proofs=of_this_run())) == []


def test_where_a_lookup_ends_follows_from_the_length() -> None:
    assert open_ends(prove(Lengths, only=["hit", "every state"], proofs=of_this_run())) == []


def test_the_linked_list_is_one_theorem_with_the_pool() -> None:
    """Everything that P promises is promised, and proved, of the pool that keeps a linked list."""
    report = prove(LinkedPool, only=["allocate"])
    goals = {o.goal.split(" (")[0] for o in report.obligations}
    model = Model.of(Pool)
    promised = [*model.inductive, *model.steps_for("allocate")]
    # What is not asked at the end speaks of nothing that was written since it was known.
    linked = Model.of(LinkedPool)
    untouched = {p.name for label, p in problems_of(linked, "allocate", Unbounded(linked)).untouched if not label}
    assert {p.name for p in promised} <= goals | untouched
    assert not goals & untouched
    assert {f for loop in Model.of(LinkedPool).actions["allocate"].loops for f in loop.facts} <= {
        g.split(": ")[-1] for g in goals
    }
    assert {"links_lead_to_the_next", "links_lead_back", "the_counter_is_the_length"} <= goals


class PopWithoutBackLink(LinkedPool):
    """After a pop the first block still links back to the block that was taken."""

    def _close_gap(self) -> None:
        self.next[self.left.value] = self.right.value
        self.left.value = none
        self.right.value = none
        self.counter.value = self.counter.value + self.moved.value
        self.moved.value = 0


class RemovalLeavesLinks(LinkedPool):
    """A block that is taken out of the middle still looks linked."""

    def _leave_queue(self, b: Block) -> None:
        Pool._leave_queue(self, b)
        before, after = self.prev[b], self.next[b]
        self.next[before] = after
        self.prev[after] = before
        self.counter.value = self.counter.value - 1


class CounterForgotten(LinkedPool):
    """A removal does not lower the counter."""

    def _leave_queue(self, b: Block) -> None:
        Pool._leave_queue(self, b)
        before, after = self.prev[b], self.next[b]
        self.next[before] = after
        self.prev[after] = before
        self.prev[b] = none


class AppendedTwice(LinkedPool):
    """A block is appended although others still hold it: its link is written over when it comes again."""

    def _release(self, b: Block) -> None:
        left = self.ref_cnt[b] - 1
        self.ref_cnt[b] = left
        with when(left <= 1):
            self._join_tail(b)


MUTANTS = [
    (PopWithoutBackLink, "allocate", "links_lead"),
    (RemovalLeavesLinks, "hit", "a_block_looks_linked_exactly_when_it_is_free"),
    (CounterForgotten, "hit", "the_counter_is_the_length"),
    (AppendedTwice, "trim", "free_exactly_when_unreferenced"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("mutant", "action", "goal"), MUTANTS, ids=lambda x: getattr(x, "__name__", None))
def test_a_broken_list_is_not_proved(mutant: type[LinkedPool], action: str, goal: str) -> None:
    found = step_that_breaks(mutant, action, goal)
    assert found is not None
    assert found.replayed


CALLS = [
    (broken_calls.TakesWhatThereIs, "ask_for", "a_refused_call_changes_nothing"),
    (broken_calls.KeepsOneBack, "ask_for", "a_demand_is_met_whole_or_not_at_all"),
    (broken_calls.MakesRoomInVain, "ask_for", "a_refused_call_changes_nothing"),
    (broken_calls.BelowZero, "free_without_hold", "a_held_block_is_referenced"),
]
MORE_CALLS = [
    (broken_calls.PromisesBlocks, "ask_for", "a_demand_is_met_whole_or_not_at_all"),
    (broken_calls.LetsAnybodyIn, "ask_to_enter", "admitted_requests_fit"),
    (broken_calls.GivesBackWhatItCan, "return_last", "a_refused_call_changes_nothing"),
    (broken_calls.LeavesTwice, "send_away", "who_is_inside_leaves_once"),
    (broken_calls.MovesWhatIsFree, "free_without_hold", "a_refused_call_changes_nothing"),
    (broken_calls.ForgetsInUse, "ask_to_reset", "a_refused_call_changes_nothing"),
    (broken_calls.NeverResets, "ask_to_reset", "a_reset_is_whole_or_none"),
]
DEFERRED = [
    (broken_deferred.FreesAtOnce, "leave", "nothing_is_free_before_its_time"),
    (broken_deferred.AnyStepHolds, "leave", "the_last_that_reads_holds"),
    (broken_deferred.HoldsForEver, "process", "ref_cnt_counts_holders"),
    (broken_deferred.WritesOver, "write_late", "a_request_reads_its_own_prefix"),
]
MORE_DEFERRED = [
    (broken_deferred.PreemptsUnread, "preempt", "a_step_reads_a_request_that_is_inside"),
    (broken_deferred.TrimsUnread, "trim", "a_step_reads_a_request_that_is_inside"),
    (broken_deferred.ProcessesAnyStep, "process", "the_last_that_reads_holds"),
    (broken_deferred.CountsForEver, "process", "a_hold_of_a_step_is_a_hold"),
    (broken_deferred.LetsGoTwice, "process", "ref_cnt_counts_holders"),
    (broken_deferred.ReadsNothing, "schedule", "a_step_sees_the_table"),
]
AT_NIGHT = [pytest.param(*fault, marks=pytest.mark.nightly) for fault in (*MORE_CALLS, *MORE_DEFERRED)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mutant", "action", "goal"), [*CALLS, *DEFERRED, *AT_NIGHT], ids=lambda x: getattr(x, "__name__", None)
)
def test_a_fault_of_refusing_or_waiting_is_refuted(mutant: type[Pool], action: str, goal: str) -> None:
    """What is refused in part, or without a reason; what is free too early, or never."""
    found = step_that_breaks(mutant, action, goal)
    assert found is not None
    assert (found.goal, found.replayed) == (goal, True)


@pytest.mark.parametrize(("mutant", "prop"), [row[:2] for row in broken_lengths.BROKEN])
def test_a_limit_that_does_not_follow_from_the_length_is_refuted(mutant: type[Machine], prop: str) -> None:
    found = step_that_breaks(mutant, "hit", prop)
    assert found is not None
    assert found.replayed
    assert "P14" in found.rule


@pytest.mark.slow
def test_untagged_keys_collide() -> None:
    """Fault B5: without tags one tenant's salt opens what was computed under an adapter of that name."""
    report = prove(UntaggedKeys, only=["hash"])
    found = {o.goal.split(" (")[0]: o for o in report.obligations if o.verdict == "refuted"}
    collision = found["an_adapter_is_no_salt"]
    assert collision.counterexample is not None
    assert collision.counterexample.replayed
