"""What methods of the user's answer, as what it is to be; or a sentence that says which method answered what."""

from __future__ import annotations

import reprlib
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from operator import index
from typing import Any

__all__ = ["Keys", "Pairs", "copies", "items", "listed", "number", "numbers", "parts", "was_reset", "whole"]

Pairs = list[tuple[int, int]]
"""Copies: the block that each reads, and the block that it writes."""


def numbers(told: Any, method: str) -> list[int]:
    """Numbers of blocks or slots as plain numbers, whatever kind of integers they are.

    Raises:
        TypeError: they are none.
    """
    try:
        return [index(number) for number in told]
    except TypeError as error:
        raise TypeError(f"{method}() answered {reprlib.repr(told)}, which is no list of numbers: {error}") from error


def number(told: Any, method: str) -> int:
    """One number that a method of the adapter told.

    Raises:
        TypeError: it is none.
    """
    try:
        return index(told)
    except TypeError as error:
        raise TypeError(f"{method}() answered {reprlib.repr(told)}, which is no number: {error}") from error


def listed(told: Any, method: str, of_what: str) -> Iterator[Any]:
    """Things that a method of the adapter told one after the other, as they come.

    Raises:
        TypeError: they are no list of anything.
    """
    each = _iterator(told)
    if each is None:
        raise TypeError(f"{method}() answered {reprlib.repr(told)}, which is no list of {of_what}")
    return each


def whole(told: Any) -> Any:
    """An answer as it is when it was asked for: what comes one by one is made now, and not while it is read.

    What makes it is the user's, as a generator's body is: it runs while the call is looked at, and what it raises is
    its own.
    """
    return [*told] if isinstance(told, Iterator) else told


def was_reset(told: Any) -> bool:
    """What a reset answered.

    Raises:
        TypeError: nothing, which would pass for a refusal.
    """
    if told is None:
        raise TypeError("reset() answered None; it is true where the map is empty, and false where it is refused")
    return bool(told)


def parts(told: Any, method: str, names: Sequence[str]) -> list[Any]:
    """What a method of the adapter answers that is several things at once.

    Raises:
        TypeError: it is something else.
    """
    found = [*(_iterator(told) or ())]
    if len(found) != len(names):
        raise TypeError(f"{method}() told {reprlib.repr(told)}, which is not ({', '.join(names)})")
    return found


def copies(told: Any, method: str) -> Pairs:
    """Copies that a method of the adapter told.

    Raises:
        TypeError: they are none.
    """
    each = (parts(pair, method, ("a block", "another one")) for pair in listed(told, method, "copies"))
    return [(number(a, method), number(b, method)) for a, b in each]


def _iterator(told: Any) -> Iterator[Any] | None:
    """What goes through it; None for what is no list of anything, and for what would give keys or letters."""
    try:
        return None if isinstance(told, str | Mapping) else iter(told)
    except TypeError:
        return None


def items(told: Any, method: str) -> Iterable[tuple[Any, Any]]:
    """What is in a dictionary that a method of the adapter told.

    Raises:
        TypeError: it is none.
    """
    if not hasattr(told, "items"):
        raise TypeError(f"{method}() answered {reprlib.repr(told)}, which is no dictionary")
    return list(told.items())


class Keys:
    """Numbers keys as they are met."""

    def __init__(self) -> None:
        """Meet none yet."""
        self._numbers: dict[Hashable, int] = {}

    def number(self, key: Any, method: str) -> int:
        """The number of a key that a method of the adapter told.

        Raises:
            TypeError: it is none, since no dictionary can have it.
        """
        try:
            return self._numbers.setdefault(key, len(self._numbers))
        except TypeError as error:
            raise TypeError(f"{method}() told the key {reprlib.repr(key)}, which is none: {error}") from error
