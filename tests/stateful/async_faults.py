"""The asynchronous example pool (docs/examples/async-pool) with a fault each, which only calls that overlap bring
about, or one that is cancelled."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "async-pool"
sys.path.insert(0, str(EXAMPLE))

from async_pool import AsyncPool  # noqa: E402


class CheckedThenTaken(AsyncPool):
    """Whether there is room is asked before an await, and the blocks are taken behind it: two take what is there for
    one, and go on with a table that is too short."""

    async def extend(self, name: str, most: int) -> bool:
        missing = self.need(most) - len(self.tables[name])
        if missing > len(self.free):
            return False
        await self.answer()
        self.tables[name] += self.take(missing)
        return True


class ChosenThenTaken(AsyncPool):
    """Blocks are chosen before an await and taken behind it: two choose the same."""

    async def extend(self, name: str, most: int) -> bool:
        missing = self.need(most) - len(self.tables[name])
        chosen = self.free[:missing]
        if missing > len(chosen):
            return False
        await self.answer()
        self.free = [block for block in self.free if block not in chosen]
        self.index = {key: block for key, block in self.index.items() if block not in chosen}
        for block in chosen:
            self.refs[block] += 1
        self.tables[name] += chosen
        return True


class LeakedAtCancellation(AsyncPool):
    """Blocks are taken before an await, and stand in no table when the call is cancelled there."""

    async def extend(self, name: str, most: int) -> bool:
        async with self.lock:
            missing = self.need(most) - len(self.tables[name])
            if missing > len(self.free):
                return False
            taken = self.take(missing)
            await self.answer()
            self.tables[name] += taken
            return True


class HeldForNobody(AsyncPool):
    """A request has its blocks before an await, and nobody takes them back when its admission is cancelled there."""

    async def admit(self, name: str, tokens: Sequence[int], most: int) -> int | None:
        found = await super().admit(name, tokens, most)
        await self.answer()
        return found


class FoundThenEvicted(AsyncPool):
    """The lock is taken behind the lookup: what it found may be another's by then."""

    async def admit(self, name: str, tokens: Sequence[int], most: int) -> int | None:
        found = await self.find(tokens)
        async with self.lock:
            most = max(most, len(found) * self.block_tokens)
            return len(found) * self.block_tokens if self.hold(name, found, most) else None


class TwoLocks(AsyncPool):
    """Two locks are taken in one order here and in the other one there."""

    def __init__(self, blocks: int, block_tokens: int) -> None:
        super().__init__(blocks, block_tokens)
        self.of_index = asyncio.Lock()

    async def computed(self, name: str, tokens: Sequence[int]) -> None:
        async with self.of_index:
            await self.answer()
            await super().computed(name, tokens)

    async def release(self, name: str) -> None:
        async with self.lock:
            await self.answer()
            async with self.of_index:
                self.give_back(self.tables.pop(name))


class LostWakeUp(AsyncPool):
    """Who waits for the index is woken by nobody, where the one who had it was not alone in waiting."""

    def __init__(self, blocks: int, block_tokens: int) -> None:
        super().__init__(blocks, block_tokens)
        self.busy = False
        self.waiting: asyncio.Future[None] | None = None

    async def computed(self, name: str, tokens: Sequence[int]) -> None:
        while self.busy:
            self.waiting = asyncio.get_running_loop().create_future()  # In the place of one that waits already.
            await self.waiting
        self.busy = True
        try:
            await super().computed(name, tokens)
        finally:
            self.busy = False
            if self.waiting is not None and not self.waiting.done():
                self.waiting.set_result(None)


class WakesTheSecond(AsyncPool):
    """Who lets go waits for who grows; where two do, the second one is woken for, and the first one's end is not heard.
    It takes three requests that are there, and an order in which the second begins before the first one's end."""

    growing: asyncio.Event | None = None

    async def extend(self, name: str, most: int) -> bool:
        self.growing = asyncio.Event()
        try:
            await self.answer()
            return await super().extend(name, most)
        finally:
            if self.growing is not None:
                self.growing.set()
            self.growing = None

    async def release(self, name: str) -> None:
        if self.growing is not None:
            await self.growing.wait()
        await super().release(name)


class KeptAtCancellation(AsyncPool):
    """A lock that is not given back when its holder is cancelled."""

    async def extend(self, name: str, most: int) -> bool:
        await self.lock.acquire()
        await self.answer()
        done = self.grow(name, most)
        self.lock.release()
        return done


class Emptied(AsyncPool):
    """The pool, whose cache can be emptied."""

    async def evict(self, block: int) -> None:
        """A block cannot be found any more."""
        async with self.lock:
            await self.answer()
            self.index = {key: other for key, other in self.index.items() if other != block}

    async def reset(self) -> bool:
        """Nothing can be found any more. Refused while anything is held."""
        async with self.lock:
            await self.answer()
            if any(self.refs):
                return False
            self.index.clear()
            return True


class ResetsTooLate(Emptied):
    """Whether anything is held is asked before an await, and the cache emptied behind it."""

    async def reset(self) -> bool:
        if any(self.refs):
            return False
        await self.answer()
        self.index.clear()
        return True


FAULTS: dict[type[AsyncPool], set[str]] = {
    CheckedThenTaken: {"P6", "L2"},
    ChosenThenTaken: {"P2", "P3", "P6", "L2"},
    LeakedAtCancellation: {"P2", "L1", "L2"},
    HeldForNobody: {"P2", "L1", "L2"},
    FoundThenEvicted: {"P6", "P2", "L2"},
    TwoLocks: {"L1"},
    WakesTheSecond: {"L1"},
    LostWakeUp: {"L1"},
    KeptAtCancellation: {"L1"},
}
"""Each, and the rules any of which names it."""
