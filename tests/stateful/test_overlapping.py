"""Calls of an asynchronous manager that overlap: what only that brings about is found, who is right stays silent."""

from __future__ import annotations

import asyncio
import gc
import random
import signal
import sys
import time
from collections.abc import Sequence
from contextvars import ContextVar
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from kvproof.engines.driver import requests
from kvproof.engines.verdicts import close, judged_in
from kvproof.errors import UsageError
from kvproof.judge.record import Answer, Case
from kvproof.testing import BlockManager, assert_played
from kvproof.testing.fuzzing import Fuzzed, fuzz_manager
from kvproof.testing.session import InProcess
from kvproof.testing.subjects import subject_of

from .async_faults import FAULTS, ChosenThenTaken, Emptied, FoundThenEvicted, HeldForNobody, ResetsTooLate

sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "examples" / "block-pool"))

import test_async_pool as example  # isort: skip
import test_pool as pool_example  # isort: skip
from async_pool import AsyncPool  # isort: skip

SETUP = {"blocks": 4, "block_tokens": 2}


def driven(pool: type[AsyncPool], **more: Any) -> type[example.TestAsyncPool]:
    return type(pool.__name__, (example.TestAsyncPool,), {"kind": pool, **more})


def played(kind: type[BlockManager], operations: list[tuple[str, dict[str, Any]]]) -> tuple[str | None, Answer]:
    """The rule that a sequence of operations breaks, and what was told."""
    found, answer = judged_in(InProcess(kind), subject_of(kind).more_oracles)(
        Case(requests.LEVEL, SETUP, operations), ()
    )
    return (None if found is None else found.violation.rule), answer


# ------------------------------------------------------------------------------------------------------ what is found


@pytest.mark.parametrize(
    "fault",
    [pytest.param(fault, marks=pytest.mark.slow) if fault is FoundThenEvicted else fault for fault in FAULTS],
    ids=lambda fault: fault.__name__,
)
def test_a_fault_that_only_overlapping_calls_bring_about_is_found(fault: type[AsyncPool]) -> None:
    fuzzed = fuzz_manager(driven(fault), examples=6000, seconds=900, findings=1)
    assert FAULTS[fault] & fuzzed.broken.keys(), fuzzed.broken


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_and_not_by_one_call_after_the_other(fault: type[AsyncPool]) -> None:
    fuzzed = fuzz_manager(driven(fault, overlaps=False), examples=60, seconds=60)
    assert fuzzed.broken == {}
    assert "together" not in fuzzed.report.coverage


class _Emptied(example.TestAsyncPool):
    """How kvproof drives a pool whose cache can be emptied."""

    kind = Emptied
    pool: Emptied

    async def evict(self, block: int) -> None:
        await self.pool.evict(block)

    async def reset(self) -> bool:
        return await self.pool.reset()


class _ResetsTooLate(_Emptied):
    kind = ResetsTooLate


class _ResetsWithoutAWord(_Emptied):
    async def reset(self):
        await super().reset()


BEFORE_A_RESET: list[tuple[str, dict[str, Any]]] = [
    ("begin", {"op": "start", "request": "r0", "prompt": [0, 0]}),
    ("begin", {"op": "reset"}),
]


@pytest.mark.parametrize(("kind", "some"), [(_ResetsTooLate, True), (_Emptied, False)])
def test_what_is_computed_beside_a_reset_is_found_behind_it(kind: type[BlockManager], some: bool) -> None:
    """Nothing is held when a reset is done: it comes before who is admitted, and does not forget what he computes."""
    again: tuple[str, dict[str, Any]] = ("start", {"request": "r1", "prompt": [0, 0, 0]})
    orders = [[*order] for order in product((0, 1), repeat=7)]
    rules = {played(kind, [*BEFORE_A_RESET, ("together", {"order": order}), again])[0] for order in orders}
    assert rules == ({None, "P14"} if some else {None})


def test_a_reset_that_answers_nothing_is_told_beside_others_too() -> None:
    """It had passed for a refusal there, and was told where calls do not overlap."""
    _, answer = played(_ResetsWithoutAWord, [*BEFORE_A_RESET, ("together", {"order": [0] * 7})])
    error = answer.steps[-1].error
    assert error is not None
    assert "reset() answered None" in error.message


class _NeverRefuses(Emptied):
    async def reset(self) -> bool:
        await self.answer()
        return True


def test_who_holds_blocks_all_the_time_has_them_beside_a_reset() -> None:
    kind = type("_NeverRefuses", (_Emptied,), {"kind": _NeverRefuses})
    operations: list[tuple[str, dict[str, Any]]] = [
        ("start", {"request": "r0", "prompt": [0, 0]}),
        ("begin", {"op": "grow", "request": "r0", "tokens": [0]}),
        ("begin", {"op": "reset"}),
        ("together", {}),
    ]
    assert played(kind, operations)[0] == "P11"
    assert played(_Emptied, operations)[0] is None


class _Spins(AsyncPool):
    async def extend(self, name: str, most: int) -> bool:
        while len(self.tables) > 1:
            await asyncio.sleep(0)
        return await super().extend(name, most)


class _CancelsItself(AsyncPool):
    async def extend(self, name: str, most: int) -> bool:
        task = asyncio.ensure_future(self.answer())
        task.cancel()
        await task
        return await super().extend(name, most)


@pytest.mark.parametrize(("pool", "rule"), [(_Spins, "L1"), (_CancelsItself, "L2")])
def test_calls_that_go_on_for_ever_or_end_by_themselves_are_found(pool: type[AsyncPool], rule: str) -> None:
    assert rule in fuzz_manager(driven(pool), examples=200, seconds=60, findings=1).broken


# -------------------------------------------------------------------------------------------------- what stays silent


class _Locked(BlockManager):
    """The synchronous pool of the examples, behind one lock; it looks up and allocates in two calls."""

    tenants = ("salt",)

    def __init__(self, blocks: int, block_tokens: int) -> None:
        self.own = pool_example.TestPool(blocks, block_tokens)
        self.lock = asyncio.Lock()

    async def _alone(self, call: Any, *args: Any) -> Any:
        await self._wait()
        async with self.lock:
            await self._wait()
            return call(*args)

    async def _wait(self) -> None:
        await asyncio.sleep(0)

    async def lookup(self, request):
        return await self._alone(self.own.lookup, request)

    async def allocate(self, request, tokens):
        return await self._alone(self.own.allocate, request, tokens)

    async def commit(self, request, tokens):
        await self._alone(self.own.commit, request, tokens)

    async def free(self, request):
        await self._alone(self.own.free, request)

    async def evict(self, block):
        await self._alone(self.own.evict, block)

    async def reset(self):
        return await self._alone(self.own.reset)

    async def keys(self, request):
        return self.own.keys(request)

    def ref_counts(self):
        return self.own.ref_counts()

    def free_queue(self):
        return self.own.free_queue()

    def cached(self):
        return self.own.cached()

    def take_events(self):
        return self.own.take_events()


class _WithTimers(_Locked):
    """It waits an hour each time: nobody has so much time, but the loop."""

    async def _wait(self) -> None:
        async with asyncio.timeout(7200):
            await asyncio.sleep(3600)


class _WithThreads(_Locked):
    """It waits for a thread."""

    async def _wait(self) -> None:
        await asyncio.wait_for(asyncio.to_thread(time.sleep, 0.0002), 1)


class _WithTasks(_Locked):
    """A task of its own does what it is asked, and never ends."""

    def __init__(self, blocks: int, block_tokens: int) -> None:
        super().__init__(blocks, block_tokens)
        self.queue: asyncio.Queue[Any] | None = None

    async def _alone(self, call: Any, *args: Any) -> Any:
        if self.queue is None:
            self.queue = asyncio.Queue(1)
            self.worker = asyncio.ensure_future(self._work(self.queue))
        done = asyncio.get_running_loop().create_future()
        await self.queue.put((done, call, args))
        # A task that is cancelled waits for what it has asked for, and so has all of it.
        while not done.done():
            try:
                await asyncio.shield(done)
            except asyncio.CancelledError:
                continue
        return done.result()

    async def _work(self, queue: asyncio.Queue[Any]) -> None:
        while True:
            done, call, args = await queue.get()
            await asyncio.sleep(0)
            done.set_result(call(*args))


class _PartlySynchronous(_Locked):
    """What it looks up is at hand."""

    def lookup(self, request):
        return self.own.lookup(request)

    def commit(self, request, tokens):
        self.own.commit(request, tokens)


class _ShowsKeys(_Locked):
    """Its blocks say what they are cached as."""

    def block_keys(self):
        return self.own.block_keys()


class _ToldByEvents(_Locked):
    """It shows no map: what is cached its events say, when no call is under way."""

    cached = BlockManager.cached


@pytest.mark.parametrize(
    ("kind", "examples"),
    [
        (example.TestAsyncPool, 300),
        (_Emptied, 300),
        (_ShowsKeys, 200),
        (_Locked, 200),
        (_WithTimers, 120),
        (_WithThreads, 20),
        (_WithTasks, 120),
        (_PartlySynchronous, 120),
        (_ToldByEvents, 200),
    ],
)
def test_a_manager_that_is_right_stays_silent(kind: type[BlockManager], examples: int) -> None:
    fuzzed = fuzz_manager(kind, examples=examples, seconds=120)
    assert fuzzed.broken == {}
    assert fuzzed.report.examples >= examples
    assert fuzzed.report.coverage["together"] > examples / 4
    assert fuzzed.report.activity.hits


class _EvictsByAStaleKey(_ShowsKeys):
    """What a block is cached as is read before an await and forgotten behind it; it may be something else by then."""

    take_events = BlockManager.take_events

    async def evict(self, block):
        pool = self.own.pool
        key = pool.blocks[block].key
        await self._wait()
        if key is not None:
            pool.blocks[block].key = None
            pool.cached.pop(key, None)


@pytest.mark.parametrize(("kind", "rule"), [(_EvictsByAStaleKey, "P5"), (_ResetsTooLate, "P14 (nothing less)")])
def test_what_empties_the_cache_overlaps_with_what_fills_it(kind: type[BlockManager], rule: str) -> None:
    assert rule in fuzz_manager(kind, examples=1500, seconds=900, findings=1).broken


def test_calls_overlap_and_some_are_cancelled() -> None:
    session, outcomes, beside = InProcess(_Locked), set(), 0
    can = session.hello.capabilities[requests.LEVEL]
    for play in range(40):
        drawn = requests.draw(
            can, "overlap", {"blocks": 6, "block_tokens": 2}, bytes(n * (7 + play) % 256 for n in range(200))
        )
        for step in session.run(close(drawn)).answer.steps:
            assert step.error is None
            outcomes |= {str(outcome) for outcome in (step.result or {}).values()} if step.op == "together" else set()
            who = [effect[1] for effect in step.effects if effect[0] == "turn"]
            beside += any(who[at] in who[at + 2 :] and who[at + 1] != who[at] for at in range(len(who) - 1))
    assert {"True", "False", "None", "cancelled"} <= outcomes
    assert beside > 20


class _Late(AsyncPool):
    """What is computed is cached some time before that is answered."""

    async def computed(self, name: str, tokens: Sequence[int]) -> None:
        await super().computed(name, tokens)
        await self.answer()


def test_of_what_was_cached_nobody_knows_when_nothing_more_is_asked() -> None:
    """Two blocks of one content, filled while calls overlap: that which was cached first is forgotten with its key."""
    dice, first = random.Random(1), set()
    for _ in range(60):
        rule, answer = played(
            driven(_Late, cached=BlockManager.cached),
            [
                ("begin", {"op": "start", "request": "r0", "prompt": [0, 0]}),
                ("begin", {"op": "start", "request": "r1", "prompt": [0, 0]}),
                ("together", {"order": [dice.randrange(2) for _ in range(12)]}),
                ("finish", {"request": "r0"}),
                ("start", {"request": "r2", "prompt": [1] * 6}),
                ("finish", {"request": "r2"}),
                ("start", {"request": "r3", "prompt": [0, 0, 0]}),
            ],
        )
        assert rule is None, answer
        told = [effect[1] for effect in answer.steps[2].effects if effect[0] == "processed"]
        first.add((told[0], "r3 finds it" if answer.steps[6].effects[2][2] else "r3 finds nothing"))
    assert len(first) == 4


class _NeverFinds(AsyncPool):
    async def find(self, tokens: Sequence[int]) -> list[int]:
        return []


def test_what_was_begun_and_is_nothing_to_do_changes_nothing() -> None:
    once = ("start", {"request": "r0", "prompt": [0, 0, 0]})
    operations = [
        once,
        ("begin", {"op": once[0], **once[1]}),
        ("together", {}),
        ("start", {"request": "r1", "prompt": [0, 0, 0]}),
    ]
    rule, answer = played(example.TestAsyncPool, operations)
    assert rule is None
    assert answer.steps[2].skipped
    assert answer.steps[3].effects[2] == ["lookup", "r1", 2, 0, 2]
    # And what was to be found before is to be found behind it, whether the manager shows its map or not.
    assert played(driven(_NeverFinds, cached=BlockManager.cached), operations)[0] == "P14"


# ------------------------------------------------------------------------------------------------------- what is said


def race(order: list[int]) -> list[tuple[str, dict[str, Any]]]:
    """Two requests grow together, in one block more each; then the first one reads what it has computed."""
    return [
        ("start", {"request": "r0", "prompt": [0, 0]}),
        ("start", {"request": "r1", "prompt": [1, 1]}),
        ("begin", {"op": "grow", "request": "r0", "tokens": [0]}),
        ("begin", {"op": "grow", "request": "r1", "tokens": [1]}),
        ("together", {"order": order}),
        ("grow", {"request": "r0", "tokens": [0]}),
    ]


def test_a_story_says_who_overlapped_and_where_each_stood() -> None:
    with pytest.raises(AssertionError) as failed:
        assert_played(driven(ChosenThenTaken), SETUP, race([0, 0]))
    story = str(failed.value)
    assert "calls overlap: a manager that one task alone calls says overlaps = False\n" in story
    assert "grow r0: calls allocate\n" in story
    assert "grow r1: allocate waits at async_faults.py:" in story
    assert "('together', {'order': [0, 0]})," in story


def test_the_order_decides() -> None:
    """The first goes on until it has its answer, and then the second one begins: nothing is wrong with that."""
    assert played(driven(ChosenThenTaken), race([0, 0]))[0] == "P6"
    assert played(driven(ChosenThenTaken), race([0, 1]))[0] is None


def test_the_same_seed_finds_the_same() -> None:
    def once() -> Fuzzed:
        return fuzz_manager(driven(ChosenThenTaken), examples=1200, seconds=120, findings=1, seed=3)

    first, second = once(), once()
    cases = [[finding.case for finding in fuzzed.report.findings] for fuzzed in (first, second)]
    assert cases[0]
    assert cases[0] == cases[1]


def test_what_a_fault_needs_is_told_of_overlapping_calls() -> None:
    fuzzed = fuzz_manager(driven(HeldForNobody), examples=6000, seconds=900, findings=1)
    assert fuzzed.report.findings[0].needs == {"a cancelled call", "overlapping calls"}


# ------------------------------------------------------------------------------------------ what is there afterwards

ASKED: ContextVar[int] = ContextVar("asked", default=0)


class _Counts(_Locked):
    """It counts its lookups in a context variable, and says so by failing at the third."""

    overlaps = False

    async def lookup(self, request):
        ASKED.set(ASKED.get() + 1)
        assert ASKED.get() < 3
        return await super().lookup(request)


def test_what_a_call_sets_in_its_context_the_next_one_sees() -> None:
    starts = [("start", {"request": f"r{n}", "prompt": [n]}) for n in range(3)]
    assert played(_Counts, starts[:2])[0] is None
    assert played(_Counts, starts[2:])[0] == "L2"


class _BrokenOff(_Locked):
    """Control-C comes while it allocates."""

    async def allocate(self, request, tokens):
        await self._wait()
        signal.raise_signal(signal.SIGINT)
        await self._wait()


@pytest.mark.parametrize("overlaps", [True, False])
def test_control_c_breaks_off_a_call_and_the_next_manager_is_judged(overlaps: bool) -> None:
    start = [("start", {"request": "r0", "prompt": [0, 0]})]
    # Who is started in the background by a shell ignores the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                played(type("_BrokenOff", (_BrokenOff,), {"overlaps": overlaps}), start)
            assert played(type("_Locked", (_Locked,), {"overlaps": overlaps}), start)[0] is None
    finally:
        signal.signal(signal.SIGINT, before)


# --------------------------------------------------------------------------------------------------- what can be said


class _Freed(HeldForNobody):
    """It says that what a cancelled admission took is the request's, until that is freed; perhaps it took nothing."""

    async def release(self, name: str) -> None:
        if name in self.tables:
            await super().release(name)


def test_what_a_cancelled_call_promises_can_be_said() -> None:
    assert fuzz_manager(driven(HeldForNobody, cancelled=None), examples=200, seconds=60).broken == {}
    fuzzed = fuzz_manager(driven(_Freed, cancelled="freed"), examples=200, seconds=60)
    assert fuzzed.broken == {}
    assert fuzz_manager(driven(_Freed), examples=6000, seconds=900, findings=1).broken


class _ForgetsAtCancellation(AsyncPool):
    """Who is cancelled while he grows empties the cache."""

    async def extend(self, name: str, most: int) -> bool:
        try:
            await self.answer()
        except asyncio.CancelledError:
            self.index.clear()
            raise
        return await super().extend(name, most)


def test_what_somebody_holds_no_cancelled_call_takes_out_of_the_cache() -> None:
    operations: list[tuple[str, dict[str, Any]]] = [
        ("start", {"request": "r0", "prompt": [0, 0]}),
        ("start", {"request": "r1", "prompt": [1, 1]}),
        ("begin", {"op": "grow", "request": "r1", "tokens": [1]}),
        ("together", {"cancel": [0, 0]}),
        ("start", {"request": "r2", "prompt": [0, 0, 0]}),
    ]
    for more in ({}, {"cached": BlockManager.cached}):
        rule, answer = played(driven(_ForgetsAtCancellation, **more), operations)
        assert answer.steps[3].result == {"grow r1": "cancelled"}
        assert rule == "P14"
        assert played(driven(AsyncPool, **more), operations)[0] is None
    # What nobody holds it may have taken, and given back.
    let_go = [*operations[:2], ("finish", {"request": "r0"}), *operations[2:]]
    assert played(driven(_ForgetsAtCancellation), let_go)[0] is None


def test_only_what_is_asynchronous_and_says_nothing_else_overlaps() -> None:
    def operations(kind: type[BlockManager]) -> list[str]:
        return InProcess(kind).hello.capabilities[requests.LEVEL].operations

    assert "together" in operations(example.TestAsyncPool)
    assert "together" not in operations(driven(AsyncPool, overlaps=False))
    assert "together" not in operations(pool_example.TestPool)
    with pytest.raises(UsageError, match="cancelled is 'never'; there are undone, freed and None"):
        InProcess(driven(AsyncPool, cancelled="never"))


class _Works(AsyncPool):
    """A task of its own gives back what is released."""

    async def release(self, name: str) -> None:
        if not hasattr(self, "asked"):
            self.asked: asyncio.Queue[tuple[str, asyncio.Future[None]]] = asyncio.Queue()
            self.worker = asyncio.create_task(self.work())
        done = asyncio.get_running_loop().create_future()
        await self.asked.put((name, done))
        await done

    async def work(self) -> None:
        while True:
            name, done = await self.asked.get()
            await super().release(name)
            done.set_result(None)


def test_tasks_of_a_manager_are_ended_with_the_case_and_not_lost(caplog: pytest.LogCaptureFixture) -> None:
    kind = type("Works", (example.TestAsyncPool,), {"kind": _Works})
    assert fuzz_manager(kind, examples=60, seconds=60, seed=1).broken == {}
    gc.collect()
    assert "Task was destroyed" not in caplog.text


# ------------------------------------------------------------------------------------------- what goes on behind a call


class _GivesBackLater(example.TestAsyncPool):
    """`free` answers at once; a task gives the blocks back a moment later."""

    forgets = False

    def __init__(self, blocks: int, block_tokens: int) -> None:
        super().__init__(blocks, block_tokens)
        self.later: set[asyncio.Task[None]] = set()

    async def free(self, request):
        task = asyncio.create_task(self._given_back(self.pool.tables.pop(request.name)))
        self.later.add(task)
        task.add_done_callback(self.later.discard)

    async def _given_back(self, table: list[int]) -> None:
        await asyncio.sleep(0.001)
        self.pool.give_back(table[self.forgets and len(table) > 1 :])


class _GivesBackForEver(_GivesBackLater):
    """Its task never ends: it looks now and then whether there is something to give back."""

    def __init__(self, blocks: int, block_tokens: int) -> None:
        super().__init__(blocks, block_tokens)
        self.over: list[list[int]] = []

    async def free(self, request):
        self.over.append(self.pool.tables.pop(request.name))
        if not self.later:
            self.later.add(asyncio.create_task(self._looks()))

    async def _looks(self) -> None:
        while True:
            await asyncio.sleep(0.01)
            while self.over:
                await self._given_back(self.over.pop())


@pytest.mark.parametrize("kind", [_GivesBackLater, _GivesBackForEver])
def test_what_a_task_of_its_own_gives_back_behind_the_answer_is_waited_for(kind: type[_GivesBackLater]) -> None:
    assert fuzz_manager(type("Right", (kind,), {"exact": False}), examples=300, seconds=60).broken == {}
    leaks = fuzz_manager(type("Leaks", (kind,), {"forgets": True}), seconds=20, findings=1).broken
    assert leaks.keys() & {"P2", "L2", "L1", "P3"}
