"""Asking a solver whether a goal follows: Z3, or cvc5 as a second, independent opinion."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

import z3
from z3 import z3core

from ..machine.formulas import Formula, address, lnot, occurs, replaced

__all__ = [
    "WORK",
    "Question",
    "Solver",
    "Verdict",
    "Way",
    "answer_of_cvc5",
    "ask",
    "ask_cvc5",
    "decided",
    "is_trivial",
    "to_smt2",
]

Verdict = Literal["proved", "refuted", "unknown"]

Solver = Literal["z3", "cvc5"]

WORK = 1_000_000
"""What Z3 counts as its work (rlimit) in up to a second, on goals like these."""

READING = 300
"""What it counts for one more formula that is known, before it has begun."""

SLOWEST = 20.0
"""Seconds after which one unit of effort is given up, whatever Z3 counts: some of its arithmetic is not counted."""


@dataclass(frozen=True)
class Question:
    """Does the goal follow from what is known? ``branches``: conditions of `when` that decide which way was taken."""

    known: Sequence[Formula]
    goal: Formula
    branches: Sequence[Formula] = ()


@dataclass(frozen=True)
class Way:
    """One way to ask Z3.

    ``depth`` bounds how far terms that come out of one another are followed; ``cases``: each way through the action's
    branches by itself; ``relevancy``: as Z3 names it, 2 to look at nothing beyond the cases chosen so far, 1 to
    instantiate only what they speak of but to draw every conclusion; ``models``: instances are looked for in candidates
    for a model too, and not only among terms that occur; ``effort`` bounds Z3's work beyond reading what is
    known, where 1 is up to a second: work and not time, so that a slow moment of the machine changes no answer.
    """

    depth: int
    seed: int = 0
    cases: bool = False
    relevancy: int = 2
    models: bool = False
    effort: float = 1.0


def is_trivial(formula: Formula) -> bool:
    """The formula is true as it stands."""
    return formula is True or (isinstance(formula, z3.ExprRef) and z3.is_true(formula))


class _HasModel(Exception):
    """What is known holds somewhere without the goal, in Z3's opinion."""


def ask(
    question: Question, way: Way, *, seconds: float, on_model: Callable[[], None] = lambda: None
) -> tuple[int, ...] | None:
    """Whether the goal follows, in Z3's opinion: which of what is known was needed; None where that is not known.

    A refutation needs a whole state (`counterexample.py`), not a failed proof.

    Args:
        question: what is asked.
        way: how.
        seconds: for one question that Z3 is asked.
        on_model: called where Z3 has a model in which all that is known holds and the goal does not: from this, or from
            less, the goal does not follow, however it is asked.
    """
    if is_trivial(question.goal):
        return ()
    if question.goal is False:
        question = replace(question, goal=z3.BoolVal(False))
    try:
        if not way.cases:
            return _follows(question, way, seconds)
        branches = _branches(question)
        return _by_cases(question, branches, way, seconds) if branches else None
    except _HasModel:
        on_model()
        return None


def _follows(question: Question, way: Way, seconds: float) -> tuple[int, ...] | None:
    solver = z3.SimpleSolver()
    ref = solver.ctx.ref()
    z3core.Z3_solver_set_params(ref, solver.solver, _parameters(way).params)
    solver.set(
        rlimit=int(WORK * way.effort) + READING * len(question.known),
        timeout=max(1, int(1000 * min(seconds, SLOWEST * way.effort))),
    )
    labels = []
    for number, known in enumerate(question.known):
        if known is True:
            continue
        label = _label(number)
        labels.append(label)
        formula = z3.BoolVal(known) if isinstance(known, bool) else known
        z3core.Z3_solver_assert(ref, solver.solver, z3core.Z3_mk_implies(ref, label.ast, formula.ast))
    solver.add(lnot(question.goal))
    answer = solver.check(*labels)
    if answer == z3.sat:
        raise _HasModel
    if answer != z3.unsat:
        return None
    return tuple(sorted(_numbers[address(label)] for label in solver.unsat_core()))


_numbers: dict[int, int] = {}
"""The number of each name, by where Z3 has it."""


@cache
def _label(number: int) -> z3.BoolRef:
    """The name under which something that is known is shown to Z3, which tells by these names what it needed."""
    label = z3.Bool(f"known {number}")
    _numbers[address(label)] = number
    return label


@cache
def _parameters(way: Way) -> z3.ParamsRef:
    parameters = z3.ParamsRef()
    # Quantified hypotheses are instantiated at terms that occur; to build infinite models is seldom worth a try.
    parameters.set("auto_config", False)
    parameters.set("ctrl_c", False)  # an interruption is Python's, and ends the run; Z3 would take it for itself
    parameters.set("smt.mbqi", way.models)
    parameters.set("smt.qi.eager_threshold", float(way.depth))
    parameters.set("smt.qi.lazy_threshold", float(way.depth))
    parameters.set("smt.random_seed", way.seed)
    parameters.set("smt.relevancy", way.relevancy)
    return parameters


# ------------------------------------------------------------------------------------------------ models

SHORTEST = 0.5
"""The effort of the first search for a model."""

BUSY = 4
"""Z3 knows the wall clock only, which on a busy machine runs so much faster than the process computes."""


def decided(
    wanted: Iterable[Formula], simpler: Callable[[], Iterable[Formula]] | None = None, *, until: float
) -> tuple[z3.CheckSatResult, z3.Solver]:
    """Whether all that is wanted can hold at once, as far as that is found in time; and the solver, with a model.

    How long Z3 takes depends on the order in which it numbered its terms, and so on all that this process asked before:
    now and then a hundred times as long as most times. So it is asked anew, each time for longer.

    Args:
        wanted: what shall hold.
        simpler: makes what may be asked besides, in every second try, where models are sooner found.
        until: the last moment, as `time.process_time` tells it.
    """
    formulas = [z3.BoolVal(f) if isinstance(f, bool) else f for f in wanted]
    for tried in itertools.count():
        besides = [*simpler()] if simpler is not None and tried % 2 == 1 else []
        solver = z3.Solver()
        solver.set(
            ctrl_c=False,  # an interruption is Python's, and ends the search; Z3 would take it for itself
            random_seed=tried,
            rlimit=int(WORK * SHORTEST * 2 ** (tried // 2)),
            timeout=max(1, int(1000 * BUSY * (until - time.process_time()))),
        )
        solver.add(*formulas, *besides)
        answer = solver.check()
        if answer == z3.sat or (answer == z3.unsat and not besides):
            return answer, solver
        if (answer == z3.unknown and "incomplete" in solver.reason_unknown()) or time.process_time() > until:
            return z3.unknown, solver
    raise AssertionError("there is always another try")


# ------------------------------------------------------------------------------------------------ cases

BRANCHES = 6
"""By so many conditions a question is split into cases at most."""

CASE_TRIES = 6
"""So often a case is asked that cannot be split any more."""


def _branches(question: Question) -> list[Formula]:
    """The conditions that decide the way through the action, of those that the goal depends on."""
    found: list[Formula] = []
    for branch in map(_without_not, question.branches):
        if occurs(branch, question.goal) and not any(branch.eq(other) for other in found):
            found.append(branch)
    return found[:BRANCHES]


def _by_cases(question: Question, branches: Sequence[Formula], way: Way, seconds: float) -> tuple[int, ...] | None:
    """Each of the cases by itself, split only where that is needed: what was needed for all of them together.

    A model of one case is a model of the whole: what decides the branch has in it the truth that it was replaced by.
    """
    if not branches:
        # It is so small that another way is soon tried: what is lost in one case must not cost all others.
        ways = (replace(way, seed=way.seed + 100 * n, models=n % 2 == 1) for n in range(CASE_TRIES))
        return next((core for w in ways if (core := _follows(question, w, seconds)) is not None), None)
    core = _follows(question, way, seconds)
    if core is not None:
        return core
    used: set[int] = set()
    for truth in (True, False):
        part = _by_cases(_where(question, branches[0], truth=truth), branches[1:], way, seconds)
        if part is None:
            return None
        used.update(part)
    return tuple(sorted(used))


def _without_not(branch: Formula) -> Formula:
    while z3.is_not(branch):
        branch = branch.arg(0)
    return branch


def _where(question: Question, branch: Formula, *, truth: bool) -> Question:
    """The question where the branch went this way.

    What decides the branch is replaced by its truth, so that the case speaks of one way through the action only.
    """
    resolved = [(branch, z3.BoolVal(truth))]

    def there(formula: Formula) -> Formula:
        found = replaced(formula, resolved)
        return found if isinstance(found, bool) or found.eq(formula) else z3.simplify(found)

    went = branch if truth else lnot(branch)
    goal = there(question.goal)
    return replace(
        question,
        known=list(map(there, question.known)),
        goal=z3.Implies(went, goal if not isinstance(goal, bool) else z3.BoolVal(goal)),
    )


# ------------------------------------------------------------------------------------------------ a second opinion


def to_smt2(question: Question) -> str:
    """The question as SMT-LIB text: unsatisfiable exactly when the goal follows."""
    formulas = [z3.BoolVal(f) if isinstance(f, bool) else f for f in (*question.known, lnot(question.goal))]
    *known, opposite = [formula.as_ast() for formula in formulas]
    # As a solver writes what it was given, which costs more than the writing.
    context, before = formulas[-1].ctx.ref(), (z3.Ast * len(known))(*known)
    text = z3.Z3_benchmark_to_smtlib_string(context, "obligation", "", "unknown", "", len(known), before, opposite)
    return f"(set-logic ALL)\n{text}"


def ask_cvc5(question: Question, *, seconds: float) -> bool:
    """Whether the goal follows in cvc5's opinion; False where it does not know.

    Raises:
        ModuleNotFoundError: cvc5 is not installed.
    """
    return answer_of_cvc5(question, seconds=seconds) == "unsat"


def answer_of_cvc5(question: Question, *, seconds: float) -> Literal["sat", "unsat", "unknown"]:
    """What cvc5 says of the goal's opposite beside what is known, through its own reader of SMT-LIB.

    Raises:
        ModuleNotFoundError: cvc5 is not installed.
    """
    try:
        import cvc5
    except ImportError:
        raise ModuleNotFoundError("cvc5 is not installed; install it with pip install 'kvproof[cvc5]'") from None
    terms = cvc5.TermManager()
    engine = cvc5.Solver(terms)
    engine.setOption("fresh-binders", "true")  # binders go by how deep they stand, so many have one name
    engine.setOption("tlimit-per", str(max(1, int(1000 * seconds))))
    parser = cvc5.InputParser(engine)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, to_smt2(question), "obligation")
    symbols = parser.getSymbolManager()
    answer: Literal["sat", "unsat", "unknown"] = "unknown"
    while not (command := parser.nextCommand()).isNull():
        said = command.invoke(engine, symbols).strip()
        if said in ("sat", "unsat"):
            answer = said
    return answer
