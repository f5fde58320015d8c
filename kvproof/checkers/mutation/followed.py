"""What of the right action was proved, for its mutants: what a mistake leaves as it was need not be proved again.

A mistake in one place changes few of the formulas that an action is about. Where one of the others is a goal once more,
and everything that its proof needed is known there once more, it follows. Formulas are the same if Z3 has them only
once.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...machine.formulas import Formula
from ..deciding import Deciding
from ..proofs import Core

__all__ = ["Followed"]


class Followed:
    """The goals of one place that were proved, and what their proofs needed."""

    def __init__(self, right: Deciding) -> None:
        self._right = right
        """Kept, as Z3 gives the number of a formula that nobody has any more to another one."""
        self._cores: dict[str, list[Core]] = {}
        for d in right.decisions:
            if d.is_proved and d.core is not None:
                core = tuple((fact.label, self.digest(fact.formula)) for fact in d.core)
                self._cores.setdefault(self.digest(d.goal.formula), []).append(core)

    @staticmethod
    def digest(formula: Formula) -> str:
        """Z3's number of the formula: no other one has it, as long as somebody has this one."""
        return str(formula if isinstance(formula, bool) else formula.get_id())

    def cores(self, goal: str) -> Sequence[Core]:
        """What proofs of the goal of this number needed."""
        return self._cores.get(goal, ())
