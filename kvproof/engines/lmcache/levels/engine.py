"""Cases for the level ``engine`` of LMCache: requests that share prefixes, in passes of a server, on a few chunks."""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from ....judge.oracles.chunk_engine import ChunkEngineOracle
from ....judge.record import Case, World
from ...cases import Op
from ...plays import drawn, weighted
from ...traits import Traits, argument, operation, option
from .backend import POLICIES, UNITS, backend

__all__ = ["more_oracles", "profiles", "traits"]


def more_oracles(_case: Case) -> Callable[[World], list[Any]]:
    """Return what makes the oracles of this level's own: what is found, left out, evicted and cleared."""
    return lambda world: [ChunkEngineOracle(world)]


def profiles(_release: str) -> dict[str, st.SearchStrategy[Case]]:
    """Return the families of cases, by name."""
    return {
        "chunks": _cases(),
        "short chunks": _cases(partial=st.just(True)),
        "layers": _cases(layers=st.integers(1, 3), partial=st.booleans()),
        "prefetch": _cases(prefetch=st.just(True), partial=st.booleans()),
    }


def traits(_release: str) -> Traits:
    """What cases may have that a fault needs."""
    return Traits(
        (
            option("layers", "layers"),
            option("prefetch", "prefetch"),
            option("short chunks", "partial"),
            *POLICIES,
            operation("freeze", "freeze"),
            argument("clear of tokens", "clear", "runs"),
            operation("clear", "clear"),
            operation("abort", "abort"),
            argument("several requests in a pass", "begin", "count"),
            argument("out of turn", "begin", "first"),
            argument("computed here", "arrive", "skip"),
        ),
        numbers={"units": UNITS},
    )


def _cases(**more: st.SearchStrategy[Any]) -> st.SearchStrategy[Case]:
    usual: dict[str, st.SearchStrategy[Any]] = {
        **backend(),
    }
    return drawn("engine", st.fixed_dictionaries(usual | more), _PLAYS, most=40)


def _prompt(a: int, b: int, c: int) -> dict[str, Any]:
    """A part of an earlier prompt, and one or two runs of equal tokens."""
    runs = [(a % 3, 1 + a // 3 % 9)] + ([(b % 3, b // 3 % 5)] if b % 2 else [])
    return {"runs": runs} | ({"like": c % 8, "keep": 4 * (1 + c // 8 % 3) + c // 32 % 2} if c % 3 else {})


def _arrive(a: int, b: int, c: int, d: int) -> Op:
    return "arrive", _prompt(a, b, c) | ({"skip": 1 + d // 4 % 8} if d % 4 == 0 else {}) | (
        {"later": 1} if d % 7 == 0 else {}
    )


def _begin(a: int, b: int, _c: int, _d: int) -> Op:
    return "begin", ({"count": a % 3} if a % 3 else {}) | ({"first": b % 4} if b % 16 < 4 and b % 4 else {})


def _clear(a: int, b: int, c: int, d: int) -> Op:
    return "clear", _prompt(a, b, c) if d % 2 else {}


_PLAYS = weighted(
    (24, _arrive),
    (14, _begin),
    (10, lambda _a, _b, _c, _d: ("layer", {})),
    (14, lambda _a, _b, _c, _d: ("finish", {})),
    (3, lambda a, _b, _c, _d: ("abort", {"which": a % 4})),
    (3, _clear),
    (2, lambda _a, _b, _c, _d: ("pump", {})),
    (1, lambda a, _b, _c, _d: ("freeze", {"on": a % 2})),
    (1, lambda _a, _b, _c, _d: ("drain", {})),
)
