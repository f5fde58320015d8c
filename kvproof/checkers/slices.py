"""Which of the facts that are known where a goal stands are shown to the solver, and in which order more are.

Hundreds of facts are known at a place of an action, and a proof needs two or three of them. Those that speak of nothing
but what the goal speaks of are enough nine times in ten, and a solver that sees no others is many times faster and
hardly ever lost.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence, Set
from functools import cache

from ..machine.execution import Goal
from ..machine.knowledge import Context, Fact
from .obligations import Problems

__all__ = ["EVERYTHING", "FARTHER", "NEARBY", "Slices", "without_lines"]

FARTHER = 3
"""The level at which two steps are gone over what was learned on the way."""

NEARBY = 4
"""The level at which whatever is near what the goal speaks of is shown."""

EVERYTHING = 5
"""The level at which every fact is shown."""

TOLERANCE = 1.5
"""A name that is so many times as frequent as the rarest one of a fact counts as rare too."""


class Slices:
    """Slices of what is known in the contexts of some problems.

    Level 0: what speaks of nothing but what the goal speaks of, and what was learned on the way of any of that. Level
    1: the same, one step over what was learned on the way. Level 2: what is about what the goal speaks of, and what is
    about what that speaks of: a fact is about the rarest of its names (as in SInE: Hoder and Voronkov, 2011). Level 3,
    `FARTHER`: as level 1, two steps over. Level 4, `NEARBY`: whatever speaks of something that the goal speaks of, and
    what speaks of nothing else. Level 5: `EVERYTHING`.
    """

    def __init__(self, problems: Problems) -> None:
        self.problems = problems
        self._facts: dict[int, list[Fact]] = {}
        self._labels: dict[int, dict[str, list[Fact]]] = {}
        self._parameters = frozenset().union(*[f.symbols for f in problems.symbolic.params.values()])

    def known(self, goal: Goal) -> list[Fact]:
        """Everything that is known where the goal stands."""
        facts = self._facts.get(id(goal.context))
        if facts is None:
            facts = self._facts[id(goal.context)] = goal.context.all_facts()
        return facts

    def labelled(self, goal: Goal, label: str) -> list[Fact]:
        """What is known under this label where the goal stands, whatever line the label names."""
        name = without_lines(label)
        found = [fact for context in goal.context.chain() for fact in self._under_labels(context).get(name, ())]
        return [*found, *self.problems.ends_in(frozenset([label]))]

    def _under_labels(self, context: Context) -> dict[str, list[Fact]]:
        """What one context adds, by label without lines: many goals stand in contexts with the same outer ones."""
        labels = self._labels.get(id(context))
        if labels is None:
            labels = self._labels[id(context)] = {}
            for fact in context.facts:
                labels.setdefault(without_lines(fact.label), []).append(fact)
        return labels

    def facts(self, goals: Sequence[Goal], level: int, lemmas: Sequence[Fact] = ()) -> list[Fact]:
        """What is shown, for these goals, which stand in one context, of what is known there and of the lemmas."""
        known = [*self.known(goals[0]), *lemmas]
        wanted = _wanted(goals)
        chosen = (self._own, self._one_step, self._about, self._two_steps, self._nearby, lambda known, _: known)[level]
        return self._with_ends(chosen(known, wanted), wanted)

    def named(self, goals: Sequence[Goal], names: Set[str]) -> list[Fact]:
        """What is known under these names where the goals stand, and what was learned on the way of what they say."""
        wanted = _wanted(goals)
        shown = [
            f for f in self.known(goals[0]) if not f.symbols or f.name in names or (f.is_local and f.about & wanted)
        ]
        return self._with_ends(shown, wanted)

    def _with_ends(self, shown: list[Fact], wanted: frozenset[str]) -> list[Fact]:
        return [*self.problems.ends_in(wanted.union(*[f.symbols for f in shown])), *shown]

    def _own(self, known: list[Fact], wanted: frozenset[str]) -> list[Fact]:
        shown = wanted | self._parameters
        return [f for f in known if not f.symbols or (f.about & wanted and (f.is_local or f.symbols <= shown))]

    def _one_step(self, known: list[Fact], wanted: frozenset[str]) -> list[Fact]:
        return self._own(known, self._one_step_over(known, wanted))

    def _two_steps(self, known: list[Fact], wanted: frozenset[str]) -> list[Fact]:
        return self._one_step(known, self._one_step_over(known, wanted))

    @staticmethod
    def _one_step_over(known: list[Fact], wanted: frozenset[str]) -> frozenset[str]:
        return wanted.union(*[f.symbols for f in known if f.is_local and f.symbols & wanted])

    def _about(self, known: list[Fact], wanted: frozenset[str]) -> list[Fact]:
        often = Counter(s for f in known for s in f.symbols)
        about: dict[str, list[Fact]] = {}
        for fact in known:
            rare = TOLERANCE * min((often[s] for s in fact.about), default=0)
            for symbol in fact.about:
                if fact.is_local or often[symbol] <= rare:
                    about.setdefault(symbol, []).append(fact)
        reached = last = wanted
        chosen: set[int] = set()
        for _ in range(2):
            facts = [f for s in last for f in about.get(s, ())]
            chosen |= {id(f) for f in facts}
            last = frozenset().union(*[f.symbols for f in facts]) - reached
            reached |= last
        return [f for f in known if id(f) in chosen or f.symbols <= reached]

    def _nearby(self, known: list[Fact], wanted: frozenset[str]) -> list[Fact]:
        names = wanted - self._parameters
        near = wanted.union(*[f.symbols for f in known if f.about & names])
        return [f for f in known if f.about & names or f.symbols <= near or (f.subjects and f.subjects <= near)]


@cache
def without_lines(text: str) -> str:
    """A name without the lines of files, which change with every edit."""
    return _LINE.sub("", text)


_LINE = re.compile(r" at [^\s:]+\.py:\d+")


def _wanted(goals: Sequence[Goal]) -> frozenset[str]:
    """What the goals speak of."""
    return frozenset().union(*[g.symbols for g in goals])
