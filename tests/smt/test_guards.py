"""What an action refuses, and what it does not, is said of it: one guard less, or one more, and a corollary fails."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from kvproof.checkers.counterexample import Search, with_room
from kvproof.checkers.deciding import Deciding
from kvproof.checkers.obligations import COROLLARIES, problems_of
from kvproof.harness.machines import find_machine
from kvproof.machine import Model, Sort, forall
from kvproof.machine.model import Action
from kvproof.machine.program import Require
from kvproof.machine.reading import speaking_of, with_action
from kvproof.machine.recorder import recording
from kvproof.machine.scope import Scope
from kvproof.machine.terms import FALSE, Index
from kvproof.machine.universe import Unbounded

QUICK = ["links", "aligned-split", "file-store"]
LONG = ["shared-tier", "timed-tiers", "planner", "groups", "connectors", "offload"]

LEFT = {
    "groups": ["register: hash[table[g, r, i]] == none"],
    "offload": ["fail_load: table[r, i] != none"],
}
"""Guards that no corollary misses, and of which nobody proves that they follow: of the first in no time that was given;
without the second a block is looked at that is none, and the action's own obligations say so."""


def weakened(action: Action) -> Iterator[tuple[str, Action]]:
    """The action without one of its guards."""
    for guard in action.requirements:
        yield repr(guard.condition), replace(action, body=[s for s in action.body if s is not guard])


def strengthened(action: Action) -> Action:
    """The action with one guard more: it is possible for an element that is the only one of its sort."""
    named = next((p for p in action.params if isinstance(p, Sort | Index)), None)
    with recording(action.name, of_action=False, known=action.params):
        alone = FALSE if named is None else forall(type(named), lambda other: other == named)
    return replace(action, body=[Require(alone, action.line), *action.body])


def follows(model: Model, action: Action) -> bool:
    """Of the action without a guard everything that says when it is possible is proved all the same, for any size: the
    guard follows from the others and the invariants."""
    without, spoken = with_action(model, action), speaking_of(model, action.name)
    deciding = Deciding(problems_of(without, COROLLARIES, Unbounded(without)), "z3", 20)
    deciding.decide()
    return all(d.is_proved for d in deciding.decisions if d.goal.prop and d.goal.prop.name in spoken)


def is_refuted(model: Model, wrong: Action) -> bool:
    """A state of two or three elements of each sort breaks a corollary that says when the action is possible."""
    spoken = speaking_of(model, wrong.name)
    goals = [
        g.name for g in problems_of(model, COROLLARIES, Unbounded(model)).goals if g.prop and g.prop.name in spoken
    ]
    search = Search(with_action(model, wrong), COROLLARIES, seconds=10)
    roots = Scope.roots(model)
    return any(search.any(goals, with_room(model, dict.fromkeys(roots, size))) is not None for size in (2, 3))


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.nightly) for name in LONG)])
def test_a_guard_less_or_more_is_noticed(name: str) -> None:
    model = Model.of(find_machine(name))
    assert [a.name for a in model.actions.values() if not is_refuted(model, strengthened(a))] == []
    missed = [
        f"{a.name}: {said}"
        for a in model.actions.values()
        for said, wrong in weakened(a)
        if not is_refuted(model, wrong) and not follows(model, wrong)
    ]
    assert missed == LEFT.get(name, [])
