"""A storage below the host memory of a tree: the release's own file backend, its queues and what its threads do.

Ours are the files, which are a dictionary, and the moments. A thread of the release goes as many rounds of its loop as
a case says: it asks the storage for what a prompt has there, reads it into the host, tells how far it got, or writes
what came to the host. A page of the host is no memory but its own number, and a file has a number too; so what is told
of a copy is what the release's code copied.
"""

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from queue import Queue
from types import SimpleNamespace
from typing import ClassVar

import torch
from sglang.srt.managers import cache_controller
from sglang.srt.mem_cache.hicache_storage import HiCacheFile, PoolName
from sglang.srt.mem_cache.hybrid_cache import hybrid_cache_controller
from sglang_drift import storage_hashes

__all__ = ["PLACES", "POLICIES", "THREADS", "Storage", "fields"]

PLACES = 4096
"""The places of the tier: one for each file that a case ever has."""

POLICIES = ("best_effort", "wait_complete")
"""Whether a request is admitted before all is read that was found for it. A third one goes by the clock."""

THREADS = ("queries", "writes", "reads", "acks")
"""What threads of a release do, in the order in which they go (`Storage.go`)."""

_SUFFIX = "_kvproof"


def fields(threshold: int, policy: str) -> dict:
    """Return what the release is to be told of such a tier, which is asked for so many tokens at least."""
    backend = {"backend_name": "kvproof", "module_path": __name__, "class_name": _Files.__name__}
    return {
        "hicache_storage_backend": "dynamic",
        "hicache_storage_backend_extra_config": json.dumps(backend | {"prefetch_threshold": threshold}),
        "hicache_storage_prefetch_policy": policy,
    }


class _Files(HiCacheFile):
    """The release's file backend, over files in memory."""

    storage: ClassVar["Storage"]
    """That of the tree that was made last: whoever attaches it again finds its files."""

    def __init__(self, _config, _more) -> None:
        self.file_path, self.config_suffix, self.tp_config_suffix = "", _SUFFIX, _SUFFIX
        self.metadata_cache = None

    @property
    def files(self) -> dict[str, torch.Tensor]:
        """The files by their names."""
        return self.storage.files

    def exists(self, key: str) -> bool:
        """Whether there is a file of this name."""
        return self._get_suffixed_key(key) in self.files

    def get(self, key: str, target_location, _sizes=None):
        """Read a file; None, as of one that is gone, where it goes bad."""
        found = self.files.get(self._get_suffixed_key(key))
        if found is None or self._goes_bad():
            return None
        target_location.copy_(found)
        return target_location

    def set(self, key: str, value=None, *_where) -> bool:
        """Write a file where there is none."""
        if not self.exists(key):
            if self._goes_bad():
                return False
            name = self._get_suffixed_key(key)
            self.files[name] = torch.tensor([self.storage.written(name, int(value[0]))])
        return True

    def clear(self) -> bool:
        """Remove all."""
        self.files.clear()
        return True

    def _collect_existing_component_keys(self, _keys, _pool_transfers=None) -> frozenset[str]:
        return frozenset(f"{name}.bin" for name in self.files)

    def _goes_bad(self) -> bool:
        is_bad, self.storage.is_bad = self.storage.is_bad, False
        return is_bad


class _Turns:
    """Stands where the event is that ends a release's threads: a loop goes as many rounds as it is let."""

    def __init__(self) -> None:
        self._is_set, self.left = False, None

    def is_set(self) -> bool:
        """Whether a loop is to end."""
        if self.left is None:
            return self._is_set
        self.left -= 1
        return self.left < 0

    def set(self) -> None:
        """Threads are to end, of which there are none."""
        self._is_set = True

    def clear(self) -> None:
        """They may begin."""
        self._is_set = False


class _NoThread:
    """Stands where a thread is."""

    def __init__(self, **_what) -> None:
        pass

    def start(self) -> None:
        """Nothing runs."""

    def join(self, timeout=None) -> None:
        """Nothing runs."""

    def is_alive(self) -> bool:
        """It does not."""
        return False


for _module in (cache_controller, hybrid_cache_controller):
    _module.threading = SimpleNamespace(Thread=_NoThread, Event=_Turns, Lock=threading.Lock)


class Storage:
    """The tier of one tree; ``tell`` hears of its copies."""

    def __init__(self, cache, tell: Callable) -> None:
        self._cache, self._controller = cache, cache.cache_controller
        self._tell = tell
        self._groups = {entry.name: g for g, entry in enumerate(self._controller.mem_pool_host.entries)}
        """Which group each pool of the host is of."""
        self.files: dict[str, torch.Tensor] = {}
        self.is_bad = False
        """The next file that is read or written goes bad."""
        _Files.storage = self
        self._places: dict[str, int] = {}
        self._numbers: dict[str, int] = {}
        """The number of each key by the release's hash of it."""

    # ---------------------------------------------------------------------------------------------- to the release

    def go(self, queries: int, writes: int, reads: int, acks: int) -> int:
        """Let each thread go so many rounds, as far as there is something to do; return how many there were."""
        controller = self._controller
        if not self._cache.enable_storage:  # Then there are no threads.
            return 0
        done = self._rounds(controller.prefetch_thread_func, controller.prefetch_queue, queries)
        done += self._rounds(controller.backup_thread_func, controller.backup_queue, writes)
        done += self._rounds(controller.prefetch_io_aux_func, controller.prefetch_buffer, reads)
        return done + self._rounds(controller.prefetch_sync_thread_func, controller.prefetch_sync_queue, acks)

    def lose(self, i: int) -> str | None:
        """Somebody removes the i-th file; its place."""
        names = [*self.files]
        if not names:
            return None
        name = names[i % len(names)]
        del self.files[name]
        return f"storage {self._place(name)}"

    def learn(self, keys, names: tuple, tokens: list[int], numbers: list[int]) -> None:
        """These are the numbers of a sequence's whole pages, as ``keys`` names them."""
        named = keys.named(tokens)
        if named:
            hashes = storage_hashes(keys.key(names, named), self._cache.page_size)
            for key, number in zip(hashes, numbers, strict=False):
                self._numbers.setdefault(key, number)

    @property
    def pending(self) -> int:
        """What is under way, by the release's books and in its queues; once the storage is gone nobody looks there."""
        cache, controller = self._cache, self._controller
        queues = (
            controller.prefetch_queue, controller.prefetch_hit_queue, controller.prefetch_buffer,
            controller.prefetch_sync_queue, controller.ack_prefetch_queue, controller.backup_queue,
            controller.ack_backup_queue, controller.host_mem_release_queue,
        ) if cache.enable_storage else ()  # fmt: skip
        return len(cache.ongoing_prefetch) + len(cache.ongoing_backup) + sum(queue.qsize() for queue in queues)

    # ---------------------------------------------------------------------------------------------- to the kit

    def cached(self, number_of: Callable) -> list[list]:
        """Return the files by the numbers of their keys and groups."""
        found = []
        for name in self.files:
            key, _, kind = name.removesuffix(_SUFFIX).partition(".")
            number = self._numbers.get(key)
            known = number_of(("storage", key)) if number is None else number
            found.append([known, self._groups[PoolName(kind)] if kind else 0, [self._place(name)]])
        return found

    def held(self) -> Iterator[tuple[int, int]]:
        """Yield the slots of the host that reads hold: pool and slot."""
        cache, controller = self._cache, self._controller
        current = [info.operation for info in cache.ongoing_prefetch.values()]
        for info in cache.ongoing_prefetch.values():
            yield from _slots(0, info.host_indices)
            for transfers in info.comp_xfers.values():
                yield from self._moved(transfers)
        for operation in self._to_be_heard_of():
            if not any(operation is other for other in current):
                # What was read is the tree's by now, or given back; the rest is given back when the release hears.
                yield from _slots(0, operation.host_indices[operation.completed_tokens :])
                yield from self._moved(() if operation.pool_transfers_done else operation.pool_transfers or ())
        for pool, queue in (
            (PoolName.KV, controller.host_mem_release_queue),
            *controller.extra_host_mem_release_queues.items(),
        ):
            yield from (found for slots in [*queue.queue] for found in _slots(self._groups[pool], slots))

    def anchors(self) -> list[tuple]:
        """Return what holds a node on the host, reads and writes: a name, the node, and the receipt of the lock."""
        reads = self._cache.ongoing_prefetch.values()
        found = [(f"read {x.operation.id}", x.anchor_node_id, x.anchor_lock_params) for x in reads]
        return found + [(f"write {number}", *lock) for number, lock in self._cache.ongoing_backup.items()]

    def written(self, name: str, page: int) -> int:
        """A file is written from a page of the host; return its place."""
        place = self._place(name)
        self._tell("copied", [["host", page, "storage", place]])
        return place

    def read(self, place: int, page: int) -> None:
        """A page of the host is read from a file."""
        self._tell("copied", [["storage", place, "host", page]])

    def _to_be_heard_of(self) -> list:
        """The reads of which the release has not heard the last; once the storage is gone it never does."""
        controller = self._controller
        if not self._cache.enable_storage:
            return []
        acks = [*controller.prefetch_sync_queue.queue, *controller.ack_prefetch_queue.queue]
        told = [ack.operation for ack in acks if ack is not None and ack.completed_req]
        return [operation for operation in [*controller.prefetch_buffer.queue, *told] if operation is not None]

    def _moved(self, transfers: Iterable) -> Iterator[tuple[int, int]]:
        for transfer in transfers:
            yield from _slots(self._groups[transfer.name], transfer.host_indices)

    def _place(self, name: str) -> int:
        return self._places.setdefault(name, len(self._places))

    def _rounds(self, loop: Callable, queue: Queue, count: int) -> int:
        """Let a loop take so many from its queue."""
        waiting = [queue.get() for _ in range(queue.qsize())]
        for one in waiting[:count]:
            queue.put(one)
        turns, ended = self._controller.storage_stop_event, min(count, len(waiting))
        if ended:
            turns.left = ended
            try:
                loop()
            finally:
                turns.left = None
        for one in waiting[count:]:
            queue.put(one)
        return ended


def _slots(g: int, slots) -> Iterator[tuple[int, int]]:
    """Yield slots, if there are some, with the number of their pool."""
    if slots is not None:
        yield from ((g, slot) for slot in slots.tolist())
