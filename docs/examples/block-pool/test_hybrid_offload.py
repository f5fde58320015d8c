"""The pool of a hybrid model and its host tier, held to the rules: `pytest docs/examples/block-pool`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from hybrid_offload import HybridOffload
from offload import Copies
from test_hybrid import TestHybrid as _TestHybrid

from kvproof.testing import Request


class TestHybridOffload(_TestHybrid):
    """How kvproof drives the two of them: what the host has is told for each group."""

    eager = True
    tier: ClassVar[type[HybridOffload]] = HybridOffload

    def __init__(self, blocks: int, block_tokens: int, host_blocks: int = 0) -> None:
        super().__init__(blocks, block_tokens)
        self.offload = self.tier(self.pool, host_blocks)

    def host_lookup(self, request: Request) -> list[list[int | None]]:
        return self.offload.found(request.tokens, len(request.found[0]))

    def allocate(self, request: Request, tokens: int) -> list[list[int]] | None:
        begin = self.offload.places(request.found, request.on_host) if request.on_host else request.found
        return self.table(request) if self.pool.give(request.name, begin, tokens) else None

    def load(self, request: Request) -> Copies:
        return self.offload.loads(request.on_host, request.table, len(request.found[0]))

    def store(self, requests: Sequence[Request]) -> Iterator[tuple[list[bytes], Copies]]:
        for request in requests:
            done = request.tokens[: request.computed]
            begun, copies = self.offload.store_groups(done, self.table(request))
            if begun:
                yield begun, copies

    def stored(self, job: list[bytes]) -> None:
        self.offload.stored(job)

    def reset(self) -> bool:
        return self.offload.reset()

    def host_cached(self) -> Mapping[tuple[bytes, int], int]:
        return {(key[:16], int(key[16:] == b"window")): host for key, host in self.offload.cached.items()}

    def host_ref_counts(self) -> list[int]:
        return self.offload.ref_cnt

    def host_free_queue(self) -> list[int]:
        return self.offload.free
