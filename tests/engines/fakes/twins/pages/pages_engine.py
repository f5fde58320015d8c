"""Transformers' driver of caches over a cache that is right, or wrong in one way on demand."""

import sys
import types
from pathlib import Path

import releases
from level import Refused

sys.path.append(str(Path(__file__).parents[5] / "kvproof/engines/transformers/worker"))

_STANDS_IN = {
    "generation.configuration_utils": ("ContinuousBatchingConfig",),
    "generation.continuous_batching.cache": ("PagedAttentionCache",),
    "generation.continuous_batching.cache_allocators.cache_allocator": ("compute_block_hash",),
    "generation.continuous_batching.distributed": ("DistributedHelper",),
    "generation.continuous_batching.requests": ("RequestState",),
}
"""Modules of the release that the driver imports, and what of them."""


def _stand_in() -> None:
    """What the driver imports of the release is here."""
    for path, names in _STANDS_IN.items():
        whole = "transformers"
        parent = sys.modules.setdefault(whole, types.ModuleType(whole))
        for part in path.split("."):
            whole += "." + part
            module = sys.modules.setdefault(whole, types.ModuleType(whole))
            setattr(parent, part, module)
            parent = module
        for name in names:
            setattr(parent, name, getattr(releases, name))


_stand_in()

import transformers_pool
from transformers_cache import PoolLevel

__all__ = ["LEVELS", "Refused", "prepare", "version"]


def version() -> str:
    return "1.0"


def prepare(level: str) -> None:
    """There is nothing to import."""


def pool(setup: dict) -> PoolLevel:
    """The level of Transformers; ``fault`` in its setup is the cache's."""
    transformers_pool.FAULT = setup.get("fault", "")
    return PoolLevel({name: value for name, value in setup.items() if name != "fault"})


LEVELS = {"pool": pool}
