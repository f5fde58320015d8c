"""Cases for the level ``offload`` of LMCache: stores, lookups and loads on a memory of a few chunks."""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from ....judge.oracles.chunk_backend import ChunkBackendOracle
from ....judge.record import Case, World
from ...cases import Op
from ...plays import drawn, weighted
from ...traits import Traits, argument, operation, option
from .backend import POLICIES, UNITS, backend

__all__ = ["more_oracles", "profiles", "traits"]

_KEYS = 6


def more_oracles(_case: Case) -> Callable[[World], list[Any]]:
    """Return what makes the oracles of this level's own: what is found, refused and evicted."""
    return lambda world: [ChunkBackendOracle(world)]


def profiles(_release: str) -> dict[str, st.SearchStrategy[Case]]:
    """Return the families of cases, by name."""
    return {
        "chunks": _cases(),
        "layers": _cases(layers=st.integers(1, 3)),
        "pages": _cases(paged=st.just(True)),
        "tensors": _cases(tensors=st.just(2), paged=st.booleans()),
        "paged layers": _cases(layers=st.integers(1, 3), paged=st.just(True)),
    }


def traits(_release: str) -> Traits:
    """What cases may have that a fault needs."""
    return Traits(
        (
            option("layers", "layers"),
            option("pages", "paged"),
            option("several tensors", "tensors", has=lambda count: count > 1),
            *POLICIES,
            option("short chunks", "sizes", [4] * _KEYS, has=lambda sizes: min(sizes) < 4),
            argument("removal between lookup and touch", "lookup", "remove"),
            operation("removal", "remove"),
            operation("clear", "clear"),
            argument("interleaved stores", "store", "later"),
        ),
        numbers={"units": UNITS},
    )


def _cases(**more: st.SearchStrategy[Any]) -> st.SearchStrategy[Case]:
    usual: dict[str, st.SearchStrategy[Any]] = {
        **backend(),
        "sizes": st.one_of(
            st.just([4] * _KEYS), st.lists(st.sampled_from([4, 4, 3, 2, 1]), min_size=_KEYS, max_size=_KEYS)
        ),
    }
    return drawn("offload", st.fixed_dictionaries(usual | more), _PLAYS, most=40)


def _some(a: int, b: int) -> dict[str, Any]:
    """One to three keys in a row."""
    return {"keys": [(a + n) % _KEYS for n in range(1 + b % 3)]}


def _store(a: int, b: int, c: int, _d: int) -> Op:
    return "store", _some(a, b) | ({"later": 1} if c % 4 == 0 else {})


def _lookup(a: int, b: int, c: int, _d: int) -> Op:
    return "lookup", _some(a, b) | ({"remove": 1} if c % 32 == 0 else {})


_PLAYS = weighted(
    (24, _store),
    (12, lambda a, _b, _c, _d: ("put", {"which": a % 4})),
    (16, _lookup),
    (8, lambda a, _b, _c, _d: ("load", {"which": a % 4})),
    (8, lambda a, _b, _c, _d: ("loaded", {"which": a % 4})),
    (10, lambda a, _b, _c, _d: ("unpin", {"which": a % 4})),
    (3, lambda a, b, _c, _d: ("remove", _some(a, b))),
    (2, lambda _a, _b, _c, _d: ("clear", {})),
    (1, lambda _a, _b, _c, _d: ("drain", {})),
)
