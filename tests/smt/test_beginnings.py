"""What is known of any state is built once for all places of a machine, and says at each what it would say alone."""

import random

import pytest

from kvproof.checkers.beginnings import Beginnings
from kvproof.checkers.obligations import COROLLARIES, Problems, problems_from, problems_of
from kvproof.checkers.proofs import digest_of
from kvproof.harness.machines import find_machine
from kvproof.machine import Model
from kvproof.machine.execution import Run
from kvproof.machine.formulas import land
from kvproof.machine.scope import Scope
from kvproof.machine.symbolic import Symbolic
from kvproof.machine.universe import Finite, Unbounded

from ..marks import slow_but


def said(problems: Problems) -> dict[str, list[tuple[str, str]]]:
    """Every goal, and everything that is known where some goal stands, as texts."""
    known = {f: None for g in problems.goals for f in g.context.all_facts()}
    spoken = frozenset().union(*[f.symbols for f in known], *[g.symbols for g in problems.goals])
    goals = [(g.name, digest_of(g.formula)) for g in problems.goals]
    facts = [(f.label, digest_of(f.formula)) for f in known]
    return {"goals": goals, "facts": facts, "ends": [(f.label, digest_of(f.formula)) for f in problems.ends_in(spoken)]}


def test_names_that_are_not_given_again_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    model, begun = Model.of(find_machine("file-store")), Beginnings()
    monkeypatch.setattr(Unbounded, "give_again", lambda *_: None)
    place = next(iter(model.actions))
    first, second = (said(problems_from(begun.unbounded(model), place)) for _ in range(2))
    assert first != second


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", slow_but(["linked-list", "file-store"], {"file-store"}))
def test_the_same_is_asked_whatever_was_asked_before(name: str, seed: int) -> None:
    model, begun = Model.of(find_machine(name)), Beginnings()
    places = [*model.actions, COROLLARIES]
    random.Random(seed).shuffle(places)
    for place in [*places, places[0]]:
        shared = said(problems_from(begun.unbounded(model), place))
        alone = said(problems_of(model, place, Unbounded(model)))
        assert shared == alone


def test_the_same_is_looked_for_in_a_small_scope() -> None:
    model, begun = Model.of(find_machine("linked-list")), Beginnings()
    sizes = dict.fromkeys(Scope.roots(model), 1)
    for name in [*model.actions, *model.actions]:
        beginning = begun.finite(model, sizes)
        shared = Run(beginning.symbolic, model.actions[name], judged=False, begun=beginning)
        alone = Run(Symbolic(model, Finite(model, sizes)), model.actions[name], judged=False)
        texts = [digest_of(land(*[f.formula for f in run.context.all_facts()])) for run in (shared, alone)]
        assert texts[0] == texts[1]


def test_another_machine_begins_by_itself() -> None:
    begun = Beginnings()
    one, other = (Model.of(find_machine(name)) for name in ("file-store", "linked-list"))
    first = begun.unbounded(one)
    assert begun.unbounded(one) is first
    assert begun.finite(one, dict.fromkeys(Scope.roots(one), 1)) is not first
    assert begun.unbounded(other).symbolic.model is other
    assert begun.unbounded(one) is not first
