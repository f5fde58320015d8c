"""What is seen of each call of a chunk manager, before and after it: `observing` for `CPUOffloadingManager`.

Lookups are not watched: what they find is looked at when it is loaded.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final

from .chunk_judging import ChunkState, Entry
from .observing import Arguments, Fields, Method

__all__ = ["CHUNK_FIELDS", "CHUNK_METHODS", "chunk_state"]

CHUNK_FIELDS: Final = (
    "_policy",
    "_num_chunks",
    "_free_list",
    "_num_allocated_chunks",
    "_num_evictable_cache_chunks",
    "_num_write_pending_chunks",
    "counts",
)
"""What a manager must have for its state to be read."""


def chunk_state(manager: Any) -> ChunkState:
    """Read all of a manager."""
    entries = [(key, *_entry(chunk)) for shelf in _shelves(manager) for key, chunk in shelf.items()]
    return ChunkState(entries, list(manager._free_list), manager._num_allocated_chunks, _counters(manager))


def _before(manager: Any, args: Arguments) -> tuple[Arguments, Any]:
    given = args[0] if isinstance(args[0], Collection) else list(args[0])  # It may be an iterator.
    keys = tuple(given)
    return (given, *args[1:]), (keys, _entries(manager, keys), args)


def _after_offer(manager: Any, step: int, seen: Any, answer: Any, error: str) -> Fields:
    keys, before, _ = seen
    after, counters = _entries(manager, keys), _counters(manager)
    wanted = 0 if error else _wanted(manager, keys, before)
    if answer is None:
        return ("offer", step, keys, before, after, counters, (), (), (), (), bool(error), wanted, error)
    evicted, stored = tuple(answer.evicted_keys), tuple(answer.keys_to_store)
    left, chunks = _entries(manager, evicted), _chunks(answer.store_spec)
    return ("offer", step, keys, before, after, counters, chunks, stored, evicted, left, True, wanted, "")


def _after_stored(manager: Any, step: int, seen: Any, _answer: Any, error: str) -> Fields:
    keys, before, args = seen
    after, counters, well = _entries(manager, keys), _counters(manager), bool(args[2])
    return ("stored", step, keys, before, after, counters, (), (), (), (), well, 0, error)


def _after_load(manager: Any, step: int, seen: Any, answer: Any, error: str) -> Fields:
    keys, before, _ = seen
    chunks = () if error else _chunks(answer)
    return ("load", step, keys, before, _entries(manager, keys), _counters(manager), chunks, (), (), (), True, 0, error)


def _after_loaded(manager: Any, step: int, seen: Any, _answer: Any, error: str) -> Fields:
    keys, before, _ = seen
    return ("loaded", step, keys, before, _entries(manager, keys), _counters(manager), (), (), (), (), True, 0, error)


def _before_reset(_manager: Any, args: Arguments) -> tuple[Arguments, Any]:
    return args, None


def _after_reset(manager: Any, step: int, _seen: Any, _answer: Any, error: str) -> Fields:
    left = tuple([_entry(chunk) for shelf in _shelves(manager) for chunk in shelf.values()])
    return ("reset", step, (), (), (), _counters(manager), (), (), (), left, True, 0, error)


CHUNK_METHODS: Final = {
    "prepare_store": Method(_before, _after_offer, ("keys", "req_context")),
    "complete_store": Method(_before, _after_stored, ("keys", "req_context", "success")),
    "_prepare_load": Method(_before, _after_load, ("keys", "req_context")),
    "complete_load": Method(_before, _after_loaded, ("keys", "req_context")),
    "reset_cache": Method(_before_reset, _after_reset, ()),
}
"""What is watched, by its name; loads by what plans them for the device and for other tiers alike."""


def _entry(chunk: Any) -> tuple[int, int]:
    return chunk.chunk_id, chunk.ref_cnt


def _entries(manager: Any, keys: Iterable[Any]) -> tuple[Entry, ...]:
    get = manager._policy.get
    return tuple([None if (chunk := get(key)) is None else (chunk.chunk_id, chunk.ref_cnt) for key in keys])


def _shelves(manager: Any) -> tuple[Any, ...]:
    """Where the policy has its entries.

    Raises:
        TypeError: it is none of the release's own.
    """
    policy = manager._policy
    if hasattr(policy, "t1"):
        return policy.t1, policy.t2
    if hasattr(policy, "chunks"):
        return (policy.chunks,)
    raise TypeError(f"{type(policy).__name__} is no policy that it knows")


def _counters(manager: Any) -> tuple[int, int, int]:
    pending = manager._num_write_pending_chunks
    return manager._get_num_free_chunks(), manager._num_evictable_cache_chunks, pending


def _chunks(spec: Any) -> tuple[int, ...]:
    return tuple(spec.block_ids.tolist())


def _wanted(manager: Any, keys: Iterable[Any], before: Iterable[Entry]) -> int:
    """How many chunks an offer needs: for what is not there, and was seen often enough."""
    new = {key for key, entry in zip(keys, before, strict=False) if entry is None}
    counts = manager.counts
    return len(new) if counts is None else sum(counts.get(key, 0) >= manager.store_threshold for key in new)
