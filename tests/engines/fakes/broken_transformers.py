"""The adapter of Transformers over a release that is broken in one way, which the setup names."""

import os
import sys

sys.path.insert(2, os.environ["KVPROOF_TEST_ADAPTERS"])

import transformers_drift
import transformers_engine
from level import Refused
from transformers.generation.continuous_batching import cache, offloading_manager, scheduler
from transformers.generation.continuous_batching.cache_allocators import (
    CachePool,
    FullAttentionCacheAllocator,
    SlidingAttentionCacheAllocator,
    cache_allocator,
)

__all__ = ["LEVELS", "Refused", "prepare", "version"]

prepare, version = transformers_engine.prepare, transformers_engine.version
BlockLedger = cache_allocator.BlockLedger


def _twice(self, index: int, block_ids: list) -> None:
    self._free_blocks[index].add_leaves([*block_ids, *block_ids[:1]])


def _never(self, block: int) -> None:
    self.cached_blocks.pop(block, None)


def _keeps(self, block: int, no_cache: bool = False) -> bool:
    count = self.shared_ref_counts.pop(block, 1) - 1
    return count == 0 and block not in self.block_to_hash


def _one_key(parent, tokens: list) -> int:
    return hash((parent, tokens[0]))


def _short(self, prompt: list) -> list:
    return _match(self, prompt)[:-1]


def _whole(self, prompt: list) -> list:
    return _match(self, [*prompt, 0])


def _registers_one_less(self, request_id: str, token_ids: list, new_new_blocks: int) -> None:
    _mark(self, request_id, token_ids, new_new_blocks - 1)


def _keeps_nothing(self, block: int, no_cache: bool = False) -> bool:
    return _release(self, block, no_cache=True)


def _keeps_all(self, block: int, no_cache: bool = False) -> bool:
    return _release(self, block)


def _one_sector_more(self, request: str, past: int, query: int) -> int:
    return _sectors(self, request, past, query) + 1


def _always_evicts(self) -> bool:
    _evict(self)
    return True


def _shares_always(self, *args, **options) -> None:
    _begin(self, *args, **options)
    self.use_block_sharing = True


def _one_behind(self, request: str, past: int, query: int) -> list:
    return [index + (place == 0) for place, index in enumerate(_writes(self, request, past, query))]


def _small_ring(self, request: str, past: int, query: int) -> list:
    self.sliding_window -= 1
    try:
        return _ring(self, request, past, query)
    finally:
        self.sliding_window += 1


def _half(self, source: list, target: list) -> None:
    _copy(self, source[:-1], target[:-1])


def _store_partly(self, state, tokens: int, dry_run: bool = False) -> bool:
    stored = _store(self, state, tokens, dry_run)
    if not stored and not dry_run and self.pool.num_free_sectors:
        self.pool.allocate_sector(0)
        next(iter(self.cache_allocators.values())).block_table.setdefault(state.request_id, []).extend(
            self.pool.get_free_blocks(0, 1)
        )
    return stored


def _forgets(self, request: str) -> None:
    self.active_requests.pop(request, None)


def _restores_nothing(self, requests: list) -> None:
    for future in requests:
        self.free_request_cpu_cache(future.state)


def _leaks(self, state) -> None:
    state.is_cpu_offloaded = False


_match = cache_allocator.CacheAllocator.match_prefix_blocks
_mark = cache_allocator.CacheAllocator.mark_complete_blocks
_sectors = cache_allocator.CacheAllocator.needs_new_sectors
_begin = cache_allocator.CacheAllocator._before_cache_tensor_init
_release = BlockLedger.release
_evict = cache.PagedAttentionCache.evict_cached_blocks
_writes = FullAttentionCacheAllocator.get_write_indices
_ring = SlidingAttentionCacheAllocator.get_write_indices
_copy = cache_allocator.CacheAllocator.copy_blocks
_store = cache.PagedAttentionCache.can_store_request_tokens

FAULTS = {
    "freed twice": (CachePool, "free_blocks", _twice),
    "not counted": (BlockLedger, "acquire", _never),
    "lost": (BlockLedger, "release", _keeps),
    "one key": (cache_allocator, "compute_block_hash", _one_key),
    "short hit": (cache_allocator.CacheAllocator, "match_prefix_blocks", _short),
    "whole hit": (cache_allocator.CacheAllocator, "match_prefix_blocks", _whole),
    "not registered": (cache_allocator.CacheAllocator, "mark_complete_blocks", _registers_one_less),
    "not kept": (BlockLedger, "release", _keeps_nothing),
    "kept for ever": (BlockLedger, "release", _keeps_all),
    "always evicts": (cache.PagedAttentionCache, "evict_cached_blocks", _always_evicts),
    "shares always": (cache_allocator.CacheAllocator, "_before_cache_tensor_init", _shares_always),
    "greedy": (cache_allocator.CacheAllocator, "needs_new_sectors", _one_sector_more),
    "one behind": (FullAttentionCacheAllocator, "get_write_indices", _one_behind),
    "small ring": (SlidingAttentionCacheAllocator, "get_write_indices", _small_ring),
    "half a fork": (cache_allocator.CacheAllocator, "copy_blocks", _half),
    "partly stored": (cache.PagedAttentionCache, "can_store_request_tokens", _store_partly),
    "never freed": (scheduler.Scheduler, "finish_request", _forgets),
    "not restored": (offloading_manager.OffloadingManager, "restore_scheduled_requests", _restores_nothing),
    "drifted": (cache.PagedAttentionCache, "free_blocks", lambda self, request: None),
    "host leak": (offloading_manager.OffloadingManager, "free_request_cpu_cache", _leaks),
}
"""Where each fault is, and what stands there instead."""


def _broken(level: str):
    def make(setup: dict):
        sound = {name: value for name, value in setup.items() if name != "fault"}
        for owner, name, right in _RIGHT:
            setattr(owner, name, right)
        transformers_drift._problem.cache_clear()
        if "fault" in setup:
            owner, name, wrong = FAULTS[setup["fault"]]
            setattr(owner, name, wrong)
        return transformers_engine.LEVELS[level](sound)

    return make


_RIGHT = [(owner, name, vars(owner)[name]) for owner, name, _ in FAULTS.values()]
LEVELS = {level: _broken(level) for level in transformers_engine.LEVELS}
