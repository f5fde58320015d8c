"""Calls of an asynchronous manager with a host tier that overlap: what only that breaks is found, who is right stays
silent."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from kvproof.engines.driver import requests
from kvproof.engines.verdicts import judged_in
from kvproof.judge.record import Case
from kvproof.testing import BlockManager, Request
from kvproof.testing.fuzzing import fuzz_manager
from kvproof.testing.session import InProcess
from kvproof.testing.subjects import subject_of

from . import host_faults
from .async_host_faults import FAULTS, LastOneLeaves, PinnedLate

import test_async_offload as example  # isort: skip # async_host_faults puts its folder on the path
import test_hybrid_offload as hybrid_example  # isort: skip
import test_loads as loads_example  # isort: skip
import test_offload as offload_example  # isort: skip
from async_pool import Key  # isort: skip
from async_offload import AsyncOffload, Copies  # isort: skip

SETUP = {"blocks": 4, "block_tokens": 2, "host_blocks": 4}

SELDOM = {LastOneLeaves}
"""Those that take hundreds of cases."""

PASSED_ON: list[tuple[str, dict[str, Any]]] = [
    ("start", {"request": "r0", "prompt": [0, 0, 0]}),
    ("mirror", {"requests": ["r0"]}),
    ("finish", {"request": "r0"}),
    ("start", {"request": "r1", "prompt": [1] * 12}),
    ("mirror", {"requests": ["r1"]}),
    ("finish", {"request": "r1"}),
    ("start", {"request": "r2", "prompt": [0, 0, 0]}),
    ("begin", {"op": "loaded", "pick": 0, "failed": 0}),
    ("begin", {"op": "start", "request": "r3", "prompt": [0, 0, 0]}),
]
"""What one has loaded another one begins to load."""


def driven(pool: type[AsyncOffload], **more: Any) -> type[example.TestAsyncOffload]:
    return type(pool.__name__, (example.TestAsyncOffload,), {"kind": pool, **more})


def played(
    kind: type[BlockManager], operations: list[tuple[str, dict[str, Any]]], setup: dict[str, Any] = SETUP
) -> str | None:
    """The rule that a sequence of operations breaks."""
    found, _ = judged_in(InProcess(kind), subject_of(kind).more_oracles)(Case(requests.LEVEL, setup, operations), ())
    return None if found is None else found.violation.rule


# ------------------------------------------------------------------------------------------------------ what is found


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(fault, marks=pytest.mark.slow) if fault in SELDOM else fault
        for fault in FAULTS
        if fault is not PinnedLate  # Drawn, it takes more cases than a test has time for: it is played below.
    ],
    ids=lambda fault: fault.__name__,
)
def test_a_fault_that_only_overlapping_calls_bring_about_is_found(fault: type[AsyncOffload]) -> None:
    fuzzed = fuzz_manager(driven(fault), examples=8000, seconds=900, findings=1)
    assert FAULTS[fault] & fuzzed.broken.keys(), fuzzed.broken


@pytest.mark.parametrize(("pool", "rule"), [(AsyncOffload, None), (PinnedLate, "P3")])
def test_a_host_block_that_is_let_go_of_while_another_one_begins_to_load_it(
    pool: type[AsyncOffload], rule: str | None
) -> None:
    """Who loads goes on until it has taken the block out of the queue; then the other load ends."""
    order = [1, *[59] * 5, 0, *[59] * 40]
    ops = [*PASSED_ON, ("together", {"order": order}), ("loaded", {"pick": 0, "failed": 0})]
    assert played(driven(pool), ops, {"blocks": 6, "block_tokens": 2, "host_blocks": 12}) == rule


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_and_not_by_one_call_after_the_other(fault: type[AsyncOffload]) -> None:
    fuzzed = fuzz_manager(driven(fault, overlaps=False), examples=40, seconds=60)
    assert fuzzed.broken == {}
    assert "together" not in fuzzed.report.coverage


class _NeverRefuses(AsyncOffload):
    """It empties both tiers, whoever holds something."""

    async def reset(self) -> bool:
        await self.answer()
        self.index.clear()
        self.on_host.clear()
        return True


class _KeepsTheHost(AsyncOffload):
    """It empties the device alone."""

    async def reset(self) -> bool:
        await self.answer()
        self.index.clear()
        return True


STORED: list[tuple[str, dict[str, Any]]] = [
    ("start", {"request": "r0", "prompt": [0, 0]}),
    ("finish", {"request": "r0"}),
]
BESIDE: list[tuple[str, dict[str, Any]]] = [
    ("begin", {"op": "reset"}),
    ("begin", {"op": "start", "request": "r1", "prompt": [1]}),
    ("together", {"order": [0] * 8}),
]


def test_a_copy_that_goes_on_all_the_time_holds_its_block_beside_a_reset() -> None:
    assert played(driven(_NeverRefuses), [*STORED, *BESIDE]) == "P11"
    assert played(driven(AsyncOffload), [*STORED, *BESIDE]) is None


def test_what_the_host_has_all_the_time_it_has_behind_a_reset_that_answered_true() -> None:
    done: tuple[str, dict[str, Any]] = ("mirror", {"requests": []})
    assert played(driven(_KeepsTheHost), [*STORED, done, *BESIDE]) == "O10"
    assert played(driven(AsyncOffload), [*STORED, done, *BESIDE]) is None


# -------------------------------------------------------------------------------------------------- what stays silent


_ASKED = (
    "lookup", "allocate", "commit", "free", "evict", "reset", "host_lookup", "load", "loaded", "store", "stored",
)  # fmt: skip


def asynchronous(of: type[BlockManager]) -> type[BlockManager]:
    """The same manager behind one lock: each call waits before it, and behind it."""

    def behind_the_lock(method: str) -> Any:
        call = getattr(of, method)

        async def waits(self: Any, *args: Any) -> Any:
            await asyncio.sleep(0)
            async with self.__dict__.setdefault("lock", asyncio.Lock()):
                await asyncio.sleep(0)
                told = call(self, *args)
                return [*told] if method == "store" else told

        return waits

    has = (name for name in _ASKED if getattr(of, name) is not getattr(BlockManager, name))
    return type(f"Async{of.__name__}", (of,), {name: behind_the_lock(name) for name in has})


class _NoLock:
    async def __aenter__(self) -> None:
        await asyncio.sleep(0)

    async def __aexit__(self, *_: object) -> None:
        return


class _WithoutALock(AsyncOffload):
    """What changes the pool comes behind the last await, and at once: it needs no lock."""

    def __init__(self, blocks: int, block_tokens: int, host_blocks: int) -> None:
        super().__init__(blocks, block_tokens, host_blocks)
        self.lock: Any = _NoLock()


class _HoldsFirst(_WithoutALock):
    """It holds what it needs before it waits, and lets go of it where it is cancelled."""

    async def store(self, keys: Sequence[Key], blocks: Sequence[int]) -> tuple[list[Key], Copies]:
        begun = [key for key, block in zip(keys, blocks, strict=True) if self.begin(key, block)]
        try:
            await self.answer()
            await self.answer()
        except asyncio.CancelledError:
            for block, host in map(self.storing.pop, begun):
                self.give_back([block])
                self.let_go([host])
            raise
        return begun, [self.storing[key] for key in begun]

    async def load(self, name: str, hosts: Sequence[int]) -> None:
        for host in hosts:
            self.host_refs[host] += 1
        self.host_free = [host for host in self.host_free if host not in hosts]
        self.loading[name] = [*hosts]
        await self.answer()

    async def loaded(self, name: str) -> None:
        await self.answer()
        self.let_go(self.loading.pop(name))
        await self.answer()


class _WithTimers(AsyncOffload):
    """It waits an hour each time."""

    async def answer(self) -> None:
        await asyncio.sleep(3600)


class _LeavesWhatItTook(AsyncOffload):
    """What a cancelled admission took is the request's, until that is freed; perhaps it took nothing."""

    async def give(self, name: str, found: list[int], most: int) -> bool:
        given = await super().give(name, found, most)
        await self.answer()
        return given

    async def release(self, name: str) -> None:
        if name in self.tables:
            await super().release(name)


class _AtOnce(example.TestAsyncOffload):
    """Its loads take no time; it shows no map."""

    loaded: Any = BlockManager.loaded
    cached: Any = BlockManager.cached
    host_cached: Any = BlockManager.host_cached

    async def load(self, request: Request) -> Copies:
        copies = await super().load(request)
        await self.pool.loaded(request.name)
        return copies


@pytest.mark.parametrize(
    "kind",
    [
        example.TestAsyncOffload,
        driven(_WithoutALock),
        driven(_HoldsFirst),
        driven(_WithTimers),
        driven(_LeavesWhatItTook, cancelled="freed"),
        driven(AsyncOffload, cancelled=None),
        _AtOnce,
        asynchronous(offload_example.TestOffload),
        asynchronous(loads_example.TestLoads),
        asynchronous(hybrid_example.TestHybridOffload),
        asynchronous(host_faults.Mirror),
    ],
    ids=lambda kind: kind.__name__,
)
def test_a_manager_that_is_right_stays_silent(kind: type[BlockManager]) -> None:
    fuzzed = fuzz_manager(kind, examples=200, seconds=120)
    assert fuzzed.broken == {}
    assert fuzzed.report.coverage["together"] > 50
    assert fuzzed.report.activity.external_tokens


def test_a_pass_whose_commit_is_cancelled_reads_nothing_any_more() -> None:
    """What is behind the window may be given up by the next one."""
    operations: list[tuple[str, dict[str, Any]]] = [
        ("start", {"request": "r0", "prompt": [0, 0, 0, 0]}),
        ("begin", {"op": "grow", "request": "r0", "tokens": [0, 0, 0]}),
        ("together", {"order": [0], "cancel": [1, 3]}),
        ("grow", {"request": "r0", "tokens": [0]}),
    ]
    kind = asynchronous(hybrid_example.TestHybridOffload)
    assert played(kind, operations, {"blocks": 2, "block_tokens": 4}) is None
