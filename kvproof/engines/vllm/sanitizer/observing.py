"""What is seen of each call of a block pool, before and after it.

Of each method that is watched one function looks before the call: it returns the arguments that the method is to be
called with, and what it saw. Another looks after the call, and makes of both the fields of a `Call`, in their order: a
plain tuple, which costs a third of the time. Of most calls that need not be done (`short_way`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from ..worker.vllm_reading import hash_keys
from .judging import AT_BLOCK, AT_BOTH, IN_MAP, NOWHERE
from .short_way import Brief, free_as_due, ids_of, register_as_due, take_as_due, touch_as_due

__all__ = ["METHODS", "Method"]

Arguments = tuple[Any, ...]
Fields = tuple[Any, ...]
"""The fields of a `Call`, in their order."""


def _never(_pool: Any, _step: int, _seen: Any, _answer: Any) -> None:
    """There is no short way for a call."""


class Method(NamedTuple):
    """A method of the block pool that is watched."""

    before: Callable[[Any, Arguments], tuple[Arguments, Any]]
    """Given the pool and the arguments."""
    after: Callable[[Any, int, Any, Any, str], Fields]
    """Given the pool, the step, what was seen before, the method's answer, and what it raised, in words."""
    parameters: tuple[str, ...]
    """The names of its first parameters, in every release that is known."""
    always: bool = True
    """Whether every release that is known has it."""
    short: Callable[[Any, int, Any, Any], Brief | None] = _never
    """Given the same as ``after`` of a call that raised nothing: what is kept of it if it is as due."""


def _before_take(pool: Any, args: Arguments) -> tuple[Arguments, Any]:
    wanted, queue = args[0], pool.free_block_queue
    free = queue.num_free_blocks
    head = _head(queue, wanted) if wanted <= free else []
    several = bool(getattr(pool, "cached_block_hashes_by_block", None))
    keys = [hash_keys(pool, block) for block in head] if several else [block._block_hash for block in head]
    return args, (wanted, free, head, _counts(head), keys, several)


def _after_take(pool: Any, step: int, seen: Any, result: Any, error: str) -> Fields:
    wanted, free, head, before, keys, several = seen
    former = keys if several else [key if key is None else (key,) for key in keys]
    blocks = [] if error else result
    ids, counts, queued = ids_of(blocks), _counts(blocks), _queued(blocks)
    places = () if error else _places(pool, blocks, former)
    null = "the null block was handed out" if pool.null_block.block_id in ids else ""
    counter = (free, pool.free_block_queue.num_free_blocks)
    return ("take", step, ids, before, counts, (), queued, places, counter, wanted, ids_of(head), null, True, error)


def _before_holders(pool: Any, args: Arguments) -> tuple[Arguments, Any]:
    """For touch and free; what they are given may be an iterator."""
    if not isinstance(args[0], (list, tuple)):
        args = (list(args[0]), *args[1:])
    blocks = [block for block in args[0] if not block.is_null]
    if blocks and getattr(blocks[0], "pool", None) is not None:
        # One call may give back blocks of several pools: each hears of its own.
        blocks = [block for block in blocks if block.pool is pool]
    free = pool.free_block_queue.num_free_blocks
    return args, (blocks, free, ids_of(blocks), _counts(blocks), _queued(blocks))


def _after_touch(pool: Any, step: int, seen: Any, _result: Any, error: str) -> Fields:
    blocks, free, ids, before, was = seen
    counter = (free, pool.free_block_queue.num_free_blocks)
    counts, queued, places = _counts(blocks), _queued(blocks), _places(pool, blocks)
    return ("touch", step, ids, before, counts, was, queued, places, counter, 0, (), _null(pool), True, error)


def _after_free(pool: Any, step: int, seen: Any, _result: Any, error: str) -> Fields:
    blocks, free, ids, before, was = seen
    counter = (free, pool.free_block_queue.num_free_blocks)
    counts, queued = _counts(blocks), _queued(blocks)
    return ("free", step, ids, before, counts, was, queued, (), counter, 0, (), _null(pool), True, error)


def _before_register(_pool: Any, args: Arguments) -> tuple[Arguments, Any]:
    return args, ("register", [block for block in args[1][args[2] : args[3]] if not block.is_null], None)


def _before_register_one(_pool: Any, args: Arguments) -> tuple[Arguments, Any]:
    return args, ("register", [] if args[1].is_null else [args[1]], None)


def _before_move(pool: Any, args: Arguments) -> tuple[Arguments, Any]:
    source, target = args[:2]
    return args, ("move", [source, target], [hash_keys(pool, source), ()])


def _after_naming(pool: Any, step: int, seen: Any, _result: Any, error: str) -> Fields:
    op, blocks, former = seen
    return (op, step, ids_of(blocks), (), (), (), (), _places(pool, blocks, former), (0, 0), 0, (), "", True, error)


def _before_evict(pool: Any, args: Arguments) -> tuple[Arguments, Any]:
    given = set(args[0])
    blocks = [pool.blocks[b] for b in sorted(given) if 0 <= b < len(pool.blocks)]
    former = _keys(pool, blocks)
    return (given,), (blocks, former, pool.free_block_queue.num_free_blocks, _counts(blocks))


def _after_evict(pool: Any, step: int, seen: Any, _result: Any, error: str) -> Fields:
    blocks, former, free, before = seen
    ids, counts, queued = ids_of(blocks), _counts(blocks), _queued(blocks)
    places = _places(pool, blocks, former)
    counter = (free, pool.free_block_queue.num_free_blocks)
    return ("evict", step, ids, before, counts, (), queued, places, counter, 0, (), "", True, error)


def _before_reset(pool: Any, args: Arguments) -> tuple[Arguments, Any]:
    return args, pool.free_block_queue.num_free_blocks


def _after_reset(pool: Any, step: int, free: Any, result: Any, error: str) -> Fields:
    done = bool(result)
    left = [block for block in pool.blocks if hash_keys(pool, block)] if done else []
    places = _places(pool, left) or ((IN_MAP,) if done and pool.cached_block_hash_to_block._cache else ())
    counter = (free, pool.free_block_queue.num_free_blocks)
    return ("reset", step, ids_of(left), (), (), (), (), places, counter, len(pool.blocks), (), "", done, error)


METHODS: Final = {
    "get_new_blocks": Method(_before_take, _after_take, ("num_blocks",), short=take_as_due),
    "touch": Method(_before_holders, _after_touch, ("blocks",), short=touch_as_due),
    "free_blocks": Method(_before_holders, _after_free, ("ordered_blocks",), short=free_as_due),
    "cache_full_blocks": Method(
        _before_register,
        _after_naming,
        ("request", "blocks", "num_cached_blocks", "num_full_blocks"),
        short=register_as_due,
    ),
    "evict_blocks": Method(_before_evict, _after_evict, ("block_ids",)),
    "reset_prefix_cache": Method(_before_reset, _after_reset, ()),
    "unpin_blocks": Method(_before_holders, _after_free, ("blocks", "on_reuse"), always=False, short=free_as_due),
    "cache_partial_block": Method(_before_register_one, _after_naming, ("request", "block"), always=False),
    "move_block_hashes": Method(_before_move, _after_naming, ("src_block", "dst_block"), always=False),
}
"""What is watched, by its name. Lookups are not: what they find is looked at when it is touched."""


def _counts(blocks: Sequence[Any]) -> tuple[int, ...]:
    return (blocks[0].ref_cnt,) if len(blocks) == 1 else tuple([block.ref_cnt for block in blocks])


def _queued(blocks: Sequence[Any]) -> tuple[bool, ...]:
    """Whether each stands in the free queue, by the link that leaving it cuts."""
    if len(blocks) == 1:
        return (blocks[0].next_free_block is not None,)
    return tuple([block.next_free_block is not None for block in blocks])


def _head(queue: Any, n: int) -> list[Any]:
    """The first blocks of the free queue."""
    if n == 1:
        first = queue.fake_free_list_head.next_free_block
        return [first] if first is not None and first is not queue.fake_free_list_tail else []
    found: list[Any] = []
    block, tail = queue.fake_free_list_head.next_free_block, queue.fake_free_list_tail
    while len(found) < n and block is not None and block is not tail:
        found.append(block)
        block = block.next_free_block
    return found


def _places(pool: Any, blocks: Sequence[Any], former: Sequence[Any] | None = None) -> tuple[int, ...]:
    """Where the keys of blocks stand, and whether the map has one of those that they carried before (`_keys`)."""
    cache = pool.cached_block_hash_to_block._cache
    if getattr(pool, "cached_block_hashes_by_block", None):
        places = [_place(cache, hash_keys(pool, block), block) for block in blocks]
    else:
        entries, places = cache.get, []
        for block in blocks:
            key = block.block_hash
            if key is None:
                places.append(NOWHERE)
            else:
                places.append(AT_BOTH if entries(key) is block or _leads(cache, key, block) else AT_BLOCK)
    if former is not None:
        for number, keys in enumerate(former):
            if keys and not places[number] and any(_leads(cache, key, blocks[number]) for key in keys):
                places[number] = IN_MAP
    return tuple(places)


def _place(cache: Any, keys: Sequence[Any], block: Any) -> int:
    if not keys:
        return NOWHERE
    return AT_BOTH if all(_leads(cache, key, block) for key in keys) else AT_BLOCK


def _keys(pool: Any, blocks: Sequence[Any]) -> list[Any]:
    """The keys of each block; none where it has none."""
    if getattr(pool, "cached_block_hashes_by_block", None):
        return [hash_keys(pool, block) for block in blocks]
    return [None if (key := block.block_hash) is None else (key,) for block in blocks]


def _leads(cache: Any, key: Any, block: Any) -> bool:
    """Whether the map leads from a key to a block."""
    entry = cache.get(key)
    return entry is block or (isinstance(entry, dict) and block.block_id in entry)


def _null(pool: Any) -> str:
    """P4, as far as the null block itself shows it."""
    null = pool.null_block
    if null.next_free_block is not None:
        return "the null block stands in the free queue"
    return "" if null.block_hash is None else "the null block carries a hash key"
