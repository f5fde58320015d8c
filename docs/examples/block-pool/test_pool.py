"""The pool, held to the rules of KV caching: `pytest docs/examples/block-pool`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from pool import Pool

from kvproof.testing import BlockManager, Request


class TestPool(BlockManager):
    """How kvproof drives the pool."""

    tenants: ClassVar[tuple[str, ...]] = ("salt",)
    dialect: ClassVar = {"keep": "all", "take": "head", "free": "append"}
    kind: ClassVar[type[Pool]] = Pool

    def __init__(self, blocks: int, block_tokens: int) -> None:
        self.pool = self.kind(blocks, block_tokens)

    def lookup(self, request: Request) -> list[int]:
        return self.pool.lookup(request.tokens, request.salt)

    def allocate(self, request: Request, tokens: int) -> list[int] | None:
        name, pool = request.name, self.pool
        done = pool.extend(name, tokens) if name in pool.tables else pool.admit(name, request.found, tokens)
        return pool.tables[name] if done else None

    def commit(self, request: Request, tokens: int) -> None:
        self.pool.computed(request.name, request.tokens[:tokens], request.salt)

    def free(self, request: Request) -> None:
        self.pool.release(request.name)

    def evict(self, block: int) -> None:
        self.pool.forget(self.pool.blocks[block])

    def reset(self) -> bool:
        return self.pool.reset()

    def keys(self, request: Request) -> list[bytes]:
        return self.pool.keys(request.tokens, request.salt)

    def ref_counts(self) -> list[int]:
        return [block.ref_cnt for block in self.pool.blocks]

    def free_queue(self) -> Sequence[int]:
        return [*self.pool.free]

    def num_free(self) -> int:
        return self.pool.num_free

    def cached(self) -> Mapping[bytes, int]:
        return self.pool.cached

    def block_keys(self) -> dict[int, bytes]:
        return {block.number: block.key for block in self.pool.blocks if block.key is not None}

    def take_events(self) -> Iterable[tuple[Any, ...]]:
        return self.pool.take_events()
