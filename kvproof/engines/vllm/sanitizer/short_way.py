"""The short way by which a running engine judges nearly all calls of its block pool: those that are as due.

A call is as due when nothing is wrong with it and all that was seen of it follows from its blocks, their counts before
it and how many blocks were free. Then that is all that is kept of it, and `called` makes the `Call` of it again. Any
other call, right or wrong, is seen and judged in full by `observing` and `judging`, and nothing is lost by asking here
first: these functions say yes only where `judge_call` finds nothing.

Each looks at the blocks once and in place, since it is called dozens of times in a step of the engine.
"""

from __future__ import annotations

from typing import Any, Final

from .judging import AT_BOTH, NOWHERE, Call

__all__ = ["Brief", "called", "free_as_due", "ids_of", "register_as_due", "take_as_due", "touch_as_due"]

SEVERAL: Final = "cached_block_hashes_by_block"
"""The attribute of a pool that has the further keys of blocks; some releases have none."""

Brief = tuple[str, int, tuple[int, ...], tuple[int, ...], int]
"""What is kept of a call that is as due: what it was, its step, its blocks, their counts before it (of touch and free)
and the counter of the free queue before it (of take, touch and free)."""


def called(fields: tuple[Any, ...]) -> Call:
    """Return the call of which these fields were kept, all of them or those of one that is as due."""
    if len(fields) == len(Call._fields):
        return Call(*fields)
    op, step, blocks, before, free = fields
    none, no, zero = (NOWHERE,) * len(blocks), (False,) * len(blocks), (0,) * len(blocks)
    both = (AT_BOTH,) * len(blocks)
    if op == "take":
        wanted, one = len(blocks), (1,) * len(blocks)
        return Call(op, step, blocks, zero, one, (), no, none, (free, free - wanted), wanted, blocks)
    if op == "touch":
        was = tuple([not count for count in before])
        after = tuple([count + 1 for count in before])
        return Call(op, step, blocks, before, after, was, no, both, (free, free - was.count(True)))
    if op == "free":
        after = tuple([count - 1 for count in before])
        queued = tuple([not count for count in after])
        return Call(op, step, blocks, before, after, no, queued, free=(free, free + queued.count(True)))
    return Call(op, step, blocks, names=both)


def take_as_due(pool: Any, step: int, seen: Any, blocks: Any) -> Brief | None:
    """The head of the queue was handed out in order, to one holder each, and no key leads to it any longer."""
    wanted, free, head, before, keys, several = seen
    if several or getattr(pool, SEVERAL, None) or not len(head) == len(blocks) == wanted or any(before):
        return None
    if pool.free_block_queue.num_free_blocks != free - wanted:
        return None
    cache = pool.cached_block_hash_to_block._cache
    for block, due, key in zip(blocks, head, keys):  # noqa: B905
        if block is not due or block.ref_cnt != 1 or block.next_free_block is not None or block.is_null:
            return None
        if block._block_hash is not None or (key is not None and key in cache):
            return None
    return "take", step, ids_of(blocks), (), free


def touch_as_due(pool: Any, step: int, seen: Any, _answer: Any) -> Brief | None:
    """Each block got one holder more and left the queue if it stood there; map and blocks agree on its key."""
    blocks, free, ids, before, was = seen
    if getattr(pool, SEVERAL, None):
        return None
    entry_of, joined = pool.cached_block_hash_to_block._cache.get, 0
    for block, count, queued in zip(blocks, before, was):  # noqa: B905
        if queued is not (not count) or block.ref_cnt != count + 1 or block.next_free_block is not None:
            return None
        entry = entry_of(block._block_hash)
        if entry is not block and not (isinstance(entry, dict) and block.block_id in entry):
            return None
        joined += queued
    return ("touch", step, ids, before, free) if _whole(pool, ids, free - joined) else None


def free_as_due(pool: Any, step: int, seen: Any, _answer: Any) -> Brief | None:
    """Each block has one holder less, and stands in the queue now if it has none."""
    blocks, free, ids, before, was = seen
    if True in was:
        return None
    left = 0
    for block, count in zip(blocks, before):  # noqa: B905
        if block.ref_cnt != count - 1 or count < 1 or (block.next_free_block is None) is (count == 1):
            return None
        left += count == 1
    return ("free", step, ids, before, free) if _whole(pool, ids, free + left) else None


def register_as_due(pool: Any, step: int, seen: Any, _answer: Any) -> Brief | None:
    """Each block has one key, and the map leads from it to the block."""
    _, blocks, _ = seen
    if getattr(pool, SEVERAL, None):
        return None
    entry_of = pool.cached_block_hash_to_block._cache.get
    for block in blocks:
        entry = entry_of(block._block_hash)
        if entry is not block and not (isinstance(entry, dict) and block.block_id in entry):
            return None
    return "register", step, ids_of(blocks), (), 0


def ids_of(blocks: Any) -> tuple[int, ...]:
    """The numbers of blocks; most calls are of one."""
    return (blocks[0].block_id,) if len(blocks) == 1 else tuple([block.block_id for block in blocks])


def _whole(pool: Any, ids: tuple[int, ...], free: int) -> bool:
    """Whether no block is named twice, so many are free, and nothing is wrong with the null block."""
    null = pool.null_block
    return (
        pool.free_block_queue.num_free_blocks == free
        and null.next_free_block is None
        and null._block_hash is None
        and (len(ids) == 1 or len(set(ids)) == len(ids))
    )
