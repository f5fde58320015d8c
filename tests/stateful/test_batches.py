"""Several requests share a forward pass: all have their blocks before the first of them is processed."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kvproof.judge.record import BATCH
from kvproof.testing import BlockManager, Request, assert_played
from kvproof.testing.capable import capabilities
from kvproof.testing.fuzzing import fuzz_manager

from . import async_faults, pool_faults

import test_async_pool  # isort: skip # these put their folders on the path
import test_pool  # isort: skip

assert async_faults.FAULTS
assert pool_faults.FAULTS


class _TakesWhenComputed(test_pool.TestPool):
    """Room is counted when a request is given its blocks, and they are taken when it is computed: two get the same."""

    def __init__(self, blocks: int, block_tokens: int) -> None:
        super().__init__(blocks, block_tokens)
        self.promised: dict[str, int] = {}

    def allocate(self, request: Request, tokens: int) -> list[int] | None:
        pool, name = self.pool, request.name
        held = pool.tables.get(name, request.found)
        idle = sum(pool.blocks[number].ref_cnt == 0 for number in held)
        missing = pool.need(tokens) - len(held)
        if missing > pool.num_free - idle:
            return None
        if name not in pool.tables:
            pool.admit(name, request.found, len(held) * pool.block_tokens)
        self.promised[name] = missing
        return [*held, *[*pool.free][: max(0, missing)]]

    def commit(self, request: Request, tokens: int) -> None:
        self.pool.extend(request.name, tokens)
        super().commit(request, tokens)


class _KnowsTheLastOne(test_pool.TestPool):
    """What is computed is taken to be of the request that was given blocks last."""

    last: str

    def allocate(self, request: Request, tokens: int) -> list[int] | None:
        self.last = request.name
        return super().allocate(request, tokens)

    def commit(self, request: Request, tokens: int) -> None:
        self.pool.computed(self.last, request.tokens[:tokens], request.salt)


class _OneByOne(_KnowsTheLastOne):
    """It is never asked to give blocks to another request before that."""

    overlaps = False


class _KeepsFirst(test_pool.TestPool):
    """Of what is computed twice in one forward pass it keeps one block, and the other request goes on with that."""

    def __init__(self, blocks: int, block_tokens: int) -> None:
        super().__init__(blocks, block_tokens)
        self.had_copies = 0

    def commit(self, request: Request, tokens: int) -> None:
        super().commit(request, tokens)
        pool, table = self.pool, self.pool.tables[request.name]
        for at, key in enumerate(pool.keys(request.tokens[:tokens], request.salt)):
            first = pool.cached.get(key)
            if first is not None and first != table[at]:
                pool.touch(pool.blocks[first])
                pool.give_back(pool.blocks[table[at]])
                table[at] = first

    def table(self, request: Request) -> list[int]:
        return self.pool.tables[request.name]


class _RegistersWhatIsToCome(test_pool.TestPool):
    """What is to be computed can be found already: whoever finds it reads it in the same forward pass, or later."""

    cuts = False

    def allocate(self, request: Request, tokens: int) -> list[int] | None:
        table = super().allocate(request, tokens)
        if table is not None:
            self.pool.computed(request.name, request.tokens[:tokens], request.salt)
        return table


class _Cut(_RegistersWhatIsToCome):
    """The same where results are not waited for: what is computed all the same is found too."""

    cuts = True


class _BreaksWhenCut(test_pool.TestPool):
    """Who gives up blocks before they are computed leaves the last one held."""

    def free(self, request: Request) -> None:
        table = self.pool.tables[request.name]
        if len(table) > self.pool.need(request.computed):
            table.pop()
        super().free(request)


class _NeverCut(_BreaksWhenCut):
    cuts = False


TWICE: list[tuple[str, dict[str, Any]]] = [
    ("begin", {"op": "start", "request": "r0", "prompt": [0, 0]}),
    ("begin", {"op": "start", "request": "r1", "prompt": [0, 0]}),
    ("batch", {}),
]


@pytest.mark.parametrize("seed", range(3))
def test_what_only_a_shared_forward_pass_breaks_is_told(seed: int) -> None:
    fuzzed = fuzz_manager(_KnowsTheLastOne, seconds=30, seed=seed, findings=1)
    assert {"P6", "L2"} & {*fuzzed.broken}
    text = next(iter(fuzzed.broken.values()))[0]
    assert re.search("it needs: .*several in a forward pass", text)
    assert "says overlaps = False" in text


@pytest.mark.parametrize("seed", range(3))
def test_blocks_that_two_are_promised_are_told(seed: int) -> None:
    fuzzed = fuzz_manager(_TakesWhenComputed, seconds=30, seed=seed)
    assert {"P2", "P6", "P7"} & {*fuzzed.broken}
    assert any("several in a forward pass" in finding.needs for finding in fuzzed.report.findings)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", [_OneByOne, _KeepsFirst, _RegistersWhatIsToCome, _Cut, _NeverCut])
def test_who_keeps_the_rules_with_what_is_asked_of_it_is_silent(kind: type[BlockManager], seed: int) -> None:
    assert fuzz_manager(kind, examples=200, seconds=40, seed=seed).broken == {}


def test_who_must_not_be_cut_says_so() -> None:
    broken = fuzz_manager(_BreaksWhenCut, seconds=30, findings=1).broken
    assert "says cuts = False" in next(iter(broken.values()))[0]


def test_requests_of_one_forward_pass_compute_the_same_prefix_twice() -> None:
    assert_played(test_pool.TestPool, {"blocks": 4, "block_tokens": 2}, TWICE)
    with pytest.raises(AssertionError, match=r"start r0=true, start r1=true"):
        assert_played(_TakesWhenComputed, {"blocks": 4, "block_tokens": 2}, TWICE)


def test_managers_of_one_task_are_asked_for_batches_and_others_for_calls_that_overlap() -> None:
    can = [
        {*capabilities(kind)["operations"]} for kind in (test_pool.TestPool, _OneByOne, test_async_pool.TestAsyncPool)
    ]
    assert [BATCH in each for each in can] == [True, False, False]
    assert ["begin" in each for each in can] == [True, False, True]
