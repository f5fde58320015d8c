"""What the worker relies on, looked up in the release itself: one that has drifted is refused, not misjudged."""

import functools

from drift import drifted
from level import Refused
from transformers.generation.continuous_batching.cache import PagedAttentionCache
from transformers.generation.continuous_batching.cache_allocators import CacheAllocator, CachePool
from transformers.generation.continuous_batching.cache_allocators.cache_allocator import BlockLedger
from transformers.generation.continuous_batching.continuous_api import ContinuousBatchingManager
from transformers.generation.continuous_batching.input_outputs import ContinuousBatchingAsyncIOs
from transformers.generation.continuous_batching.offloading_manager import OffloadingManager
from transformers.generation.continuous_batching.scheduler import Scheduler

__all__ = ["refuse_what_has_drifted"]

_PARAMETERS = (
    (PagedAttentionCache, "update", ("self", "key_states", "value_states", "layer_idx", "kwargs")),
    (PagedAttentionCache, "search_prefix_match", ("self", "request_id", "prompt_ids")),
    (PagedAttentionCache, "free_blocks", ("self", "request_id", "no_cache")),
    (PagedAttentionCache, "prepare_fork_request", ("self", "src_state", "dst_req_ids", "copy_src_and_dst")),
    (CacheAllocator, "fork_blocks", ("self", "source_request_id", "dest_request_id", "past_length")),
    (CacheAllocator, "mark_complete_blocks", ("self", "request_id", "token_ids", "new_new_blocks")),
    (CachePool, "__init__", ("self", "num_sectors", "num_allocators", "num_reserved_sectors")),
    (CachePool, "free_blocks", ("self", "index", "block_ids")),
    (ContinuousBatchingManager, "_generation_loop_body", ("self", "batch_processor", "bootstrapping")),
    (ContinuousBatchingManager, "_fail_all_remaining_requests", ("self", "error", "batch_processor")),
    (ContinuousBatchingManager, "cancel_request", ("self", "request_id")),
)
"""Methods and their parameters."""

_NAMES = (
    (vars(BlockLedger()), ("shared_ref_counts", "hash_to_block", "block_to_hash", "cached_blocks")),
    (vars(CachePool(1, 1)), ("num_sectors", "free_sectors", "_free_blocks")),
    (dir(Scheduler), ("add_waiting_request", "clear_cancelled_requests", "finish_request")),
    (dir(OffloadingManager), ("offload_requests", "restore_scheduled_requests")),
    (dir(ContinuousBatchingManager), ("_create_batch_processor", "add_request")),
    (dir(ContinuousBatchingAsyncIOs), ("_supported_device_types", "swap_io_pairs")),
)
"""Attributes, and where they must be."""


@functools.cache
def _problem() -> str | None:
    return drifted(_PARAMETERS, _NAMES)


def refuse_what_has_drifted() -> None:
    """Refuse every setup on a release that the worker does not know."""
    problem = _problem()
    if problem is not None:
        raise Refused(f"this release is not known to the adapter: {problem}")
