"""A machine, read: its sorts, state, actions and properties as data that every interpreter shares.

`Model.of(Pool)` runs the text of the machine once and checks it; a mistake is a `MachineError` that names the action or
property, and the line.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from .declarations import Event, Map, Queue
from .language import Machine
from .mistakes import Line
from .program import Assign, Let, Loop, Push, Remove, Require, Statement, statements
from .terms import RESULT, Bool, Int, Real, Term

__all__ = ["INITIALLY", "RESULT", "Action", "Clause", "CountOf", "Model", "Promised", "Property", "written"]

INITIALLY = "initially"
"""What the first state is called wherever something is said by action: no action has this name."""


@dataclass(eq=False)
class Action:
    """An action: its parameters, and what it does."""

    name: str
    rule: str
    doc: str
    params: tuple[Term, ...]
    body: list[Statement]
    result: Term | None
    line: Line

    @property
    def requirements(self) -> list[Require]:
        """What must hold for the action to be possible."""
        return [s for s in self.body if isinstance(s, Require)]

    @property
    def asking(self) -> list[Let | Require]:
        """What decides whether the action is possible: what it reads and requires, up to its last requirement."""
        last = max((i for i, s in enumerate(self.body) if isinstance(s, Require)), default=-1)
        return [s for s in self.body[: last + 1] if isinstance(s, Let | Require)]

    @property
    def loops(self) -> list[Loop]:
        """The loops at the top level of the action."""
        return [s for s in self.body if isinstance(s, Loop)]


@dataclass(eq=False)
class Property:
    """A formula over one state, or over the states before (view ``before``) and after a step.

    ``of`` names the actions that a property of steps speaks of (none: all of them); ``given`` are the variables in
    ``formula`` that stand for that action's parameters; ``binders`` the ones that are quantified (universally, or
    existentially in `sometimes`). A ``derived`` invariant follows from those that are not.
    """

    name: str
    kind: str
    rule: str
    doc: str
    binders: tuple[Term, ...]
    formula: Bool
    line: Line
    of: tuple[str, ...] = ()
    given: dict[str, Term] = field(default_factory=dict)
    derived: bool = False
    promise: str = ""
    """The promise that follows from it and others, where it is one of those (`promises.py`)."""
    ranks: bool = False
    """It says what steps do to the measure of that promise."""

    @property
    def member(self) -> str:
        """The method of the machine that says it."""
        return self.promise or self.name


@dataclass(eq=False)
class Promised:
    """What must happen some day: for all values of ``binders`` a state in which ``goal`` holds is reached.

    ``measure``: what fair steps lower until then. ``fair``: by action, variables for its parameters, and which of its
    steps are not put off for ever, as a formula over these and the state before the step. ``only``: likewise, for some
    actions, the only steps that are taken.
    """

    name: str
    rule: str
    doc: str
    binders: tuple[Term, ...]
    goal: Bool
    measure: tuple[Int, ...]
    fair: dict[str, tuple[tuple[Term, ...], Bool]]
    only: dict[str, tuple[tuple[Term, ...], Bool]]
    line: Line
    sure: dict[str, tuple[tuple[Term, ...], Bool]] = field(default_factory=dict)
    """As ``fair``, with the numbers alone that are named as possible ones: these steps are what is relied on."""


Clause = tuple[tuple[Term, ...], Term]
"""A formula, and the variables for all of whose values it is said."""


@dataclass(eq=False)
class CountOf:
    """A count: the number of ``elements`` for which ``formula`` holds, for each value of ``keys``.

    With ``weight`` it is a sum: each element for which the formula (weight > 0) holds counts as much as its weight.

    ``reads``: for each map or queue that the formula reads, the places (index tuples) at which it does.
    """

    name: str
    elements: tuple[Term, ...]
    keys: tuple[Term, ...]
    formula: Bool
    line: Line
    reads: dict[str, list[tuple[Term, ...]]] = field(default_factory=dict)
    weight: Int | Real | None = None

    @property
    def to(self) -> type[Int | Real]:
        """What is counted with: integers, or exact numbers."""
        return Real if isinstance(self.weight, Real) else Int


@dataclass(eq=False)
class Model:
    """Everything that the interpreters need to know about a machine."""

    name: str
    doc: str
    machine: type[Machine]
    sorts: dict[str, type[Term]]
    maps: dict[str, Map[Any]]
    queues: dict[str, Queue[Any]]
    counts: dict[str, CountOf]
    events: dict[str, Event]
    inits: dict[str, tuple[tuple[Term, ...], Term]]
    actions: dict[str, Action]
    properties: dict[str, Property]
    promises: dict[str, Promised] = field(default_factory=dict)
    """What must happen some day; the properties from which that follows are among the others."""
    has_exact: bool = False
    """Exact numbers stand in its state, or are computed on the way."""
    clauses: dict[int, tuple[Term, list[Clause]]] = field(init=False, default_factory=dict)
    """The small formulas that a formula is made of, by its identity, once they were asked for (`symbolic.py`)."""

    @staticmethod
    def of(machine: type[Machine]) -> Model:
        """Read a machine (once; later calls return the same model)."""
        from .reading import read

        if machine in _mistaken:  # what its text has changed by being run must not hide it the second time
            raise _mistaken[machine]
        if machine not in _known:
            try:
                _known[machine] = read(machine)
            except Exception as error:
                _mistaken[machine] = error
                raise
        return _known[machine]

    def of_kind(self, kind: str) -> list[Property]:
        """The properties of one kind: invariant, step, sometimes, assume or initially."""
        return [p for p in self.properties.values() if p.kind == kind]

    @property
    def inductive(self) -> list[Property]:
        """The invariants that every action must keep; the other invariants follow from them."""
        return [p for p in self.of_kind("invariant") if not p.derived]

    def is_tally(self, name: str) -> bool:
        """Whether the name is that of a tally, which is no part of the state."""
        return name in self.maps and self.maps[name].is_tally

    @property
    def params(self) -> dict[str, Map[Any]]:
        """The maps that never change."""
        return {n: m for n, m in self.maps.items() if m.is_param}

    @property
    def variables(self) -> dict[str, Map[Any]]:
        """The maps that actions change, without tallies."""
        return {n: m for n, m in self.maps.items() if not m.is_param and not m.is_tally}

    def steps_for(self, action: str) -> list[Property]:
        """The properties of steps that speak of this action."""
        return [p for p in self.of_kind("step") if not p.of or action in p.of]


def written(body: Iterable[Statement]) -> set[str]:
    """The names of the maps and queues that the statements write."""
    return {s.name for s in statements(list(body)) if isinstance(s, Assign | Push | Remove)}


_known: dict[type[Machine], Model] = {}
_mistaken: dict[type[Machine], Exception] = {}
