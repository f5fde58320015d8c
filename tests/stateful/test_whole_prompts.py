"""A manager without chunked prefill: `in_parts = False` asks it for whole prompts only."""

from __future__ import annotations

from typing import Any

import pytest

from kvproof.testing import BlockManager, Request
from kvproof.testing.capable import capabilities
from kvproof.testing.fuzzing import fuzz_manager

from . import async_faults, pool_faults

import test_async_pool  # isort: skip # these put their folders on the path
import test_loads  # isort: skip
import test_pool  # isort: skip

assert async_faults.FAULTS
assert pool_faults.FAULTS


class _AtOnce(test_pool.TestPool):
    """All of a prompt has blocks, and is found, as soon as it is let in: as if one forward pass computed it."""

    def allocate(self, request: Request, tokens: int) -> list[int] | None:
        table = super().allocate(request, len(request.tokens))
        if table is not None:
            self.pool.computed(request.name, request.tokens, request.salt)
        return table


class _Whole(_AtOnce):
    in_parts = False


class _WholeAsync(test_async_pool.TestAsyncPool):
    in_parts = False


class _WholeLoads(test_loads.TestLoads):
    in_parts = False


class _Asked(_Whole):
    """It counts the forward passes that end before all tokens of their request."""

    shorter = 0

    def allocate(self, request: Request, tokens: int) -> list[int] | None:
        type(self).shorter += tokens < len(request.tokens)
        return super().allocate(request, tokens)


def test_what_is_registered_before_it_is_computed_is_told_where_prompts_come_in_parts() -> None:
    fuzzed = fuzz_manager(_AtOnce, seconds=30, findings=1)
    assert "P6" in fuzzed.broken, fuzzed.broken


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", [_Whole, _WholeAsync, _WholeLoads])
def test_who_is_asked_for_whole_prompts_only_is_right(kind: type[BlockManager], seed: int) -> None:
    assert fuzz_manager(kind, examples=150, seconds=40, seed=seed).broken == {}


def test_nothing_is_computed_in_parts_then() -> None:
    assert fuzz_manager(_Asked, examples=300, seconds=30).broken == {}
    assert _Asked.shorter == 0


@pytest.mark.parametrize(
    ("kind", "steps"),
    [(test_pool.TestPool, True), (_Whole, False), (_WholeLoads, True)],
)
def test_a_later_step_is_there_for_what_a_load_did_not_bring(kind: type[Any], steps: bool) -> None:
    assert ("step" in capabilities(kind)["operations"]) == steps
