"""The prover, as the differential test asks it: whether everything is proved, and what is left open.

This is the one place that knows how obligations are made and asked. It asks as `prove` does, but gives up after the
first few cheap attempts: an obligation that these leave open counts as not proved, and nothing is searched for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import z3

from kvproof.checkers.beginnings import Beginnings
from kvproof.checkers.deciding import LADDER, Attempt, Deciding
from kvproof.checkers.obligations import COROLLARIES, INITIALLY, problems_from, problems_of
from kvproof.checkers.proofs import Proofs
from kvproof.checkers.slices import EVERYTHING
from kvproof.checkers.solvers import Way
from kvproof.machine import Machine, Model
from kvproof.machine.execution import Goal
from kvproof.machine.universe import Unbounded

__all__ = ["Open", "open_goals"]

SECONDS = 3.0
"""For one goal."""

CHEAP = (LADDER[0],)

ATTEMPTS = (
    Attempt(EVERYTHING, Way(depth=3, seed=14, relevancy=1, effort=0.1)),
    Attempt(EVERYTHING, Way(depth=2, seed=15, cases=True, effort=0.1), lemmas=True),
)
"""Few facts, and all of them: every way in which the prover asks has a part in one of these, or is cheap."""


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
    A property that is lost at one place is no theorem, so it is not asked any further.
    ``proofs`` is a store of what was proved before, of this machine or of another.
    """
    z3.z3.Z3_DEBUG = False
    model, lost, begun = Model.of(machine), set[str](), Beginnings()
    for place in (INITIALLY, *model.actions, COROLLARIES):
        if places is None or place in places:
            opened = [*_open_at(model, place, begun, props, lost, proofs)]
            lost |= {o.prop for o in opened if o.prop}
            yield from opened


def _open_at(
    model: Model,
    place: str,
    begun: Beginnings,
    props: Collection[str] | None,
    lost: Collection[str],
    proofs: Proofs | None,
) -> Iterator[Open]:
    at_first = place == INITIALLY
    problems = problems_of(model, place, Unbounded(model)) if at_first else problems_from(begun.unbounded(model), place)
    named = [(g, "" if g.prop is None else g.prop.name) for g in problems.goals]
    problems.goals[:] = [g for g, name in named if name not in lost and (props is None or name in props)]
    deciding = Deciding(problems, "z3", SECONDS, proofs)
    deciding.decide(CHEAP)
    opened: list[Open] = []
    for decision in deciding.decisions:
        described = _described(model, place, decision.goal)
        if not decision.is_proved and (not described.prop or all(o.prop != described.prop for o in opened)):
            deciding.ask_for(decision, ATTEMPTS, SECONDS)
            opened += [] if decision.is_proved else [described]
    deciding.keep()
    yield from opened


def _described(model: Model, place: str, goal: Goal) -> Open:
    named = model.properties.get(goal.name.removesuffix(" has a value"))
    prop = goal.prop or named
    return Open(model.name, place, goal.name, "" if prop is None else prop.name, goal.line.number)
