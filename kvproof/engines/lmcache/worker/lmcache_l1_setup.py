"""`L1Manager`, the memory of LMCache's multiprocess mode, on a clock of ours; and what a release must be like.

Its locks end by themselves after a time. The release's are compiled and look at the system's clock; `Lease` is the same
by their description, on a clock that the driver turns.
"""

import functools
import threading
from types import SimpleNamespace

import torch
from drift import drifted
from level import Refused
from lmcache.v1.distributed import l1_manager
from lmcache.v1.distributed.api import MemoryLayoutDesc, ObjectKey
from lmcache.v1.distributed.config import EvictionConfig, L1ManagerConfig, L1MemoryManagerConfig
from lmcache.v1.distributed.internal_api import L1ManagerListener
from lmcache.v1.distributed.l1_manager import L1Manager
from lmcache.v1.distributed.storage_controllers import eviction_controller
from lmcache.v1.distributed.storage_controllers.eviction_controller import L1EvictionController
from lmcache.v1.pin_monitor import PinMonitor
from lmcache_setup import CHUNK, UNIT, start_nothing

__all__ = ["LAYOUT", "READ", "WRITE", "Lease", "Options", "evict", "listen", "made", "named"]

WRITE, READ = 600, 300
"""Seconds after which what was reserved may be taken away: the release's defaults."""

LAYOUT = MemoryLayoutDesc([torch.Size([2, 1, CHUNK, UNIT // 8])], [torch.float32])

_POLICIES = ("LRU", "ARC")


class Options:
    """A setup, checked: ``policy``, ``units`` of memory, ``ratio`` of the keys that an eviction is to take."""

    tensors, paged, layers, groups = 1, False, 0, 1

    def __init__(self, setup: dict) -> None:
        unknown = sorted(set(setup) - {"policy", "units", "ratio"})
        if unknown:
            raise Refused(f"there is no option {unknown[0]}")
        self.policy: str = setup["policy"]
        self.units: int = setup["units"] // CHUNK * CHUNK
        self.ratio: float = setup.get("ratio", 0.2)
        if self.policy not in _POLICIES or self.units < CHUNK or not 0 < self.ratio <= 1:
            raise Refused(f"policy is one of {', '.join(_POLICIES)}; units must be there; ratio is above 0, at most 1")


class Lease:
    """`TTLLock`: a count that ends with the time since it was last raised."""

    now = 0

    def __init__(self, ttl_second: int = 300) -> None:
        self._seconds, self._end, self._count = ttl_second, 0, 0

    def lock(self) -> None:
        """Count up, and begin the time anew; from 0 if it was over."""
        self._count = self.count + 1
        self._end = Lease.now + self._seconds

    def unlock(self) -> None:
        """Count down."""
        self._count = max(0, self._count - 1)

    def is_locked(self) -> bool:
        """Whether it counts, and its time is not over."""
        return self.count > 0

    @property
    def count(self) -> int:
        """The count, 0 when its time is over."""
        return self._count if Lease.now < self._end else 0


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
