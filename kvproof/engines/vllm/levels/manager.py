"""Cases for the level ``manager``: a KV-cache manager by itself, called as its scheduler calls it.

What is varied is geometry more than length: small blocks, several kinds of groups, pools no larger than the release
itself asks for, steps that are scheduled before the last is processed. Prompts are runs of equal tokens and beginnings
of earlier requests, so that prefixes are shared.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from hypothesis import strategies as st
from packaging.version import Version

from ....judge.oracles.freed import FreedOracle
from ....judge.oracles.removals import RemovalsOracle
from ....judge.record import Case, World
from ...plays import Play, drawn, weighted
from .geometry import BLOCKS, MIXED, Op, Setup, chunk, plain, takes_events, window, windowed

__all__ = ["more_oracles", "profiles", "sound"]

_ALL = 99
"""More tokens than any request has."""


def more_oracles(_case: Case) -> Callable[[World], list[RemovalsOracle | FreedOracle]]:
    """Return what makes the oracles of this level's own: an evict and a reset take hashes away, and nothing else; what
    is freed is taken from its end."""
    return lambda world: [RemovalsOracle(world), FreedOracle(world)]


def profiles(release: str) -> dict[str, st.SearchStrategy[Case]]:
    """Return the families of cases that a release of vLLM can do, by name."""
    known = Version(release)
    setup = partial(_setup, known)
    ahead: dict[str, st.SearchStrategy[Any]] = {}
    if known >= Version("0.33"):
        ahead = {"ahead": st.sampled_from([0, 0, 1, 2])}
    embeds = weighted((18, _add_embeds if known >= MIXED else _add_whole), (40, _run), *_REST)
    found = {
        "plain": _cases(setup(plain())),
        "window": _cases(setup(window())),
        "hybrid": _cases(setup(_hybrid())),
        "chunk": _cases(setup(chunk(BLOCKS))),
        "keys": _cases(setup(st.one_of(plain(), _hybrid()), flight=st.just(1)), _KEYED),
        "external": _cases(setup(st.one_of(plain(), window())), _OUTSIDE),
        "hybrid external": _cases(setup(_hybrid(), flight=st.just(1), events=st.just(False)), _OUTSIDE),
        "flight": _cases(setup(st.one_of(window(), _hybrid(), chunk(BLOCKS)), flight=st.integers(2, 3))),
        "spec": _cases(setup(st.one_of(plain(), window(), _hybrid()), **_DRAFTS)),
        "embeddings": _cases(setup(st.one_of(plain(), _hybrid()), embeds=st.just(True), **ahead), embeds),
        "events": _cases(setup(st.one_of(plain(), _hybrid()), events=st.just(True)), _KEYED),
        "uncached": _cases(setup(st.one_of(plain(), window(), _hybrid()), caching=st.just(False))),
        "mamba": _cases(setup(_mamba(), flight=st.just(1), budget=st.sampled_from([8, 12]))),
    }
    if known >= Version("0.24"):
        found["mamba external"] = _cases(setup(_mamba(), flight=st.just(1), budget=st.just(8)), _OUTSIDE)
    if known >= Version("0.28"):
        found["mamba tails"] = _cases(_tails(setup(_mamba(), flight=st.just(1), budget=st.sampled_from([8, 12]))))
    if known >= Version("0.33"):
        found["ahead"] = _cases(setup(st.one_of(plain(), _hybrid()), **{**_DRAFTS, "ahead": st.integers(1, 2)}))
    # The same prompts, hardly more blocks than one takes, and many operations: what was freed is found again, and is
    # the next to be taken once all others are.
    crowded = setup(_hybrid(), flight=st.just(1), spare=st.integers(0, 2), max_len=st.sampled_from([16, 24, 40]))
    found["again external"] = drawn("manager", crowded, _AGAIN_OUTSIDE, least=30, most=80)
    # The same prompts again and again, with room for them: they must be found.
    found["again"] = _cases(setup(st.one_of(plain(), window(), _hybrid()), spare=st.integers(12, 24)), _AGAIN)
    return found


# Setups


def _setup(
    known: Version, groups: st.SearchStrategy[list[Setup]], **more: st.SearchStrategy[Any]
) -> st.SearchStrategy[Setup]:
    usual: dict[str, st.SearchStrategy[Any]] = {
        "groups": groups,
        "spare": st.integers(0, 6),
        "max_len": st.sampled_from([12, 16, 24, 40]),
        "budget": st.sampled_from([4, 8, 12]),
        "flight": st.integers(1, 2),
        "asynchronous": st.booleans(),
        "events": st.booleans(),
        "fit": st.booleans(),
    }
    return st.fixed_dictionaries(usual | more).map(partial(sound, known))


_DRAFTS: dict[str, st.SearchStrategy[Any]] = {
    "drafts": st.integers(1, 3),
    "lookahead": st.booleans(),
    "eagle": st.booleans(),
}


def sound(known: Version, setup: Setup) -> Setup:
    """The setup without what its release does not take together, and with what goes with it.

    Asynchronous scheduling is for steps that overlap; a drafter with layers of its own has slots to look ahead.

    Without full attention, events name as parents what fell out of the window before anybody reported it.
    """
    groups = setup["groups"]
    tells = takes_events(known, groups) and any(group["kind"] == "full" for group in groups)
    return {
        **setup,
        "events": bool(setup.get("events")) and tells,
        "asynchronous": bool(setup.get("asynchronous")) and setup.get("flight", 1) > 1,
        "lookahead": bool(setup.get("lookahead") or setup.get("eagle")),
    }


def _hybrid() -> st.SearchStrategy[list[Setup]]:
    """Full attention and one or two windows, with blocks of one size or of two."""
    return st.builds(_hybrid_groups, BLOCKS, st.integers(0, 3), st.integers(1, 12), st.integers(0, 12))


def _hybrid_groups(block: int, larger: int, window: int, second: int) -> list[Setup]:
    sizes = (block * (1 + (larger == 1)), block * (1 + (larger == 2)))
    groups = [{"kind": "full", "block": sizes[0]}, windowed(sizes[1], window)]
    return groups + [windowed(sizes[1], second)] * (second > 6)


def _mamba() -> st.SearchStrategy[list[Setup]]:
    """Full attention and one or two mamba groups."""
    return st.builds(_mamba_groups, st.sampled_from([2, 4, 8]), st.booleans())


def _mamba_groups(block: int, two: bool) -> list[Setup]:
    return [{"kind": "full", "block": block}] + [{"kind": "mamba", "block": block}] * (1 + two)


def _tails(setups: st.SearchStrategy[Setup]) -> st.SearchStrategy[Setup]:
    """Hashes finer than the blocks: a hit may end within a block."""
    return setups.map(lambda setup: {**setup, "match_unit": setup["groups"][0]["block"] // 2})


# Operations


def _cases(setups: st.SearchStrategy[Setup], plays: "list[Play] | None" = None) -> st.SearchStrategy[Case]:
    return drawn("manager", setups, plays or _USUAL, most=40)


def _add(a: int, b: int, c: int, d: int) -> Op:
    """A request: what it keeps of an earlier one, and two runs of tokens."""
    runs = [[b % 3, b // 3 % 24]] + [[c % 3, 1 + c // 3 % 4]] * (c > 0)
    return "add", {"keep": a % 5 * 4, "like": a // 5, "runs": runs, "most": d % 4}


def _add_again(a: int, b: int, c: int, d: int) -> Op:
    """A request with the tokens of an earlier one, all that it has by now, or one of its own."""
    if a % 4:
        return "add", {"keep": _ALL, "like": a // 4, "runs": [], "most": d % 4}
    return "add", {"keep": 0, "like": 0, "runs": [[b % 3, 2 + b // 3 % 8], [c % 3, c // 3 % 4]], "most": d % 4}


def _add_named(a: int, b: int, c: int, d: int) -> Op:
    """A request with an adapter, a salt or a multimodal item, all named from one alphabet."""
    name, args = _add(a, b, 0, d)
    more = {"adapter": c % 3, "salt": c // 3 % 3, "items": [[d // 4 % 6, d // 24]] * (c // 9 % 2)}
    moved = {"moved": 1} if c % 3 and c // 18 % 3 == 2 else {}
    return name, {**args, **more, **moved}


def _add_embeds(a: int, b: int, c: int, d: int) -> Op:
    """A request of which some positions, or all, are given as embeddings; half of them are given as tokens."""
    name, args = _add(a, b, c // 8, d)
    return name, {**args, "embeds": c % 8 % 5} if c % 8 else args


def _add_whole(a: int, b: int, c: int, d: int) -> Op:
    """As `_add_embeds`, all positions of a request or none."""
    name, args = _add_embeds(a, b, c, d)
    return name, {**args, "embeds": 1} if args.get("embeds") else args


def _run(a: int, b: int, c: int, _d: int) -> Op:
    return "run", {"i": a % 8, "n": b % 13, "token": c % 3, "accept": c // 3 % 4, "more": int(c > 200)}


def _run_outside(a: int, b: int, c: int, d: int) -> Op:
    """Some of what a request needs was computed elsewhere: it is there at once, or is loaded later."""
    name, args = _run(a, b, c, d)
    return name, {**args, "outside": d % 6, "later": d // 6 % 3}


def _pick(name: str) -> Play:
    return lambda a, _b, _c, d: (name, {"i": a % 8} | ({"drop": 1} if name == "preempt" and d % 2 else {}))


def _evict(a: int, b: int, c: int, _d: int) -> Op:
    return "evict", {"blocks": [a, b, c]}


def _bare(name: str) -> Play:
    return lambda _a, _b, _c, _d: (name, {})


_REST: list[tuple[int, Play]] = [
    (6, _bare("process")),
    (5, _pick("finish")),
    (5, _pick("preempt")),
    (2, _evict),
    (1, _bare("reset")),
]


_USUAL = weighted((14, _add), (40, _run), *_REST)
_AGAIN = weighted((20, _add_again), (40, _run), (6, _bare("process")), (8, _pick("finish")))
_AGAIN_OUTSIDE = weighted((20, _add_again), (40, _run_outside), (10, _run), (12, _pick("load_done")), *_REST)
_KEYED = weighted((18, _add_named), (40, _run), *_REST)
_OUTSIDE = weighted((14, _add), (20, _run_outside), (20, _run), (12, _pick("load_done")), *_REST)
