"""The block pool: who holds which block, which blocks are free, and in which order they are reused."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ..errors import RefusedError
from ..events import AllBlocksCleared, BlockRemoved, BlockStored, Event
from .free_list import FreeList
from .prefix_cache import PrefixCache

FreeOrder = Literal["append", "split"]
"""Where freed blocks go (P10). ``append``: all to the tail. ``split``: those without a key to the head, as one run;
those with a key to the tail. Either way in the order in which their counts reached 0."""

NULL_BLOCK = 0
"""The id of the null block, in a pool that keeps one (P4)."""


@dataclass(frozen=True, slots=True)
class PoolSnapshot:
    """The whole observable state of a pool, collected by walking its own structures.

    The event backlog is not part of it. Everything else is: two pools with equal snapshots behave alike from then on.
    """

    free: tuple[int, ...]
    """The free queue in eviction order, by walking the links. It ends after one block more than there are."""
    num_free: int
    """The queue's counter, kept apart from the walk (P3 says that they agree)."""
    ref_cnt: tuple[int, ...]
    """The holders of each block, by id (P2). The entry of the null block is always 0."""
    keys: dict[int, tuple[bytes, ...]]
    """The keys of each block that has any, in order of registration."""
    copies: dict[bytes, tuple[int, ...]]
    """The blocks of each key, in order of registration (P5); a lookup returns the first."""


class BlockPool:
    """Blocks ``0 .. num_blocks - 1``, their reference counts, their keys, and the free queue.

    A block is in the free queue exactly when nobody holds it (P3), and keeps its keys there: a free block is hit by
    a later request until it is handed out again. With ``null_block``, id 0 stands for positions without KV and is
    never queued, handed out, cached or counted (P4); calls that name it among blocks to touch or free skip it.

    Each method costs O(1) per block (and per key) that it moves. An illegal call raises ``RefusedError`` and changes
    nothing.
    """

    __slots__ = (
        "_cache",
        "_events",
        "_free",
        "_ref_cnt",
        "caching",
        "events",
        "free_order",
        "null_block",
        "num_blocks",
    )

    def __init__(
        self,
        num_blocks: int,
        *,
        free_order: FreeOrder = "split",
        caching: bool = True,
        null_block: bool = True,
        events: bool = True,
    ) -> None:
        """Make a pool whose usable blocks are all free, in the order of their ids.

        Args:
            num_blocks: all blocks, the null block included; at least one must be usable.
            free_order: the dialect of P10.
            caching: with ``False`` no key can be registered, so that ``split`` frees everything to the head.
            null_block: whether id 0 is the null block.
            events: whether to keep a backlog for ``take_events``. Turn it off when nobody takes them.
        """
        usable = num_blocks - 1 if null_block else num_blocks
        if usable < 1:
            raise RefusedError(f"a pool of {num_blocks} blocks has no usable block")
        if free_order not in ("append", "split"):
            raise RefusedError(f"free_order must be 'append' or 'split', got {free_order!r}")
        self.num_blocks = num_blocks
        self.free_order: FreeOrder = free_order
        self.caching = caching
        self.null_block: int | None = NULL_BLOCK if null_block else None
        self.events = events
        self._free = FreeList(num_blocks, range(num_blocks - usable, num_blocks))
        self._ref_cnt = [0] * num_blocks
        self._cache = PrefixCache()
        self._events: list[Event] = []

    @property
    def num_free(self) -> int:
        """The number of free blocks."""
        return len(self._free)

    @property
    def num_reclaimable(self) -> int:
        """The number of blocks that nobody holds: the most that ``allocate`` can hand out now."""
        return len(self._free)

    @property
    def usable(self) -> int:
        """The number of blocks that can be handed out: all but the null block."""
        return self.num_blocks if self.null_block is None else self.num_blocks - 1

    def ref_cnt(self, block: int) -> int:
        """Return the number of holders of ``block`` (P2); 0 for the null block, whose holders are not counted."""
        self._check_id(block)
        return self._ref_cnt[block]

    def keys_of(self, block: int) -> Sequence[bytes]:
        """Return the keys that ``block`` carries, in order of registration."""
        self._check_id(block)
        return self._cache.keys_of(block)

    def has_keys(self, block: int) -> bool:
        """Tell whether ``block`` carries any key."""
        return self._cache.has_keys(block)

    def is_free(self, block: int) -> bool:
        """Tell whether ``block`` is in the free queue."""
        return block in self._free

    def free_behind(self, block: int | None) -> int | None:
        """Return the free block that stands right behind this one, or the first of all; ``None`` at the end.

        ``block`` must stand in the queue. For who walks along it; nothing changes.
        """
        queue = self._free
        behind = queue.next[queue.head if block is None else block]
        return None if behind == queue.tail else behind

    def is_unreferenced(self, block: int) -> bool:
        """Tell whether ``block`` stands in a queue: nobody holds it, and touching it makes one block less to take."""
        return block in self._free

    def make_room(self, n: int) -> bool:
        """Tell whether the free queue has ``n`` blocks: what an admission asks (D5). A pool that pins may demote."""
        if n < 0:
            raise RefusedError(f"there cannot be room for {n} blocks")
        return n <= len(self._free)

    def allocate(self, n: int) -> list[int] | None:
        """Hand out the ``n`` blocks at the head of the free queue, in order, to one holder each (P7).

        Each of them loses all its keys. When fewer than ``n`` are free the answer is ``None`` and nothing changed.
        """
        if n < 0:
            raise RefusedError(f"cannot allocate {n} blocks")
        if n > len(self._free):
            return None
        blocks = self._free.popleft_n(n)
        ref_cnt = self._ref_cnt
        keyed = self._cache.keyed_blocks
        for block in blocks:
            ref_cnt[block] = 1
            if block in keyed:
                self._drop_keys(block)
        return blocks

    def touch(self, blocks: Sequence[int]) -> None:
        """Add one holder to each of ``blocks``; a block leaves the free queue with its first one (P8)."""
        ref_cnt, null_block, num_blocks = self._ref_cnt, self.null_block, self.num_blocks
        first_held: list[int] = []
        for block in blocks:
            if not 0 <= block < num_blocks:
                # This is the first id of its kind: what stands before it was counted.
                self._add_holders(blocks[: list(blocks).index(block)], -1)
                raise RefusedError(f"{block} is not one of the {num_blocks} blocks")
            count = ref_cnt[block]
            if count == 0:
                if block == null_block:
                    continue
                first_held.append(block)
            ref_cnt[block] = count + 1
        self._free.remove_n(first_held, in_range=True)

    def free(self, blocks: Sequence[int]) -> None:
        """Take one holder from each of ``blocks``, in the order given (P9, P10).

        Where a block goes is decided once, at the moment at which its count reaches 0, also when one call names it
        twice for two holds. A call with more frees than holds of any block is refused whole.
        """
        ref_cnt, null_block, num_blocks = self._ref_cnt, self.null_block, self.num_blocks
        keyed = self._cache.keyed_blocks
        split = self.free_order == "split"
        to_head: list[int] = []
        to_tail: list[int] = []
        for index, block in enumerate(blocks):
            count = ref_cnt[block] if 0 <= block < num_blocks else 0
            if count > 1:
                ref_cnt[block] = count - 1
            elif count == 1:
                ref_cnt[block] = 0
                if split and block not in keyed:
                    to_head.append(block)
                else:
                    to_tail.append(block)
            elif block != null_block:  # The null block's count is always 0: this test is off the common path.
                self._add_holders(blocks[:index], 1)
                raise RefusedError(f"{block} is no block, or is freed more often than it is held")
        self._free.prepend_n(to_head, in_range=True)
        self._free.append_n(to_tail, in_range=True)

    def register(self, block: int, key: bytes, parent: bytes | None) -> None:
        """Let lookups of ``key`` find ``block`` (P5). ``parent`` is the key before it in its chain, for the event.

        The block must be held by someone and must not carry the key already; the null block is never cached (P4).
        """
        self._check_id(block)
        if not self.caching:
            raise RefusedError("this pool does not cache")
        if self._ref_cnt[block] == 0:
            raise RefusedError(f"block {block} is the null block, or nobody holds it: it cannot be registered")
        if self._cache.add(block, key) and self.events:
            self._events.append(BlockStored(key, parent, block))

    def lookup(self, key: bytes) -> int | None:
        """Return the first registered block that still carries ``key`` (P5), or ``None``. Nothing changes."""
        return self._cache.lookup(key)

    def evict(self, block: int) -> None:
        """Take all keys off ``block`` (P11). Its holders and its place in the free queue stay as they are."""
        self._check_id(block)
        if block == self.null_block:
            raise RefusedError("the null block is never cached, so it cannot be evicted")
        self._drop_keys(block)

    def reset(self) -> bool:
        """Forget all keys if nobody holds a block, else change nothing; tell which (P11). The queue's order stays."""
        if len(self._free) != self.usable:
            return False
        self._cache.clear()
        if self.events:
            self._events.append(AllBlocksCleared())
        return True

    def take_events(self) -> list[Event]:
        """Return what happened to the map since the last call, oldest first (P12), and forget it."""
        events = self._events
        self._events = []
        return events

    def snapshot(self) -> PoolSnapshot:
        """Collect the whole observable state. Linear in the pool: for checkers, not for serving."""
        return PoolSnapshot(
            free=tuple(self._free.walk()),
            num_free=len(self._free),
            ref_cnt=tuple(self._ref_cnt),
            keys={block: tuple(keys) for block, keys in self._cache.keyed_blocks.items()},
            copies=self._cache.copies(),
        )

    def _drop_keys(self, block: int) -> None:
        """Take all keys off ``block`` and report those that are gone for good (P12)."""
        gone = self._cache.remove_block(block)
        if self.events:
            self._events.extend(map(BlockRemoved, gone))

    def _add_holders(self, blocks: Sequence[int], change: int) -> None:
        """Undo the first part of a call that turned out to be illegal: counts only, the queue is not touched yet."""
        for block in blocks:
            if block != self.null_block:
                self._ref_cnt[block] += change

    def _check_id(self, block: int) -> None:
        """Refuse an id that no block has. A negative one would silently index from the end."""
        if not 0 <= block < self.num_blocks:
            raise RefusedError(f"{block} is not one of the {self.num_blocks} blocks")
