"""The pool with a host tier, which is asked over a wire as well: stores and loads take time. It knows nothing of
kvproof."""

from collections.abc import Sequence

from async_pool import AsyncPool, Key

__all__ = ["AsyncOffload", "Copies"]

Copies = list[tuple[int, int]]
"""From blocks of one tier to blocks of the other."""


class AsyncOffload(AsyncPool):
    """A copy holds what it reads and what it writes, from the answer that names it until it is told to be done."""

    def __init__(self, blocks: int, block_tokens: int, host_blocks: int) -> None:
        """So many blocks of so many tokens, and so many on the host, all free."""
        super().__init__(blocks, block_tokens)
        self.host_refs = [0] * host_blocks
        self.host_free = [*range(host_blocks)]
        self.on_host: dict[Key, int] = {}
        self.storing: dict[Key, tuple[int, int]] = {}
        self.loading: dict[str, list[int]] = {}

    async def look_up(self, tokens: Sequence[int]) -> list[int]:
        """The blocks that hold the beginning of these tokens; nobody holds them yet."""
        async with self.lock:
            return await self.find(tokens)

    async def look_up_there(self, tokens: Sequence[int], held: int) -> list[int]:
        """The host blocks that go on behind so many blocks."""
        found: list[int] = []
        async with self.lock:
            for key in self.keys(tokens[:-1])[held:]:
                await self.answer()
                if key not in self.on_host:
                    break
                found.append(self.on_host[key])
        return found

    async def give(self, name: str, found: list[int], most: int) -> bool:
        """Let a request in, behind what was found."""
        async with self.lock:
            await self.answer()
            return self.hold(name, found, most)

    async def store(self, keys: Sequence[Key], blocks: Sequence[int]) -> tuple[list[Key], Copies]:
        """Begin to store what of these blocks is not there, as far as there is room."""
        async with self.lock:
            await self.answer()
            begun = [key for key, block in zip(keys, blocks, strict=True) if self.begin(key, block)]
            return begun, [self.storing[key] for key in begun]

    async def stored(self, keys: Sequence[Key]) -> None:
        """The host has these now."""
        async with self.lock:
            await self.answer()
            for key in keys:
                block, host = self.storing.pop(key)
                self.on_host[key] = host
                self.give_back([block])
                self.let_go([host])

    async def load(self, name: str, hosts: Sequence[int]) -> None:
        """A request copies these host blocks: they stay what they are."""
        async with self.lock:
            await self.answer()
            for host in hosts:
                self.host_refs[host] += 1
            self.host_free = [host for host in self.host_free if host not in hosts]
            self.loading[name] = [*hosts]

    async def loaded(self, name: str) -> None:
        """It has copied them."""
        async with self.lock:
            await self.answer()
            self.let_go(self.loading.pop(name))

    async def reset(self) -> bool:
        """Nothing can be found any more. Refused while anything is held."""
        async with self.lock:
            await self.answer()
            if any(self.refs) or any(self.host_refs):
                return False
            self.index.clear()
            self.on_host.clear()
            return True

    # -------------------------------------------------------------------------------------------- what they are made of

    def begin(self, key: Key, block: int) -> bool:
        """Hold what a store of this block reads and writes; false where there is nothing to do, or no room."""
        if key in self.on_host or key in self.storing or not self.host_free:
            return False
        host = self.host_free.pop(0)
        self.on_host = {key: other for key, other in self.on_host.items() if other != host}
        self.host_refs[host] = 1
        self.refs[block] += 1
        self.storing[key] = block, host
        return True

    def let_go(self, hosts: Sequence[int]) -> None:
        """One less holds each of these host blocks."""
        for host in hosts:
            self.host_refs[host] -= 1
            if not self.host_refs[host]:
                self.host_free.append(host)
