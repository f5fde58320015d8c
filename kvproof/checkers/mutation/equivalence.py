"""Whether a mutant is no mistake at all: both actions do the same, in every state in which the invariants hold.

The wrong action is run beside the right one, from the same arbitrary state and with the same arguments. It is
equivalent where it reads and divides nothing that has no value, is possible exactly when the right one is, ends in the
same state, with the same order in every queue, returns the same, and reports the same events in the same order. Loops
go side by side: both begin in one state, are to make as many rounds, and a round of either, from any one state in which
rounds begin, ends in the same state; so both end in one state too.

The right action must have been proved before, as its invariants and the facts of its loops are what this relies on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property, partial
from itertools import groupby

import z3

from ...machine.execution import Goal, Point, Report, Run
from ...machine.formulas import Formula, land, leq, less, limplies, lnot, lor, replaced
from ...machine.knowledge import Context
from ...machine.model import Action, Model
from ...machine.scope import Scope
from ...machine.symbolic import Snapshot, Symbolic
from ...machine.universe import Finite, Unbounded
from ..deciding import LADDER, QUICK, Deciding
from ..obligations import Problems

__all__ = ["WHEN_POSSIBLE", "Beside", "IncomparableError"]

LIMIT = 2.0
"""For one thing that has to be the same, of computing, in seconds."""

WHEN_POSSIBLE = "when it is possible"
"""What differs where only one of the two can happen."""

SIZES = (2, 3)
"""Elements of each sort in the scopes in which a difference is looked for."""

SEARCH = 2.0
"""Seconds for one thing that may differ in such a scope."""


class IncomparableError(Exception):
    """Two runs have no common points, or no common order of events: nothing is said of them."""


class Beside:
    """One action of a machine, beside which wrong ones are run."""

    def __init__(self, model: Model, action: str) -> None:
        self.model, self.action = model, model.actions[action]
        self._finite: dict[int, _Pair] = {}

    @cached_property
    def _unbounded(self) -> _Pair:
        return _Pair(Symbolic(self.model, Unbounded(self.model)), self.action)

    def same(self, wrong: Action) -> Same | None:
        """Whether the wrong action does what the right one does, at any size; None where they cannot be compared."""
        try:
            return Same(Deciding(self._unbounded.problems(wrong), "z3", LIMIT))
        except IncomparableError:
            return None

    def difference(self, wrong: Action) -> str | None:
        """What differs, in some state of a small scope in which the invariants hold; None where nothing was found."""
        for size in SIZES:
            if size not in self._finite:
                universe = Finite(self.model, dict.fromkeys(Scope.roots(self.model), size))
                self._finite[size] = _Pair(Symbolic(self.model, universe), self.action)
            try:
                problems = self._finite[size].problems(wrong)
            except IncomparableError:
                return None
            for _, goals in groupby(problems.goals, lambda g: id(g.context)):
                if (found := _differing(problems, list(goals))) is not None:
                    return found
        return None


@dataclass(frozen=True)
class Same:
    """What has to be the same, and how much of it is proved to be."""

    deciding: Deciding

    def soon(self) -> bool:
        """All of it is proved, with as much time as most goals need: asked for until one needs more."""
        self.deciding.decide(())
        for decision in self.deciding.decisions:
            self.deciding.ask_for(decision, QUICK, LIMIT)
            if not decision.is_proved:
                return False
        return True

    def at_last(self) -> bool:
        """All of it is proved, asked for in many more ways: until one goal has been asked for in vain."""
        self.deciding.decide(LADDER)
        return self.deciding.be_patient_with_all()


def _differing(problems: Problems, goals: Sequence[Goal]) -> str | None:
    """Which of these goals, that stand in one context, some state breaks."""
    solver = z3.Solver()
    solver.set("timeout", int(1000 * SEARCH))
    wrong = lor(*[lnot(g.formula) for g in goals])
    solver.add(*[f for f in problems.failure(goals[0], wrong) if f is not True])
    if wrong is False or solver.check() != z3.sat:
        return None
    found = solver.model()
    return next(g.name for g in goals if not _holds(found, g.formula))


def _holds(found: z3.ModelRef, formula: Formula) -> bool:
    return formula if isinstance(formula, bool) else z3.is_true(found.eval(formula, model_completion=True))


@dataclass
class _Pair:
    """The right action in some universe, and what has to be the same of wrong ones beside it."""

    symbolic: Symbolic
    action: Action

    def __post_init__(self) -> None:
        """The right action is run once."""
        self.right = Run(self.symbolic, self.action)

    def problems(self, wrong: Action) -> Problems:
        """What has to be the same.

        Raises:
            IncomparableError: the two cannot be compared.
        """
        if len(wrong.loops) != len(self.action.loops):
            raise IncomparableError("one has a loop more")
        is_finite = self.symbolic.universe.is_finite  # a difference is wanted there, and what has a value is the same
        run = Run(self.symbolic, wrong, judged=False if is_finite else "values", beside=self.right)
        goals = [*run.goals, self._as_possible(run), *self._as_they_pass(run)]
        return Problems(self.symbolic, goals, self.right.before, self.right.args)

    def _as_possible(self, wrong: Run) -> Goal:
        """Each is possible exactly when the other is."""
        right, symbols = self.right, self.right.required_symbols | wrong.required_symbols

        def build() -> Formula:
            return leq(land(*right.required), land(*wrong.required))

        return Goal(WHEN_POSSIBLE, "", right.first, self.action.line, build, symbols)

    def _as_they_pass(self, wrong: Run) -> Iterator[Goal]:
        """Wherever both come by they are in one state, and have told the same."""
        for here, there in zip(self.right.points, wrong.points, strict=True):
            context = here.context
            if self.symbolic.universe.is_finite:  # Rounds are made one by one, and both must have ended.
                context = Context(here.context, [f for f in there.context.all_facts() if f.is_local])
            yield from self._points(here, there, context)

    def _points(self, here: Point, there: Point, context: Context) -> Iterator[Goal]:
        branches = (*here.branches, *there.branches)

        def goal(name: str, symbols: frozenset[str], build: Callable[[], Formula]) -> Goal:
            return Goal(f"{name}, {here.name}", "", context, self.action.line, build, symbols, None, branches)

        for name, symbols, build in self._same_state(here.state, there.state, at_rest=here is self.right.points[-1]):
            yield goal(name, symbols, build)
        told = here.symbols | there.symbols
        for a, b in zip(here.values, there.values, strict=True):
            yield goal("what is computed", told, partial(leq, a, b))
        for a, b in _aligned(here.reports, there.reports):
            yield goal("what is reported", told, partial(self._same_report, a, b))

    def _same_state(
        self, here: Snapshot, there: Snapshot, *, at_rest: bool
    ) -> Iterator[tuple[str, frozenset[str], Callable[[], Formula]]]:
        """The same in every map, in every queue the same members in the same order."""
        model, universe = self.symbolic.model, self.symbolic.universe
        for name, mapping in model.maps.items():
            if mapping.is_param or (mapping.scratch and at_rest):  # Both leave it at rest, which is asked for itself.
                continue
            a, b = here.functions[name], there.functions[name]
            if a is not b:
                same = partial(_same_value, a, b)
                yield name, a.symbols | b.symbols, partial(universe.quantify, "forall", mapping.kinds, same)
        for name, queue in model.queues.items():
            (has, rank), (has_too, rank_too) = (
                (s.functions[f"{name}.has"], s.functions[f"{name}.rank"]) for s in (here, there)
            )
            kinds = (*queue.kinds, queue.of)
            if has is not has_too:
                same = partial(_same_value, has, has_too)
                symbols = has.symbols | has_too.symbols
                yield f"who stands in {name}", symbols, partial(universe.quantify, "forall", kinds, same)
            if has is not has_too or rank is not rank_too:
                same = partial(_same_order, has, rank, rank_too, len(queue.kinds))
                symbols = has.symbols | rank.symbols | rank_too.symbols
                order = partial(universe.quantify, "forall", (*kinds, queue.of), same)
                yield f"the order in {name}", symbols, order

    def _same_report(self, here: Report | None, there: Report | None) -> Formula:
        """Both report it with the same arguments, or neither does; what only one has is never reported."""
        one = here or there
        assert one is not None
        inside = land(*[self.symbolic.universe.is_element(kind, c) for kind, c in one.binders])
        if here is None or there is None:
            return limplies(inside, lnot(one.guard))
        stand_ins = [(b, a) for (_, a), (_, b) in zip(here.binders, there.binders, strict=True)]
        guard = replaced(there.guard, stand_ins)
        same = land(*[leq(a, replaced(b, stand_ins)) for a, b in zip(here.args, there.args, strict=True)])
        return limplies(inside, land(leq(here.guard, guard), limplies(here.guard, same)))


def _same_value(a: Callable[..., Formula], b: Callable[..., Formula], *keys: Formula) -> Formula:
    return leq(a(*keys), b(*keys))


def _same_order(
    has: Callable[..., Formula], rank: Callable[..., Formula], other: Callable[..., Formula], n: int, *k: Formula
) -> Formula:
    """Of two members, the same one comes first by both ranks."""
    a, b = (*k[:n], k[n]), (*k[:n], k[n + 1])
    return limplies(land(has(*a), has(*b)), leq(less(rank(*a), rank(*b), strict=True), _before(other, a, b)))


def _before(rank: Callable[..., Formula], a: Sequence[Formula], b: Sequence[Formula]) -> Formula:
    return less(rank(*a), rank(*b), strict=True)


def _aligned(here: Sequence[Report], there: Sequence[Report]) -> list[tuple[Report | None, Report | None]]:
    """The reports of both, those that correspond side by side, in an order that both have.

    Raises:
        IncomparableError: two that are told in turn, by the rounds of one `each`, would stand beside two that are told
            one after the other.
    """
    pairs: list[tuple[Report | None, Report | None]] = []
    matcher = SequenceMatcher(None, [_shape(r) for r in here], [_shape(r) for r in there], autojunk=False)
    for tag, i, after_i, j, after_j in matcher.get_opcodes():
        if tag == "equal":
            pairs += zip(here[i:after_i], there[j:after_j], strict=True)
        else:
            pairs += [(r, None) for r in here[i:after_i]]
            pairs += [(None, r) for r in there[j:after_j]]
    both = {(a.each, b.each) for a, b in pairs if a is not None and b is not None}
    if len({a for a, _ in both}) < len(both) or len({b for _, b in both}) < len(both):
        raise IncomparableError("their events are told in another order")
    return pairs


def _shape(report: Report) -> tuple[object, ...]:
    return report.event, tuple(kind for kind, _ in report.binders)
