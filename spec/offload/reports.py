"""Machine O as its workers are heard: each report names a transfer by its number, and may come late, or twice (O7).

Machine O says when a report is awaited. Workers talk by messages, and these may be repeated or overtaken: a report may
come once more when its transfer has ended, and when the same blocks are copied again for something else. So here the
scheduler gives every transfer a number when it sends it to the workers, no number twice, and any report of a number
that was sent can be heard at any moment. It counts if that worker's part of that transfer is still awaited; otherwise
nothing changes, and its result is false.
"""

from __future__ import annotations

from typing import Self

from ...machine import (
    Bool,
    Index,
    Int,
    Map,
    Scalar,
    action,
    all_of,
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
from ..pool import Block, Hash, Position, Request, Slot
from . import HostBlock, Offload, Worker
from .steps import BESIDE_TABLES

__all__ = ["Number", "Reports"]


class Number(Index):
    """What workers call a transfer. No two transfers have the same."""


class Reports(Offload):
    """Asynchronous offload, and reports that may be stale or repeated."""

    # -------------------------------------------------------------------------------- state

    issued = Scalar(to=Int)
    """How many transfers were sent to the workers; the next number."""

    store_to = Map(Number, to=optional(HostBlock))
    """The host block to which the store of that number goes, or went."""

    load_to = Map(Number, to=optional(Block))
    """The device block to which the load of that number goes, or went."""

    store_number = Map(HostBlock, to=optional(Number))
    """The number of the store in flight to this host block, once it is sent."""

    load_number = Map(Block, to=optional(Number))
    """The number of the load in flight to this block, once it is sent."""

    # -------------------------------------------------------------------------------- sending

    @action("O7")
    def send_store(self, c: HostBlock, t: Number) -> None:
        """Workers are told to copy to this host block."""
        self.require(t == self.issued.value)
        self.require(self.source[c] != none)
        self.require(self.store_number[c] == none)
        self.issued.value = t + 1
        self.store_to[t] = c
        self.store_number[c] = t

    @action("O7")
    def send_load(self, b: Block, t: Number) -> None:
        """Workers are told to copy to this block."""
        self.require(t == self.issued.value)
        self.require(self.origin[b] != none)
        self.require(self.load_number[b] == none)
        self.issued.value = t + 1
        self.load_to[t] = b
        self.load_number[b] = t

    def _end_store(self, c: HostBlock) -> None:
        """Its number is nobody's any more."""
        super()._end_store(c)
        self.store_number[c] = none

    def _end_load(self, b: Block) -> None:
        """Its number is nobody's any more."""
        super()._end_load(b)
        self.load_number[b] = none

    # -------------------------------------------------------------------------------- hearing

    @action("O7, O8")
    def hear_store(self, t: Number, w: Worker, ok: Bool) -> Bool:
        """A worker says that it is done with a store; true if that was awaited."""
        c = self.store_to[t]
        self.require(c != none)
        counts = self._awaits_store(c, t, w)
        self.require(forall(Slot, lambda s: implies(counts & ok & (self.owner[s] == w), self.stored_slot[c, s])))
        with when(counts):
            self._end_part_of_store(c, w, ok)
        return counts

    @action("O7, O8")
    def hear_load(self, t: Number, w: Worker, ok: Bool) -> Bool:
        """A worker says that it is done with a load; true if that was awaited.

        The last report of a load of which some part failed stays the other two actions that it is in machine O.
        """
        b = self.load_to[t]
        self.require(b != none)
        counts = self._awaits_load(b, t, w)
        self.require(forall(Slot, lambda s: implies(counts & ok & (self.owner[s] == w), self.loaded_slot[b, s])))
        self.require(implies(counts, ~self.computing[b]))
        self.require(implies(counts & self._is_last_of_load(b, w), ok & ~self.load_failed[b]))
        with when(counts):
            self._end_part_of_load(b, w, ok)
        return counts

    def _awaits_store(self, c: HostBlock, t: Number, w: Worker) -> Bool:
        """The store in flight to this host block has that number, and the worker has yet to report its part."""
        return (self.store_number[c] == t) & self.storing[c, w]

    def _awaits_load(self, b: Block, t: Number, w: Worker) -> Bool:
        """The load in flight to this block has that number, and the worker has yet to report its part."""
        return (self.load_number[b] == t) & self.loading[b, w]

    # -------------------------------------------------------------------------------- what always holds

    @invariant("O7")
    def a_number_is_of_one_transfer(self, t: Number, c: HostBlock, b: Block) -> Bool:
        """The one for which it was given, as long as that is in flight."""
        return all_of(
            implies(self.store_number[c] == t, self.store_to[t] == c),
            implies(self.load_number[b] == t, self.load_to[t] == b),
            implies(self.store_number[c] != none, self.source[c] != none),
            implies(self.load_number[b] != none, self.origin[b] != none),
            (self.store_to[t] == none) | (self.load_to[t] == none),
        )

    @invariant("O7")
    def numbers_are_given_in_order(self, t: Number) -> Bool:
        """So none is given twice."""
        return iff(t < self.issued.value, (self.store_to[t] != none) | (self.load_to[t] != none))

    # -------------------------------------------------------------------------------- what is heard, and what is not

    @step("O7, O8", of=("hear_store", "hear_load"))
    def what_nobody_waits_for_changes_nothing(
        self,
        before: Self,
        result: Bool,
        r: Request,
        i: Position,
        s: Slot,
        b: Block,
        a: Block,
        c: HostBlock,
        d: HostBlock,
        h: Hash,
    ) -> Bool:
        """Nothing is held or let go, found or forgotten, on either tier, and every transfer stands where it stood."""
        return implies(
            ~result,
            all_of(
                self._stands_as_before(before, r, i, s),
                self._store_is_as_it_was(before, c) & self._load_is_as_it_was(before, b),
                (self.store_number[c] == before.store_number[c]) & (self.load_number[b] == before.load_number[b]),
                (self.ref_cnt[b] == before.ref_cnt[b]) & (self.host_ref_cnt[c] == before.host_ref_cnt[c]),
                iff(self.free.has(b), before.free.has(b)) & iff(self.free.before(a, b), before.free.before(a, b)),
                iff(self.host_free.has(c), before.host_free.has(c)),
                iff(self.host_free.before(c, d), before.host_free.before(c, d)),
                iff(self.hashes[b, h], before.hashes[b, h]) & iff(self.host_hashes[c, h], before.host_hashes[c, h]),
                iff(self.announced[h], before.announced[h]) & iff(self.host_announced[h], before.host_announced[h]),
            ),
        )

    @step("O7", of="hear_store")
    def a_part_of_a_store_is_heard_once(self, before: Self, t: Number, w: Worker, result: Bool, c: HostBlock) -> Bool:
        """While that store is in flight and the worker has not reported; never again after that."""
        is_it = before.store_to[t] == c
        return all_of(
            implies(is_it, iff(result, before._awaits_store(c, t, w))),
            ~self._awaits_store(c, t, w),
        )

    @step("O7", of="hear_load")
    def a_part_of_a_load_is_heard_once(self, before: Self, t: Number, w: Worker, result: Bool, b: Block) -> Bool:
        """While that load is in flight and the worker has not reported; never again after that."""
        is_it = before.load_to[t] == b
        return all_of(
            implies(is_it, iff(result, before._awaits_load(b, t, w))),
            ~self._awaits_load(b, t, w),
        )

    @step("O2, O7, O9", of="hear_store")
    def a_store_is_heard_as_it_is_reported(
        self, before: Self, t: Number, w: Worker, ok: Bool, result: Bool, c: HostBlock, v: Worker, g: Hash, s: Slot
    ) -> Bool:
        """It ends with the last part, and can be found if all were good; until then what was copied stays so.

        No other changes.
        """
        is_it = result & (before.store_to[t] == c)
        ends = before._ends_store(c, w)
        is_new = all_of(is_it, ends, ok & ~before.store_failed[c], before.named[c] == g)
        goes_on = all_of(
            (self.source[c] == before.source[c]) & (self.named[c] == before.named[c]),
            iff(self.store_failed[c], before.store_failed[c] | ~ok),
            iff(self.stored_slot[c, s], before.stored_slot[c, s]),
        )
        return all_of(
            implies(~is_it, self._store_is_as_it_was(before, c)),
            implies(is_it, iff(self.storing[c, v], before.storing[c, v] & (v != w))),
            implies(is_it, ite(ends, (self.source[c] == none) & (self.named[c] == none), goes_on)),
            iff(self.host_hashes[c, g], before.host_hashes[c, g] | is_new),
        )

    @step("O2, O7", of="hear_load")
    def a_load_is_heard_as_it_is_reported(
        self, before: Self, t: Number, w: Worker, ok: Bool, result: Bool, b: Block, v: Worker, s: Slot
    ) -> Bool:
        """It ends with the last part, if all were good; until then what was brought stays so. No other changes."""
        is_it = result & (before.load_to[t] == b)
        goes_on = all_of(
            (self.origin[b] == before.origin[b]) & (self.wanted[b] == before.wanted[b]),
            iff(self.load_failed[b], before.load_failed[b] | ~ok),
            iff(self.loaded_slot[b, s], before.loaded_slot[b, s]),
        )
        return all_of(
            implies(~is_it, self._load_is_as_it_was(before, b)),
            implies(is_it, iff(self.loading[b, v], before.loading[b, v] & (v != w))),
            implies(is_it, ite(before._ends_load(b, w), self.origin[b] == none, goes_on)),
        )

    @step("O2, O7", of="hear_load")
    def what_is_heard_to_have_come_can_be_relied_on(
        self, before: Self, t: Number, w: Worker, result: Bool, b: Block, r: Request, i: Position, s: Slot, h: Hash
    ) -> Bool:
        """By who holds the block, from the end of its load on."""
        has_come = all_of(result, before.load_to[t] == b, before._ends_load(b, w))
        is_here = self.table[r, i] == b
        return all_of(
            implies(has_come & is_here & (before.wanted[b] == h), self.expects[r, i, s] == self.kv[h, s]),
            implies(~has_come & is_here, self.expects[r, i, s] == before.expects[r, i, s]),
        )

    # -------------------------------------------------------------------------------- numbers

    @step("O7", of=("send_store", "send_load"))
    def a_transfer_is_sent_under_a_new_number(self, before: Self, t: Number, u: Number) -> Bool:
        """The next one; what older ones mean stays."""
        was_given = (before.store_to[t] != none) | (before.load_to[t] != none)
        is_given = (self.store_to[t] != none) | (self.load_to[t] != none)
        stays = (self.store_to[u] == before.store_to[u]) & (self.load_to[u] == before.load_to[u])
        return all_of(
            ~was_given & is_given & (t == before.issued.value) & (self.issued.value == t + 1),
            implies(u != t, stays),
        )

    @step("O7", of="send_store")
    def a_store_is_sent_once(self, before: Self, c: HostBlock, t: Number, d: HostBlock) -> Bool:
        """While it is in flight; from then on it has its number."""
        return all_of(
            (before.source[c] != none) & (before.store_number[c] == none) & (self.store_number[c] == t),
            (d == c) | (self.store_number[d] == before.store_number[d]),
        )

    @step("O7", of="send_load")
    def a_load_is_sent_once(self, before: Self, b: Block, t: Number, a: Block) -> Bool:
        """While it is in flight; from then on it has its number."""
        return all_of(
            (before.origin[b] != none) & (before.load_number[b] == none) & (self.load_number[b] == t),
            (a == b) | (self.load_number[a] == before.load_number[a]),
        )

    @step("O7", unless=("send_store", "send_load"))
    def numbers_stay(self, before: Self, t: Number) -> Bool:
        """Whatever else happens no number is given, and none means anything else."""
        return all_of(
            self.issued.value == before.issued.value,
            (self.store_to[t] == before.store_to[t]) & (self.load_to[t] == before.load_to[t]),
        )

    @step("O7", unless="send_store")
    def a_store_keeps_its_number_to_its_end(self, before: Self, c: HostBlock) -> Bool:
        """As long as it is in flight; one that begins has none before it is sent."""
        stays = (before.source[c] != none) & (self.source[c] != none)
        number, was = self.store_number[c], before.store_number[c]
        return implies(stays, number == was) & implies(~stays, number == none)

    @step("O7", unless="send_load")
    def a_load_keeps_its_number_to_its_end(self, before: Self, b: Block) -> Bool:
        """As long as it is in flight; one that begins has none before it is sent."""
        stays = (before.origin[b] != none) & (self.origin[b] != none)
        number, was = self.load_number[b], before.load_number[b]
        return implies(stays, number == was) & implies(~stays, number == none)

    # -------------------------------------------------------------------------------- what O says of its own actions

    @step("O2, O8", unless=("offer", "scan", "copy_out", "report_store", "hear_store"))
    def stores_go_on(self, before: Self, c: HostBlock) -> Bool:
        """As in O."""
        return super().stores_go_on(before, c)

    @step("O2, O8", unless=("load", "copy_in", "report_load", "fail_load", "fail_abandoned_load", "hear_load"))
    def loads_go_on(self, before: Self, b: Block) -> Bool:
        """As in O."""
        return super().loads_go_on(before, b)

    @step("O7", of=("report_store", "report_load", "fail_load", "fail_abandoned_load", "hear_store", "hear_load"))
    def a_transfer_ends_once(self, before: Self) -> Bool:
        """As in O."""
        return super().a_transfer_ends_once(before)

    @step("O2, P10", of=("report_store", "report_load", "fail_load", "fail_abandoned_load", "hear_store", "hear_load"))
    def a_block_that_a_transfer_held_goes_where_the_dialect_says(self, before: Self, b: Block, c: Block) -> Bool:
        """As in O."""
        return super().a_block_that_a_transfer_held_goes_where_the_dialect_says(before, b, c)

    @step("O7, O8", of=(*BESIDE_TABLES, "send_store", "send_load", "hear_store", "hear_load"))
    def transfers_leave_tables_alone(self, before: Self, r: Request, i: Position) -> Bool:
        """As in O; nor does it matter to them what is sent and heard."""
        return super().transfers_leave_tables_alone(before, r, i)

    @step("O1, P5", unless=("offer", "scan", "report_store", "reset", "hear_store"))
    def what_is_found_on_the_host_stays(self, before: Self, c: HostBlock, h: Hash) -> Bool:
        """As in O."""
        return super().what_is_found_on_the_host_stays(before, c, h)

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
            "hear_load",
        ),
    )
    def nothing_else_changes_a_table(self, before: Self, r: Request, i: Position, s: Slot) -> Bool:
        """As in O."""
        return super().nothing_else_changes_a_table(before, r, i, s)

    # -------------------------------------------------------------------------------- what is possible, and when

    @corollary("O7")
    def what_is_in_flight_can_be_sent_once(self, c: HostBlock, b: Block, t: Number) -> Bool:
        """Under the next number."""
        is_next = t == self.issued.value
        return all_of(
            iff(can(self.send_store, c, t), is_next & (self.source[c] != none) & (self.store_number[c] == none)),
            iff(can(self.send_load, b, t), is_next & (self.origin[b] != none) & (self.load_number[b] == none)),
        )

    @corollary("O7, O8")
    def a_report_of_a_store_can_always_be_heard(self, t: Number, w: Worker, ok: Bool) -> Bool:
        """Where that was sent; only what is awaited has to be true."""
        has_lied = exists(
            HostBlock,
            Slot,
            lambda c, s: all_of(
                self.store_number[c] == t, self.storing[c, w], ok & (self.owner[s] == w), ~self.stored_slot[c, s]
            ),
        )
        return iff(can(self.hear_store, t, w, ok), (self.store_to[t] != none) & ~has_lied)

    @corollary("O7, O8")
    def a_report_of_a_load_can_be_heard(self, t: Number, w: Worker, ok: Bool) -> Bool:
        """Where that was sent: what is awaited as machine O says, and what is not at any moment."""
        is_early = exists(
            Block,
            lambda b: all_of(self.load_number[b] == t, self.loading[b, w], ~can(self.report_load, b, w, ok)),
        )
        return iff(can(self.hear_load, t, w, ok), (self.load_to[t] != none) & ~is_early)

    # -------------------------------------------------------------------------------- what must be reachable

    @sometimes("O7")
    def an_old_report_names_a_host_block_that_is_filled_again(self, t: Number, c: HostBlock) -> Bool:
        """The store that was sent under the number has ended, and another one has been sent to the same host block."""
        return all_of(self.store_to[t] == c, self.store_number[c] != none, self.store_number[c] != t)

    @sometimes("O7")
    def an_old_report_names_a_block_that_is_in_use(self, t: Number, b: Block, r: Request, i: Position) -> Bool:
        """The load that was sent under the number has ended, and a request goes on with what it brought."""
        return all_of(self.load_to[t] == b, self.load_number[b] == none, self.table[r, i] == b)
