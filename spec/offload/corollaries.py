"""The corollaries of Offload (machine O): they follow from the invariants, and no action is asked to keep them."""

from __future__ import annotations

from ...machine import Bool, all_of, any_of, can, corollary, exists, forall, iff, implies, none
from ..pool import Block, Hash, Position, Request, Slot
from .actions import OffloadActions
from .state import HostBlock, Worker

__all__ = ["OffloadCorollaries"]


class OffloadCorollaries(OffloadActions, abstract=True):
    """What is refused while copies are in flight, and what can always go on."""

    # -------------------------------------------------------------------------------- what can always go on

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

    @corollary("P6")
    def a_step_is_processed_where_one_is_under_way(self, b: Block) -> Bool:
        """Whoever holds the block by then."""
        return iff(can(self.process, b), self.computing[b])

    @corollary("O3, O4, O9")
    def what_is_computed_can_be_offered(self, r: Request) -> Bool:
        """In eager mode, block after block; whether or not there is anything to store, or room for it."""
        is_there = exists(Block, lambda b: (self.table[r, self.offered[r]] == b) & ~self.computing[b])
        is_left = self.offered[r] < self.length[r]
        return iff(can(self.offer, r), all_of(~self.lazy.value, self.running[r], is_left, is_there))

    @corollary("O3, O4")
    def a_scan_comes_to_the_first_that_is_missing(self, b: Block, h: Hash) -> Bool:
        """In lazy mode, of the free blocks; and to none while the host has no room."""
        is_missing = self.free.has(b) & self._is_worth_storing(b, h)
        is_sooner = exists(Block, Hash, lambda a, g: self.free.before(a, b) & self._is_worth_storing(a, g))
        has_room = ~self.host_free.is_empty()
        return iff(can(self.scan, b, h), all_of(self.lazy.value, is_missing, ~is_sooner, has_room))

    @corollary("O2")
    def each_slot_of_a_store_is_copied_once(self, c: HostBlock, s: Slot) -> Bool:
        """By the worker that owns it, before it reports."""
        return iff(can(self.copy_out, c, s), self.storing[c, self.owner[s]] & ~self.stored_slot[c, s])

    @corollary("O2, O7, O8")
    def a_store_is_reported_by_who_has_copied(self, c: HostBlock, w: Worker, ok: Bool) -> Bool:
        """Once by each worker: a good report when all its slots are copied, a bad one at any time."""
        has_all = forall(Slot, lambda s: (self.owner[s] != w) | self.stored_slot[c, s])
        return iff(can(self.report_store, c, w, ok), self.storing[c, w] & (~ok | has_all))

    @corollary("O5, O6")
    def whoever_is_inside_can_look_on_the_host(self, r: Request) -> Bool:
        """As often as it likes, where there is a cache."""
        return iff(can(self.look, r), self.running[r] & self.caching.value)

    @corollary("O5")
    def who_holds_a_pin_can_let_go(self, r: Request) -> Bool:
        """And who holds none has nothing to let go."""
        return iff(can(self.unpin, r), exists(Position, HostBlock, lambda k, c: self.pins[r, k] == c))

    @corollary("O5, O2, P7")
    def what_is_pinned_can_be_loaded(self, r: Request, k: Position) -> Bool:
        """As much of it as there is room for, on the device and in the table; but not nothing."""
        start = self.length[r]
        fits = (start + k + 1 <= self.need[r]) & (k + 1 <= self._room())
        is_missing = exists(Position, lambda i: (start <= i) & (i <= start + k) & (self.pins[r, i] == none))
        return iff(can(self.load, r, k + 1), all_of(self.running[r], fits, ~is_missing)) & ~can(self.load, r, 0)

    @corollary("O2, P6")
    def each_slot_of_a_load_is_copied_once(self, b: Block, s: Slot) -> Bool:
        """By the worker that owns it, before it reports, and not under a step."""
        waits = self.loading[b, self.owner[s]] & ~self.loaded_slot[b, s]
        return iff(can(self.copy_in, b, s), waits & ~self.computing[b])

    @corollary("O2, O7, O11")
    def a_load_is_reported_by_who_has_copied(self, b: Block, w: Worker, ok: Bool) -> Bool:
        """Once by each worker; the last report of one that failed is another matter."""
        is_good = ok & ~self.load_failed[b]
        is_missed = exists(Worker, lambda v: (v != w) & self.loading[b, v])
        return iff(can(self.report_load, b, w, ok), self._may_report_load(b, w, ok) & (is_good | is_missed))

    @corollary("O8, O11")
    def a_load_that_failed_ends_for_who_waits(self, r: Request, i: Position, w: Worker, ok: Bool) -> Bool:
        """With the last report, at each position where its block stands."""
        fails = exists(Block, lambda b: (self.table[r, i] == b) & self._fails(b, w, ok))
        return iff(can(self.fail_load, r, i, w, ok), fails)

    @corollary("O8, O11")
    def a_load_that_failed_ends_for_nobody(self, b: Block, w: Worker, ok: Bool) -> Bool:
        """With the last report, where its block stands in no table any more."""
        return iff(can(self.fail_abandoned_load, b, w, ok), self._fails(b, w, ok) & (self.holders[b] == 0))

    def _may_report_load(self, b: Block, w: Worker, ok: Bool) -> Bool:
        """The worker has its part before it, or has copied it and says so, and no step is under way."""
        has_all = forall(Slot, lambda s: (self.owner[s] != w) | self.loaded_slot[b, s])
        return all_of(self.loading[b, w], ~self.computing[b], ~ok | has_all)

    def _fails(self, b: Block, w: Worker, ok: Bool) -> Bool:
        """This would be the last report of the load, and some part of it failed."""
        is_last = ~exists(Worker, lambda v: (v != w) & self.loading[b, v])
        return all_of(self._may_report_load(b, w, ok), is_last, self.load_failed[b] | ~ok)
