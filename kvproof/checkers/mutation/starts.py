"""States from which one step shows many mistakes: mutants are run from them before a solver is asked about each.

A state that refutes one mutant of an action often refutes the next one, and to see that takes milliseconds. Such states
are what refuted others, and those that bring the right action far: into a further round of each loop that does
something. To find one of those costs little, as nothing is asked of it but that the action comes by there.

Whatever is said here is said by the concrete interpreter: of a state in which every invariant holds, and from which the
right action breaks nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import z3

from ...machine.concrete import Concrete, IllFormed, Outcome, State
from ...machine.execution import Run
from ...machine.formulas import Formula, land, leq, lnot, lor
from ...machine.model import Model
from ...machine.scope import Scope, ScopeError
from ...machine.symbolic import Snapshot, Symbolic
from ...machine.terms import Index
from ...machine.universe import Finite
from ..counterexample import cells, with_room, within
from ..shown import ROUNDS, Start, start_of
from ..solvers import WORK
from .mutant import Mutant

__all__ = ["Starts"]

MOST = 20
"""So many of those that refuted something are tried with every mutant of an action."""

SMALL, LARGE = 2, 3
"""Elements of each sort in the first scope in which the right action is brought far, and of some in the next one."""

MANY = 3
"""Of so many sorts beside the indices that one has as many; of the others there is one."""

LOOKS = 3
"""So many states are looked for that bring an action to one place: each by another path of Z3's search."""

EFFORT = 3
"""For one of them, in units of Z3's work."""

SLOWEST = 20
"""Seconds after which one is given up, whatever Z3 counts."""

RANDOM = 5
"""Z3's number for: of a truth that nothing decides yet, any."""

Seen = tuple[State, Outcome] | str | None
"""What a step, or a part of one, comes to: a state, or what is ill-formed; None where it leaves the scope."""


@dataclass
class Starts:
    """Those of one action of a machine; that which refuted a mutant last comes first."""

    model: Model
    action: str
    _kept: list[_From] = field(default_factory=list)
    _found_far_in: list[_From] = field(default_factory=list)

    def keep(self, start: Start) -> None:
        """Remember a state, if it is one of the right machine's and the right action breaks nothing there."""
        found = _From(self.model, self.action, start)
        if found.is_sound:
            self._keep(found)

    def broken_by(self, mutant: Mutant) -> str | None:
        """What the mutant breaks in a step from a state that has refuted another one; None where it breaks nothing."""
        return self._first(mutant, [*self._kept])

    def broken_far_in(self, mutant: Mutant) -> str | None:
        """The same of states that bring the right action far: of those that are found, and then of more of them."""
        return self._first(mutant, self._far_in())

    def _far_in(self) -> Iterator[_From]:
        yield from [*self._found_far_in]
        for start in self._ways_in:
            found = _From(self.model, self.action, start)
            if found.is_sound:
                self._found_far_in.append(found)
                yield found

    @cached_property
    def _ways_in(self) -> Iterator[Start]:
        """Those that nobody has asked for yet: to find them all takes some actions half a minute."""
        return ways_in(self.model, self.action)

    def _first(self, mutant: Mutant, starts: Iterable[_From]) -> str | None:
        for start in starts:
            broken = start.broken_by(mutant)
            if broken is not None:
                self._keep(start)
                return broken
        return None

    def _keep(self, start: _From) -> None:
        """It is the one that is tried first from now on."""
        self._kept = [start, *(s for s in self._kept if s is not start)][:MOST]


# ------------------------------------------------------------------------------------------------ running


@dataclass
class _From:
    """One state, and what the right action makes of it."""

    model: Model
    action: str
    start: Start

    @cached_property
    def _right(self) -> Concrete:
        return Concrete(self.model, Scope(self.model, self.start.sizes, self.start.params), strict=True)

    @cached_property
    def _state(self) -> State:
        return self._right.state(self.start.before)

    @cached_property
    def _stops(self) -> list[tuple[int, int] | None]:
        """Where a step is looked at: at its end, before the first round of each loop, and behind the next ones."""
        loops = range(len(self.model.actions[self.action].loops))
        return [None, *itertools.product(loops, range(ROUNDS + 1))]

    @cached_property
    def _seen(self) -> dict[tuple[int, int] | None, Seen]:
        """What the right action comes to."""
        return {stop: self._at(self._right, stop) for stop in self._stops}

    @cached_property
    def is_sound(self) -> bool:
        """Every assumption and invariant holds, and the right action breaks nothing."""
        try:
            wrong = [*self._right.violations(self._state, "assume"), *self._right.violations(self._state)]
            if wrong or not self._right.is_enabled(self._state, self.action, self.start.args):
                return False
            return not any(self._broken(self._right, seen, stop) for stop, seen in self._seen.items())
        except (IllFormed, ScopeError):
            return False

    def broken_by(self, mutant: Mutant) -> str | None:
        """What the mutant breaks in this step."""
        scope = replace(self._right.scope, model=mutant.model)
        wrong = Concrete(mutant.model, scope, strict=True, like=self._right)
        try:
            if not wrong.is_enabled(self._state, self.action, self.start.args):
                return None
        except IllFormed as error:
            return f"ill-formed: {error}"
        for stop in self._stops:
            seen = self._at(wrong, stop)
            if not self._is_as_right(seen, self._seen[stop]) and (broken := self._broken(wrong, seen, stop)):
                return broken
        return None

    def _at(self, concrete: Concrete, stop: tuple[int, int] | None) -> Seen:
        """Make the step, whole or up to there."""
        after = concrete.copy(self._state)
        try:
            return after, concrete.apply(after, self.action, self.start.args, stop=stop)
        except IllFormed as error:
            return f"ill-formed: {error}"
        except ScopeError:
            return None

    def _is_as_right(self, seen: Seen, right: Seen) -> bool:
        """Nothing is otherwise than with the right action."""
        if not isinstance(seen, tuple) or not isinstance(right, tuple):
            return seen == right
        return seen[1] == right[1] and all(
            seen[0].__dict__[name] == right[0].__dict__[name] for name in self._right.changing
        )

    def _broken(self, concrete: Concrete, seen: Seen, stop: tuple[int, int] | None) -> str | None:
        """The first thing that is wrong with what the step, or this part of it, comes to."""
        if not isinstance(seen, tuple):
            return seen
        after, outcome = seen
        if outcome.broken_facts:
            return outcome.broken_facts[0]
        try:
            broken = [v for v in concrete.violations(after) if stop is None or not v.prop.derived]
            if stop is None:
                broken += concrete.step_violations(self._state, after, self.action, self.start.args, outcome.result)
        except IllFormed as error:
            return f"ill-formed: {error}"
        except ScopeError:
            return None
        return broken[0].prop.name if broken else None


# ------------------------------------------------------------------------------------------------ looking


def ways_in(model: Model, action: str) -> Iterator[Start]:
    """States from which the action makes a first, second, … round of each of its loops, in which something changes; and
    goes either way at each branch of each round."""
    if not model.actions[action].loops:
        return
    least = _least(model, action)
    # A walk that goes on twice behind a gap needs four positions; four of everything would be too many to look through.
    more = {root: n + (n > 1) for root, n in least.items()}
    small = with_room(model, dict.fromkeys(Scope.roots(model), SMALL))
    ways = [_Ways(model, action, sizes) for sizes in (more, least, small)]
    # Most of what shows anywhere shows in the rounds with most room.
    for found in (*(w.of_rounds() for w in ways), *(w.of_branches() for w in reversed(ways))):
        yield from found


@dataclass
class _Ways:
    """The ways of an action through a scope of these sizes."""

    model: Model
    action: str
    sizes: dict[str, int]

    @cached_property
    def _run(self) -> Run:
        symbolic = Symbolic(self.model, Finite(self.model, self.sizes))
        return Run(symbolic, self.model.actions[self.action], rounds=ROUNDS, judged=False)

    @cached_property
    def _known(self) -> list[Formula]:
        run, symbolic = self._run, self._run.symbolic
        return [*(f.formula for f in run.context.all_facts()), *symbolic.known_of_ends(), *within(symbolic, run.before)]

    @cached_property
    def rounds(self) -> list[Formula]:
        """Something changes in one round of a loop."""
        pairs = [(here, there) for here, there in itertools.pairwise(self._run.halts) if here[2] == there[2]]
        return [land(here[1], _differs(self._run.symbolic, here[3], there[3])) for here, there in pairs]

    def of_rounds(self) -> Iterator[Start]:
        """A few states for each round."""
        return self._each([wanted for wanted in self.rounds for _ in range(LOOKS)])

    def of_branches(self) -> Iterator[Start]:
        """One for each way at a branch."""
        return self._each([way for branch in self._run.branches for way in (branch, lnot(branch))])

    def _each(self, all_wanted: Sequence[Formula]) -> Iterator[Start]:
        for seed, wanted in enumerate(all_wanted):
            found = self._model(wanted, seed)
            if found is not None:
                yield start_of(self._run.symbolic, self._run.before, self._run.args, self.sizes, found)

    def can(self, number: int) -> bool:
        """Whether the round of this number is found to be made."""
        return self._model(self.rounds[number], 0) is not None

    def _model(self, wanted: Formula, seed: int) -> z3.ModelRef | None:
        """A model of such a step, one of many: which of them depends on the seed."""
        formulas = [f for f in (*self._known, wanted) if f is not True]
        if any(f is False for f in formulas):
            return None
        solver = z3.SimpleSolver()
        solver.set(ctrl_c=False, rlimit=EFFORT * WORK, timeout=1000 * SLOWEST, random_seed=seed, phase_selection=RANDOM)
        solver.add(*formulas)
        return solver.model() if solver.check() == z3.sat else None


def _least(model: Model, action: str) -> dict[str, int]:
    """Sizes, as small as is found, with which each loop makes a round in which something changes.

    A walk goes along indices, so there are some of those. Of what else it needs more than one is tried out.
    """
    roots = Scope.roots(model)
    along = {Scope.root(kind) for kind in model.sorts.values() if issubclass(kind, Index)}
    others = [root for root in roots if root not in along]
    found: dict[str, int] = {root: LARGE if root in along else 1 for root in roots}
    missing = {ROUNDS * number for number in range(len(model.actions[action].loops))}
    for number in range(MANY + 1):
        for many in itertools.combinations(others, number):
            ways = _Ways(model, action, {root: LARGE if root in along.union(many) else 1 for root in roots})
            made = {first for first in missing if ways.can(first)}
            if made:
                found = {root: max(found[root], size) for root, size in ways.sizes.items()}
                missing -= made
            if not missing:
                return found
    return found


def _differs(symbolic: Symbolic, here: Snapshot, there: Snapshot) -> Formula:
    """Some entry or queue is another one."""
    pairs = zip(cells(symbolic, here), cells(symbolic, there), strict=True)
    return lor(*[lnot(leq(a, b)) for (_, a), (_, b) in pairs])
