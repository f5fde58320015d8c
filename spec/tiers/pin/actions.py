"""The actions of Pinned (machine D)."""

from __future__ import annotations

from ....machine import Int, action, exists, forall, implies, none, otherwise, when
from ...pool import Block, Hash, Position, Request, Slot
from .facts import PinnedFacts

__all__ = ["PinnedActions"]


class PinnedActions(PinnedFacts, abstract=True):
    """What happens to marked blocks: windows move on, blocks are pinned, demoted and taken."""

    # -------------------------------------------------------------------------------- both queues together

    def _take_head(self) -> Block:
        """Take the first free block; where there is none, the oldest pinned one is demoted first (D2, D5)."""
        with when(self.free.is_empty()):
            self._demote_one()
        return super()._take_head()

    def _demote_one(self) -> None:
        """The oldest pinned block loses its mark and joins the tail of the free queue. Its hashes stay."""
        oldest = self.pinned.head()
        self.pinned.remove(oldest)
        self.marked[oldest] = False
        self.free.push_back(oldest)

    def _leave_queue(self, b: Block) -> None:
        """Take a block out of the queue in which it stands. Its mark stays."""
        is_pinned = self.pinned.has(b)
        with when(is_pinned):
            self.pinned.remove(b)
        with otherwise():
            super()._leave_queue(b)

    def _join(self, b: Block) -> None:
        """Nobody holds the block any more: a marked one is pinned, another is free (D3)."""
        is_marked = self.marked[b]
        with when(is_marked):
            self.pinned.push_back(b)
        with otherwise():
            super()._join(b)

    # -------------------------------------------------------------------------------- actions

    @action("D2")
    def demote(self, n: Int) -> None:
        """Move the n oldest pinned blocks, or all of them, to the tail of the free queue, in order."""
        self.require(n >= 1)
        self._demote(n)

    @action("D5")
    def open_gate(self, n: Int) -> None:
        """An admission gate: a whole demand of n blocks is met, and exactly what is missing is demoted.

        Gates differ in the demand that they compute: that of the full sequence, of the capped budget of a step, or the
        actual one, which `allocate` computes itself. Where free and pinned blocks do not cover it, the gate stays shut,
        and nothing is demoted.
        """
        self.require(n >= 1)
        self.require(n <= self._room())
        self._demote(n - self.free.size)

    @action("D4, D7, P10")
    def drop(self, r: Request, m: Int) -> None:
        """The window has moved past the first m positions: what they hold is released, last first, in one free call.

        The newest window of a large drop is marked first, as far as it can be found again. Nothing that a scheduled
        step still reads is dropped.
        """
        self.require(self.running[r])
        self.require(self.null.value != none)
        self.require(m >= 1)
        self.require(m <= self.length[r])
        self.require(forall(Position, lambda k: implies(self.reads[r, k], m <= k)))
        self._drop(r, m, self._passed(r, m))

    @action("D7")
    def schedule(self, r: Request, i: Position) -> None:
        """A step is scheduled whose window begins at a position: it will read the table from there on."""
        self.require(self.running[r])
        self.require(i < self.length[r])
        self.require(~self.reads[r, i])
        self.require(
            forall(
                Position,
                lambda k: implies((k >= i) & (k < self.length[r]), self.table[r, k] != self.null.value),
            )
        )
        self.reads[r, i] = True

    @action("D7")
    def process(self, r: Request, i: Position) -> None:
        """The step's result is there: it reads no more."""
        self.require(self.reads[r, i])
        self.reads[r, i] = False

    def skip(self, r: Request) -> None:
        """A position that the window has left behind gets the null block, before any step reads the table."""
        self.require(self._is_at_rest(r))
        super().skip(r)

    @action("P11, D3")
    def evict(self, b: Block) -> None:
        """Take a block's hashes away, and its mark. One that was pinned is now the first to be taken."""
        super().evict(b)
        self.marked[b] = False
        was_pinned = self.pinned.has(b)
        with when(was_pinned):
            self.pinned.remove(b)
            self.free.push_front(b)

    def _forget_everything(self) -> None:
        """Pinned blocks join the head of the free queue, the oldest first of all; then all hashes go (D3, D5)."""
        with self.loop(self.pinned.size, facts=lambda i, entry: self._while_resetting(entry, i)):
            youngest = self.pinned.tail()
            self.pinned.remove(youngest)
            self.marked[youngest] = False
            self.free.push_front(youngest)
        super()._forget_everything()

    # -------------------------------------------------------------------------------- what actions are made of

    def _demote(self, n: Int) -> None:
        """Demote n blocks, or as many as are pinned."""
        with self.loop(n, going=lambda _: ~self.pinned.is_empty(), facts=lambda i, entry: self._demoted(entry, i)):
            self._demote_one()

    def _passed(self, r: Request, m: Int) -> Int:
        """How many positions below m hold a block, down to the first that the window left behind before."""
        with self.loop(
            m,
            going=lambda i: self.table[r, m - 1 - i] != self.null.value,
            facts=lambda i, _: self._while_looking_back(r, m, i),
        ) as scan:
            pass
        return scan.rounds

    def _drop(self, r: Request, m: Int, n: Int) -> None:
        """Release the n positions below m, last first, and mark what is worth keeping."""
        is_large = self.pinning.value & (n >= self.min_drop.value)
        with when(is_large):
            self.quota.value = self.window.value
        self._begin_free_call()
        with self.loop(n, facts=lambda i, entry: self._dropping(entry, r, m, i)) as walk:
            at = m - 1 - walk.index
            b = self.table[r, at]
            self.table[r, at] = self.null.value
            with self.each(Slot) as s:
                self.expects[r, at, s] = none
            is_picked = (self.quota.value > 0) & exists(Hash, lambda h: self.hashes[b, h])
            with when(is_picked):
                self.marked[b] = True
                self.quota.value = self.quota.value - 1
                self.picked.add(1)
            self._release(b)
        self.quota.value = 0
        self._end_free_call()
