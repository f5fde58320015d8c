"""The actions of Offload (machine O)."""

from __future__ import annotations

from ...machine import Bool, Int, action, exists, forall, implies, none, when
from ..pool import Block, Content, Hash, Position, Request, Slot
from .facts import OffloadFacts
from .state import HostBlock, Worker

__all__ = ["OffloadActions"]


class OffloadActions(OffloadFacts, abstract=True):
    """What happens between the tiers: offers, stores, lookups, loads, and their ends."""

    # -------------------------------------------------------------------------------- requests

    @action("P6")
    def process(self, b: Block) -> None:
        """The step that writes the block is done: its content is there."""
        self.require(self.computing[b])
        self.computing[b] = False

    def write(self, r: Request, i: Position, s: Slot, c: Content) -> None:
        """A scheduled step computes one token's KV."""
        super().write(r, i, s, c)
        self.computing[self.table[r, i]] = True

    def register(self, r: Request, i: Position, h: Hash) -> None:
        """As in P; a block that is being loaded has no content yet. What is found anew will be offered anew."""
        self.require(self.table[r, i] != none)
        self.require(self.origin[self.table[r, i]] == none)
        super().register(r, i, h)
        with when(i < self.offered[r]):
            self.offered[r] = i

    @action("P9, P10, O5, O9")
    def finish(self, r: Request) -> None:
        """A complete request leaves when its last step is processed and, in eager mode, all its blocks were offered."""
        self.require(self.running[r])
        self.require(self.length[r] == self.need[r])
        self.require(self._is_computed(r))
        self.require(self.lazy.value | (self.offered[r] == self.length[r]))
        self._leave(r)

    @action("P9, P10, L1, O5, O8")
    def preempt(self, r: Request) -> None:
        """A request gives up all its blocks and pins and leaves; the same when it is aborted, and never comes back.

        Its transfers run on: they hold what they need.
        """
        self.require(self.running[r])
        self._leave(r)

    def _leave(self, r: Request) -> None:
        """Everything that the request holds itself is let go, in one free call on each tier."""
        self._unpin(r)
        self._give_back(r, self.length[r])
        self.running[r] = False

    def _give_back(self, r: Request, n: Int) -> None:
        """As in P; what was offered of these entries is forgotten."""
        left = self.length[r] - n
        with when(self.offered[r] > left):
            self.offered[r] = left
        super()._give_back(r, n)

    @action("P11, P12, O10")
    def reset(self) -> None:
        """Forget every hash of both tiers; only when nothing is referenced on either."""
        self.require(forall(Block, lambda b: self.ref_cnt[b] == 0))
        self.require(forall(HostBlock, lambda c: self.host_ref_cnt[c] == 0))
        self._forget_everything()
        with self.each(HostBlock, Hash) as (c, h), when(self.host_hashes[c, h]):
            self.host_hashes[c, h] = False
            self.host_cached[h].remove(c)
        self.cleared()

    def _hear_cleared(self) -> None:
        """Nothing can be found any more, on either tier."""
        super()._hear_cleared()
        self.host._hear_cleared()

    # -------------------------------------------------------------------------------- stores

    @action("O3, O4, O9")
    def offer(self, r: Request) -> None:
        """Eager mode: the next block of a request is offered, once its content is computed.

        It is stored if it has a hash, if this is not on the host and not on the way there, and if the host has room.
        """
        self.require(~self.lazy.value)
        self.require(self.running[r])
        i = self.offered[r]
        self.require(i < self.length[r])
        b = self.table[r, i]
        self.require(~self.computing[b])
        self.offered[r] = i + 1
        h = self.filed[r, i]
        with when(h != none):
            self._offer(b, h)

    def _offer(self, b: Block, h: Hash) -> None:
        """One block, held by a request, under the hash that it was filed."""
        can_be_found = self.hashes[b, h]
        is_missing = can_be_found & ~self._is_stored(b, h)
        has_room = self.host_free.size > 0
        with when(is_missing & has_room):
            self._begin_store(b, h)
        with when(is_missing & ~has_room):
            self.refused.add(1)
        self.met[h] = True

    @action("O3, O4")
    def scan(self, b: Block, h: Hash) -> None:
        """Lazy mode: the walk through the free queue stores the first block that can be found and is not stored yet.

        Blocks of which nobody knows when they were freed are taken in the order in which they will be reused.
        """
        self.require(self.lazy.value)
        self.require(self.free.has(b))
        self.require(self._is_worth_storing(b, h))
        self.require(
            forall(
                Block,
                Hash,
                lambda a, g: implies(self.free.before(a, b) & self.free.has(a), ~self._is_worth_storing(a, g)),
            )
        )
        self.require(self.host_free.size > 0)
        self._leave_queue(b)
        self._begin_store(b, h)
        self.met[h] = True

    def _begin_store(self, b: Block, h: Hash) -> None:
        """The head of the host's queue loses its hashes; it and the device block are held until the store ends (O2)."""
        c = self.host._take_head()
        self.host._forget(c)
        self.host_ref_cnt[c] = self.host_ref_cnt[c] + 1
        self._lend(b)
        self.source[c] = b
        self.named[c] = h
        with self.each(Worker) as w:
            self.storing[c, w] = True

    @action("O2")
    def copy_out(self, c: HostBlock, s: Slot) -> None:
        """Some moment at which a store reads one slot. What it reads is what stands there now."""
        b = self.source[c]
        self.require(b != none)
        self.require(~self.stored_slot[c, s])
        self.require(self.storing[c, self.owner[s]])
        self.host_content[c, s] = self.content[b, s]
        self.stored_slot[c, s] = True

    @action("O2, O7, O8")
    def report_store(self, c: HostBlock, w: Worker, ok: Bool) -> None:
        """A worker reports its part of a store: copied, or failed. Either way it will not touch the blocks any more.

        With the last report, and not before, the store ends; it can be found if no part of it failed. That a report of
        what is not in flight, or was reported, changes nothing is said by machine `reports`.
        """
        self._require_store_report(c, w, ok)
        self._end_part_of_store(c, w, ok)

    def _end_part_of_store(self, c: HostBlock, w: Worker, ok: Bool) -> None:
        """A worker will not touch the blocks of a store any more."""
        is_last = forall(Worker, lambda v: (v == w) | ~self.storing[c, v])
        is_good = ok & ~self.store_failed[c]
        self.storing[c, w] = False
        self.store_failed[c] = ~is_good
        with when(is_last):
            with when(is_good):
                self._let_be_found(c)
            self._end_store(c)

    def _require_store_report(self, c: HostBlock, w: Worker, ok: Bool) -> None:
        """The worker has yet to report this store; if all went well it has copied all its slots."""
        self.require(self.storing[c, w])
        self.require(forall(Slot, lambda s: implies(ok & (self.owner[s] == w), self.stored_slot[c, s])))

    def _let_be_found(self, c: HostBlock) -> None:
        """The host block can be found under the hash that its content had (O2)."""
        h = self.named[c]
        is_first = self.host_cached[h].is_empty()
        self.host_hashes[c, h] = True
        self.host_cached[h].push_back(c)
        with when(is_first):
            self.host_stored(h)

    def _end_store(self, c: HostBlock) -> None:
        """Both references go, once each (O2)."""
        b = self.source[c]
        self.source[c] = none
        self.named[c] = none
        with self.each(Slot) as s:
            self.stored_slot[c, s] = False
        self.store_failed[c] = False
        self._take_host_back(c)
        self._take_back(b)

    def _lend(self, b: Block) -> None:
        """A transfer holds a device block."""
        self.ref_cnt[b] = self.ref_cnt[b] + 1
        self.transfers[b] = self.transfers[b] + 1

    def _take_back(self, b: Block) -> None:
        """A transfer holds a device block no longer: a free call of its own."""
        self.transfers[b] = self.transfers[b] - 1
        self._begin_free_call()
        self._release(b)
        self._end_free_call()

    def _take_host_back(self, c: HostBlock) -> None:
        """A transfer holds a host block no longer."""
        host = self.host
        host._begin_free_call()
        host._release(c)
        host._end_free_call()

    # -------------------------------------------------------------------------------- loads

    @action("O5, O6")
    def look(self, r: Request) -> Int:
        """Look on the host for what comes after the request's table, and pin what is found.

        Pins of an earlier lookup go. The walk ends at the first hash that is not there.
        """
        self.require(self.running[r])
        self.require(self.caching.value)
        self._unpin(r)
        start = self.length[r]
        with self.loop(
            self._asked(r) - start,
            going=lambda i: ~self.host_cached[self.prompt[r, start + i]].is_empty(),
            facts=lambda i, entry: self._while_looking(entry, r, start, i),
        ) as walk:
            at = start + walk.index
            self._pin(r, at, self.host_cached[self.prompt[r, at]].head())
        return walk.rounds

    def _pin(self, r: Request, i: Int, c: HostBlock) -> None:
        """The lookup holds the host block, which cannot be taken for a store now."""
        with when(self.host_ref_cnt[c] == 0):
            self.host._leave_queue(c)
        self.host_ref_cnt[c] = self.host_ref_cnt[c] + 1
        self.pins[r, i] = c

    @action("O5")
    def unpin(self, r: Request) -> None:
        """Another connector was chosen, or the request cannot be scheduled now: it holds nothing on the host."""
        self.require(exists(Position, lambda k: self.pins[r, k] != none))
        self._unpin(r)

    def _unpin(self, r: Request) -> None:
        """One free call for all pins of a request, last position first."""
        self.host._begin_free_call()
        with self.loop(self.limit[r], facts=lambda i, entry: self._while_unpinning(entry, r, i)) as walk:
            last = self.limit[r] - 1 - walk.index
            c = self.pins[r, last]
            with when(c != none):
                self.pins[r, last] = none
                self.host._release(c)
        self.host._end_free_call()

    @action("O5, O2, P7")
    def load(self, r: Request, n: Int) -> None:
        """The first n pinned blocks will come to n fresh device blocks, which the request's table holds at once.

        Each pin becomes the load's hold. Pins beyond these go.
        """
        self.require(self.running[r])
        self.require(n >= 1)
        self.require(n <= self._room())
        start = self.length[r]
        self.require(start + n <= self.need[r])
        self.require(forall(Position, lambda k: implies((k >= start) & (k < start + n), self.pins[r, k] != none)))
        self._take(r, n)
        with self.loop(n, facts=lambda i, entry: self._while_loading(entry, r, start, i)) as walk:
            at = start + walk.index
            b = self.table[r, at]
            self.origin[b] = self.pins[r, at]
            self.wanted[b] = self.prompt[r, at]
            self.pins[r, at] = none
            self._lend(b)
            with self.each(Worker) as w:
                self.loading[b, w] = True
        self._unpin(r)

    @action("O2")
    def copy_in(self, b: Block, s: Slot) -> None:
        """Some moment at which a load writes one slot. A step that still writes the block comes first."""
        c = self.origin[b]
        self.require(c != none)
        self.require(~self.loaded_slot[b, s])
        self.require(self.loading[b, self.owner[s]])
        self.require(~self.computing[b])
        self.content[b, s] = self.host_content[c, s]
        self.loaded_slot[b, s] = True

    @action("O2, O7")
    def report_load(self, b: Block, w: Worker, ok: Bool) -> None:
        """A worker reports its part of a load. With the last part the content is there, for who still holds it.

        The last report of a load of which some part failed is one of the two actions that follow.
        """
        self._require_load_report(b, w, ok)
        self.require(implies(self._is_last_of_load(b, w), ok & ~self.load_failed[b]))
        self._end_part_of_load(b, w, ok)

    def _is_last_of_load(self, b: Block, w: Worker) -> Bool:
        """All other workers have reported."""
        return forall(Worker, lambda v: (v == w) | ~self.loading[b, v])

    def _end_part_of_load(self, b: Block, w: Worker, ok: Bool) -> None:
        """A worker will not touch the blocks of a load any more; no part of one that ends has failed."""
        is_last = self._is_last_of_load(b, w)
        is_good = ok & ~self.load_failed[b]
        self.loading[b, w] = False
        self.load_failed[b] = ~is_good
        with when(is_last):
            h = self.wanted[b]
            with self.each(Request, Position, Slot) as (r, i, s), when(self.table[r, i] == b):
                self.expects[r, i, s] = self.kv[h, s]
            self._end_load(b)

    @action("O11, O8")
    def fail_load(self, r: Request, i: Position, w: Worker, ok: Bool) -> None:
        """The last report of a load that failed: from there on the table is what it was, and the request computes."""
        b = self.table[r, i]
        self.require(b != none)
        self._require_last_load_report(b, w, ok)
        self.loading[b, w] = False
        self._end_load(b)
        self._give_back(r, self.length[r] - i)

    @action("O8, O11")
    def fail_abandoned_load(self, b: Block, w: Worker, ok: Bool) -> None:
        """The last report of a load that failed, and whose request is gone."""
        self._require_last_load_report(b, w, ok)
        self.require(forall(Request, Position, lambda r, i: self.table[r, i] != b))
        self.loading[b, w] = False
        self._end_load(b)

    def _require_load_report(self, b: Block, w: Worker, ok: Bool) -> None:
        """The worker has yet to report this load; if all went well it has copied all its slots.

        A load waits for a step that still writes its block: nobody begins it before, so nobody can report it.
        """
        self.require(self.loading[b, w])
        self.require(~self.computing[b])
        self.require(forall(Slot, lambda s: implies(ok & (self.owner[s] == w), self.loaded_slot[b, s])))

    def _require_last_load_report(self, b: Block, w: Worker, ok: Bool) -> None:
        """It is the last of them, and some part failed."""
        self._require_load_report(b, w, ok)
        self.require(self._is_last_of_load(b, w))
        self.require(~ok | self.load_failed[b])

    def _end_load(self, b: Block) -> None:
        """Both references go, once each (O2)."""
        c = self.origin[b]
        self.origin[b] = none
        self.wanted[b] = none
        with self.each(Slot) as s:
            self.loaded_slot[b, s] = False
        self.load_failed[b] = False
        self._take_host_back(c)
        self._take_back(b)
