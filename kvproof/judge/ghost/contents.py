"""Contents: a number for each prefix. Equal numbers, equal KV."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

__all__ = ["Contents"]

_NONE = -1
"""Stands for the prefix before an empty one."""


class Contents:
    """Numbers for prefixes.

    A prefix is a sequence of tokens together with everything else that its KV depends on, so that one wrong token,
    tenant or picture anywhere before makes another number.
    """

    def __init__(self) -> None:
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._parents: list[int] = []
        self._tokens: list[int] = []

    def root(self, adapter: str | None, salt: str | None) -> int:
        """The empty prefix of a tenant."""
        return self._number((None, "adapter", adapter, "salt", salt), _NONE, _NONE)

    def after(self, prefix: int, token: int, item: tuple[str, int] | None = None) -> int:
        """The prefix that is one token longer; ``item`` is the multimodal item that covers the token, and where in
        it."""
        return self._number((prefix, token, item), prefix, token)

    def positions(self, prefix: int, count: int) -> list[int]:
        """The contents of the last ``count`` positions of a prefix, oldest first."""
        found = []
        for _ in range(count):
            found.append(prefix)
            prefix = self._parents[prefix]
        return found[::-1]

    def longest(self, slots: Sequence[int | None]) -> int:
        """How many of these contents, from the first on, are prefixes of one another, or not known.

        Of a copy of a block in which another sequence goes on, what that one had behind is left over: nobody who reads
        what was written since can read it.
        """
        for place, (before, here) in enumerate(pairwise(slots), 1):
            if before is not None and here is not None and min(before, here) >= 0 and self._parents[here] != before:
                return place
        return len(slots)

    def tokens(self, prefix: int, count: int) -> list[int]:
        """The last ``count`` tokens of a prefix, which has so many."""
        return [self._tokens[position] for position in self.positions(prefix, count)]

    def _number(self, key: tuple[Any, ...], parent: int, token: int) -> int:
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._parents)
            self._parents.append(parent)
            self._tokens.append(token)
        return number
