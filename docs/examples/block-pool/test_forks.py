"""Forks, held to the rules of KV caching: `pytest docs/examples/block-pool`."""

from forks import ForkPool
from test_pool import TestPool

from kvproof.testing import Request


class TestForks(TestPool):
    """How kvproof drives the pool, and forks."""

    kind = ForkPool
    pool: ForkPool

    def allocate(self, request: Request, tokens: int) -> list[int] | None:
        name, pool = request.name, self.pool
        if name in pool.tables:
            done = pool.grow(name, request.computed, tokens)
        else:
            done = pool.admit(name, request.found, tokens)
        return pool.tables[name] if done else None

    def fork(self, request: Request, child: Request) -> list[int]:
        self.pool.fork(request.name, child.name)
        return self.pool.tables[child.name]

    def take_copies(self) -> list[tuple[int, int]]:
        return self.pool.take_copies()
