"""Cases for the level ``l1`` of LMCache: stores, prefetches and readers of a few keys, some of which crash."""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from ....judge.oracles.chunk_l1 import ChunkL1Oracle
from ....judge.record import Case, World
from ...plays import drawn, weighted
from ...traits import Traits, argument, operation, option
from ..releases import stages

__all__ = ["more_oracles", "profiles", "traits"]


def more_oracles(_case: Case) -> Callable[[World], list[Any]]:
    """Return what makes the oracles of this level's own: what is found, evicted, cleared and lost."""
    return lambda world: [ChunkL1Oracle(world)]


def profiles(release: str) -> dict[str, st.SearchStrategy[Case]]:
    """Return the families of cases, by name; none of a release whose manager is not driven."""
    if not stages(release):
        return {}
    return {"LRU": _cases("LRU"), "ARC": _cases("ARC")}


def traits(_release: str) -> Traits:
    """What cases may have that a fault needs."""
    return Traits(
        (
            option("ARC", "policy", "LRU"),
            argument("kept prefetch", "prefetch", "keep"),
            operation("prefetch", "prefetch"),
            argument("failed write", "finish", "failed"),
            argument("several readers", "lookup", "more"),
            operation("readers", "lookup"),
            operation("crash", "tick"),
            operation("clear", "clear"),
            operation("delete", "delete"),
            operation("touch", "touch"),
            operation("eviction", "evict"),
        ),
        numbers={"units": (8, 12, 16, 24), "ratio": (0.2, 0.5, 1.0)},
    )


def _cases(policy: str) -> st.SearchStrategy[Case]:
    setups = st.fixed_dictionaries(
        {
            "policy": st.just(policy),
            "units": st.sampled_from([8, 12, 16, 24]),
            "ratio": st.sampled_from([0.2, 0.5, 1.0]),
        }
    )
    return drawn("l1", setups, _PLAYS, most=40)


def _some(a: int, b: int) -> dict[str, Any]:
    """One to three keys in a row."""
    return {"keys": [(a + n) % 6 for n in range(1 + b % 3)]}


_PLAYS = weighted(
    (16, lambda a, b, _c, _d: ("store", _some(a, b))),
    (12, lambda a, b, c, _d: ("prefetch", _some(a, b) | ({"keep": 1} if c % 3 == 0 else {}))),
    (20, lambda a, b, _c, _d: ("finish", {"which": a % 4} | ({"failed": 1} if b % 8 == 0 else {}))),
    (12, lambda a, b, c, _d: ("lookup", _some(a, b) | ({"more": 1} if c % 4 == 0 else {}))),
    (12, lambda a, _b, _c, _d: ("read", {"which": a % 4})),
    (4, lambda a, b, _c, _d: ("touch", _some(a, b))),
    (3, lambda a, b, _c, _d: ("delete", _some(a, b))),
    (2, lambda _a, _b, _c, _d: ("clear", {})),
    (6, lambda _a, _b, _c, _d: ("evict", {})),
    (6, lambda a, _b, _c, _d: ("tick", {"hundreds": a % 7})),
    (1, lambda _a, _b, _c, _d: ("drain", {})),
)
