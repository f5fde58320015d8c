"""Whether a mutant breaks what its machine promises: only what the wrong action can break is asked.

What the right action keeps is proved first, once: what those proofs needed says what to try first of the mutants. Of a
mutant, what follows at once is put aside; what is left is refuted in a small scope or proved with patience. One
refutation is enough, and it is not made small. What does the same as the right action keeps what that keeps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import z3

from ...machine.model import Model
from ...machine.reading import speaking_of
from ...machine.scope import Scope
from ...machine.terms import Index
from ...machine.universe import Unbounded
from ..counterexample import Search, with_room
from ..deciding import LADDER, QUICK, Deciding, Decision
from ..hints import Hints
from ..obligations import COROLLARIES, INITIALLY, problems_of
from ..sketches import Sketches
from ..solvers import Verdict
from ..vacuity import not_vacuous
from .equivalence import Beside, Same
from .followed import Followed
from .mutant import Mutant
from .starts import Starts

__all__ = ["Judge", "Judgement"]

FEW, MORE, MANY = 2, 3, 4
"""Elements of each sort in the scopes that are looked through: most mistakes show with few."""

SECONDS = 2.0
"""For one goal in one small scope, of computing."""

PATIENCE = 2.0
"""For one goal, of computing, in trying to prove it."""

ENOUGH = 3
"""So many goals are thought about in vain before something else is tried."""

A_LITTLE = 1
"""So many times as long as for a proof a goal is asked for before all scopes are looked through."""

PLACES = 4
"""So many places of the right machine are kept with their proofs: the action whose mutants are judged, every state, and
two that speak of it."""


@dataclass(frozen=True)
class Judgement:
    """What became of what the wrong action must keep; ``what`` is the first that is refuted, or not decided."""

    verdict: Verdict | Literal["equivalent"]
    what: str = ""


@dataclass
class Judge:
    """The mutants of one machine, one after the other."""

    model: Model
    hints: Hints = field(default_factory=Hints)
    breaks: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By place and goal: how many mutants have broken it, so that it is asked first of the next."""
    _known: dict[str, bool] = field(default_factory=dict)
    _followed: dict[str, Followed] = field(default_factory=dict)
    _starts: dict[str, Starts] = field(default_factory=dict)
    _beside: dict[str, Beside] = field(default_factory=dict)
    _same: dict[Mutant, Same | None] = field(default_factory=dict)
    """What the last mutant has in common with the right action."""

    def keeps(self, place: str) -> bool:
        """The right action keeps what it must; what the proofs of that needed is remembered."""
        if place not in self._known:
            z3.z3.Z3_DEBUG = False  # as in prove.py
            deciding = self._deciding(self.model, place, sketched=True)
            deciding.decide()
            self._followed[place] = Followed(deciding)
            while len(self._followed) > PLACES:
                del self._followed[next(iter(self._followed))]
            self._known[place] = all(d.is_proved for d in deciding.decisions)
        return self._known[place]

    def judge(self, mutant: Mutant) -> Judgement:
        """What prove says of the mutant."""
        refuted = self.starts(mutant.action.name).broken_by(mutant)
        if refuted is not None:
            return Judgement("refuted", refuted)
        found = [_Asked(self, mutant, place) for place in self._places(mutant)]
        refuted = self._first(found, _Asked.at_once)
        if refuted is None and self.is_soon_the_same(mutant):
            return Judgement("equivalent")
        for look in (_Asked.soon, _Asked.far_in, _Asked.at_last, _Asked.patiently):
            refuted = refuted or self._first(found, look)
        if refuted is not None:
            return Judgement("refuted", refuted)
        left = [d.goal.name for asked in found for d in asked.left]
        return Judgement("unknown", left[0]) if left else Judgement("proved")

    def _first(self, found: Sequence[_Asked], look: Callable[[_Asked], str | None]) -> str | None:
        """The first thing that is refuted in this way, at any of the places."""
        for asked in found:
            refuted = look(asked)
            if refuted is not None:
                self.breaks[asked.place, refuted] += 1
                return refuted
        return None

    def is_soon_the_same(self, mutant: Mutant) -> bool:
        """It is soon proved that the wrong action does what the right one does."""
        same = self._in_common(mutant)
        return same is not None and same.soon()

    def is_at_last_the_same(self, mutant: Mutant) -> bool:
        """The same, asked for with patience."""
        same = self._in_common(mutant)
        return same is not None and same.at_last()

    def difference(self, mutant: Mutant) -> str | None:
        """In what the two actions differ in some small scope; None where nothing was found."""
        return self.beside(mutant.action.name).difference(mutant.action)

    def _in_common(self, mutant: Mutant) -> Same | None:
        """Of a right action that does not keep what it must nothing is said: its invariants are not known, nor the
        facts of its loops."""
        if mutant not in self._same:
            action = mutant.action.name
            self._same = {mutant: self.beside(action).same(mutant.action) if self.keeps(action) else None}
        return self._same[mutant]

    def is_possible(self, mutant: Mutant) -> Judgement:
        """What prove says of whether the wrong action ever happens."""
        finding = next(not_vacuous(mutant.model, mutant.action.name, PATIENCE))
        return Judgement(finding.verdict, finding.goal)

    def starts(self, action: str) -> Starts:
        """States from which mutants of an action are run."""
        if action not in self._starts:
            self._starts = {action: Starts(self.model, action)}  # mutants of one action come in a row
        return self._starts[action]

    def beside(self, action: str) -> Beside:
        """The right action, to run wrong ones beside it."""
        if action not in self._beside:
            self._beside = {action: Beside(self.model, action)}
        return self._beside[action]

    def _places(self, mutant: Mutant) -> Iterator[str]:
        """The wrong action, and wherever something is said of when it is possible."""
        yield mutant.action.name
        changed = [p for n, p in mutant.model.properties.items() if p is not self.model.properties[n]]
        if any(p.kind == "invariant" and p.derived for p in changed):
            yield COROLLARIES
        if any(p.kind in ("invariant", "step") and not p.derived for p in changed):
            yield from (place for place in (INITIALLY, *self.model.actions) if place != mutant.action.name)

    def deciding(self, mutant: Mutant, place: str) -> Deciding:
        """The goals of a place of the mutant, of which those of the right machine have been proved."""
        self.keeps(place)
        return self._deciding(mutant.model, place)

    def followed(self, place: str) -> Followed | None:
        """What was proved of the right machine there, as long as it is kept."""
        return self._followed.get(place)

    def _deciding(self, model: Model, place: str, *, sketched: bool = False) -> Deciding:
        problems = problems_of(model, place, Unbounded(model))
        sketches = [*self._sketches.at(place, problems.goals)] if sketched else []
        return Deciding(problems, "z3", PATIENCE, hints=self.hints, sketches=sketches)

    @cached_property
    def _sketches(self) -> Sketches:
        return Sketches.of(self.model.machine)

    @cached_property
    def few(self) -> dict[str, int]:
        """Two elements of each sort, and room for the parameters: a mistake in an action changes none of these."""
        return with_room(self.model, dict.fromkeys(Scope.roots(self.model), FEW))

    @cached_property
    def more(self) -> dict[str, int]:
        """Three of each."""
        return with_room(self.model, dict.fromkeys(Scope.roots(self.model), MORE))

    @cached_property
    def all_sizes(self) -> list[dict[str, int]]:
        """Those; one of each sort; four of each index, as a walk needs positions, and one of each other; four of one
        and two of each other; and four of each."""
        roots = Scope.roots(self.model)
        along = {Scope.root(kind) for kind in self.model.sorts.values() if issubclass(kind, Index)}
        walk = {root: MANY if root in along else 1 for root in roots}
        one_has_many = [dict.fromkeys(roots, FEW) | {root: MANY} for root in roots]
        wanted = [dict.fromkeys(roots, 1), walk, *one_has_many, dict.fromkeys(roots, MANY)]
        return [self.few, self.more, *(with_room(self.model, sizes) for sizes in wanted)]


@dataclass
class _Asked:
    """What is asked at one place of a mutant."""

    judge: Judge
    mutant: Mutant
    place: str

    @cached_property
    def _deciding(self) -> Deciding:
        deciding = self.judge.deciding(self.mutant, self.place)
        if not self._is_of_action:  # nothing else has changed there
            spoken = {
                id(self.mutant.model.properties[n]) for n in speaking_of(self.judge.model, self.mutant.action.name)
            }
            deciding.decisions = [d for d in deciding.decisions if id(d.goal.prop) in spoken]
        return deciding

    @property
    def _is_of_action(self) -> bool:
        return self.place == self.mutant.action.name

    @cached_property
    def _search(self) -> Search:
        return Search(self.mutant.model, self.place, seconds=SECONDS)

    @property
    def left(self) -> list[Decision]:
        """What is not proved yet."""
        return [d for d in self._deciding.decisions if not d.is_proved]

    def at_once(self) -> str | None:
        """The first goal that does not follow at once, and has a counterexample with two elements of each sort."""
        for group in self._deciding.at_first(self._order, self.judge.followed(self.place)):
            if group and (found := self._broken(group, self.judge.few)) is not None:
                return found
        return None

    def soon(self) -> str | None:
        """The same of those that do not follow with a little more thought, with three elements of each sort.

        Where a mutant breaks much, to think about all of it takes long, and one refutation is enough: it is looked for
        as soon as one of them resists, and once more when a few do.
        """
        resisting: list[Decision] = []
        for decision in self._left_in_order():
            self._deciding.ask_for(decision, QUICK, PATIENCE)
            if not decision.is_proved:
                resisting.append(decision)
                if len(resisting) == 1 and (found := self._broken(self.left, self.judge.more)) is not None:
                    return found
            if len(resisting) == ENOUGH:
                break
        return self._broken(resisting, self.judge.more) if len(resisting) > 1 else None

    def far_in(self) -> str | None:
        """What the wrong action breaks where the right one comes far, if there is something that nothing proves."""
        for decision in self._left_in_order():
            self._deciding.ask_for(decision, LADDER, PATIENCE)
            if not decision.is_proved:
                break
        if self.left and self._is_of_action:
            found = self.judge.starts(self.mutant.action.name).broken_far_in(self.mutant)
            if found is not None:
                return found
        self._deciding.decide()
        return None

    def _left_in_order(self) -> list[Decision]:
        """What is not proved yet; what most mutants have broken comes first."""
        return sorted(self.left, key=lambda d: self._order([d]))

    def at_last(self) -> str | None:
        """The first goal that nothing proves and that has a counterexample in some small scope."""
        few, more, *others = self.judge.all_sizes
        found = self._broken_in([few, more])
        # Most of what is left here follows with a little patience, and in many scopes there is much to look through.
        if found is None and not self._deciding.be_patient_with_all(A_LITTLE):
            found = self._broken_in(others)
        return found

    def _broken_in(self, scopes: Sequence[dict[str, int]]) -> str | None:
        return next(filter(None, (self._broken(self.left, sizes) for sizes in scopes)), None)

    def patiently(self) -> None:
        """Ask for what is left in many more ways, until one goal has been asked for in vain."""
        self._deciding.be_patient_with_all()

    def _order(self, group: Sequence[Decision]) -> float:
        return -max(self.judge.breaks[self.place, d.goal.name] for d in group)

    def _broken(self, decisions: Sequence[Decision], sizes: dict[str, int]) -> str | None:
        found = self._search.any([d.goal.name for d in decisions], sizes) if decisions else None
        if found is not None and self._is_of_action and self._search.last is not None:
            self.judge.starts(self.place).keep(self._search.last.start)
        return found
