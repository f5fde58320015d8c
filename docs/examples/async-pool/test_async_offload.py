"""The pool with a host tier, held to the rules while its calls overlap: `pytest docs/examples/async-pool`."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from async_offload import AsyncOffload, Copies
from async_pool import Key

from kvproof.testing import BlockManager, Request


class TestAsyncOffload(BlockManager):
    """How kvproof drives the two of them."""

    kind: ClassVar[type[AsyncOffload]] = AsyncOffload
    eager = True

    def __init__(self, blocks: int, block_tokens: int, host_blocks: int = 0) -> None:
        self.pool = self.kind(blocks, block_tokens, host_blocks)

    async def lookup(self, request: Request) -> list[int]:
        return await self.pool.look_up(request.tokens)

    async def host_lookup(self, request: Request) -> list[int]:
        return await self.pool.look_up_there(request.tokens, len(request.found))

    async def allocate(self, request: Request, tokens: int) -> list[int] | None:
        name, pool = request.name, self.pool
        given = pool.extend(name, tokens) if name in pool.tables else pool.give(name, request.found, tokens)
        return pool.tables[name] if await given else None

    async def load(self, request: Request) -> Copies:
        await self.pool.load(request.name, request.on_host)
        return [*zip(request.on_host, request.table[len(request.found) :], strict=False)]

    async def loaded(self, request: Request, tokens: int) -> None:  # noqa: ARG002 # what failed is computed
        await self.pool.loaded(request.name)

    async def commit(self, request: Request, tokens: int) -> None:
        await self.pool.computed(request.name, request.tokens[:tokens])

    async def store(self, requests: Sequence[Request]) -> list[tuple[list[Key], Copies]]:
        full = {key: block for each in requests for key, block in zip(self.keys_of(each), each.table, strict=False)}
        keys, copies = await self.pool.store([*full], [*full.values()])
        return [(keys, copies)] if keys else []

    def keys_of(self, request: Request) -> list[Key]:
        return self.pool.keys(request.tokens[: request.computed])

    async def stored(self, job: list[Key]) -> None:
        await self.pool.stored(job)

    async def free(self, request: Request) -> None:
        await self.pool.release(request.name)

    async def reset(self) -> bool:
        return await self.pool.reset()

    def ref_counts(self) -> Sequence[int]:
        return self.pool.refs

    def free_queue(self) -> Sequence[int]:
        return self.pool.free

    def host_ref_counts(self) -> Sequence[int]:
        return self.pool.host_refs

    def host_free_queue(self) -> Sequence[int]:
        return self.pool.host_free

    def cached(self) -> Mapping[tuple[None, None, Key], int]:
        return {(None, None, key): block for key, block in self.pool.index.items()}

    def host_cached(self) -> Mapping[tuple[None, None, Key], int]:
        return {(None, None, key): host for key, host in self.pool.on_host.items()}
