"""Writing sketches of proofs down: what was slow to prove is tried again with nothing but what it needed."""

from __future__ import annotations

from collections.abc import Iterator

from .deciding import Deciding, Decision
from .sketches import WAYS, Sketch, named
from .slices import without_lines

__all__ = ["sketched"]

SLOW = 0.02
"""Seconds from which on even what was proved at the first try is worth a sketch."""

SEEDS = (0, 1, 2, 3)
"""A way has to do with all of these: what is found by luck is not found again."""

SWIFT = 0.006
"""Seconds that are fast enough: no other way is looked for."""


def sketched(deciding: Deciding) -> dict[str, list[Sketch | None]]:
    """The sketches of what is decided, by the goals' names; of what was proved at once, or before, there is none."""
    found: dict[str, list[Sketch | None]] = {}
    goals = [d.goal for d in deciding.decisions]
    for (name, _), decision in zip(named(goals), deciding.decisions, strict=True):
        is_worth_it = decision.tries > 1 or decision.seconds > SLOW
        sketch = _sketch(deciding, decision) if is_worth_it and not decision.is_recalled else None
        found.setdefault(name, []).append(sketch)
    return {name: sketches for name, sketches in found.items() if any(sketches)}


def _sketch(deciding: Deciding, decision: Decision) -> Sketch | None:
    """What was needed, in the way in which it is proved soonest; None: in no way sooner than without."""
    if not decision.is_proved or decision.core is None:
        return None
    needs = tuple(sorted({without_lines(fact.label) for fact in decision.core}))
    best: tuple[float, Sketch] | None = None
    for seconds, sketch in _tried(deciding, decision, needs):
        if best is None or seconds < best[0]:
            best = seconds, sketch
        if seconds < SWIFT:
            break
    return best[1] if best is not None and best[0] < decision.seconds else None


def _tried(deciding: Deciding, decision: Decision, needs: tuple[str, ...]) -> Iterator[tuple[float, Sketch]]:
    """In which ways the goal follows from this, whatever the seed; and the longest time that it took."""
    for way in range(len(WAYS)):
        sketch, slowest = Sketch(needs, way), 0.0
        for seed in SEEDS:
            trial = Decision(decision.goal, sketch)
            deciding.follow(trial, seed)
            if not trial.is_proved:
                break
            slowest = max(slowest, trial.seconds)
        else:
            yield slowest, sketch
