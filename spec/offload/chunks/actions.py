"""The actions of Chunks."""

from __future__ import annotations

from ....machine import Bool, Int, action, forall, ite, when
from ...pool import Hash
from .facts import ChunksFacts
from .state import Load, Offer

__all__ = ["ChunksActions"]


class ChunksActions(ChunksFacts, abstract=True):
    """What is offered, read and forgotten."""

    @action("O12, O3")
    def offer(self, o: Offer) -> Bool:
        """Everything that is missing of a list is stored, and true; or there is too little that may go, and false."""
        fits = self._fits(o)
        n = ite(fits, self.count[o], 0)
        gone = ite(fits, self._wanted(o), 0)
        self._touch(o, n)
        self._make_room(o, gone)
        self._begin_stores(o, n)
        return fits

    def _fits(self, o: Offer) -> Bool:
        """Enough is free, or may go."""
        return self._wanted(o) <= self.evictable[o]

    def _touch(self, o: Offer, n: Int) -> None:
        """What is named and there goes last."""
        with self.loop(n, facts=lambda i, entry: self._while_touching(entry, o, i)) as walk:
            h = self.key[o, walk.index]
            with when(self.idle.has(h)):
                self.idle.remove(h)
                self.idle.push_back(h)

    def _make_room(self, o: Offer, n: Int) -> None:
        """So many entries go, least recently used first; none where the number is below zero."""
        with self.loop(n, facts=lambda i, entry: self._while_making_room(entry, o, i)):
            h = self.idle.head()
            self.idle.remove(h)
            self.ready[h] = False
            self.removed(h)

    def _begin_stores(self, o: Offer, n: Int) -> None:
        """What is named and neither there nor on its way gets a chunk."""
        with self.loop(n, facts=lambda i, entry: self._while_storing(entry, o, i)) as walk:
            h = self.key[o, walk.index]
            with when(~self.ready[h] & ~self.storing[h]):
                self.storing[h] = True

    @action("O2, P12")
    def end_store(self, h: Hash, ok: Bool) -> None:
        """A store has ended: well, and the key can be found; or badly, and its chunk is free."""
        self.require(self.storing[h])
        self.storing[h] = False
        with when(ok):
            self.ready[h] = True
            self.idle.push_back(h)
            self.stored(h)

    @action("P2, O5")
    def begin_load(self, x: Load, h: Hash) -> None:
        """Somebody reads an entry; it cannot go meanwhile."""
        self.require(self.ready[h])
        self.require(~self.reads[x, h])
        self.reads[x, h] = True
        with when(self.readers[h] == 0):
            self.idle.remove(h)
        self.readers[h] = self.readers[h] + 1

    @action("P2, P9")
    def end_load(self, x: Load, h: Hash) -> None:
        """One reader less; what nobody reads any more was just used."""
        self.require(self.reads[x, h])
        self.reads[x, h] = False
        left = self.readers[h] - 1
        self.readers[h] = left
        with when(left == 0):
            self.idle.push_back(h)

    @action("P11, O10")
    def reset(self) -> None:
        """Everything is forgotten; only when nothing is in flight."""
        self.require(forall(Hash, lambda h: ~self.storing[h] & (self.readers[h] == 0)))
        with self.each(Hash) as h, when(self.ready[h]):
            self.ready[h] = False
            self.idle.remove(h)
            self.removed(h)

    def _hear(self, h: Hash, *, is_there: bool) -> None:
        """What a listener makes of an event."""
        knows = self.announced[h] if is_there else ~self.announced[h]
        with when(knows):
            self.misled[h] = True
        self.announced[h] = is_there
