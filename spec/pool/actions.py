"""The actions of Pool (machine P)."""

from __future__ import annotations

from ...machine import Index, Int, action, exists, forall, implies, none, otherwise, when
from .facts import PoolFacts
from .state import Block, Content, Hash, Position, Request, Slot

__all__ = ["PoolActions"]


class PoolActions(PoolFacts, abstract=True):
    """What a pool does: admit, look up, allocate, write, register, give back, evict, reset."""

    # -------------------------------------------------------------------------------- actions

    @action("P15, L1")
    def admit(self, r: Request) -> None:
        """A request enters if those inside can all finish in some order.

        As any of them can be preempted, one at a time is such an order, and it exists exactly when each fits the empty
        pool.
        """
        self.require(~self.running[r])
        self.require(self.need[r] <= self.usable.value)
        self.running[r] = True

    @action("P8, P14")
    def hit(self, r: Request) -> Int:
        """Look up the prompt and hold what is found, before anything is allocated for this request.

        The walk ends at the first hash that is not cached. Of several blocks with one hash, the first registered is
        taken.
        """
        self.require(self.running[r])
        self.require(self.caching.value)
        self.require(self.length[r] == 0)
        return self._look_up(r)

    @action("P7")
    def allocate(self, r: Request, n: Int) -> None:
        """Take the n blocks at the head of the free queue, in order; each loses its hashes. Not possible with fewer."""
        self.require(self.running[r])
        self.require(n >= 1)
        self.require(self.length[r] + n <= self.need[r])
        self.require(n <= self._room())
        self._take(r, n)

    @action("P4")
    def skip(self, r: Request) -> None:
        """A position that the window has left behind gets the null block."""
        self.require(self.running[r])
        self.require(self.null.value != none)
        self.require(self.length[r] < self.need[r])
        self.table[r, self.length[r]] = self.null.value
        self.length[r] = self.length[r] + 1

    @action("P6")
    def write(self, r: Request, i: Position, s: Slot, c: Content) -> None:
        """A step computes one token's KV, in a block that the request holds alone and where no hash covers the slot."""
        self.require(i < self.length[r])
        b = self.table[r, i]
        self.require(b != none)
        self.require(b != self.null.value)
        self.require(self.ref_cnt[b] == 1)
        self.require(self.filed[r, i] == none)
        self.require(forall(Hash, lambda h: implies(self.hashes[b, h], self.kv[h, s] == none)))
        self.content[b, s] = c
        self.expects[r, i, s] = c

    @action("P5, P12")
    def register(self, r: Request, i: Position, h: Hash) -> None:
        """A block whose content a hash names can from now on be found under it; other blocks with this hash stay."""
        self.require(self.caching.value)
        self.require(i < self.length[r])
        b = self.table[r, i]
        self.require(b != none)
        self.require(b != self.null.value)
        self.require(~self.hashes[b, h])
        self.require(forall(Slot, lambda s: implies(self.kv[h, s] != none, self.expects[r, i, s] == self.kv[h, s])))
        is_root = (i == 0) & (self.parent[h] == none)
        builds_on = exists(
            Position, lambda j: (j + 1 == i) & (self.parent[h] != none) & (self.parent[h] == self.filed[r, j])
        )
        self.require(is_root | builds_on)
        is_full = forall(Slot, lambda s: self.kv[h, s] != none)
        is_filed = self._is_filed(r, i)
        self._publish(b, h)
        with when(is_full & ~is_filed):
            self.filed[r, i] = h

    @action("P9, P10")
    def trim(self, r: Request, n: Int) -> None:
        """Give back the last n entries of a table: a rejected draft, a shortened request."""
        self.require(self.running[r])
        self.require(n >= 1)
        self.require(n <= self.length[r])
        self._give_back(r, n)

    @action("P9, P10")
    def finish(self, r: Request) -> None:
        """A complete request leaves."""
        self.require(self.running[r])
        self.require(self.length[r] == self.need[r])
        self._give_back(r, self.length[r])
        self.running[r] = False

    @action("P9, P10, L1")
    def preempt(self, r: Request) -> None:
        """A request gives up all its blocks and leaves, to be admitted again later."""
        self.require(self.running[r])
        self._give_back(r, self.length[r])
        self.running[r] = False

    @action("P11")
    def evict(self, b: Block) -> None:
        """Take a block's hashes away. It stays where it is: who holds it goes on holding it."""
        self.require(exists(Hash, lambda h: self.hashes[b, h]))
        self._forget(b)

    @action("P11, P12")
    def reset(self) -> None:
        """Forget every hash; only when nothing is referenced."""
        self.require(forall(Block, lambda b: self.ref_cnt[b] == 0))
        self._forget_everything()
        self.cleared()

    # -------------------------------------------------------------------------------- finding and forgetting

    def _publish(self, b: Block, h: Hash) -> None:
        """The block can be found under the hash, behind those that carry it already; the first one is news (P12)."""
        is_first = self.cached[h].is_empty()
        self.hashes[b, h] = True
        self.cached[h].push_back(b)
        with when(is_first):
            self.stored(h, self.parent[h])

    def _forget(self, b: Block) -> None:
        """The block loses its hashes; a removal is reported when the last copy goes (P12)."""
        with self.each(Hash) as h, when(self.hashes[b, h]):
            self.hashes[b, h] = False
            self.cached[h].remove(b)
            with when(self.cached[h].is_empty()):
                self.removed(h)

    def _forget_everything(self) -> None:
        """No hash names anything any more."""
        with self.each(Block, Hash) as (b, h), when(self.hashes[b, h]):
            self.hashes[b, h] = False
            self.cached[h].remove(b)

    # -------------------------------------------------------------------------------- what actions are made of

    def _look_up(self, r: Request) -> Int:
        """The walk of a lookup: each block that is found is held at once. Returns how many were found."""
        with self.loop(
            self.limit[r],
            going=lambda i: ~self.cached[self.prompt[r, i]].is_empty(),
            facts=lambda i, entry: self._while_looking_up(entry, r, i),
        ) as walk:
            self._find(r, walk.index, self.cached[self.prompt[r, walk.index]].head())
        return walk.rounds

    def _find(self, r: Request, i: Index, b: Block) -> None:
        """A block that a lookup has found leaves the queue, and stands in the table under the prompt's hash."""
        h = self.prompt[r, i]
        with when(self.ref_cnt[b] == 0):
            self._leave_queue(b)
        self._hold(r, b)
        self.filed[r, i] = h
        with self.each(Slot) as s:
            self.expects[r, i, s] = self.kv[h, s]

    def _take(self, r: Request, n: Int) -> None:
        """One allocation: block after block from the head of the queue into the table."""
        with self.loop(n, facts=lambda i, entry: self._while_taking(entry, r, i)):
            b = self._take_head()
            self._forget(b)
            self._hold(r, b)

    def _hold(self, r: Request, b: Block) -> None:
        """The request holds the block at the end of its table."""
        self.ref_cnt[b] = self.ref_cnt[b] + 1
        self.table[r, self.length[r]] = b
        self.length[r] = self.length[r] + 1

    def _take_head(self) -> Block:
        """Take the first block of the queue."""
        b = self.free.head()
        self.free.remove(b)
        return b

    def _leave_queue(self, b: Block) -> None:
        """Take a block out of the queue, wherever it stands."""
        self.free.remove(b)

    def _give_back(self, r: Request, n: Int) -> None:
        """One free call: the last n entries, last block first."""
        self._begin_free_call()
        with self.loop(n, facts=lambda i, entry: self._while_giving_back(entry, r, i)):
            last = self.length[r] - 1
            b = self.table[r, last]
            self.length[r] = last
            self.table[r, last] = none
            self.filed[r, last] = none
            with self.each(Slot) as s:
                self.expects[r, last, s] = none
            with when(b != self.null.value):
                self._release(b)
        self._end_free_call()

    def _begin_free_call(self) -> None:
        """Behind the run that this call puts at the head stands what is the head now."""
        with when(~self.free.is_empty()):
            self.behind.value = self.free.head()

    def _end_free_call(self) -> None:
        """All runs stand."""
        self.behind.value = none

    def _release(self, b: Block) -> None:
        """One holder less. Where the block goes is decided once, at the moment when nobody holds it any more (P9)."""
        left = self.ref_cnt[b] - 1
        self.ref_cnt[b] = left
        with when(left == 0):
            self._join(b)

    def _join(self, b: Block) -> None:
        """The block joins the queue, at the end that the dialect says (P10)."""
        to_the_head = self._belongs_to_the_head(b)
        with when(to_the_head):
            self._join_head(b)
        with otherwise():
            self._join_tail(b)

    def _join_head(self, b: Block) -> None:
        """The block joins the run that this call puts at the head, as its last."""
        mark = self.behind.value
        with when(mark != none):
            self.free.push_before(mark, b)
        with otherwise():
            self.free.push_back(b)

    def _join_tail(self, b: Block) -> None:
        """The block joins the tail; where nothing stood behind the run at the head, it is now what stands there."""
        self.free.push_back(b)
        with when(self.behind.value == none):
            self.behind.value = b

    # -------------------------------------------------------------------------------- what a listener makes of events

    def _hear_stored(self, h: Hash, parent: Hash) -> None:
        """It can be found from now on. Its parent, if it has one, is right, and was itself reported at some time."""
        was_reported = forall(Hash, lambda p: implies(parent == p, self.reported[p]))
        with when((parent != self.parent[h]) | ~was_reported):
            self.misled[h] = True
        self._hear_found(h)

    def _hear_found(self, h: Hash) -> None:
        """It can be found from now on; it was not before."""
        with when(self.announced[h]):
            self.misled[h] = True
        self.announced[h] = True
        self.reported[h] = True

    def _hear_removed(self, h: Hash) -> None:
        """It cannot be found any more; it was before."""
        with when(~self.announced[h]):
            self.misled[h] = True
        self.announced[h] = False

    def _hear_cleared(self) -> None:
        """Nothing can be found any more."""
        with self.each(Hash) as h:
            self.announced[h] = False
