"""Whether a mutant breaks what its machine promises: only what the wrong action can break is asked.

What the right action keeps is proved first, once: what those proofs needed says what to try first of the mutants. Of a
mutant, what follows at once is put aside; what is left is refuted in a small scope or proved with patience. One
refutation is enough, and it is not made small.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import z3

from ...machine.model import Model
from ...machine.reading import speaking_of
from ...machine.scope import Scope
from ...machine.universe import Unbounded
from ..counterexample import Search, with_room
from ..deciding import QUICK, Deciding, Decision
from ..hints import Hints
from ..obligations import COROLLARIES, INITIALLY, problems_of
from ..sketches import Sketches
from ..solvers import Verdict
from ..vacuity import not_vacuous
from .followed import Followed
from .mutant import Mutant
from .starts import Starts

__all__ = ["Judge", "Judgement"]

SIZES = (2, 3, 1, 4)
"""Elements of each sort in the scopes that are looked through: most mistakes show with two."""

SECONDS = 2.0
"""For one goal in one small scope, of computing."""

PATIENCE = 2.0
"""For one goal, of computing, in trying to prove it."""


PLACES = 4
"""So many places of the right machine are kept with their proofs: the action whose mutants are judged, every state, and
two that speak of it."""


@dataclass(frozen=True)
class Judgement:
    """What became of what the wrong action must keep; ``what`` is the first that is refuted, or not decided."""

    verdict: Verdict
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
    _sizes: dict[int, dict[str, int]] = field(default_factory=dict)
    _starts: dict[str, Starts] = field(default_factory=dict)

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
        for look in (_Asked.at_once, _Asked.soon, _Asked.far_in, _Asked.at_last, _Asked.patiently):
            for asked in found:
                refuted = look(asked)
                if refuted is not None:
                    self.breaks[asked.place, refuted] += 1
                    return Judgement("refuted", refuted)
        left = [d.goal.name for asked in found for d in asked.left]
        return Judgement("unknown", left[0]) if left else Judgement("proved")

    def is_possible(self, mutant: Mutant) -> Judgement:
        """What prove says of whether the wrong action ever happens."""
        finding = next(not_vacuous(mutant.model, mutant.action.name, PATIENCE))
        return Judgement(finding.verdict, finding.goal)

    def starts(self, action: str) -> Starts:
        """States from which mutants of an action are run."""
        if action not in self._starts:
            self._starts = {action: Starts(self.model, action)}  # mutants of one action come in a row
        return self._starts[action]

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

    def sizes(self, size: int) -> dict[str, int]:
        """So many elements of each sort, and room for the parameters: a mistake in an action changes none of these."""
        if size not in self._sizes:
            self._sizes[size] = with_room(self.model, dict.fromkeys(Scope.roots(self.model), size))
        return self._sizes[size]


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
            if group and (found := self._broken(group, SIZES[0])) is not None:
                return found
        return None

    def soon(self) -> str | None:
        """The same of those that do not follow with a little more thought."""
        self._deciding.decide(QUICK)
        return self._broken(self.left, SIZES[1])

    def far_in(self) -> str | None:
        """What the wrong action breaks where the right one comes far, if something is left that nothing proves."""
        self._deciding.decide()
        starts = self.judge.starts(self.mutant.action.name)
        return starts.broken_far_in(self.mutant) if self.left and self._is_of_action else None

    def at_last(self) -> str | None:
        """The first goal that nothing proves and that has a counterexample in some small scope."""
        found = (self._broken(self.left, size) for size in SIZES)
        return next(filter(None, found), None)

    def patiently(self) -> None:
        """Ask for what is left in many more ways, until one goal has been asked for in vain."""
        self._deciding.be_patient_with_all()

    def _order(self, group: Sequence[Decision]) -> float:
        return -max(self.judge.breaks[self.place, d.goal.name] for d in group)

    def _broken(self, decisions: Sequence[Decision], size: int) -> str | None:
        found = self._search.any([d.goal.name for d in decisions], self.judge.sizes(size)) if decisions else None
        if found is not None and self._is_of_action and self._search.last is not None:
            self.judge.starts(self.place).keep(self._search.last.start)
        return found
