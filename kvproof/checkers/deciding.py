"""Deciding the goals of one place: with few facts first, and many ways to ask for what is left.

A goal is proved once it follows from what is known where it stands, and from goals of the same place that were proved
before it. Which of the facts were needed is kept: where the same goal stands beside the same facts again, in another
action or in a machine that extends this one, it need not be asked again (`proofs.py`), and where another goal of the
same property stands, facts of these names are shown first (`hints.py`).
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import InitVar, dataclass, field, replace
from typing import Protocol
from weakref import WeakKeyDictionary

from ..machine.execution import Goal
from ..machine.formulas import Formula, land
from ..machine.knowledge import Fact
from .hints import Hints
from .obligations import Problems
from .proofs import SAMPLE, Core, Proofs, digest_of
from .sketches import WAYS, Sketch
from .slices import EVERYTHING, FARTHER, NEARBY, Slices
from .solvers import Question, Solver, Way, ask, ask_cvc5, is_trivial

__all__ = ["LADDER", "PATIENT", "Attempt", "Deciding", "Decision", "Known"]


@dataclass(frozen=True)
class Attempt:
    """One try at a goal: how much is shown of what is known (`slices.py`), and how Z3 is asked.

    ``lemmas``: also what was proved at the same place before.
    """

    level: int
    way: Way
    lemmas: bool = False


AGAIN = Way(depth=3, effort=0.1)
"""The goals of one property at one place at once, with what was needed for it elsewhere."""

TOGETHER = Attempt(0, Way(depth=2, effort=0.1))
"""The goals of one property at one place at once: nine in ten need no more."""

QUICK = (
    Attempt(0, Way(depth=6, seed=1, effort=0.05)),
    Attempt(0, Way(depth=3, seed=11, effort=0.2)),
    Attempt(1, Way(depth=6, seed=2, effort=0.05)),
    Attempt(NEARBY, Way(depth=3, seed=3, effort=0.1)),
    Attempt(0, Way(depth=3, seed=8, relevancy=1, effort=0.2)),
    Attempt(FARTHER, Way(depth=3, seed=9, effort=0.2)),
    Attempt(2, Way(depth=3, seed=4, effort=0.2)),
    Attempt(EVERYTHING, Way(depth=6, seed=6, effort=0.5)),
    Attempt(0, Way(depth=4, seed=7, cases=True, relevancy=1, effort=0.1)),
    Attempt(NEARBY, Way(depth=4, seed=5, cases=True, effort=0.5)),
)
"""What is tried first of what is left: of a hundred goals, this leaves one or none."""


def _round(effort: float, seed: int) -> tuple[Attempt, ...]:
    """Each kind of attempt once."""
    return (
        Attempt(0, Way(depth=3, seed=seed, relevancy=1, effort=effort)),
        Attempt(0, Way(depth=2, seed=seed, effort=effort)),
        Attempt(2, Way(depth=3, seed=seed, relevancy=1, effort=effort)),
        Attempt(1, Way(depth=3, seed=seed, effort=effort)),
        Attempt(FARTHER, Way(depth=3, seed=seed, effort=effort)),
        Attempt(NEARBY, Way(depth=2, seed=seed, effort=effort)),
        Attempt(1, Way(depth=3, seed=seed, effort=effort), lemmas=True),
        Attempt(EVERYTHING, Way(depth=3, seed=seed, effort=2 * effort)),
        Attempt(1, Way(depth=4, seed=seed, cases=True, effort=effort)),
        Attempt(0, Way(depth=2, seed=seed, models=True, effort=effort)),
        Attempt(NEARBY, Way(depth=2, seed=seed, effort=effort), lemmas=True),
        Attempt(EVERYTHING, Way(depth=6, seed=seed, relevancy=1, effort=2 * effort), lemmas=True),
    )


LADDER = (*QUICK, *_round(0.2, 10), *_round(0.2, 20), *_round(0.5, 30))
"""What else is tried, in turn. Whether a proof is found within a bound on depth also depends on which case is split
first, so another way to ask is worth more than more depth, and many short tries more than a long one."""

PATIENT = (*_round(0.5, 40), *_round(1.0, 50), *_round(1.0, 60), *_round(3.0, 70), *_round(6.0, 80))
"""Asked for what the ladder left open and what has no counterexample."""

PATIENCE = 6
"""They may take so many times as long as the ladder."""


_digests: WeakKeyDictionary[Goal | Fact, str] = WeakKeyDictionary()
"""Of what is said somewhere: what is known of any state is said at every place of a machine."""


@dataclass
class Decision:
    """What became of a goal. ``seconds`` is the time that this process computed for it."""

    goal: Goal
    sketch: Sketch | None = None
    """How it was proved once, where that is known."""
    is_proved: bool = False
    seconds: float = 0.0
    core: list[Fact] | None = None
    """What its proof needed; None where it is not proved, or where that is not known."""
    is_recalled: bool = False
    """It was proved before."""
    tries: int = 0
    """So often it was asked."""
    patience: int = 0
    """So many of the ways that take patience were tried."""
    too_little: list[frozenset[Fact]] = field(default_factory=list)
    """Facts from which it does not follow: Z3 has a model of them without it. No part of them is shown again."""


class Known(Protocol):
    """What was proved before."""

    def digest(self, formula: Formula) -> str:
        """What stands for a formula: the same for no two of them."""

    def cores(self, goal: str) -> Sequence[Core]:
        """What proofs of the goal of this digest needed."""


@dataclass
class Deciding:
    """The goals of one place while they are worked on."""

    problems: Problems
    solver: Solver
    seconds: float
    """For one goal, of computing, so that what else runs on the machine changes nothing."""
    proofs: Proofs | None = None
    """What was proved before."""
    hints: Hints = field(default_factory=Hints)
    """What was needed elsewhere, by name."""
    perturbed: int = 0
    """Changes the seeds of all attempts."""
    sketches: InitVar[Sequence[Sketch | None]] = ()
    """How each goal was proved once, where that is known."""
    decisions: list[Decision] = field(init=False)
    slices: Slices = field(init=False)
    _proofs_of: dict[Fact, Decision] = field(init=False, default_factory=dict)
    """By lemma that was shown: how it was proved."""

    def __post_init__(self, sketches: Sequence[Sketch | None]) -> None:
        """Begin with nothing decided."""
        paired = itertools.zip_longest(self.problems.goals, sketches)
        self.decisions = [Decision(goal, sketch) for goal, sketch in paired]
        self.slices = Slices(self.problems)

    def decide(self, ladder: Sequence[Attempt] = LADDER) -> None:
        """Try to prove every goal, by the ladder."""
        if self.proofs is not None:
            self._recall(self.decisions, self.proofs, SAMPLE)
        if self.solver == "cvc5":
            self._ask_cvc5()
            return
        self._as_sketched()
        for _ in self.at_first():
            pass
        left = self.decisions
        for attempt in ladder:
            left = [d for d in left if not d.is_proved]
            for decision in left:
                self._attempt([decision], attempt, self.seconds)

    def at_first(
        self, order: Callable[[Sequence[Decision]], float] = lambda _: 0, known: Known | None = None
    ) -> Iterator[list[Decision]]:
        """Ask for the goals of each property at each place at once, in this order; what is left of them, in turn.

        Nothing is asked that is ``known`` to follow: what stands there word for word, beside what its proof needed.
        """
        for group in sorted(self._groups(), key=order):
            if known is not None:
                self._recall(group, known, 0.0)
            self._attempt_again(group)
            self._attempt(group, TOGETHER, self.seconds)
            yield [d for d in group if not d.is_proved]

    def keep(self) -> None:
        """Keep what is proved now, for the next time."""
        if self.proofs is not None:
            new = [d for d in self.decisions if d.core is not None and not d.is_recalled]
            self.proofs.keep(
                (self._digest(d.goal), tuple((fact.label, self._digest(fact)) for fact in d.core or [])) for d in new
            )

    def _digest(self, said: Goal | Fact, known: Known | None = None) -> str:
        """That of a goal or fact: many proofs need the same facts."""
        if known is not None and known is not self.proofs:
            return known.digest(said.formula)
        digest = _digests.get(said)
        if digest is None:
            digest = _digests[said] = digest_of(said.formula)
        return digest

    def _recall(self, decisions: Sequence[Decision], known: Known, sample: float) -> None:
        """What follows here as it followed before: the same goal, with the same facts at hand.

        Some of it (``sample``) is asked again all the same: whether it follows from these facts, and where that is not
        found, as if nothing were known.
        """
        for decision in decisions:
            started = time.process_time()
            needed = self._needed_before(decision.goal, known)
            if needed is not None and random.random() >= sample:
                decision.is_proved, decision.core, decision.is_recalled = True, needed, True
                self.hints.learn(decision.goal, needed)
            decision.seconds += time.process_time() - started
            if needed is not None and not decision.is_recalled and self.solver == "z3":
                self._ask([decision], needed, AGAIN, time.process_time())

    def _needed_before(self, goal: Goal, known: Known) -> list[Fact] | None:
        """What a proof of this goal needed that is known where it stands now; None: there is no such proof."""
        cores = known.cores(self._digest(goal, known))
        return next((facts for core in cores if (facts := self._at_hand(goal, core, known)) is not None), None)

    def _at_hand(self, goal: Goal, core: Core, known: Known) -> list[Fact] | None:
        """These facts, if all of them are known where the goal stands."""
        found = []
        for label, digest in core:
            fact = next((f for f in self.slices.labelled(goal, label) if self._digest(f, known) == digest), None)
            if fact is None:
                return None
            found.append(fact)
        return found

    def _as_sketched(self) -> None:
        """What follows as it followed once."""
        for decision in self.decisions:
            if not decision.is_proved:
                self.follow(decision)

    def follow(self, decision: Decision, seed: int = 0) -> None:
        """Ask for one goal with the facts, and in the way, that its sketch names; where it has none, do nothing."""
        if decision.sketch is not None:
            started = time.process_time()
            way = replace(WAYS[decision.sketch.way], seed=seed)
            self._ask([decision], self._sketched(decision.goal, decision.sketch), way, started)

    def _sketched(self, goal: Goal, sketch: Sketch) -> list[Fact]:
        """The facts that a sketch names, of those that are known where the goal stands."""
        return [f for label in sketch.needs for f in self.slices.labelled(goal, label)]

    def be_patient(self, decision: Decision, times: float = PATIENCE) -> None:
        """Ask for one goal in many ways, with time of its own for it: so many times as long as the ladder has.

        Asked once more, it goes on behind the ways that were tried in vain.
        """
        until = decision.seconds + times * self.seconds
        while not decision.is_proved and decision.seconds < until and decision.patience < len(PATIENT):
            self._attempt([decision], PATIENT[decision.patience], until)
            decision.patience += 1

    def be_patient_with_all(self, times: float = PATIENCE) -> bool:
        """The same for each goal that is left, until one has been asked for in vain; whether all are proved."""
        for decision in self.decisions:
            if not decision.is_proved:
                self.be_patient(decision, times)
            if not decision.is_proved:
                return False
        return True

    def ask_for(self, decision: Decision, ladder: Sequence[Attempt], until: float) -> None:
        """Try to prove one goal, by this ladder, until it has cost so many seconds."""
        for attempt in ladder:
            self._attempt([decision], attempt, until)

    def _groups(self) -> Iterator[list[Decision]]:
        """The goals of one property that stand in one context."""
        groups: dict[tuple[int, str], list[Decision]] = {}
        for number, decision in enumerate(self.decisions):
            prop = decision.goal.prop
            key = (id(decision.goal.context), prop.name if prop is not None else f"goal {number}")
            groups.setdefault(key, []).append(decision)
        yield from groups.values()

    def _attempt(self, decisions: Sequence[Decision], attempt: Attempt, until: float) -> None:
        """Ask for the conjunction of goals that stand in one context."""
        left = [d for d in decisions if not d.is_proved and d.seconds < until]
        if left:
            started = time.process_time()
            goals = [d.goal for d in left]
            facts = self.slices.facts(goals, attempt.level, self._lemmas(goals) if attempt.lemmas else ())
            self._ask(left, facts, attempt.way, started)

    def _attempt_again(self, decisions: Sequence[Decision]) -> None:
        """Ask for the conjunction of goals that stand in one context with what was needed for them elsewhere."""
        left = [d for d in decisions if not d.is_proved]
        names = self.hints.of([d.goal for d in left])
        if names:
            started = time.process_time()
            self._ask(left, self.slices.named([d.goal for d in left], names), AGAIN, started)

    def _ask(self, decisions: Sequence[Decision], facts: Sequence[Fact], way: Way, started: float) -> None:
        """Ask whether these goals, which stand in one context, follow from these facts."""
        goals = [d.goal for d in decisions]
        alone = decisions[0] if len(decisions) == 1 else None
        if alone is not None and any(not_enough.issuperset(facts) for not_enough in alone.too_little):
            return

        def has_model() -> None:
            if alone is not None:
                alone.too_little.append(frozenset(facts))

        question = Question([f.formula for f in facts], land(*[g.formula for g in goals]), goals[0].branches)
        way = replace(way, seed=way.seed + 1000 * self.perturbed)
        core = ask(question, way, seconds=self.seconds, on_model=has_model)
        spent = (time.process_time() - started) / len(decisions)
        for d in decisions:
            d.seconds += spent
            d.tries += 1
            if core is not None:
                d.is_proved, d.core = True, self._without_lemmas([facts[i] for i in core])
                self.hints.learn(d.goal, d.core or ())

    def _lemmas(self, goals: Sequence[Goal]) -> list[Fact]:
        """What was proved in the same context before."""
        context = goals[0].context
        proved = {d.goal.lemma: d for d in self.decisions if d.is_proved and d.goal.context is context}
        self._proofs_of |= proved
        return [*proved]

    def _without_lemmas(self, core: Sequence[Fact]) -> list[Fact] | None:
        """What is needed, with what lemmas needed in their place."""
        needed: dict[int, Fact] = {}
        for fact in core:
            decision = self._proofs_of.get(fact)
            facts = [fact] if decision is None else decision.core
            if facts is None:
                return None
            needed |= {id(f): f for f in facts}
        return list(needed.values())

    def question(self, goal: Goal) -> Question:
        """The goal with everything that is known where it stands."""
        facts = self.slices.facts([goal], EVERYTHING)
        return Question([f.formula for f in facts], goal.formula, goal.branches)

    def _ask_cvc5(self) -> None:
        """Every goal: with what its proof by Z3 needed, where that is known, with few facts, and with all of them."""
        for decision in self.decisions:
            if decision.sketch is not None:
                self._ask_cvc5_of(decision, self._sketched(decision.goal, decision.sketch))
            for level in (0, 1, 2, NEARBY, EVERYTHING):
                if decision.is_proved or decision.seconds >= self.seconds:
                    break
                self._ask_cvc5_of(decision, self.slices.facts([decision.goal], level))

    def _ask_cvc5_of(self, decision: Decision, facts: Sequence[Fact]) -> None:
        """Whether the goal follows from these facts, in cvc5's opinion."""
        if decision.is_proved:
            return
        started = time.process_time()
        question = Question([f.formula for f in facts], decision.goal.formula)
        left = self.seconds - decision.seconds
        decision.is_proved = is_trivial(question.goal) or ask_cvc5(question, seconds=left)
        decision.core = [*facts] if decision.is_proved else None
        decision.seconds += time.process_time() - started
