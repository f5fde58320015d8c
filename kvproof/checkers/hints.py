"""What proofs needed, by name: shown first where the same property is asked again.

An invariant is asked after every action and around every loop, and mostly needs the same beside itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence, Set

from ..machine.execution import Goal
from ..machine.knowledge import Fact

__all__ = ["Hints"]


class Hints:
    """By property (or by name, of goals that belong to none): the names of the facts that its proofs needed so far.

    Which facts they are depends on what was asked before, in this process. They only say what to try first: what they
    leave unproved is asked as if there were none.
    """

    def __init__(self) -> None:
        self._needed: defaultdict[str, set[str]] = defaultdict(set)

    def learn(self, goal: Goal, facts: Iterable[Fact]) -> None:
        """The goal followed from these."""
        self._needed[_subject(goal)].update(fact.name for fact in facts)

    def of(self, goals: Sequence[Goal]) -> Set[str]:
        """What goals of these properties needed before; empty where nothing is known of that."""
        return frozenset().union(*[self._needed.get(_subject(goal), ()) for goal in goals])


def _subject(goal: Goal) -> str:
    return goal.name if goal.prop is None else goal.prop.name
