"""Cases for a `BlockManager`: those of whole requests on any engine, and scenes of calls that overlap.

What overlapping calls break, they break where much is cached and little is held, and somebody does all of something
while another one waits: a manager that believes behind an ``await`` what it saw before it is wrong then. Operations
that are drawn one by one seldom come to that: their requests fill the pool, and wait. So a scene sets the stage first,
and looks behind it at what has become of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from ..engines.cases import Op, Setup
from ..engines.driver import requests
from ..judge.record import TOGETHER, Capabilities, Case
from .host_scenes import host_scenes
from .orders import goes_on

__all__ = ["profiles"]

_SCENES = (3, 6)
"""So many scenes a case has."""

_FOR_ONE = (3, 1)
"""For so many other cases there is one of scenes in each family, and in the one of calls that overlap."""

_SCENE = 16
"""So many numbers a scene is made of."""

_QUIET = {"start": 4, "evict": 4, "reset": 3}
_BUSY = {"start": 3, "grow": 6, "finish": 3, "preempt": 1}
"""How often an operation is one of those that overlap, where nobody runs before, and where somebody does."""

_FRESH = 128
"""Set in a number whose prompt is of tokens that nothing on the stage has: nothing is found for it."""


def profiles(capabilities: Capabilities) -> Mapping[str, st.SearchStrategy[Case]]:
    """Return the families of cases that a manager can do, by name."""
    found: dict[str, st.SearchStrategy[Case]] = {}
    usual = requests.profiles(capabilities)
    if TOGETHER in capabilities.operations:
        setups = requests.setups(capabilities)
        plays = st.binary(min_size=_SCENES[0] * _SCENE, max_size=_SCENES[1] * _SCENE)
        scenes = st.builds(lambda made, play: _scenes(capabilities, made, play), setups["overlap"].map(_small), plays)
        # Scenes are much alike, and soon bring nothing new: it is their faults that take some of them.
        found["scenes"] = scenes
        if "host_blocks" in capabilities.options:
            found["host scenes"] = host_scenes(capabilities, usual, setups["mirror"])
        usual = {name: st.one_of(*[cases] * _FOR_ONE[name == "overlap"], scenes) for name, cases in usual.items()}
    return found | usual


def _small(setup: Setup) -> Setup:
    """The same with few blocks: what one lets go is soon another's."""
    return {**setup, "blocks": 2 + setup["blocks"] % 4}


def _scenes(capabilities: Capabilities, setup: Setup, play: bytes) -> Case:
    stage = _Stage(setup, capabilities)
    for at in range(0, len(play) - _SCENE + 1, _SCENE):
        stage.scene(iter(play[at : at + _SCENE]))
    return Case(requests.LEVEL, setup, stage.ops)


class _Stage:
    """Makes scenes of numbers: some requests come and go, some calls overlap, and what was there is asked for again."""

    def __init__(self, setup: Setup, capabilities: Capabilities) -> None:
        self.ops: list[Op] = []
        self._blocks, self._size = setup["blocks"], setup["block_tokens"]
        self._grows_by = capabilities.tokens_per_grow
        self._quiet, self._busy = (
            [name for name, often in weights.items() if name in capabilities.operations for _ in range(often)]
            for weights in (_QUIET, _BUSY)
        )
        self._is_busy = False
        """Somebody runs before calls overlap, and leaves room for others."""
        self._running: dict[str, int] = {}
        """The requests that were not ended, and how many tokens they have."""
        self._prompt: list[int] = []
        """The last one that arrived."""
        self._count = 0

    def scene(self, dice: Iterator[int]) -> None:
        """Add one."""
        kind = next(dice)
        self._is_busy = kind % 3 == 0
        for _ in range(2 if self._is_busy else 1 + kind // 3 % 2):
            self.ops.append(("start", self._arriving(next(dice) & ~_FRESH)))
            if not self._is_busy:
                self._finish()
        begun = 2 + kind // 6 % 2
        # Of three who are there, one may wait for another one, whom the third gets ahead of.
        are_three = self._is_busy and begun > 2 and self._blocks > 3
        if are_three:
            self.ops.append(("start", self._arriving(next(dice) & ~_FRESH & ~1)))
        for number in range(begun):
            names = self._busy if self._is_busy else self._quiet if number + 1 < begun else ["start"]
            names = [name for name in names if name != "start"] if are_three else names
            self._begin(names[next(dice) % len(names)], next(dice), number)
        self.ops.append((TOGETHER, goes_on(dice, begun)))
        while self._running:
            self._read()
            self._finish()
        self.ops.append(("start", self._arriving(next(dice), self._prompt)))
        self._finish()

    def _read(self) -> None:
        """Let a request that was there before grow once more: it reads all that it has."""
        request, length = next(iter(self._running.items()))
        if self._is_busy and length < self._blocks * self._size and "grow" in self._busy:
            self.ops.append(("grow", {"request": request, "tokens": [0]}))

    def _finish(self) -> None:
        request = next(iter(self._running))
        del self._running[request]
        self.ops.append(("finish", {"request": request}))

    def _arriving(self, a: int, prompt: Sequence[int] = ()) -> dict[str, Any]:
        """A request whose tokens are all one: there are few prompts, and one begins as another."""
        request = f"r{self._count}"
        self._count += 1
        blocks = 1 + a % 2 if self._is_busy else (1, 2, self._blocks - 1, self._blocks)[a % 4]
        # With a token more than its blocks all of them can be found. But where somebody runs, who grows needs a block.
        one_more = not self._is_busy and a // 4 % 3 > 0
        length = min(blocks * self._size + one_more, self._blocks * self._size)
        self._prompt = [*prompt] or [2 if a & _FRESH else (self._count if self._is_busy else a // 12) % 2] * length
        self._running[request] = len(self._prompt)
        return {"request": request, "prompt": self._prompt}

    def _begin(self, name: str, a: int, number: int) -> None:
        """Begin an operation; of those on requests that run, each is on another one."""
        args: dict[str, Any] = {}
        if name == "evict":
            args["block"] = a % self._blocks
        elif name in _BUSY and name != "start" and number < len(self._running):
            args["request"] = request = [*self._running][number]
            room = min(self._blocks * self._size - self._running[request], self._grows_by)
            if name == "grow" and room:
                # Two that write to one block are told apart once it is full, by what is cached of it.
                args["tokens"] = [number % 2] * min(room, self._size if a % 4 else 1)
                self._running[request] += len(args["tokens"])
            elif name == "grow":
                name = "finish"
        elif name != "reset":
            name, args = "start", self._arriving(a)
        self.ops.append(("begin", {"op": name, **args}))
