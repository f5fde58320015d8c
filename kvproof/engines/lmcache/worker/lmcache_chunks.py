"""What the levels of LMCache's backend have in common: its chunks, where they lie and what they hold, as they are told.

A hash key is a number for each token: that of its chunk, and the token's place in it.
"""

from abc import abstractmethod

from level import Level
from lmcache_memory import POSITIONS, Memory
from lmcache_setup import CHUNK

__all__ = ["TIER", "ChunkLevel"]

TIER = "host"


class ChunkLevel(Level):
    """A `LocalCPUBackend`, and who uses it."""

    def __init__(self, options, backend) -> None:
        super().__init__()
        self._options = options
        self._backend = backend
        self._memory = Memory(options, backend)
        self._passes = 0
        self._told: dict = {}
        self.world = {
            "groups": [{"kind": "full", "block": 1}] * options.groups,
            # The device's memory is its engine's.
            "tiers": {"device": {"blocks": 0}, TIER: {"blocks": options.units}},
            "hash_block": 1,
            "exact": True,
        }

    @abstractmethod
    def place(self, part) -> tuple[int, int]:
        """The number of the chunk that one of the release's keys is of, and its tokens."""

    def ran(self, r: str, start: int, tokens: list[int]) -> list[int]:
        """A forward pass runs a request's positions from ``start`` on; the stamps that it leaves."""
        number, self._passes = self._passes, self._passes + 1
        self.tell("ran", r, number, start, list(tokens), None)
        return [number * POSITIONS + start + i for i in range(len(tokens))]

    def pool(self, held: list) -> dict:
        """The state of the backend's memory; ``held``: who holds an object, by the calls that were made."""
        ref, free, number = self._memory.state(held)
        return {
            "pools": {TIER: {"ref": ref, "free": free, "num_free": number, "cached": self.cached()}},
            "holds": {TIER: [unit for obj in held for unit in self._memory.units(obj)]},
        }

    def cached(self) -> list[list]:
        """What is cached, as a state has it."""
        found = []
        for part, obj in self._backend.hot_cache.items():
            (n, size), first, units = self.place(part), getattr(part, "layer_id", 0), self._memory.units(obj)
            found += [
                [n * CHUNK + i, first + g, [units[g * size + i]]]
                for g in range(self._options.tensors)
                for i in range(size)
            ]
        return found

    def tell_contents(self) -> None:
        """Tell what the cached objects hold, where it is not what was told last."""
        now = {}
        for part, obj in self._backend.hot_cache.items():
            size, layer = self.place(part)[1], getattr(part, "layer_id", 0)
            if obj.is_valid():
                units = self._memory.units(obj)
                for n, row in enumerate(self._memory.read(obj, layer)):
                    now |= {units[n * size + i]: [layer + n, [stamp]] for i, stamp in enumerate(row)}
        changed = [[unit, *held] for unit, held in now.items() if self._told.get(unit) != held]
        self._told = now
        if changed:
            self.tell("holds", TIER, changed)
