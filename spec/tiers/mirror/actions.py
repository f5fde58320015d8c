"""The actions of Mirror (machine M)."""

from __future__ import annotations

from ....machine import Int, action, none, otherwise, when
from ...pool import Block, Hash, Request, Slot
from .facts import MirrorFacts

__all__ = ["MirrorActions"]


class MirrorActions(MirrorFacts, abstract=True):
    """What a mirror does: it keeps what a step has left, and brings back what a lookup asks for."""

    # -------------------------------------------------------------------------------- actions

    @action("M2, M3")
    def mirror(self, r: Request) -> None:
        """After a step, for each request of its batch: every full block that can be found stands on the host.

        One already there is touched. Partly filled blocks and blocks without a hash are skipped.
        """
        self.require(self.running[r])
        with self.loop(self.length[r], facts=lambda i, entry: self._mirrored_so_far(entry, r, i)) as walk:
            h = self.filed[r, walk.index]
            b = self.table[r, walk.index]
            with when(self._is_worth_keeping(r, walk.index)):
                self._keep(h, b)

    # -------------------------------------------------------------------------------- what the host does

    def _keep(self, h: Hash, b: Block) -> None:
        """The host keeps the block as its most recently used one; the least recently used one makes room."""
        is_there = self.host.has(h)
        is_full = self.host.size >= self.capacity.value
        with when(is_there):
            self.host.remove(h)
        with otherwise():
            with when(is_full):
                self.host.remove(self.host.head())
                self.dropped.add(1)
            with self.each(Slot) as s:
                self.kept[h, s] = self.content[b, s]
            self.mirrored.add(1)
        self.host.push_back(h)

    # -------------------------------------------------------------------------------- the lookup on both tiers

    def _look_up(self, r: Request) -> Int:
        """Hold what the device has, fill the gaps from the host, let go of what cannot be reached."""
        reach = self._claim(r)
        found = self._fill(r, reach)
        self._let_go(r, reach)
        return found

    def _claim(self, r: Request) -> Int:
        """Hold each block of the prefix that is on the device, up to the first hash on neither tier (M4, M6)."""
        with self.loop(
            self.limit[r],
            going=lambda i: ~self.cached[self.prompt[r, i]].is_empty() | self.host.has(self.prompt[r, i]),
            facts=lambda i, entry: self._while_claiming(entry, r, i),
        ) as walk:
            h = self.prompt[r, walk.index]
            with when(~self.cached[h].is_empty()):
                b = self.cached[h].head()
                with when(self.ref_cnt[b] == 0):
                    self._leave_queue(b)
                self.ref_cnt[b] = self.ref_cnt[b] + 1
                self.claimed[walk.index] = b
        return walk.rounds

    def _fill(self, r: Request, reach: Int) -> Int:
        """Bring the prefix into the table in order: claims as they are, the rest by reloads, while there is room.

        The room is what is left when all claims are held; a reloaded block is the request's at once (M6).
        """
        with self.loop(
            reach,
            going=lambda i: (self.claimed[i] != none) | (self._room() > 0),
            facts=lambda i, entry: self._while_filling(entry, r, reach, i),
        ) as walk:
            h = self.prompt[r, walk.index]
            b = self.claimed[walk.index]
            is_claimed = b != none
            with when(is_claimed):
                self.claimed[walk.index] = none
                self._enter(r, b)
            with otherwise():
                self._reload(r, h)
            self.filed[r, walk.index] = h
            with self.each(Slot) as s:
                self.expects[r, walk.index, s] = self.kv[h, s]
        return walk.rounds

    def _enter(self, r: Request, b: Block) -> None:
        """The claim on a block becomes an entry of the table: one reference, as before."""
        self.table[r, self.length[r]] = b
        self.length[r] = self.length[r] + 1

    def _reload(self, r: Request, h: Hash) -> None:
        """The head of the queue loses its hashes, gets the host's content and its hash, and is the request's (M5)."""
        b = self._take_head()
        self._forget(b)
        self._hold(r, b)
        self._come_back(b, h)

    def _come_back(self, b: Block, h: Hash) -> None:
        """The block gets what the host keeps for the hash, and can be found; the host block is the most recent one."""
        with self.each(Slot) as s:
            self.content[b, s] = self.kept[h, s]
        self._publish(b, h)
        self.host.remove(h)
        self.host.push_back(h)
        self.reloaded.add(1)
        self.latency.add(self.cost.value)

    def _let_go(self, r: Request, reach: Int) -> None:
        """One free call for the claims that the walk did not reach, last position first."""
        self._begin_free_call()
        with self.loop(reach, facts=lambda i, entry: self._while_letting_go(entry, r, reach, i)) as walk:
            last = reach - 1 - walk.index
            b = self.claimed[last]
            with when(b != none):
                self.claimed[last] = none
                self._release(b)
        self._end_free_call()
