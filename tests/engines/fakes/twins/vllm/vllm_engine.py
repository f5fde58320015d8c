"""vLLM's driver of block pools over a pool that is right, or wrong in one way on demand.

The driver is made to be driven beside machine P, which knows the release by its number: it is what the variable
``KVPROOF_TEST_RELEASE`` says, and the pool has the habits of that release. ``KVPROOF_TEST_FAULT`` is what is wrong with
it.
"""

import importlib.metadata
import os
import sys
from pathlib import Path

from level import Refused

sys.path += [str(Path(__file__).parents[1]), str(Path(__file__).parents[5] / "kvproof/engines/vllm/worker")]

from stand_in import stand_in
from vllm_blocks import BlockPool, Habits
from vllm_release import stand_in_for_the_release

_HABITS = {
    "0.22.1": Habits(splits=False, splits_uncached=False, counts_null=True),
    "0.27.1": Habits(splits=True, splits_uncached=False, counts_null=True),
    "0.33.0": Habits(splits=True, splits_uncached=True, counts_null=False),
}
"""Of a release for each order in which blocks are freed."""

_RELEASE = os.environ["KVPROOF_TEST_RELEASE"]
_FAULT = os.environ.get("KVPROOF_TEST_FAULT", "")


def _pool(num_gpu_blocks: int, enable_caching: bool, hash_block_size: int, enable_kv_cache_events: bool) -> BlockPool:
    """The release's pool, as the driver makes it; nobody asks the twin for events."""
    if enable_kv_cache_events:
        raise ValueError("this pool has no events")
    return BlockPool(num_gpu_blocks, enable_caching, hash_block_size, _HABITS[_RELEASE], _FAULT)


def _version(name: str, of_installed=importlib.metadata.version) -> str:
    return _RELEASE if name == "vllm" else of_installed(name)


stand_in_for_the_release()
stand_in("vllm.v1.core.block_pool", BlockPool=_pool)
importlib.metadata.version = _version

from vllm_pool import PoolLevel

__all__ = ["LEVELS", "Refused", "prepare", "version"]


def version() -> str:
    return _RELEASE


def prepare(level: str) -> None:
    """There is nothing to import."""


LEVELS = {"pool": PoolLevel}
