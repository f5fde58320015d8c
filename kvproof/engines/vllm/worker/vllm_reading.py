"""Reading the objects of vLLM's block manager: its block pools, its block tables, what waits to be freed.

It needs the standard library alone, not the engine: the sanitizer (`kvproof/engines/vllm/sanitizer`) reads a running
engine with it.
"""

from typing import Any

__all__ = ["deferred", "hash_keys", "raw_state", "refusal", "tables", "told"]


def raw_state(pool: Any) -> dict[str, Any]:
    """Return a block pool's state, read from the blocks, the queue and the map, with hash keys as the release has them.

    A queue whose links are broken (one way, both ways, or in a circle) is given as far as it goes, with -1 at its end.
    """
    queue = pool.free_block_queue
    return {
        "ref": [block.ref_cnt for block in pool.blocks],
        "free": _walk(queue, len(pool.blocks)),
        "num_free": queue.num_free_blocks,
        "cached": [
            (key, list(blocks) if isinstance(blocks, dict) else [blocks.block_id])
            for key, blocks in pool.cached_block_hash_to_block._cache.items()
        ],
        "hashes": _hashes(pool),
    }


def told(raw: dict[str, Any], grouped: Any) -> dict[str, Any]:
    """Return such a state as the protocol has it; ``grouped`` makes the number and the group of a hash key."""
    return {
        **raw,
        "cached": [[*grouped(key), blocks] for key, blocks in raw["cached"]],
        "hashes": [[block, [grouped(keys[0]), *sorted(map(grouped, keys[1:]))]] for block, keys in raw["hashes"]],
    }


def hash_keys(pool: Any, block: Any) -> list[Any]:
    """Return the hash keys that a block of the pool carries, the first one first."""
    key, several = block.block_hash, getattr(pool, "cached_block_hashes_by_block", None)
    keys = [] if key is None else [key]
    return [*keys, *several.get(block.block_id, ())] if several else keys


def tables(manager: Any, requests: Any) -> dict[str, list[list[int]]]:
    """Return the block tables of these requests, group by group, as the KV-cache manager has them."""
    return {r: [list(ids) for ids in manager.get_block_ids(r)] for r in requests}


def refusal(manager: Any, r: str, tokens: int, found: Any) -> list[Any]:
    """Return what a refusal of slots for so many tokens is told with: the request, the tokens, the blocks that it has
    and those that a lookup ``found`` for it (None: there was none), group by group, and the blocks that are free."""
    had = tables(manager, [r])[r]
    more = [[] for _ in had] if found is None else found.get_block_ids()
    free = _walk(manager.block_pool.free_block_queue, len(manager.block_pool.blocks))
    return [r, tokens, [[*mine, *ids] for mine, ids in zip(had, more, strict=True)], [b for b in free if b >= 0]]


def deferred(scheduler: Any, pool: Any = None) -> list[int]:
    """Return the blocks that are freed once the steps under way were processed; of that pool, where one is named."""
    waiting = [block for _, blocks in getattr(scheduler, "deferred_frees", ()) for block in blocks]
    return [block.block_id for block in waiting if pool is None or getattr(block, "pool", pool) in (None, pool)]


def _hashes(pool: Any) -> list[tuple[int, list[Any]]]:
    several = getattr(pool, "cached_block_hashes_by_block", None)
    if several:
        return [(block.block_id, keys) for block in pool.blocks if (keys := hash_keys(pool, block))]
    return [(block.block_id, [key]) for block in pool.blocks if (key := block.block_hash) is not None]


def _walk(queue: Any, most: int) -> list[int]:
    found: list[int] = []
    last, tail = queue.fake_free_list_head, queue.fake_free_list_tail
    block = last.next_free_block
    while block is not None and block.prev_free_block is last and len(found) <= most:
        if block is tail:
            return found
        found.append(block.block_id)
        last, block = block, block.next_free_block
    return [*found, -1]
