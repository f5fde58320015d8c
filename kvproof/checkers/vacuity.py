"""The proofs are about something.

A proof about a machine that cannot move proves nothing. So some parameters and a first state must exist, every action
must be possible in some state, with an end in which all invariants hold; and in a small scope the counts that proofs
carry along must equal the sums.

What is looked for is a state of a small scope: such a scope is one of those of which the proofs speak, so it is a model
of everything that they assume. Where none is found, the solver is asked whether there can be none in any scope.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import z3

from ..machine import Model
from ..machine.execution import Run
from ..machine.formulas import Formula, land, leq, lnot, lor
from ..machine.knowledge import of_first_state
from ..machine.mistakes import Line
from ..machine.model import CountOf, Promised, Property
from ..machine.progress import Beginning
from ..machine.reading import possible_when
from ..machine.reads import reads_of
from ..machine.scope import Scope
from ..machine.symbolic import Snapshot, Symbolic
from ..machine.terms import TRUE, Term, name_of, number_of
from ..machine.traversal import substituted
from ..machine.universe import Finite, Unbounded
from .beginnings import Beginnings
from .obligations import COROLLARIES, INITIALLY, formulas_of
from .proofs import SAMPLE, Proofs, digest_of
from .solvers import Question, Solver, Verdict, Way, answer_of_cvc5, ask, ask_cvc5

__all__ = ["VacuityCheck", "not_vacuous"]

SIZES = (1, 2, 3, 4)
"""Elements of each sort in the scopes that are looked through."""


@dataclass(frozen=True)
class VacuityCheck:
    """One question about whether the proofs are about something, and its answer."""

    goal: str
    verdict: Verdict
    seconds: float
    note: str = ""


def not_vacuous(
    model: Model,
    place: str,
    seconds: float,
    solver: Solver = "z3",
    proofs: Proofs | None = None,
    begun: Beginnings | None = None,
) -> Iterator[VacuityCheck]:
    """What has to be answered of an action, or of the first state.

    ``seconds`` of computing for each question; ``proofs``: what was proved before; ``begun``: what was built before.
    """
    begun = begun or Beginnings()
    if place == INITIALLY:
        yield _first_state_exists(model, seconds, solver)
    elif place in model.actions:
        yield from _is_possible(model, place, seconds, solver, begun)
        if model.counts:
            yield _counts_agree(model, place, seconds, solver, proofs, begun)
    elif place == COROLLARIES:
        for promised in model.promises.values():
            yield from _is_about_something(model, promised, seconds, solver)


class _Clock:
    """Who answers a question, and how much computing is left for it."""

    def __init__(self, seconds: float, by: Solver) -> None:
        self.started, self.seconds, self.by = time.process_time(), seconds, by

    @property
    def spent(self) -> float:
        return time.process_time() - self.started

    def check(self, known: Iterable[Formula]) -> z3.CheckSatResult:
        """Whether there is a model of all of this, in what is left of the time."""
        known = [f for f in known if f is not True]
        if self.by == "cvc5":
            return self._check_by_cvc5(Question(known, False))
        answer = self._first_model(_for_sums(), known)
        return self._first_model(z3.Solver(), known) if answer == z3.unknown else answer

    def _first_model(self, solver: z3.Solver, known: list[Formula]) -> z3.CheckSatResult:
        left = self.seconds - self.spent
        if left <= 0:
            return z3.unknown
        solver.set("ctrl_c", False)
        solver.set("timeout", max(1, int(1000 * left)))
        solver.add(*known)
        return solver.check()

    def _check_by_cvc5(self, question: Question) -> z3.CheckSatResult:
        left = self.seconds - self.spent
        answers = {"sat": z3.sat, "unsat": z3.unsat, "unknown": z3.unknown}
        return answers[answer_of_cvc5(question, seconds=left)] if left > 0 else z3.unknown


def _for_sums() -> z3.Solver:
    """Z3 with its older arithmetic, which adds up small numbers in two thirds of the time; products are beyond it."""
    solver = z3.SimpleSolver()
    solver.set("auto_config", False)
    solver.set("smt.relevancy", 0)
    solver.set("smt.arith.solver", 2)
    return solver


def _scopes(model: Model) -> Iterator[tuple[int, dict[str, int]]]:
    """How many rounds of loops, and small scopes.

    In some, one sort is as large as its square, for machines that have a name for each pair of others.
    """
    roots = Scope.roots(model)
    for size in SIZES:
        yield size, dict.fromkeys(roots, size)
        if 1 < size < SIZES[-1]:
            for root in roots:
                yield size, dict.fromkeys(roots, size) | {root: size * size}


def _first_state_exists(model: Model, seconds: float, solver: Solver) -> VacuityCheck:
    goal, clock = "some first state exists", _Clock(seconds, solver)
    for _, sizes in _scopes(model):
        if clock.check(_of_first_state(Symbolic(model, Finite(model, sizes)))) == z3.sat:
            return VacuityCheck(goal, "proved", clock.spent)
        if clock.spent > seconds:
            break
    if _contradict(_of_first_state(Symbolic(model, Unbounded(model))), seconds, solver):
        note = "what is assumed of the parameters and of the first state contradicts itself"
        return VacuityCheck(goal, "refuted", clock.spent, note)
    note = f"no first state was found with up to {SIZES[-1]} of each sort in {seconds:g} s"
    return VacuityCheck(goal, "unknown", clock.spent, note)


def _of_first_state(symbolic: Symbolic) -> list[Formula]:
    return formulas_of(symbolic, of_first_state(symbolic, symbolic.first()))


def _contradict(known: list[Formula], seconds: float, solver: Solver) -> bool:
    """Nothing of any size can be like this."""
    question = Question(known, False)
    if solver == "cvc5":
        return ask_cvc5(question, seconds=seconds)
    return any(ask(question, Way(depth=d, seed=d), seconds=seconds) is not None for d in (2, 4))


def _is_possible(model: Model, place: str, seconds: float, solver: Solver, begun: Beginnings) -> Iterator[VacuityCheck]:
    """The action is possible under the invariants, and some end satisfies them."""
    clock = _Clock(seconds, solver)
    possible, consistent = z3.unknown, z3.unknown
    for rounds, sizes in _scopes(model):
        beginning = begun.finite(model, sizes)
        symbolic = beginning.symbolic
        run = Run(symbolic, model.actions[place], rounds=rounds, judged=False, begun=beginning)
        # Mostly a small scope has a whole step, and then both are answered at once.
        ends = [symbolic.universally(p, run.now) for p in model.inductive if not _is_known(p, run)]
        consistent = clock.check([*formulas_of(symbolic, run.context.all_facts()), *ends])
        if consistent == z3.sat:
            possible = z3.sat
            break
        if possible != z3.sat:
            possible = clock.check(formulas_of(symbolic, run.possible.all_facts()))
        if clock.spent > seconds:
            break
    if possible != z3.sat:
        yield _impossible(model, place, clock)
        return
    yield VacuityCheck(f"{place} is possible", "proved", clock.spent / 2)
    goal = f"{place} is consistent"
    if consistent == z3.sat:
        yield VacuityCheck(goal, "proved", clock.spent / 2)
    else:
        line = model.actions[place].line
        note = f"no end of {place} (line {line}) was found in which all invariants hold: up to {SIZES[-1]} of each sort"
        yield VacuityCheck(goal, "unknown", clock.spent / 2, note)


def _is_known(prop: Property, run: Run) -> bool:
    """Nothing that the invariant speaks of was written: it says what is known of the state before."""
    states = run.now.functions, run.before.functions
    return all(n in run.symbolic.params or states[0][n] is states[1][n] for n in reads_of(prop.formula).names)


def _impossible(model: Model, place: str, clock: _Clock) -> VacuityCheck:
    """The action was not found to be possible: whether it never is."""
    goal, line = f"{place} is possible", model.actions[place].line
    symbolic = Symbolic(model, Unbounded(model))
    run = Run(symbolic, model.actions[place], judged=False)
    if _contradict(formulas_of(symbolic, run.possible.all_facts()), clock.seconds, clock.by):
        note = f"no state enables {place} (line {line}): its requirements contradict the invariants"
        return VacuityCheck(goal, "refuted", clock.spent, note)
    note = (
        f"no state of up to {SIZES[-1]} of each sort that enables {place} (line {line}) was found: its requirements "
        "may contradict the invariants, or it needs more"
    )
    return VacuityCheck(goal, "unknown", clock.spent, note)


def _is_about_something(model: Model, promised: Promised, seconds: float, solver: Solver) -> Iterator[VacuityCheck]:
    """In some state the goal of a promise is not reached, and each of its fair actions is possible in one of these.

    A goal that is always reached needs nobody, and a fair action that never helps is none that may be relied on.
    """
    goal, clock = f"{promised.name} is not always kept already", _Clock(seconds, solver)
    yield _reachable(model, goal, clock, lambda s, state: _is_open(promised, s, state), promised.line)
    for name in promised.fair:
        said, clock = f"{promised.name} is served by {name}", _Clock(seconds, solver)
        yield _reachable(model, said, clock, partial(_is_served, model, promised, name), promised.line)


def _is_open(promised: Promised, symbolic: Symbolic, state: Snapshot) -> Formula:
    """For some values of its parameters the goal is not reached."""
    env, inside = _some(symbolic, promised.binders)
    return land(*inside, lnot(symbolic.value(promised.goal, state, env)))


def _is_served(model: Model, promised: Promised, name: str, symbolic: Symbolic, state: Snapshot) -> Formula:
    """So it is, and a step of the action is possible that is fair."""
    params, serves = promised.fair[name]
    other, allows = promised.only.get(name, (params, TRUE))
    allows = substituted(allows, {number_of(v): p for v, p in zip(other, params, strict=True)}, {})
    env, inside = _some(symbolic, (*promised.binders, *params))
    possible = possible_when(model.actions[name], params)
    return land(*inside, *(symbolic.value(f, state, env) for f in (~promised.goal, serves, allows, possible)))


def _some(symbolic: Symbolic, variables: tuple[Term, ...]) -> tuple[dict[int, Formula], list[Formula]]:
    """Any elements for these variables."""
    chosen = [symbolic.universe.fresh(name_of(v), type(v)) for v in variables]
    inside = [symbolic.universe.is_element(type(v), c) for v, c in zip(variables, chosen, strict=True)]
    return {number_of(v): c for v, c in zip(variables, chosen, strict=True)}, inside


def _reachable(
    model: Model, goal: str, clock: _Clock, wanted: Callable[[Symbolic, Snapshot], Formula], line: Line
) -> VacuityCheck:
    """A state in which the invariants hold, and this."""

    def formulas(universe: Unbounded) -> list[Formula]:
        begun = Beginning(Symbolic(model, universe))
        symbolic = begun.symbolic
        said = wanted(symbolic, begun.state)
        return [*formulas_of(symbolic, begun.facts), said]

    for _, sizes in _scopes(model):
        if clock.check(formulas(Finite(model, sizes))) == z3.sat:
            return VacuityCheck(goal, "proved", clock.spent)
        if clock.spent > clock.seconds:
            break
    if _contradict(formulas(Unbounded(model)), clock.seconds, clock.by):
        return VacuityCheck(
            goal, "refuted", clock.spent, f"the invariants leave no state in which that is so (line {line})"
        )
    note = f"no state of up to {SIZES[-1]} of each sort was found in which that is so (line {line})"
    return VacuityCheck(goal, "unknown", clock.spent, note)


def _counts_agree(
    model: Model, place: str, seconds: float, solver: Solver, proofs: Proofs | None, begun: Beginnings
) -> VacuityCheck:
    """In a small scope: counts carried by their law equal the sums, before and after."""
    clock = _Clock(seconds, solver)
    beginning = begun.finite(model, dict.fromkeys(Scope.roots(model), 2), counts_by_law=True)
    symbolic = beginning.symbolic
    run = Run(symbolic, model.actions[place], rounds=1, judged=False, assumed=False, begun=beginning)
    touched = [c for c in model.counts.values() if c.name not in run.unknown_counts and _is_touched(c, run)]

    def held(count: CountOf) -> Formula:
        return _is_sum(count, symbolic, run.before)

    def strays(count: CountOf) -> Formula:
        return lnot(_is_sum(count, symbolic, run.now))

    # A law alone says how its count is carried, mostly, and says the same in machines that extend others.
    left = [c for c in touched if _check_once(clock, [held(c), strays(c)], proofs) != z3.unsat]
    answer = z3.unsat
    if left:
        known = [*formulas_of(symbolic, run.context.all_facts()), *map(held, model.counts.values())]
        answer = clock.check([*known, lor(*map(strays, left))])
    goal = "counts are what the laws say"
    if answer == z3.unsat:
        return VacuityCheck(goal, "proved", clock.spent)
    if answer == z3.unknown:
        return VacuityCheck(goal, "unknown", clock.spent, "not decided in time: ask with a longer --timeout")
    note = "a count is not carried as its law says: an error of the kit, please report it"
    return VacuityCheck(goal, "refuted", clock.spent, note)


def _check_once(clock: _Clock, formulas: list[Formula], proofs: Proofs | None) -> z3.CheckSatResult:
    """Whether there is a model of these formulas.

    That there is none is kept, since machines that extend others ask the same.
    """
    if proofs is None:
        return clock.check(formulas)
    digest = digest_of(lnot(land(*formulas)))
    if proofs.cores(digest) and random.random() >= SAMPLE:
        return z3.unsat
    answer = clock.check(formulas)
    if answer == z3.unsat:
        proofs.keep([(digest, ())])
    return answer


def _read_by(count: CountOf, run: Run) -> list[str]:
    """The functions of states that the count is made of, and its own."""
    return [count.name, *(f for name in count.reads for f in run.symbolic.functions_of(name))]


def _is_touched(count: CountOf, run: Run) -> bool:
    return any(run.now.functions[f] is not run.before.functions[f] for f in _read_by(count, run))


def _is_sum(count: CountOf, symbolic: Symbolic, state: Snapshot) -> Formula:
    carried, summed = state.functions[count.name], symbolic.written_out(count, state)
    kinds = [type(k) for k in count.keys]
    return symbolic.universe.quantify("forall", kinds, lambda *k: leq(carried(*k), summed(*k)))
