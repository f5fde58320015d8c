"""The actions of TimedTiers (machine G)."""

from __future__ import annotations

from ....machine import action, forall, implies, none, otherwise, when
from ...pool import Block, Hash, Position, Request
from ...timed.links import Transfer
from .facts import TimedTiersFacts

__all__ = ["TimedTiersActions"]


class TimedTiersActions(TimedTiersFacts, abstract=True):
    """What happens to blocks: used, idle, evicted, carried down and up."""

    # -------------------------------------------------------------------------------- the device's own steps

    @action("G1")
    def allocate(self) -> Block:
        """Take the head of the free queue. Refused when nothing is free, whatever is on its way."""
        self.require(~self.free.is_empty())
        b = self.free.head()
        self.free.remove(b)
        self.used[b] = True
        return b

    @action("G5")
    def register(self, b: Block, h: Hash) -> None:
        """A used block was computed: from now on it can be found."""
        self.require(self.used[b])
        self.require(self.holds[b] == none)
        self.require(self.found[h] == none)
        self.holds[b] = h
        self.found[h] = b

    @action("G1")
    def release(self, b: Block) -> None:
        """Nobody uses the block any more. What can be found is kept."""
        self.require(self.used[b])
        self.used[b] = False
        with when(self.holds[b] != none):
            self.idle.push_back(b)
        with otherwise():
            self.free.push_back(b)

    @action("G5")
    def touch(self, b: Block) -> None:
        """An idle block is hit."""
        self.require(self.idle.has(b))
        self.idle.remove(b)
        self.used[b] = True

    # -------------------------------------------------------------------------------- down

    @action("G1, G4, G7")
    def evict(self, b: Block) -> None:
        """The idle block that was not used for longest joins the open batch; it is not free before it is copied.

        Unless it need not be copied: the host has it, or gets it, or there is no host.
        """
        self.require(self.idle.is_first(b))
        self.require(self.gathered.size < self.batch.value)
        h = self.holds[b]
        is_spare = self.on_host[h] | self.is_on_its_way(h) | (self.capacity.value == 0)
        is_unread = self.host.has(h)
        self.idle.remove(b)
        self.found[h] = none
        with when(is_spare):
            self.holds[b] = none
            self.free.push_back(b)
        with otherwise():
            self.gathered.push_back(b)
        with when(is_unread):
            self.host.remove(h)
            self.host.push_back(h)

    @action("G1, G4")
    def ship(self, t: Transfer) -> None:
        """The open batch goes down, in one transfer."""
        self.require(t == self.issued.value)
        self.require(~self.gathered.is_empty())
        count = self.gathered.size
        self._begin(t, self.down.value, self.block_bytes.value * count)
        with self.loop(count, facts=lambda i, entry: self._while_shipping(entry, t, i)):
            b = self.gathered.head()
            self.gathered.remove(b)
            self._load(b, t)

    def _load(self, b: Block, t: Transfer) -> None:
        self.cargo[t].push_back(b)
        self.carrier[b] = t

    # -------------------------------------------------------------------------------- up

    @action("G5")
    def swap_in(self, r: Request, t: Transfer, p: Position, e: Position) -> None:
        """Bring up what the host has of a request's prefix, from the first device miss p to the first host miss e.

        Or as far as there are free blocks. One transfer brings all; the request waits for it.
        """
        self.require(t == self.issued.value)
        self.require(self.waits[r] == none)
        self.require(forall(Position, lambda i: implies(i < p, self._is_on_device(r, i))))
        self.require(~self._is_on_device(r, p))
        self.require(forall(Position, lambda i: implies((p <= i) & (i < e), self._is_on_host(r, i))))
        self.require(p < e)
        self.require(e - p <= self.free.size)
        self.require(~self._is_on_host(r, e) | (e - p == self.free.size))
        self._begin(t, self.up.value, self.block_bytes.value * (e - p))
        self.waits[r] = t
        self.serves[t] = r
        with self.loop(e - p, facts=lambda i, entry: self._while_swapping_in(entry, r, p, e, t, i)) as loop:
            h = self.prefix[r, p + loop.index]
            b = self.free.head()
            self.free.remove(b)
            self._load(b, t)
            with when(self.host.has(h)):
                self.host.remove(h)
            self.fetch[b] = h

    # -------------------------------------------------------------------------------- the end of a copy

    @action("G1, G3, G4, G5, G6")
    def complete(self, t: Transfer) -> None:
        """The transfer that is due, and of those the one with the least id, is completed."""
        self._require_first_due(t)
        with self.loop(self.cargo[t].size, facts=lambda i, entry: self._while_completing(entry, t, i)):
            b = self.cargo[t].head()
            comes_up = self.fetch[b] != none
            self.cargo[t].remove(b)
            self.carrier[b] = none
            with when(comes_up):
                self._arrive(b)
            with otherwise():
                self._land(b)
        with when(self.serves[t] != none):
            self.waits[self.serves[t]] = none
            self.promotions.add(1)
        self._complete(t)

    def _arrive(self, b: Block) -> None:
        """A block is up and used. If the device has the hash by now, that block stays what is found."""
        h = self.fetch[b]
        was_last = self.reads[h] == 1
        self.used[b] = True
        self.fetch[b] = none
        with when(self.found[h] == none):
            self.found[h] = b
            self.holds[b] = h
        with when(was_last):
            self.host.push_back(h)

    def _land(self, b: Block) -> None:
        """A block is down: now it is free. A full host makes room, unless all that it has is being read."""
        h = self.holds[b]
        is_full = self.on_host_now.value == self.capacity.value
        is_kept = ~(is_full & self.host.is_empty())
        self.holds[b] = none
        self.free.push_back(b)
        with when(is_full & is_kept):
            victim = self.host.head()
            self.host.remove(victim)
            self.on_host[victim] = False
            self.host_removed(victim)
        with when(is_kept):
            self.host.push_back(h)
            self.on_host[h] = True
            self.host_stored(h)

    def _hear_stored(self, h: Hash) -> None:
        """It is on the host from now on; it was not before."""
        with when(self.host_announced[h]):
            self.host_misled[h] = True
        self.host_announced[h] = True

    def _hear_removed(self, h: Hash) -> None:
        """It is on the host no longer; it was before."""
        with when(~self.host_announced[h]):
            self.host_misled[h] = True
        self.host_announced[h] = False
