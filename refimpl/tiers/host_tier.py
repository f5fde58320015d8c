"""The host tier: which blocks have a copy in host memory, and which copy goes first when room is needed (M2, M3).

It is a cache and no pool: nobody holds a host block, so there are no counts and nothing to free. A block comes by
being stored and goes when it is the one that was used least recently and another needs its place.
"""

from ..errors import RefusedError
from ..payload import Payload
from ..pool.free_list import FreeList


class HostTier:
    """Host blocks by key, in the order of their last use.

    All storage is there from the start: ``capacity`` slots, and with a payload the memory of each. The order is kept
    in the links of a ``FreeList`` over the slots, as the device's free queue is over its blocks: every operation on
    one key costs O(1). An illegal call raises ``RefusedError`` and changes nothing.
    """

    __slots__ = ("_key_in", "_order", "_slot_of", "_unused", "capacity", "evictions", "payload", "stored")

    def __init__(self, capacity: int, *, payload: Payload | None = None) -> None:
        """Make an empty tier.

        Args:
            capacity: the most blocks that it keeps, at least one (M3).
            payload: where the KV of the blocks goes, one block per slot; for a GPU, made with ``pin_memory``. Moving
                bytes is up to the caller, who asks for ``slot``.
        """
        if capacity < 1:
            raise RefusedError(f"a host tier keeps at least one block, got {capacity}")
        if payload is not None and payload.num_blocks != capacity:
            raise RefusedError(f"the payload has {payload.num_blocks} blocks, the host tier {capacity}")
        self.capacity = capacity
        self.payload = payload
        # Both only grow: blocks stored, and blocks that lost their place to another (M8).
        self.stored = 0
        self.evictions = 0
        self._order = FreeList(capacity)
        self._unused = list(range(capacity - 1, -1, -1))
        self._slot_of: dict[bytes, int] = {}
        self._key_in = [b""] * capacity

    def __len__(self) -> int:
        """Return the number of blocks that are kept."""
        return len(self._slot_of)

    def __contains__(self, key: object) -> bool:
        """Tell whether the block of ``key`` is kept. That alone is no use of it."""
        return key in self._slot_of

    def slot(self, key: bytes) -> int:
        """Return where the block of ``key`` lies: a block of the payload. It stays there until it is evicted."""
        slot = self._slot_of.get(key)
        if slot is None:
            raise RefusedError(f"the key {key.hex()} is not on the host")
        return slot

    def touch(self, key: bytes) -> None:
        """Note that the block of ``key`` was used: of all blocks it will now be evicted last (M2)."""
        slot = (self.slot(key),)
        self._order.remove_n(slot, in_range=True)
        self._order.append_n(slot, in_range=True)

    def store(self, key: bytes) -> int:
        """Make room for the block of ``key``, as the one used last, and return its slot (M2).

        A full tier evicts the block that was used least recently first (M3). The caller writes the content, before
        anybody may read it.
        """
        if key in self._slot_of:
            raise RefusedError(f"the key {key.hex()} is on the host already")
        slot = self._unused.pop() if self._unused else self._evict()
        self._slot_of[key] = slot
        self._key_in[slot] = key
        self._order.append_n((slot,), in_range=True)
        self.stored += 1
        return slot

    def keys(self) -> tuple[bytes, ...]:
        """Return the keys, the one to be evicted next first, by walking the links. For observers: linear."""
        return tuple(self._key_in[slot] for slot in self._order.walk())

    def clear(self) -> None:
        """Forget every block. That is no eviction: the counters stay as they are. Linear."""
        self._unused += self._order.popleft_n(len(self._order))
        self._slot_of.clear()

    def _evict(self) -> int:
        """Take the slot of the block that was used least recently."""
        slot = self._order.popleft()
        del self._slot_of[self._key_in[slot]]
        self.evictions += 1
        return slot
