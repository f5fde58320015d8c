"""Machine P is proved for any size; each broken copy is refuted, by a step that the concrete interpreter confirms."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import z3

from kvproof.checkers import deciding
from kvproof.checkers import prove as prove_module
from kvproof.checkers.counterexample import Search
from kvproof.checkers.deciding import TOGETHER, Attempt, Deciding
from kvproof.checkers.export import write_obligations
from kvproof.checkers.obligations import COROLLARIES, INITIALLY, Problems, problems_of
from kvproof.checkers.prove import prove
from kvproof.checkers.shown import Counterexample
from kvproof.checkers.slices import EVERYTHING, Slices
from kvproof.checkers.solvers import BRANCHES, Question, Way, ask, ask_cvc5, to_smt2
from kvproof.errors import UsageError
from kvproof.machine import (
    Bool,
    Count,
    Index,
    Int,
    Machine,
    Map,
    Model,
    Param,
    Queue,
    Scalar,
    Sort,
    action,
    assume,
    corollary,
    implies,
    invariant,
    step,
)
from kvproof.machine.execution import Goal, Run
from kvproof.machine.formulas import add
from kvproof.machine.knowledge import Fact
from kvproof.machine.universe import Unbounded
from kvproof.spec.pool import Pool
from kvproof.spec.pool.linked_list import LinkedPool

from ..proofs import of_this_run
from . import broken_pools
from .false_theorems import rounds
from .test_tiers import step_that_breaks


def test_every_obligation_of_machine_p_is_proved() -> None:
    report = prove(Pool, proofs=of_this_run())
    assert [(o.action, o.goal, o.verdict, o.note) for o in report.obligations if o.verdict != "proved"] == []
    assert report.holds
    # Where nothing was written that an invariant speaks of, there is nothing to ask.
    assert len(report.obligations) > 400
    assert len(report.obligations) + report.untouched > 500
    rules = {r for o in report.obligations for r in re.findall(r"[A-Z]\d+", o.rule)}
    assert rules >= {"P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8", "P9", "P10", "P12", "P14", "L1", "L2"}


def test_every_action_and_loop_has_its_obligations() -> None:
    report = prove(Pool, only=["allocate", "hit", "finish"])
    for place in ("allocate", "hit", "finish"):
        goals = [o.goal for o in report.obligations if o.action == place]
        left = problems_of(Model.of(Pool), place, Unbounded(Model.of(Pool))).untouched
        # A fact of a loop in P has a name of its own, which is no invariant's.
        said = [*goals, *(f"{label}{prop.name}" for label, prop in left)]
        for prop in Model.of(Pool).inductive:
            assert any(g.startswith(prop.name) for g in said)
            assert any(g.startswith("before loop at") and g.split(" (")[0].endswith(prop.name) for g in said)
            assert any(g.startswith("loop at") and g.split(" (")[0].endswith(prop.name) for g in said)
        assert f"{place} is possible" in goals
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


def refuted(machine: type[Machine], action: str, goal: str) -> Counterexample:
    found = step_that_breaks(machine, action, goal)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("only", "says"), [(["allocat"], "Pool has no action allocat"), ([], "nothing of Pool is named")]
)
def test_what_asks_for_nothing_is_not_proved(only: list[str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        prove(Pool, only=only, jobs=1)


@pytest.mark.slow
@pytest.mark.parametrize(("machine", "action", "goal", "rule"), BROKEN, ids=lambda x: getattr(x, "__name__", x))
def test_a_broken_copy_is_refuted(machine: type[Pool], action: str, goal: str, rule: str) -> None:
    step = refuted(machine, action, goal)
    assert step.replayed
    assert (step.action, step.goal, step.rule) == (action, goal, rule)
    assert step.broken.startswith(f"{rule} {goal}(")
    assert "<- changed" in step.render()
    assert step.trace.initial == step.before


@pytest.mark.slow
@pytest.mark.parametrize("machine", MISPLACED, ids=lambda m: m.__name__)
def test_a_released_block_in_the_wrong_place_is_refuted(machine: type[Pool]) -> None:
    """A fact of the loop fails, on a run that is stopped within the loop: where the run at the head ends (P10)."""
    step = refuted(machine, "trim", "the mark stands right behind the run at the head")
    assert step.replayed
    assert step.goal == "the mark stands right behind the run at the head"
    assert "of its loop" in step.broken


def test_the_counterexample_of_an_eviction_that_leaves_the_map_entry() -> None:
    step = refuted(broken_pools.EvictKeepsMap, "evict", "the_map_and_the_blocks_agree")
    lines = [" ".join(line.split()) for line in step.render().splitlines()]
    assert lines[0] == "EvictKeepsMap.evict(b=0) breaks P5 the_map_and_the_blocks_agree"
    assert "hashes[b0, h0] True False <- changed" in lines
    assert "cached[h0] [b0] [b0]" in lines


def test_the_counterexample_of_a_write_to_a_shared_block() -> None:
    step = refuted(broken_pools.WriteShared, "write", "a_request_reads_its_own_prefix")
    assert step.before["ref_cnt"] == [2]
    assert step.after is not None
    assert step.before["content"] != step.after["content"]


def test_the_counterexample_of_an_early_removal_event() -> None:
    step = refuted(broken_pools.EarlyRemoval, "evict", "listeners_know_what_is_cached")
    assert step.after is not None
    assert step.after["announced"] == [False]
    assert len(step.after["cached"][0]) == 1  # another block still carries the hash


@pytest.mark.slow
def test_what_the_concrete_interpreter_does_not_confirm_is_not_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of the encoder must not pass for a finding."""
    find = Search.find

    def unconfirmed(search: Search, goal: str) -> Counterexample | None:
        found = find(search, goal)
        return None if found is None else replace(found, replayed=False)

    monkeypatch.setattr(Search, "find", unconfirmed)
    report = prove(broken_pools.WriteShared, only=["write"], jobs=1, timeout=3)
    (found,) = [o for o in report.obligations if o.verdict != "proved"]
    assert found.verdict == "unknown"
    assert "does not confirm" in found.note
    assert found.counterexample is not None
    assert "an error of the kit" in found.counterexample.render()
    assert not report.holds


# ------------------------------------------------------------------------------------------------ vacuity


class Jar(Sort):
    pass


class Shelf(Machine):
    """Jars are opened, and counted."""

    is_open = Map(Jar, to=Bool)
    opened = Count(Jar, where=lambda m, j: m.is_open[j])
    limit = Param(to=Int)

    @assume("X")
    def something_may_be_opened(self) -> Bool:
        return self.limit.value >= 1

    def _require_more(self) -> None:
        self.require(self.opened.value < self.limit.value)

    @action("X")
    def open(self, j: Jar) -> None:
        self.require(~self.is_open[j])
        self._require_more()
        self.is_open[j] = True

    @invariant("X")
    def no_more_is_open_than_may_be(self) -> Bool:
        return self.opened.value <= self.limit.value


class NoParameters(Shelf):
    @assume("X")
    def nothing_may_be_opened(self) -> Bool:
        return self.limit.value <= 0


class NeedsMany(Shelf):
    """Possible, but in no small scope."""

    def _require_more(self) -> None:
        self.require((self.opened.value >= 20) & (self.opened.value < self.limit.value))


class BreaksAlways(Shelf):
    """Possible, but every end breaks an invariant."""

    def _require_more(self) -> None:
        self.require(self.opened.value == self.limit.value)


def open_ends(machine: type[Machine]) -> dict[str, tuple[str, str]]:
    report = prove(machine, jobs=1, timeout=2)
    left: dict[str, tuple[str, str]] = {
        o.goal: (o.verdict, o.note) for o in report.obligations if o.verdict != "proved"
    }
    assert report.holds == (not left)
    return left


@pytest.mark.slow
def test_an_action_that_no_state_enables_is_reported() -> None:
    report = prove(broken_pools.NeverPossible, only=["evict"], jobs=1)
    found = next(o for o in report.obligations if o.goal == "evict is possible")
    assert found.verdict == "refuted"
    assert "no state enables evict" in found.note
    assert "its requirements contradict the invariants" in found.note
    assert re.search(r"\(line \w+\.py:\d+\)", found.note)


def test_that_the_proofs_are_about_something_is_asked() -> None:
    assert open_ends(Shelf) == {}
    goals = {(o.action, o.goal) for o in prove(Shelf, jobs=1).obligations}
    assert {
        (INITIALLY, "some first state exists"),
        ("open", "open is possible"),
        ("open", "open is consistent"),
    } < goals
    assert ("open", "counts are what the laws say") in goals


def test_parameters_that_contradict_themselves_are_refuted() -> None:
    verdict, note = open_ends(NoParameters)["some first state exists"]
    assert verdict == "refuted"
    assert "contradicts itself" in note


def test_what_no_small_scope_shows_is_not_taken_for_possible() -> None:
    found = open_ends(NeedsMany)
    verdict, note = found["open is possible"]
    assert verdict == "unknown"
    assert "of up to 4 of each sort" in note


def test_an_action_without_an_end_is_not_consistent() -> None:
    found = open_ends(BreaksAlways)
    assert found["open is consistent"][0] == "unknown"
    assert found["no_more_is_open_than_may_be"][0] == "refuted"


def _one_more(run: Run, *args: Any) -> None:
    """Every count has one element more than its law says."""
    _recount(run, *args)
    for count in run.model.counts.values():
        old = run.now.functions[count.name]
        more = run.universe.defined(count.name, old.symbols, lambda *k, old=old: add(old(*k), z3.IntVal(1)))
        run.now.functions[count.name] = more


_recount = Run._recount


@pytest.mark.parametrize("recount", [_one_more, lambda *args: None])
def test_a_count_that_is_not_carried_by_its_law_is_noticed(
    recount: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Run, "_recount", recount)
    report = prove(Shelf, jobs=1, timeout=2)
    found = next(o for o in report.obligations if o.goal == "counts are what the laws say")
    assert found.verdict == "refuted"
    assert "an error of the kit" in found.note


# ------------------------------------------------------------------------------------------------ what is asked


def test_what_is_promised_and_not_asked_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(made: Callable[..., Problems], *of: Any) -> Problems:
        problems = made(*of)
        problems.goals[:] = [g for g in problems.goals if g.prop is None]
        return problems

    for name in ("problems_of", "problems_from"):
        monkeypatch.setattr(prove_module, name, partial(forgetful, getattr(prove_module, name)))
    report = prove(Shelf, jobs=1)
    forgotten = {(o.action, o.goal, o.verdict) for o in report.obligations if "it was not asked" in o.note}
    assert forgotten == {(place, "no_more_is_open_than_may_be", "unknown") for place in (INITIALLY, "open")}
    assert not report.holds


class LooksEverywhere(Machine):
    """Each invariant looks at what some action writes, by a way of its own."""

    limit = Param(to=Int)
    is_open = Map(Jar, to=Bool)
    line = Queue(of=Jar)
    opened = Count(Jar, where=lambda m, j: m.is_open[j])
    beside = Scalar(to=Int)

    @action("X")
    def open(self, j: Jar) -> None:
        self.is_open[j] = True

    @action("X")
    def open_all(self) -> None:
        with self.each(Jar) as j:
            self.is_open[j] = True

    @action("X")
    def come(self, j: Jar) -> None:
        self.require(~self.line.has(j))
        self.line.push_back(j)

    @action("X")
    def look(self, n: Int) -> None:
        self.beside.value = n * n

    @invariant("X")
    def of_a_map(self, j: Jar) -> Bool:
        return ~self.is_open[j]

    @invariant("X")
    def of_a_count(self) -> Bool:
        return self.opened.value == 0

    @invariant("X")
    def of_a_queue(self, j: Jar) -> Bool:
        return ~self.line.has(j)

    @invariant("X")
    def of_a_size(self) -> Bool:
        return self.line.size == 0

    @invariant("X")
    def of_an_order(self, i: Jar, j: Jar) -> Bool:
        return implies(self.line.has(i) & self.line.has(j), ~self.line.before(i, j))

    @invariant("X")
    def of_no_state(self) -> Bool:
        return self.limit.value * self.limit.value >= 0


OPENS, COMES = {"of_a_map", "of_a_count"}, {"of_a_queue", "of_a_size", "of_an_order"}


@pytest.mark.parametrize(
    ("place", "looked_at"), [("open", OPENS), ("open_all", OPENS), ("come", COMES), ("look", set())]
)
def test_an_invariant_is_untouched_where_nothing_that_it_looks_at_is_written(place: str, looked_at: set[str]) -> None:
    model = Model.of(LooksEverywhere)
    problems = problems_of(model, place, Unbounded(model))
    asked = {g.prop.name for g in problems.goals if g.prop is not None}
    untouched = {prop.name for _, prop in problems.untouched}
    assert asked == looked_at
    assert untouched == {p.name for p in model.inductive} - looked_at


@pytest.mark.slow
def test_what_is_untouched_holds_where_it_is_asked_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """In loops too, where invariants are known of the state in which a round starts."""
    usual = prove(Pool, proofs=of_this_run())
    assert usual.untouched > 100
    monkeypatch.setattr(Run, "_is_untouched", lambda *args: False)
    whole = prove(Pool)  # Not with the store of the run, where each part of P is kept as it is usually read.
    assert whole.holds
    assert whole.untouched == 0
    assert len(whole.obligations) >= len(usual.obligations) + usual.untouched
    goals = {(o.action, o.goal) for o in whole.obligations}
    model = Model.of(Pool)
    for place in model.actions:
        asked = {goal.split(" (")[0] for at, goal in goals if at == place}
        assert {p.name for p in model.inductive} <= asked


# ------------------------------------------------------------------------------------------------ what is shown


class Chain(Machine):
    """What follows from `first` needs a fact that speaks of nothing that the goal speaks of, nor anything near it."""

    first = Map(Jar, to=Bool)
    a = Map(Jar, to=Bool)
    b = Map(Jar, to=Bool)
    c = Map(Jar, to=Bool)
    d = Map(Jar, to=Bool)
    e = Map(Jar, to=Bool)
    f = Map(Jar, to=Bool)
    last = Map(Jar, to=Bool)

    @action("X")
    def rest(self, j: Jar) -> None:
        self.require(~self.first[j])

    def _far(self, j: Jar) -> Bool:
        return implies(self.c[j], self.d[j])

    @invariant("X")
    def from_the_first(self, j: Jar) -> Bool:
        return implies(self.first[j], self.a[j])

    @invariant("X")
    def one(self, j: Jar) -> Bool:
        return implies(self.a[j], self.b[j])

    @invariant("X")
    def two(self, j: Jar) -> Bool:
        return implies(self.b[j], self.c[j])

    @invariant("X")
    def far(self, j: Jar) -> Bool:
        return self._far(j)

    @invariant("X")
    def three(self, j: Jar) -> Bool:
        return implies(self.d[j], self.e[j])

    @invariant("X")
    def four(self, j: Jar) -> Bool:
        return implies(self.e[j], self.f[j])

    @invariant("X")
    def to_the_last(self, j: Jar) -> Bool:
        return implies(self.f[j], self.last[j])

    @corollary("X")
    def the_first_is_the_last(self, j: Jar) -> Bool:
        return implies(self.first[j], self.last[j])


class BrokenChain(Chain):
    """One link says nothing."""

    def _far(self, j: Jar) -> Bool:
        return implies(self.c[j], self.c[j])


def test_a_goal_that_needs_a_far_fact_is_proved_when_everything_is_shown() -> None:
    model = Model.of(Chain)
    problems = problems_of(model, COROLLARIES, Unbounded(model))
    (goal,) = [g for g in problems.goals if g.name == "the_first_is_the_last"]
    slices = Slices(problems)

    def follows(level: int) -> bool:
        known = [f.formula for f in slices.facts([goal], level)]
        return ask(Question(known, goal.formula), Way(depth=6), seconds=5) is not None

    assert [follows(level) for level in range(EVERYTHING + 1)] == [False] * EVERYTHING + [True]
    assert prove(Chain, jobs=1).holds
    broken = {o.goal: o for o in prove(BrokenChain, jobs=1, timeout=2).obligations if o.verdict != "proved"}
    assert broken.keys() == {"the_first_is_the_last"}
    found = broken["the_first_is_the_last"]
    assert found.verdict == "refuted"
    assert found.counterexample is not None
    assert found.counterexample.replayed


@pytest.mark.parametrize("place", ["hit", "trim", INITIALLY, COROLLARIES])
def test_slices_show_what_is_known_and_in_the_end_all_of_it(place: str) -> None:
    model = Model.of(Pool)
    problems = problems_of(model, place, Unbounded(model))
    slices = Slices(problems)
    for goal in problems.goals:
        known = {id(f) for f in goal.context.all_facts()}
        for level in range(EVERYTHING + 1):
            facts = slices.facts([goal], level)
            shown = {id(f) for f in facts}
            # What is said of the ends of a queue is said by definition, wherever somebody speaks of them.
            assert all(f.label in problems.symbolic.ends for f in facts if id(f) not in known)
            if level == EVERYTHING:
                assert shown >= known


# ------------------------------------------------------------------------------------------------ how it is asked


def test_an_unprovable_goal_is_unknown_and_never_proved() -> None:
    x = z3.Int("x")
    for depth in (0, 2, 6):
        assert ask(Question([x > 0], x < 10), Way(depth=depth), seconds=1) is None
        assert ask(Question([x > 0], False), Way(depth=depth), seconds=1) is None
    assert ask(Question([x > 0, x < 5], x < 10), Way(depth=2), seconds=1) == (1,)
    assert ask(Question([False], x < 10), Way(depth=2), seconds=1) == (0,)


def test_what_has_a_model_is_told_from_what_is_not_known() -> None:
    x, y, branch, f = z3.Int("x"), z3.Int("y"), z3.Bool("branch"), z3.Function("f", z3.IntSort(), z3.IntSort())
    every = z3.ForAll([x], f(f(x)) >= x)

    def has_model(known: list[z3.BoolRef], goal: z3.BoolRef, **way: Any) -> bool:
        seen: list[None] = []
        question = Question(known, goal, branches=(branch,))
        core = ask(question, Way(depth=2, **way), seconds=1, on_model=lambda: seen.append(None))
        assert core is None or not seen
        return bool(seen)

    assert has_model([x > 0], x < 10)
    assert not has_model([x > 0], x > -1)
    assert not has_model([every], f(y) < y), "it does not follow, but Z3 does not know all of what is said"
    assert has_model([y == z3.If(branch, x, -x), x > 0], z3.And(z3.Or(branch, y < 0), y < 9), cases=True)


def test_facts_that_have_a_model_are_not_shown_again_and_more_facts_are(monkeypatch: pytest.MonkeyPatch) -> None:
    x, questions = z3.Int("x"), list[Question]()

    def noted(question: Question, way: Way, **more: Any) -> tuple[int, ...] | None:
        questions.append(question)
        return ask(question, way, **more)

    monkeypatch.setattr(deciding, "ask", noted)
    model = Model.of(Pool)
    work = Deciding(problems_of(model, COROLLARIES, Unbounded(model)), "z3", 5.0)
    other = work.problems.goals[0]
    decision = deciding.Decision(Goal("x", "", other.context, other.line, lambda: x < 5, frozenset()))
    one, two, more = [Fact.of(f"{said}", frozenset(), said) for said in (x > 0, x < 9, x < 3)]
    for facts in ([one, two], [one], [two], [two, one], [one, two, more]):
        work._ask([decision], facts, Way(depth=2), 0.0)
    assert len(questions) == 2
    assert decision.is_proved


def test_what_a_proof_needed_is_enough_for_it() -> None:
    """What is kept of a proof is the facts that were needed: the goal has to follow from these alone."""
    model = Model.of(Pool)
    work = Deciding(problems_of(model, "evict", Unbounded(model)), "z3", 10.0)
    work.decide()
    for decision in work.decisions:
        assert decision.is_proved
        assert decision.core is not None
        question = Question([f.formula for f in decision.core], decision.goal.formula)
        solver = z3.Solver()
        solver.from_string(to_smt2(question))
        assert solver.check() == z3.unsat


def test_a_proof_by_cases_proves_each_case_and_no_more() -> None:
    """A branch is resolved both ways; what fails on one way is not proved."""
    from kvproof.checkers.solvers import _branches

    branch, x, y = z3.Bool("branch"), z3.Int("x"), z3.Int("y")
    known = [y == z3.If(branch, x, -x), z3.Implies(branch, x >= 1)]
    more = z3.Implies(z3.Not(branch), x <= 0)

    def said(goal: z3.BoolRef, *more: z3.BoolRef) -> tuple[int, ...] | None:
        question = Question([*known, *more], goal, branches=(z3.Not(branch),))
        assert len(_branches(question)) == ("branch" in goal.sexpr())
        return ask(question, Way(depth=2, cases=True), seconds=1)

    assert said(z3.If(branch, y >= 1, y >= 0)) is None
    assert said(z3.If(branch, y >= 1, y >= 0), more) == (0, 1, 2)
    assert said(y >= 0, more) is None  # there is nothing to split
    assert set(ask(Question([*known, more], y >= 0), Way(depth=2), seconds=1) or ()) == {0, 1, 2}
    assert said(z3.If(branch, y >= 1, y == y)) == (0, 1)


def test_a_case_is_lost_in_no_depth_of_branches() -> None:
    """More branches than are split, some of them written as their contrary: every way is still looked at."""
    branches = [z3.Bool(f"branch {i}") for i in range(BRANCHES + 2)]
    x = z3.Int("x")
    goal = z3.Or(*branches, x > 0)
    written = [z3.Not(b) if i % 2 else b for i, b in enumerate(branches)]
    for known, is_proved in (([], False), ([branches[-1]], True), ([x > 0], True), ([z3.Not(branches[0])], False)):
        found = ask(Question(known, goal, branches=written), Way(depth=2, cases=True), seconds=1)
        assert (found is not None) == is_proved


def test_what_the_ladder_leaves_open_is_asked_with_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A goal whose few tries all fail by bad luck has no counterexample, and is asked many times more."""
    monkeypatch.setattr(Deciding, "_groups", lambda _: iter(()))
    monkeypatch.setattr(Deciding.decide, "__defaults__", ((),))
    monkeypatch.setattr(Search, "find", lambda *args: None)
    report = prove(Pool, only=["evict"], jobs=1)
    assert {o.verdict for o in report.obligations} == {"proved"}
    monkeypatch.setattr(deciding, "PATIENT", ())
    report = prove(Pool, only=["evict"], jobs=1)
    assert report.count("unknown") > 0
    assert report.count("refuted") == 0
    assert not report.holds


def test_each_rung_is_asked_until_the_goal_is_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked together and fails is asked one by one; what is proved is not asked again."""
    asked: list[str] = []
    attempt = Deciding._attempt

    def noted(self: Deciding, decisions: list[deciding.Decision], rung: Attempt, until: float) -> None:
        asked.extend(d.goal.name for d in decisions if not d.is_proved and rung is not TOGETHER)
        attempt(self, decisions, rung, until)

    monkeypatch.setattr(Deciding, "_attempt", noted)
    model = Model.of(broken_pools.WriteShared)
    work = Deciding(problems_of(model, "write", Unbounded(model)), "z3", 5.0)
    work.decide()
    open_goals = [d.goal.name for d in work.decisions if not d.is_proved]
    assert open_goals == ["a_request_reads_its_own_prefix"]
    assert asked.count("a_request_reads_its_own_prefix") == len(deciding.LADDER)


# ------------------------------------------------------------------------------------------------ a second solver


def test_a_second_solver_agrees() -> None:
    pytest.importorskip("cvc5")
    report = prove(Pool, only=["admit", "evict"], solver="cvc5")
    assert all(o.verdict == "proved" for o in report.obligations)
    assert len(report.obligations) > 20


def test_a_second_solver_does_not_prove_what_is_broken() -> None:
    pytest.importorskip("cvc5")
    report = prove(broken_pools.WriteShared, only=["write"], solver="cvc5", timeout=2, jobs=1)
    assert [(o.goal, o.verdict) for o in report.obligations if o.verdict != "proved"] == [
        ("a_request_reads_its_own_prefix", "refuted")
    ]


class String(Sort):
    """Text, where SMT-LIB names it so."""


class Words(Machine):
    """What it has goes by words of SMT-LIB."""

    abs = Param(String, to=Int)
    select = Map(String, to=Int)
    let = Count(String, where=lambda m, s: m.abs[s] > 0)

    @action("T")
    def store(self, s: String) -> None:
        self.require(self.abs[s] > 0)
        self.select[s] = self.abs[s] + self.let.value

    @invariant("T")
    def natural(self, s: String) -> Bool:
        return self.select[s] >= 0


class WordsAreNone(Words):
    @invariant("T")
    def natural(self, s: String) -> Bool:
        return self.select[s] == 0


def test_a_second_solver_takes_no_name_for_its_own() -> None:
    pytest.importorskip("cvc5")
    assert prove(Words, solver="cvc5", jobs=1).holds
    verdicts = {
        (o.action, o.goal): o.verdict for o in prove(WordsAreNone, solver="cvc5", timeout=2, jobs=1).obligations
    }
    assert verdicts["store", "natural"] == "refuted"


def test_a_second_solver_tells_what_quantifiers_bind_apart() -> None:
    pytest.importorskip("cvc5")
    verdicts = {o.goal: o.verdict for o in prove(rounds.EndsAtItself, solver="cvc5", timeout=2, jobs=1).obligations}
    assert verdicts["to_itself"] == "refuted"


def said_by_z3(file: Path) -> str:
    solver = z3.Solver()
    solver.set("timeout", 5000)
    solver.from_file(str(file))
    return str(solver.check())


def said_by_cvc5(file: Path) -> str:
    import cvc5

    terms = cvc5.TermManager()
    engine = cvc5.Solver(terms)
    engine.setOption("tlimit-per", "5000")
    parser = cvc5.InputParser(engine)
    parser.setFileInput(cvc5.InputLanguage.SMT_LIB_2_6, str(file))
    answers = []
    while not (command := parser.nextCommand()).isNull():
        answers.append(command.invoke(engine, parser.getSymbolManager()).strip())
    return next(str(a) for a in answers if a in ("sat", "unsat", "unknown"))


def test_obligations_are_written_as_smt_lib(tmp_path: Path) -> None:
    """Each file by itself is unsatisfiable for both solvers, and there is one for each goal."""
    pytest.importorskip("cvc5")
    written = write_obligations(Pool, tmp_path, only=["evict"])
    model = Model.of(Pool)
    assert [w.goal for w in written] == [g.name for g in problems_of(model, "evict", Unbounded(model)).goals]
    assert len(written) > 10
    report = prove(Pool, only=["evict"], jobs=1)
    assert {o.goal for o in report.obligations} >= {w.goal for w in written}
    files = [tmp_path / w.file for w in written]
    assert [(f.name, said_by_z3(f), said_by_cvc5(f)) for f in files] == [(f.name, "unsat", "unsat") for f in files]


def test_the_file_of_what_is_refuted_is_not_unsatisfiable(tmp_path: Path) -> None:
    said = {
        (machine, written.goal): said_by_z3(tmp_path / machine.__name__ / written.file)
        for machine in (Shelf, BreaksAlways)
        for written in write_obligations(machine, tmp_path / machine.__name__, only=["open"])
    }
    assert said[Shelf, "no_more_is_open_than_may_be"] == "unsat"
    assert said[BreaksAlways, "no_more_is_open_than_may_be"] != "unsat"


def test_cvc5_says_no_more_than_z3() -> None:
    pytest.importorskip("cvc5")
    x = z3.Int("x")
    assert ask_cvc5(Question([x > 0, x < 5], x < 10), seconds=2)
    assert not ask_cvc5(Question([x > 0], x < 10), seconds=2)
    assert not ask_cvc5(Question([x > 0], False), seconds=2)


def test_what_is_said_of_two_members_is_looked_at_wherever_two_stand() -> None:
    """No application names both, and of what Z3 would pick by itself one need not occur: then seeds decide."""
    model = Model.of(LinkedPool)
    problems = problems_of(model, "trim", Unbounded(model))
    (goal,) = [g for g in problems.goals if g.name == "nobody_stands_between"]
    slices = Slices(problems)
    (said,) = [f for f in slices.known(goal) if f.label.startswith("nobody_stands_between") and "after" in f.label]
    assert isinstance(said.formula, z3.QuantifierRef)
    patterns = [said.formula.pattern(i) for i in range(said.formula.num_patterns())]
    assert {tuple(part.decl().name() for part in p.children()) for p in patterns} == {
        ("free.has^!0", "free.has^!0"),
        ("free.rank^!0", "free.rank^!0"),
    }
    known = [f.formula for f in slices.facts([goal], 0)]
    for seed in range(5):
        assert ask(Question(known, goal.formula), Way(depth=3, seed=seed, effort=0.3), seconds=5) is not None


class Place(Index):
    """Numbers of places."""


class Fixed(Machine):
    """In each scope a parameter is a place that is there; that is not known to proofs."""

    place = Param(Jar, to=Place)
    n = Map(Jar, to=Int)

    @action("X")
    def act(self, j: Jar) -> None:
        self.n[j] = 1

    @step("X", of="act")
    def it_is_there(self, before: Fixed, j: Jar) -> Bool:
        return Place.has(self.place[j])


def test_a_state_that_no_scope_has_is_no_counterexample() -> None:
    (left,) = [o for o in prove(Fixed, jobs=1, timeout=2).obligations if o.verdict != "proved"]
    assert (left.goal, left.verdict, left.counterexample) == ("it_is_there", "unknown", None)
