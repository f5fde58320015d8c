"""The last calls that were seen, packed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from marshal import dumps, loads
from typing import Any, Final

__all__ = ["Ring"]

MOST_WEIGHT: Final = 400_000
"""How much a ring holds, in numbers: some ten megabytes, and a trace that the kit reads."""
PACKED_AT_ONCE: Final = 64
"""How many calls are packed together."""


class Ring:
    """Calls by their fields, in order; the last ones as they are.

    The others are packed some at a time: thousands of small tuples that live on would keep Python's garbage collector
    busy in the engine.
    """

    def __init__(self, weigh: Callable[[tuple[Any, ...]], int]) -> None:
        """Begin with nothing; ``weigh``: about how many numbers a call takes up."""
        self._weigh = weigh
        self._packed: list[bytes] = []
        self._fresh: list[tuple[Any, ...]] = []
        self._weight = 0

    def add(self, fields: tuple[Any, ...]) -> bool:
        """Keep a call; return whether it holds what it may, and is to begin anew."""
        self._fresh.append(fields)
        self._weight += self._weigh(fields)
        if len(self._fresh) >= PACKED_AT_ONCE:
            self._packed.append(dumps(self._fresh))
            self._fresh = []
        return self._weight > MOST_WEIGHT

    def calls(self) -> Iterator[tuple[Any, ...]]:
        """All calls, the oldest first."""
        for packed in (*self._packed, dumps(self._fresh)):
            yield from loads(packed)
