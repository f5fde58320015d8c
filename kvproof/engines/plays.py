"""Cases drawn as bytes: a few for each operation, the first of which says which one it is.

Hypothesis draws a text of bytes faster than anything with a structure, and makes it small as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hypothesis import strategies as st

from ..judge.record import Case
from .cases import Op, Setup

__all__ = ["LEAST", "Play", "drawn", "sized", "weighted"]

Play = Callable[[int, int, int, int], Op]
"""Makes an operation of four bytes."""

_WIDTH = 5
"""Bytes of an operation: which, and four that its arguments are made of."""

LEAST = 8
"""Operations that a case is drawn with at least."""


def weighted(*plays: tuple[int, Play]) -> list[Play]:
    """Each operation as often as its number says."""
    return [play for times, play in plays for _ in range(times)]


def sized(width: int, least: int, most: int) -> st.SearchStrategy[bytes]:
    """Texts for so many operations, each number as often as another; ``width`` bytes make an operation.

    The number is drawn first: a text of any size is drawn with a choice for every byte. The strategies for each number
    are made once, since that takes longer than to draw from them.
    """
    of_size = {n: st.binary(min_size=width * n, max_size=width * n) for n in range(least, most + 1)}
    return st.integers(least, most).flatmap(of_size.__getitem__)


def drawn(
    level: str,
    setups: st.SearchStrategy[Setup],
    plays: Sequence[Play],
    *,
    least: int = LEAST,
    most: int,
    first: Callable[[int, int, int, int], list[Op]] | None = None,
) -> st.SearchStrategy[Case]:
    """Cases of these setups, with so many operations. They begin with what ``first`` says, or with one that the first
    of `plays` makes."""
    begin = first or (lambda a, b, c, d: [plays[0](a, b, c, d)])

    def case(setup: Setup, play: bytes) -> Case:
        ends = range(_WIDTH, len(play) + 1, _WIDTH)
        # Without what it begins with, a request say, there is nothing to do.
        ops = begin(*play[1:_WIDTH])
        ops += [plays[play[end - _WIDTH] % len(plays)](*play[end - _WIDTH + 1 : end]) for end in ends[1:]]
        return Case(level, setup, ops)

    return st.builds(case, setups, st.binary(min_size=_WIDTH * least, max_size=_WIDTH * most))
