"""The prover, as the differential test asks it: whether everything is proved, and what is left open.

This is the one place that knows how obligations are made and asked. It asks as `prove` does, but gives up after the
first few cheap attempts: an obligation that these leave open counts as not proved, and nothing is searched for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import z3

from kvproof.checkers.deciding import LADDER, Attempt, Deciding
from kvproof.checkers.obligations import COROLLARIES, INITIALLY, problems_of
from kvproof.checkers.proofs import Proofs
from kvproof.checkers.slices import EVERYTHING
from kvproof.checkers.solvers import Way
from kvproof.machine import Machine, Model
from kvproof.machine.execution import Goal
from kvproof.machine.universe import Unbounded

__all__ = ["Open", "open_goals"]

SECONDS = 3.0
"""For one goal."""

ATTEMPTS = (
    LADDER[0],
    Attempt(EVERYTHING, Way(depth=3, seed=14, relevancy=1, effort=0.1)),
    Attempt(EVERYTHING, Way(depth=2, seed=15, cases=True, effort=0.1), lemmas=True),
)
"""Few facts, and all of them: every way in which the prover asks has a part in one of these."""


@dataclass(frozen=True)
class Open:
    """An obligation that is not proved."""

    machine: str
    place: str
    goal: str
    prop: str
    """The property that it is about; empty where it is about the text of an action."""
    line: int


def open_goals(
    machine: type[Machine],
    *,
    places: Collection[str] | None = None,
    props: Collection[str] | None = None,
    proofs: Proofs | None = None,
) -> Iterator[Open]:
    """The obligations that are not proved, one after the other; ``places`` and ``props``: only these.

    With ``props`` only what is said of these properties is asked; an empty name stands for the text of the actions.
    ``proofs`` is a store of what was proved before, of this machine or of another.
    """
    z3.z3.Z3_DEBUG = False
    model = Model.of(machine)
    for place in (INITIALLY, *model.actions, COROLLARIES):
        if places is None or place in places:
            yield from _open_at(model, place, props, proofs)


def _open_at(model: Model, place: str, props: Collection[str] | None, proofs: Proofs | None) -> Iterator[Open]:
    problems = problems_of(model, place, Unbounded(model))
    if props is not None:
        problems.goals[:] = [g for g in problems.goals if ("" if g.prop is None else g.prop.name) in props]
    deciding = Deciding(problems, "z3", SECONDS, proofs)
    deciding.decide(ATTEMPTS)
    deciding.keep()
    for decision in deciding.decisions:
        if not decision.is_proved:
            yield _described(model, place, decision.goal)


def _described(model: Model, place: str, goal: Goal) -> Open:
    named = model.properties.get(goal.name.removesuffix(" has a value"))
    prop = goal.prop or named
    return Open(model.name, place, goal.name, "" if prop is None else prop.name, goal.line.number)
