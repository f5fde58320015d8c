"""Calls of pools and their managers that name what is not there, in whatever state they are."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from ...refimpl.pool.block_pool import BlockPool
from ...refimpl.pool.manager import KVCacheManager, RequestId
from ..strays import Stray

__all__ = ["NOBODY", "of_manager", "of_pool"]

NOBODY = "nobody"
"""A request that there is not."""

KEY = b"a key that nothing has"


def of_pool(pool: BlockPool) -> Iterator[Stray]:
    """Blocks before the first and beyond the last, alone and behind others that are there; less than none."""
    blocks = range(pool.num_blocks)
    held = [b for b in blocks if pool.ref_cnt(b)]
    for stray in (-1, pool.num_blocks):
        yield pool.ref_cnt, (stray,)
        yield pool.keys_of, (stray,)
        yield pool.register, (stray, KEY, None)
        yield pool.evict, (stray,)
        yield pool.touch, ([*blocks, stray],)
        yield pool.free, ([*held, stray],)
    yield pool.allocate, (-1,)
    yield pool.make_room, (-1,)


def of_manager(manager: KVCacheManager) -> Iterator[Stray]:
    """A request that is not inside; positions, slots and counts that one inside does not have."""
    yield from of_pool(manager.pool)
    yield manager.admit, (NOBODY, -1)
    for asked in (manager.table, manager.num_positions, manager.need, manager.finish, manager.preempt, manager.skip):
        yield asked, (NOBODY,)
    for r, table in manager.snapshot().tables.items():
        yield from _of_request(manager, r, len(table))


def _of_request(manager: KVCacheManager, r: RequestId, length: int) -> Iterator[Stray]:
    slots, too_many = manager.block_tokens, manager.need(r) + 1
    yield manager.forget, (r,)
    yield manager.allocate, (r, -1)
    yield manager.allocate, (r, too_many - length)
    yield manager.hit, (r, [KEY] * too_many, -1)
    yield manager.hit, (r, [KEY] * too_many, too_many)
    for n in (-1, length + 1):
        yield manager.trim, (r, n)
        yield manager.drop, (r, n)
    one = torch.zeros(1, dtype=torch.int64)
    for position in (-1, length):
        yield manager.write, (r, position, 0, 0)
        yield manager.write_run, (r, position * slots, one)
        yield manager.register, (r, position, KEY, None, 1)
    for slot in (-1, slots):
        yield manager.write, (r, 0, slot, 0)
    for covered in (0, slots + 1):
        yield manager.register, (r, 0, KEY, None, covered)
