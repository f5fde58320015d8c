"""The pool with a host tier, held to the rules of offloading too: `pytest docs/examples/block-pool`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from offload import Copies, Offload
from test_pool import TestPool as _TestPool

from kvproof.testing import Request


class TestOffload(_TestPool):
    """How kvproof drives the two of them."""

    eager = True
    tier: ClassVar[type[Offload]] = Offload

    def __init__(self, blocks: int, block_tokens: int, host_blocks: int = 0) -> None:
        super().__init__(blocks, block_tokens)
        self.offload = self.tier(self.pool, host_blocks)

    def host_lookup(self, request: Request) -> list[int]:
        keys, held = self.keys(request)[: self.pool.most(request.tokens)], len(request.found)
        return self.offload.lookup(keys[held:])

    def load(self, request: Request) -> Copies:
        return [*zip(request.on_host, request.table[len(request.found) :], strict=False)]

    def store(self, requests: Sequence[Request]) -> Iterator[tuple[list[bytes], Copies]]:
        for request in requests:
            full = request.computed // self.pool.block_tokens
            begun, copies = self.offload.store(self.keys(request)[:full], request.table)
            if begun:
                yield begun, copies

    def stored(self, job: list[bytes]) -> None:
        self.offload.stored(job)

    def reset(self) -> bool:
        return self.offload.reset()

    def host_cached(self) -> Mapping[bytes, int]:
        return self.offload.cached

    def host_ref_counts(self) -> list[int]:
        return self.offload.ref_cnt

    def host_free_queue(self) -> list[int]:
        return self.offload.free
