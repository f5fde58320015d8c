"""Asking a solver whether a goal follows: Z3, or cvc5 as a second, independent opinion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import z3

from ..machine.formulas import Formula, lnot
from .obligations import Problem, by_cases

__all__ = ["Attempt", "Verdict", "ask", "is_trivial", "to_smt2"]

Verdict = Literal["proved", "refuted", "unknown"]

WORK = 6_000_000
"""What Z3 counts as its work (rlimit) in about a second, on goals like these."""


@dataclass(frozen=True)
class Attempt:
    """One way to ask Z3.

    ``depth`` bounds how far terms that come out of one another are followed; ``nearby``: only the hypotheses that are
    most likely to matter; ``lemmas``: with what was proved at the same place before; ``cases``: each way through the
    action's branches by itself; ``relevancy``: as Z3 names it, 2 to look at nothing beyond the cases chosen so far, 1
    to instantiate only what they speak of but to draw every conclusion; ``effort`` bounds Z3's work, where 1 is about a
    second: work and not time, so that a slow moment of the machine changes no answer.
    """

    depth: int
    seed: int = 0
    nearby: bool = True
    lemmas: bool = False
    cases: bool = False
    relevancy: int = 2
    effort: float = 1.0


def is_trivial(formula: Formula) -> bool:
    """The formula is true as it stands."""
    return formula is True or (isinstance(formula, z3.ExprRef) and z3.is_true(formula))


def ask(problem: Problem, lemmas: list[Formula], attempt: Attempt, *, solver: str, timeout: float) -> Verdict:
    """Whether the goal follows from the hypotheses and lemmas; ``timeout`` in seconds.

    The answer is "proved" or "unknown": a refutation needs a whole state (`counterexample.py`), not a failed proof.
    """
    if is_trivial(problem.formula):
        return "proved"
    if solver == "cvc5":
        return _ask_cvc5(to_smt2(problem, lemmas), timeout)
    cases = by_cases(problem) if attempt.cases else [problem]
    return "proved" if all(_follows(case, lemmas, attempt, timeout) for case in cases) else "unknown"


def _follows(problem: Problem, lemmas: list[Formula], attempt: Attempt, timeout: float) -> bool:
    z = z3.Solver()
    z.set("rlimit", int(WORK * attempt.effort))
    z.set("timeout", max(1, int(1000 * timeout)))
    # Quantified hypotheses are instantiated at terms that occur; no attempt is made to build infinite models.
    z.set("auto_config", False)
    z.set("smt.mbqi", False)
    z.set("smt.qi.eager_threshold", float(attempt.depth))
    z.set("smt.qi.lazy_threshold", float(attempt.depth))
    z.set("smt.random_seed", attempt.seed)
    z.set("smt.relevancy", attempt.relevancy)
    hypotheses = problem.nearby if attempt.nearby and problem.nearby is not None else problem.hypotheses
    z.add(*hypotheses, *lemmas, lnot(problem.formula))
    return bool(z.check() == z3.unsat)


def to_smt2(problem: Problem, lemmas: list[Formula] | None = None) -> str:
    """The problem as SMT-LIB text: unsatisfiable exactly when the goal follows."""
    z = z3.Solver()
    goal = problem.formula if not isinstance(problem.formula, bool) else z3.BoolVal(problem.formula)
    z.add(*problem.hypotheses, *(lemmas or []), z3.Not(goal))
    return f"(set-logic ALL)\n{z.to_smt2()}"


def _ask_cvc5(text: str, timeout: float) -> Verdict:
    """The same question to cvc5, through its own reader of SMT-LIB."""
    try:
        import cvc5
    except ImportError:
        raise ModuleNotFoundError("cvc5 is not installed; install it with pip install 'kvproof[cvc5]'") from None
    terms = cvc5.TermManager()
    engine = cvc5.Solver(terms)
    engine.setOption("tlimit-per", str(max(1, int(1000 * timeout))))
    parser = cvc5.InputParser(engine)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, text, "obligation")
    symbols = parser.getSymbolManager()
    answer = "unknown"
    while not (command := parser.nextCommand()).isNull():
        said = command.invoke(engine, symbols).strip()
        if said in ("sat", "unsat", "unknown"):
            answer = said
    return "proved" if answer == "unsat" else "unknown"
