"""The device of Dynamo's mocker, kept by the reference implementation: a `KVCacheManager` over a `BlockPool`.

Stores read device blocks while others want them. With a private host tier the mocker gives such a block away at once,
and lets whoever writes it wait; with a shared one the store holds the block, as a request would (G1).
"""

from collections.abc import Iterable, Sequence

from ...refimpl.pool.block_pool import BlockPool
from ...refimpl.pool.manager import KVCacheManager

__all__ = ["DeviceMirror"]


class DeviceMirror:
    """Blocks of the device: whose they are, what can be found in them, and who still reads them."""

    def __init__(self, blocks: int, block_tokens: int, *, stores_hold: bool) -> None:
        self._pool = BlockPool(blocks, free_order="split", null_block=False, events=False)
        self._manager = KVCacheManager(self._pool, block_tokens=block_tokens)
        self._stores_hold = stores_hold
        self._held: dict[int, list[int]] = {}
        """Of a store, the blocks that it holds."""
        self._readers: dict[int, set[int]] = {}
        """Of a block, the stores that still read it: it may be given away, and is not written before they end."""

    @property
    def num_free(self) -> int:
        """The number of blocks that nobody holds."""
        return self._pool.num_free

    def occupancy(self) -> tuple[int, int]:
        """Return how many blocks are held, and how many can only be hit."""
        free = [block for block in range(self._pool.num_blocks) if self._pool.is_free(block)]
        return self._pool.num_blocks - len(free), sum(map(self._pool.has_keys, free))

    def reach(self, keys: Sequence[bytes]) -> int:
        """Return how many leading keys can be found."""
        return self._manager.reach(keys, len(keys))

    def unheld(self, keys: Sequence[bytes]) -> list[bool]:
        """Tell of each key that can be found whether nobody holds its block."""
        return [self._pool.is_free(block) for block in self._manager.find(keys, len(keys))]

    def enter(self, request: int, keys: Sequence[bytes]) -> None:
        """Let a request in, with the blocks of these keys, all of which can be found."""
        entered = self._manager.admit(request, self._pool.usable)
        assert entered
        found = self._manager.hit(request, keys, len(keys))
        assert found == len(keys)

    def table(self, request: int) -> tuple[int, ...]:
        """Return the blocks of a request."""
        return self._manager.table(request)

    def grow(self, request: int, length: int) -> list[int] | None:
        """Let a table have so many blocks, and return the new ones; none if too few are free.

        The mocker puts the block that was free longest last. Which one that is shows only in who still reads it: so
        that is exchanged among the new ones, and the pool keeps to its own order.
        """
        blocks = self._manager.allocate(request, max(0, length - self._manager.num_positions(request)))
        if blocks is not None:
            readers = [self._readers.pop(block, set()) for block in blocks]
            self._readers |= dict(zip(blocks, reversed(readers), strict=True))
        return blocks

    def register(self, request: int, keys: Sequence[bytes], positions: Iterable[int]) -> None:
        """Let the blocks at these positions be found by their keys."""
        table = self._manager.table(request)
        for position in positions:
            if keys[position] not in self._pool.keys_of(table[position]):
                parent = keys[position - 1] if position else None
                self._manager.register(request, position, keys[position], parent, self._manager.block_tokens)

    def leave(self, request: int) -> None:
        """Let a request leave, for good or for now: nothing is remembered of it."""
        self._manager.finish(request, abort=True)

    def hold(self, store: int, blocks: list[int]) -> None:
        """Note that a store reads blocks."""
        if self._stores_hold:
            self._pool.touch(blocks)
            self._held[store] = blocks
            return
        for block in blocks:
            self._readers.setdefault(block, set()).add(store)

    def let_go(self, store: int) -> None:
        """Note that a store has ended; the last of its blocks is free first."""
        self._pool.free(self._held.pop(store, [])[::-1])
        for readers in self._readers.values():
            readers.discard(store)

    def readers(self, blocks: Iterable[int]) -> set[int]:
        """Return the stores that read any of these blocks."""
        return set().union(*(self._readers.get(block, ()) for block in blocks))
