"""In which order calls go on that overlap, made of numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["goes_on"]

_SAME = 59
"""The number of an order that lets the one who went on last go on again, of up to six who wait: it stands last."""

_FEW, _MANY = (0, 0, 0, 0, 1, 1, 2, 3), (5, 10, 20, 40)
"""For how many turns more somebody goes on."""

_SOME = (0, 0, 0, 1, 1, 2, 3, 4, 5, 7, 9, 12, 15, 20, 30, 40)
"""The same where they may be many calls each."""

_OTHER = (0, 0, 0, 1)
"""Who goes on then, of those who wait: hardly ever the one who went on last."""


def goes_on(dice: Iterator[int], begun: int, *, long: bool = False) -> dict[str, Any]:
    """The arguments of calls that go on together: who goes on, and who is cancelled of so many, if anybody is.

    ``long``: they may be a dozen calls each.
    """
    cancel = next(dice)
    cancelled = {} if cancel % 4 else {"cancel": [cancel // 4 % begun, next(dice) % 6]}
    return {"order": [*(_switching if long else _order)(dice)], **cancelled}


def _switching(dice: Iterator[int]) -> Iterator[int]:
    """Somebody goes on for some turns, another one for many, and so on: who loads makes a dozen calls, and what breaks
    one of them has to come just then."""
    kind = next(dice)
    if kind % 4 == 0:
        yield from _order(dice)
        return
    for _ in range(kind % 4):
        who, turns = next(dice), next(dice)
        yield from (who & 3, *[_SAME] * _SOME[turns & 15])


def _order(dice: Iterator[int]) -> Iterator[int]:
    """Mostly somebody goes on for a turn or a few, then somebody else for many, perhaps to the end. Or one after the
    other does, a turn each: so they do where nothing is said."""
    kind, a, b = next(dice), next(dice), next(dice)
    if kind % 8 == 1:
        return
    if kind % 4 == 0:
        yield from (number >> shift & 3 for number in (kind, a, b) for shift in (0, 2, 4, 6))
        return
    yield from (kind >> 2 & 3, *[_SAME] * _FEW[a & 7])
    yield from (_OTHER[a >> 3 & 3], *[_SAME] * _MANY[a >> 5 & 3])
    yield from (kind >> 4 & 3, *[_SAME] * (b & 15))
