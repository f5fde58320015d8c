"""In place of the release's block pool: blocks in a linked queue, and a map of their hashes, under the same calls."""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import NamedTuple

__all__ = ["FAULTS", "BlockPool", "Habits"]

FAULTS = ("finds the newest", "keeps a hash", "queues what is held", "queues it twice", "resets what is held")
"""What may be wrong with a pool."""


class Habits(NamedTuple):
    """What one release does and another one does not, and both are right."""

    splits: bool
    """What is freed without a hash is next; else all that is freed is last."""
    splits_uncached: bool
    """The same of a pool that caches nothing."""
    counts_null: bool
    """The null block's holders are counted, those that let go at least."""


class Block:
    """A block; free ones are linked with their neighbours in the queue."""

    def __init__(self, block_id: int) -> None:
        self.block_id, self.ref_cnt, self.is_null = block_id, 0, False
        self.block_hash: bytes | None = None
        self.prev_free_block: Block | None = None
        self.next_free_block: Block | None = None


class Queue:
    """The free blocks, the next one first, between a head and a tail that are none."""

    def __init__(self) -> None:
        self.num_free_blocks = 0
        self.fake_free_list_head, self.fake_free_list_tail = Block(-1), Block(-1)
        _link(self.fake_free_list_head, self.fake_free_list_tail)

    def first(self) -> Block:
        """The block that is next; there is one."""
        assert self.num_free_blocks
        return self.fake_free_list_head.next_free_block

    def prepend(self, blocks: list[Block]) -> None:
        """They are next, in this order."""
        self._insert(blocks, self.fake_free_list_head.next_free_block)

    def append(self, blocks: list[Block]) -> None:
        """They are last, in this order."""
        self._insert(blocks, self.fake_free_list_tail)

    def remove(self, block: Block) -> None:
        """It leaves the queue, wherever it stands."""
        _link(block.prev_free_block, block.next_free_block)
        block.prev_free_block = block.next_free_block = None
        self.num_free_blocks -= 1

    def _insert(self, blocks: list[Block], behind: Block) -> None:
        for block in blocks:
            _link(behind.prev_free_block, block)
            _link(block, behind)
        self.num_free_blocks += len(blocks)


def _link(block: Block, behind: Block) -> None:
    block.next_free_block, behind.prev_free_block = behind, block


class BlockPool:
    """Blocks, of which block 0 is the null block.

    As in the release, an entry of the map is a block, or several by their numbers, the first one first.
    """

    def __init__(
        self, num_gpu_blocks: int, enable_caching: bool, hash_block_size: int, habits: Habits, fault: str
    ) -> None:
        assert not fault or fault in FAULTS
        self._splits = habits.splits if enable_caching else habits.splits_uncached
        self._counts_null, self._fault = habits.counts_null, fault
        self.blocks = [Block(number) for number in range(num_gpu_blocks)]
        self.null_block = self.blocks[0]
        self.null_block.is_null = True
        self.free_block_queue = Queue()
        self.free_block_queue.append(self.blocks[1:])
        self.cached_block_hash_to_block = SimpleNamespace(_cache={})

    # Calls.

    def get_cached_block(self, block_hash: bytes, kv_cache_group_ids: list[int]) -> list[Block] | None:
        """The block with this hash of each of these groups, or nothing where one has none."""
        found = [self._several(_key(block_hash, group)) for group in kv_cache_group_ids]
        at = -1 if self._fault == "finds the newest" else 0
        return [blocks[at] for blocks in found] if all(found) else None

    def touch(self, blocks: Iterable[Block]) -> None:
        """Each has one holder more, and who has any is not free."""
        for block in blocks:
            if block.is_null and not self._counts_null:
                continue
            if not block.ref_cnt and not block.is_null and self._fault != "queues what is held":
                self.free_block_queue.remove(block)
            block.ref_cnt += 1

    def get_new_blocks(self, num_blocks: int) -> list[Block]:
        """The next free blocks, which lose their hashes."""
        if num_blocks > self.free_block_queue.num_free_blocks:
            raise ValueError("too few blocks are free")
        taken = []
        for _ in range(num_blocks):
            block = self.free_block_queue.first()
            self.free_block_queue.remove(block)
            block.ref_cnt = 1
            if self._fault != "keeps a hash":
                self._forget(block)
            taken.append(block)
        return taken

    def cache_full_blocks(
        self,
        request,
        blocks: list[Block],
        num_cached_blocks: int,
        num_full_blocks: int,
        block_size: int,
        kv_cache_group_id: int,
    ) -> None:
        """Blocks of a request are found under its hashes, behind those that are found there already."""
        for at in range(num_cached_blocks, num_full_blocks):
            block, key = blocks[at], _key(request.block_hashes[at], kv_cache_group_id)
            if block.is_null:
                continue
            self._forget(block)
            block.block_hash = key
            self._file(key, [*self._several(key), block])

    def free_blocks(self, ordered_blocks: Iterable[Block]) -> None:
        """Each has one holder less; who has none is free."""
        first, last = [], []
        for block in ordered_blocks:
            if block.is_null and not self._counts_null:
                continue
            block.ref_cnt -= 1
            if not block.ref_cnt and not block.is_null:
                (first if self._splits and block.block_hash is None else last).append(block)
        if self._fault == "queues it twice" and len(last) > 1:
            self.free_block_queue.append(last[:1])
        self.free_block_queue.prepend(first)
        self.free_block_queue.append(last)

    def evict_blocks(self, block_ids: set[int]) -> None:
        """They are not found any more."""
        for number in block_ids:
            self._forget(self.blocks[number])

    def reset_prefix_cache(self) -> bool:
        """None is found any more, if all are free; whether they are."""
        all_free = self.free_block_queue.num_free_blocks == len(self.blocks) - 1
        if not all_free and self._fault != "resets what is held":
            return False
        for block in self.blocks:
            self._forget(block)
        return True

    # The map.

    def _several(self, key: bytes) -> list[Block]:
        """The blocks of a key."""
        entry = self.cached_block_hash_to_block._cache.get(key)
        return [entry] if isinstance(entry, Block) else [*(entry or {}).values()]

    def _forget(self, block: Block) -> None:
        if block.block_hash is not None:
            self._file(block.block_hash, [other for other in self._several(block.block_hash) if other is not block])
            block.block_hash = None

    def _file(self, key: bytes, blocks: list[Block]) -> None:
        cache = self.cached_block_hash_to_block._cache
        cache[key] = blocks[0] if len(blocks) == 1 else {block.block_id: block for block in blocks}
        if not blocks:
            del cache[key]


def _key(block_hash: bytes, group: int) -> bytes:
    return block_hash + group.to_bytes(4, "big")
