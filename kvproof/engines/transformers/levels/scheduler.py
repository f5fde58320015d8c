"""Cases for the level ``scheduler``: a manager of continuous batching, stepped round by round.

What is varied is geometry more than length: caches that one request fills, pages of several sizes, full and window
layers in unequal numbers, host tiers of a few sectors. A case is 3 to 30 operations on a vocabulary of three tokens.
"""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from ....judge.record import Case
from ...cases import Op, Setup
from ...plays import sized

__all__ = ["Choice", "Play", "layers", "plays", "profiles", "setups", "sound", "tokens"]

Choice = st.SearchStrategy[Any]
Play = Callable[[bytes], Op]

_WIDTH = 6
"""Bytes of an operation: which, and five that its arguments are made of."""

_MOST = 5
"""The most tokens that a request generates."""


def profiles(_release: str) -> dict[str, st.SearchStrategy[Case]]:
    """Return the families of cases, by name."""
    full, window, hybrid = st.just(["full"]), st.just(["window"]), layers()
    some = st.one_of(full, window, hybrid)
    found = {
        "full": setups(full),
        "window": setups(window),
        "hybrid": setups(hybrid),
        "host": setups(some, host=st.integers(1, 4)),
        "asynchronous": setups(some, asynchronous=st.just(True)),
        "asynchronous host": setups(some, asynchronous=st.just(True), host=st.integers(1, 4)),
        "sequences": setups(some, sequences=st.integers(2, 3)),
        "asynchronous sequences": setups(some, asynchronous=st.just(True), sequences=st.integers(2, 3)),
        "prefill first": setups(some, scheduler=st.just("prefill_first")),
        "margin": setups(some, margin=st.sampled_from([0.0, 0.5, 1.0])),
        "unshared": setups(some, sharing=st.just(False)),
        "all": setups(
            some,
            asynchronous=st.booleans(),
            host=st.integers(0, 4),
            sequences=st.integers(1, 3),
            scheduler=st.sampled_from(["fifo", "prefill_first"]),
            sharing=st.booleans(),
        ),
        "room": setups(full, blocks=st.integers(8, 16)),
    }
    return {name: plays("scheduler", of, _PLAYS) for name, of in found.items()}


def layers() -> Choice:
    """Full and window layers, in unequal numbers: then their blocks have unequal sizes."""
    return st.builds(lambda full, window: ["full"] * full + ["window"] * window, st.integers(1, 2), st.integers(1, 3))


def setups(of_layers: Choice, **more: Choice) -> st.SearchStrategy[Setup]:
    """Setups with these layers; what else is said takes the place of the usual."""
    usual: dict[str, Choice] = {
        "layers": of_layers,
        "page": st.sampled_from([4, 4, 5, 8]),
        "blocks": st.integers(1, 6),
        "window": st.integers(1, 12),
        "batch": st.sampled_from([2, 3, 4, 8, 16]),
        "requests": st.sampled_from([1, 2, 8]),
    }
    return st.fixed_dictionaries(usual | more).map(sound)


def sound(setup: Setup) -> Setup:
    """The setup without a window that no layer has."""
    return setup if "window" in setup["layers"] else {name: v for name, v in setup.items() if name != "window"}


def plays(level: str, of: st.SearchStrategy[Setup], often: list[tuple[int, Play]]) -> st.SearchStrategy[Case]:
    """Cases of these setups whose operations come as often as is said."""
    choices = [play for times, play in often for _ in range(times)]

    def case(setup: Setup, play: bytes) -> Case:
        parts = [play[at : at + _WIDTH] for at in range(0, len(play), _WIDTH)]
        return Case(level, setup, [choices[part[0] % len(choices)](part[1:]) for part in parts])

    return st.builds(case, of, sized(_WIDTH, 3, 30))


def tokens(play: bytes) -> list[int]:
    """A prompt that repeats a token, and from some point on another: so prefixes are shared."""
    length = 1 + play[1] % 24
    turn = play[2] % (length + 1) if play[0] & 4 else length
    return [play[0] % 3 if n < turn else (play[0] >> 3) % 3 for n in range(length)]


def _add(play: bytes) -> Op:
    args: dict[str, Any] = {"tokens": tokens(play), "most": 1 + play[3] % _MOST}
    return "add", args | {"stop": 1} if play[3] & 64 else args


_PLAYS: list[tuple[int, Play]] = [
    (26, lambda play: ("step", {"token": play[0] % 8})),
    (14, _add),
    (4, lambda play: ("cancel", {"pick": play[0] % 4})),
    (1, lambda play: ("stop", {"hard": play[0] % 2})),
    (1, lambda _play: ("drain", {})),
]
