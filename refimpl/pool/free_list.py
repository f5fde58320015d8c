"""The free queue: an intrusive, doubly linked list of block ids in eviction order (P3).

Links live in two integer arrays indexed by block id instead of in node objects: a block is taken out of the middle
(P8, a hit on a free block) in O(1), and no operation allocates anything that grows with the pool. Two sentinels stand
before the first and after the last block, so that no operation has a special case for an empty queue or for an end.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from ..errors import RefusedError

UNLINKED = -1
"""The ``prev`` of a block that is not in the queue."""


class FreeList:
    """A queue over the block ids ``0 .. num_blocks - 1``; each id stands in it at most once (P3).

    ``next[b]`` and ``prev[b]`` are the neighbours of block ``b``. When ``b`` is not queued, ``prev[b]`` is ``UNLINKED``
    and ``next[b]`` means nothing (what it last was: undoing a removal needs it, clearing it would cost a store). The
    sentinels have the ids ``head = num_blocks`` and ``tail = num_blocks + 1``.

    Several queues over the same ids can share one pair of link arrays (``beside``): a block then stands in at most one
    of them, ``in`` tells whether it stands in any, and whoever has the queues knows which. Each has its own sentinels
    and its own counter, so that no operation is slower for it.

    Every operation costs O(1) per block that it moves. An invalid one (linking a linked block, unlinking an unlinked
    one, popping more than there is, an id out of range) raises ``RefusedError`` and changes nothing. A caller that
    knows its ids to be in range says so with ``in_range=True``: looking at them again costs as much as linking them.
    """

    __slots__ = ("_length", "head", "next", "num_blocks", "prev", "tail")

    def __init__(self, num_blocks: int, blocks: Iterable[int] = (), *, beside: "FreeList | None" = None) -> None:
        """Make a queue for ``num_blocks`` ids that holds ``blocks``, first to last.

        With ``beside``, a queue for as many ids, it shares that one's links; its sentinels stand behind those there.
        """
        if num_blocks < 0:
            raise RefusedError(f"num_blocks must not be negative, got {num_blocks}")
        if beside is not None and beside.num_blocks != num_blocks:
            raise RefusedError(f"a queue for {num_blocks} blocks cannot share the links of {beside.num_blocks}")
        self.num_blocks: int = num_blocks
        self.next: list[int] = [UNLINKED] * num_blocks if beside is None else beside.next
        self.prev: list[int] = [UNLINKED] * num_blocks if beside is None else beside.prev
        self.head = len(self.next)
        self.tail = self.head + 1
        self.next += UNLINKED, UNLINKED
        self.prev += UNLINKED, UNLINKED
        # The outer links of the sentinels point at themselves: a sentinel always looks linked.
        self.prev[self.head] = self.head
        self.next[self.head] = self.tail
        self.prev[self.tail] = self.head
        self.next[self.tail] = self.tail
        self._length = 0
        self.append_n(list(blocks))

    def __len__(self) -> int:
        """Return the counter, which every operation keeps; it is not a walk of the links."""
        return self._length

    def __iter__(self) -> Iterator[int]:
        """Walk the links from the first block to the last. The queue must not change during the walk."""
        block = self.next[self.head]
        while block != self.tail:
            yield block
            block = self.next[block]

    def __contains__(self, block: object) -> bool:
        """Tell whether ``block`` is queued: here, or in a queue that shares the links."""
        return isinstance(block, int) and 0 <= block < self.num_blocks and self.prev[block] != UNLINKED

    def walk(self) -> list[int]:
        """Walk the links as far as they lead, but no further than one block more than the pool has.

        For observers: the walk ends, and shows too many blocks, even if the links were to form a cycle.
        """
        return list(islice(self, self.num_blocks + 1))

    def first(self) -> int | None:
        """Return the block that would be popped next, or ``None`` when the queue is empty."""
        block = self.next[self.head]
        return None if block == self.tail else block

    def popleft(self) -> int:
        """Take the first block."""
        return self.popleft_n(1)[0]

    def popleft_n(self, n: int) -> list[int]:
        """Take the first ``n`` blocks, in order."""
        if not 0 <= n <= self._length:
            raise RefusedError(f"cannot pop {n} blocks from a free queue of {self._length}")
        following, previous = self.next, self.prev
        popped: list[int] = []
        block = following[self.head]
        for _ in range(n):
            popped.append(block)
            successor = following[block]
            previous[block] = UNLINKED
            block = successor
        following[self.head] = block
        previous[block] = self.head
        self._length -= n
        return popped

    def append(self, block: int) -> None:
        """Put ``block`` last."""
        self.append_n((block,))

    def append_n(self, blocks: Sequence[int], *, in_range: bool = False) -> None:
        """Put ``blocks`` last, in the order given."""
        if not in_range:
            self._check_ids(blocks)
        self._insert_run(self.prev[self.tail], self.tail, blocks)

    def prepend(self, block: int) -> None:
        """Put ``block`` first."""
        self.prepend_n((block,))

    def prepend_n(self, blocks: Sequence[int], *, in_range: bool = False) -> None:
        """Put ``blocks`` first, as one run in the order given: ``blocks[0]`` is popped next."""
        if not in_range:
            self._check_ids(blocks)
        self._insert_run(self.head, self.next[self.head], blocks)

    def remove(self, block: int) -> None:
        """Take ``block`` out from wherever it stands."""
        self.remove_n((block,))

    def remove_n(self, blocks: Sequence[int], *, in_range: bool = False) -> None:
        """Take ``blocks`` out from wherever they stand; the order of the others stays."""
        if not in_range:
            self._check_ids(blocks)
        following, previous = self.next, self.prev
        for index, block in enumerate(blocks):
            before = previous[block]
            if before == UNLINKED:
                # Undone last to first, each block finds its old neighbours side by side: its ``next`` still names the
                # one, and that one's ``prev`` the other.
                for undone in reversed(blocks[:index]):
                    after = following[undone]
                    previous[undone] = before = previous[after]
                    following[before] = previous[after] = undone
                raise RefusedError(f"block {block} is not in the free queue, or is named twice")
            after = following[block]
            following[before] = after
            previous[after] = before
            previous[block] = UNLINKED
        self._length -= len(blocks)

    def _insert_run(self, before: int, after: int, blocks: Sequence[int]) -> None:
        """Link ``blocks`` between the neighbours ``before`` and ``after``.

        Only the links of the new blocks, and the one out of ``before``, are written until all blocks are known to be
        good, so a refusal resets just those. A block that is named twice is found linked at its second turn.
        """
        if not blocks:
            return
        following, previous = self.next, self.prev
        last = before
        for block in blocks:
            if previous[block] != UNLINKED:
                while last != before:
                    linked, last = last, previous[last]
                    previous[linked] = UNLINKED
                following[before] = after
                raise RefusedError(f"block {block} is in the free queue already, or is named twice")
            previous[block] = last
            following[last] = block
            last = block
        following[last] = after
        previous[after] = last
        self._length += len(blocks)

    def _check_ids(self, blocks: Sequence[int]) -> None:
        """Refuse ids that no block has. Negative ones would silently index from the end of the arrays."""
        if blocks and not (min(blocks) >= 0 and max(blocks) < self.num_blocks):
            raise RefusedError(f"not all of {list(blocks)} are among the {self.num_blocks} blocks")
