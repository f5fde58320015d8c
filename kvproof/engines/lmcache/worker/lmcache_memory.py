"""What is in memory objects: where each lies, who counts it, and the stamps that were left in its tensors.

A unit is what one token takes. An object that is cached and counted by nobody else counts as free: it can be evicted.
"""

import torch
from lmcache_setup import CHUNK, UNIT, Options

__all__ = ["POSITIONS", "Memory"]

POSITIONS = 4096
"""A stamp is the number of a forward pass times this, and the position: all of it is below 2^24."""

_KEY, _VALUE = 1.0, 2.0


class Memory:
    """The memory objects of a backend."""

    def __init__(self, options: Options, backend) -> None:
        self._options = options
        self._backend = backend
        self._allocator = backend.memory_allocator.pin_allocator
        self._page = CHUNK * options.tensors

    def units(self, obj) -> list[int]:
        """The units that an object has."""
        if self._options.paged:
            return list(range(obj.meta.address * self._page, (obj.meta.address + 1) * self._page))
        return list(range(obj.meta.address // UNIT, (obj.meta.address + obj.meta.phy_size) // UNIT))

    def fits(self, tokens: int, count: int) -> bool:
        """Whether there is room for so many objects of so many tokens, without an eviction."""
        if self._options.paged:
            return len(self._allocator.free_blocks) >= count
        size, free, places, run = tokens * self._options.tensors, set(self._free()), 0, 0
        for unit in range(self._options.units):
            # Blocks that stand side by side are one, whatever the allocator made of them.
            run = run + 1 if unit in free else 0
            if run == size:
                places, run = places + 1, 0
        return places >= count

    def write(self, obj, stamps: list[int], g: int) -> None:
        """Leave stamps in an object's tensors, as a connector of the release would; ``g``: the first one's group."""
        for n, tensor in enumerate(self._tensors(obj)):
            rows = torch.tensor([[[s, g + n + 1, part, 0] for s in stamps] for part in (_KEY, _VALUE)])
            tensor.copy_(rows.transpose(0, 1) if self._options.layers else rows.unsqueeze(1))

    def read(self, obj, g: int) -> list[list[int]]:
        """The stamps in each of an object's tensors: -1 where it is none, or another group's."""
        found = []
        for n, tensor in enumerate(self._tensors(obj)):
            keys, values = (tensor.transpose(0, 1) if self._options.layers else tensor.squeeze(1)).tolist()
            found.append(
                [
                    int(key[0]) if key[:2] == value[:2] and [*key[1:3], value[2]] == [g + n + 1, _KEY, _VALUE] else -1
                    for key, value in zip(keys, values, strict=True)
                ]
            )
        return found

    def _tensors(self, obj) -> list[torch.Tensor]:
        """An object's tensors: the release's connectors take the only one as `tensor`, several by their number."""
        count = self._options.tensors
        return [obj.tensor] if count == 1 else [obj.get_tensor(n) for n in range(count)]

    def state(self, held: list) -> tuple[list[int], list[int], int]:
        """References of each unit, units that can be had, and how many these are by the allocator's own count.

        ``held``: objects that somebody holds. The cache's own reference is not counted.
        """
        cached = list(self._backend.hot_cache.values())
        free = self._free()
        ref = [1] * self._options.units  # What is neither free nor known was lost.
        known = {id(obj): obj for obj in (*cached, *held)}
        valid = [obj for obj in known.values() if obj.is_valid()]
        for unit in (*free, *(unit for obj in (*valid, *cached) for unit in self.units(obj))):
            ref[unit] = 0
        for obj in valid:
            for unit in self.units(obj):
                ref[unit] += obj.meta.ref_count + obj.meta.pin_count
        for obj in cached:
            for unit in self.units(obj):
                ref[unit] -= 1
        evictable = [unit for obj in cached for unit in self.units(obj) if obj.can_evict]
        number = self._options.units - self._allocator.total_allocated_size // UNIT + len(evictable)
        return ref, free + evictable, number

    def _free(self) -> list[int]:
        if self._options.paged:
            return [unit for obj in self._allocator.free_blocks for unit in self.units(obj)]
        blocks = self._allocator.address_manager._explicit_list
        return [unit for b in blocks for unit in range(b.start // UNIT, (b.start + b.size) // UNIT)]
