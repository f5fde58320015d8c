"""Cases for the level ``requests``: whole requests on any engine, through a driver that its users write.

Requests are named by the case, prompts are given in full, and a driver is asked only for what it says it can do
(`Capabilities`). Whatever a sequence leaves out, the rest of it is legal: an operation on a request that is not there
is skipped. A request never has more tokens than the device holds, so that it can always run alone.
"""

from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

from hypothesis import strategies as st

from ...judge.judging import Oracle
from ...judge.oracles.behind import BehindOracle
from ...judge.oracles.copies import CopiesOracle
from ...judge.oracles.forgotten import ForgottenOracle
from ...judge.oracles.found import FoundOracle
from ...judge.oracles.free_counter import FreeCounterOracle
from ...judge.oracles.host_hits import HostHitsOracle
from ...judge.oracles.host_stores import HostStoresOracle
from ...judge.oracles.lru import LruOracle
from ...judge.oracles.nothing_kept import NothingKeptOracle
from ...judge.oracles.removals import RemovalsOracle
from ...judge.oracles.requests import RequestsOracle
from ...judge.oracles.watermark import WatermarkOracle
from ...judge.oracles.words import WordsOracle
from ...judge.record import BATCH, TOGETHER, Capabilities, Case, World
from ..cases import Op, Setup
from .coming_back import coming_back
from .twins import twins

__all__ = [
    "BEGUN",
    "IN_BATCHES",
    "LEVEL",
    "OPERATIONS",
    "OPTIONS",
    "OVERLAPPING",
    "SEVERAL",
    "TENANTS",
    "closing",
    "draw",
    "more_oracles",
    "profiles",
    "setups",
    "tenants_of",
]

LEVEL = "requests"

OPERATIONS = (
    "start", "resume", "step", "grow", "finish", "abort", "preempt", "mirror", "evict", "reset", "drain", "fork",
    "loaded", "cut",
)  # fmt: skip
"""All operations that the level knows. A driver has at least ``start`` and ``finish``."""

OVERLAPPING = ("begin", TOGETHER)
"""Operations of asynchronous managers: one that is begun, and those that were begun going on together."""

BEGUN = ("start", "resume", "step", "grow", "finish", "abort", "preempt", "evict", "reset", "mirror", "loaded")
"""What can be begun."""

IN_BATCHES = ("begin", BATCH)
"""Operations of managers that are called by one task: one that is begun, and those that were begun sharing a forward
pass."""

SEVERAL = ("begin", TOGETHER, BATCH)
"""All of these."""

_OF_BATCHES = BEGUN[:7]
"""What can be begun of a forward pass: what is asked of a request."""

_TOGETHER, _IN_BATCHES = 24, 5
"""How often some operations are drawn to overlap, or to share a forward pass, among those of `_USUAL`."""

_WAITS = 12
"""A call is cancelled that has waited fewer times than this, or one after it."""

OPTIONS = ("host_blocks", "caching", "events")
"""What a setup may say beside ``blocks`` and ``block_tokens``, to drivers that take it."""

TENANTS = ("adapter", "salt")
"""What a request may have besides tokens. A driver that names more is not asked for what nobody here knows."""

_WIDTH = 5
"""Bytes of an operation: which, and four that its arguments are made of."""

_LONG, _LONG_AGAIN = 244, 212
"""A byte from which on a prompt is as long as there is room for: of many blocks, not of two or three; and the same
where prompts come again, and all of it is to be found."""

_USUAL = {
    "start": 24, "resume": 8, "step": 6, "grow": 20, "finish": 14, "abort": 3, "preempt": 5, "mirror": 6, "evict": 2,
    "reset": 1, "drain": 1, "fork": 8, "loaded": 0, "cut": 0,
}  # fmt: skip
"""How often an operation is drawn, where the driver has it."""

_WEIGHTS = {
    "mirror": _USUAL | {"start": 30, "mirror": 24, "finish": 22, "grow": 8, "resume": 6, "loaded": 12},
    "tight": _USUAL | {"start": 36, "resume": 16, "preempt": 10, "mirror": 10},
    "overlap": _USUAL | {"start": 40, "finish": 60, "grow": 6, "preempt": 2, "resume": 6, "abort": 1, "evict": 1},
    "again": _USUAL | {"start": 40, "finish": 24, "grow": 6, "abort": 1, "preempt": 2, "evict": 0, "reset": 0},
    "forks": _USUAL | {"fork": 40, "grow": 50, "abort": 6},
}

_STORED = {"start": 34, "mirror": 24, "finish": 24, "evict": 6}
"""How often operations are drawn where tenants share a host tier: what is stored of one is looked up there for another
only where the device has no more of it."""


_BESIDE = {"start": 40, "mirror": 30, "loaded": 24, "finish": 30, "grow": 12, "evict": 6, "abort": 4}
"""The same where calls overlap: what is stored and loaded meanwhile."""


_ORACLES = (
    RemovalsOracle, RequestsOracle, CopiesOracle, FoundOracle, NothingKeptOracle, ForgottenOracle, FreeCounterOracle,
    LruOracle, BehindOracle, WatermarkOracle, WordsOracle, HostHitsOracle, HostStoresOracle,
)  # fmt: skip


def more_oracles(_case: Case) -> Callable[[World], list[Oracle]]:
    """Return what makes the oracles of this level's own for a case."""
    return lambda world: [make(world) for make in _ORACLES]


def profiles(capabilities: Capabilities, often: Mapping[str, int] | None = None) -> dict[str, st.SearchStrategy[Case]]:
    """Return the families of cases that a driver can do, by name; ``often``: how often operations are drawn in all."""
    of = setups(capabilities)
    found = {name: _cases(capabilities, name, setup, often) for name, setup in of.items()}
    if "tenants" in of and "mirror" in of:
        of_host = _cases(capabilities, "tenants", of["mirror"], {**_STORED, **(often or {})})
        found["tenants"] = st.one_of(found["tenants"], of_host)
    if "mirror" in of:
        on_host = _setup(capabilities, st.integers(2, 6), host_blocks=st.integers(2, 10), **_told(capabilities))
        scenes = coming_back(LEVEL, capabilities, on_host)
        if "loaded" in capabilities.operations:
            found["loads"] = scenes
        elif "mirror" in capabilities.operations:
            found["mirror"] = st.one_of(found["mirror"], scenes)
    if "overlap" in of and "mirror" in of:
        found["overlap"] = st.one_of(found["overlap"], _cases(capabilities, "overlap", of["mirror"], _BESIDE))
    if {"step", "grow"} <= {*capabilities.operations}:
        events = {"events": True} if "events" in capabilities.options else {}
        scenes = twins(LEVEL, st.sampled_from(capabilities.block_tokens), events)
        found["tight"] = st.one_of(found["tight"], scenes)
    return found


def closing(capabilities: Capabilities) -> list[Op]:
    """How a sequence ends: everything comes to rest and rest is empty, as far as the driver can do that."""
    return [(name, {}) for name in ("drain", "reset") if name in capabilities.operations]


def setups(capabilities: Capabilities) -> dict[str, st.SearchStrategy[Setup]]:
    """Return the families of setups that a driver takes, by name."""
    options, on = capabilities.options, _told(capabilities)
    found = {"plain": _setup(capabilities, st.integers(3, 10), **on)}
    found["tight"] = _setup(capabilities, st.integers(1, 4), **on)
    if "host_blocks" in options:
        found["mirror"] = _setup(capabilities, st.integers(2, 6), host_blocks=st.integers(1, 8), **on)
    if tenants_of(capabilities):
        found["tenants"] = _setup(capabilities, st.integers(4, 10), **on)
    if "caching" in options:
        found["uncached"] = _setup(capabilities, st.integers(2, 8), caching=st.just(False))
    if TOGETHER in capabilities.operations:
        found["overlap"] = _setup(capabilities, st.integers(3, 10), **on)
    if "fork" in capabilities.operations:
        found["forks"] = _setup(capabilities, st.integers(3, 8), **on)
    # The same prompts again and again, with room for them: they must be found.
    found["again"] = _setup(capabilities, st.integers(10, 16), **on)
    return found


def tenants_of(capabilities: Capabilities) -> list[str]:
    """Return the tenants that a driver has and the level knows."""
    return [name for name in capabilities.tenants if name in TENANTS]


def _told(capabilities: Capabilities) -> dict[str, st.SearchStrategy[Any]]:
    """What each setup asks to be told besides."""
    return {"events": st.just(True)} if "events" in capabilities.options else {}


def _setup(
    capabilities: Capabilities, blocks: st.SearchStrategy[int], **more: st.SearchStrategy[Any]
) -> st.SearchStrategy[Setup]:
    size = st.sampled_from(capabilities.block_tokens)
    return st.fixed_dictionaries({"blocks": blocks, "block_tokens": size} | more)


def _cases(
    capabilities: Capabilities, profile: str, setup: st.SearchStrategy[Setup], often: Mapping[str, int] | None
) -> st.SearchStrategy[Case]:
    # Calls that overlap break what others have left behind: it takes some, before there is anything.
    plays = st.binary(min_size=_WIDTH * (24 if profile == "overlap" else 6), max_size=_WIDTH * 40)
    return st.builds(lambda made, play: draw(capabilities, profile, made, play, often), setup, plays)


def draw(
    capabilities: Capabilities, profile: str, setup: Setup, play: bytes, often: Mapping[str, int] | None = None
) -> Case:
    """Return the case that these bytes stand for: five make an operation."""
    weights = {**_WEIGHTS.get(profile, _USUAL), **(often or {})}
    if "host_blocks" not in setup:
        weights = {**weights, "mirror": 0, "loaded": 0}
    names = [name for name in OPERATIONS if name in capabilities.operations for _ in range(weights[name])]
    if TOGETHER in capabilities.operations:
        names += [TOGETHER] * (len(names) // 2 if profile == "overlap" else _TOGETHER)
    if BATCH in capabilities.operations:
        names += [BATCH] * _IN_BATCHES
    player = _Player(setup, capabilities, tenants=profile == "tenants", again=profile == "again")
    for at in range(0, len(play) - _WIDTH + 1, _WIDTH):
        # A case begins with a request: without one there is nothing to do.
        name = names[play[at] % len(names)] if player.lengths else "start"
        player.do(name, *play[at + 1 : at + _WIDTH])
    player.go_on_together()
    if "drain" in capabilities.operations:
        player.last()
        if "grow" in capabilities.operations and len(player.ops) % 2:
            player.crowded()
    return Case(LEVEL, setup, player.ops)


class _Player:
    """Makes operations of bytes. It knows what was asked, not what came of it."""

    def __init__(self, setup: Setup, capabilities: Capabilities, *, tenants: bool, again: bool) -> None:
        self.ops: list[Op] = []
        self.lengths: dict[str, int] = {}
        """The most tokens that each request which was not ended may have."""
        self._setup, self._capabilities = setup, capabilities
        self._tenants = tenants_of(capabilities) if tenants else []
        self._size: int = setup["block_tokens"]
        self._most: int = setup["blocks"] * self._size
        self._prompts: list[list[int]] = []
        self._left: dict[str, int] = {}
        """The most tokens that are left to be computed of prompts that come in parts."""
        self._to_begin = 0
        """So many of the next operations are begun, before they go on together."""
        self._several: Op | None = None
        """How they do."""
        self._again = again
        """Whether prompts are earlier ones as they were."""

    def do(self, name: str, a: int, b: int, c: int, d: int) -> None:
        """Add an operation."""
        if name == TOGETHER:
            self._overlap(a, b, c, d)
        elif name == BATCH:
            self.go_on_together()
            self._to_begin, self._several = 2 + a % 3, (BATCH, {})
        elif name == "start":
            self._start(a, b, c, d)
        elif name == "mirror":
            self._mirror(a, b)
        elif name == "loaded":
            self._add("loaded", pick=a % 4, failed=(0, 0, 1, 2)[b % 4])
        elif name == "evict":
            self._add("evict", block=a % (self._setup["blocks"] + 1))
        elif name == "drain":
            self._drain()
        elif name == "reset":
            # While somebody runs it is refused; what it leaves behind shows where it is not.
            if a % 2 and "drain" in self._capabilities.operations:
                self._drain()
            self._add("reset")
        elif self.lengths:
            self._on_one(name, list(self.lengths)[a % len(self.lengths)], b, c)

    def _drain(self) -> None:
        self._add("drain")
        self.lengths.clear()

    def last(self) -> None:
        """A request that needs all there is: alone at the end, it shows what the others left held.

        It begins as none of them did, as far as there is such a beginning, so that nothing is found for it.
        """
        begun = {tuple(prompt[: self._size]) for prompt in self._prompts}
        first = next((start for start in product(range(3), repeat=self._size) if start not in begun), (0,))
        self._add_start([*first, *[0] * self._most][: self._most])

    def crowded(self) -> None:
        """One that grows beside another one, where the two have all there is: there is room for it only if what it
        needs no more is given up."""
        self._drain()
        self._add_start([1])
        self._add_start([2] * max(1, self._most - self._size))
        for _ in range(2):
            self._add("grow", request=f"r{len(self._prompts) - 1}", tokens=[2])

    def _add_start(self, prompt: list[int], **more: Any) -> None:
        self._add("start", request=f"r{len(self._prompts)}", prompt=prompt, **more)
        self._prompts.append(prompt)

    def go_on_together(self) -> None:
        """What was begun goes on, and ends."""
        if self._several is not None:
            self.ops.append(self._several)
            self._several, self._to_begin = None, 0

    def _overlap(self, a: int, b: int, c: int, d: int) -> None:
        """Two to four operations are begun; who goes on at each await is drawn, and whether one is cancelled."""
        self.go_on_together()
        self._to_begin = 2 + a % 3
        how: dict[str, Any] = {"order": [byte >> shift & 3 for byte in (b, c, d) for shift in (0, 2, 4, 6)]}
        if a // 3 % 3 == 0:
            how["cancel"] = [a // 9 % self._to_begin, (b + c + d) % _WAITS]
        self._several = (TOGETHER, how)

    def _add(self, name: str, **args: Any) -> None:
        if self._several is not None and name not in (_OF_BATCHES if self._several[0] == BATCH else BEGUN):
            self.go_on_together()
        if self._several is None:
            self.ops.append((name, args))
            return
        self.ops.append(("begin", {"op": name, **args}))
        self._to_begin -= 1
        if not self._to_begin:
            self.go_on_together()

    def _start(self, a: int, b: int, c: int, d: int) -> None:
        """A request that begins as an earlier one, mostly at the end of a block or a token behind it."""
        kept: list[int] = []
        is_long = c >= (_LONG_AGAIN if self._again else _LONG)
        tail = [c % 3] * (self._most if is_long else c // 3 % (2 * self._size + 1))
        if a % 4 and self._prompts:
            like = self._prompts[a // 4 % len(self._prompts)]
            kept = like if b >= 160 or self._again else like[: b % 6 * self._size + b // 6 % 2]
            tail = [] if self._again else tail
        prompt = (kept + tail)[: self._most] or [c % 3]
        request = f"r{len(self._prompts)}"
        self.lengths[request] = len(prompt)
        more: dict[str, Any] = {}
        if "step" in self._capabilities.operations and d % 5 == 0:
            more["most"] = 1 + d // 5 % (2 * self._size)
            self._left[request] = len(prompt) - more["most"]
        for number, tenant in enumerate(self._tenants):
            if name := ("", "a", "b")[d // (1 + 2 * number) % 3]:
                more[tenant] = name
        self._add_start(prompt, **more)

    def _on_one(self, name: str, request: str, b: int, c: int) -> None:
        left = self._left.get(request, 0)
        if name == "step" or (name == "grow" and left > 0):  # Who has not computed all of its prompt cannot grow.
            most = 1 + b % (2 * self._size)
            self._left[request] = left - most
            self._add("step", request=request, most=most)
            return
        if name == "grow":
            room = min(self._most - self.lengths[request], self._capabilities.tokens_per_grow)
            if room > 0:
                tokens = [c % 3] * (1 + b % room)
                self.lengths[request] += len(tokens)
                self._add("grow", request=request, tokens=tokens)
            return
        if name == "fork":
            self._fork(request)
            return
        # Among preemptions, not beside them: what needs a pool that is full would come up less often.
        if name == "preempt" and b % 4 == 3 and "cut" in self._capabilities.operations:
            self._cut(request, b, c)
            return
        self._add(name, request=request)
        if name in ("finish", "abort"):
            del self.lengths[request]

    def _fork(self, request: str) -> None:
        """A child of a request is another one, with as many tokens."""
        child = f"r{len(self._prompts)}"
        self._prompts.append(self._prompts[int(request[1:])])
        self.lengths[child] = self.lengths[request]
        self._add("fork", request=request, child=child)

    def _cut(self, request: str, b: int, c: int) -> None:
        """It would go on by some tokens; there is room for them, whether it comes to them or not."""
        room = min(self._most - self.lengths[request], self._capabilities.tokens_per_grow)
        if room > 0:
            tokens = [c % 3] * (1 + b % room)
            self.lengths[request] += len(tokens)
            self._add("cut", request=request, tokens=tokens)

    def _mirror(self, a: int, b: int) -> None:
        """All requests, or some of them; sometimes none."""
        names = list(self.lengths)
        batch = names if a % 3 else [name for number, name in enumerate(names) if b >> number % 8 & 1]
        self._add("mirror", requests=batch)
