"""Scenes for whole requests with a host tier: what was stored, and driven out of the device, is asked for again.

It comes back from the host then, into blocks of a device that is small, while others store, load, are aborted or give
up. Operations that are drawn one by one come to a load once in a hundred steps, and seldom to two at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from ...judge.record import Capabilities, Case
from ..cases import Op, Setup

__all__ = ["coming_back"]

_WIDTH = 3
"""So many numbers make an event of a scene."""

_OFTEN = {
    "visit": 4, "lose": 5, "come": 12, "loaded": 8, "leave": 6, "mirror": 3, "abort": 3, "step": 2, "grow": 2,
    "preempt": 1, "share": 4, "anew": 1,
}  # fmt: skip
"""How often something happens; what a driver cannot do leaves room for the others."""

_OWN = {"visit": "start", "lose": "evict", "come": "start", "leave": "finish", "share": "loaded", "anew": "reset"}
"""The operations that some of them are."""


def coming_back(level: str, capabilities: Capabilities, setups: st.SearchStrategy[Setup]) -> st.SearchStrategy[Case]:
    """Return cases of one scene each, with these setups."""
    can = {*capabilities.operations}
    names = [name for name, often in _OFTEN.items() if _OWN.get(name, name) in can for _ in range(often)]
    if "evict" not in can:
        names += ["fill"] * _OFTEN["lose"]
    plays = st.binary(min_size=12 * _WIDTH, max_size=36 * _WIDTH)

    def scene(setup: Setup, play: bytes) -> Case:
        # Who stores by himself is not asked to.
        made = _Scene(setup, parts="step" in can, takes_time="loaded" in can, evicts="evict" in can)
        return Case(level, setup, [op for op in made.ops(names, play) if op[0] in can])

    return st.builds(scene, setups, plays)


_BESIDE = 1
"""Of more than so many the first one leaves when another one comes: the device is small."""


_FRESH = 3
"""Tokens from here on are those of one prompt only."""


class _Scene:
    """The requests of a scene. What is stored are prompts of tokens that are all alike, so that there are three; who
    comes asks for one of them, for another one behind it, or for what stands behind tokens of its own."""

    def __init__(self, setup: Setup, *, parts: bool, takes_time: bool, evicts: bool) -> None:
        """With prompts that are computed in parts, or without; with loads that take time, or without; and with blocks
        that are evicted, or only driven out."""
        self._blocks, self._size, self._hosts = setup["blocks"], setup["block_tokens"], setup["host_blocks"]
        self._parts, self._takes_time, self._evicts = parts, takes_time, evicts
        self._lengths: dict[str, int] = {}
        """The requests that were not ended, and how many tokens they have."""
        self._count = 0

    def ops(self, names: list[str], play: bytes) -> Iterator[Op]:
        """A prompt is stored, another one fills the device, and then anything may happen, as these numbers choose."""
        yield from self._visit(0, 2)
        yield from self._visit(1, self._blocks)
        for at in range(0, len(play) - _WIDTH + 1, _WIDTH):
            which, a, b = play[at : at + _WIDTH]
            yield from self._event(names[which % len(names)], a, b)

    def _event(self, name: str, a: int, b: int) -> Iterator[Op]:
        if name == "visit":
            yield from self._visit(a % 3, self._blocks if b % 2 else 1 + b // 2 % 2)
        elif name in ("lose", "fill"):
            yield from self._driven_out(a % 3)
        elif name == "share":
            yield from self._shared(a % 3, b)
        elif name == "anew":
            yield from self._anew(a % 3, 1 + b % 2)
        elif name == "come":
            if len(self._lengths) > _BESIDE:
                yield from self._of_one("leave", next(iter(self._lengths)), b)
            first, behind = [a % 3] * (1 + b % 2) * self._size, [a // 3 % 3] * (b // 2 % 3 * self._size)
            most = 1 + b // 12 % (2 * self._size) if self._parts and b // 6 % 2 else 0
            yield self._start([*first, *behind, a // 9 % 3], most)
            if self._takes_time and a // 27 % 2:
                yield from self._crowd(1 + b % 4, 1 + b // 4 % 2)
        elif name == "loaded":
            yield "loaded", {"pick": a % 3, "failed": (0, 0, 0, 1, 2)[b % 5]}
        elif name == "mirror":
            yield "mirror", {"requests": [*self._lengths][: b % 4]}
        elif self._lengths:
            yield from self._of_one(name, [*self._lengths][a % len(self._lengths)], b)

    def _driven_out(self, token: int) -> Iterator[Op]:
        """The device has no more what the host has."""
        if self._evicts:  # Not by others that need room: these would be stored, too.
            yield from (("evict", {"block": block}) for block in range(self._blocks + 1))
        else:  # Who is not mirrored.
            start = self._start([token] * (self._blocks * self._size - 1))
            yield from (start, *self._of_one("leave", start[1]["request"], 0))

    def _shared(self, token: int, b: int) -> Iterator[Op]:
        """Two load the same, and one of them has it, and goes: the host blocks are those of the other one still.

        It needs all at once: something that is on the host alone, room for two who ask for it, and then so much that
        is stored that the host has room for it nowhere else. Of what is drawn one by one that comes to nothing.
        """
        for request in [*self._lengths]:
            yield "loaded", {"pick": 0, "failed": 0}
            yield from self._of_one("leave", request, b)
        blocks = 1 + b % 2
        yield from self._visit(token, blocks)
        yield "mirror", {"requests": []}
        yield from self._driven_out((token + 1) % 3)
        two = [self._start([token] * (blocks * self._size + 1)) for _ in range(2)]
        first = b // 2 % 2
        yield from (*two, ("loaded", {"pick": first, "failed": 0}))
        yield from self._of_one("leave", two[first][1]["request"], b)
        each = 1 + b // 4 % 2
        yield from self._crowd(1 + self._hosts // each, each)
        # What those who went left is written back here, by a tier that does so.
        yield from (("mirror", {"requests": []}), ("loaded", {"pick": 0, "failed": 0}))

    def _anew(self, token: int, blocks: int) -> Iterator[Op]:
        """All is forgotten that was stored; what is stored then is new, though it was there before."""
        self._lengths.clear()
        yield from (("drain", {}), ("reset", {}))
        yield from self._visit(token, blocks)

    def _crowd(self, visits: int, blocks: int) -> Iterator[Op]:
        """What nobody knew before is stored, until the host has no room but what nobody holds there: who loads does."""
        for _ in range(visits):
            yield from self._visit(_FRESH + self._count, blocks)

    def _of_one(self, name: str, request: str, b: int) -> Iterator[Op]:
        if name in ("leave", "abort"):
            del self._lengths[request]
            yield _OWN.get(name, name), {"request": request}
        elif name == "step":
            yield "step", {"request": request, "most": b % (2 * self._size)}
        elif name == "preempt":
            yield "preempt", {"request": request}
        elif self._lengths[request] < self._blocks * self._size:
            self._lengths[request] += 1
            yield "grow", {"request": request, "tokens": [b % 3]}

    def _start(self, tokens: list[int], most: int = 0) -> Op:
        """A request arrives, with as many of these tokens as there is room for."""
        request = f"r{self._count}"
        self._count += 1
        prompt = tokens[: self._blocks * self._size]
        self._lengths[request] = len(prompt)
        return "start", {"request": request, "prompt": prompt, **({"most": most} if most else {})}

    def _visit(self, token: int, blocks: int) -> Iterator[Op]:
        """A request comes of which so many blocks are stored, and goes: a token more is computed in any case."""
        start = self._start([token] * (blocks * self._size + 1))
        about: dict[str, Any] = {"request": start[1]["request"]}
        del self._lengths[about["request"]]
        stored: Op = ("mirror", {"requests": [about["request"]]})
        yield from (start, stored, ("finish", about))
