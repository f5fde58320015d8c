"""Scenes of a host tier whose stores and loads overlap.

What breaks there is seldom drawn one by one: something has to be on the host, and no more on the device, when two ask
for it; and one of them has to come just when the other one begins to load, or ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, repeat

import msgspec
from hypothesis import strategies as st

from ..engines.cases import Op, Setup
from ..engines.driver import requests
from ..judge.record import TOGETHER, Capabilities, Case
from .orders import goes_on

__all__ = ["host_scenes"]

_PLAY = 240
"""So many numbers a case has at most."""

_SCENE = 40
"""So many numbers a scene is made of."""

_OFTEN = {"loaded": 6, "start": 8, "mirror": 5, "leave": 3, "abort": 1, "grow": 2, "reset": 1}
"""How often something goes on together with others."""


def host_scenes(
    capabilities: Capabilities, usual: Mapping[str, st.SearchStrategy[Case]], setups: st.SearchStrategy[Setup]
) -> st.SearchStrategy[Case]:
    """Return cases with these setups, and others of which some operations go on together."""
    plays, can = st.binary(min_size=_SCENE, max_size=_PLAY), {*capabilities.operations}
    others = st.one_of(*(usual[name] for name in ("mirror", "loads") if name in usual))
    return st.one_of(
        st.builds(partial(_scenes, can), setups, plays),
        st.builds(partial(_overlapped, resets="reset" in can), others, plays),
    )


def _overlapped(case: Case, play: bytes, *, resets: bool) -> Case:
    """The same, in which some operations on different requests go on together that came one behind the other; perhaps
    with a reset beside them."""
    dice, ops, rest = chain(play, repeat(0)), list[Op](), [*case.ops]
    while rest:
        most, whose = next(dice) % 5, set[str]()
        for op, args in rest[:most]:
            if op not in requests.BEGUN or args.get("request") in whose:
                break
            whose.add(args.get("request", f"{op} {len(whose)}"))
        together, rest = rest[: len(whose)], rest[len(whose) :]
        if together and resets and next(dice) % 8 == 1:
            together.insert(0, ("reset", {}))
        if len(together) > 1:
            ops += _beside(dice, together)
        else:
            ops += together or [rest.pop(0)]
    return msgspec.structs.replace(case, ops=ops)


def _beside(dice: Iterator[int], together: Sequence[Op]) -> list[Op]:
    """These go on together."""
    begun: list[Op] = [("begin", {"op": op, **args}) for op, args in together]
    return [*begun, (TOGETHER, goes_on(dice, len(begun), long=True))]


def _scenes(can: set[str], setup: Setup, play: bytes) -> Case:
    # Two have room who load the same; and mostly what is stored has, beside what drives it out of the device.
    blocks, host_blocks = setup["blocks"] + 2, setup["host_blocks"]
    setup = {**setup, "blocks": blocks, "host_blocks": host_blocks if host_blocks % 3 == 0 else blocks + host_blocks}
    stage = _Stage(setup, can)
    for at in range(0, len(play) - _SCENE + 1, _SCENE):
        stage.scene(chain(play[at : at + _SCENE], repeat(0)))
    return Case(requests.LEVEL, setup, [op for op in stage.ops if op[0] in can])


class _Stage:
    """Something is stored and driven out; then it is asked for, while others come, go, load and store."""

    def __init__(self, setup: Setup, can: set[str]) -> None:
        self.ops: list[Op] = []
        self._blocks, self._size = setup["blocks"], setup["block_tokens"]
        self._names = [name for name, often in _OFTEN.items() for _ in range(often) if name in can or name == "leave"]
        self._there: dict[str, int] = {}
        """The requests that were not ended, and how many tokens they have."""
        self._count = 0

    def scene(self, dice: Iterator[int]) -> None:
        """Add one."""
        kind = next(dice)
        prompt = [kind % 2] * ((1 + kind // 2 % 2) * self._size + 1)
        # Half of them: one's load ends while another one begins to load the same.
        is_passed_on = kind // 64 % 2 == 1 and "loaded" in self._names
        if kind // 4 % 4 or is_passed_on:
            self._visit(prompt)
            self._visit([2 + self._count] * (self._blocks * self._size))
        for _ in range(max(is_passed_on, kind // 16 % 3)):
            self.ops.append(self._start(prompt))
        if is_passed_on:
            together = [("loaded", {"pick": next(dice) % 3, "failed": 0}), self._start(prompt)]
        else:
            names = [self._names[next(dice) % len(self._names)] for _ in range(2 + kind // 48 % 3)]
            together = [self._one(name, next(dice), prompt) for name in names]
        self.ops += _beside(dice, together)
        self.ops += [("loaded", {"pick": next(dice) % 2, "failed": next(dice) % 4 // 3}) for _ in range(3)]
        while self._there:
            self._visit_ends(next(iter(self._there)))

    def _one(self, name: str, a: int, prompt: list[int]) -> Op:
        if name == "loaded":
            return "loaded", {"pick": a % 3, "failed": (0, 0, 1)[a // 3 % 3]}
        if name == "mirror":
            return "mirror", {"requests": [*self._there][: a % 3]}
        if name == "reset":
            return "reset", {}
        if name != "start" and self._there:
            request = [*self._there][a % len(self._there)]
            if name == "grow" and self._there[request] < self._blocks * self._size:
                self._there[request] += 1
                return "grow", {"request": request, "tokens": [0]}
            del self._there[request]
            return "abort" if name == "abort" else "finish", {"request": request}
        return self._start(prompt if a % 3 else [2 + self._count] * (self._size + a // 3 % 2))

    def _start(self, tokens: list[int]) -> Op:
        request = f"r{self._count}"
        self._count += 1
        prompt = tokens[: self._blocks * self._size]
        self._there[request] = len(prompt)
        return "start", {"request": request, "prompt": prompt}

    def _visit(self, tokens: list[int]) -> None:
        """A request comes, is stored, and goes."""
        self.ops.append(self._start(tokens))
        self._visit_ends(next(reversed(self._there)))

    def _visit_ends(self, request: str) -> None:
        del self._there[request]
        self.ops += [("mirror", {"requests": [request]}), ("finish", {"request": request})]
