"""Transformers' drivers over a cache and a manager that are right, or wrong in one way on demand."""

import sys
from functools import partial
from pathlib import Path

import releases
from level import Refused

sys.path += [str(Path(__file__).parents[1]), str(Path(__file__).parents[5] / "kvproof/engines/transformers/worker")]

from stand_in import stand_in

_BATCHING = "transformers.generation.continuous_batching"


stand_in("transformers", LogitsProcessorList=releases.LogitsProcessorList)
stand_in("transformers.generation.configuration_utils", ContinuousBatchingConfig=releases.ContinuousBatchingConfig)
stand_in(f"{_BATCHING}.cache_allocators.cache_allocator", compute_block_hash=releases.compute_block_hash)
stand_in(f"{_BATCHING}.distributed", DistributedHelper=releases.DistributedHelper)
stand_in(f"{_BATCHING}.requests", RequestState=releases.RequestState, GenerationOutput=releases.GenerationOutput)

import continuous
import paged_cache

stand_in(f"{_BATCHING}.cache", PagedAttentionCache=paged_cache.PagedAttentionCache)
stand_in(f"{_BATCHING}.continuous_api", ContinuousBatchingManager=continuous.ContinuousBatchingManager)
stand_in(
    f"{_BATCHING}.model_runner",
    infer_max_single_request_tokens=continuous.infer_max_single_request_tokens,
)

import transformers_pool
from transformers_cache import ManagerLevel, PoolLevel
from transformers_scheduler import SchedulerLevel

__all__ = ["LEVELS", "Refused", "prepare", "version"]


def version() -> str:
    return "1.0"


def prepare(level: str) -> None:
    """There is nothing to import."""


def _broken(level: type, setup: dict):
    """A level of Transformers; ``fault`` in its setup is the cache's, or its manager's."""
    transformers_pool.FAULT = paged_cache.PagedAttentionCache.fault = setup.get("fault", "")
    return level({name: value for name, value in setup.items() if name != "fault"})


LEVELS = {
    "pool": partial(_broken, PoolLevel),
    "manager": partial(_broken, ManagerLevel),
    "scheduler": partial(_broken, SchedulerLevel),
}
