"""The properties of steps of Offload (machine O): what stores and loads must do."""

from __future__ import annotations

from typing import Self

from ...machine import Bool, Int, all_of, exists, forall, iff, implies, ite, none, step
from ..pool import Block, Hash, Position, Request, Slot
from .actions import OffloadActions
from .state import HostBlock, Worker

__all__ = ["OffloadCopies"]


class OffloadCopies(OffloadActions, abstract=True):
    """What lookups on the host, stores and loads are for, and what they leave alone."""

    # -------------------------------------------------------------------------------- stores

    @step("O3, O4, O9", of="offer")
    def an_offer_stores_what_is_missing(self, before: Self, r: Request, c: HostBlock) -> Bool:
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
        self, before: Self, b: Block, h: Hash, a: Block, g: Hash, c: HostBlock
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
    def an_offer_evicts_only_what_nobody_holds(self, before: Self, c: HostBlock, g: Hash, w: Worker, s: Slot) -> Bool:
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
        self, before: Self, c: HostBlock, s: Slot, b: Block, d: HostBlock, t: Slot
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
    def a_report_is_of_one_workers_part(self, before: Self, c: HostBlock, w: Worker, ok: Bool, v: Worker) -> Bool:
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
    def a_good_store_can_be_found(self, before: Self, c: HostBlock, w: Worker, ok: Bool, d: HostBlock, g: Hash) -> Bool:
        """Under the hash that its content has, from its end on; and nothing else can."""
        is_good = before._ends_store(c, w) & ok & ~before.store_failed[c]
        is_new = (d == c) & (before.named[c] == g) & is_good
        return iff(self.host_hashes[d, g], before.host_hashes[d, g] | is_new)

    def _ends_store(self, c: HostBlock, w: Worker) -> Bool:
        """All other workers have reported."""
        return forall(Worker, lambda v: (v == w) | ~self.storing[c, v])

    @step("O2, O7", of=("copy_out", "report_store"))
    def other_stores_go_on(self, before: Self, c: HostBlock, d: HostBlock) -> Bool:
        """Whatever happens to one."""
        return implies(d != c, self._store_is_as_it_was(before, d))

    @step("O2, O8", unless=("offer", "scan", "copy_out", "report_store"))
    def stores_go_on(self, before: Self, c: HostBlock) -> Bool:
        """Whoever comes or leaves."""
        return self._store_is_as_it_was(before, c)

    def _store_is_as_it_was(self, before: Self, c: HostBlock) -> Bool:
        """What the store to this host block reads, and how far it is."""
        return all_of(
            (self.source[c] == before.source[c]) & (self.named[c] == before.named[c]),
            iff(self.store_failed[c], before.store_failed[c]),
            forall(Worker, lambda w: iff(self.storing[c, w], before.storing[c, w])),
            forall(Slot, lambda s: iff(self.stored_slot[c, s], before.stored_slot[c, s])),
        )

    @step("O2", unless="copy_out")
    def only_stores_write_on_the_host(self, before: Self, c: HostBlock, s: Slot) -> Bool:
        """Nothing else changes what stands there."""
        return self.host_content[c, s] == before.host_content[c, s]

    @step("O1, P5", unless=("offer", "scan", "report_store", "reset"))
    def what_is_found_on_the_host_stays(self, before: Self, c: HostBlock, h: Hash) -> Bool:
        """Until it makes room for a store, or all is forgotten."""
        return iff(self.host_hashes[c, h], before.host_hashes[c, h])

    @step("O1, P5")
    def the_first_stored_is_found_first(self, before: Self, h: Hash, c: HostBlock, d: HostBlock) -> Bool:
        """Of host blocks with one hash; another joins behind them."""
        now, then = self.host_cached[h], before.host_cached[h]
        stood_there = now.has(c) & now.has(d) & then.has(c)
        return implies(stood_there, iff(now.before(c, d), (c != d) & (~then.has(d) | then.before(c, d))))

    @step("O9", of="finish")
    def nothing_of_a_finished_request_is_left_out(self, before: Self, r: Request, i: Position, h: Hash) -> Bool:
        """Eager mode: each full block was stored, is being stored, met a full host, or had lost its hash."""
        return implies(~self.lazy.value & (before.filed[r, i] == h), self.met[h])

    @step("O9", of="offer")
    def what_is_offered_is_met(self, before: Self, r: Request, g: Hash) -> Bool:
        """And nothing else: it counts as met from then on."""
        return iff(self.met[g], before.met[g] | (before.filed[r, before.offered[r]] == g))

    @step("O9", of="scan")
    def what_is_scanned_is_met(self, before: Self, h: Hash, g: Hash) -> Bool:
        """As what is offered."""
        return iff(self.met[g], before.met[g] | (g == h)) & (self.refused.total == before.refused.total)

    @step("O9", unless=("offer", "scan"))
    def only_offers_are_met(self, before: Self, h: Hash) -> Bool:
        """Nothing else makes a hash count as met, or counts a refusal."""
        return iff(self.met[h], before.met[h]) & (self.refused.total == before.refused.total)

    @step("O4, O9", unless=("offer", "register"))
    def what_was_offered_stays_offered(self, before: Self, r: Request) -> Bool:
        """As far as the table still reaches."""
        was, length = before.offered[r], self.length[r]
        return self.offered[r] == ite(was <= length, was, length)

    @step("P6", of="copy_out")
    def nothing_is_read_before_it_is_computed(self, before: Self, c: HostBlock, b: Block) -> Bool:
        """A copy reads a block after the step that wrote it."""
        return implies(before.source[c] == b, ~before.computing[b])

    @step("P6", of="process")
    def a_step_is_processed_once(self, before: Self, b: Block) -> Bool:
        """Its block is computed then."""
        return before.computing[b] & ~self.computing[b]

    @step("P6", of="write")
    def who_is_written_is_being_computed(self, before: Self, r: Request, i: Position, b: Block) -> Bool:
        """Until that step is processed."""
        return implies(before.table[r, i] == b, self.computing[b])

    @step("P6")
    def steps_are_processed_by_themselves(self, before: Self, a: Block, b: Block) -> Bool:
        """One at a time begins to be written, or is done."""
        changed = ~iff(self.computing[a], before.computing[a])
        return implies(changed & (a != b), iff(self.computing[b], before.computing[b]))

    # -------------------------------------------------------------------------------- lookups and loads

    @step("O5, O6", of="look")
    def a_lookup_finds_all_that_is_there(
        self, before: Self, r: Request, i: Position, c: HostBlock, result: Int
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
    def who_held_something_holds_nothing(self, before: Self, r: Request, i: Position) -> Bool:
        """On the host."""
        return all_of(exists(Position, lambda k: before.pins[r, k] != none), self.pins[r, i] == none)

    @step("O5, O8", of=("look", "unpin", "load", "finish", "preempt"))
    def pins_of_others_stay(self, before: Self, r: Request, q: Request, i: Position) -> Bool:
        """Each request has its own."""
        return implies(q != r, self.pins[q, i] == before.pins[q, i])

    @step("O5", unless=("look", "unpin", "load", "finish", "preempt"))
    def pins_stay(self, before: Self, r: Request, i: Position) -> Bool:
        """From the lookup until the load is planned, the next lookup, or the end of the request."""
        return self.pins[r, i] == before.pins[r, i]

    @step("O2, O5, P7", of="load")
    def a_load_brings_what_was_pinned(self, before: Self, r: Request, n: Int, i: Position, b: Block) -> Bool:
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
    def a_load_takes_the_head_in_order(self, before: Self, r: Request, n: Int, b: Block) -> Bool:
        """As an allocation does; and nothing else begins to be loaded."""
        is_left = forall(Position, lambda i: implies(before.length[r] <= i, self.table[r, i] != b))
        return all_of(
            self._room() == before._room() - n,
            implies(is_left, self._load_is_as_it_was(before, b)),
            *self._taken_from_the_head(before, r).values(),
        )

    @step("P6", of="copy_in")
    def nothing_is_written_under_a_step(self, before: Self, b: Block) -> Bool:
        """Nor does a copy write a block that a step of its former holder is still to write."""
        return ~before.computing[b]

    @step("O2", of="copy_in")
    def a_load_copies_what_stands_there(self, before: Self, b: Block, s: Slot, c: HostBlock, a: Block, t: Slot) -> Bool:
        """One slot of its origin, once; its worker has not reported yet."""
        is_copied = (a == b) & (t == s)
        return all_of(
            before.loading[b, self.owner[s]] & ~before.loaded_slot[b, s],
            implies(before.origin[b] == c, self.content[b, s] == before.host_content[c, s]),
            iff(self.loaded_slot[a, t], before.loaded_slot[a, t] | is_copied),
            is_copied | (self.content[a, t] == before.content[a, t]),
        )

    @step("O2, O7", of="report_load")
    def a_loads_report_is_of_one_workers_part(self, before: Self, b: Block, w: Worker, ok: Bool, v: Worker) -> Bool:
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
        self, before: Self, b: Block, w: Worker, r: Request, i: Position, s: Slot, h: Hash
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
        self, before: Self, r: Request, i: Position, w: Worker, ok: Bool, k: Position, b: Block
    ) -> Bool:
        """The table ends where the load failed; what stands before is as it was."""
        return all_of(
            (self.length[r] == i) & implies(k < i, self.table[r, k] == before.table[r, k]),
            implies(before.table[r, i] == b, self._has_failed(before, b, w, ok)),
        )

    @step("O8, O11", of="fail_abandoned_load")
    def a_failed_load_that_nobody_waits_for_ends(self, before: Self, b: Block, w: Worker, ok: Bool) -> Bool:
        """In no table anything changes."""
        return self._has_failed(before, b, w, ok) & (before.holders[b] == 0)

    def _has_failed(self, before: Self, b: Block, w: Worker, ok: Bool) -> Bool:
        """With the last report, the load of a block has ended, and some part of it failed."""
        is_last = before.loading[b, w] & before._ends_load(b, w)
        return all_of(is_last, ~ok | before.load_failed[b], self.origin[b] == none, self.wanted[b] == none)

    @step("O2, O7", of=("copy_in", "report_load", "fail_abandoned_load"))
    def other_loads_go_on(self, before: Self, b: Block, a: Block) -> Bool:
        """Whatever happens to one."""
        return implies(a != b, self._load_is_as_it_was(before, a))

    @step("O2, O8, O11", of="fail_load")
    def loads_behind_one_that_failed_go_on(self, before: Self, r: Request, i: Position, b: Block) -> Bool:
        """Nobody waits for them any more; they hold what they need."""
        return implies(before.table[r, i] != b, self._load_is_as_it_was(before, b))

    @step("O2, O8", unless=("load", "copy_in", "report_load", "fail_load", "fail_abandoned_load"))
    def loads_go_on(self, before: Self, b: Block) -> Bool:
        """Whoever comes or leaves."""
        return self._load_is_as_it_was(before, b)

    @step("O7", of=("report_store", "report_load", "fail_load", "fail_abandoned_load"))
    def a_transfer_ends_once(self, before: Self) -> Bool:
        """At most one transfer ends, and none begins."""
        ended = before.stores.value + before.loads.value - self.stores.value - self.loads.value
        return (ended >= 0) & (ended <= 1)
