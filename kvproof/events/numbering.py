"""E1: sequence numbers rise by one; a gap is reported, or closed by what is replayed; nothing is applied twice."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from enum import Enum

__all__ = ["Numbering", "Order", "WorkerNumbering"]

_REMEMBERED = 4096
"""Messages whose content is remembered, to tell one that is sent again from one that is late."""


class Order(Enum):
    """What a number says of its message."""

    NEXT = "next"
    FIRST = "first"
    """The first of a publisher that was heard, and not its first: the listener came later."""
    GAP = "gap"
    AGAIN = "again"
    """It was applied before."""
    LATE = "late"
    """Later ones were applied before it."""
    RESTART = "restart"
    """The publisher begins anew; what it sent first may be missing."""
    KNOWN = "known"
    """It was applied before the listener went away, and came again when it asked for what it had missed."""
    ANEW = "anew"
    """The listener comes back, and what was there before it went does not go on."""


_NEXT = Order.NEXT
"""A look into an enumeration takes four times as long as one into a module, and this is asked for by each batch."""


@dataclass
class Numbering:
    """The numbers of one publisher."""

    expected: int | None = None
    """The next number; None before the first message."""
    rank: int | None = None
    """The rank that its batches name."""
    first: int = 0
    """The highest number that a publisher may begin with: Dynamo's workers have 1, the earlier ones 0."""
    whole: bool = False
    """Whether it was followed from its first number on."""
    away: bool = False
    """Whether the listener was away: what is missing is then no fault of the stream."""
    made: float | None = None
    """When the last batch was made, by the publisher's own clock."""
    _seen: OrderedDict[int, int] = field(default_factory=OrderedDict)

    def take(self, number: int, check: int, made: float | None = None) -> tuple[Order, int]:
        """Follow a message, made at that time. Return what its number says, and how many are missing before it."""
        if number == self.expected:
            order, missing = _NEXT, 0
        else:
            order, missing = self._back(number, check) if self.away else self._odd(number, check, made)
            if order in (Order.AGAIN, Order.LATE, Order.KNOWN):
                return order, missing
        self.expected, self.made, self.away = number + 1, made, False
        seen = self._seen
        seen[number] = check
        if len(seen) > _REMEMBERED:
            seen.popitem(last=False)
        return order, missing

    def _back(self, number: int, check: int) -> tuple[Order, int]:
        """The first numbers after the listener was away."""
        if self.expected is None or number > self.expected:
            return Order.FIRST, 0
        if self._seen.get(number) == check:
            return Order.KNOWN, 0
        self._begin(number <= self.first)
        return Order.ANEW, 0

    def _begin(self, whole: bool) -> None:
        self.whole = whole
        self._seen.clear()

    def _odd(self, number: int, check: int, made: float | None) -> tuple[Order, int]:
        if self.expected is None:
            self.whole = number <= self.first
            return (Order.NEXT if self.whole else Order.FIRST), number
        if number > self.expected:
            return Order.GAP, number - self.expected
        if self._seen.get(number) == check:
            return Order.AGAIN, 0
        # What is made later and has an earlier number is another publisher's. Most often nobody hears its first
        # batches: a listener takes a moment to find it again.
        begins = number <= self.first
        if begins or (made is not None and self.made is not None and made > self.made):
            self._begin(begins)
            return Order.RESTART, 0 if begins else number
        return Order.LATE, 0


class WorkerNumbering:
    """The numbers of a worker of Dynamo's: one row for all its ranks, or one for each.

    A worker with one publisher has the one, a worker with a publisher for each rank has the other, and nothing in the
    record says which. It shows with the first number that goes on with the one row and not with the other; until then a
    number that goes on with either will do, and what is heard first of a rank is no gap.
    """

    def __init__(self) -> None:
        self._all = Numbering(first=1)
        self._own: dict[int, Numbering] = {}
        self.by_rank: bool | None = None
        """Whether each rank has numbers of its own; None as long as that is not known."""

    def was_away(self) -> None:
        """The listener was away, as `Numbering.away`."""
        for row in (self._all, *self._own.values()):
            row.away = True

    def take(self, rank: int, number: int, check: int) -> tuple[Order, int]:
        """Follow an event of a rank, as `Numbering.take`."""
        goes_on, own = number == self._all.expected, self._own.get(rank)
        if own is None:
            own = self._own[rank] = Numbering(first=1)
        elif self.by_rank is None and goes_on != (number == own.expected):
            self.by_rank = not goes_on
        by_own = self.by_rank or (self.by_rank is None and own.expected is None and not goes_on)
        of_all, of_own = self._all.take(number, check), own.take(number, check)
        return of_own if by_own else of_all
