"""`L1Manager`, the memory of LMCache's multiprocess mode, on a clock of ours; and what a release must be like."""

import functools
import threading
from types import SimpleNamespace

import torch
from drift import drifted
from level import Refused
from lmcache.v1.distributed import l1_manager
from lmcache.v1.distributed.api import MemoryLayoutDesc, ObjectKey
from lmcache.v1.distributed.config import EvictionConfig, L1ManagerConfig, L1MemoryManagerConfig
from lmcache.v1.distributed.error import L1Error
from lmcache.v1.distributed.internal_api import L1ManagerListener
from lmcache.v1.distributed.l1_manager import L1Manager
from lmcache.v1.distributed.storage_controllers import eviction_controller
from lmcache.v1.distributed.storage_controllers.eviction_controller import L1EvictionController
from lmcache.v1.pin_monitor import PinMonitor
from lmcache_leases import READ, WRITE, Lease, Options
from lmcache_setup import CHUNK, UNIT, start_nothing

__all__ = ["LAYOUT", "L1Error", "evict", "listen", "made", "named"]

LAYOUT = MemoryLayoutDesc([torch.Size([2, 1, CHUNK, UNIT // 8])], [torch.float32])


def named(k: int) -> ObjectKey:
    """The release's key of a number."""
    return ObjectKey(k.to_bytes(4, "big"), "model", 0)


def made(options: Options) -> tuple[L1Manager, L1EvictionController]:
    """A manager, and what evicts from it whenever it is told to (`evict`)."""
    problem = _problem()
    if problem is not None:
        raise Refused(f"this release is not known to the adapter: {problem}")
    PinMonitor.start_monitoring = start_nothing
    l1_manager.TTLLock, Lease.now = Lease, 0
    memory = L1MemoryManagerConfig(options.units * UNIT, use_lazy=False, align_bytes=UNIT, shm_name="")
    manager = L1Manager(L1ManagerConfig(memory, write_ttl_seconds=WRITE, read_ttl_seconds=READ))
    config = EvictionConfig(options.policy, trigger_watermark=0.0, eviction_ratio=options.ratio)
    return manager, L1EvictionController(manager, config)


def listen(manager: L1Manager, stored, removed) -> None:
    """Tell by ``stored`` and ``removed`` which keys the manager says are there, and which are no longer."""
    told = dict.fromkeys(L1ManagerListener.__abstractmethods__, lambda _listener, _keys: None)
    for name in ("on_l1_keys_write_finished", "on_l1_keys_finish_write_and_reserve_read"):
        told[name] = lambda _listener, keys: stored(keys)
    told["on_l1_keys_deleted_by_manager"] = lambda _listener, keys: removed(keys)
    manager.register_listener(type("Listener", (L1ManagerListener,), told)())


def evict(controller: L1EvictionController) -> None:
    """One round of the release's own loop, which sleeps before each."""
    stop = controller._stop_flag = threading.Event()
    eviction_controller.time = SimpleNamespace(sleep=lambda _seconds: stop.set(), monotonic=lambda: 0.0)
    controller.eviction_loop()


_PARAMETERS = (
    (L1Manager, "touch_keys", ("self", "keys")),
    (L1Manager, "is_key_evictable", ("self", "key")),
    (L1EvictionController, "eviction_loop", ("self",)),
)
"""Methods and their parameters."""

_NAMES = (
    "reserve_write", "finish_write", "finish_write_and_delete", "finish_write_and_reserve_read", "reserve_read",
    "unsafe_read", "finish_read", "delete", "clear",
)  # fmt: skip
"""Methods that a decorator hides the parameters of."""


@functools.cache
def _problem() -> str | None:
    return drifted(_PARAMETERS, ((vars(L1Manager), _NAMES),))
