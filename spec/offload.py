"""Machine O: asynchronous offload. Blocks are copied to a host pool and back while requests come and go.

Behind the device's pool stands another one in host memory, a block pool of its own (O1): what machine P does with free
blocks, counts and hashes it does there too, by the same text. Two kinds of copies run between them. A *store* copies a
full device block to a host block, which can be found there once the copy is complete. A *load* brings host blocks that
a lookup found into fresh device blocks of a request, which waits for them.

Copies take time, and nobody waits for them: while one runs its request may finish, be preempted or aborted, and come
back. Nobody knows when a copy reads. It may read each slot at a moment of its own, anywhere between the beginning of
the transfer and its completion; whichever moments these are, what can be found on either tier must be what its hash
names. So a transfer is a holder like any other: it holds the block that it reads and the block that it writes from the
beginning to the end (O2), and no block is handed out, overwritten or forgotten under it (O8).

Several workers, each with its own part of every block, copy at their own pace. A transfer is complete when each of them
has reported its part, in any order, and this happens once (O7). It has failed if any part failed; but others may copy
until the last one has reported, so a failed transfer holds its blocks as long as a good one (O8).

The rules O1 to O12 stand here but for two: that a lookup asks for no more than a request may get (O6) is P14, by the
same `limit`; and a call that offers many blocks (O12) is here that many offers of one block each.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ..machine import (
    Bool,
    Count,
    Event,
    Int,
    Map,
    Param,
    Part,
    Queue,
    Scalar,
    Sort,
    Tally,
    action,
    all_of,
    any_of,
    can,
    corollary,
    exists,
    forall,
    iff,
    implies,
    invariant,
    ite,
    none,
    optional,
    sometimes,
    step,
    when,
)
from .pool import Block, Content, Hash, Pool, Position, Request, Slot

__all__ = ["HostBlock", "Offload", "Worker"]


class HostBlock(Sort):
    """One unit of host KV memory, as large as a device block."""


class Worker(Sort):
    """A process that owns a part of every block, and copies it."""


class Offload(Pool):
    """The block pool with asynchronous copies to and from a host pool."""

    # -------------------------------------------------------------------------------- parameters

    lazy = Param(to=Bool)
    """False: eager mode, every computed block of a request is offered once. True: free blocks are, before they are
    taken for something else; so what requests hold all the time is never stored (O4)."""

    owner = Param(Slot, to=Worker)
    """The worker that copies a slot: here a worker's part of a block is some of its slots."""

    driver = Param(to=Worker)
    """One of the workers: there is at least one."""

    # -------------------------------------------------------------------------------- the host pool (O1)

    host_free = Queue(HostBlock, init=True)
    """The host blocks that nobody holds, the one to be taken next first."""

    host_ref_cnt = Map(HostBlock, to=Int)
    """How many transfers and lookups hold the host block."""

    host_hashes = Map(HostBlock, Hash, to=Bool)
    """The hashes under which a host block can be found."""

    host_cached = Queue(HostBlock, by=Hash)
    """For each hash the host blocks that carry it, first stored first."""

    host_content = Map(HostBlock, Slot, to=optional(Content))
    """Ghost: what really stands in each slot of a host block. Only copies change it."""

    host_announced = Map(Hash, to=Bool)
    """Ghost: the hashes that a listener believes to be on the host (P12)."""

    host_behind = Scalar(to=optional(HostBlock), scratch=True)
    """While host blocks are given back: as `behind`."""

    host_stored = Event(Hash, heard=lambda m, h: m.host._hear_found(h))
    """A hash can now be found on the host."""

    host_removed = Event(Hash, heard=lambda m, h: m.host._hear_removed(h))
    """A hash can no longer be found on the host."""

    host = Part(Pool, null=none)
    """All of these: a pool by P's own text. Dialect and hashes are the device's; there is no null block."""

    # -------------------------------------------------------------------------------- transfers

    source = Map(HostBlock, to=optional(Block))
    """The device block that a store in flight copies to this host block."""

    named = Map(HostBlock, to=optional(Hash))
    """The hash that the store's content had when it was planned."""

    stored_slot = Map(HostBlock, Slot, to=Bool)
    """Ghost: the store in flight has copied this slot."""

    storing = Map(HostBlock, Worker, to=Bool)
    """The worker has yet to report its part of a store to this host block: until then it may read and write."""

    store_failed = Map(HostBlock, to=Bool)
    """One of them could not copy its part."""

    origin = Map(Block, to=optional(HostBlock))
    """The host block that a load in flight copies to this device block."""

    wanted = Map(Block, to=optional(Hash))
    """The hash for which the load was planned."""

    loaded_slot = Map(Block, Slot, to=Bool)
    """Ghost: the load in flight has copied this slot."""

    loading = Map(Block, Worker, to=Bool)
    """The worker has yet to report its part of a load to this block: until then it may read and write."""

    load_failed = Map(Block, to=Bool)
    """One of them could not copy its part."""

    pins = Map(Request, Position, to=optional(HostBlock))
    """What a lookup found on the host for this position of a request, held until the load is planned (O5)."""

    computing = Map(Block, to=Bool)
    """A scheduled step writes the block and is not processed yet: no copy may touch it."""

    offered = Map(Request, to=Int)
    """Eager mode: how many positions of the request were offered."""

    met = Map(Hash, to=Bool)
    """Ghost: the hashes that the host had, has or was offered when it had no room (O9)."""

    refused = Tally()
    """Offers that met a host without a block to take (O9)."""

    # -------------------------------------------------------------------------------- counts

    host_usable = Count(HostBlock, where=lambda _, c: c != none)
    """All host blocks."""

    host_referenced = Count(HostBlock, where=lambda m, c: m.host_ref_cnt[c] > 0)
    """Host blocks that somebody holds."""

    stores_from = Count(HostBlock, by=Block, where=lambda m, c, b: m.source[c] == b)
    """The stores that read a block."""

    stores = Count(HostBlock, where=lambda m, c: m.source[c] != none)
    """All stores in flight."""

    loads_from = Count(Block, by=HostBlock, where=lambda m, b, c: m.origin[b] == c)
    """The loads that read a host block."""

    loads = Count(Block, where=lambda m, b: m.origin[b] != none)
    """All loads in flight."""

    pins_on = Count((Request, Position), by=HostBlock, where=lambda m, r, i, c: m.pins[r, i] == c)
    """The lookups that hold a host block."""

    all_pins = Count((Request, Position), where=lambda m, r, i: m.pins[r, i] != none)
    """Everything that lookups hold on the host."""

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

    def _is_computed(self, r: Request) -> Bool:
        """No scheduled step writes a block of the request any more."""
        return forall(
            Position,
            Block,
            lambda i, b: implies(self.table[r, i] == b, ~self.computing[b]),
        )

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

    def _is_worth_storing(self, b: Block, h: Hash) -> Bool:
        """A full block that can be found and has not been stored."""
        is_full = forall(Slot, lambda s: self.kv[h, s] != none)
        return self.hashes[b, h] & is_full & ~self.computing[b] & ~self._is_stored(b, h)

    def _is_stored(self, b: Block, h: Hash) -> Bool:
        """The hash is on the host, or this block is on its way there (O3)."""
        on_its_way = exists(HostBlock, lambda c: (self.source[c] == b) & (self.named[c] == h))
        return ~self.host_cached[h].is_empty() | on_its_way

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

        With the last report, and not before, the store ends; it can be found if no part of it failed. A report of what
        is not in flight, or was reported, changes nothing: there is no such action.
        """
        self._require_store_report(c, w, ok)
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
            facts=lambda i, entry: {
                "what was found is pinned, and nothing else": forall(
                    Position, lambda k: iff(self.pins[r, k] != none, (k >= start) & (k < start + i))
                ),
                "who is left stands in the same order": forall(
                    HostBlock,
                    HostBlock,
                    lambda c, d: implies(
                        self.host_free.has(c) & self.host_free.has(d),
                        entry.host_free.has(c) & iff(self.host_free.before(c, d), entry.host_free.before(c, d)),
                    ),
                ),
                "of each hash the first stored": forall(
                    Position,
                    HostBlock,
                    lambda k, c: implies(
                        (k >= start) & (self.pins[r, k] == c), self.host_cached[self.prompt[r, k]].is_first(c)
                    ),
                ),
            },
        ) as walk:
            at = start + walk.index
            self._pin(r, at, self.host_cached[self.prompt[r, at]].head())
        return walk.rounds

    def _asked(self, r: Request) -> Int:
        """Where a lookup ends at the latest: before the last token, whatever there is behind it (O6, P14)."""
        return self.limit[r]

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
        with self.loop(
            self.limit[r],
            facts=lambda i, entry: {
                "from the last on": forall(
                    Position,
                    lambda k: all_of(
                        implies(k >= self.limit[r] - i, self.pins[r, k] == none),
                        implies(k < self.limit[r] - i, self.pins[r, k] == entry.pins[r, k]),
                    ),
                ),
                "the mark stands in the queue": implies(
                    self.host_behind.value != none, self.host_free.has(self.host_behind.value)
                ),
                "who was free stays free, in the same order": forall(
                    HostBlock, HostBlock, self.host._kept_in_order(entry.host)
                ),
                "the mark stands right behind the run at the head": forall(
                    HostBlock,
                    lambda c: implies(
                        self.split.value & self.host_free.has(c),
                        iff(
                            self.host._is_new(entry.host, c) & self.host._belongs_to_the_head(c),
                            (self.host_behind.value == none) | self.host_free.before(c, self.host_behind.value),
                        ),
                    ),
                ),
                "what is free anew stands where the dialect says": forall(
                    HostBlock, HostBlock, lambda c, d: self._joins_the_host_queue(entry, c, d)
                ),
                "each run in the order given": forall(
                    Position, Position, HostBlock, HostBlock, self._unpinned_in_order(entry, r)
                ),
            },
        ) as walk:
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
        with self.loop(
            n,
            facts=lambda i, entry: {
                "pins become loads in order": forall(
                    Position,
                    lambda k: all_of(
                        implies((k >= start) & (k < start + i), self.pins[r, k] == none),
                        implies((k < start) | (k >= start + i), self.pins[r, k] == entry.pins[r, k]),
                    ),
                ),
                "what was pinned is on its way": forall(
                    Position,
                    Block,
                    lambda k, b: implies(
                        (k >= start) & (k < start + i) & (self.table[r, k] == b), self._is_on_its_way(entry, r, k, b)
                    ),
                ),
                "other loads go on": forall(
                    Block,
                    lambda b: implies(
                        forall(Position, lambda k: implies((k >= start) & (k < start + i), self.table[r, k] != b)),
                        self._load_is_as_it_was(entry, b),
                    ),
                ),
                "what is still to come is fresh": forall(
                    Position,
                    Block,
                    lambda k, b: implies(
                        (k >= start + i) & (self.table[r, k] == b),
                        (self.transfers[b] == 0) & forall(Hash, lambda h: ~self.hashes[b, h]),
                    ),
                ),
                "nobody relies on it yet": forall(
                    Position,
                    Request,
                    Position,
                    Slot,
                    lambda k, q, j, s: implies(
                        all_of(k >= start + i, self.table[r, k] != none, self.table[q, j] == self.table[r, k]),
                        (self.expects[q, j, s] == none) & (self.filed[q, j] == none),
                    ),
                ),
            },
        ) as walk:
            at = start + walk.index
            b = self.table[r, at]
            self.origin[b] = self.pins[r, at]
            self.wanted[b] = self.prompt[r, at]
            self.pins[r, at] = none
            self._lend(b)
            with self.each(Worker) as w:
                self.loading[b, w] = True
        self._unpin(r)

    def _is_on_its_way(self, before: Offload, r: Request, i: Position, b: Block) -> Bool:
        """The block is loaded with what was pinned for a position, and every worker has its part before it."""
        begins = (self.origin[b] == before.pins[r, i]) & (self.wanted[b] == self.prompt[r, i])
        return begins & ~self.load_failed[b] & forall(Worker, lambda w: self.loading[b, w])

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
        is_last = forall(Worker, lambda v: (v == w) | ~self.loading[b, v])
        is_good = ok & ~self.load_failed[b]
        self.require(implies(is_last, is_good))
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
        self.require(forall(Worker, lambda v: (v == w) | ~self.loading[b, v]))
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

    # -------------------------------------------------------------------------------- invariants: the host is a pool

    @invariant("O1, P1")
    def every_host_block_is_free_or_referenced(self) -> Bool:
        """Conservation on the host."""
        return self.host.keeps(Pool.every_block_is_free_or_referenced)

    @invariant("O1, P2")
    def host_ref_cnt_counts_holders(self, c: HostBlock) -> Bool:
        """Every reference is that of a store, a load or a pin."""
        held = ite(self.source[c] != none, 1, 0) + self.loads_from[c] + self.pins_on[c]
        return (self.host_ref_cnt[c] == held) & (self.host_ref_cnt[c] >= 0)

    @invariant("O1, P3")
    def a_host_block_is_free_exactly_when_unreferenced(self, c: HostBlock) -> Bool:
        """As on the device."""
        return self.host.keeps(Pool.free_exactly_when_unreferenced, c)

    @invariant("O1, P5")
    def the_host_map_and_its_blocks_agree(self, c: HostBlock, h: Hash) -> Bool:
        """As on the device."""
        return self.host.keeps(Pool.the_map_and_the_blocks_agree, c, h)

    @invariant("O1, P6")
    def a_hash_names_what_is_on_the_host(self, c: HostBlock, h: Hash, s: Slot) -> Bool:
        """Whatever the moment at which the copy read: what can be found is what its hash says."""
        return self.host.keeps(Pool.a_hash_names_what_is_there, c, h, s)

    @invariant("P12")
    def listeners_know_what_is_on_the_host(self, h: Hash) -> Bool:
        """Replaying the events of the host's medium gives what a lookup there finds."""
        return self.host.keeps(Pool.listeners_know_what_is_cached, h)

    # -------------------------------------------------------------------------------- invariants: transfers

    @invariant("P2, O2")
    def transfers_hold_what_they_touch(self, b: Block) -> Bool:
        """A block is lent to the stores that read it and to the load that writes it."""
        return all_of(
            self.transfers[b] == self.stores_from[b] + ite(self.origin[b] != none, 1, 0),
            self.lent.value == self.stores.value + self.loads.value,
        )

    @invariant("O2, P6")
    def a_store_reads_what_it_names(self, c: HostBlock, b: Block, h: Hash, s: Slot) -> Bool:
        """The source cannot change under the copy; what was copied is right."""
        in_flight = (self.source[c] == b) & (self.named[c] == h) & (self.kv[h, s] != none)
        return all_of(
            implies(in_flight, self.content[b, s] == self.kv[h, s]),
            implies(in_flight & self.stored_slot[c, s], self.host_content[c, s] == self.kv[h, s]),
        )

    @invariant("O2, O8")
    def a_store_is_alone_at_its_destination(self, c: HostBlock, b: Block, h: Hash) -> Bool:
        """Nobody can find the host block while it is filled, and the device block is no null block and not loaded."""
        return all_of(
            iff(self.source[c] != none, self.named[c] != none),
            implies(self.source[c] != none, ~self.host_hashes[c, h]),
            implies(self.source[c] == b, (b != self.null.value) & (self.origin[b] == none) & ~self.computing[b]),
        )

    @invariant("O3")
    def a_block_is_stored_once_at_a_time(self, c: HostBlock, d: HostBlock) -> Bool:
        """At most one store in flight for a device block and a hash."""
        is_same = (self.source[c] == self.source[d]) & (self.named[c] == self.named[d])
        return implies((self.source[c] != none) & is_same, c == d)

    @invariant("O8")
    def nobody_touches_what_is_not_held_for_it(self, c: HostBlock, b: Block, w: Worker) -> Bool:
        """As long as a worker may read or write for a transfer, the transfer holds its blocks."""
        return all_of(
            implies(self.storing[c, w], self.source[c] != none),
            implies(self.loading[b, w], self.origin[b] != none),
        )

    @invariant("O7")
    def a_report_means_that_its_part_is_copied(self, c: HostBlock, b: Block, s: Slot) -> Bool:
        """Who reported has copied all its slots, on the way out and on the way in, unless some part failed."""
        stored = ~self.storing[c, self.owner[s]] & (self.source[c] != none)
        loaded = ~self.loading[b, self.owner[s]] & (self.origin[b] != none)
        return all_of(
            implies(stored, self.stored_slot[c, s] | self.store_failed[c]),
            implies(loaded, self.loaded_slot[b, s] | self.load_failed[b]),
        )

    @invariant("O7, L2")
    def somebody_has_yet_to_report(self, c: HostBlock, b: Block) -> Bool:
        """What is in flight waits for some worker."""
        return all_of(
            implies(
                self.source[c] != none,
                self.storing[c, self.driver.value] | exists(Worker, lambda w: self.storing[c, w]),
            ),
            implies(
                self.origin[b] != none,
                self.loading[b, self.driver.value] | exists(Worker, lambda w: self.loading[b, w]),
            ),
        )

    @invariant("O7")
    def a_transfer_begins_with_nothing_copied(self, c: HostBlock, b: Block, s: Slot) -> Bool:
        """What is not in flight has no slot copied and nothing failed."""
        return all_of(
            implies(self.source[c] == none, ~self.stored_slot[c, s] & ~self.store_failed[c]),
            implies(self.origin[b] == none, ~self.loaded_slot[b, s] & ~self.load_failed[b]),
        )

    @invariant("O2, P6")
    def a_load_brings_what_is_wanted(self, b: Block, c: HostBlock, h: Hash, s: Slot) -> Bool:
        """The host block that is read carries the hash; what was copied is right."""
        in_flight = (self.origin[b] == c) & (self.wanted[b] == h)
        return all_of(
            implies(in_flight, self.host_hashes[c, h]),
            implies(in_flight & (self.kv[h, s] != none) & self.loaded_slot[b, s], self.content[b, s] == self.kv[h, s]),
        )

    @invariant("O2, O8")
    def a_load_is_alone_at_its_destination(self, b: Block, h: Hash, r: Request, i: Position, s: Slot) -> Bool:
        """Nobody can find the device block while it is filled, and nobody relies on its content."""
        return all_of(
            iff(self.origin[b] != none, self.wanted[b] != none),
            implies(self.origin[b] != none, (b != self.null.value) & ~self.hashes[b, h]),
            implies((self.origin[b] != none) & (self.table[r, i] == b), self.expects[r, i, s] == none),
            implies((self.origin[b] != none) & (self.table[r, i] == b), self.filed[r, i] == none),
        )

    @invariant("O5")
    def a_pin_holds_what_was_looked_for(self, r: Request, i: Position, c: HostBlock) -> Bool:
        """A pinned host block carries the hash for which it was found, and belongs to a request that is inside."""
        return implies(
            self.pins[r, i] == c,
            all_of(self.host_hashes[c, self.prompt[r, i]], i < self.limit[r], self.running[r]),
        )

    @invariant("O4, O9")
    def what_was_offered_was_met(self, r: Request, i: Position, h: Hash) -> Bool:
        """Each offered block was stored, is being stored, met a full host, or had lost its hash."""
        return all_of(
            implies((i < self.offered[r]) & (self.filed[r, i] == h), self.met[h]),
            (self.offered[r] >= 0) & (self.offered[r] <= self.length[r]),
        )

    # -------------------------------------------------------------------------------- corollaries

    @corollary("O8, O12")
    def what_is_in_flight_is_not_free(self, b: Block, c: HostBlock) -> Bool:
        """No block that an unfinished copy reads or writes can be handed out, and no pinned one evicted."""
        return all_of(
            implies(self.source[c] == b, ~self._idle(b) & ~self.host_free.has(c)),
            implies(self.origin[b] == c, ~self._idle(b) & ~self.host_free.has(c)),
            implies(self.pins_on[c] > 0, ~self.host_free.has(c)),
        )

    @corollary("L1")
    def somebody_can_always_go_on(self, r: Request) -> Bool:
        """As in P; where a request is complete, its last step is to be processed, or something to be offered."""
        return any_of(
            ~self.running[r],
            can(self.finish, r),
            can(self.allocate, r, 1),
            can(self.offer, r),
            exists(Block, lambda b: can(self.process, b)),
            exists(Request, lambda q: (q != r) & (self.length[q] > 0) & can(self.preempt, q)),
            self.lent.value > 0,
        )

    @corollary("L2")
    def transfers_can_go_on(self, c: HostBlock, b: Block) -> Bool:
        """While one is in flight, a slot can be copied, a worker can report, or a step is to be processed."""
        return all_of(
            implies(
                self.source[c] != none,
                any_of(
                    exists(Slot, lambda s: can(self.copy_out, c, s)),
                    exists(Worker, lambda w: can(self.report_store, c, w, True)),
                ),
            ),
            implies(
                self.origin[b] != none,
                any_of(
                    exists(Slot, lambda s: can(self.copy_in, b, s)),
                    exists(Worker, lambda w: can(self.report_load, b, w, True)),
                    exists(Worker, lambda w: can(self.fail_abandoned_load, b, w, True)),
                    exists(
                        Request,
                        Position,
                        Worker,
                        lambda r, i, w: all_of(self.table[r, i] == b, can(self.fail_load, r, i, w, True)),
                    ),
                    can(self.process, b),
                ),
            ),
        )

    @corollary("L2, O10")
    def holders_can_let_go(self) -> Bool:
        """While a request holds something it can leave; when nothing is held or in flight, reset is possible."""
        return all_of(
            implies(self.entries.value > 0, exists(Request, lambda q: (self.held[q] > 0) & can(self.preempt, q))),
            implies(self.all_pins.value > 0, exists(Request, lambda q: can(self.unpin, q))),
            implies(
                all_of(
                    self.entries.value == 0,
                    self.all_pins.value == 0,
                    self.stores.value == 0,
                    self.loads.value == 0,
                ),
                can(self.reset),
            ),
        )

    # -------------------------------------------------------------------------------- what is refused, and what is not

    @corollary("P5, P6, P12")
    def what_can_be_registered(self, r: Request, i: Position, h: Hash) -> Bool:
        """As in P, once it is loaded."""
        is_there = exists(Block, lambda b: (self.table[r, i] == b) & (self.origin[b] == none))
        return iff(can(self.register, r, i, h), all_of(self.caching.value, self._is_namable(r, i, h), is_there))

    @corollary("P9, L1, O9")
    def who_has_all_it_needs_can_finish(self, r: Request) -> Bool:
        """As in P, when its last step is processed and, in eager mode, all its blocks were offered."""
        is_done = self._is_computed(r) & (self.lazy.value | (self.offered[r] == self.length[r]))
        return iff(can(self.finish, r), all_of(self.running[r], self.length[r] == self.need[r], is_done))

    @corollary("P11, O10")
    def reset_is_refused_for_who_holds_a_block(self) -> Bool:
        """As in P, on either tier."""
        is_held = exists(HostBlock, lambda c: self.host_ref_cnt[c] != 0)
        return iff(can(self.reset), (self.referenced.value == 0) & ~is_held)

    # -------------------------------------------------------------------------------- steps: stores

    @step("O3, O4, O9", of="offer")
    def an_offer_stores_what_is_missing(self, before: Offload, r: Request, c: HostBlock) -> Bool:
        """The next block of the request, once it is computed: if it can be found, and its hash is not on the host.

        It goes to the host block that is taken next. Where there is none the offer is counted, and nothing else.
        """
        i = before.offered[r]
        b, h = before.table[r, i], before.filed[r, i]
        is_missing = (h != none) & before.hashes[b, h] & ~before._is_stored(b, h)
        is_refused = is_missing & before.host_free.is_empty()
        return all_of(
            ~before.lazy.value & before.running[r] & (i < before.length[r]) & ~before.computing[b],
            self.offered[r] == i + 1,
            implies(before.host_free.is_first(c) & is_missing, (self.source[c] == b) & (self.named[c] == h)),
            implies(self.stores.value != before.stores.value, is_missing),
            self.refused.total == before.refused.total + ite(is_refused, 1, 0),
        )

    @step("O4", of="scan")
    def a_scan_stores_the_first_that_nobody_holds(
        self, before: Offload, b: Block, h: Hash, a: Block, g: Hash, c: HostBlock
    ) -> Bool:
        """Of the free blocks, in the order in which they will be reused; so what is held all the time is never stored.

        A prefix that all requests share never gets to the host that way.
        """
        is_passed_over = before.free.has(a) & before.free.before(a, b)
        return all_of(
            before.lazy.value & before.free.has(b) & before._is_worth_storing(b, h),
            implies(is_passed_over, ~before._is_worth_storing(a, g)),
            implies(before.host_free.is_first(c), (self.source[c] == b) & (self.named[c] == h)),
            ~before.host_free.is_empty(),
        )

    @step("O2, O12", of=("offer", "scan"))
    def an_offer_evicts_only_what_nobody_holds(
        self, before: Offload, c: HostBlock, g: Hash, w: Worker, s: Slot
    ) -> Bool:
        """At the head of the host's queue, which loses its hashes; nothing pinned, and nothing in flight.

        Every worker has its part before it. Where nothing begins, no hash is lost either.
        """
        begins = (before.source[c] == none) & (self.source[c] != none)
        return all_of(
            implies(begins, before.host_free.is_first(c)),
            implies(begins, self.storing[c, w] & ~self.stored_slot[c, s] & ~self.store_failed[c]),
            implies(~begins, self._store_is_as_it_was(before, c)),
            iff(self.host_hashes[c, g], before.host_hashes[c, g] & ~begins),
        )

    @step("O2", of="copy_out")
    def a_store_copies_what_stands_there(
        self, before: Offload, c: HostBlock, s: Slot, b: Block, d: HostBlock, t: Slot
    ) -> Bool:
        """One slot of its source, once; its worker has not reported yet."""
        is_copied = (d == c) & (t == s)
        return all_of(
            before.storing[c, self.owner[s]] & ~before.stored_slot[c, s],
            implies(before.source[c] == b, self.host_content[c, s] == before.content[b, s]),
            iff(self.stored_slot[d, t], before.stored_slot[d, t] | is_copied),
            is_copied | (self.host_content[d, t] == before.host_content[d, t]),
        )

    @step("O2, O7", of="report_store")
    def a_report_is_of_one_workers_part(self, before: Offload, c: HostBlock, w: Worker, ok: Bool, v: Worker) -> Bool:
        """The store goes on until every worker has reported; it is good if all parts were."""
        ends = before._ends_store(c, w)
        goes_on = all_of(
            (self.source[c] == before.source[c]) & (self.named[c] == before.named[c]),
            iff(self.store_failed[c], before.store_failed[c] | ~ok),
        )
        return all_of(
            before.storing[c, w],
            iff(self.storing[c, v], before.storing[c, v] & (v != w)),
            ite(ends, (self.source[c] == none) & (self.named[c] == none), goes_on),
        )

    @step("O2, O9", of="report_store")
    def a_good_store_can_be_found(
        self, before: Offload, c: HostBlock, w: Worker, ok: Bool, d: HostBlock, g: Hash
    ) -> Bool:
        """Under the hash that its content has, from its end on; and nothing else can."""
        is_good = before._ends_store(c, w) & ok & ~before.store_failed[c]
        is_new = (d == c) & (before.named[c] == g) & is_good
        return iff(self.host_hashes[d, g], before.host_hashes[d, g] | is_new)

    def _ends_store(self, c: HostBlock, w: Worker) -> Bool:
        """All other workers have reported."""
        return forall(Worker, lambda v: (v == w) | ~self.storing[c, v])

    @step("O2, O7", of=("copy_out", "report_store"))
    def other_stores_go_on(self, before: Offload, c: HostBlock, d: HostBlock) -> Bool:
        """Whatever happens to one."""
        return implies(d != c, self._store_is_as_it_was(before, d))

    @step("O2, O8", unless=("offer", "scan", "copy_out", "report_store"))
    def stores_go_on(self, before: Offload, c: HostBlock) -> Bool:
        """Whoever comes or leaves."""
        return self._store_is_as_it_was(before, c)

    def _store_is_as_it_was(self, before: Offload, c: HostBlock) -> Bool:
        """What the store to this host block reads, and how far it is."""
        return all_of(
            (self.source[c] == before.source[c]) & (self.named[c] == before.named[c]),
            iff(self.store_failed[c], before.store_failed[c]),
            forall(Worker, lambda w: iff(self.storing[c, w], before.storing[c, w])),
            forall(Slot, lambda s: iff(self.stored_slot[c, s], before.stored_slot[c, s])),
        )

    @step("O2", unless="copy_out")
    def only_stores_write_on_the_host(self, before: Offload, c: HostBlock, s: Slot) -> Bool:
        """Nothing else changes what stands there."""
        return self.host_content[c, s] == before.host_content[c, s]

    @step("O1, P5", unless=("offer", "scan", "report_store", "reset"))
    def what_is_found_on_the_host_stays(self, before: Offload, c: HostBlock, h: Hash) -> Bool:
        """Until it makes room for a store, or all is forgotten."""
        return iff(self.host_hashes[c, h], before.host_hashes[c, h])

    @step("O1, P5")
    def the_first_stored_is_found_first(self, before: Offload, h: Hash, c: HostBlock, d: HostBlock) -> Bool:
        """Of host blocks with one hash; another joins behind them."""
        now, then = self.host_cached[h], before.host_cached[h]
        stood_there = now.has(c) & now.has(d) & then.has(c)
        return implies(stood_there, iff(now.before(c, d), (c != d) & (~then.has(d) | then.before(c, d))))

    @step("O9", of="finish")
    def nothing_of_a_finished_request_is_left_out(self, before: Offload, r: Request, i: Position, h: Hash) -> Bool:
        """Eager mode: each full block was stored, is being stored, met a full host, or had lost its hash."""
        return implies(~self.lazy.value & (before.filed[r, i] == h), self.met[h])

    @step("O9", of="offer")
    def what_is_offered_is_met(self, before: Offload, r: Request, g: Hash) -> Bool:
        """And nothing else: it counts as met from then on."""
        return iff(self.met[g], before.met[g] | (before.filed[r, before.offered[r]] == g))

    @step("O9", of="scan")
    def what_is_scanned_is_met(self, before: Offload, h: Hash, g: Hash) -> Bool:
        """As what is offered."""
        return iff(self.met[g], before.met[g] | (g == h)) & (self.refused.total == before.refused.total)

    @step("O9", unless=("offer", "scan"))
    def only_offers_are_met(self, before: Offload, h: Hash) -> Bool:
        """Nothing else makes a hash count as met, or counts a refusal."""
        return iff(self.met[h], before.met[h]) & (self.refused.total == before.refused.total)

    @step("O4, O9", unless=("offer", "register"))
    def what_was_offered_stays_offered(self, before: Offload, r: Request) -> Bool:
        """As far as the table still reaches."""
        was, length = before.offered[r], self.length[r]
        return self.offered[r] == ite(was <= length, was, length)

    @step("P6", of="copy_out")
    def nothing_is_read_before_it_is_computed(self, before: Offload, c: HostBlock, b: Block) -> Bool:
        """A copy reads a block after the step that wrote it."""
        return implies(before.source[c] == b, ~before.computing[b])

    @step("P6", of="process")
    def a_step_is_processed_once(self, before: Offload, b: Block) -> Bool:
        """Its block is computed then."""
        return before.computing[b] & ~self.computing[b]

    @step("P6", of="write")
    def who_is_written_is_being_computed(self, before: Offload, r: Request, i: Position, b: Block) -> Bool:
        """Until that step is processed."""
        return implies(before.table[r, i] == b, self.computing[b])

    @step("P6")
    def steps_are_processed_by_themselves(self, before: Offload, a: Block, b: Block) -> Bool:
        """One at a time begins to be written, or is done."""
        changed = ~iff(self.computing[a], before.computing[a])
        return implies(changed & (a != b), iff(self.computing[b], before.computing[b]))

    # -------------------------------------------------------------------------------- steps: lookups and loads

    @step("O5, O6", of="look")
    def a_lookup_finds_all_that_is_there(
        self, before: Offload, r: Request, i: Position, c: HostBlock, result: Int
    ) -> Bool:
        """Behind the table, up to its limit or the first hash that is not there; of each hash the first stored.

        What it finds it pins, and nothing else.
        """
        start = before.length[r]
        end, h = start + result, self.prompt[r, i]
        is_found = (start <= i) & (i < end)
        return all_of(
            before.running[r] & (result >= 0),
            iff(is_found, self.pins[r, i] != none),
            implies(self.pins[r, i] == c, before.host_cached[h].is_first(c)),
            implies((i == end) & (i < self.limit[r]), before.host_cached[h].is_empty()),
            (end <= self.limit[r]) | (result == 0),
        )

    @step("O5", of="unpin")
    def who_held_something_holds_nothing(self, before: Offload, r: Request, i: Position) -> Bool:
        """On the host."""
        return all_of(exists(Position, lambda k: before.pins[r, k] != none), self.pins[r, i] == none)

    @step("O5, O8", of=("look", "unpin", "load", "finish", "preempt"))
    def pins_of_others_stay(self, before: Offload, r: Request, q: Request, i: Position) -> Bool:
        """Each request has its own."""
        return implies(q != r, self.pins[q, i] == before.pins[q, i])

    @step("O5", unless=("look", "unpin", "load", "finish", "preempt"))
    def pins_stay(self, before: Offload, r: Request, i: Position) -> Bool:
        """From the lookup until the load is planned, the next lookup, or the end of the request."""
        return self.pins[r, i] == before.pins[r, i]

    @step("O2, O5, P7", of="load")
    def a_load_brings_what_was_pinned(self, before: Offload, r: Request, n: Int, i: Position, b: Block) -> Bool:
        """To so many blocks behind the table, which every worker has yet to copy; other pins go."""
        start = before.length[r]
        is_loaded = (start <= i) & (i < start + n) & (self.table[r, i] == b)
        return all_of(
            (n >= 1) & (self.length[r] == start + n) & (self.pins[r, i] == none),
            implies(i < start, self.table[r, i] == before.table[r, i]),
            implies(is_loaded, (before.pins[r, i] != none) & self._is_on_its_way(before, r, i, b)),
            implies(is_loaded, before.free.has(b) & (before.origin[b] == none)),
        )

    @step("O2, P7", of="load")
    def a_load_takes_the_head_in_order(self, before: Offload, r: Request, n: Int, b: Block) -> Bool:
        """As an allocation does; and nothing else begins to be loaded."""
        is_left = forall(Position, lambda i: implies(before.length[r] <= i, self.table[r, i] != b))
        return all_of(
            self._room() == before._room() - n,
            implies(is_left, self._load_is_as_it_was(before, b)),
            *self._taken_from_the_head(before, r).values(),
        )

    @step("P6", of="copy_in")
    def nothing_is_written_under_a_step(self, before: Offload, b: Block) -> Bool:
        """Nor does a copy write a block that a step of its former holder is still to write."""
        return ~before.computing[b]

    @step("O2", of="copy_in")
    def a_load_copies_what_stands_there(
        self, before: Offload, b: Block, s: Slot, c: HostBlock, a: Block, t: Slot
    ) -> Bool:
        """One slot of its origin, once; its worker has not reported yet."""
        is_copied = (a == b) & (t == s)
        return all_of(
            before.loading[b, self.owner[s]] & ~before.loaded_slot[b, s],
            implies(before.origin[b] == c, self.content[b, s] == before.host_content[c, s]),
            iff(self.loaded_slot[a, t], before.loaded_slot[a, t] | is_copied),
            is_copied | (self.content[a, t] == before.content[a, t]),
        )

    @step("O2, O7", of="report_load")
    def a_loads_report_is_of_one_workers_part(self, before: Offload, b: Block, w: Worker, ok: Bool, v: Worker) -> Bool:
        """The load goes on until every worker has reported, and ends so only if all parts were good."""
        ends = before._ends_load(b, w)
        goes_on = all_of(
            (self.origin[b] == before.origin[b]) & (self.wanted[b] == before.wanted[b]),
            iff(self.load_failed[b], before.load_failed[b] | ~ok),
        )
        return all_of(
            before.loading[b, w],
            iff(self.loading[b, v], before.loading[b, v] & (v != w)),
            ite(ends, ok & ~before.load_failed[b] & (self.origin[b] == none), goes_on),
        )

    @step("O2, O7", of="report_load")
    def what_has_come_can_be_relied_on(
        self, before: Offload, b: Block, w: Worker, r: Request, i: Position, s: Slot, h: Hash
    ) -> Bool:
        """By who holds the block: from the end of the load on it has what was wanted, and counts."""
        has_come = before._ends_load(b, w) & (before.wanted[b] == h) & (self.table[r, i] == b)
        return all_of(
            implies(has_come, self.expects[r, i, s] == self.kv[h, s]),
            implies(
                ~before._ends_load(b, w) | (self.table[r, i] != b), self.expects[r, i, s] == before.expects[r, i, s]
            ),
        )

    def _ends_load(self, b: Block, w: Worker) -> Bool:
        """All other workers have reported."""
        return forall(Worker, lambda v: (v == w) | ~self.loading[b, v])

    @step("O11", of="fail_load")
    def a_failed_load_leaves_what_is_really_there(
        self, before: Offload, r: Request, i: Position, w: Worker, ok: Bool, k: Position, b: Block
    ) -> Bool:
        """The table ends where the load failed; what stands before is as it was."""
        return all_of(
            (self.length[r] == i) & implies(k < i, self.table[r, k] == before.table[r, k]),
            implies(before.table[r, i] == b, self._has_failed(before, b, w, ok)),
        )

    @step("O8, O11", of="fail_abandoned_load")
    def a_failed_load_that_nobody_waits_for_ends(self, before: Offload, b: Block, w: Worker, ok: Bool) -> Bool:
        """In no table anything changes."""
        return self._has_failed(before, b, w, ok) & (before.holders[b] == 0)

    def _has_failed(self, before: Offload, b: Block, w: Worker, ok: Bool) -> Bool:
        """With the last report, the load of a block has ended, and some part of it failed."""
        is_last = before.loading[b, w] & before._ends_load(b, w)
        return all_of(is_last, ~ok | before.load_failed[b], self.origin[b] == none, self.wanted[b] == none)

    @step("O2, O7", of=("copy_in", "report_load", "fail_abandoned_load"))
    def other_loads_go_on(self, before: Offload, b: Block, a: Block) -> Bool:
        """Whatever happens to one."""
        return implies(a != b, self._load_is_as_it_was(before, a))

    @step("O2, O8, O11", of="fail_load")
    def loads_behind_one_that_failed_go_on(self, before: Offload, r: Request, i: Position, b: Block) -> Bool:
        """Nobody waits for them any more; they hold what they need."""
        return implies(before.table[r, i] != b, self._load_is_as_it_was(before, b))

    @step("O2, O8", unless=("load", "copy_in", "report_load", "fail_load", "fail_abandoned_load"))
    def loads_go_on(self, before: Offload, b: Block) -> Bool:
        """Whoever comes or leaves."""
        return self._load_is_as_it_was(before, b)

    def _load_is_as_it_was(self, before: Offload, b: Block) -> Bool:
        """What the load to this block reads, and how far it is."""
        return all_of(
            (self.origin[b] == before.origin[b]) & (self.wanted[b] == before.wanted[b]),
            iff(self.load_failed[b], before.load_failed[b]),
            forall(Worker, lambda w: iff(self.loading[b, w], before.loading[b, w])),
            forall(Slot, lambda s: iff(self.loaded_slot[b, s], before.loaded_slot[b, s])),
        )

    @step("O7", of=("report_store", "report_load", "fail_load", "fail_abandoned_load"))
    def a_transfer_ends_once(self, before: Offload) -> Bool:
        """At most one transfer ends, and none begins."""
        ended = before.stores.value + before.loads.value - self.stores.value - self.loads.value
        return (ended >= 0) & (ended <= 1)

    # -------------------------------------------------------------------------------- steps: requests

    @step("O8", of=("finish", "preempt"))
    def who_leaves_holds_nothing_on_either_tier(self, before: Offload, r: Request, i: Position) -> Bool:
        """What its transfers hold they go on holding."""
        is_empty = (self.length[r] == 0) & (self.table[r, i] == none) & (self.pins[r, i] == none)
        return all_of(before.running[r], ~self.running[r], is_empty, self.offered[r] == 0)

    @step("O9", of="finish")
    def who_finishes_is_complete(self, before: Offload, r: Request, b: Block) -> Bool:
        """Its table is, and all of it is computed."""
        is_processed = implies(exists(Position, lambda i: before.table[r, i] == b), ~before.computing[b])
        return (before.length[r] == self.need[r]) & is_processed

    @step("P6", of="register")
    def what_is_loaded_is_not_registered(self, before: Offload, r: Request, i: Position, b: Block) -> Bool:
        """There is nothing yet that a hash could name."""
        return implies(before.table[r, i] == b, before.origin[b] == none)

    @step("O4, O9", of="register")
    def what_is_found_anew_is_offered_anew(self, before: Offload, r: Request, i: Position) -> Bool:
        """From this block on."""
        return self.offered[r] == ite(i < before.offered[r], i, before.offered[r])

    @step(
        "O8",
        of=(
            "process",
            "offer",
            "scan",
            "look",
            "unpin",
            "copy_out",
            "report_store",
            "copy_in",
            "report_load",
            "fail_abandoned_load",
        ),
    )
    def transfers_leave_tables_alone(self, before: Offload, r: Request, i: Position) -> Bool:
        """Who runs, what each holds, and under which hash it was filed."""
        return all_of(
            iff(self.running[r], before.running[r]) & (self.length[r] == before.length[r]),
            (self.table[r, i] == before.table[r, i]) & (self.filed[r, i] == before.filed[r, i]),
        )

    @step("O10", of="reset")
    def reset_empties_both_tiers(self, before: Offload, h: Hash, b: Block, c: HostBlock) -> Bool:
        """No hash can be found any more; it is possible only where nobody holds anything."""
        is_idle = (before.ref_cnt[b] == 0) & (before.host_ref_cnt[c] == 0)
        return is_idle & self.cached[h].is_empty() & self.host_cached[h].is_empty()

    # -------------------------------------------------------------------------------- steps: queues

    @step(
        "P2, P6",
        unless=(
            "hit",
            "allocate",
            "skip",
            "trim",
            "finish",
            "preempt",
            "write",
            "register",
            "load",
            "report_load",
            "fail_load",
        ),
    )
    def nothing_else_changes_a_table(self, before: Pool, r: Request, i: Position, s: Slot) -> Bool:
        """As in P; beside the request, its loads do."""
        return self._stands_as_before(before, r, i, s)

    @step("P6", unless=("write", "copy_in"))
    def nothing_else_is_written(self, before: Pool, b: Block, s: Slot) -> Bool:
        """As in P; beside requests, loads write."""
        return self.content[b, s] == before.content[b, s]

    @step("P5, P11", unless=("allocate", "register", "evict", "reset", "load"))
    def nothing_else_gives_or_takes_a_hash(self, before: Pool, b: Block, h: Hash) -> Bool:
        """As in P; a load takes blocks. What it has brought is registered like anything else."""
        return iff(self.hashes[b, h], before.hashes[b, h])

    @step("O1, P9, P10")
    def the_host_queue_keeps_its_order(self, before: Offload, c: HostBlock, d: HostBlock) -> Bool:
        """Of blocks that were free and still are."""
        now, then = self.host_free, before.host_free
        stay = now.has(c) & now.has(d) & then.has(c) & then.has(d)
        return implies(stay, iff(now.before(c, d), then.before(c, d)))

    @step("O1, P10")
    def host_blocks_go_where_the_dialect_says(self, before: Offload, c: HostBlock, d: HostBlock) -> Bool:
        """When nobody holds them any more: to the tail; in the dialect `split` those without a hash to the head."""
        return self._joins_the_host_queue(before, c, d)

    def _joins_the_host_queue(self, entry: Offload, c: HostBlock, d: HostBlock) -> Bool:
        """One that is free anew stands behind any other, or before it."""
        is_new, to_the_head = self.host._is_new(entry.host, c), self.host._belongs_to_the_head(c)
        goes_elsewhere = ~self.host._is_new(entry.host, d) | (to_the_head & ~self.host._belongs_to_the_head(d))
        return implies(is_new & self.host_free.has(d) & goes_elsewhere, iff(self.host_free.before(c, d), to_the_head))

    @step("O5, P10", of=("look", "unpin", "load", "finish", "preempt"))
    def pins_go_last_first(
        self, before: Offload, r: Request, i: Position, j: Position, c: HostBlock, d: HostBlock
    ) -> Bool:
        """As the blocks of a table do."""
        return self._unpinned_in_order(before, r)(i, j, c, d)

    def _unpinned_in_order(
        self, entry: Offload, r: Request
    ) -> Callable[[Position, Position, HostBlock, HostBlock], Bool]:
        """Of two blocks that go the same way, the one that was pinned for the later position joins first.

        One that was pinned for two has its place where the second pin goes: at the lower position.
        """
        is_new, to_the_head = partial(self.host._is_new, entry.host), self.host._belongs_to_the_head
        return lambda i, j, c, d: implies(
            all_of(
                is_new(c) & is_new(d) & iff(to_the_head(c), to_the_head(d)),
                (j < i) & (entry.pins[r, i] == c) & (entry.pins[r, j] == d),
                forall(Position, lambda k: implies(k < i, entry.pins[r, k] != c)),
            ),
            self.host_free.before(c, d),
        )

    @step("P9, P10", unless=("hit", "allocate", "skip", "load", "scan"))
    def the_free_queue_keeps_its_order(self, before: Pool, b: Block, c: Block) -> Bool:
        """As in P; beside requests, loads and scans take from it."""
        return self._kept_in_order(before)(b, c)

    @step("P9, P10", of=("offer", "process", "look", "unpin", "copy_out", "copy_in"))
    def the_device_queue_is_left_alone(self, before: Offload, a: Block, b: Block) -> Bool:
        """Nothing on the device becomes free or is taken."""
        return iff(self.free.has(a), before.free.has(a)) & implies(
            self.free.has(a) & self.free.has(b), iff(self.free.before(a, b), before.free.before(a, b))
        )

    # -------------------------------------------------------------------------------- what must be reachable

    @sometimes("O8")
    def a_store_outlives_its_request(self, c: HostBlock, b: Block) -> Bool:
        """The block is in no table any more, and is still read."""
        return all_of(self.source[c] == b, self.holders[b] == 0)

    @sometimes("O8")
    def a_load_outlives_its_request(self, b: Block) -> Bool:
        """Nobody waits for it any more."""
        return all_of(self.origin[b] != none, self.holders[b] == 0)

    @sometimes("O7")
    def one_worker_is_ahead(self, c: HostBlock, v: Worker, w: Worker) -> Bool:
        """One has reported, another has not."""
        return all_of(self.source[c] != none, ~self.storing[c, v], self.storing[c, w])

    @sometimes("O1, P5")
    def a_block_is_on_both_tiers(self, b: Block, c: HostBlock, h: Hash) -> Bool:
        """It was stored, and can still be found on the device."""
        return self.hashes[b, h] & self.host_hashes[c, h]

    @sometimes("O5")
    def a_pinned_block_is_all_that_is_left(self, r: Request, i: Position) -> Bool:
        """The device has lost what a lookup found on the host."""
        return all_of(self.pins[r, i] != none, self.cached[self.prompt[r, i]].is_empty())
