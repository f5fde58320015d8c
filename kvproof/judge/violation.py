"""What an oracle says when a rule is broken, and what is said of a whole case."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from .record import Answer

__all__ = ["HARMLESS", "KIT", "Thing", "Verdict", "Violation", "of_block", "of_key", "of_request", "unnumbered"]


class Thing(NamedTuple):
    """What has a history (`history.py`): a block of a tier, a hash key, or a request."""

    kind: Literal["block", "key", "request"]
    name: int | str
    tier: str = ""

    def __str__(self) -> str:
        """In words: ``block 3 (device)``."""
        return f"{self.kind} {self.name}" + (f" ({self.tier})" if self.tier else "")


def of_block(tier: str, number: int) -> Thing:
    """A block of a tier."""
    return Thing("block", number, tier)


def of_key(number: int) -> Thing:
    """A hash key, by its number in the case."""
    return Thing("key", number)


def of_request(name: str) -> Thing:
    """A request, by its name in the case."""
    return Thing("request", name)


_NUMBERED = re.compile(r"^(host|below)[0-9]+$")
"""The tier of a connector that stands behind another one."""


def unnumbered(key: Iterable[str]) -> tuple[str, ...]:
    """A key, at whichever of several connectors' tiers."""
    return tuple(_NUMBERED.sub(r"\1", part) for part in key)


HARMLESS = frozenset({"D7", "E3", "O3", "P12", "P14", "P15"})
"""Rules whose breach leaves the engine's blocks as they are: what is broken behind it is no consequence of it."""

KIT = "kit"
"""Stands for a rule where the judge itself fails: what the engine did there, nobody judged."""


@dataclass(frozen=True)
class Violation:
    """One broken rule."""

    rule: str
    """The rule's code in `spec/rules.py`: ``P6``; or `KIT`."""
    oracle: str
    """What noticed it, in a word or two: ``content of a cached block``."""
    text: str
    """What is wrong, with numbers, in one sentence."""
    key: tuple[str, ...] = field(default=())
    """What tells this fault from others that break the same rule: a kind of group, a tier, a place in the source."""
    about: tuple[Thing, ...] = field(default=(), compare=False)
    """Whose history explains it, the most telling first."""

    @property
    def signature(self) -> tuple[str, ...]:
        """Equal for violations that are taken for one fault, at whichever of several connectors' tiers."""
        return (self.rule, self.oracle, *unnumbered(self.key))


@dataclass(frozen=True)
class Verdict:
    """What is wrong with a case."""

    violation: Violation
    at: int
    """The operation after which it shows, counted from 0."""
    answer: Answer
    also: tuple[Violation, ...] = ()
    """Other rules that the same step breaks."""
    later: tuple[tuple[int, Violation], ...] = ()
    """What later operations break, and which. It may be nothing but a consequence."""

    @property
    def violations(self) -> list[Violation]:
        """All that is broken: this, in the same step, and later."""
        return [self.violation, *self.also, *(violation for _, violation in self.later)]

    def about(self, signature: tuple[str, ...]) -> "Verdict | None":
        """The same with another of its violations in front, if there is one of this signature."""
        if self.violation.signature == signature:
            return self
        together = (self.violation, *self.also)
        for violation in together:
            if violation.signature == signature:
                return replace(self, violation=violation, also=tuple(v for v in together if v is not violation))
        for number, (at, violation) in enumerate(self.later):
            if violation.signature == signature:
                earlier = (*together, *(v for _, v in self.later[:number]))
                behind = next((v for v in earlier if v.rule not in HARMLESS), None)
                return replace(self, violation=violation, at=at, also=(), later=(), behind=behind)
        return None

    behind: Violation | None = None
    """What the case breaks before it, where that is so and it may be a consequence of that."""
