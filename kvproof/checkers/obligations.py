"""What has to be proved of a machine, as problems for a solver.

A machine is proved when its first state satisfies the inductive invariants, every action keeps them (and the properties
of steps, and does nothing ill-formed on the way), and the corollaries follow from them. Each problem is a goal, with
the facts that are known where it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

from ..machine.execution import Goal, Run
from ..machine.fitting import may_be_none, may_misfit
from ..machine.formulas import Formula, limplies, lnot
from ..machine.knowledge import Context, Fact, of_first_values, said_of_first_state
from ..machine.mistakes import Line
from ..machine.model import INITIALLY, Model, Property
from ..machine.progress import Beginning
from ..machine.symbolic import Snapshot, Symbolic
from ..machine.terms import Term
from ..machine.universe import Unbounded
from ..machine.wellformed import have_values, values_where_wanted

__all__ = [
    "COROLLARIES",
    "INITIALLY",
    "Problems",
    "corollaries",
    "formulas_of",
    "initially",
    "of_action",
    "problems_from",
    "problems_of",
]

COROLLARIES = "every state"


@dataclass(eq=False)
class Problems:
    """The goals of one action (or of the first state, or of any state), and what a counterexample is read from."""

    symbolic: Symbolic
    goals: list[Goal]
    before: Snapshot
    args: list[Formula] = field(default_factory=list)
    run: Run | None = None
    untouched: list[tuple[str, Property]] = field(default_factory=list)
    """Invariants, and where they were looked at: nothing that they speak of had been written since they were known."""
    _ends: dict[str, Fact] = field(init=False, default_factory=dict)

    def failure(self, goal: Goal, wrong: Formula | None = None) -> list[Formula]:
        """What holds exactly where all is as it is known to be at the goal, and the goal is false (or this is so)."""
        wrong = lnot(goal.formula) if wrong is None else wrong
        return [*formulas_of(self.symbolic, goal.context.all_facts()), wrong]

    def ends_in(self, symbols: frozenset[str]) -> list[Fact]:
        """What is known of the heads and tails of queues that are among these symbols."""
        for name in symbols & self.symbolic.ends.keys() - self._ends.keys():
            self._ends[name] = Fact(name, frozenset([name]), self.symbolic.ends[name])
        return [self._ends[name] for name in sorted(symbols & self._ends.keys())]


def formulas_of(symbolic: Symbolic, facts: Iterable[Fact]) -> list[Formula]:
    """The facts as formulas, with what is known of the heads and tails of queues that they speak of."""
    known = [f.formula for f in facts]
    return [*known, *symbolic.known_of_ends()]


def problems_of(model: Model, place: str, universe: Unbounded, *, rounds: int = 3, by_facts: bool = False) -> Problems:
    """What has to be proved of one action, of the first state, or of every state (`Run` has the options)."""
    if place == INITIALLY:
        return initially(model, universe)
    return problems_from(Beginning(Symbolic(model, universe)), place, rounds=rounds, by_facts=by_facts)


def problems_from(begun: Beginning, place: str, *, rounds: int = 3, by_facts: bool = False) -> Problems:
    """The same of one action, or of every state; what is known of any state is there already."""
    if place == COROLLARIES:
        return corollaries(begun)
    return of_action(begun, place, rounds=rounds, by_facts=by_facts)


def of_action(begun: Beginning, name: str, *, rounds: int = 3, by_facts: bool = False) -> Problems:
    """What has to be proved of one action."""
    symbolic = begun.symbolic
    run = Run(symbolic, symbolic.model.actions[name], rounds=rounds, by_facts=by_facts, begun=begun)
    goals = [*run.goals, *_between_rounds(run)]
    return Problems(symbolic, goals, run.before, run.args, run, run.untouched)


def _between_rounds(run: Run) -> Iterator[Goal]:
    """In a finite universe: the invariants at every halt between rounds of a loop."""
    for context, condition, label, state in run.halts:
        for prop in run.model.inductive:
            yield from _claims(run.symbolic, prop, state, context, label, partial(limplies, condition))


def _claims(
    symbolic: Symbolic,
    prop: Property,
    state: Snapshot,
    context: Context,
    label: str = "",
    under: Callable[[Formula], Formula] = lambda f: f,
) -> Iterator[Goal]:
    """One goal for each of the smaller formulas that a property of one state is made of."""
    clauses = symbolic.clauses(prop.binders, prop.formula)
    for number, clause in enumerate(clauses, 1):
        part = f" ({number} of {len(clauses)})" if len(clauses) > 1 else ""

        def build(clause: tuple[tuple[Term, ...], Term] = clause) -> Formula:
            return under(symbolic.claim(clause, state))

        symbols = symbolic.symbols(clause[1], state)
        yield Goal(f"{label}{prop.name}{part}", prop.rule, context, prop.line, build, symbols, prop)


def _goal(name: str, rule: str, context: Context, line: Line, formula: Formula, symbols: frozenset[str]) -> Goal:
    return Goal(name, rule, context, line, lambda: formula, symbols)


def initially(model: Model, universe: Unbounded) -> Problems:
    """The first state satisfies the inductive invariants, and first values are what their types say."""
    symbolic = Symbolic(model, universe)
    state = symbolic.first()
    # What the machine says of its first state is said of a state: its values have to be values before.
    values = Context(None, of_first_values(symbolic, state))
    context = Context(values, said_of_first_state(symbolic, state))
    goals = [g for prop in model.inductive for g in _claims(symbolic, prop, state, context)]
    for name, (keys, term) in model.inits.items():
        line, symbols = (model.maps | model.queues)[name].line, symbolic.symbols(term, state)
        if name in model.maps and (fitting := _first_value_fits(symbolic, name, keys, term, state)) is not True:
            goals.append(_goal(f"the first value of {name} is one", "", values, line, fitting, symbols))
        if (formula := have_values(symbolic, [term], keys, state)) is not True:
            goals.append(_goal(f"the first value of {name} has a value", "", values, line, formula, symbols))
    goals += _have_values(symbolic, "initially", state, values)
    return Problems(symbolic, goals, state)


def _have_values(symbolic: Symbolic, kind: str, state: Snapshot, values: Context) -> Iterator[Goal]:
    """What is said by properties of this kind has a value."""
    for prop in symbolic.model.of_kind(kind):
        if (formula := have_values(symbolic, [prop.formula], prop.binders, state)) is not True:
            symbols = symbolic.symbols(prop.formula, state)
            yield _goal(f"{prop.name} has a value", prop.rule, values, prop.line, formula, symbols)


def _first_value_fits(symbolic: Symbolic, name: str, keys: tuple[Term, ...], value: Term, state: Snapshot) -> Formula:
    """Every entry begins with an element of its type, or with none where it may."""
    universe, mapping = symbolic.universe, symbolic.model.maps[name]
    if not may_misfit(value, mapping.to, is_optional=mapping.is_optional):
        return True
    or_none = may_be_none(value, is_optional=mapping.is_optional)

    def fits(*at: Formula) -> Formula:
        return universe.is_value(mapping.to, symbolic.start_value(name, keys, value, state, at), or_none=or_none)

    return universe.quantify("forall", mapping.kinds, fits)


def corollaries(begun: Beginning) -> Problems:
    """The corollaries follow from the inductive invariants, and every property has a value wherever these hold."""
    symbolic, state, known = begun.symbolic, begun.state, begun.facts
    model = symbolic.model
    context = Context(None, known)
    goals = [g for p in model.of_kind("invariant") if p.derived for g in _claims(symbolic, p, state, context)]
    # Values are asked for by themselves: that a corollary is proved says nothing of what it reads.
    values = Context(None, known)
    for prop in (*model.of_kind("invariant"), *model.of_kind("sometimes")):
        build = values_where_wanted(symbolic, [prop.formula], prop.binders, state)
        if build is not None:
            symbols = symbolic.symbols(prop.formula, state)
            goals.append(Goal(f"{prop.name} has a value", prop.rule, values, prop.line, build, symbols))
    for count in model.counts.values():
        weights = [] if count.weight is None else [count.weight]
        formula = have_values(symbolic, [count.formula, *weights], (*count.elements, *count.keys), state)
        if formula is not True:
            symbols = symbolic.symbols(count.formula, state)
            goals.append(_goal(f"count {count.name} has a value", "", values, count.line, formula, symbols))
    goals += _have_values(symbolic, "assume", state, values)
    return Problems(symbolic, goals, state)
