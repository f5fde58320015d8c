"""Cases for the level ``offload``: vLLM's offload managers by themselves, below any scheduler."""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from packaging.version import Version

from ....judge.judging import Oracle
from ....judge.oracles.host_hits import HostHitsOracle
from ....judge.oracles.host_pool import HostPoolOracle
from ....judge.oracles.offload_manager import OffloadManagerOracle
from ....judge.record import Case, World
from ...plays import sized
from .geometry import Op

__all__ = ["more_oracles", "profiles"]

ALPHABET = 8
"""Keys that chunk managers are played with."""


def more_oracles(case: Case) -> Callable[[World], list[Oracle]]:
    """Return what makes the oracles of this level's own for a case."""
    if case.setup.get("kind") == "manager":
        return lambda world: [OffloadManagerOracle(world, case.setup)]
    return lambda world: [HostPoolOracle(), HostHitsOracle(world)]


def profiles(release: str) -> dict[str, st.SearchStrategy[Case]]:
    """Return the families of cases that a release of vLLM can do, by name."""
    known = Version(release)
    found = {"lru": _managers("lru", st.just(0)), "arc": _managers("arc", st.just(0))}
    if known >= Version("0.18"):
        found["threshold"] = _managers("", st.integers(2, 3))
    if known >= Version("0.22"):
        found["again"] = _managers("", st.just(0), again=True)
    if known >= Version("0.19"):
        found |= {
            "simple-eager": _simple(_PLAIN, lazy=st.just(False)),
            "simple-lazy": _simple(_PLAIN, lazy=st.just(True)),
            "simple-workers": _simple(_PLAIN, workers=st.integers(2, 3)),
            "simple-hybrid": _simple(_HYBRID),
        }
    return found


# Chunk managers


def _managers(policy: str, threshold: st.SearchStrategy[int], again: bool = False) -> st.SearchStrategy[Case]:
    setup = st.fixed_dictionaries(
        {
            "kind": st.just("manager"),
            "policy": st.just(policy) if policy else st.sampled_from(["lru", "arc"]),
            "chunks": st.integers(2, 6),
            "keys": st.just(2 * ALPHABET),
            "groups": st.integers(1, 2),
            "threshold": threshold,
            "tracker": st.integers(1, 6),
            "events": st.booleans(),
            "again": st.just(again),
        }
    )
    return st.builds(_manager_case, setup, _MANAGER_PLAYS)


_MANAGER_PLAYS = sized(3, 40, 200)


def _manager_case(setup: dict[str, Any], play: bytes) -> Case:
    """A case of one operation per three bytes: drawing them one by one would take longer than running them."""
    ops = [_PLAYS[play[i]](play[i + 1], play[i + 2]) for i in range(0, len(play) - 2, 3)]
    if setup["again"]:
        return Case("offload", setup, _again([op for op in ops if op[0] != "reset"]))
    # At rest, room for as many keys as there are chunks must be found, whatever was played before.
    fresh = {"request": 4, "keys": list(range(ALPHABET, ALPHABET + setup["chunks"]))}
    ops += [("drain", {}), *[("lookup", dict(fresh)), ("offer", dict(fresh))] * max(1, setup["threshold"])]
    return Case("offload", setup, ops)


def _again(ops: list[Op]) -> list[Op]:
    """What is played after a reset must go as it went the first time: a reset leaves no trace."""
    ends: list[Op] = [("drain", {}), *[("finish", {"request": r}) for r in range(4)], ("reset", {})]
    return [*ops, *ends, *((name, dict(args)) for name, args in ops)]


def _some(a: int, b: int) -> dict[str, Any]:
    """A request and one to four keys: a run of the alphabet, in one of four orders."""
    step = 1 + 2 * (b >> 6)
    first, count = a >> 5, 1 + (a >> 3) % 4
    return {"request": b % 4, "keys": [(first + n * step) % ALPHABET for n in range(count)]}


_OFTEN: list[tuple[int, Callable[[int, int], Op]]] = [
    (86, lambda a, b: ("offer", _some(a, b))),
    (46, lambda a, b: ("stored", {"which": b, "ok": int(a % 8 != 7)})),
    (40, lambda a, b: ("touch", _some(a, b))),
    (36, lambda a, b: ("load", _some(a, b))),
    (26, lambda _a, b: ("loaded", {"which": b})),
    (10, lambda a, b: ("lookup", _some(a, b))),
    (9, lambda _a, b: ("finish", {"request": b % 4})),
    (2, lambda _a, _b: ("drain", {})),
    (1, lambda _a, _b: ("reset", {})),
]
_PLAYS = [play for times, play in _OFTEN for _ in range(times)]


# The host block pool

_PLAIN = st.sampled_from([2, 3, 4]).map(lambda block: [{"kind": "full", "block": block}])


@st.composite
def _hybrid(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Full attention and a window or chunks; sometimes the block of one is twice the other's."""
    block, kind = draw(st.sampled_from([2, 4])), draw(st.sampled_from(["window", "window", "chunk"]))
    # Releases do not take chunks beside blocks of another size.
    factor, swapped = draw(st.sampled_from([1, 1, 2]) if kind == "window" else st.just(1)), draw(st.booleans())
    full, other = (block * factor, block) if swapped else (block, block * factor)
    window = other * draw(st.integers(1, 3)) + (draw(st.integers(0, 1)) if kind == "window" else 0)
    return [{"kind": "full", "block": full}, {"kind": kind, "block": other, "window": window}]


_HYBRID = _hybrid()


@st.composite
def _simple(
    draw: st.DrawFn, /, groups: st.SearchStrategy[list[dict[str, Any]]], **more: st.SearchStrategy[Any]
) -> Case:
    """A case whose device holds at least one request of the greatest length."""
    kinds, max_len = draw(groups), draw(st.integers(8, 20))
    least = 1 + sum(-(-max_len // group["block"]) + 1 for group in kinds)
    setup = {
        "kind": "simple",
        "groups": kinds,
        "blocks": least + draw(st.integers(0, 10)),
        "host": draw(st.sampled_from([6, 12, 40, 80, 4, 8])),
        "lazy": draw(more.get("lazy", st.booleans())),
        "workers": draw(more.get("workers", st.just(1))),
        "budget": draw(st.integers(3, 16)),
        "max_len": max_len,
        "events": draw(st.booleans()),
    }
    play = draw(st.binary(min_size=_WIDTH * 8, max_size=_WIDTH * 60))
    ops = [_STEPS[play[i]](*play[i + 1 : i + _WIDTH]) for i in range(0, len(play) - _WIDTH + 1, _WIDTH)]
    return Case("offload", setup, ops)


_WIDTH = 5
"""Bytes of an operation: which, and four that its arguments are made of."""


def _add(a: int, b: int, c: int, d: int) -> Op:
    return "add", {"family": a % 2, "shared": b % 16, "own": c % 4, "tail": c // 4 % 3, "most": 1 + d % 4}


def _step(a: int, b: int, c: int, _d: int) -> Op:
    """Mostly no request stops early, and prefills are not cut."""
    return "step", {"most": 16 - a % 16, "sample": b % 3, "stop": max(0, c % 8 - 5)}


_SIMPLE_OFTEN: list[tuple[int, Callable[[int, int, int, int], Op]]] = [
    (104, _step),
    (52, _add),
    (46, lambda a, b, _c, _d: ("work", {"which": a, "all": b % 2})),
    (14, lambda a, _b, _c, _d: ("probe", {"which": a})),
    (14, lambda a, _b, _c, _d: ("preempt", {"which": a})),
    (13, lambda a, _b, _c, _d: ("abort", {"which": a})),
    (6, lambda a, _b, _c, _d: ("repeat", {"which": a})),
    (5, lambda a, b, _c, _d: ("reset", {"connector": bool(a % 4), "running": b % 2})),
    (2, lambda _a, _b, _c, _d: ("drain", {})),
]
_STEPS = [play for times, play in _SIMPLE_OFTEN for _ in range(times)]
