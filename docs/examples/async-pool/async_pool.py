"""A small block pool whose prefix index is asked over a wire: its methods are coroutines. It knows nothing of kvproof.

Several tasks may call it at once: a lock is held from the first question to the last change, and what changes the pool
comes behind the last ``await``, so that a task that is cancelled leaves nothing half done.
"""

import asyncio
from collections.abc import Sequence

__all__ = ["AsyncPool", "Key"]

Key = tuple[int, ...]
"""All tokens up to the end of a block."""


class AsyncPool:
    """Blocks, who holds them, and the prefixes that they are cached under."""

    def __init__(self, blocks: int, block_tokens: int) -> None:
        """So many blocks of so many tokens, all free."""
        self.block_tokens = block_tokens
        self.refs = [0] * blocks
        self.free = [*range(blocks)]
        self.index: dict[Key, int] = {}
        self.tables: dict[str, list[int]] = {}
        self.lock = asyncio.Lock()

    async def admit(self, name: str, tokens: Sequence[int], most: int) -> int | None:
        """Let a request in, for its first so many tokens; return how many of them were found, or None: no room."""
        async with self.lock:
            found = await self.find(tokens)
            most = max(most, len(found) * self.block_tokens)
            return len(found) * self.block_tokens if self.hold(name, found, most) else None

    async def extend(self, name: str, most: int) -> bool:
        """Give a request blocks for so many tokens in all; where there is no room, nothing."""
        async with self.lock:
            await self.answer()
            return self.grow(name, most)

    async def computed(self, name: str, tokens: Sequence[int]) -> None:
        """These tokens of a request are computed: the blocks that they fill can be found from now on."""
        async with self.lock:
            for key, block in zip(self.keys(tokens), self.tables[name], strict=False):
                await self.answer()
                self.index.setdefault(key, block)

    async def release(self, name: str) -> None:
        """A request is over: its blocks are free, the last one first, and can be found until they are taken."""
        async with self.lock:
            await self.answer()
            self.give_back(self.tables.pop(name))

    # -------------------------------------------------------------------------------------------- what they are made of

    async def answer(self) -> None:
        """Wait for the other end of the wire."""
        await asyncio.sleep(0)

    async def find(self, tokens: Sequence[int]) -> list[int]:
        """The blocks that hold the beginning of these tokens. The last token has to be computed in any case."""
        found: list[int] = []
        for key in self.keys(tokens[:-1]):
            await self.answer()
            if key not in self.index:
                break
            found.append(self.index[key])
        return found

    def keys(self, tokens: Sequence[int]) -> list[Key]:
        """The keys of all full blocks."""
        return [tuple(tokens[:end]) for end in range(self.block_tokens, len(tokens) + 1, self.block_tokens)]

    def need(self, tokens: int) -> int:
        """How many blocks so many tokens take."""
        return -(-tokens // self.block_tokens)

    def hold(self, name: str, found: list[int], most: int) -> bool:
        """Hold what was found, and take the rest; without room, nothing."""
        idle = [block for block in found if not self.refs[block]]
        if self.need(most) - len(found) > len(self.free) - len(idle):
            return False
        for block in found:
            self.refs[block] += 1
        self.free = [block for block in self.free if block not in idle]
        self.tables[name] = [*found]
        return self.grow(name, most)

    def grow(self, name: str, most: int) -> bool:
        """Take what is missing; without room, nothing."""
        missing = self.need(most) - len(self.tables[name])
        if missing > len(self.free):
            return False
        self.tables[name] += self.take(missing)
        return True

    def take(self, count: int) -> list[int]:
        """The blocks that were free for longest, for somebody who will overwrite them."""
        taken, self.free = self.free[:count], self.free[count:]
        self.index = {key: block for key, block in self.index.items() if block not in taken}
        for block in taken:
            self.refs[block] = 1
        return taken

    def give_back(self, table: list[int]) -> None:
        """One less holds each of these blocks."""
        for block in reversed(table):
            self.refs[block] -= 1
            if not self.refs[block]:
                self.free.append(block)
