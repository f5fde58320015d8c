"""The pool of a hybrid model, held to the rules of KV caching: `pytest docs/examples/block-pool`."""

from collections.abc import Mapping
from typing import ClassVar

from hybrid import NULL, HybridPool

from kvproof.testing import BlockManager, Request


class TestHybrid(BlockManager):
    """How kvproof drives it: a table is one for each group."""

    groups = (None, 5)
    null_block = NULL
    kind: ClassVar[type[HybridPool]] = HybridPool

    def __init__(self, blocks: int, block_tokens: int) -> None:
        self.pool = self.kind(blocks, block_tokens, window=5)

    def lookup(self, request: Request) -> list[list[int]]:
        return self.pool.found(request.tokens)

    def allocate(self, request: Request, tokens: int) -> list[list[int]] | None:
        return self.table(request) if self.pool.give(request.name, request.found, tokens) else None

    def table(self, request: Request) -> list[list[int]]:
        return self.pool.groups[request.name]

    def commit(self, request: Request, tokens: int) -> None:
        self.pool.done(request.name, request.tokens[:tokens])

    def free(self, request: Request) -> None:
        self.pool.end(request.name)

    def ref_counts(self) -> list[int]:
        return [block.ref_cnt for block in self.pool.blocks]

    def free_queue(self) -> list[int]:
        return [*self.pool.free]

    def keys(self, request: Request) -> list[bytes]:
        return self.pool.keys(request.tokens)

    def cached(self) -> Mapping[tuple[bytes, int], int]:
        return {(key[:16], int(key[16:] == b"window")): number for key, number in self.pool.cached.items()}
