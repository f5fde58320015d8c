"""In place of the release's `L1Manager`: objects under leases, staged by their writers, under the same calls."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from types import SimpleNamespace
from typing import NamedTuple

import torch
from chunk_memory import CHUNK, UNIT, ChunkMemory, Object
from lmcache_leases import READ, WRITE, Lease, Options

__all__ = ["FAULT", "LAYOUT", "L1Error", "Manager", "evict", "listen", "made", "named"]

FAULT = ""
"""What is wrong with managers that are made from now on; nothing, if empty."""

LAYOUT = [(2, 1, CHUNK, UNIT // 8)]


class L1Error(Enum):
    """What became of a key."""

    SUCCESS = auto()
    KEY_NOT_EXIST = auto()
    KEY_NOT_WRITABLE = auto()
    KEY_IS_LOCKED = auto()
    OUT_OF_MEMORY = auto()


class Key(NamedTuple):
    """The key of a chunk."""

    chunk_hash: bytes


def named(k: int) -> Key:
    """The key of a number."""
    return Key(k.to_bytes(4, "big"))


@dataclass
class Entry:
    """An object, who writes it, and who reads it."""

    memory_obj: Object
    is_temporary: bool
    write_lock: Lease = field(default_factory=lambda: Lease(WRITE))
    read_lock: Lease = field(default_factory=lambda: Lease(READ))


Results = dict[Key, tuple[L1Error, Object | None]]


class Manager:
    """What is there to be read, and per key and writer what is being written."""

    def __init__(self, options: Options) -> None:
        self._fault, self._ratio = FAULT, options.ratio
        self._memory, self._size = ChunkMemory(options.units), options.units * UNIT
        self._memory_manager = SimpleNamespace(_allocator=SimpleNamespace(pin_allocator=self._memory))
        self._objects: dict[Key, Entry] = {}
        """The one that was used least recently is the first."""
        self._staging: dict[Key, dict[str, Entry]] = {}
        self.stored: Callable[[list[Key]], None]
        self.removed: Callable[[list[Key]], None]

    def get_memory_usage(self) -> tuple[int, int]:
        """Bytes that are taken, and all."""
        return self._memory.total_allocated_size, self._size

    # Writers.

    def reserve_write(self, keys: list[Key], temporary: list[bool], layout: list, tag: str) -> Results:
        """Reserve room for keys that are not there and that this writer is not writing; for all of them, or none."""
        results: Results = {}
        fresh: dict[Key, Entry] = {}
        for key, passing in zip(keys, temporary, strict=True):
            staged = self._staging.get(key, {}).get(tag)
            if key in self._objects or (staged is not None and staged.write_lock.is_locked()):
                results[key] = L1Error.KEY_NOT_WRITABLE, None
            elif staged is not None:  # Its writer has crashed, and the room is this one's.
                fresh[key] = Entry(staged.memory_obj, passing)
            elif (obj := self._memory.take(layout, [torch.float32], CHUNK)) is not None:
                fresh[key] = Entry(obj, passing)
            else:
                return self._refused(keys, fresh, tag)
        for key, entry in fresh.items():
            entry.write_lock.lock()
            self._staging.setdefault(key, {})[tag] = entry
            results[key] = L1Error.SUCCESS, entry.memory_obj
        return results

    def _refused(self, keys: list[Key], fresh: dict[Key, Entry], tag: str) -> Results:
        """There is no room: what was got goes back, but for what an abandoned write still has."""
        for key, entry in fresh.items():
            if tag not in self._staging.get(key, {}) and self._fault != "keeps what was got":
                entry.memory_obj.ref_count_down()
        return dict.fromkeys(keys, (L1Error.OUT_OF_MEMORY, None))

    def finish_write(self, keys: list[Key], tag: str) -> dict[Key, L1Error]:
        """What was written is there."""
        self._admit(keys, tag)
        return dict.fromkeys(keys, L1Error.SUCCESS)

    def finish_write_and_reserve_read(self, keys: list[Key], tag: str) -> Results:
        """The same, and it is reserved for a reader at once."""
        self._admit(keys, tag)
        return self.reserve_read(keys, 1)

    def finish_write_and_delete(self, keys: list[Key], tag: str) -> dict[Key, L1Error]:
        """Nothing was written."""
        for key in keys:
            self._unstage(key, tag).memory_obj.ref_count_down()
        return dict.fromkeys(keys, L1Error.SUCCESS)

    def _admit(self, keys: list[Key], tag: str) -> None:
        """Where something is there by now it stays, for good if either of the two is to; listeners know of it."""
        for key in keys:
            entry = self._unstage(key, tag)
            there = self._objects.get(key)
            if there is None:
                self._objects[key] = entry
                self.stored([key])
                continue
            entry.memory_obj.ref_count_down()
            if self._fault != "discards a store":
                there.is_temporary &= entry.is_temporary

    def _unstage(self, key: Key, tag: str) -> Entry:
        entry = self._staging[key].pop(tag)
        if not self._staging[key]:
            del self._staging[key]
        return entry

    # Readers.

    def reserve_read(self, keys: list[Key], read_locks: int) -> Results:
        """Reserve what is there for so many readers each."""
        for key in keys:
            for _ in range(read_locks if key in self._objects else 0):
                self._objects[key].read_lock.lock()
        self.touch_keys(keys)
        return self.unsafe_read(keys)

    def unsafe_read(self, keys: list[Key]) -> Results:
        """What was reserved."""
        there = {key: self._objects.get(key) for key in keys}
        return {
            key: (L1Error.KEY_NOT_EXIST, None) if entry is None else (L1Error.SUCCESS, entry.memory_obj)
            for key, entry in there.items()
        }

    def finish_read(self, keys: list[Key], read_locks: int) -> dict[Key, L1Error]:
        """So many readers are done with each; with its last reader goes what was there for readers alone."""
        for key in keys:
            entry = self._objects[key]
            for _ in range(read_locks):
                entry.read_lock.unlock()
            if entry.is_temporary and not entry.read_lock.is_locked():
                self._remove(key)
        return dict.fromkeys(keys, L1Error.SUCCESS)

    def touch_keys(self, keys: list[Key]) -> None:
        """Keys were used."""
        for key in [key for key in keys if key in self._objects]:
            self._objects[key] = self._objects.pop(key)

    # What goes.

    def delete(self, keys: list[Key]) -> dict[Key, L1Error]:
        """Delete what nobody reads or writes, and what crashed writers have left."""
        return {key: self._deleted(key) for key in keys}

    def clear(self) -> None:
        """The same of all, and of what is there also under who writes it anew."""
        self._reclaim([*self._staging])
        for key in [key for key, entry in self._objects.items() if not entry.read_lock.is_locked()]:
            self._remove(key)

    def evict(self) -> None:
        """Of what can go, and of what crashed writers have left, a part goes, the least recently used first."""
        keys = [*dict.fromkeys([*self._objects, *self._staging])]
        able = keys if self._fault == "chooses what is locked" else [key for key in keys if self._can_go(key)]
        self.delete(able[: max(1, int(len(able) * self._ratio))])

    def _can_go(self, key: Key) -> bool:
        staged = self._staging.get(key, {}).values()
        writing = [entry.write_lock.is_locked() for entry in staged]
        return not all(writing) or (not writing and not self._objects[key].read_lock.is_locked())

    def _deleted(self, key: Key) -> L1Error:
        if key not in self._objects and key not in self._staging:
            return L1Error.KEY_NOT_EXIST
        self._reclaim([key])
        entry = self._objects.get(key)
        read = entry is not None and entry.read_lock.is_locked() and self._fault != "deletes what is read"
        if key in self._staging or read:
            return L1Error.KEY_IS_LOCKED
        if entry is not None:
            self._remove(key)
        return L1Error.SUCCESS

    def _reclaim(self, keys: list[Key]) -> None:
        """What crashed writers have of these keys is free again."""
        for key in keys if self._fault != "forgets who crashed" else []:
            for tag, entry in [*self._staging.get(key, {}).items()]:
                if not entry.write_lock.is_locked():
                    self._unstage(key, tag).memory_obj.ref_count_down()

    def _remove(self, key: Key) -> None:
        self._objects.pop(key).memory_obj.ref_count_down()
        self.removed([key])


def made(options: Options) -> tuple[Manager, Callable[[], None]]:
    """A manager, and its evictions."""
    Lease.now = 0
    manager = Manager(options)
    return manager, manager.evict


def listen(manager: Manager, stored: Callable, removed: Callable) -> None:
    """Tell which keys are there, and which are no longer."""
    manager.stored, manager.removed = stored, removed


def evict(evictions: Callable[[], None]) -> None:
    """One round."""
    evictions()
