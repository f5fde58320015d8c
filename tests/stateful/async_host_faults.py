"""The asynchronous example pool with a host tier (docs/examples/async-pool) with a fault each, which only calls that
overlap bring about, or one that is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from . import async_faults

from async_pool import Key  # isort: skip # async_faults puts its folder on the path
from async_offload import AsyncOffload, Copies  # isort: skip

assert async_faults.EXAMPLE


class ChosenOnHost(AsyncOffload):
    """A host block is chosen before an await and taken behind it: two stores choose the same."""

    async def store(self, keys: Sequence[Key], blocks: Sequence[int]) -> tuple[list[Key], Copies]:
        free = [*self.host_free]
        await self.answer()
        self.host_free = free + [host for host in self.host_free if host not in free]
        begun = [key for key, block in zip(keys, blocks, strict=True) if self.begin(key, block)]
        return begun, [self.storing[key] for key in begun]


class StoredTwice(AsyncOffload):
    """What has to be stored is known before an await, and begun behind it: another store has begun it by then."""

    async def store(self, keys: Sequence[Key], blocks: Sequence[int]) -> tuple[list[Key], Copies]:
        new = [(key, block) for key, block in zip(keys, blocks, strict=True) if key not in {*self.on_host}]
        storing = {*self.storing}
        begun: Copies = []
        names: list[Key] = []
        async with self.lock:
            await self.answer()
            for key, block in new:
                if key not in storing and self.host_free:
                    self.storing.pop(key, None)
                    self.on_host.pop(key, None)
                    if self.begin(key, block):
                        names.append(key)
                        begun.append(self.storing[key])
        return names, begun


class OneJobForTwo(AsyncOffload):
    """A job has its number before an await, and its keys behind it: two have the same one."""

    def __init__(self, blocks: int, block_tokens: int, host_blocks: int) -> None:
        super().__init__(blocks, block_tokens, host_blocks)
        self.begun = 0
        self.jobs: dict[int, list[Key]] = {}

    async def store(self, keys: Sequence[Key], blocks: Sequence[int]) -> tuple[list[Key], Copies]:
        number = self.begun + 1
        begun, copies = await super().store(keys, blocks)
        self.begun, self.jobs[number] = number, begun
        return [(number,)] if begun else [], copies

    async def stored(self, keys: Sequence[Key]) -> None:
        await super().stored(self.jobs.pop(keys[0][0], []))


class LostUpdate(AsyncOffload):
    """The host's map is copied before an await and put in its place behind it: what another one changed is undone."""

    async def stored(self, keys: Sequence[Key]) -> None:
        there = {**self.on_host}
        await self.answer()
        for key in keys:
            block, there[key] = self.storing.pop(key)
            self.give_back([block])
            self.let_go([there[key]])
        self.on_host = there


class LostHold(AsyncOffload):
    """How many hold a block is read before an await, and written behind it: who came between does not count."""

    async def stored(self, keys: Sequence[Key]) -> None:
        counts = {self.storing[key][0]: self.refs[self.storing[key][0]] for key in keys}
        await self.answer()
        for key in keys:
            block, host = self.storing.pop(key)
            self.refs[block] = counts[block]
            self.give_back([block])
            self.on_host[key] = host
            self.let_go([host])


class LastOneLeaves(AsyncOffload):
    """Whether a load is the last one to hold a host block is asked before an await, and the block freed behind it:
    another load has it by then."""

    async def loaded(self, name: str) -> None:
        hosts = self.loading.pop(name)
        last = [host for host in hosts if self.host_refs[host] == 1]
        await self.answer()
        for host in hosts:
            self.host_refs[host] -= 1
        self.host_free += last


class PinnedLate(AsyncOffload):
    """A load takes host blocks out of the free queue before an await, and counts itself behind it: who lets go of one
    meanwhile puts it back there."""

    async def load(self, name: str, hosts: Sequence[int]) -> None:
        self.host_free = [host for host in self.host_free if host not in hosts]
        await self.answer()
        for host in hosts:
            self.host_refs[host] += 1
        self.loading[name] = [*hosts]


class ResetBesideAStore(AsyncOffload):
    """Whether anything is held is asked before an await, and both tiers emptied behind it."""

    async def reset(self) -> bool:
        if any(self.refs) or any(self.host_refs):
            return False
        await self.answer()
        self.index.clear()
        self.on_host.clear()
        return True


class RestoredBehindAReset(AsyncOffload):
    """A reset empties the host's map, and puts back what it was where another one holds something by then: but it says
    that it is done."""

    async def reset(self) -> bool:
        if any(self.refs) or any(self.host_refs):
            return False
        there, self.on_host = self.on_host, {}
        self.index.clear()
        await self.answer()
        if any(self.refs):
            self.on_host = {**there, **self.on_host}
        return True


class LeakedStore(AsyncOffload):
    """A store holds its blocks before an await, and nobody lets go of them when it is cancelled there."""

    async def store(self, keys: Sequence[Key], blocks: Sequence[int]) -> tuple[list[Key], Copies]:
        async with self.lock:
            begun = [key for key, block in zip(keys, blocks, strict=True) if self.begin(key, block)]
            await self.answer()
            return begun, [self.storing[key] for key in begun]


class HalfUndone(AsyncOffload):
    """A store that is cancelled lets go of the device's blocks, and not of the host's."""

    async def store(self, keys: Sequence[Key], blocks: Sequence[int]) -> tuple[list[Key], Copies]:
        async with self.lock:
            begun = [key for key, block in zip(keys, blocks, strict=True) if self.begin(key, block)]
            try:
                await self.answer()
            except asyncio.CancelledError:
                for key in begun:
                    self.give_back([self.storing.pop(key)[0]])
                raise
            return begun, [self.storing[key] for key in begun]


class LockKeptByAStore(AsyncOffload):
    """A lock that is not given back when a store is cancelled."""

    async def store(self, keys: Sequence[Key], blocks: Sequence[int]) -> tuple[list[Key], Copies]:
        await self.lock.acquire()
        await self.answer()
        begun = [key for key, block in zip(keys, blocks, strict=True) if self.begin(key, block)]
        self.lock.release()
        return begun, [self.storing[key] for key in begun]


class LockOfEachTier(AsyncOffload):
    """Each tier has a lock: a store takes the device's first, and one that is done the host's."""

    def __init__(self, blocks: int, block_tokens: int, host_blocks: int) -> None:
        super().__init__(blocks, block_tokens, host_blocks)
        self.of_host = asyncio.Lock()

    async def store(self, keys: Sequence[Key], blocks: Sequence[int]) -> tuple[list[Key], Copies]:
        async with self.lock, self.of_host:
            await self.answer()
            begun = [key for key, block in zip(keys, blocks, strict=True) if self.begin(key, block)]
            return begun, [self.storing[key] for key in begun]

    async def stored(self, keys: Sequence[Key]) -> None:
        async with self.of_host:
            await self.answer()
            await super().stored(keys)


class FreedWithWhoWasThere(AsyncOffload):
    """Which blocks nobody else holds is asked before an await, and those are freed behind it: a store has ended by then
    that had held one too."""

    async def release(self, name: str) -> None:
        table = self.tables.pop(name)
        last = [block for block in table if self.refs[block] == 1]
        await self.answer()
        for block in table:
            self.refs[block] -= 1
        self.free += reversed(last)


FAULTS: dict[type[AsyncOffload], set[str]] = {
    ChosenOnHost: {"O1 (host counts)", "O8", "P6 (host)"},
    StoredTwice: {"L2", "O1 (host counts)", "O3", "P2"},
    OneJobForTwo: {"L1", "L2", "O1 (host counts)", "P2"},
    LostUpdate: {"O9", "P6 (host)"},
    LostHold: {"P2", "P3"},
    LastOneLeaves: {"O1 (host counts)"},
    PinnedLate: {"O1 (host counts)"},
    ResetBesideAStore: {"O6", "O9", "P11", "P14 (nothing less)"},
    RestoredBehindAReset: {"O10", "P14 (nothing less)"},
    LeakedStore: {"O1 (host counts)", "P2"},
    HalfUndone: {"O1 (host counts)"},
    LockKeptByAStore: {"L1"},
    LockOfEachTier: {"L1"},
    FreedWithWhoWasThere: {"L2", "P2", "P3"},
}
"""Each, and the rules any of which names it."""
