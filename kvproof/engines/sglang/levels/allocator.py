"""Cases for the level ``allocator``: allocators of slots alone, called as requests that never share would be."""

from typing import Any

from hypothesis import strategies as st

from ....judge.record import Case
from ...cases import Op
from ...traits import Traits, argument, option
from ..releases import page_sizes

__all__ = ["profiles", "traits"]

_WIDTH = 5
"""Bytes of an operation: which, and four that its arguments are made of."""


def profiles(release: str) -> dict[str, st.SearchStrategy[Case]]:
    """Return the families of cases, by name."""
    sizes = sorted(page_sizes(release))
    return {"tokens": _cases(st.just(1)), "pages": _cases(st.sampled_from(sizes[1:]))}


def traits(_release: str) -> Traits:
    """What cases may have that a fault needs."""
    return Traits(
        (
            option("pages that are sorted", "sort", False),
            argument("a group of frees", "free", "group"),
            option("pages of several tokens", "page", 1),
        ),
        numbers={"page": (1, 2, 3, 4), "pages": tuple(range(1, 13))},
    )


def _cases(pages: st.SearchStrategy[int]) -> st.SearchStrategy[Case]:
    setup = st.fixed_dictionaries({"page": pages, "pages": st.integers(2, 12), "sort": st.booleans()})
    return st.builds(_case, setup, st.binary(min_size=_WIDTH * 6, max_size=_WIDTH * 60))


def _case(setup: dict[str, Any], play: bytes) -> Case:
    ends = range(_WIDTH, len(play) + 1, _WIDTH)
    return Case("allocator", setup, [_op(*play[end - _WIDTH : end]) for end in ends])


def _op(kind: int, a: int, b: int, c: int, d: int) -> Op:
    picked = [b, b // 3, c, c // 5][: a % 5]
    if kind < 24:
        return "take", {"pages": 1 + a % 3}
    if kind < 110:
        return "extend", {"pick": picked[:3], "tokens": [d % 7, d // 7 % 7, c % 7, b % 7][: 1 + a // 5 % 4]}
    if kind < 190:
        return "decode", {"pick": picked or [b]}
    if kind < 252:
        how = ("segment", "slots", "segments")[d % 3]
        return "free", {"pick": picked or [b], "how": how, "group": d // 3 % 2, "split": 1 + d // 6 % 3}
    return ("reset", {}) if kind == 255 else ("drain", {})
