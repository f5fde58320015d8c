"""Room for the frames of a program, so that no call of it is slow by accident.

Python (3.11 and later) keeps the frames of a thread in chunks of 16 KiB, and gives a chunk back to the system as soon
as the last frame in it returns. A loop whose calls begin a new chunk asks for memory and gives it back each time: that
is 150 times as slow as a call, and whether it happens depends on how deep the loop stands.
"""

from collections.abc import Callable
from typing import TypeVar

__all__ = ["with_room"]

R = TypeVar("R")

_ENTRIES = 200_000
"""Of 8 bytes each: a chunk is the next power of two, and what is left of it holds thousands of frames."""


def with_room(do: Callable[[], R]) -> R:
    """Call something, with one chunk for it and all that it calls."""
    return do()


with_room.__code__ = with_room.__code__.replace(co_stacksize=_ENTRIES)
