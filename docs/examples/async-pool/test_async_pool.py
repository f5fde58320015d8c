"""The pool, held to the rules of KV caching while its calls overlap: `pytest docs/examples/async-pool`."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from async_pool import AsyncPool, Key

from kvproof.testing import BlockManager, Request


class TestAsyncPool(BlockManager):
    """How kvproof drives the pool."""

    kind: ClassVar[type[AsyncPool]] = AsyncPool

    def __init__(self, blocks: int, block_tokens: int) -> None:
        self.pool = self.kind(blocks, block_tokens)

    async def allocate(self, request: Request, tokens: int) -> list[int] | None:
        name, pool = request.name, self.pool
        if name in pool.tables:
            return pool.tables[name] if await pool.extend(name, tokens) else None
        found = await pool.admit(name, request.tokens, tokens)
        if found is None:
            return None
        request.cached = found
        return pool.tables[name]

    async def commit(self, request: Request, tokens: int) -> None:
        await self.pool.computed(request.name, request.tokens[:tokens])

    async def free(self, request: Request) -> None:
        await self.pool.release(request.name)

    def ref_counts(self) -> Sequence[int]:
        return self.pool.refs

    def free_queue(self) -> Sequence[int]:
        return self.pool.free

    def cached(self) -> Mapping[tuple[None, None, Key], int]:
        return {(None, None, key): block for key, block in self.pool.index.items()}
