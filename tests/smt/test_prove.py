"""Machine P is proved for any size; each broken copy is refuted, by a step that the concrete interpreter confirms."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kvproof.checkers import prove as prove_module
from kvproof.checkers.prove import Obligation, prove
from kvproof.checkers.solvers import Attempt, ask
from kvproof.machine import Machine, Model
from kvproof.spec.pool import Pool

from . import broken_pools


def test_every_obligation_of_machine_p_is_proved() -> None:
    report = prove(Pool)
    assert [(o.action, o.goal, o.verdict, o.note) for o in report.obligations if o.verdict != "proved"] == []
    assert len(report.obligations) > 500
    rules = {r for o in report.obligations for r in re.findall(r"[A-Z]\d+", o.rule)}
    assert rules >= {"P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8", "P9", "P10", "P12", "P14", "L1", "L2"}


def test_every_action_and_loop_has_its_obligations() -> None:
    report = prove(Pool, only=["allocate", "hit", "finish"])
    for action in ("allocate", "hit", "finish"):
        goals = [o.goal for o in report.obligations if o.action == action]
        for invariant in Model.of(Pool).inductive:
            assert any(g.startswith(invariant.name) for g in goals)
            assert any(g.startswith("loop at") and invariant.name in g for g in goals)
        assert f"{action} is possible" in goals
        assert "counts are what the laws say" in goals


BROKEN = [
    (broken_pools.DoubleFree, "trim", "free_exactly_when_unreferenced", "P3"),
    (broken_pools.AllocateKeepsFree, "allocate", "free_exactly_when_unreferenced", "P3"),
    (broken_pools.HitKeepsFree, "hit", "free_exactly_when_unreferenced", "P3"),
    (broken_pools.EvictKeepsMap, "evict", "the_map_and_the_blocks_agree", "P5"),
    (broken_pools.WriteShared, "write", "a_request_reads_its_own_prefix", "P6"),
    (broken_pools.EarlyRemoval, "evict", "listeners_know_what_is_cached", "P12"),
]
MISPLACED = [broken_pools.TailFirst, broken_pools.HeadLast]


def refuted(machine: type[Machine], action: str, goal: str) -> Obligation:
    report = prove(machine, only=[action], jobs=1, timeout=3)
    return next(o for o in report.obligations if o.verdict == "refuted" and goal in o.goal)


@pytest.mark.slow
@pytest.mark.parametrize(("machine", "action", "goal", "rule"), BROKEN, ids=lambda x: getattr(x, "__name__", x))
def test_a_broken_copy_is_refuted(machine: type[Pool], action: str, goal: str, rule: str) -> None:
    found = refuted(machine, action, goal)
    step = found.counterexample
    assert step is not None
    assert step.replayed
    assert (step.action, step.goal, step.rule) == (action, goal, rule)
    assert step.broken.startswith(f"{rule} {goal}(")
    assert "<- changed" in step.render()
    assert step.trace.initial == step.before


@pytest.mark.slow
@pytest.mark.parametrize("machine", MISPLACED, ids=lambda m: m.__name__)
def test_a_released_block_in_the_wrong_place_is_refuted(machine: type[Pool]) -> None:
    """The facts of the loop fail, and with them the property of steps that they are for (P10)."""
    step = refuted(machine, "trim", "loop at").counterexample
    assert step is not None
    assert step.replayed
    assert (step.goal, step.rule) == ("released_blocks_go_where_the_dialect_says", "P9, P10")


def test_the_counterexample_of_an_eviction_that_leaves_the_map_entry() -> None:
    step = refuted(broken_pools.EvictKeepsMap, "evict", "the_map_and_the_blocks_agree").counterexample
    assert step is not None
    lines = [" ".join(line.split()) for line in step.render().splitlines()]
    assert lines[0] == "EvictKeepsMap.evict(b=0) breaks P5 the_map_and_the_blocks_agree"
    assert "hashes[b0, h0] True False <- changed" in lines
    assert "cached[h0] [b0] [b0]" in lines


def test_the_counterexample_of_a_write_to_a_shared_block() -> None:
    step = refuted(broken_pools.WriteShared, "write", "a_request_reads_its_own_prefix").counterexample
    assert step is not None
    assert step.before["ref_cnt"] == [2]
    assert step.after is not None
    assert step.before["content"] != step.after["content"]


def test_the_counterexample_of_an_early_removal_event() -> None:
    step = refuted(broken_pools.EarlyRemoval, "evict", "listeners_know_what_is_cached").counterexample
    assert step is not None
    assert step.after is not None
    assert step.after["announced"] == [False]
    assert len(step.after["cached"][0]) == 1  # another block still carries the hash


def test_an_action_that_no_state_enables_is_reported() -> None:
    report = prove(broken_pools.NeverPossible, only=["evict"], jobs=1)
    found = next(o for o in report.obligations if o.goal == "evict is possible")
    assert found.verdict == "refuted"
    assert "no state of up to 3 of each sort enables evict" in found.note
    assert re.search(r"\(line \w+\.py:\d+\)", found.note)


def test_a_second_solver_agrees() -> None:
    pytest.importorskip("cvc5")
    report = prove(Pool, only=["admit", "evict"], solver="cvc5")
    assert all(o.verdict == "proved" for o in report.obligations)


def test_obligations_are_written_as_smt_lib(tmp_path: Path) -> None:
    prove(Pool, only=["admit"], jobs=1, smt2=tmp_path)
    files = sorted(tmp_path.iterdir())
    assert len(files) > 10
    assert "(check-sat)" in files[0].read_text()


def test_an_unprovable_goal_is_unknown_and_never_proved() -> None:
    import z3

    from kvproof.checkers.obligations import Problem
    from kvproof.machine.terms import Line

    x = z3.Int("x")
    problem = Problem("x is small", "", Line("", 0), [x > 0], x < 10, 0)
    assert ask(problem, [], Attempt(depth=2), solver="z3", timeout=1) == "unknown"


def test_a_proof_by_cases_proves_each_case_and_no_more() -> None:
    """A branch is resolved both ways; what fails on one way is not proved."""
    import z3

    from kvproof.checkers.obligations import Problem, by_cases
    from kvproof.machine.terms import Line

    branch, x, y = z3.Bool("branch"), z3.Int("x"), z3.Int("y")
    known = [y == z3.If(branch, x, -x), z3.Implies(branch, x >= 1)]
    way = Attempt(depth=2, cases=True)

    def said(goal: z3.BoolRef, *more: z3.BoolRef) -> str:
        problem = Problem("", "", Line("", 0), [*known, *more], goal, 0, branches=(z3.Not(branch),))
        assert len(by_cases(problem)) == (2 if "branch" in goal.sexpr() else 1)
        return ask(problem, [], way, solver="z3", timeout=1)

    assert said(z3.If(branch, y >= 1, y >= 0)) == "unknown"
    assert said(z3.If(branch, y >= 1, y >= 0), z3.Implies(z3.Not(branch), x <= 0)) == "proved"
    assert said(y >= 0, z3.Implies(z3.Not(branch), x <= 0)) == "proved"


def test_what_the_ladder_leaves_open_is_asked_with_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A goal whose few tries all fail by bad luck has no counterexample, and is asked many times more."""
    monkeypatch.setattr(prove_module, "LADDER", (Attempt(depth=0),))
    report = prove(Pool, only=["evict"], jobs=1)
    assert {o.verdict for o in report.obligations} == {"proved"}
    monkeypatch.setattr(prove_module, "PATIENT", ())
    assert prove(Pool, only=["evict"], jobs=1).count("unknown") > 0
