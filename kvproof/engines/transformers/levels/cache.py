"""Cases for the levels ``manager`` and ``pool``: a cache, called as a scheduler calls it.

Small caches, pages of several sizes, full and window layers in unequal numbers, so that sectors are divided in several
ways; prompts that repeat few tokens, so that prefixes are shared.
"""

from typing import Any

from hypothesis import strategies as st

from ....judge.oracles.registered import RegisteredOracle
from ....judge.oracles.removals import RemovalsOracle
from ....judge.oracles.requests import RequestsOracle
from ....judge.oracles.room import RoomOracle
from ....judge.record import Case, World
from ...cases import Op, Setup
from .scheduler import Choice, Play, layers, plays, sound, tokens

__all__ = ["manager_profiles", "more_oracles", "pool_profiles"]


def manager_profiles(_release: str) -> dict[str, st.SearchStrategy[Case]]:
    """Return the families of cases of the level ``manager``, by name."""
    return _profiles("manager")


def pool_profiles(_release: str) -> dict[str, st.SearchStrategy[Case]]:
    """Return the families of cases of the level ``pool``, by name."""
    return _profiles("pool")


def more_oracles(_case: Case) -> Any:
    """Refusals change nothing and have a reason (P7, P15), a reset leaves nothing held (P11), and what is computed is
    cached until the caller lets it go (P14, P11)."""

    def oracles(world: World) -> list[Any]:
        return [RemovalsOracle(world), RequestsOracle(world), RegisteredOracle(world), RoomOracle(world)]

    return oracles


def _profiles(level: str) -> dict[str, st.SearchStrategy[Case]]:
    found = {
        "full": _setups(st.just(["full"])),
        "window": _setups(st.just(["window"])),
        "hybrid": _setups(layers()),
        "layers": _setups(st.just(["full", "full"])),
        "unshared": _setups(st.one_of(st.just(["full"]), layers()), sharing=st.just(False)),
    }
    return {name: plays(level, of, _PLAYS) for name, of in found.items()}


def _setups(of_layers: Choice, **more: Choice) -> st.SearchStrategy[Setup]:
    usual: dict[str, Choice] = {
        "layers": of_layers,
        "page": st.sampled_from([4, 4, 5, 8]),
        "blocks": st.integers(1, 10),
        "window": st.integers(1, 12),
    }
    return st.fixed_dictionaries(usual | more).map(sound)


def _grow(play: bytes) -> Op:
    return "grow", {"pick": play[0] % 4, "most": 1 + play[1] % 12, "token": play[2] % 3}


_PLAYS: list[tuple[int, Play]] = [
    (14, lambda play: ("start", {"tokens": tokens(play)})),
    (24, _grow),
    (4, lambda play: ("fork", {"pick": play[0] % 4, "times": 1 + play[1] % 2})),
    (8, lambda play: ("finish", {"pick": play[0] % 4} | ({"drop": 1} if play[1] >= 192 else {}))),
    (2, lambda _play: ("evict", {})),
    (2, lambda _play: ("tidy", {})),
    (1, lambda _play: ("reset", {})),
]
