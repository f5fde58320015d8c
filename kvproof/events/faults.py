"""What is wrong with a stream: the rule, the event, and what a router now believes that is not so."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

__all__ = ["ROUTER", "Fault", "Faults"]

_SHOWN_OF_A_KIND = 3
_KINDS = 500
"""Kinds of faults that are told apart. There are some for each rank and group; a stream of garbage has more."""

ROUTER = {
    "gap": "missing entries for what the lost batches stored, stale entries for what they removed",
    "applied twice": "stale entries for what has been removed since, missing entries for what has been stored since",
    "late": "stale and missing entries: it applies what later batches have overtaken",
    "other rank": "stale entries of the rank that is named, missing entries of the rank that it came from",
    "removed without stored": "a missing entry until now: it never knew of the block, or forgot it too early",
    "removed before the last copy": "a missing entry since the first removal: a copy was still cached",
    "stored twice": "one entry where there are two copies; the first removal takes it away",
    "parent never stored": "an orphan parent: it cannot reach the block, so that it is a missing entry",
    "parent removed": "an orphan parent: it lost the way to the block, so that it is a missing entry",
    "tokens": "entries whose tokens it cannot tell: missing for the prompt that they hold, or stale for another",
    "two contents": "a stale entry: it takes the block for the prompt that the hash first named",
    "clears another rank": "missing entries: what that rank still has cached",
    "malformed": "missing entries for what it would have stored, stale entries for what it would have removed",
    "damaged": "missing entries for what it would have stored, stale entries for what it would have removed",
    "truncated": "missing and stale entries for whatever came behind it",
}
"""By kind of fault: what a router believes after it that is not so."""


@dataclass(frozen=True)
class Fault:
    """One place where a stream breaks a rule."""

    rule: str
    """``E1`` to ``E5``, or ``P12``."""
    kind: str
    """Which of `ROUTER`."""
    text: str
    """What is wrong, in one sentence."""
    event: int
    """Which event of the stream, counted from 0 over all that was read; where none was read, how many came before."""
    number: int | None
    """The sequence number of its batch."""
    rank: int | None
    source: str
    router: str
    """What a router now believes that is not so."""

    @property
    def where(self) -> str:
        """Where it is: ``event 12, sequence number 3, rank 0 of tcp://127.0.0.1:5557``."""
        number = "" if self.number is None else f", sequence number {self.number}"
        rank = "" if self.rank is None else f", rank {self.rank}"
        return f"event {self.event:,}{number}{rank}{f' of {self.source}' if self.source else ''}"

    def __str__(self) -> str:
        return f"{self.rule} at {self.where}: {self.text}; a router now has {self.router}"


@dataclass
class Faults:
    """All that is wrong with a stream: counted by kind, and the first of each kind. Its size is bounded."""

    first: list[Fault] = field(default_factory=list)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By rule and kind."""
    _told: Counter[tuple[str, str, int | None]] = field(default_factory=Counter)

    def add(self, fault: Fault) -> bool:
        """Count a fault. Return whether it is one of the first of its kind, and kept."""
        self.counts[fault.rule, fault.kind] += 1
        key = (fault.rule, fault.kind, fault.rank)
        if key not in self._told and len(self._told) >= _KINDS:
            return False
        self._told[key] += 1
        if self._told[key] > _SHOWN_OF_A_KIND:
            return False
        self.first.append(fault)
        return True

    @property
    def total(self) -> int:
        """How many there are."""
        return self.counts.total()

    def __bool__(self) -> bool:
        return bool(self.counts)
