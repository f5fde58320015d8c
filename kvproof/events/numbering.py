"""E1: sequence numbers rise by one; a gap is reported, or closed by what is replayed; nothing is applied twice."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from enum import Enum

__all__ = ["Numbering", "Order"]

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
    """The publisher begins anew."""


@dataclass
class Numbering:
    """The numbers of one publisher."""

    expected: int | None = None
    """The next number; None before the first message."""
    rank: int | None = None
    """The rank that its batches name."""
    whole: bool = False
    """Whether it was followed from number 0 on."""
    _seen: OrderedDict[int, int] = field(default_factory=OrderedDict)

    def take(self, number: int, check: int) -> tuple[Order, int]:
        """Follow a message. Return what its number says, and how many are missing before it."""
        if number == self.expected:
            order, missing = Order.NEXT, 0
        else:
            order, missing = self._odd(number, check)
            if order in (Order.AGAIN, Order.LATE):
                return order, missing
        self.expected = number + 1
        seen = self._seen
        seen[number] = check
        if len(seen) > _REMEMBERED:
            seen.popitem(last=False)
        return order, missing

    def _odd(self, number: int, check: int) -> tuple[Order, int]:
        if self.expected is None:
            self.whole = number == 0
            return (Order.NEXT if self.whole else Order.FIRST), number
        if number > self.expected:
            return Order.GAP, number - self.expected
        if self._seen.get(number) == check:
            return Order.AGAIN, 0
        if number == 0:
            self.whole = True
            self._seen.clear()
            return Order.RESTART, 0
        return Order.LATE, 0
