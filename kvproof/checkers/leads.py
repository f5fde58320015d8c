"""A lead where an obligation is neither proved nor refuted: what could not be excluded, and what would settle it.

The proof looks at loops through their facts only. So in a small scope a state is looked for that the invariants and
these facts allow, and in which the goal is false: no run need come there, and whatever keeps runs away from there is
what the machine does not say yet. And whatever else the machine states is tried as one more hypothesis.
"""

from __future__ import annotations

from collections.abc import Iterator

import z3

from ..machine.formulas import land
from ..machine.knowledge import Fact
from ..machine.model import RESULT, Model
from ..machine.scope import Scope
from ..machine.terms import name_of, number_of
from ..machine.universe import Finite
from .deciding import QUICK, Deciding, Decision
from .obligations import problems_of
from .shown import Counterexample, read_state
from .solvers import Question, ask
from .states import names_of

__all__ = ["lead"]

SIZES = (1, 2, 3)
"""Elements of each sort in the scopes that are looked through."""


def lead(model: Model, place: str, deciding: Deciding, decision: Decision, *, seconds: float) -> str:
    """What to look at, in some lines; empty where nothing was found in that time for each question."""
    lines = [f"it would follow if this were known too: {name}" for name in _settling(model, deciding, decision)]
    state = _not_excluded(model, place, decision.goal.name, seconds)
    if state is not None:
        lines.append("not excluded by the invariants and the facts of loops (no run need come there):")
        lines += state.table("where the invariants are known", "where it is false")
    return "\n".join(lines)


def _settling(model: Model, deciding: Deciding, decision: Decision) -> Iterator[str]:
    """What else is stated, and would be enough beside what is known."""
    for name, fact in _candidates(model, deciding, decision):
        for attempt in QUICK:
            facts = deciding.slices.facts([decision.goal], attempt.level, [fact])
            if ask(Question([f.formula for f in facts], decision.goal.formula), attempt.way, seconds=1.0) is not None:
                yield name
                break


def _candidates(model: Model, deciding: Deciding, decision: Decision) -> Iterator[tuple[str, Fact]]:
    goal, symbolic = decision.goal, deciding.problems.symbolic
    for other in deciding.decisions:
        if other is not decision and not other.is_proved and other.goal.context is goal.context:
            name = other.goal.name
            yield f"{name}, which is open too", Fact(name, other.goal.symbols, other.goal.build, is_local=True)
    start = deciding.problems.before if goal.states is None else goal.states[0]
    for prop in model.of_kind("invariant"):
        if prop.derived:
            symbols = symbolic.symbols(prop.formula, start)
            formula = symbolic.universally(prop, start)
            yield f"the corollary {prop.name}", Fact.of(prop.name, symbols, formula, is_local=True)

    yield from _as_loop_facts(deciding, decision)


def _as_loop_facts(deciding: Deciding, decision: Decision) -> Iterator[tuple[str, Fact]]:
    """What a property of steps says, said of a loop: of the state before its first round and of that after its last."""
    symbolic, run, prop = deciding.problems.symbolic, deciding.problems.run, decision.goal.prop
    if run is None or prop is None or prop.kind != "step" or RESULT in prop.given:
        return
    given = {name_of(p): a for p, a in zip(run.action.params, run.args, strict=True)}
    env = {number_of(v): given[n] for n, v in prop.given.items()}
    for label, entry, after in run.passed:
        views = {"before": entry}
        formula = land(*[symbolic.claim(c, after, views, env) for c in symbolic.clauses(prop.binders, prop.formula)])
        symbols = symbolic.symbols(prop.formula, after, views)
        name = f"{prop.name} as a fact of the {label}, of the state before its first round"
        yield name, Fact.of(name, symbols, formula, is_local=True)


def _not_excluded(model: Model, place: str, goal: str, seconds: float) -> Counterexample | None:
    """A small state in which everything that is known holds, and the goal does not."""
    roots = Scope.roots(model)
    for size in SIZES:
        problems = problems_of(model, place, Finite(model, dict.fromkeys(roots, size)), by_facts=True)
        for found in problems.goals:
            if found.name != goal:
                continue
            solver = z3.Solver()
            solver.set("timeout", max(1, int(1000 * seconds / len(SIZES))))
            solver.add(*[f for f in problems.failure(found) if f is not True])
            if solver.check() == z3.sat:
                start, now = found.states or (problems.before, problems.before)
                is_step = found.prop is not None and found.prop.kind == "step"
                start = problems.before if is_step else start
                params, before = read_state(problems.symbolic, start, solver.model())
                _, after = read_state(problems.symbolic, now, solver.model())
                return Counterexample(
                    model.name,
                    place,
                    goal,
                    "",
                    {},
                    params,
                    {},
                    before,
                    after,
                    "",
                    replayed=False,
                    names=names_of(model),
                )
    return None
