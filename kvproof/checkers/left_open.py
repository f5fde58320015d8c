"""What is left open of an action: a state after it that its text does not make, and with which all that is promised of
the step agrees.

Mutants are mistakes that somebody thought of. Here nobody does: one map or queue after the action is made arbitrary,
and so is what is returned; all else is what the text makes of it. Where some other value keeps every invariant and
every property of the step, a copy of the machine that does just that would be proved.

All is written out for a few elements of each sort. What is found there is left open at any size; where nothing is
found, more elements could still show something, and so could two maps that are wrong together. What is not decided in
time is said to be.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import z3

from ..machine.execution import Run
from ..machine.formulas import Formula, land, leq, less, lnot, lor, num
from ..machine.knowledge import Fact, counting, invariants, rested, typing
from ..machine.model import RESULT, Model
from ..machine.scope import NONE, Scope
from ..machine.symbolic import Snapshot, Symbolic
from ..machine.terms import name_of, number_of
from ..machine.universe import Finite
from .counterexample import with_room, within
from .obligations import formulas_of

__all__ = ["EVERYTHING", "LeftOpen", "left_open"]

ROUNDS = 2
"""As many rounds of a loop are looked at, at most."""

SECONDS = 3.0
"""For one map or queue."""


EVERYTHING = "everything"
"""Named where no step of an action was found: there is nothing that could be looked at."""


@dataclass(frozen=True)
class LeftOpen:
    """After an action, an entry of this map or queue, or what it returns, may be something else; None: that was not
    decided in time."""

    action: str
    name: str
    what: str | None

    def __str__(self) -> str:
        if self.name == EVERYTHING:
            return f"{self.action}: no step of it was found with so few elements and in this time, so nothing is known"
        if self.what is None:
            return f"{self.action}: whether {self.name} is left open was not decided in time"
        return f"{self.action} leaves open {self.name}: {self.what}"


@dataclass(frozen=True)
class _Entry:
    """One thing that may differ: what the text makes of it, and what it might be; ``differs`` says that it does."""

    called: str
    differs: Formula
    made: Formula
    other: Formula


def left_open(model: Model, action: str, *, size: int = 2, seconds: float = SECONDS) -> Iterator[LeftOpen]:
    """What is left open of an action, with so many elements of each sort."""
    sizes = with_room(model, dict.fromkeys(Scope.roots(model), size))
    symbolic = Symbolic(model, Finite(model, sizes))
    looking = _Looking(symbolic, Run(symbolic, model.actions[action], rounds=ROUNDS, judged=False), seconds)
    if not looking.is_possible():
        yield LeftOpen(action, EVERYTHING, None)
        return
    names = [*(n for n, m in model.maps.items() if not m.is_param and not m.scratch), *model.queues]
    asked: list[tuple[str, Callable[[], str | None]]] = [(name, partial(looking.at_state, name)) for name in names]
    if looking.result is not None:
        asked.append((RESULT, looking.at_result))
    for name, ask in asked:
        with suppress(_NothingElse):
            yield LeftOpen(action, name, ask())


class _NothingElse(Exception):
    """Only what the text makes of it agrees with all that is promised."""


class _Looking:
    """One run of an action, and what else is as good."""

    def __init__(self, symbolic: Symbolic, run: Run, seconds: float) -> None:
        self.symbolic, self.run, self.seconds = symbolic, run, seconds
        self.result = next(iter(run.points[-1].values), None)
        self.steps = [*formulas_of(symbolic, run.context.all_facts()), *within(symbolic, run.before)]
        """What is known of a step. Indices behind the last one are left out: no promise speaks of them here."""

    def is_possible(self) -> bool:
        """There is a step to look at."""
        return bool(self._solver(self.steps).check() == z3.sat)

    def at_state(self, name: str) -> str | None:
        """How this map or queue might differ; None where that is not decided in time.

        Raises:
            _NothingElse: it may not.
        """
        symbolic, model = self.symbolic, self.run.model
        other = self.run.now.copy()
        symbolic.forget(other, name, "'")
        symbolic.recount(other, [c.name for c in model.counts.values() if name in c.reads], "'")
        facts = [
            *typing(symbolic, other, " else"),
            *counting(symbolic, other, " else"),
            *invariants(symbolic, other, " else"),
            *(fact for _, fact in rested(symbolic, other, " else")),
        ]
        entries = [*(self._in_map(name, other) if name in model.maps else self._in_queue(name, other))]
        return self._as_good(facts, [*self._promises(other, self.result), *within(symbolic, other)], entries)

    def at_result(self) -> str | None:
        """What else might be returned, likewise."""
        action = self.run.action
        assert action.result is not None
        assert self.result is not None
        kind = type(action.result)
        other = self.symbolic.universe.fresh(RESULT, kind)
        fits = self.symbolic.universe.is_element(kind, other)
        if action.result.is_optional:
            fits = lor(fits, leq(other, num(NONE)))
        entry = _Entry(RESULT, lnot(leq(self.result, other)), self.result, other)
        return self._as_good([Fact.of(RESULT, frozenset(), fits)], self._promises(self.run.now, other), [entry])

    def _promises(self, other: Snapshot, result: Formula | None) -> Iterator[Formula]:
        """All that is promised of the step, said of another end of it."""
        run, symbolic = self.run, self.symbolic
        given = {name_of(p): a for p, a in zip(run.action.params, run.args, strict=True)}
        if result is not None:
            given[RESULT] = result
        for prop in run.model.steps_for(run.action.name):
            env = {number_of(v): given[n] for n, v in prop.given.items()}
            for clause in symbolic.clauses(prop.binders, prop.formula):
                yield symbolic.claim(clause, other, {"before": run.before}, dict(env))

    def _as_good(self, facts: Iterable[Fact], promises: Iterable[Formula], entries: Sequence[_Entry]) -> str | None:
        """The first entry that differs where everything else holds; None where that is not decided in time.

        Raises:
            _NothingElse: none can.
        """
        claims = [*promises, lor(*[e.differs for e in entries])]
        wanted = [*self.steps, *formulas_of(self.symbolic, facts), *claims]
        solver = self._solver(wanted)
        answer = solver.check()
        if answer == z3.unsat:
            raise _NothingElse
        if answer != z3.sat:
            return None
        model = solver.model()
        entry = next(e for e in entries if _value(model, e.differs) == "True")
        return f"{entry.called} is {_value(model, entry.made)}, and may as well be {_value(model, entry.other)}"

    def _solver(self, wanted: Iterable[Formula]) -> z3.Solver:
        solver = z3.Solver()
        solver.set("timeout", max(1, int(1000 * self.seconds)))
        solver.set("ctrl_c", False)
        solver.add(*[z3.BoolVal(w) if isinstance(w, bool) else w for w in wanted])
        return solver

    def _in_map(self, name: str, other: Snapshot) -> Iterator[_Entry]:
        universe = self.symbolic.universe
        assert isinstance(universe, Finite)
        made, else_ = self.run.now.functions[name], other.functions[name]
        for keys in itertools.product(*[universe.elements(k) for k in self.run.model.maps[name].kinds]):
            a, b = num(made(*keys)), num(else_(*keys))
            yield _Entry(_shown(name, keys), lnot(leq(a, b)), a, b)

    def _in_queue(self, name: str, other: Snapshot) -> Iterator[_Entry]:
        """Who stands in it, and which of two stands first."""
        universe, queue = self.symbolic.universe, self.run.model.queues[name]
        assert isinstance(universe, Finite)
        made, else_ = ([s.functions[f"{name}.{x}"] for x in ("has", "rank")] for s in (self.run.now, other))
        for keys in itertools.product(*[universe.elements(k) for k in queue.kinds]):
            members = universe.elements(queue.of)
            for one in members:
                a, b = made[0](*keys, one), else_[0](*keys, one)
                yield _Entry(f"{one} in {_shown(name, keys)}", lnot(leq(a, b)), a, b)
            for one, two in itertools.combinations(members, 2):
                are_there = land(*[has(*keys, x) for has, _ in (made, else_) for x in (one, two)])
                a, b = (less(rank(*keys, one), rank(*keys, two), strict=True) for _, rank in (made, else_))
                called = f"{one} before {two} in {_shown(name, keys)}"
                yield _Entry(called, land(are_there, lnot(leq(a, b))), a, b)


def _shown(name: str, keys: Sequence[Formula]) -> str:
    return f"{name}[{', '.join(map(str, keys))}]" if keys else name


def _value(model: z3.ModelRef, formula: Formula) -> str:
    return str(formula if isinstance(formula, bool | int) else model.eval(formula, model_completion=True))
