"""The release's `LocalCPUBackend` on memory of its own, and what a release must be like to be driven."""

import functools
import importlib.metadata
import threading

import torch
from drift import drifted, released
from level import Refused
from lmcache import utils
from lmcache.utils import CacheEngineKey
from lmcache.v1.config import LMCacheEngineConfig
from lmcache.v1.memory_allocators.mixed_memory_allocator import MixedMemoryAllocator
from lmcache.v1.memory_management import MemoryFormat, TensorMemoryObj
from lmcache.v1.pin_monitor import PinMonitor
from lmcache.v1.storage_backend.local_cpu_backend import LocalCPUBackend

__all__ = ["CHUNK", "POLICIES", "REMOVAL_UNPINS", "UNIT", "Options", "made", "named", "start_nothing"]

UNIT = 32
"""Bytes that a token takes in a tensor: a key and a value of four numbers each. It is what memory is aligned to."""

CHUNK = 4
"""Tokens of a whole chunk."""

REMOVAL_UNPINS = released(importlib.metadata.version("lmcache")) >= (0, 5, 6)
"""Whether a removal by force lets go of all pins of what is removed. Before, they stay until a lookup lets go."""

POLICIES = ("LRU", "LFU", "FIFO", "MRU")


# What is left of the last system may be collected as garbage at any moment, also within a statistic of the release.
# Its memory is given back then, which counts in a statistic: with the lock that it has it would wait for itself.
utils._shared_observability_lock = threading.RLock()


class Options:
    """A setup, checked.

    ``policy``, ``units`` of memory, ``sizes`` (tokens of each key's chunk); ``layers``, above 0 where they are stored
    one by one; ``paged``, for memory in pages of a whole chunk; ``tensors`` of a chunk (groups of layers that differ).
    """

    def __init__(self, setup: dict) -> None:
        unknown = sorted(set(setup) - {"policy", "units", "sizes", "layers", "paged", "tensors"})
        if unknown:
            raise Refused(f"there is no option {unknown[0]}")
        self.policy: str = setup["policy"]
        self.sizes: list[int] = setup["sizes"]
        self.layers: int = setup.get("layers", 0)
        self.tensors: int = setup.get("tensors", 1)
        self.paged: bool = bool(setup.get("paged"))
        page = CHUNK * self.tensors if self.paged else 1
        self.units: int = setup["units"] // page * page
        if self.policy not in POLICIES or self.units < 1 or not self.sizes:
            raise Refused(f"policy is one of {', '.join(POLICIES)}; units and sizes must be there")
        if any(not 1 <= size <= CHUNK for size in self.sizes):
            raise Refused(f"a chunk has 1 to {CHUNK} tokens")
        if self.layers and self.tensors > 1:
            raise Refused("layers that are stored one by one have one tensor each")

    @property
    def groups(self) -> int:
        """Layers, or groups of layers, that have a tensor of their own."""
        return self.layers or self.tensors

    def shapes(self, tokens: int) -> list[torch.Size]:
        """The shapes of what is allocated for so many tokens."""
        if self.layers:
            return [torch.Size([tokens, 2, UNIT // 8])]
        return [torch.Size([2, 1, tokens, UNIT // 8])] * self.tensors

    @property
    def dtypes(self) -> list[torch.dtype]:
        """The types of these."""
        return [torch.float32] * self.tensors


def named(k: int) -> CacheEngineKey:
    """The release's key of a number."""
    return CacheEngineKey("model", 1, 0, k + 1, torch.float32)


def made(options: Options) -> LocalCPUBackend:
    """A backend, and nothing pinned."""
    problem = _problem()
    if problem is not None:
        raise Refused(f"this release is not known to the adapter: {problem}")
    config = _config(options.policy, bool(options.layers))
    PinMonitor.start_monitoring = start_nothing
    PinMonitor._instance = None
    PinMonitor.GetOrCreate(config)
    size = options.units * UNIT
    if options.paged:
        allocator = MixedMemoryAllocator(
            size,
            use_paging=True,
            align_bytes=UNIT,
            shapes=options.shapes(CHUNK),
            dtypes=options.dtypes,
            fmt=MemoryFormat.KV_T2D if options.layers else MemoryFormat.KV_2LTD,
        )
    else:
        allocator = MixedMemoryAllocator(size, align_bytes=UNIT)
    return LocalCPUBackend(config, None, "cpu", None, allocator)


def start_nothing(self) -> None:
    """Start no thread that looks after pins by the clock: none gets that old here."""


@functools.cache
def _config(policy: str, layerwise: bool) -> LMCacheEngineConfig:
    return LMCacheEngineConfig.from_defaults(cache_policy=policy, use_layerwise=layerwise, local_cpu=True)


_PARAMETERS = (
    (LocalCPUBackend, "allocate", ("self", "shapes", "dtypes", "fmt", "eviction", "busy_loop")),
    (LocalCPUBackend, "batched_allocate", ("self", "shapes", "dtypes", "batch_size", "fmt", "eviction", "busy_loop")),
    (LocalCPUBackend, "remove", ("self", "key", "force")),
    (LocalCPUBackend, "batched_get_non_blocking", ("self", "lookup_id", "keys", "transfer_spec")),
    (TensorMemoryObj, "unpin", ("self",)),
    (PinMonitor, "start_monitoring", ("self",)),
)
"""Methods and their parameters."""


@functools.cache
def _problem() -> str | None:
    return drifted(_PARAMETERS)
