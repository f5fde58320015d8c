"""What has to be proved of a machine, as problems for a solver.

A machine is proved when its first state satisfies the inductive invariants, every action keeps them (and the properties
of steps, and does nothing ill-formed on the way), and the corollaries follow from them. Each problem is a list of
hypotheses and a goal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import z3

from ..machine.execution import Context, Goal, Run, Settled
from ..machine.formulas import Formula, land, limplies, lnot, occurs, replaced
from ..machine.model import Model, Property
from ..machine.symbolic import Snapshot, Symbolic
from ..machine.terms import Line, Term
from ..machine.universe import Unbounded
from ..machine.wellformed import WellFormed

__all__ = [
    "COROLLARIES",
    "INITIALLY",
    "Problem",
    "Problems",
    "by_cases",
    "corollaries",
    "initially",
    "of_action",
    "together",
]

INITIALLY = "initially"
COROLLARIES = "every state"


@dataclass(eq=False)
class Problem:
    """Something to prove: the goal follows from the hypotheses, and from goals of the same place proved before."""

    goal: str
    rule: str
    line: Line
    hypotheses: list[Formula]
    formula: Formula
    place: int
    prop: Property | None = None
    nearby: list[Formula] | None = None
    """The hypotheses that speak of something that goal or action speak of: mostly enough, and faster."""
    branches: tuple[Formula, ...] = ()
    """The conditions of the `when`s before this place."""


BRANCHES = 3
"""By so many conditions a problem is split into cases at most."""


def by_cases(problem: Problem) -> list[Problem]:
    """One problem for each way in which the branches before this place that the goal depends on may have gone.

    What decides a branch is replaced by its truth, so that a case speaks of one way through the action only.
    """
    cases = [problem]
    for branch in [b for b in map(_without_not, problem.branches) if occurs(b, problem.formula)][:BRANCHES]:
        cases = [_where(case, branch, truth) for case in cases for truth in (True, False)]
    return cases


def _without_not(branch: Formula) -> Formula:
    while z3.is_not(branch):
        branch = branch.arg(0)
    return branch


def _where(problem: Problem, branch: Formula, truth: bool) -> Problem:
    """The problem where the branch went this way."""
    resolved = [(branch, z3.BoolVal(truth))]

    def there(formula: Formula) -> Formula:
        found = replaced(formula, resolved)
        return found if isinstance(found, bool) or found.eq(formula) else z3.simplify(found)

    def known(formulas: list[Formula]) -> list[Formula]:
        return [branch if truth else lnot(branch), *map(there, formulas)]

    return replace(
        problem,
        hypotheses=known(problem.hypotheses),
        formula=there(problem.formula),
        nearby=None if problem.nearby is None else known(problem.nearby),
    )


def together(problems: Sequence[Problem]) -> Problem:
    """All these problems of one place as one: their goals' conjunction follows from what is known there."""
    nearby = {_identity(h): h for p in problems for h in (p.hypotheses if p.nearby is None else p.nearby)}
    first = problems[0]
    formula = land(*[p.formula for p in problems])
    return Problem("", "", first.line, first.hypotheses, formula, first.place, nearby=list(nearby.values()))


def _identity(formula: Formula) -> object:
    return formula.get_id() if isinstance(formula, z3.ExprRef) else formula


@dataclass(eq=False)
class Problems:
    """The problems of one action (or of the first state, or of any state), and what a counterexample is read from."""

    symbolic: Symbolic
    problems: list[Problem]
    before: Snapshot
    args: list[Formula] = field(default_factory=list)
    run: Run | None = None


def known_in(context: Context) -> list[Formula]:
    """Everything that is known there."""
    known: list[Formula] = []
    at: Context | None = context
    while at is not None:
        known = [k for k in at.known if k is not True] + known
        at = at.outer
    return known


def of_action(
    model: Model, name: str, universe: Unbounded, *, rounds: int = 3, settled: Settled | None = None
) -> Problems:
    """The problems of one action, without what is settled already."""
    symbolic = Symbolic(model, universe)
    run = Run(symbolic, model.actions[name], rounds=rounds, settled=settled)
    known: dict[int, list[_Known]] = {}
    problems = []
    for g in [*run.goals, *_between_rounds(run)]:
        if id(g.context) not in known:
            known[id(g.context)] = [_Known.of(run, h) for h in (*symbolic.definitions, *known_in(g.context))]
        there = known[id(g.context)]
        nearby = _nearby(run, g, there) if g.about else None
        hypotheses = [k.formula for k in there]
        problems.append(
            Problem(g.name, g.rule, g.line, hypotheses, g.formula, id(g.context), g.prop, nearby, g.branches)
        )
    return Problems(symbolic, problems, run.before, run.args, run)


@dataclass(frozen=True, slots=True)
class _Known:
    """A hypothesis, and what it speaks of where that was noted."""

    formula: Formula
    about: frozenset[str] | None

    @staticmethod
    def of(run: Run, formula: Formula) -> _Known:
        noted = run.symbolic.about.get(formula.get_id()) if isinstance(formula, z3.ExprRef) else None
        return _Known(formula, None if noted is None else frozenset(noted[1]))


def _nearby(run: Run, goal: Goal, known: Sequence[_Known]) -> list[Formula]:
    """What speaks of nothing but what neither the goal nor the action looks at is left out."""
    counts = run.model.counts
    looked_at = set(goal.about) | run.read
    for name in goal.about & counts.keys():
        looked_at |= counts[name].reads.keys() | {f"{q}.has" for q in counts[name].reads if q in run.model.queues}
    return [k.formula for k in known if k.about is None or k.about & looked_at]


def _between_rounds(run: Run) -> Iterator[Goal]:
    """In a finite universe: the invariants at every halt between rounds of a loop."""
    for context, condition, label, state in run.halts:
        for prop in run.model.inductive:
            claims = run.symbolic.claims(prop, state, None, {})
            for number, formula in enumerate(claims, 1):
                part = f" ({number} of {len(claims)})" if len(claims) > 1 else ""
                yield Goal(
                    f"{label}{prop.name}{part}", prop.rule, context, limplies(condition, formula), prop.line, prop
                )


def initially(model: Model, universe: Unbounded, settled: Settled) -> Problems:
    """The first state satisfies the inductive invariants."""
    symbolic = Symbolic(model, universe)
    state, facts = symbolic.first()
    known = [f for f in [*symbolic.about_params(), *facts] if f is not True]
    problems = [
        Problem(_part(prop, i, n), prop.rule, prop.line, [*symbolic.definitions, *known], formula, 0, prop)
        for prop in model.inductive
        if prop.name not in settled.properties
        for i, n, formula in _numbered(symbolic.claims(prop, state, None, {}))
    ]
    for name, (keys, value) in model.inits.items():
        formula = have_values(symbolic, [value], keys, state)
        if formula is not True:
            line = (model.maps[name] if name in model.maps else model.queues[name]).line
            problems.append(
                Problem(f"the first value of {name} has a value", "", line, [*symbolic.definitions, *known], formula, 0)
            )
    return Problems(symbolic, problems, state)


def corollaries(model: Model, universe: Unbounded, settled: Settled) -> Problems:
    """The corollaries follow from the inductive invariants, and every property has a value wherever these hold."""
    symbolic = Symbolic(model, universe)
    state = symbolic.arbitrary()
    known = [*symbolic.about_params(), *symbolic.typing(state), *symbolic.counting(state)]
    inductive = [symbolic.universally(p, state, None, {}) for p in model.inductive]
    hypotheses = [f for f in [*known, *inductive, *(f for _, f in symbolic.rested(state))] if f is not True]
    problems = [
        Problem(_part(prop, i, n), prop.rule, prop.line, [*symbolic.definitions, *hypotheses], formula, 0, prop)
        for prop in model.of_kind("invariant")
        if prop.derived and prop.name not in settled.properties
        for i, n, formula in _numbered(symbolic.claims(prop, state, None, {}))
    ]
    for prop in (*model.of_kind("invariant"), *model.of_kind("sometimes")):
        if prop.name in settled.properties:
            continue
        formula = have_values(symbolic, [prop.formula], prop.binders, state)
        if formula is not True:
            problems.append(
                Problem(
                    f"{prop.name} has a value", prop.rule, prop.line, [*symbolic.definitions, *hypotheses], formula, 1
                )
            )
    for count in model.counts.values():
        weights = [] if count.weight is None else [count.weight]
        formula = have_values(symbolic, [count.formula, *weights], (*count.elements, *count.keys), state)
        if formula is not True:
            goal = f"count {count.name} has a value"
            problems.append(Problem(goal, "", count.line, [*symbolic.definitions, *hypotheses], formula, 1))
    return Problems(symbolic, problems, state)


def have_values(symbolic: Symbolic, terms: Sequence[Term], binders: Sequence[Term], state: Snapshot) -> Formula:
    """The terms are well-formed, whatever the binders stand for."""
    asks = WellFormed(symbolic, state, {}, {})

    def at(*values: Formula) -> Formula:
        env = {b.args[1]: v for b, v in zip(binders, values, strict=True)}
        return land(*[asks.demands(term, env) for term in terms])

    return symbolic.universe.quantify("forall", [type(b) for b in binders], at)


def _numbered(formulas: list[Formula]) -> Iterator[tuple[int, int, Formula]]:
    return ((i, len(formulas), f) for i, f in enumerate(formulas, 1))


def _part(prop: Property, number: int, of: int) -> str:
    return f"{prop.name} ({number} of {of})" if of > 1 else prop.name
