"""A block pool that retains chosen blocks longer than others: pin and demote (D1 to D6).

A freed block goes to the free queue and is handed out again when it comes to the head of it, however much its content
is still wanted. A *retention mark* sends it to a second queue instead, out of which nothing is handed out: it stays
there, and can be hit, until the pool has no other way to make room. Then the oldest are demoted to the free queue.

The mark says where a block goes when its last holder leaves, and nothing else. It is not a holder: ``ref_cnt`` counts
live users only (D1). The first design of pinning in vLLM held pinned blocks by a second reference; four faults came of
it, since nobody could tell that reference from a user's.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import RefusedError
from .block_pool import BlockPool, FreeOrder, PoolSnapshot
from .free_list import FreeList


@dataclass(frozen=True, slots=True)
class PinnedSnapshot(PoolSnapshot):
    """The whole observable state of a pool that pins."""

    pinned: tuple[int, ...]
    """The pinned queue, oldest first, by walking the links. It ends after one block more than there are."""
    num_pinned: int
    """The queue's counter, kept apart from the walk."""
    marked: tuple[bool, ...]
    """Whether each block has a retention mark, by id."""


class PinnedPool(BlockPool):
    """A ``BlockPool`` in which a held block that carries a key can be marked, to be pinned when it is freed.

    Each usable block is exactly one of free, pinned and referenced (D1). The pinned ones are those that nobody holds
    and that have a mark; every block with a mark carries a key, and none in the free queue has one. Both queues share
    one pair of links, so that a hit takes a block out of either in O(1).

    Every call that does not meet a marked block is the base's own. With ``pinning=False`` that is every call: the pool
    behaves as a ``BlockPool`` does, step by step (D6).
    """

    __slots__ = ("_marked", "_pinned", "pinning")

    def __init__(
        self,
        num_blocks: int,
        *,
        free_order: FreeOrder = "split",
        caching: bool = True,
        null_block: bool = True,
        events: bool = True,
        pinning: bool = True,
    ) -> None:
        """Make a pool as ``BlockPool`` does; without ``pinning`` no block can be marked."""
        super().__init__(num_blocks, free_order=free_order, caching=caching, null_block=null_block, events=events)
        self.pinning = pinning
        self._pinned = FreeList(num_blocks, beside=self._free)
        self._marked: set[int] = set()

    @property
    def num_pinned(self) -> int:
        """The number of pinned blocks."""
        return len(self._pinned)

    @property
    def num_reclaimable(self) -> int:
        """The number of blocks that nobody holds, free or pinned: the most that ``allocate`` can hand out now."""
        return len(self._free) + len(self._pinned)

    def is_free(self, block: int) -> bool:
        """Tell whether ``block`` is in the free queue."""
        return block in self._free and block not in self._marked

    def is_pinned(self, block: int) -> bool:
        """Tell whether ``block`` is in the pinned queue."""
        return block in self._marked and block in self._pinned

    def is_marked(self, block: int) -> bool:
        """Tell whether ``block`` has a retention mark: it is pinned, or will be when its last holder leaves."""
        return block in self._marked

    def mark(self, blocks: Sequence[int]) -> None:
        """Give each of ``blocks`` the retention mark. Their holders and counts stay as they are (D1).

        Refused as a whole if the pool does not pin, or if any of them is the null block, is held by nobody, or carries
        no key: there would be nothing to retain.
        """
        if not self.pinning:
            raise RefusedError("this pool does not pin")
        for block in blocks:
            if self.ref_cnt(block) == 0 or not self.has_keys(block):
                raise RefusedError(f"block {block} is the null block, or has no holder or no key: it cannot be marked")
        self._marked.update(blocks)

    def allocate(self, n: int) -> list[int] | None:
        """Hand out ``n`` blocks from the head of the free queue, as the base does (P7, D2).

        When fewer are free, the shortfall is demoted first, no more; the demoted ones may be among those handed out,
        and lose their keys then. ``None``, and nothing changed, when pinned blocks do not cover the shortfall either.
        """
        return super().allocate(n) if n <= len(self._free) or self.make_room(n) else None

    def touch(self, blocks: Sequence[int]) -> None:
        """Add one holder to each of ``blocks``; with the first one a block leaves the queue that it is in (P8).

        Its mark stays: once the holders of now are gone it is pinned again (D3).
        """
        if self._marked:
            pinned = self._unreferenced_marked(blocks)
            if pinned and min(blocks) >= 0 and max(blocks) < self.num_blocks:  # Else the base refuses the call.
                self._pinned.remove_n(pinned, in_range=True)
                self._free.append_n(pinned, in_range=True)  # For this moment only: the base takes them out of there.
        super().touch(blocks)

    def free(self, blocks: Sequence[int]) -> None:
        """Take one holder from each of ``blocks``; one that has a mark and no holder left is pinned (P9, D1).

        Those go to the tail of the pinned queue, in the order in which their counts reached 0, and keep their marks.
        Where the others go is the base's decision (P10).
        """
        super().free(blocks)
        if self._marked:
            # What a legal call names, and nobody holds after it, was freed by it: at its last mention.
            pinned = self._unreferenced_marked(blocks[::-1])[::-1]
            self._free.remove_n(pinned, in_range=True)
            self._pinned.append_n(pinned, in_range=True)

    def demote(self, n: int) -> int:
        """Move the ``n`` oldest pinned blocks, or all there are, to the tail of the free queue; return how many (D2).

        They lose their marks and go in their order. Their keys stay, so that a demoted block is still hit until it is
        handed out again.
        """
        if n < 0:
            raise RefusedError(f"cannot demote {n} blocks")
        blocks = self._pinned.popleft_n(min(n, len(self._pinned)))
        self._marked.difference_update(blocks)
        self._free.append_n(blocks, in_range=True)
        return len(blocks)

    def make_room(self, n: int) -> bool:
        """Let ``n`` blocks be free, by demoting exactly as many as there are too few: what an admission asks (D5).

        ``False``, and nothing is demoted, if free and pinned blocks together are fewer.
        """
        shortfall = n - len(self._free)
        if shortfall <= 0:
            return super().make_room(n)
        return shortfall <= len(self._pinned) and self.demote(shortfall) == shortfall

    def evict(self, block: int) -> None:
        """Take all keys off ``block`` (P11), and its mark with them: there is nothing left to retain (D3).

        A pinned block moves to the head of the free queue. Any other stays where it is.
        """
        super().evict(block)
        if block in self._marked:
            if block in self._pinned:
                self._pinned.remove(block)
                self._free.prepend(block)
            self._marked.discard(block)

    def reset(self) -> bool:
        """Forget all keys and marks if nobody holds a block, else change nothing; tell which (P11, D5).

        Pinned blocks count as free. They move to the head of the free queue, in their order, before those there.
        """
        if self.num_reclaimable != self.usable:
            return False
        self._free.prepend_n(self._pinned.popleft_n(len(self._pinned)), in_range=True)
        self._marked.clear()
        return super().reset()

    def snapshot(self) -> PinnedSnapshot:
        """Collect the whole observable state. Linear in the pool: for checkers, not for serving."""
        base = super().snapshot()
        return PinnedSnapshot(
            free=base.free,
            num_free=base.num_free,
            ref_cnt=base.ref_cnt,
            keys=base.keys,
            copies=base.copies,
            pinned=tuple(self._pinned.walk()),
            num_pinned=len(self._pinned),
            marked=tuple(block in self._marked for block in range(self.num_blocks)),
        )

    def _unreferenced_marked(self, blocks: Sequence[int]) -> list[int]:
        """Return those of ``blocks`` that have a mark and no holder, each once, in the order of first mention."""
        marked, ref_cnt = self._marked, self._ref_cnt
        return list(dict.fromkeys([block for block in blocks if block in marked and ref_cnt[block] == 0]))
