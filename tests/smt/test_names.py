"""No name in the text of a formula stands for two things: the store of proofs and cvc5 go by that text."""

import pytest
import z3

from kvproof.checkers.obligations import COROLLARIES, INITIALLY, problems_of
from kvproof.harness.machines import KNOWN, find_machine
from kvproof.machine import Machine, Model
from kvproof.machine.formulas import Formula
from kvproof.machine.universe import Unbounded

from ..marks import slow_but
from .false_theorems import rounds

OFTEN, IN_CI = {"pool", "linked-list"}, {"offload", "tree", "reports"}


def captured(formula: Formula) -> set[str]:
    """The names that stand for something else in the text than in the formula.

    A variable is known by how many binders stand between it and its own. In the text its name means the nearest binder
    that has it, and so does the name of a constant.
    """
    found: set[str] = set()
    seen: set[tuple[int, tuple[str, ...]]] = set()
    rest: list[tuple[z3.ExprRef, tuple[str, ...]]] = [] if isinstance(formula, bool) else [(formula, ())]
    while rest:
        part, bound = rest.pop()
        if (part.get_id(), bound) in seen:
            continue
        seen.add((part.get_id(), bound))
        if isinstance(part, z3.QuantifierRef):
            inner = bound + tuple(part.var_name(i) for i in range(part.num_vars()))
            rest.append((part.body(), inner))
            rest += ((part.pattern(i), inner) for i in range(part.num_patterns()))
        elif z3.is_var(part):
            own = len(bound) - 1 - z3.get_var_index(part)
            found |= {bound[own]} & {*bound[own + 1 :]}
        else:
            if z3.is_const(part) and part.decl().name() in bound:
                found.add(part.decl().name())
            rest += ((child, bound) for child in part.children())
    return found


def spoken(model: Model) -> list[Formula]:
    """Every goal of a machine and every fact beside it, each once."""
    found: dict[int, Formula] = {}
    for place in [*model.actions, INITIALLY, COROLLARIES]:
        problems = problems_of(model, place, Unbounded(model))
        facts = {id(fact): fact for goal in problems.goals for fact in goal.context.all_facts()}
        said = [*(goal.formula for goal in problems.goals), *(fact.formula for fact in facts.values())]
        found |= {formula.get_id(): formula for formula in said if isinstance(formula, z3.ExprRef)}
    return [*found.values()]


@pytest.mark.parametrize("name", slow_but(KNOWN, OFTEN, KNOWN.keys() - OFTEN - IN_CI))
def test_the_text_of_each_formula_means_what_the_formula_means(name: str) -> None:
    assert {found for formula in spoken(Model.of(find_machine(name))) for found in captured(formula)} == set()


@pytest.mark.parametrize("machine", [rounds.Ends, rounds.EndsOfOthers, rounds.EndsAtItself])
def test_so_does_that_of_a_value_that_binds_and_is_written_for_each(machine: type[Machine]) -> None:
    assert {found for formula in spoken(Model.of(machine)) for found in captured(formula)} == set()


def test_a_captured_name_is_noticed() -> None:
    """As Z3 substitutes, which does not go by names."""
    x, y = z3.Ints("x y")
    p = z3.Function("p", z3.IntSort(), z3.IntSort(), z3.BoolSort())
    assert captured(z3.ForAll([x], z3.Exists([x], p(x, x)))) == set()
    entered = z3.substitute(z3.Exists([x], p(x, y)), (y, x))
    assert captured(entered) == {"x"}
    assert captured(z3.ForAll([x], entered)) == {"x"}
