"""Block managers in this process: planted faults are found by the rule that names them, and nothing else is found."""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec
import pytest

from kvproof.engines.build import StoreError
from kvproof.engines.driver import conformance, requests
from kvproof.engines.driver.command import Driver
from kvproof.engines.session import Session
from kvproof.engines.verdicts import close, verdict
from kvproof.errors import UsageError
from kvproof.judge.record import Case
from kvproof.judge.sight import RULES
from kvproof.testing import BlockManager, Refused, Request, assert_fuzzed, assert_lockstep, assert_played, fuzzing
from kvproof.testing.fuzzing import fuzz_manager
from kvproof.testing.session import InProcess
from kvproof.testing.telling import regression_test, story

from . import pool_faults, prefix_tree
from .pool_faults import FAULTS, EarlyRegistration

import test_pool as example  # isort: skip # pool_faults puts its folder on the path
from pool import Block, Pool  # isort: skip


class _Early(example.TestPool):
    """It tells its pool of a request's tokens when blocks are allocated."""

    pool: EarlyRegistration

    def allocate(self, request, tokens):
        table = super().allocate(request, tokens)
        if table is not None:
            self.pool.allocated(request.name, request.tokens, request.salt)
        return table


def driven(pool: type[Pool]) -> type[example.TestPool]:
    base = _Early if pool is EarlyRegistration else example.TestPool
    return type(pool.__name__, (base,), {"kind": pool})


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_planted_fault_is_found_by_the_rule_that_names_it(fault: type[Pool]) -> None:
    # What a stale entry of the map (P5) does to who finds it (P6) is no cause of its own.
    fuzzed = fuzz_manager(driven(fault), seconds=20, findings=1)
    assert FAULTS[fault] in fuzzed.broken, fuzzed.broken


def test_the_right_pool_stays_silent() -> None:
    fuzzed = fuzz_manager(example.TestPool, examples=300, seconds=60)
    assert fuzzed.broken == {}
    assert fuzzed.report.examples >= 300
    assert fuzzed.unjudged == {"P4": "there is no null_block", "E3": "there is no take_events() with tokens"}
    assert fuzzed.report.activity.tight_hits
    assert fuzzed.report.activity.preemptions


class _FreesWhatIsComputed(example.TestPool):
    """What a request was given for a step whose result never came stays held."""

    def free(self, request: Request) -> None:
        del self.pool.tables[request.name][self.pool.need(request.computed) :]
        super().free(request)


class _FreesAndSaysNothing(_FreesWhatIsComputed):
    """The same, and what it holds shows in what others are refused."""

    ref_counts: Any = BlockManager.ref_counts
    free_queue: Any = BlockManager.free_queue
    num_free: Any = BlockManager.num_free
    cached: Any = BlockManager.cached
    block_keys: Any = BlockManager.block_keys
    take_events: Any = BlockManager.take_events
    dialect: ClassVar = {"keep": "all"}


@pytest.mark.parametrize(("kind", "rule"), [(_FreesWhatIsComputed, "P2"), (_FreesAndSaysNothing, "L1")])
def test_who_goes_before_the_result_of_a_step_gives_back_what_that_was_given(
    kind: type[BlockManager], rule: str
) -> None:
    assert rule in fuzz_manager(kind, examples=1000, seconds=60, findings=1).broken


def test_a_step_that_is_cut_short_and_refused_changes_nothing() -> None:
    operations: list[tuple[str, dict[str, Any]]] = [
        ("start", {"request": "r0", "prompt": [0]}),
        ("start", {"request": "r1", "prompt": [1]}),
        ("cut", {"request": "r0", "tokens": [0, 0, 0, 0]}),
    ]
    unseen = {name: getattr(BlockManager, name) for name in ("ref_counts", "free_queue", "num_free")}
    more = {**unseen, "dialect": {"keep": "all"}, "table": lambda self, request: self.pool.tables[request.name]}
    kind = type("Partial", (driven(pool_faults.PartialAllocation),), more)
    with pytest.raises(AssertionError, match="cut is refused, and the block table of r0 changes"):
        assert_played(kind, {"blocks": 3, "block_tokens": 2}, operations)


class _RegistersAtOnce(example.TestPool):
    """What is about to be computed is cached when its blocks are given, as where a forward pass follows in any case."""

    commit: Any = BlockManager.commit

    def allocate(self, request: Request, tokens: int) -> list[int] | None:
        table = super().allocate(request, tokens)
        if table is not None:
            self.pool.computed(request.name, request.tokens[:tokens], request.salt)
        return table


def test_a_forward_pass_whose_result_never_comes_has_written_all_the_same() -> None:
    fuzzed = fuzz_manager(_RegistersAtOnce, examples=200, seconds=60)
    assert fuzzed.broken == {}
    assert fuzzed.report.coverage["cut"]


class _ShowsIdle(example.TestPool):
    """It shows those entries alone whose blocks nobody holds, and tells nothing else of them."""

    dialect: ClassVar = {"keep": "all"}
    block_keys: Any = BlockManager.block_keys
    take_events: Any = BlockManager.take_events

    def cached(self):
        blocks = self.pool.blocks
        return {key: block for key, block in self.pool.cached.items() if not blocks[block].ref_cnt}


def test_what_lookups_find_and_the_map_does_not_show_is_told() -> None:
    found = fuzz_manager(_ShowsIdle, examples=200, seconds=60, findings=1).broken
    assert {*found} == {"P5"}
    assert "which the prefix map does not have" in found["P5"][0]


class _EvictsNothing(example.TestPool):
    """Its blocks are forgotten when they are taken, and never before."""

    evict: Any = BlockManager.evict


def test_what_stays_below_a_block_that_goes_must_be_found_when_that_comes_again() -> None:
    kind = type("ForgetsBelow", (_EvictsNothing,), {"kind": pool_faults.ForgetsBelow})
    assert {*fuzz_manager(kind, findings=1).broken} == {"P14 (nothing less)"}
    assert fuzz_manager(_EvictsNothing).broken == {}


def test_the_story_of_a_request_that_cannot_go_on_says_who_refused_it() -> None:
    operations: list[tuple[str, dict[str, Any]]] = [
        ("start", {"request": "r0", "prompt": [0]}),
        ("start", {"request": "r1", "prompt": [0, 0, 0]}),
        ("drain", {}),
    ]
    with pytest.raises(AssertionError, match=r"r1 was let in and refused more blocks, .*: allocate\(\) answered None"):
        assert_played(driven(pool_faults.AsksForAll), {"blocks": 2, "block_tokens": 2}, operations)


@pytest.mark.parametrize(("prompt", "grown"), [([0], [0]), ([0, 0], [0])])
def test_a_block_that_is_evicted_under_its_holder_may_be_cached_again_and_a_copy_of_it_not(
    prompt: list[int], grown: list[int]
) -> None:
    """It is filled behind the evict, or noted once more by the next commit. Who computes the same then is a copy."""
    operations: list[tuple[str, dict[str, Any]]] = [
        ("start", {"request": "r0", "prompt": prompt}),
        ("evict", {"block": 0}),
        ("grow", {"request": "r0", "tokens": grown}),
        ("finish", {"request": "r0"}),
        ("start", {"request": "r1", "prompt": [0, 0]}),
        ("finish", {"request": "r1"}),
        ("start", {"request": "r2", "prompt": [1, 1, 1, 1]}),
        ("finish", {"request": "r2"}),
        ("start", {"request": "r3", "prompt": [0, 0, 0]}),
    ]
    assert_played(example.TestPool, {"blocks": 3, "block_tokens": 2}, operations)


def test_of_two_blocks_with_one_content_either_may_be_the_cached_one() -> None:
    # r3 has a copy of what r1 computed. When that has gone it is r3's that the pool registers, and not r4's.
    operations: list[tuple[str, dict[str, Any]]] = [
        ("start", {"request": "r1", "prompt": [2, 2]}),
        ("start", {"request": "r3", "prompt": [2, 2]}),
        ("finish", {"request": "r1"}),
        ("start", {"request": "fills", "prompt": [5] * 8}),
        ("start", {"request": "takes", "prompt": [4]}),
        ("finish", {"request": "takes"}),
        ("grow", {"request": "r3", "tokens": [1, 1]}),
        ("finish", {"request": "fills"}),
        ("start", {"request": "r4", "prompt": [2, 2]}),
        ("finish", {"request": "r3"}),
        ("start", {"request": "wide", "prompt": [7] * 10}),
        ("finish", {"request": "wide"}),
        ("start", {"request": "asks", "prompt": [2, 2, 9]}),
    ]
    assert_played(example.TestPool, {"blocks": 6, "block_tokens": 2}, operations)
    small = type("Small", (example.TestPool,), {"block_sizes": (1,)})
    assert fuzz_manager(small, examples=1500, seconds=60).broken == {}


class _ForgetsBoth(Pool):
    """A block of which there is a copy goes out of the map when that is registered."""

    def register(self, block: Block, key: bytes) -> None:
        if block.key is None and key in self.cached and self.cached[key] != block.number:
            self.forget(self.blocks[self.cached[key]])
        else:
            super().register(block, key)


def test_while_both_blocks_are_there_one_of_them_is_found() -> None:
    assert "P14 (nothing less)" in fuzz_manager(driven(_ForgetsBoth), seconds=20, findings=1).broken


class _ShowsNoMap(BlockManager):
    """It can be emptied, and tells nothing of what it has cached."""

    kind = Pool
    pool: Pool
    tenants = example.TestPool.tenants
    __init__, lookup, allocate = example.TestPool.__init__, example.TestPool.lookup, example.TestPool.allocate
    commit, free = example.TestPool.commit, example.TestPool.free
    evict, reset = example.TestPool.evict, example.TestPool.reset


class _KeepsAll(Pool):
    def reset(self):
        return not any(block.ref_cnt for block in self.blocks)


class _KeepsEvicted(_ShowsNoMap):
    def evict(self, block):
        pass


class _KeepsKeys(Pool):
    """Behind a reset its blocks have their keys still, under which others are cached when they lose them."""

    def reset(self):
        if any(block.ref_cnt for block in self.blocks):
            return False
        self.cached.clear()
        return True

    def forget(self, block):
        if block.key is not None:
            self.cached.pop(block.key, None)
            block.key = None


@pytest.mark.parametrize(
    ("kind", "rule"),
    [
        (type("KeepsAll", (_ShowsNoMap,), {"kind": _KeepsAll}), "O10"),
        (_KeepsEvicted, "P11"),
        (type("KeepsKeys", (_ShowsNoMap,), {"kind": _KeepsKeys}), "P14 (nothing less)"),
    ],
)
def test_what_is_forgotten_shows_in_what_lookups_find(kind: type[BlockManager], rule: str) -> None:
    assert {*fuzz_manager(kind, examples=None, seconds=20, findings=1).broken} == {rule}
    right = fuzz_manager(_ShowsNoMap)
    assert right.broken == {}
    assert not {"O10", "P11"} & {*right.unjudged}


class _Shares(Pool):
    """Who computed what is cached in another block goes on with that one, and gives his own back."""

    def computed(self, name, tokens, salt=None):
        for i, key in enumerate(self.keys(tokens, salt)):
            own, other = self.blocks[self.tables[name][i]], self.cached.get(key)
            if other is not None and other != own.number and own.key is None:
                self.touch(self.blocks[other])
                self.give_back(own)
                self.tables[name][i] = other
        super().computed(name, tokens, salt)


class _SharesBlocks(example.TestPool):
    kind = _Shares

    def allocate(self, request, tokens):
        table = super().allocate(request, tokens)
        return None if table is None else [*table]

    def table(self, request):
        return self.pool.tables[request.name]


def test_a_block_that_is_given_back_for_an_equal_one_was_taken_from_the_head_all_the_same() -> None:
    assert fuzz_manager(_SharesBlocks, examples=200, seconds=60).broken == {}


def test_who_goes_on_with_an_equal_block_takes_it_from_nobody() -> None:
    """It stays cached, and what a third one computes is a second copy: gone with its holder, and not to be found."""
    operations: list[tuple[str, dict[str, Any]]] = [
        ("start", {"request": "r0", "prompt": [0]}),
        ("start", {"request": "r1", "prompt": [0]}),
        *(("start", {"request": name, "prompt": [2, 2]}) for name in ("r2", "r3", "r4")),
        ("evict", {"block": 2}),
        ("start", {"request": "r5", "prompt": [2, 2, 0]}),
        ("drain", {}),
    ]
    assert_played(_SharesBlocks, {"blocks": 4, "block_tokens": 2}, operations)


class _Windows(Pool):
    """A sliding window of four tokens: what lies behind it is given back, and block 0 stands for it."""

    behind = 3

    def lookup(self, tokens, salt=None):
        keys = self.keys(tokens, salt)[: self.most(tokens)]
        for n in range(len(keys), 0, -1):
            first = max(0, n * self.block_tokens - 3) // self.block_tokens
            if all(key in self.cached for key in keys[first:n]):
                return [0] * first + [self.cached[key] for key in keys[first:n]]
        return []

    def register(self, block, key):
        if block.number:
            super().register(block, key)

    def computed(self, name, tokens, salt=None):
        super().computed(name, tokens, salt)
        table = self.tables[name]
        for i in range(max(0, len(tokens) - self.behind) // self.block_tokens):
            if table[i]:
                self.give_back(self.blocks[table[i]])
                table[i] = 0


class _Window(example.TestPool):
    window, null_block = 4, 0
    dialect: ClassVar = {"keep": "all"}
    kind = _Windows

    def __init__(self, blocks: int, block_tokens: int) -> None:
        super().__init__(blocks + 1, block_tokens)
        del self.pool.free[0]
        self.pool.num_free -= 1
        self.pool.blocks[0].ref_cnt = 1 << 20

    def allocate(self, request, tokens):
        table = super().allocate(request, tokens)
        return None if table is None else [*table]

    def free(self, request):
        table = self.pool.tables[request.name]
        table[:] = [block for block in table if block]
        super().free(request)

    def table(self, request):
        return self.pool.tables[request.name]

    def reset(self):
        if self.pool.tables:
            return False
        for block in self.pool.blocks:
            self.pool.forget(block)
        return True


class _GivesUpFirst(_Windows):
    """What lies behind the window it gives back when a request wants more, whether or not that gets it."""

    def computed(self, name, tokens, salt=None):
        Pool.computed(self, name, tokens, salt)
        self.behind_it[name] = len(tokens)

    def __init__(self, blocks, block_tokens):
        super().__init__(blocks, block_tokens)
        self.behind_it: dict[str, int] = {}

    def extend(self, name, tokens):
        table = self.tables[name]
        for i in range(min(max(0, self.behind_it.get(name, 0) - self.behind) // self.block_tokens, len(table))):
            if table[i]:
                self.give_back(self.blocks[table[i]])
                table[i] = 0
        return super().extend(name, tokens)

    def release(self, name):
        self.behind_it.pop(name, None)
        super().release(name)


class _TakesWhatThereIs(_GivesUpFirst):
    """Refused more blocks than there are, a request keeps the first of them."""

    def extend(self, name, tokens):
        done = super().extend(name, tokens)
        if not done and self.num_free:
            self.tables[name].append(self.take())
        return done


class _WholePrefix(_Windows):
    """It finds nothing behind a block that has gone, whether or not anybody attends to that."""

    def lookup(self, tokens, salt=None):
        return Pool.lookup(self, tokens, salt)


def test_a_sliding_window_is_judged_by_what_is_in_it() -> None:
    assert fuzz_manager(_Window, examples=300, seconds=60).broken == {}
    ordered = {"keep": "all", "take": "head", "free": "append"}
    unjudged = fuzz_manager(type("Ordered", (_Window,), {"dialect": ordered}), examples=100, seconds=60).unjudged
    assert {unjudged[rule] for rule in ("P7", "P10")} == {"it is judged of one group of full attention alone"}
    assert fuzz_manager(type("Window", (_Window,), {"kind": _GivesUpFirst}), examples=300, seconds=60).broken == {}
    early = type("Early", (_Windows,), {"behind": 2})
    faults = {early: "P6", _WholePrefix: "P14 (nothing less)", _TakesWhatThereIs: "P7"}
    for fault, rule in faults.items():
        assert rule in fuzz_manager(type("Window", (_Window,), {"kind": fault}), seconds=20, findings=1).broken
    with pytest.raises(AssertionError, match=r"what lies behind a sliding window says so: window ="):
        assert_fuzzed(type("SaysNothing", (_Window,), {"window": None}))


def test_a_copy_that_takes_the_place_of_the_first_one_is_told_when_it_goes() -> None:
    replaces = type("Replaces", (_EvictsNothing,), {"kind": pool_faults.LaterCopyReplaces})
    for seed in range(3):
        fuzzed = fuzz_manager(replaces, examples=None, seconds=30, findings=1, seed=seed)
        assert [*fuzzed.broken] == ["P14 (nothing less)"], fuzzed.broken


def test_a_window_whose_blocks_go_too_early_is_told_what_the_null_block_is() -> None:
    early = type("Early", (_Window,), {"kind": type("", (_Windows,), {"behind": 2})})
    operations: list[tuple[str, dict[str, object]]] = [
        ("start", {"request": "r0", "prompt": [0, 0, 0, 0]}),
        ("grow", {"request": "r0", "tokens": [0]}),
    ]
    with pytest.raises(AssertionError, match=r"(?s)block 0 is the null block.*window of 4 tokens") as told:
        assert_played(early, {"blocks": 3, "block_tokens": 2}, operations)
    assert "says so: window =" not in str(told.value)


class _RegistersAll(_Windows):
    register = Pool.register


class _CachesTheNullBlock(_Window):
    """What has left the window is registered with the rest of its request: at the null block."""

    kind = _RegistersAll


def test_a_null_block_that_is_cached_is_told_as_such() -> None:
    operations: list[tuple[str, dict[str, object]]] = [
        ("start", {"request": "r0", "prompt": [0] * 6}),
        ("start", {"request": "r1", "prompt": [1] * 6}),
        ("grow", {"request": "r0", "tokens": [0]}),
    ]
    with pytest.raises(AssertionError, match=r"block 0 is the null block, .* never cached \(P4\)"):
        assert_played(_CachesTheNullBlock, {"blocks": 5, "block_tokens": 2}, operations)


class _LosesWhatItFreed(Pool):
    """A block that is given back can be found no more."""

    def give_back(self, block: Block) -> None:
        super().give_back(block)
        self.forget(block)


@pytest.mark.parametrize("shows", [example.TestPool, _ShowsNoMap])
def test_of_what_is_not_found_again_it_is_told_where_it_was_computed(shows: type[BlockManager]) -> None:
    kind = type("Loses", (shows,), {"kind": _LosesWhatItFreed})
    operations: list[tuple[str, dict[str, object]]] = [
        ("start", {"request": "r0", "prompt": [0, 0, 1, 1]}),
        ("finish", {"request": "r0"}),
        ("start", {"request": "r1", "prompt": [0, 0, 2]}),
    ]
    with pytest.raises(AssertionError, match=r"(?s)history of key 0.*history of block 0 \(device\):\n.*r0 writes"):
        assert_played(kind, {"blocks": 4, "block_tokens": 2}, operations)


class _ForgetsAHolder(Pool):
    def touch(self, block: Block) -> None:
        if block.ref_cnt == 0:
            super().touch(block)


class _Leaves(Pool):
    def release(self, name: str) -> None:
        self.tables[name].pop()
        super().release(name)


@pytest.mark.parametrize(
    ("more", "who"),
    [
        ({"kind": _ForgetsAHolder}, "it is held by the table of r0, the table of r1"),
        ({"dialect": {"cached": "held"}}, "it is held by the table of r0, the prefix map"),
        ({"kind": _Leaves}, "nobody is seen to hold it"),
    ],
)
def test_who_holds_a_block_that_is_miscounted_is_told(more: dict[str, object], who: str) -> None:
    operations: list[tuple[str, dict[str, object]]] = [
        ("start", {"request": "r0", "prompt": [0, 0]}),
        ("start", {"request": "r1", "prompt": [0, 0, 1]}),
        ("finish", {"request": "r1"}),
    ]
    with pytest.raises(AssertionError, match=rf"P2 ref_cnt and holders.*\n *what: block .*\n *{who}\n"):
        assert_played(type("Miscounts", (example.TestPool,), more), {"blocks": 4, "block_tokens": 2}, operations)


class _ForgetsBeside(pool_faults.ForgetsBelow):
    """What stands beside a block that is forgotten goes with it too."""

    def forget(self, block: Block) -> None:
        key = block.key
        super().forget(block)
        above = None if key is None else self.above.get(key)
        for other in self.blocks if above is not None else ():
            if other.key is not None and self.above.get(other.key) == above:
                super().forget(other)


class _ReplacesByCopies(pool_faults.ForgetsBelow):
    """A copy takes the place of what is cached, and when that is forgotten, so is the copy."""

    def __init__(self, blocks: int, block_tokens: int) -> None:
        super().__init__(blocks, block_tokens)
        self.had: dict[int, int] = {}

    def register(self, block: Block, key: bytes) -> None:
        before = self.cached.get(key)
        if block.key is None and before is not None and self.blocks[before].ref_cnt:
            self.cached[key], block.key, self.had[before] = block.number, key, block.number
            self.blocks[before].key = None
        super().register(block, key)

    def take(self) -> int:
        number = super().take()
        copy = self.had.pop(number, None)
        if copy is not None:
            self.forget(self.blocks[copy])
        return number


@pytest.mark.parametrize("shows", [example.TestPool, _ShowsNoMap])
def test_in_a_tree_of_blocks_what_is_below_one_that_goes_may_go_too(shows: type[BlockManager]) -> None:
    def fuzzed(kind: type[Pool], keep: str) -> set[str]:
        driven = type("Tree", (shows,), {"kind": kind, "dialect": {"keep": keep}})
        return {*fuzz_manager(driven, examples=300, seconds=30, findings=1).broken}

    assert fuzzed(pool_faults.ForgetsBelow, "tree") == set()
    assert "P14 (nothing less)" in fuzzed(pool_faults.ForgetsBelow, "all")
    for fault in (_LosesWhatItFreed, _ForgetsBoth, _ReplacesByCopies, _ForgetsBeside):
        assert "P14 (nothing less)" in fuzzed(fault, "tree"), fault


class _ForgetsWhenItRefuses(Pool):
    def extend(self, name: str, tokens: int) -> bool:
        done = super().extend(name, tokens)
        if not done and self.free:
            self.forget(self.blocks[next(reversed(self.free))])
        return done


@pytest.mark.parametrize(
    ("fault", "rule", "what", "thing"),
    [
        (pool_faults.LeakyRefusal, "P7", "reference counts change", r"block \d+ \(device\)"),
        (_ForgetsWhenItRefuses, "P15", "the prefix map changes", r"key \d+"),
    ],
)
def test_what_a_refusal_changes_is_told_with_its_history(fault: type[Pool], rule: str, what: str, thing: str) -> None:
    kind = type("Wrong", (example.TestPool,), {"kind": fault})
    told = fuzz_manager(kind, examples=None, seconds=20, findings=1).broken[rule][0]
    assert f"is refused, and {what} (device)" in told
    assert re.search(rf"history of {thing}:", told)


def test_of_a_map_that_nobody_tells_nothing_is_said() -> None:
    kind = type("Loses", (_ShowsNoMap,), {"kind": _LosesWhatItFreed})
    told = fuzz_manager(kind, seconds=20, findings=1).broken["P14 (nothing less)"][0]
    assert "block tables of" in told
    assert "device cached" not in told


class _Null(example.TestPool):
    """A pool that keeps its block 0 back."""

    null_block = 0

    def __init__(self, blocks: int, block_tokens: int, caching: bool = True) -> None:
        super().__init__(blocks + 1, block_tokens)
        del self.pool.free[0]
        self.pool.num_free -= 1
        self.caching = caching

    def commit(self, request, tokens):
        if self.caching:
            super().commit(request, tokens)


def test_a_null_block_and_a_pool_without_a_cache_are_judged_too() -> None:
    fuzzed = fuzz_manager(_Null, examples=240, seconds=60)
    assert fuzzed.broken == {}
    assert set(fuzzed.unjudged) == {"E3"}
    assert fuzzed.report.profiles["uncached"]


class _TellsBlocks(example.TestPool):
    """A pool whose events say what is in a block, and behind which it stands."""

    def __init__(self, blocks: int, block_tokens: int) -> None:
        super().__init__(blocks, block_tokens)
        self.size, self.of = block_tokens, dict[Any, tuple[Any, list[int]]]()

    def keys(self, request: Request) -> list[Any]:
        keys = [*super().keys(request)]
        for i, key in enumerate(keys):
            tokens = [*request.tokens[i * self.size : (i + 1) * self.size]]
            self.of[key] = self.block(keys[i - 1] if i else None, tokens)
        return keys

    def block(self, parent: Any, tokens: list[int]) -> tuple[Any, list[int]]:
        return parent, tokens

    def take_events(self) -> Iterator[tuple[Any, ...]]:
        for event in super().take_events():
            yield (*event, *self.of[event[1]]) if event[0] == "stored" else event


class _TellsTheLastFirst(_TellsBlocks):
    def block(self, parent: Any, tokens: list[int]) -> tuple[Any, list[int]]:
        return parent, tokens[::-1]


class _TellsNoParent(_TellsBlocks):
    def block(self, parent: Any, tokens: list[int]) -> tuple[Any, list[int]]:
        return None, tokens


class _TellsTheSameParent(_TellsBlocks):
    def block(self, parent: Any, tokens: list[int]) -> tuple[Any, list[int]]:
        return parent and next(iter(self.of)), tokens


class _ForgetsParents(_TellsBlocks):
    """It names the parents of blocks, and none of a second one; of tokens it says nothing."""

    def take_events(self) -> Iterator[tuple[Any, ...]]:
        for event in super().take_events():
            parent = event[2] if event[0] == "stored" else None
            yield event if event[0] != "stored" else (*event[:2], parent and self.of[parent][0] and parent)


class _KnowsNoParents(_TellsBlocks):
    def take_events(self) -> Iterator[tuple[Any, ...]]:
        yield from ((*event[:2], None) if event[0] == "stored" else event for event in super().take_events())


def test_a_block_that_is_told_without_its_parent_is_found_where_others_have_theirs() -> None:
    found = fuzz_manager(_ForgetsParents, examples=200, seconds=60).broken
    assert {*found} == {"P12"}
    assert "is reported without a parent, and the block before it has key" in found["P12"][0]
    assert fuzz_manager(_KnowsNoParents, examples=200, seconds=60).broken == {}


def test_a_wrong_parent_is_one_symptom() -> None:
    found = fuzz_manager(_TellsTheSameParent, examples=200, seconds=60).broken
    assert {*found} == {"P12"}
    assert not any("also:" in text for text in found["P12"])


@pytest.mark.parametrize(
    ("kind", "broken"), [(_TellsBlocks, set()), (_TellsTheLastFirst, {"E3"}), (_TellsNoParent, {"P12"})]
)
def test_what_events_say_of_a_block_is_judged_where_they_tell_its_tokens(
    kind: type[_TellsBlocks], broken: set[str]
) -> None:
    fuzzed = fuzz_manager(kind, examples=200, seconds=60)
    assert {*fuzzed.broken} == broken
    assert "E3" not in fuzzed.unjudged


@pytest.mark.parametrize("base", [example.TestPool, _ShowsNoMap])
def test_what_caches_though_nothing_is_to_be_cached_is_found(base: type[BlockManager]) -> None:
    says = type("Says", (base,), {"dialect": {"keep": "none"}})

    class Made(base):  # type: ignore[misc, valid-type]
        def __init__(self, blocks: int, block_tokens: int, caching: bool = True) -> None:
            super().__init__(blocks, block_tokens)

    for kind in (says, Made):
        assert [*fuzz_manager(kind, seconds=10, findings=1).broken] == ["P14"]


def test_a_null_block_that_is_queued_is_found() -> None:
    class Queued(_Null):
        def free_queue(self):
            return [*self.pool.free, 0]

    assert "P4" in fuzz_manager(Queued, examples=40, findings=1).broken


class _Least(BlockManager):
    """All that is needed: the pool tells nothing of its state, and whatever it can do is done in two calls."""

    kind = Pool

    def __init__(self, blocks: int, block_tokens: int) -> None:
        self.pool = self.kind(blocks, block_tokens)

    def allocate(self, request, tokens):
        pool, name = self.pool, request.name
        if name in pool.tables:
            done = pool.extend(name, tokens)
        else:
            found = pool.lookup(request.tokens)
            done = pool.admit(name, found, tokens)
            request.cached = len(found) * pool.block_tokens if done else 0
        return pool.tables[name] if done else None

    def commit(self, request, tokens):
        self.pool.computed(request.name, request.tokens[:tokens])

    def free(self, request):
        self.pool.release(request.name)


def test_a_manager_that_tells_nothing_is_judged_by_what_it_hands_out() -> None:
    fuzzed = fuzz_manager(_Least, examples=200, seconds=60)
    assert fuzzed.broken == {}
    assert {"P14", "P14 (nothing less)", "H8", "L1"} <= {*RULES} - {*fuzzed.unjudged}
    assert "P6" in fuzzed.unjudged


@pytest.mark.parametrize(
    ("fault", "rule"),
    [
        (pool_faults.StaleMapEntry, "P6"),
        (pool_faults.NeverHits, "P14 (nothing less)"),
        (pool_faults.WholePrompt, "P14"),
        # A last request needs all blocks.
        (pool_faults.LeakyRefusal, "L1"),
    ],
)
def test_faults_are_found_in_a_manager_that_tells_nothing(fault: type[Pool], rule: str) -> None:
    kind = type(fault.__name__, (_Least,), {"kind": fault})
    assert rule in fuzz_manager(kind, seconds=10, findings=1).broken


class _SaysNothingOfHits(_Least):
    def allocate(self, request, tokens):
        table = super().allocate(request, tokens)
        request.cached = 0
        return table


@pytest.mark.parametrize("dialect", [{"keep": "all"}, {}])
def test_who_says_nothing_of_what_is_found_is_told_where_to(dialect: dict[str, str]) -> None:
    kind = type("SaysNothing", (_SaysNothingOfHits,), {"dialect": dialect})
    told = fuzz_manager(kind, examples=100, seconds=60).broken["P14 (nothing less)"]
    assert "without a lookup(), allocate() says in request.cached what it found" in told[0]


class _TakesOver(_Least):
    """Of a block that nobody holds a request takes over the part that it begins with, as TensorRT-LLM's do: what
    follows is written behind it, and the block is found no more as what it was."""

    dialect: ClassVar = {}
    one_more = 0
    forgets = True

    def __init__(self, blocks: int, block_tokens: int) -> None:
        super().__init__(blocks, block_tokens)
        self.prefix_in: dict[int, list[int]] = {}

    def allocate(self, request, tokens):
        pool, name = self.pool, request.name
        if name in pool.tables:
            return super().allocate(request, tokens)
        found = pool.lookup(request.tokens)
        cached = len(found) * pool.block_tokens
        block, same = self._part(request.tokens[:-1], cached)
        taken = [block] if same else []
        if not pool.admit(name, found + taken, max(tokens, cached + same)):
            return None
        for each in taken if self.forgets else ():
            pool.forget(pool.blocks[each])
        request.cached = cached + same
        return pool.tables[name]

    def _part(self, tokens, cached):
        """The block that goes on behind the cached tokens as these do, and for how many."""
        for block in self.pool.free:
            prefix = self.prefix_in[block] if self.pool.blocks[block].key is not None else []
            if prefix[:cached] == tokens[:cached] and len(prefix) == cached + self.pool.block_tokens:
                pairs = zip(prefix[cached:], tokens[cached:], strict=False)
                if same := next((n for n, (a, b) in enumerate(pairs) if a != b), 0):
                    return block, same + self.one_more
        return 0, 0

    def commit(self, request, tokens):
        super().commit(request, tokens)
        for end in range(self.pool.block_tokens, tokens + 1, self.pool.block_tokens):
            self.prefix_in[request.table[end // self.pool.block_tokens - 1]] = request.tokens[:end]


def test_a_part_of_a_block_that_is_taken_over_is_judged_too() -> None:
    fuzzed = fuzz_manager(_TakesOver, examples=300, seconds=60)
    assert fuzzed.broken == {}
    assert fuzzed.report.activity.hits
    for fault in ({"one_more": 1}, {"forgets": False}):
        assert {*fuzz_manager(type("Wrong", (_TakesOver,), fault), seconds=20, findings=1).broken} == {"P6"}


class _Speaks(_Least):
    """Besides, it tells events, and by which keys; what is cached shows in what it finds alone."""

    def keys(self, request):
        return self.pool.keys(request.tokens)

    def take_events(self):
        return self.pool.take_events()


class _SpeaksOfItsOwnKeys(_Speaks):
    """It does not say whose keys these are, so that no lookup can be held to its events."""

    keys = BlockManager.keys


class _SaysNothingOfEvictions(_Speaks):
    def take_events(self):
        return [event for event in self.pool.take_events() if event[0] != "removed"]


class _SaysHalfOfWhatItStores(_Speaks):
    def take_events(self):
        return [*self.pool.take_events()][::2]


class _TakesBackWhatItStores(_Speaks):
    def take_events(self):
        events = list(self.pool.take_events())
        return [*events, *(("removed", key) for kind, key in events if kind == "stored")]


@pytest.mark.parametrize("kind", [_Speaks, _SpeaksOfItsOwnKeys])
def test_events_and_lookups_of_a_right_manager_agree(kind: type[BlockManager]) -> None:
    fuzzed = fuzz_manager(kind, examples=300, seconds=60)
    assert fuzzed.broken == {}
    assert fuzzed.unjudged["P12"] == "there is no cached()"


@pytest.mark.parametrize("kind", [_SaysNothingOfEvictions, _SaysHalfOfWhatItStores, _TakesBackWhatItStores])
def test_events_are_held_to_what_lookups_find_where_no_map_is_shown(kind: type[BlockManager]) -> None:
    assert [*fuzz_manager(kind, seconds=20, findings=1).broken] == ["P12"]


class _ReadOnce(_Least):
    """Its answers can be read once."""

    def allocate(self, request, tokens):
        table = super().allocate(request, tokens)
        return None if table is None else iter(table)

    def keys(self, request):
        return iter(self.pool.keys(request.tokens))

    def ref_counts(self):
        return (block.ref_cnt for block in self.pool.blocks)


def test_answers_may_be_generators() -> None:
    assert fuzz_manager(_ReadOnce, examples=100, seconds=60).broken == {}


class _Counting(_Least):
    """It tells how many blocks are free, and nothing else."""

    def num_free(self):
        return self.pool.num_free


def test_a_refusal_that_takes_something_shows_in_the_counter_alone() -> None:
    assert fuzz_manager(_Counting, examples=40).broken == {}
    kind = type("Partial", (_Counting,), {"kind": pool_faults.PartialAllocation})
    assert "P7" in fuzz_manager(kind, seconds=10, findings=1).broken


class _CountsHits(Pool):
    """What is found stays counted as free, where the count is told."""

    told = 0

    def touch(self, block):
        self.told += block.ref_cnt == 0
        super().touch(block)


class _CountsRight(_CountsHits):
    touch = Pool.touch


class _CountsTooMany(_Counting):
    kind = _CountsHits
    pool: _CountsHits

    def num_free(self):
        return self.pool.num_free + self.pool.told


class _TellsCounts(_CountsTooMany):
    """It tells who holds blocks, too, and that there may be still others."""

    exact = False

    def ref_counts(self):
        return [block.ref_cnt for block in self.pool.blocks]


class _MayHaveOthers(_CountsTooMany):
    """Others may hold blocks while requests run: then it may count fewer free ones, but not more."""

    exact = False


class _LosesSome(_MayHaveOthers):
    """A block that is found is counted out once more than it is counted in; it shows when nobody runs."""

    def num_free(self):
        return self.pool.num_free - self.pool.told


@pytest.mark.parametrize("kind", [_CountsTooMany, _TellsCounts, _MayHaveOthers, _LosesSome])
def test_a_counter_without_its_queue_is_held_to_who_holds_what(kind: type[_CountsTooMany]) -> None:
    found = fuzz_manager(kind, seconds=20, findings=1).broken
    assert [*found] == ["P3"]
    assert "are held by nobody" in found["P3"][0]
    assert fuzz_manager(type("Right", (kind,), {"kind": _CountsRight})).broken == {}


class _KeepsOneBack(_Counting):
    """Its last free block is nobody's, and it does not count that."""

    kept_back = 1

    def __init__(self, blocks: int, block_tokens: int) -> None:
        super().__init__(blocks + 1, block_tokens)
        self.pool.num_free -= 1


class _ShowsWhatItKeeps(_KeepsOneBack):
    """Its queue has what it keeps back, its counter has not."""

    def free_queue(self):
        return [*self.pool.free]


class _CountsItNowAndThen(_ShowsWhatItKeeps):
    """What is kept back counts as free while nobody runs."""

    def num_free(self):
        return self.pool.num_free + (not self.pool.tables)


class _CountsWhatIsNotCached(_Counting):
    """What is cached and held by nobody stands elsewhere, until it is wanted."""

    def cached(self):
        return self.pool.cached

    def keys(self, request):
        return self.pool.keys(request.tokens)

    def evict(self, block):
        self.pool.forget(self.pool.blocks[block])

    def num_free(self):
        return sum(block.ref_cnt == 0 and block.key is None for block in self.pool.blocks)


class _CountsNowAndThen(_CountsWhatIsNotCached):
    """What is cached counts as free while nobody runs."""

    def num_free(self):
        return super().num_free() if self.pool.tables else self.pool.num_free


def test_a_counter_may_leave_out_what_is_kept_back_or_cached_but_throughout() -> None:
    for kind in (_KeepsOneBack, _ShowsWhatItKeeps, _CountsWhatIsNotCached):
        assert fuzz_manager(kind, examples=200, seconds=60).broken == {}
    for kind in (_CountsNowAndThen, _CountsItNowAndThen):
        assert [*fuzz_manager(kind, seconds=20, findings=1).broken] == ["P3"]


def test_a_cache_that_never_hits_is_found_though_nothing_is_promised() -> None:
    kind = type("NeverHits", (_Least,), {"kind": pool_faults.NeverHits, "dialect": {}})
    broken = fuzz_manager(kind, examples=100).broken
    assert [*broken] == ["P14 (nothing less)"]
    assert "none found anything" in broken["P14 (nothing less)"][0]
    honest = type("NoCache", (_Least,), {"kind": pool_faults.NeverHits, "dialect": {"keep": "none"}})
    assert fuzz_manager(honest, examples=100).broken == {}


class _Asynchronous(_Least):
    """It waits before it answers. Who is cancelled while he waits for the lock has it for ever."""

    cancelled: ClassVar[str | None] = None

    def __init__(self, blocks: int, block_tokens: int) -> None:
        super().__init__(blocks, block_tokens)
        self.lock: asyncio.Lock | None = None

    async def allocate(self, request, tokens):
        self.lock = self.lock or asyncio.Lock()
        await asyncio.wait([asyncio.ensure_future(self.lock.acquire())])
        self.lock.release()
        return super().allocate(request, tokens)

    async def ref_counts(self):
        return [block.ref_cnt for block in self.pool.blocks]


def test_a_manager_that_is_asynchronous_is_driven_alike() -> None:
    fuzzed = fuzz_manager(_Asynchronous, examples=40)
    assert fuzzed.broken == {}
    assert fuzzed.report.activity.hits


def test_a_lock_that_is_kept_by_who_was_cancelled_is_found() -> None:
    class Cancelled(_Asynchronous):
        cancelled = "undone"

    assert "L1" in fuzz_manager(Cancelled, examples=400, seconds=60, findings=1).broken


class _Small(example.TestPool):
    """It is made with a few blocks only."""

    def __init__(self, blocks: int, block_tokens: int) -> None:
        if blocks > 6:
            raise Refused("too large")
        super().__init__(blocks, block_tokens)


def test_what_a_manager_refuses_is_no_finding() -> None:
    fuzzed = fuzz_manager(_Small, examples=160)
    assert fuzzed.broken == {}
    assert 0 < fuzzed.report.refused < fuzzed.report.examples
    assert fuzzed.report.refusal == "too large"


class _Hangs(example.TestPool):
    def free(self, request):
        while True:
            pass


class _HangsLater(example.TestPool):
    """Its fourth request is never let go."""

    def free(self, request):
        while request.name == "r3":
            pass
        super().free(request)


@pytest.mark.parametrize(
    ("limit", "late", "said"), [(0.3, 60.0, "L2 hang"), (1.0, 0.0, "which there was no time to see again")]
)
def test_what_hangs_is_told_though_the_time_is_over(
    monkeypatch: pytest.MonkeyPatch, limit: float, late: float, said: str
) -> None:
    """Seeing it again takes to the limit each time. Where even that is too long, the run is no silent one."""
    monkeypatch.setattr(fuzzing, "session_of", lambda kind: InProcess(kind, seconds=limit))
    monkeypatch.setattr(fuzzing, "_LATE", late)
    fuzzed = fuzz_manager(_HangsLater, seconds=0.5)
    assert [*fuzzed.broken] == ["L2"]
    assert said in fuzzed.broken["L2"][0]


class _MiscountsOnce(example.TestPool):
    """The hundredth request that ends, of all that the process has seen, is counted twice."""

    ended: ClassVar[list[str]] = []

    def free(self, request):
        super().free(request)
        self.ended.append(request.name)
        self.pool.num_free += len(self.ended) == 100


def test_what_a_manager_does_only_once_fails_its_test_all_the_same() -> None:
    _MiscountsOnce.ended.clear()
    fuzzed = fuzz_manager(_MiscountsOnce, examples=200, seconds=60)
    first, *_consequences = fuzzed.broken
    assert first == "P3"
    assert fuzzed.report.findings == []
    assert "met once" in fuzzed.broken["P3"][0]
    assert "a test to keep:" not in fuzzed.broken["P3"][0]


class _HangsOnce(example.TestPool):
    """The hundredth request that ends, of all that the process has seen, takes its time."""

    ended: ClassVar[list[str]] = []

    def free(self, request):
        super().free(request)
        self.ended.append(request.name)
        if len(self.ended) == 100:
            time.sleep(2)


def test_of_a_hang_that_was_met_once_the_machine_may_be_the_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzzing, "session_of", lambda kind: InProcess(kind, seconds=0.3))
    _HangsOnce.ended.clear()
    (told,) = fuzz_manager(_HangsOnce, examples=100, seconds=60).broken["L2"]
    assert "met once" in told
    assert "the machine stood still" in told
    assert "a test to keep:" not in told


class _Unsayable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class _RaisesWithoutWords(example.TestPool):
    def free(self, _request):
        raise _Unsayable


class _RaisesHalfALetter(example.TestPool):
    def free(self, _request):
        raise ValueError("half \ud800")


class _AppendsToTokens(example.TestPool):
    def allocate(self, request, tokens):
        request.tokens.append(0)
        return super().allocate(request, tokens)


class _ComputesAgain(example.TestPool):
    def commit(self, request, tokens):
        super().commit(request, tokens)
        request.computed = 0


class _NullBeyond(example.TestPool):
    null_block = 500


class _Raises(example.TestPool):
    def lookup(self, request):
        raise KeyError(request.name)


class _Cancelled(example.TestPool):
    def lookup(self, request):
        raise asyncio.CancelledError


class _Exits(example.TestPool):
    def free(self, request):
        sys.exit("out of blocks")


class _ExitsLater(example.TestPool):
    def free(self, request):
        async def later() -> None:
            sys.exit("out of blocks")

        return later()


class _Unreadable(example.TestPool):
    def num_free(self):
        return "three"


class _Counts(example.TestPool):
    def lookup(self, request):
        return len(super().lookup(request))


class _TellsPairs(example.TestPool):
    def cached(self):
        return [*super().cached().items()]


class _OtherKeys(example.TestPool):
    """It shows its own keys, and does not say whose they are."""

    keys: Any = BlockManager.keys


class _TellsNoKeys(example.TestPool):
    def keys(self, request):
        return None


class _TellsListsForKeys(example.TestPool):
    def keys(self, request):
        return [[key] for key in super().keys(request)]


class _TellsNoEvents(example.TestPool):
    def take_events(self):
        return None


class _TellsNoEvent(example.TestPool):
    def take_events(self):
        return [{"type": "stored"}]


class _CountsByBlock(example.TestPool):
    def ref_counts(self):
        return dict(enumerate(super().ref_counts()))


class _FindsHalfAToken(_Least):
    def allocate(self, request, tokens):
        table = super().allocate(request, tokens)
        request.cached = 0.5
        return table


class _Silent(example.TestPool):
    def reset(self):
        super().reset()


class _NoState(example.TestPool):
    def cached(self):
        return dict.fromkeys(super().cached(), 99)


class _TooFewCounts(example.TestPool):
    def ref_counts(self):
        return super().ref_counts()[:2]


class PanicException(BaseException):
    """What a panic of Rust code is in Python: PyO3 derives it from no Exception."""


class _Panics(example.TestPool):
    def free(self, request):
        raise PanicException("index out of bounds")


class _PanicsAtOnce(example.TestPool):
    def __init__(self, blocks, block_tokens):
        raise PanicException("capacity overflow")


class _ChangesWhileItAnswers(example.TestPool):
    """The body of a generator is run when its answer is read."""

    def lookup(self, request):
        yield from super().lookup(request)
        request.tokens.append(1)


class _FailsWhileItAnswers(example.TestPool):
    def free_queue(self):
        yield 0
        raise TypeError("a mistake of its own")


CASE: list[tuple[str, dict[str, Any]]] = [
    ("start", {"request": "r0", "prompt": [0, 0, 0]}),
    ("finish", {"request": "r0"}),
    ("reset", {}),
]


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (_Hangs, "Hang: it computes, or waits, for longer than an operation may"),
        (_Raises, "KeyError: 'r0'"),
        (_RaisesWithoutWords, "_Unsayable: (its text cannot be told: RuntimeError)"),
        (_RaisesHalfALetter, "ValueError: half \\ud800"),
        (_AppendsToTokens, "allocate() changed request.tokens, which is the kit's"),
        (_ComputesAgain, "commit() changed request.computed, which is the kit's"),
        (_NullBeyond, "null_block is 500, and its 4 blocks are numbered from 0"),
        (_Cancelled, "CancelledError"),
        (_Exits, "SystemExit: out of blocks"),
        (_ExitsLater, "SystemExit: out of blocks"),
        (_Panics, "PanicException: index out of bounds"),
        (_PanicsAtOnce, "PanicException: capacity overflow"),
        (_ChangesWhileItAnswers, "lookup() changed request.tokens, which is the kit's"),
        (_FailsWhileItAnswers, "TypeError: a mistake of its own"),
        (_Unreadable, "L2 exception"),
        (_Counts, "lookup() answered 0, which is no list of numbers"),
        (_TellsPairs, "which is no dictionary"),
        (_OtherKeys, "cached() tells the keys that keys() does"),
        (_Silent, "reset() answered None"),
        (_TellsNoKeys, "keys() answered None, which is no list of keys"),
        (_TellsListsForKeys, "which is none: unhashable type"),
        (_CountsByBlock, "ref_counts() answered {0: 1, 1: 1, 2: 0}, which is no list of counts"),
        (_FindsHalfAToken, "request.cached is 0.5, which is no number of tokens"),
        (_TellsNoEvents, "take_events() answered None, which is no list of events"),
        (_TellsNoEvent, "take_events() told {'type': 'stored'}; there are (stored, key), "),
        (_NoState, "block 99"),
    ],
)
def test_what_goes_wrong_in_a_manager_is_a_finding(kind: type[BlockManager], said: str) -> None:
    options = InProcess(kind).hello.capabilities["requests"].options
    setup = {"blocks": 3, "block_tokens": 2, **({"events": True} if "events" in options else {})}
    found, _ = verdict(InProcess(kind, seconds=0.2), Case("requests", setup, CASE))
    assert found is not None
    assert said in story(kind, Case("requests", {}, CASE), found)


def test_who_speaks_no_protocol_is_not_sent_to_its_checker() -> None:
    with pytest.raises(AssertionError, match="ref of device has 2 entries") as raised:
        assert_played(_TooFewCounts, {"blocks": 3, "block_tokens": 2}, CASE)
    assert "protocol-check" not in str(raised.value)


class _TakesFromTheList(example.TestPool):
    """What was found is taken hold of one by one, out of the request's own list."""

    wrong = False

    def allocate(self, request, tokens):
        name, pool, found = request.name, self.pool, [*request.found]
        if name in pool.tables:
            return pool.tables[name] if pool.extend(name, tokens) else None
        if not pool.admit(name, found, tokens):
            return None
        while request.found:
            request.found.pop(0)
        return pool.tables[name][::-1] if self.wrong and found else pool.tables[name]


class _PutsItElsewhere(_TakesFromTheList):
    wrong = True


def test_what_was_found_may_be_taken_from_the_list() -> None:
    """The list is the request's, and the kit went by what was left of it: a false P6 of a block -1."""
    assert fuzz_manager(_TakesFromTheList, examples=200, seconds=60).broken == {}
    assert fuzz_manager(_PutsItElsewhere, examples=200, seconds=60).broken


class _GivesUp(example.TestPool):
    def free(self, request):
        pytest.skip("there is no device")


class _Interrupted(example.TestPool):
    def free(self, request):
        raise KeyboardInterrupt


@pytest.mark.parametrize(("kind", "raised"), [(_GivesUp, pytest.skip.Exception), (_Interrupted, KeyboardInterrupt)])
def test_what_ends_the_test_itself_does(kind: type[BlockManager], raised: type[BaseException]) -> None:
    with pytest.raises(raised):
        InProcess(kind).run(Case("requests", {"blocks": 3, "block_tokens": 2}, CASE))


FORKS = """
import os, sys
from kvproof.testing.fuzzing import fuzz_manager
from test_pool import TestPool

ends = [lambda: sys.exit(3), lambda: 1 / 0, lambda: None]
made, statuses, first = 0, {}, os.getpid()

class Forks(TestPool):
    def __init__(self, blocks, block_tokens):
        global made
        if os.getpid() != first:
            os._exit(9)  # A copy that goes on.
        super().__init__(blocks, block_tokens)
        made += 1
        if not (copy := os.fork()):
            return ends[made % 3]()
        statuses[made % 3] = os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1])

print(fuzz_manager(Forks, examples=12, seconds=60).broken, statuses[0], statuses[1], statuses[2])
"""


def test_a_copy_of_the_process_that_a_manager_makes_does_not_go_on_with_the_tests() -> None:
    folder = os.path.dirname(example.__file__)
    done = subprocess.run(
        [sys.executable, "-c", FORKS],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([folder, *sys.path])},
    )
    assert done.stdout == "{} 3 1 0\n"
    assert "ZeroDivisionError" in done.stderr


class _StandsStill(example.TestPool):
    """Its entries have a time to live, so its test lets the time stand still."""

    def __init__(self, blocks: int, block_tokens: int) -> None:
        super().__init__(blocks, block_tokens)
        time.monotonic = lambda: 1e6  # As freezegun does.


def test_a_manager_that_lets_the_time_stand_still_is_fuzzed_for_as_long_as_any(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic", time.monotonic)
    assert fuzz_manager(_StandsStill, examples=None, seconds=0.5).broken == {}


def test_the_timer_of_others_is_left_alone() -> None:
    signal.setitimer(signal.ITIMER_REAL, 100)
    try:
        InProcess(example.TestPool).run(Case("requests", {"blocks": 3, "block_tokens": 2}, CASE))
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 50
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"free": BlockManager.free}, "has no free()"),
        ({"window": 4}, "a null_block stands for what is behind it, and table() tells where"),
        ({"tenants": ("user",)}, "there are salt and adapter"),
        ({"block_sizes": ()}, "numbers above 0"),
        ({"block_sizes": 2}, "block_sizes is 2; it is a tuple of numbers above 0"),
        ({"block_sizes": (2**20,)}, "up to 131,072"),
        ({"tokens_per_grow": 10**9}, "up to 131,072"),
        ({"window": "4"}, "window is '4'; it is a number or None"),
        ({"dialect": None}, "dialect is None; it is a dictionary"),
        ({"tenants": "salt"}, "tenants is 'salt'; it is a tuple of words"),
        ({"exact": "no"}, "exact is 'no'; it is true or false"),
        ({"in_parts": 1}, "in_parts is 1; it is true or false"),
        ({"dialect": {"host_evicts": "lru"}}, "says by host_evicts what goes first; then host_cached() tells"),
        ({"kept_back": -1}, "kept_back is -1; it is a number of blocks"),
        ({"evict": None}, "evict is None; it is a method"),
        ({"dialect": {"take": "tail"}}, "the dialect says take tail"),
    ],
)
def test_what_is_no_manager_is_one_sentence(more: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=re.escape(words)):
        fuzz_manager(type("Odd", (example.TestPool,), more))


def test_a_finding_is_a_test_to_keep() -> None:
    kind = driven(pool_faults.MissingTouch)
    finding = fuzz_manager(kind, seconds=5, findings=1).report.findings[0]
    text = regression_test(kind, finding.case, finding.verdict)
    scope: dict[str, Any] = {kind.__name__: kind}
    exec(text, scope)
    (test,) = (value for name, value in scope.items() if name.startswith("test_"))
    with pytest.raises(AssertionError, match=finding.violation.rule):
        test()
    scope[kind.__name__] = example.TestPool
    test()


def test_what_says_several_lines_is_a_test_to_keep_too() -> None:
    """As pytest makes of an assert in a test module: some lines, of which the second says where."""

    class Wrong(example.TestPool):
        def commit(self, request: Request, tokens: int) -> None:
            raise AssertionError("assert 1 == 2\n +  where 1 = f()")

    finding = fuzz_manager(Wrong, seconds=5, findings=1).report.findings[0]
    compile(regression_test(Wrong, finding.case, finding.verdict), "pasted", "exec")
    assert "\n     +  where 1 = f()" in story(Wrong, finding.case, finding.verdict)


class _OnlyNewBlocks(example.TestPool):
    def allocate(self, request, tokens):
        had, table = len(request.table), super().allocate(request, tokens)
        return None if table is None else table[had:]


def test_a_table_that_is_not_whole_hints_at_who_gave_it() -> None:
    operations: list[tuple[str, dict[str, object]]] = [
        ("start", {"request": "r0", "prompt": [0, 0]}),
        ("grow", {"request": "r0", "tokens": [0]}),
    ]
    with pytest.raises(AssertionError, match=r"allocate\(\) may have answered too few .* it gives the whole table"):
        assert_played(_OnlyNewBlocks, {"blocks": 3, "block_tokens": 2}, operations)


class _OneBlockLess(example.TestPool):
    def allocate(self, request, tokens):
        table = super().allocate(request, tokens)
        return None if table is None else table[: max(1, len(table) - 1)]


def test_a_write_without_a_block_hints_at_who_gave_too_few() -> None:
    start: list[tuple[str, dict[str, object]]] = [("start", {"request": "r0", "prompt": [0, 0, 0]})]
    with pytest.raises(AssertionError, match=r"P6 write without a block(?s:.)*allocate\(\) may have answered too few"):
        assert_played(_OneBlockLess, {"blocks": 3, "block_tokens": 2}, start)


class _NumbersFromOne(example.TestPool):
    def allocate(self, request, tokens):
        table = super().allocate(request, tokens)
        return None if table is None else [block + 1 for block in table]


class _FindsAddresses(_Least):
    def lookup(self, request):
        return [1 << 20 | block for block in self.pool.lookup(request.tokens)]


@pytest.mark.parametrize("kind", [_NumbersFromOne, _FindsAddresses])
def test_a_block_that_there_is_not_hints_at_how_they_are_numbered(kind: type[BlockManager]) -> None:
    operations: list[tuple[str, dict[str, object]]] = [
        ("start", {"request": "r0", "prompt": [0, 0, 0, 0, 0, 0]}),
        ("finish", {"request": "r0"}),
        ("start", {"request": "r1", "prompt": [0, 0, 0]}),
    ]
    with pytest.raises(AssertionError, match=r"blocks are numbered from 0 to 2; an adapter translates") as told:
        assert_played(kind, {"blocks": 3, "block_tokens": 2}, operations)
    assert "is not seen" not in str(told.value)


class _LeavesOutWhatWasFound(example.TestPool):
    def allocate(self, request, tokens):
        request.found.clear()
        return super().allocate(request, tokens)


def test_a_table_without_what_was_found_hints_at_who_gave_it() -> None:
    operations: list[tuple[str, dict[str, object]]] = [
        ("start", {"request": "r0", "prompt": [0, 0]}),
        ("start", {"request": "r1", "prompt": [0, 0, 0]}),
    ]
    with pytest.raises(
        AssertionError, match=r"the table of r1 does not begin with what lookup\(\) found for it, \[0\]"
    ):
        assert_played(_LeavesOutWhatWasFound, {"blocks": 3, "block_tokens": 2}, operations)


def test_tests_to_keep_of_two_findings_have_two_names() -> None:
    kind = driven(pool_faults.MissingTouch)
    finding = fuzz_manager(kind, seconds=5, findings=1).report.findings[0]
    more = msgspec.structs.replace(finding.case, setup={**finding.case.setup, "blocks": 16})
    names = {regression_test(kind, case, finding.verdict).split("\n")[2] for case in (finding.case, more, more)}
    assert len(names) == 2


def test_managers_are_fuzzed_and_played_in_one_line() -> None:
    assert_fuzzed(example.TestPool, examples=20)
    with pytest.raises(AssertionError, match="P14 a shorter hit"):
        assert_fuzzed(driven(pool_faults.TruncatedHit), seconds=2)
    with pytest.raises(AssertionError, match="blocks must be a number above 0"):
        assert_played(example.TestPool, {"blocks": 0, "block_tokens": 2}, [])


class _LeastRecent(example.TestPool):
    """What is found is used, and so is what is given back; the queue has nothing else in it that is cached."""

    dialect: ClassVar = {"keep": "all", "evicts": "lru"}


class _TakesTheLatest(Pool):
    def take(self):
        self.free.move_to_end([*self.free][-1], last=False)
        return super().take()


class _FirstInFirstOut(Pool):
    """What was cached first goes first, however often it was found."""

    def give_back(self, block):
        super().give_back(block)
        order = [*self.cached.values()]
        for number in sorted(self.free, key=lambda number: order.index(number) if number in order else -1):
            self.free.move_to_end(number)


@pytest.mark.parametrize("fault", [_TakesTheLatest, _FirstInFirstOut])
def test_who_promises_lru_is_held_to_it(fault: type[Pool]) -> None:
    assert fuzz_manager(_LeastRecent, examples=200, seconds=60).broken == {}
    found = fuzz_manager(type("Other", (_LeastRecent,), {"kind": fault}), seconds=20, findings=1).broken
    assert [*found] == ["O12"]
    assert "which was used after key" in found["O12"][0]
    silent = type("SaysNothing", (_LeastRecent,), {"kind": fault, "dialect": {"keep": "all"}})
    assert fuzz_manager(silent, examples=100, seconds=60).broken == {}


class _Copies(example.TestPool):
    """All copies of a prefix are told."""

    kind = pool_faults.CopiesPool
    pool: pool_faults.CopiesPool

    def cached(self):
        return self.pool.copies


class _FirstCopies(_Copies):
    """And it finds the first of them."""

    dialect: ClassVar = {**example.TestPool.dialect, "copies": "first"}


def test_which_copy_is_found_is_judged_where_the_dialect_says_so() -> None:
    assert fuzz_manager(_FirstCopies, examples=300, seconds=60).broken == {}
    last = type("Last", (_FirstCopies,), {"kind": pool_faults.LastCopyPool})
    found = fuzz_manager(last, seconds=20, findings=1).broken
    assert [*found] == ["P5"]
    assert "a later copy is found" in found["P5"][0]


def test_the_first_copy_may_go_within_the_operation_in_which_the_next_one_is_found() -> None:
    """A drain lets one request in after another: the first one takes the block of the first copy."""
    operations: list[tuple[str, dict[str, Any]]] = [
        ("start", {"request": "r0", "prompt": [0, 0, 0, 0]}),
        ("start", {"request": "r1", "prompt": [1, 1, 1, 1, 1, 1, 1]}),
        ("preempt", {"request": "r0"}),
        ("start", {"request": "r2", "prompt": [0, 0, 0]}),
        ("drain", {}),
    ]
    assert_played(_FirstCopies, {"blocks": 4, "block_tokens": 3}, operations)


class _Reserves(example.TestPool):
    """Slots for drafts are reserved with each call, as far as there is room, and given back behind the pass."""

    dialect: ClassVar = {"keep": "all"}

    def allocate(self, request, tokens):
        table = super().allocate(request, tokens)
        room = None if table is None else self.pool.extend(request.name, tokens + 3)
        return self.pool.tables[request.name] if room else table

    def commit(self, request, tokens):
        super().commit(request, tokens)
        table = self.pool.tables[request.name]
        needed = self.pool.need(tokens)
        for number in reversed(table[needed:]):
            self.pool.give_back(self.pool.blocks[number])
        del table[needed:]

    def table(self, request):
        return self.pool.tables[request.name]


def test_what_was_reserved_and_given_back_may_be_reserved_again_when_another_has_had_it() -> None:
    assert_played(_Reserves, {"blocks": 2, "block_tokens": 4}, [
        ("start", {"request": "r0", "prompt": [0, 0]}),
        ("start", {"request": "r1", "prompt": [1, 1, 1, 1]}),
        ("abort", {"request": "r1"}),
        ("grow", {"request": "r0", "tokens": [0]}),
        ("finish", {"request": "r0"}),
        ("start", {"request": "r2", "prompt": [1, 1, 1, 1, 1]}),
    ])  # fmt: skip
    assert fuzz_manager(_Reserves, examples=1500, seconds=60).broken == {}


def test_a_pool_does_in_every_step_what_machine_p_does() -> None:
    assert_lockstep(_Copies, examples=40, seconds=60)
    says_less = {name: word for name, word in _Copies.dialect.items() if name != "keep"}
    assert_lockstep(type("SaysLess", (_Copies,), {"dialect": says_less}), examples=40, seconds=60)


def test_who_waits_and_is_refused_where_a_result_is_not_waited_for_is_played_beside_the_machine() -> None:
    operations = [
        ("start", {"request": "r0", "prompt": [0, 0]}),
        ("start", {"request": "r1", "prompt": [1, 1]}),
        ("cut", {"request": "r1", "tokens": [0]}),
        ("start", {"request": "r2", "prompt": [2, 2]}),
    ]
    assert_played(_Copies, {"blocks": 1, "block_tokens": 2}, operations, lockstep=True)


@pytest.mark.parametrize(
    ("pool", "said"),
    [
        (pool_faults.StingyPool, "refused for want of"),
        pytest.param(pool_faults.LastCopyPool, "P2 machine P", marks=pytest.mark.slow),
        (pool_faults.FreedInOrder, "P10"),
    ],
)
def test_a_pool_that_does_something_else_than_machine_p_is_found(pool: type[Pool], said: str) -> None:
    base = _Copies if issubclass(pool, pool_faults.CopiesPool) else example.TestPool
    kind = type(pool.__name__, (base,), {"kind": pool})
    assert base is not _Copies or fuzz_manager(kind, examples=40).broken == {}, "no rule alone notices it"
    fuzzed = fuzz_manager(kind, seconds=60, findings=1, lockstep=True)
    told = "".join(story for of_rule in fuzzed.broken.values() for story in of_rule)
    assert said in told
    assert ", lockstep=True)" in told or base is not _Copies


def test_a_manager_that_does_not_tell_its_state_cannot_be_compared() -> None:
    with pytest.raises(UsageError, match=r"has no lookup\(\), so it cannot be compared"):
        assert_lockstep(_Least)
    with pytest.raises(UsageError, match="say append or split"):
        assert_lockstep(type("Silent", (example.TestPool,), {"dialect": {}}))


def test_a_manager_behind_a_pipe_speaks_the_protocol() -> None:
    with Session.of(Driver.of(f"python:{pool_faults.EXAMPLE / 'test_pool.py'}:TestPool")) as session:
        report = conformance.check(session)
    assert report.failed == []
    assert all(outcome.verdict == "passed" for outcome in report.outcomes)


def test_a_manager_behind_a_pipe_answers_as_one_in_this_process() -> None:
    target = f"python:{pool_faults.EXAMPLE / 'test_pool.py'}:TestPool"
    here = InProcess(example.TestPool)
    with Session.of(Driver.of(target)) as there:
        assert there.hello == here.hello
        can = here.hello.capabilities["requests"]
        for seed in range(5):
            play = random.Random(seed).randbytes(200)
            case = close(requests.draw(can, "plain", {"blocks": 5, "block_tokens": 2}, play), requests.closing(can))
            assert there.run(case).answer.steps == here.run(case).answer.steps


@pytest.mark.parametrize(
    ("target", "words"), [("python:", "names no class"), ("python:a.b", "names no class"), ("python:a:b c", "no class")]
)
def test_a_class_that_cannot_be_named_is_one_sentence(target: str, words: str) -> None:
    with pytest.raises(StoreError, match=words):
        Driver.of(target)


def test_a_prefix_tree_is_judged_too() -> None:
    fuzzed = fuzz_manager(prefix_tree.PrefixTree, examples=200, seconds=60)
    assert fuzzed.broken == {}
    assert {"P6", "P14", "P14 (nothing less)", "P15", "H8", "L1"} <= {*RULES} - {*fuzzed.unjudged}
    assert fuzzed.report.activity.evictions


def test_a_prefix_tree_that_locks_nothing_hands_out_what_is_read() -> None:
    assert {"P6", "H8"} & {*fuzz_manager(prefix_tree.Unlocked, seconds=5, findings=1).broken}
