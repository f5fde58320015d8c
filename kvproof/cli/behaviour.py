"""What a change makes different though no rule is broken: both sides do the same cases, and each step is compared.

A case in which a rule is broken on either side is left to the hunts, which tell faults.
"""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, count, zip_longest
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import seed as seeded

from ..engines.collecting import Ground
from ..engines.drawing import DRAWING
from ..engines.session import Session
from ..engines.verdicts import close, verdict
from ..judge.record import Answer, Case, Step
from .hunting import Plan, grounds, more_oracles, opened
from .schema import runs as schema

__all__ = ["Behaviour", "Difference", "compare_behaviour", "parting"]

_AT_ONCE = 5
"""Cases of a family that are drawn and played before it is another family's turn."""


_ABSENT = "nothing"
"""Stands for what a side has not, a request's table for instance; None is what it does not show."""


@dataclass(frozen=True)
class Difference:
    """The first step of a case at which the sides part."""

    case: Case
    at: int
    """Which operation, counted from 0."""
    what: str
    """What of it differs, by the field of the state where it is that."""
    base: Any
    """What it is on this side."""
    head: Any
    answer: Answer
    """All that the base did."""


@dataclass
class Behaviour:
    """What came of the cases of one level."""

    level: str
    cases: int = 0
    """Those that both sides did and in which neither broke a rule."""
    kinds: Counter[str] = field(default_factory=Counter)
    """In how many of them the sides parted, by what differed first."""
    shortest: dict[str, Difference] = field(default_factory=dict)
    """Of each kind the case that parts after the fewest operations."""

    def see(self, found: Difference | None) -> None:
        """Count a case."""
        self.cases += 1
        if found is None:
            return
        self.kinds[found.what] += 1
        known = self.shortest.get(found.what)
        if known is None or found.at < known.at:
            self.shortest[found.what] = found

    def to_json(self) -> schema.BehaviourChange:
        """The same for programs."""
        return schema.BehaviourChange(level=self.level, cases=self.cases, different=dict(self.kinds))


def compare_behaviour(base: Plan, head: Plan, seconds: float) -> list[Behaviour]:
    """Let both sides do the same cases, for so long, or as many of each level as the plan says.

    Raises:
        UsageError: one side cannot be driven.
    """
    found = {level: Behaviour(level) for level in base.levels}
    with opened(base, base.levels) as before, opened(head, head.levels) as after:
        until = time.monotonic() + seconds
        for case in _cases(grounds(base, before.hello), base, until):
            first = _clean(before, base, case)
            second = None if first is None else _clean(after, head, case)
            if first is not None and second is not None:
                found[case.level].see(parting(case, first, second))
    return [*found.values()]


def parting(case: Case, base: Answer, head: Answer) -> Difference | None:
    """The first step at which two answers to a case differ."""
    for at, (before, after) in enumerate(zip(base.steps, head.steps, strict=False)):
        for what, one, other in chain(_in_effects(before, after), _differing(_told(before), _told(after))):
            return Difference(case, at, what, one, other, base)
    return None


def _in_effects(before: Step, after: Step) -> Iterator[tuple[str, Any, Any]]:
    """The effects that differ, by their kind."""
    for one, other in zip_longest(before.effects, after.effects, fillvalue=_ABSENT):
        if one != other:
            yield f"effect {(other if one == _ABSENT else one)[0]}", one, other


def _told(step: Step) -> dict[str, Any]:
    told = {"skipped": step.skipped, "result": step.result, "state": step.state}
    return {name: msgspec.to_builtins(value) for name, value in told.items()}


def _differing(before: dict[str, Any], after: dict[str, Any], within: str = "") -> Iterator[tuple[str, Any, Any]]:
    """What differs, by name, and what it is on each side; a side that does not show something says nothing of it."""
    for key in dict.fromkeys((*before, *after)):
        one, other = before.get(key, _ABSENT), after.get(key, _ABSENT)
        if isinstance(one, dict) and isinstance(other, dict):
            yield from _differing(one, other, f"{within}{key}.")
        elif one != other and one is not None and other is not None:
            yield f"{within}{key}", one, other


def _clean(session: Session, plan: Plan, case: Case) -> Answer | None:
    """What a side does in a case; None where it refuses that, or breaks a rule."""
    found, answer = verdict(session, case, more_oracles(case.level, plan.build))
    return answer if found is None and answer.refused is None else None


def _cases(of: Sequence[Ground], plan: Plan, until: float) -> Iterator[Case]:
    """Cases of all levels and families by turns, the same for the same seed; each turn draws new ones."""
    drawn = Counter[str]()
    for turn in count():
        for ground in of:
            for profile in ground.profiles:
                for case in _drawn(ground, profile, (plan.seed << 32) + turn):
                    if time.monotonic() >= until or drawn[ground.level] == plan.examples:
                        break
                    drawn[ground.level] += 1
                    yield case
        if time.monotonic() >= until or all(drawn[ground.level] == plan.examples for ground in of):
            return


def _drawn(ground: Ground, profile: str, seed: int) -> list[Case]:
    cases: list[Case] = []

    def one(case: Case) -> None:
        cases.append(close(case, ground.closing))

    seeded(seed)(settings(DRAWING, max_examples=_AT_ONCE)(given(ground.profiles[profile])(one)))()
    return cases
