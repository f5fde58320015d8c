"""A small host tier behind a block pool, in the manner of vLLM's offloading. It knows nothing of kvproof."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from pool import Pool

__all__ = ["Copies", "Offload"]

Copies = list[tuple[int, int]]
"""From blocks of one tier to blocks of the other."""


class Offload:
    """Host blocks, and the keys that they are cached under, the least recently used first.

    A store holds its device blocks and its host blocks until it is done: then the host has them.
    """

    def __init__(self, pool: Pool, host_blocks: int) -> None:
        """So many host blocks behind this pool, all free."""
        self.pool = pool
        self.free = [*range(host_blocks)]
        self.ref_cnt = [0] * host_blocks
        self.cached: OrderedDict[bytes, int] = OrderedDict()
        self.storing: dict[bytes, tuple[int, int]] = {}

    def lookup(self, keys: Iterable[bytes]) -> list[int]:
        """The host blocks of the first of these keys, as far as they are there."""
        found: list[int] = []
        for key in keys:
            if key not in self.cached:
                break
            self.cached.move_to_end(key)
            found.append(self.cached[key])
        return found

    def store(self, keys: Iterable[bytes], blocks: Sequence[int]) -> tuple[list[bytes], Copies]:
        """Begin to store what is not there, as far as there is room."""
        begun: list[bytes] = []
        for key, block in zip(keys, blocks, strict=False):
            if key in self.cached or key in self.storing or not self.make_room():
                continue
            host = self.free.pop(0)
            self.ref_cnt[host] += 1
            self.pool.touch(self.pool.blocks[block])
            self.storing[key] = block, host
            begun.append(key)
        return begun, [self.storing[key] for key in begun]

    def stored(self, keys: Iterable[bytes]) -> None:
        """These stores are done."""
        for key in keys:
            block, host = self.storing.pop(key)
            self.cached[key] = host
            self.ref_cnt[host] -= 1
            self.free.append(host)
            self.pool.give_back(self.pool.blocks[block])

    def make_room(self) -> bool:
        """Let the first free host block be nobody's: what it is cached under goes."""
        if not self.free:
            return False
        used = {host: key for key, host in self.cached.items()}
        self.free.sort(key=lambda host: [*self.cached].index(used[host]) if host in used else -1)
        if self.free[0] in used:
            del self.cached[used[self.free[0]]]
        return True

    def reset(self) -> bool:
        """Nothing can be found any more. Refused while something is stored."""
        if self.storing or not self.pool.reset():
            return False
        self.cached.clear()
        return True
