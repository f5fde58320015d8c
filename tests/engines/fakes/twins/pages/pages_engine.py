"""Transformers' drivers over a cache and a manager that are right, or wrong in one way on demand."""

import sys
import types
from functools import partial
from pathlib import Path

import releases
from level import Refused

sys.path.append(str(Path(__file__).parents[5] / "kvproof/engines/transformers/worker"))

_BATCHING = "transformers.generation.continuous_batching"


def _stand_in(path: str, **names: object) -> None:
    """A module of the release has what the driver imports of it."""
    whole, *parts = path.split(".")
    module = sys.modules.setdefault(whole, types.ModuleType(whole))
    for part in parts:
        whole += "." + part
        below = sys.modules.setdefault(whole, types.ModuleType(whole))
        setattr(module, part, below)
        module = below
    vars(module).update(names)


_stand_in("transformers", LogitsProcessorList=releases.LogitsProcessorList)
_stand_in("transformers.generation.configuration_utils", ContinuousBatchingConfig=releases.ContinuousBatchingConfig)
_stand_in(f"{_BATCHING}.cache", PagedAttentionCache=releases.PagedAttentionCache)
_stand_in(f"{_BATCHING}.cache_allocators.cache_allocator", compute_block_hash=releases.compute_block_hash)
_stand_in(f"{_BATCHING}.distributed", DistributedHelper=releases.DistributedHelper)
_stand_in(f"{_BATCHING}.requests", RequestState=releases.RequestState, GenerationOutput=releases.GenerationOutput)

import continuous

_stand_in(f"{_BATCHING}.continuous_api", ContinuousBatchingManager=continuous.ContinuousBatchingManager)
_stand_in(
    f"{_BATCHING}.model_runner",
    infer_max_single_request_tokens=continuous.infer_max_single_request_tokens,
)

import transformers_pool
from transformers_cache import PoolLevel
from transformers_scheduler import SchedulerLevel

__all__ = ["LEVELS", "Refused", "prepare", "version"]


def version() -> str:
    return "1.0"


def prepare(level: str) -> None:
    """There is nothing to import."""


def _broken(level: type, setup: dict):
    """A level of Transformers; ``fault`` in its setup is the cache's, or its manager's."""
    transformers_pool.FAULT = setup.get("fault", "")
    return level({name: value for name, value in setup.items() if name != "fault"})


LEVELS = {"pool": partial(_broken, PoolLevel), "scheduler": partial(_broken, SchedulerLevel)}
