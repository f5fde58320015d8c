"""What comes of a case that an engine and the reference implementation both did."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from ..judge.record import Answer, Case
from ..judge.violation import Violation

__all__ = ["Disagreement", "Outcome"]


@dataclass(frozen=True)
class Disagreement:
    """What both sides should agree on after an operation, and do not."""

    at: int
    """Which operation, counted from 0."""
    op: str
    what: str
    """Names the part of the state or of the answer: ``host.free``."""
    engine: Any
    reference: Any
    beside: str = "the reference implementation"
    """Whose the reference is."""

    def __str__(self) -> str:
        return (
            f"operation {self.at + 1} ({self.op}): {self.what}: the engine has {self.engine}, "
            f"{self.beside} {self.reference}"
        )


@dataclass
class Outcome:
    """What came of a case."""

    case: Case
    """As it was played."""
    answer: Answer
    """What the engine told."""
    steps: int
    """Operations that did something."""
    compared: int = 0
    """Those of them after which both were compared and agreed."""
    counts: Counter[str] = field(default_factory=Counter)
    """What was compared that could have differed, by name: ``blocks stored``."""
    parted: str | None = None
    """Why nothing was compared behind these: policies that differ by right."""
    disagreement: Disagreement | None = None
    broken: list[Violation] = field(default_factory=list)
    """The rules that the engine breaks, whatever the policies are."""
