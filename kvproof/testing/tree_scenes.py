"""Scenes of a prefix tree.

Of calls that overlap: what was computed is there and nobody holds it, or somebody does who goes; then some look for it,
branch off from it, or let go of it, while others evict. Of one call after the other: requests come and go, the last of
them with no more than another one had; then leaves go. What that one went through was used last, though it has brought
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..engines.cases import Op, Setup
from ..judge.record import TOGETHER, Capabilities, Case
from .orders import goes_on

__all__ = ["SCENE", "SCENES", "tree_scenes", "tree_uses"]

SCENES = (2, 5)
"""So many scenes a case has."""

SCENE = 32
"""So many numbers a scene is made of."""

_WITH_NOBODY = ("start", "start", "start", "evict")
_WITH_SOMEBODY = ("start", "start", "evict", "finish", "finish", "preempt", "grow", "again")


def tree_scenes(level: str, capabilities: Capabilities, setup: Setup, play: bytes) -> Case:
    """The case of these numbers: so many for a scene."""
    stage = _Stage({**setup, "blocks": 3 + setup["blocks"] % 6}, capabilities)
    for at in range(0, len(play) - SCENE + 1, SCENE):
        stage.scene(iter(play[at : at + SCENE]))
    return Case(level, stage.setup, stage.ops)


def tree_uses(level: str, capabilities: Capabilities, setup: Setup, play: bytes) -> Case:
    """The case of these numbers, of one call after the other: so many for a scene."""
    stage = _Stage(setup, capabilities)
    for at in range(0, len(play) - SCENE + 1, SCENE):
        stage.uses(iter(play[at : at + SCENE]))
    return Case(level, stage.setup, stage.ops)


class _Stage:
    """Makes scenes of numbers."""

    def __init__(self, setup: Setup, capabilities: Capabilities) -> None:
        self.ops: list[Op] = []
        self.setup = setup
        self._pages, self._page = setup["blocks"], setup["block_tokens"]
        self._can = {*capabilities.operations}
        self._has_salts = "salt" in capabilities.tenants
        self._running: list[str] = []
        self._started: list[dict[str, Any]] = []
        """What every request has come with."""

    def scene(self, dice: Iterator[int]) -> None:
        """Some come and go, or stay; some calls overlap; and what was there is asked for again."""
        kind = next(dice)
        for _ in range(1 + kind % 2):
            self._start(next(dice))
            self._finish()
        for _ in range(kind // 2 % 4):
            self._start(next(dice))
        begun = 2 + kind // 8 % 2
        staying = [*self._running]
        for _ in range(begun):
            self._begin(next(dice), next(dice), staying)
        self.ops.append((TOGETHER, goes_on(dice, begun)))
        while self._running:
            self._finish()
        self._start(next(dice))
        self._finish()

    def uses(self, dice: Iterator[int]) -> None:
        """Some come and go, the last one with a part of what another had, and a token behind it; then leaves go, and
        in the end all of them."""
        coming = 2 + next(dice) % 2
        for _ in range(coming):
            self._start(next(dice))
            self._finish()
        of = self._started[-coming]
        within = max(1, len(of["prompt"]) // self._page - 1)
        self._come({**of, "prompt": [*of["prompt"][: (1 + next(dice) % within) * self._page], 0]})
        self._finish()
        for pages in (1 + next(dice) % 4, self._pages):
            self.ops.append(("evict", {"tokens": pages * self._page}))

    def _begin(self, which: int, a: int, staying: list[str]) -> None:
        """Begin an operation; each of those on who is there is on another one."""
        names = [name for name in (_WITH_SOMEBODY if staying else _WITH_NOBODY) if name in self._can]
        name = names[which % len(names)]
        if name == "start":
            self._start(a, begins=True)
        elif name == "evict":
            self.ops.append(("begin", {"op": name, "tokens": (1, 1, 2, self._pages)[a % 4] * self._page}))
        elif name == "again":
            self.ops.append(("begin", {"op": name}))
        else:
            self._on_one(name, staying.pop(0))

    def _on_one(self, name: str, request: str) -> None:
        more = {"tokens": [1] * self._page} if name == "grow" else {}
        self.ops.append(("begin", {"op": name, "request": request, **more}))
        if name == "finish":
            self._running.remove(request)

    def _start(self, a: int, *, begins: bool = False) -> None:
        """A request whose prompt branches off from others behind some pages, and ends with a page or a token behind."""
        same, other, ends = a % 4, a // 4 % 3, a // 12 % 2
        prompt = [0] * same * self._page + [1 + a // 24 % 2] * other * self._page
        prompt = [*prompt, *[0] * ends][: self._pages * self._page] or [0]
        args: dict[str, Any] = {"prompt": prompt}
        if self._has_salts and a // 48 == 1:
            args["salt"] = "a"
        self._come(args, begins=begins)

    def _come(self, args: dict[str, Any], *, begins: bool = False) -> None:
        request = f"r{len(self._started)}"
        self._started.append(args)
        self._running.append(request)
        args = {"request": request, **args}
        self.ops.append(("begin", {"op": "start", **args}) if begins else ("start", args))

    def _finish(self) -> None:
        self.ops.append(("finish", {"request": self._running.pop(0)}))
