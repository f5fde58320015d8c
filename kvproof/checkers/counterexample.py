"""The smallest state from which an action breaks a property.

A proof that fails says nothing yet. So the search is done again where everything can be written out: one, two, three
elements of each sort. What is found is a whole state in which every inductive invariant holds; it is made as small and
as empty as possible, and then run in the concrete interpreter (`shown.py`).

The state need not be reachable (`explore` tells); it shows what the invariants do not rule out.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

import z3

from ..machine.declarations import Map
from ..machine.execution import Goal
from ..machine.formulas import Formula, integer, leq, lnot, lor
from ..machine.knowledge import of_parameters
from ..machine.model import Model
from ..machine.scope import NONE, Scope, ScopeError
from ..machine.symbolic import Snapshot, Symbolic
from ..machine.terms import Index
from ..machine.universe import Finite
from .obligations import Problems, problems_of
from .shown import Counterexample, replayed
from .solvers import decided

__all__ = ["Search", "cells", "with_room", "within"]

LARGEST = 4
"""Elements per sort at which the search gives up."""


LARGEST_NUMBER = 8
"""Of small numbers: products and remainders of them are soon tried."""


class Search:
    """Searches for counterexamples to goals of one place: an action, the first state, or every state."""

    def __init__(self, model: Model, place: str, *, seconds: float = 20.0, rounds: int = 3) -> None:
        """``seconds`` of computing for one goal, so that what else runs on the machine changes nothing."""
        self.model, self.place, self.seconds, self.rounds = model, place, seconds, rounds
        self._problems: dict[tuple[tuple[str, int], ...], Problems] = {}
        self._until = 0.0
        self.last: Counterexample | None = None
        """The step by which `any` found the last goal that is broken."""

    def any(self, goals: Collection[str], sizes: dict[str, int]) -> str | None:
        """One of the goals of these names that has a counterexample with so many elements of each sort (`with_room`).

        It is not made small. It is run in the concrete interpreter, and counts only if that sees it too.
        """
        self._until = time.process_time() + self.seconds
        problems = self._problems_of(sizes)
        names = {name.removeprefix("before ") for name in goals}
        together: dict[int, list[Goal]] = {}
        for goal in problems.goals:
            if goal.name in names:
                together.setdefault(id(goal.context), []).append(goal)
        return next(filter(None, (self._one_of(some, problems, sizes) for some in together.values())), None)

    def _one_of(self, goals: Sequence[Goal], problems: Problems, sizes: dict[str, int]) -> str | None:
        """One of the goals, which stand in one context, that a state of these sizes breaks."""
        found = self._model(problems, lor(*[lnot(g.formula) for g in goals]), goals[0])
        if found is None:
            return None
        for goal in goals:
            said = goal.formula
            wrong = not said if isinstance(said, bool) else z3.is_false(found.eval(said, model_completion=True))
            with suppress(ScopeError):  # a parameter is greater than what there is
                if wrong and (step := replayed(self.model, self.place, goal.name, sizes, problems, found)).replayed:
                    self.last = step
                    return goal.name
        return None

    def _model(self, problems: Problems, wrong: Formula, goal: Goal) -> z3.ModelRef | None:
        solver = self._satisfied(problems, [*problems.failure(goal, wrong), *_within(problems)])
        return None if solver is None else solver.model()

    def _satisfied(self, problems: Problems, wanted: Iterable[Formula]) -> z3.Solver | None:
        """A solver that has a model of all of these; None where there is none, or none is found in time."""
        answer, solver = decided(wanted, lambda: _small_numbers(problems), until=self._until)
        return solver if answer == z3.sat else None

    def find(self, goal: str) -> Counterexample | None:
        """The smallest counterexample to the goal of this name, if found in time."""
        last = time.process_time() + self.seconds
        doubtful: Counterexample | None = None
        for sizes in self._broken_at(goal, last):
            self._until = last
            sizes = self._least(goal, sizes)
            self._until = last = last + self.seconds
            found = self._search(goal, sizes, small=True)
            if found is not None:
                with suppress(ScopeError):  # a parameter is greater than what there is
                    doubtful = replayed(self.model, self.place, goal, sizes, *found)
                    if doubtful.replayed:
                        return doubtful
        return doubtful

    def _broken_at(self, goal: str, last: float) -> Iterator[dict[str, int]]:
        """Sizes at which a state breaks the goal: as many elements of each sort, as long as that is soon known.

        Where it is not, one more element of one sort often shows what one more of each hides among all that could be.
        """
        roots = Scope.roots(self.model)
        for largest in range(1, LARGEST + 1):
            alike = with_room(self.model, dict.fromkeys(roots, largest))
            between = [{r: largest - (r != root) for r in roots} for root in roots] if largest > 1 else []
            for sizes, share in ((alike, 1 / 8), *((one, 1 / 4) for one in between), (alike, 1 / 2)):
                now = time.process_time()
                if now > last:
                    return
                self._until = now + (last - now) * share
                if self._search(goal, sizes) is not None:
                    yield sizes
                    break
                if sizes is alike and time.process_time() <= self._until:
                    break

    def _least(self, goal: str, sizes: dict[str, int]) -> dict[str, int]:
        """The sizes with each sort as small as it can be."""
        for root in Scope.roots(self.model):
            while sizes[root] > 1 and time.process_time() < self._until:
                smaller = sizes | {root: sizes[root] - 1}
                if self._search(goal, smaller) is None:
                    break
                sizes = smaller
        return sizes

    def _search(self, goal: str, sizes: dict[str, int], *, small: bool = False) -> tuple[Problems, z3.ModelRef] | None:
        """A model of the failure with these sizes."""
        problems = self._problems_of(sizes)
        for found in problems.goals:
            if found.name != goal.removeprefix("before "):
                continue
            failure = problems.failure(found)
            # A state may hold an index behind the last one; what is done there leaves the scope, which shows nothing.
            solver = self._satisfied(problems, [*failure, *_within(problems)]) or self._satisfied(problems, failure)
            if solver is not None:
                return problems, self._emptied(solver, problems) if small else solver.model()
        return None

    def _emptied(self, solver: z3.Solver, problems: Problems) -> z3.ModelRef:
        """A model in which as many entries as possible have their plainest value, one after the other: least numbers.

        Which model Z3 finds depends on all that it was asked before; what is shown should not.
        """
        best = solver.model()
        for wishes in _wishes(problems):
            for wish in wishes:
                if not z3.is_true(best.eval(wish, model_completion=True)):
                    granted = self._granted(solver, wish)
                    if granted is None:
                        continue
                    best = granted
                solver.add(wish)
                break
        return best

    def _granted(self, solver: z3.Solver, wish: z3.BoolRef) -> z3.ModelRef | None:
        """A model of what the solver holds and of the wish: asked anew where the solver itself does not know."""
        answer = solver.check(wish)
        if answer == z3.unknown:
            answer, solver = decided([*solver.assertions(), wish], until=self._until)
        return solver.model() if answer == z3.sat else None

    def _problems_of(self, sizes: dict[str, int]) -> Problems:
        key = tuple(sorted(sizes.items()))
        if key not in self._problems:
            universe = Finite(self.model, sizes)
            self._problems[key] = problems_of(self.model, self.place, universe, rounds=self.rounds)
        return self._problems[key]


def with_room(model: Model, sizes: dict[str, int]) -> dict[str, int]:
    """The sizes, with one sort as large as its square where the parameters need that: a name for each pair of others.

    Otherwise every step from there would be safe, because there is none.
    """
    larger = [sizes | {root: sizes[root] ** 2} for root in _those_that_name_pairs_first(model)]
    return next((candidate for candidate in (sizes, *larger) if _can_have_parameters(model, candidate)), sizes)


@cache
def _those_that_name_pairs_first(model: Model) -> Sequence[str]:
    """The sorts, those first that must have four elements where all others have two: that is soon known, where what
    more elements need is not."""
    two = dict.fromkeys(Scope.roots(model), 2)
    if _can_have_parameters(model, two):
        return [*two]
    return sorted(two, key=lambda root: not _can_have_parameters(model, two | {root: 4}))


def _can_have_parameters(model: Model, sizes: dict[str, int]) -> bool:
    """Whether the machine's assumptions rule nothing out; where that is not known, a search will tell."""
    solver = z3.Solver()
    solver.set("timeout", 300)
    symbolic = Symbolic(model, Finite(model, sizes))
    solver.add(*[f.formula for f in of_parameters(symbolic) if f.formula is not True])
    return bool(solver.check() != z3.unsat)


def cells(symbolic: Symbolic, state: Snapshot) -> Iterator[tuple[Map[Any] | None, Formula]]:
    """Every entry of the parameters and of the state, with the map that it stands in; of queues, who is in."""
    model, universe = symbolic.model, symbolic.universe
    assert isinstance(universe, Finite)
    for name, queue in model.queues.items():
        for keys in itertools.product(*[universe.elements(k) for k in (*queue.kinds, queue.of)]):
            yield None, state.functions[f"{name}.has"](*keys)
    for name, mapping in model.maps.items():
        function = symbolic.params[name] if mapping.is_param else state.functions[name]
        for keys in itertools.product(*[universe.elements(k) for k in mapping.kinds]):
            yield mapping, function(*keys)


def within(symbolic: Symbolic, state: Snapshot) -> Iterator[Formula]:
    """The indices that the parameters and the state hold lie within the scope: of no others anything is said there."""
    for mapping, value in cells(symbolic, state):
        if mapping is not None and issubclass(mapping.to, Index):
            inside = lor(symbolic.universe.is_element(mapping.to, value), leq(value, integer(NONE)))
            if inside is not True:
                yield inside


def _within(problems: Problems) -> Iterator[Formula]:
    """So do those of the state before."""
    return within(problems.symbolic, problems.before)


def _small_numbers(problems: Problems) -> Iterator[Formula]:
    """All numbers of the state before, of the parameters and of the arguments are small."""
    for value in (*[value for _, value in cells(problems.symbolic, problems.before)], *problems.args):
        if isinstance(value, z3.ArithRef):
            yield z3.And(value >= -LARGEST_NUMBER, value <= LARGEST_NUMBER)


def _wishes(problems: Problems) -> Iterator[Iterable[z3.BoolRef]]:
    """What each entry of the state before, of the parameters and of the arguments should be, the plainest first."""
    entries = [(v, m is not None and m.is_optional) for m, v in cells(problems.symbolic, problems.before)]
    for value, is_optional in (*entries, *((a, False) for a in problems.args)):
        if isinstance(value, bool):
            continue
        if z3.is_bool(value):
            yield [z3.Not(value)]
        else:
            yield [value == -1] if is_optional else (value == n for n in range(LARGEST_NUMBER))
