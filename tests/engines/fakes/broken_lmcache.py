"""The adapter of LMCache over a release that is broken in one way, which the setup names."""

import os
import sys

sys.path.insert(2, os.environ["KVPROOF_TEST_ADAPTERS"])

import lmcache_engine
from level import Refused
from lmcache.v1.cache_engine import LMCacheEngine
from lmcache.v1.distributed.error import L1Error
from lmcache.v1.distributed.eviction_policy.lru import LRUEvictionPolicy
from lmcache.v1.distributed.l1_manager import L1Manager
from lmcache.v1.distributed.memory_manager import L1MemoryManager
from lmcache.v1.memory_allocators.tensor_memory_allocator import TensorMemoryAllocator
from lmcache.v1.memory_management import AddressManager, TensorMemoryObj
from lmcache.v1.storage_backend.cache_policy.lru import LRUCachePolicy
from lmcache.v1.storage_backend.local_cpu_backend import LocalCPUBackend
from lmcache.v1.storage_backend.storage_manager import StorageManager
from lmcache.v1.token_database import ChunkedTokenDatabase

__all__ = ["LEVELS", "Refused", "prepare", "version"]

prepare, version = lmcache_engine.prepare, lmcache_engine.version


def _evicts_all(self, cache: dict, num_candidates: int = 1) -> list:
    return list(cache)[:num_candidates]


def _evicts_none(self, cache: dict, num_candidates: int = 1) -> list:
    return []


def _not_counted(self, key) -> object:
    return self.hot_cache.get(key)


def _never_unpinned(self, key) -> bool:
    return True


def _frees_at_once(self) -> None:
    self.meta.ref_count -= 1
    self.parent_allocator.free(self)


def _frees_less(self, address: int, size: int) -> None:
    _free(self, address, size // 2)


def _one_address(self, size: int) -> tuple[int, int]:
    return 0, _allocate(self, size)[1]


def _finds_none(self, key, pin: bool = False) -> bool:
    return False


def _any_prefix(self, token_chunks):
    for chunk in token_chunks:
        yield self._hash_tokens(chunk, None)


def _the_wrong_way_round(self, keys: list, location: str | None = None) -> list:
    return _get(self, keys, location)[::-1]


def _crosses_prefetched(self, *args, **more):
    chunks, size = _prefetched(self, *args, **more)
    objects = [obj for _, obj, _, _ in chunks]
    return [(key, obj, start, end) for (key, _, start, end), obj in zip(chunks, objects[::-1], strict=True)], size


def _clears_nothing(self, tokens=None, locations=None, request_configs=None) -> int:
    return 0


def _deletes_all(self, keys: list, force: bool = False) -> dict:
    return _delete(self, keys, force=True)


def _evicts_first(self, shapes, dtypes, fmt=None, eviction=True, busy_loop=True):
    self.batched_remove(self.cache_policy.get_evict_candidates(self.hot_cache, num_candidates=1), force=False)
    return _allocate_object(self, shapes, dtypes, fmt, eviction, busy_loop)


def _refuses_all(self, shapes, dtypes, fmt=None, eviction=True, busy_loop=True) -> None:
    return None


def _tells_no_deletion(self, keys: list, objs: list) -> None:
    _report(self, [], objs)


_prefetched = LMCacheEngine._async_process_tokens_internal
_get, _delete = StorageManager.batched_get, L1Manager.delete


def _clears_silently(self) -> int:
    _clear(self)
    return 0


_report, _clear = L1Manager._free_and_report_deleted, LocalCPUBackend.clear
_allocate_object = LocalCPUBackend.allocate
_free, _allocate = AddressManager.free, AddressManager.allocate

FAULTS = {
    "evicts what is pinned": (LRUCachePolicy, "get_evict_candidates", _evicts_all),
    "evicts nothing": (LRUCachePolicy, "get_evict_candidates", _evicts_none),
    "not counted": (LocalCPUBackend, "get_blocking", _not_counted),
    "never unpinned": (LocalCPUBackend, "unpin", _never_unpinned),
    "freed while held": (TensorMemoryObj, "ref_count_down", _frees_at_once),
    "half is lost": (AddressManager, "free", _frees_less),
    "one place for all": (AddressManager, "allocate", _one_address),
    "evicts first": (LocalCPUBackend, "allocate", _evicts_first),
    "refuses all": (LocalCPUBackend, "allocate", _refuses_all),
    "stores nothing": (LocalCPUBackend, "batched_submit_put_task", lambda self, keys, objects, *_, **__: None),
    "clears silently": (LocalCPUBackend, "clear", _clears_silently),
    "clears none": (LocalCPUBackend, "clear", lambda self: 0),
    "finds nothing": (LocalCPUBackend, "contains", _finds_none),
    "never undone": (LMCacheEngine, "lookup_unpin", lambda self, lookup_id: None),
    "clears nothing": (LMCacheEngine, "clear", _clears_nothing),
    "any prefix": (ChunkedTokenDatabase, "_prefix_hash", _any_prefix),
    "the wrong way round": (StorageManager, "batched_get", _the_wrong_way_round),
    "crosses what is prefetched": (LMCacheEngine, "_async_process_tokens_internal", _crosses_prefetched),
    "never given back": (L1MemoryManager, "free", lambda self, objects: L1Error.SUCCESS),
    "never done": (L1Manager, "finish_read", lambda self, keys, read_locks=1: dict.fromkeys(keys, L1Error.SUCCESS)),
    "deletes what is read": (L1Manager, "delete", _deletes_all),
    "takes nothing": (LRUEvictionPolicy, "get_eviction_actions", lambda self, *args, **more: []),
    "tells no deletion": (L1Manager, "_free_and_report_deleted", _tells_no_deletion),
    "leaves all": (L1Manager, "clear", lambda self, force=False: None),
    "drifted memory": (L1Manager, "is_key_evictable", lambda self, k: True),
    "drifted engine": (LMCacheEngine, "lookup_unpin", lambda self, request: None),
    "drifted": (LocalCPUBackend, "remove", lambda self, key: None),
    "never freed": (TensorMemoryAllocator, "free", lambda self, obj, kind=None: None),
}
"""Where each fault is, and what stands there instead."""


def _broken(level: str):
    def make(setup: dict):
        sound = {name: value for name, value in setup.items() if name != "fault"}
        for owner, name, right in _RIGHT:
            setattr(owner, name, right)
        for module in filter(None, map(sys.modules.get, ("lmcache_setup", "lmcache_served", "lmcache_l1_setup"))):
            module._problem.cache_clear()
        if "fault" in setup:
            owner, name, wrong = FAULTS[setup["fault"]]
            setattr(owner, name, wrong)
        return lmcache_engine.LEVELS[level](sound)

    return make


_RIGHT = [(owner, name, getattr(owner, name)) for owner, name, _ in FAULTS.values()]
LEVELS = {level: _broken(level) for level in lmcache_engine.LEVELS}
