"""A watermark: blocks that a manager keeps back are left by whoever is let in."""

from __future__ import annotations

from typing import Any

import pytest

from kvproof.testing import BlockManager, Request
from kvproof.testing.fuzzing import fuzz_manager

from . import async_faults
from .test_holders import _KeepsOneBack

import test_async_pool  # isort: skip # async_faults puts its folder on the path
import test_pool  # isort: skip
from async_pool import AsyncPool  # isort: skip

assert async_faults.FAULTS


class _ForItsGrowth(_KeepsOneBack):
    """Who runs already may have it."""

    def allocate(self, request: Request, tokens: int) -> Any:
        is_new = request.name not in self.pool.tables
        return super().allocate(request, tokens) if is_new else test_pool.TestPool.allocate(self, request, tokens)


class _KeepsNothing(_KeepsOneBack):
    """Nothing is kept back."""

    def allocate(self, request: Request, tokens: int) -> Any:
        return test_pool.TestPool.allocate(self, request, tokens)


class _ForgetsHits(_KeepsOneBack):
    """What was found, and is held by nobody, counts as free when it is taken."""

    def allocate(self, request: Request, tokens: int) -> Any:
        missing = self.pool.need(tokens) - len(self.pool.tables.get(request.name, request.found))
        room = missing < self.pool.num_free or not missing
        return test_pool.TestPool.allocate(self, request, tokens) if room else None


class _KeepsOneOfTwo(_KeepsOneBack):
    """It says two, and keeps one."""

    kept_back = 2

    def __init__(self, blocks: int, block_tokens: int) -> None:
        super().__init__(blocks + 1, block_tokens)


class _OnlyAtFirst(_KeepsOneBack):
    """Who was preempted comes back without it."""

    def __init__(self, blocks: int, block_tokens: int) -> None:
        super().__init__(blocks, block_tokens)
        self.known: set[str] = set()

    def allocate(self, request: Request, tokens: int) -> Any:
        if request.name in self.known:
            return test_pool.TestPool.allocate(self, request, tokens)
        table = super().allocate(request, tokens)
        if table is not None:
            self.known.add(request.name)
        return table


class _OneBack(AsyncPool):
    """The last free block is left by whoever is let in."""

    def hold(self, name: str, found: list[int], most: int) -> bool:
        idle = sum(not self.refs[block] for block in found)
        if self.need(most) - len(found) >= len(self.free) - idle:
            return False
        return super().hold(name, found, most)


class _LooksTooEarly(_OneBack):
    """Whether it would be left is asked before something is waited for."""

    async def admit(self, name: str, tokens: Any, most: int) -> int | None:
        if self.need(most) >= len(self.free):
            return None
        await self.answer()
        async with self.lock:
            found = await self.find(tokens)
            most = max(most, len(found) * self.block_tokens)
            return len(found) * self.block_tokens if AsyncPool.hold(self, name, found, most) else None


class _Async(test_async_pool.TestAsyncPool):
    kept_back = 1
    kind = _OneBack

    def __init__(self, blocks: int, block_tokens: int) -> None:
        super().__init__(blocks + 1, block_tokens)


@pytest.mark.parametrize(
    "kind",
    [
        _KeepsNothing,
        _ForgetsHits,
        _KeepsOneOfTwo,
        _OnlyAtFirst,
        type("LooksTooEarly", (_Async,), {"kind": _LooksTooEarly}),
    ],
)
def test_who_gives_a_watermark_away_is_told(kind: type[BlockManager]) -> None:
    fuzzed = fuzz_manager(kind, seconds=30, findings=1)
    assert "P7" in fuzzed.broken, fuzzed.broken
    assert "kept back" in fuzzed.broken["P7"][0]


@pytest.mark.parametrize("kind", [_KeepsOneBack, _ForItsGrowth, _Async])
def test_who_keeps_it_is_not(kind: type[BlockManager]) -> None:
    assert fuzz_manager(kind, examples=250, seconds=60).broken == {}
