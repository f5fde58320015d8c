"""Managers that cache what was computed later than it was: they say when at the latest, and are held to it."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from kvproof.testing import BlockManager, Request
from kvproof.testing.fuzzing import fuzz_manager

from . import pool_faults

import test_pool  # isort: skip # its folder is on the path by now

assert pool_faults.FAULTS


class _AtItsEnd(test_pool.TestPool):
    """All is cached when a request gives its blocks back."""

    dialect: ClassVar = {**test_pool.TestPool.dialect, "caches": "ended"}

    def commit(self, request: Request, tokens: int) -> None:
        """Nothing yet."""

    def free(self, request: Request) -> None:
        self.pool.computed(request.name, self.all_of(request), request.salt)
        super().free(request)

    def all_of(self, request: Request) -> list[int]:
        """What is cached then."""
        return request.tokens[: request.computed]


class _PromptsAtOnce(_AtItsEnd):
    """A prompt is cached when all of it is computed, the rest when its request gives its blocks back."""

    dialect: ClassVar = {**test_pool.TestPool.dialect, "caches": "prompts"}

    def __init__(self, blocks: int, block_tokens: int) -> None:
        super().__init__(blocks, block_tokens)
        self.prompts: dict[str, int] = {}

    def commit(self, request: Request, tokens: int) -> None:
        if tokens >= self.prompts.setdefault(request.name, len(request.tokens)):
            self.pool.computed(request.name, request.tokens[: self.prompts[request.name]], request.salt)


class _Sometimes(_AtItsEnd):
    """It caches at once, where the number of tokens is odd: sooner than it has to."""

    def commit(self, request: Request, tokens: int) -> None:
        if tokens % 2:
            self.pool.computed(request.name, request.tokens[:tokens], request.salt)


class _NotWhatWasSampled(_PromptsAtOnce):
    """What is sampled is never cached."""

    def all_of(self, request: Request) -> list[int]:
        return []


class _LastBlockIsLost(_AtItsEnd):
    """One block less is cached than there could be."""

    def all_of(self, request: Request) -> list[int]:
        return super().all_of(request)[: -self.pool.block_tokens]


class _PromptsTooLate(_AtItsEnd):
    """It says that prompts are cached at once."""

    dialect = _PromptsAtOnce.dialect


class _ShortOnes(_AtItsEnd):
    """Who has sampled nothing leaves nothing behind."""

    def __init__(self, blocks: int, block_tokens: int) -> None:
        super().__init__(blocks, block_tokens)
        self.first: dict[str, int] = {}

    def commit(self, request: Request, tokens: int) -> None:
        self.first.setdefault(request.name, len(request.tokens))

    def all_of(self, request: Request) -> list[int]:
        return super().all_of(request) if len(request.tokens) > self.first.get(request.name, 0) else []


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", [_AtItsEnd, _PromptsAtOnce, _Sometimes])
def test_who_caches_in_time_is_right(kind: type[BlockManager], seed: int) -> None:
    assert fuzz_manager(kind, examples=400, seconds=40, seed=seed).broken == {}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", [_NotWhatWasSampled, _LastBlockIsLost, _PromptsTooLate, _ShortOnes])
def test_who_caches_less_is_told(kind: type[BlockManager], seed: int) -> None:
    assert "P14 (nothing less)" in fuzz_manager(kind, seconds=30, seed=seed, findings=1).broken


@pytest.mark.parametrize("kind", [_AtItsEnd, _PromptsAtOnce])
def test_who_does_not_say_that_it_caches_later_is_told(kind: type[Any]) -> None:
    at_once = type(kind.__name__, (kind,), {"dialect": test_pool.TestPool.dialect})
    assert "P14 (nothing less)" in fuzz_manager(at_once, seconds=30, findings=1).broken
