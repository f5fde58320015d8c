"""Machine P with one thing wrong, one class for each: what `prove` must refute."""

from __future__ import annotations

from kvproof.machine import Int, exists, forall, implies, none, when
from kvproof.spec.pool import Block, Content, Hash, Pool, Position, Request, Slot


class DoubleFree(Pool):
    """A block goes back to the queue while somebody still holds it."""

    def _release(self, b: Block) -> None:
        self.ref_cnt[b] = self.ref_cnt[b] - 1
        with when(self.ref_cnt[b] <= 1):
            self.free.push_back(b)


class AllocateKeepsFree(Pool):
    """Blocks are handed out and stay in the queue."""

    def allocate(self, r: Request, n: Int) -> None:
        self.require(self.running[r])
        self.require(n >= 1)
        self.require(self.length[r] + n <= self.need[r])
        self.require(n <= self.free.size)
        with self.loop(n, facts=lambda i, entry: {"the table grows": self.length[r] == entry.length[r] + i}):
            b = self.free.head()
            self._forget(b)
            self._hold(r, b)


class HitKeepsFree(Pool):
    """A block that is found stays in the queue."""

    def hit(self, r: Request) -> Int:
        self.require(self.running[r])
        self.require(self.caching.value)
        self.require(self.length[r] == 0)
        h = self.prompt[r, self.length[r]]
        self.require(self.limit[r] > 0)
        self.require(~self.cached[h].is_empty())
        self._hold(r, self.cached[h].head())
        return self.length[r]


class EvictKeepsMap(Pool):
    """A block loses its hashes and can still be found under them."""

    def _forget(self, b: Block) -> None:
        with self.each(Hash) as h, when(self.hashes[b, h]):
            self.hashes[b, h] = False


class WriteShared(Pool):
    """A request writes into a block that others hold too."""

    def write(self, r: Request, i: Position, s: Slot, c: Content) -> None:
        self.require(i < self.length[r])
        b = self.table[r, i]
        self.require(b != self.null.value)
        self.require(forall(Hash, lambda h: implies(self.hashes[b, h], self.kv[h, s] == none)))
        self.content[b, s] = c
        self.expects[r, i, s] = c


class EarlyRemoval(Pool):
    """A removal is reported while another block still carries the hash (vLLM, fault B15)."""

    def _forget(self, b: Block) -> None:
        with self.each(Hash) as h, when(self.hashes[b, h]):
            self.hashes[b, h] = False
            self.cached[h].remove(b)
            self.removed(h)


class TailFirst(Pool):
    """What belongs to the tail goes to the head: the next allocation takes what was just given back."""

    def _join_tail(self, b: Block) -> None:
        self.free.push_front(b)


class HeadLast(Pool):
    """What nobody can find again goes to the tail, in the dialect that splits too."""

    def _join_head(self, b: Block) -> None:
        self.free.push_back(b)


class NeverPossible(Pool):
    """An action whose requirements contradict the invariants."""

    def evict(self, b: Block) -> None:
        self.require(exists(Hash, lambda h: self.hashes[b, h]))
        self.require(b == self.null.value)
        self._forget(b)
