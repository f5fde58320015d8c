"""In place of the release's backend: what is cached, and what goes for new chunks, under the same calls."""

from types import SimpleNamespace
from typing import NamedTuple

import torch
from chunk_memory import CHUNK, UNIT, ChunkMemory, Object
from level import Refused

__all__ = ["CHUNK", "REMOVAL_UNPINS", "UNIT", "Backend", "Key", "Options", "made", "named"]

REMOVAL_UNPINS = False
"""A removal leaves what is pinned: pins have no names, and who looked up lets go of whatever has the key by then."""


class Options:
    """A setup of LMCache's level, and ``fault``. In which order chunks go is the twin's own affair."""

    def __init__(self, setup: dict) -> None:
        self.sizes, self.layers, self.tensors = setup.get("sizes", []), setup.get("layers", 0), setup.get("tensors", 1)
        self.paged, self.fault = bool(setup.get("paged")), setup.get("fault", "")
        page = CHUNK * self.tensors if self.paged else 1
        self.units = setup["units"] // page * page
        if self.units < 1:
            raise Refused("there is no memory")
        self.groups = self.layers or self.tensors

    def shapes(self, tokens: int) -> list[tuple[int, ...]]:
        """The shapes of what is allocated for so many tokens."""
        return [(tokens, 2, 4)] if self.layers else [(2, 1, tokens, 4)] * self.tensors

    @property
    def dtypes(self) -> list[torch.dtype]:
        """The types of these."""
        return [torch.float32] * self.tensors


class Key(NamedTuple):
    """A chunk, or a layer of it."""

    chunk_hash: int
    layer_id: int = 0

    def split_layers(self, layers: int) -> list["Key"]:
        """The keys of its layers."""
        return [Key(self.chunk_hash, n) for n in range(layers)]


def named(k: int) -> Key:
    """The key of a number."""
    return Key(k + 1)


class Backend:
    """What is cached, and the memory that it lies in."""

    def __init__(self, options: Options) -> None:
        self.options, self.fault = options, options.fault
        self.hot_cache: dict[Key, Object] = {}
        self._memory = ChunkMemory(options.units, CHUNK * options.tensors if options.paged else 0)
        self.memory_allocator = SimpleNamespace(pin_allocator=self._memory)

    # Allocation.

    def allocate(self, shapes, dtypes, busy_loop: bool = True) -> Object | None:
        """An object with these tensors; for it chunks go that nobody uses. None where that is not enough."""
        tokens = shapes[0][0] if self.options.layers else shapes[0][2]
        while (obj := self._memory.take(shapes, dtypes, tokens)) is None:
            if not self._evict():
                return None
        return obj

    def batched_allocate(self, shape, dtype, count: int, busy_loop: bool = True) -> list[Object] | None:
        """So many objects, or none."""
        got: list[Object] = []
        for _ in range(count):
            obj = self.allocate([shape], [dtype])
            if obj is None:
                for other in got if self.fault != "partial allocation" else []:
                    other.ref_count_down()
                return None
            got.append(obj)
        return got

    def _evict(self) -> bool:
        """All layers of a chunk go that nobody uses; false where there is none."""
        for key in self.hot_cache:
            parts = [part for part in self.hot_cache if part.chunk_hash == key.chunk_hash]
            if all(self.hot_cache[part].can_evict for part in parts) or self.fault == "evicts what is used":
                for part in parts[:1] if self.fault == "evicts a layer" else parts:
                    self.hot_cache.pop(part).ref_count_down()
                return True
        return False

    # What is cached.

    def contains(self, key: Key) -> bool:
        """Whether it is there."""
        return key in self.hot_cache

    def batched_contains(self, keys: list[Key], pin: bool = False) -> int:
        """How many from the first on are there; these are pinned."""
        found = next((n for n, key in enumerate(keys) if key not in self.hot_cache), len(keys))
        for key in keys[:found] if pin else []:
            self.hot_cache[key].meta.pin_count += 1
        return found

    def unpin(self, key: Key) -> None:
        """A lookup lets go."""
        obj = self.hot_cache.get(key)
        if obj is not None and obj.meta.pin_count and self.fault != "stays pinned":
            obj.meta.pin_count -= 1

    def touch_cache(self) -> None:
        """Nothing depends on it."""

    def batched_submit_put_task(self, keys: list[Key], objects: list[Object]) -> None:
        """Objects are cached, but for those whose key is, and for layers of a chunk that has gone meanwhile."""
        for key, obj in zip(keys, objects, strict=True):
            if key not in self.hot_cache and (not key.layer_id or key._replace(layer_id=0) in self.hot_cache):
                obj.ref_count_up()
                self.hot_cache[key] = obj

    def batched_get_blocking(self, keys: list[Key]) -> list[Object | None]:
        """Objects, which the caller has then."""
        got = [self.hot_cache.get(key) for key in keys]
        for obj in got:
            if obj is not None:
                obj.ref_count_up()
        return got

    async def batched_get_non_blocking(self, lookup: str, keys: list[Key]) -> list[Object | None]:
        """The same."""
        return self.batched_get_blocking(keys)

    def batched_remove(self, keys: list[Key]) -> int:
        """Chunks go that nobody pins; who has them keeps them."""
        there = [key for key in keys if key in self.hot_cache and not self.hot_cache[key].meta.pin_count]
        for key in there:
            self.hot_cache.pop(key).ref_count_down()
        return len(there)

    def clear(self) -> int:
        """All goes that nobody uses; of how many tokens."""
        chunks: dict[int, list[Key]] = {}
        for key in self.hot_cache:
            chunks.setdefault(key.chunk_hash, []).append(key)
        gone = [parts for parts in chunks.values() if all(self.hot_cache[part].can_evict for part in parts)]
        objects = [self.hot_cache.pop(part) for parts in gone for part in parts]
        for obj in objects:
            obj.ref_count_down()
        return sum(obj.tokens for obj in objects)


def made(options: Options) -> Backend:
    """A backend, and nothing cached."""
    return Backend(options)
