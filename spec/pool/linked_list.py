"""Machine P once more, with the free queue as what it is in memory: a doubly linked list.

An engine keeps no abstract queue. It keeps, for each block, which block comes next and which came before, and two
sentinels, so that no operation has a special case for an empty queue or for an end. A block is taken out of the middle
in O(1). A call that moves several blocks writes the links around the gap only once, after its loop, which is fast and
easy to get wrong.

`LinkedPool` extends `Pool`. Its actions are those of P, and beside each operation on the abstract queue it does the
pointer writes of the reference implementation (`refimpl/pool/free_list.py`). The invariants say that the links spell
out exactly the order of the abstract queue, at every moment and for any number of blocks; so whatever is proved of P
holds for the list.

- `popleft_n` is the loop of `allocate`, `remove` happens in `hit`, `append_n` and `prepend_n` are the loop of `trim`,
  `finish` and `preempt`.
- What is handed out is what the list pops, not what the abstract queue says. That these are the first n blocks, in
  order, is P7, proved here of the list (`allocation_takes_the_head_in_order`).
- The implementation sorts freed blocks into two runs, then links one after the other. The machine links each block
  when it is freed, with both runs open. The links that remain are the same, because an order leaves no choice of links.

What must fail: a pop that does not link back to the sentinel, a pop or a removal that leaves the block looking linked,
a pop that goes one too far, an append of a linked block, a run that is not counted, runs that ignore each other.
"""

from __future__ import annotations

from ...machine import (
    Bool,
    Int,
    Map,
    Param,
    Scalar,
    all_of,
    any_of,
    corollary,
    iff,
    implies,
    initially,
    invariant,
    ite,
    none,
    optional,
    when,
)
from ..pool import Block, Pool, Request

__all__ = ["LinkedPool", "Node"]


class Node(Block, extra=("HEAD", "TAIL")):
    """What stands in the list: a block, or one of the two sentinels, before the first block and after the last.

    To a type checker a `Node` is a `Block`, as a subclass; so links are typed as leading to blocks.
    """


HEAD, TAIL = Node.named("HEAD"), Node.named("TAIL")


class LinkedPool(Pool):
    """The block pool, its free queue kept as a doubly linked list between sentinels."""

    # -------------------------------------------------------------------------------- the list

    first_next = Param(Node, to=optional(Node))
    """The forward links that the constructor leaves. It appends all blocks, by the loop proved below."""

    first_prev = Param(Node, to=optional(Node))
    """The backward links that the constructor leaves."""

    next: Map[Block] = Map(Node, to=optional(Node), init=lambda m, a: m.first_next[a])
    """The link forward. That of a block that is not in the list means nothing: it is what it last was."""

    prev: Map[Block] = Map(Node, to=optional(Node), init=lambda m, a: m.first_prev[a])
    """The link backward; none tells that a block is not in the list."""

    counter = Scalar(to=Int, init=lambda m: m.usable.value)
    """How many blocks the list holds, as the implementation counts: once for each call, after its loop."""

    # -------------------------------------------------------------------------------- while a call is in its loop

    left: Scalar[Block] = Scalar(to=optional(Node), scratch=True)
    """The last node before the gap that is to be closed: the sentinel, or what this call put at the head last."""

    right: Scalar[Block] = Scalar(to=optional(Node), scratch=True)
    """The first node after that gap."""

    is_linking = Scalar(to=Bool, scratch=True)
    """Blocks are given back: there is a second gap, at the tail."""

    last: Scalar[Block] = Scalar(to=optional(Node), scratch=True)
    """The last node before that second gap, whose link to the sentinel is written at the end."""

    moved = Scalar(to=Int, scratch=True)
    """How many blocks this call has put into the list; negative for those that it has taken out."""

    def _next(self, a: Block) -> Block:
        """The link forward, as it will be when the gaps are closed."""
        is_open = self.is_linking.value & (a == self.last.value)
        return ite(a == self.left.value, self.right.value, ite(is_open, TAIL, self.next[a]))

    def _prev(self, a: Block) -> Block:
        """The link backward, as it will be when the gaps are closed."""
        is_open = self.is_linking.value & (a == TAIL)
        return ite(a == self.right.value, self.left.value, ite(is_open, self.last.value, self.prev[a]))

    def _stands(self, a: Block) -> Bool:
        """The node is a sentinel, or a block in the queue."""
        return any_of(a == HEAD, a == TAIL, self.free.has(a))

    def _before(self, a: Block, b: Block) -> Bool:
        """Of two nodes that stand in the list, ``a`` stands nearer to the head than ``b``."""
        return (a != b) & any_of(a == HEAD, b == TAIL, self.free.before(a, b))

    # -------------------------------------------------------------------------------- what the list does

    def _take(self, r: Request, n: Int) -> None:
        """`popleft_n`: the gap is between the sentinel and the first block that stays."""
        self.left.value = HEAD
        self.right.value = self.next[HEAD]
        super()._take(r, n)
        self._close_gap()

    def _take_head(self) -> Block:
        """One round of `popleft_n`: the first block after the gap leaves."""
        b = self.right.value
        self.right.value = self.next[b]
        self.prev[b] = none
        self.moved.value = self.moved.value - 1
        self.free.remove(b)
        return b

    def _leave_queue(self, b: Block) -> None:
        """`remove`: the neighbours are linked to each other."""
        super()._leave_queue(b)
        before, after = self.prev[b], self.next[b]
        self.next[before] = after
        self.prev[after] = before
        self.prev[b] = none
        self.counter.value = self.counter.value - 1

    def _give_back(self, r: Request, n: Int) -> None:
        """`prepend_n` and `append_n`: one gap behind the run at the head, one behind the run at the tail."""
        self.left.value = HEAD
        self.right.value = self.next[HEAD]
        self.is_linking.value = True
        self.last.value = self.prev[TAIL]
        super()._give_back(r, n)
        end = self.last.value
        self.next[end] = TAIL
        self.prev[TAIL] = end
        self.is_linking.value = False
        self.last.value = none
        self._close_gap()

    def _join_head(self, b: Block) -> None:
        """One round of `prepend_n`: the block is linked behind the run. The gap is now behind the block."""
        super()._join_head(b)
        end = self.left.value
        self.prev[b] = end
        self.next[end] = b
        self.left.value = b
        with when(self.last.value == end):
            self.last.value = b
        self.moved.value = self.moved.value + 1

    def _join_tail(self, b: Block) -> None:
        """One round of `append_n`: the block is linked behind the last. The gap at the tail is now behind the block."""
        super()._join_tail(b)
        end = self.last.value
        self.prev[b] = end
        self.next[end] = b
        self.last.value = b
        with when(self.right.value == TAIL):
            self.right.value = b
        self.moved.value = self.moved.value + 1

    def _close_gap(self) -> None:
        """The nodes around the gap are linked to each other, and the counter is brought up to date."""
        left, right = self.left.value, self.right.value
        self.next[left] = right
        self.prev[right] = left
        self.left.value = none
        self.right.value = none
        self.counter.value = self.counter.value + self.moved.value
        self.moved.value = 0

    # -------------------------------------------------------------------------------- the links spell out the queue

    @initially("P3")
    def the_constructor_links_all_nodes(self, a: Node) -> Bool:
        """The first links lead from each node to the one behind it, and back."""
        return self.links_lead_to_the_next(a) & self.links_lead_back(a)

    @initially("P3")
    def the_constructor_links_all_blocks(self, b: Block, c: Block) -> Bool:
        """Nobody is left out, or stands beside a link."""
        return all_of(
            self.nobody_stands_before_the_first(b),
            self.nobody_stands_between(b, c),
            self.a_block_looks_linked_exactly_when_it_is_free(b),
        )

    @invariant("P3")
    def links_lead_to_the_next(self, a: Node) -> Bool:
        """The link forward leads to a node behind this one, from which the link backward leads here again."""
        ahead = self._next(a)
        is_right = all_of(ahead != none, self._stands(ahead), self._before(a, ahead), self._prev(ahead) == a)
        return implies(self._stands(a) & (a != TAIL), is_right)

    @invariant("P3")
    def links_lead_back(self, a: Node) -> Bool:
        """The link backward leads to a node before this one, from which the link forward leads here again."""
        back = self._prev(a)
        is_right = all_of(back != none, self._stands(back), self._before(back, a), self._next(back) == a)
        return implies(self._stands(a) & (a != HEAD), is_right)

    @invariant("P3")
    def nobody_stands_before_the_first(self, b: Block) -> Bool:
        """A block in the queue is the one that the sentinel links to, or stands behind that one."""
        first = self._next(HEAD)
        return implies(self.free.has(b), any_of(b == first, self.free.before(first, b)))

    @invariant("P3")
    def nobody_stands_between(self, a: Block, b: Block) -> Bool:
        """A block that stands behind another is the one that the other links to, or stands behind that one."""
        ahead = self._next(a)
        return implies(self.free.before(a, b) & (b != ahead), self.free.before(ahead, b))

    @invariant("P3")
    def a_block_looks_linked_exactly_when_it_is_free(self, b: Block) -> Bool:
        """The implementation tells from the backward link whether a block is in the list."""
        return iff(self.prev[b] != none, self.free.has(b))

    @invariant("P3")
    def the_counter_is_the_length(self) -> Bool:
        """The counter, with what the running call has still to add, is the number of blocks in the queue."""
        return self.counter.value + self.moved.value == self.free.size

    @invariant("P3")
    def the_gap_is_at_the_head(self) -> Bool:
        """To its left is the sentinel, or what this call put there; to its right a node that stands in the list."""
        left, right = self.left.value, self.right.value
        return all_of(
            iff(left != none, right != none),
            implies(left != none, any_of(left == HEAD, self.is_linking.value & self.free.has(left))),
            implies(right != none, any_of(right == TAIL, self.free.has(right))),
        )

    @invariant("P3, P10")
    def the_other_gap_is_at_the_tail(self) -> Bool:
        """What is put at the head stands before the mark of P; where there is no mark, both gaps are one."""
        left, right, last, mark = self.left.value, self.right.value, self.last.value, self.behind.value
        return implies(
            self.is_linking.value,
            all_of(
                left != none,
                any_of(last == HEAD, self.free.has(last)),
                right == ite(mark != none, mark, TAIL),
                iff(right == TAIL, left == last),
            ),
        )

    @corollary("P3, P7")
    def what_the_list_pops_is_the_head(self, b: Block) -> Bool:
        """The sentinel's link is the head of the queue; where it leads to the other sentinel, the queue is empty."""
        first = self._next(HEAD)
        return iff(first == b, self.free.is_first(b)) & iff(first == TAIL, self.free.is_empty())
