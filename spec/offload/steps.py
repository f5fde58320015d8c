"""The properties of steps of Offload (machine O): what each action must do, and what it must not touch."""

from __future__ import annotations

from typing import Self

from ...machine import Bool, all_of, exists, iff, implies, ite, none, step
from ..pool import Block, Hash, Position, Request, Slot
from .actions import OffloadActions
from .state import HostBlock, Worker

__all__ = ["BESIDE_TABLES", "OffloadSteps"]

BESIDE_TABLES = (
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
)
"""The actions of steps and transfers, to which it is no matter what requests hold."""


class OffloadSteps(OffloadActions, abstract=True):
    """What requests and queues may rely on, whatever is in flight."""

    # -------------------------------------------------------------------------------- requests

    @step("O8", of=("finish", "preempt"))
    def who_leaves_holds_nothing_on_either_tier(self, before: Self, r: Request, i: Position) -> Bool:
        """What its transfers hold they go on holding."""
        is_empty = (self.length[r] == 0) & (self.table[r, i] == none) & (self.pins[r, i] == none)
        return all_of(before.running[r], ~self.running[r], is_empty, self.offered[r] == 0)

    @step("O9", of="finish")
    def who_finishes_is_complete(self, before: Self, r: Request, b: Block) -> Bool:
        """Its table is, and all of it is computed."""
        is_processed = implies(exists(Position, lambda i: before.table[r, i] == b), ~before.computing[b])
        return (before.length[r] == self.need[r]) & is_processed

    @step("P6", of="register")
    def what_is_loaded_is_not_registered(self, before: Self, r: Request, i: Position, b: Block) -> Bool:
        """There is nothing yet that a hash could name."""
        return implies(before.table[r, i] == b, before.origin[b] == none)

    @step("P6, P7", of=("allocate", "skip", "load"))
    def nothing_is_known_of_what_is_taken(self, before: Self, r: Request, i: Position, s: Slot) -> Bool:
        """As in P; nor is a block relied on before its load has ended."""
        return super().nothing_is_known_of_what_is_taken(before, r, i, s)

    @step("P6", unless=("write", "process"))
    def nothing_else_is_computed(self, before: Self, b: Block) -> Bool:
        """Steps begin with what they write, and end when they are processed."""
        return iff(self.computing[b], before.computing[b])

    @step("P6", of="write")
    def only_what_is_written_is_being_computed(self, before: Self, r: Request, i: Position, b: Block) -> Bool:
        """Of all other blocks nobody's step begins or ends."""
        return implies(before.table[r, i] != b, iff(self.computing[b], before.computing[b]))

    @step("P6", of="process")
    def only_what_is_processed_is_computed(self, before: Self, b: Block, c: Block) -> Bool:
        """Other steps go on."""
        return implies(c != b, iff(self.computing[c], before.computing[c]))

    @step("O4, O9", of=("offer", "register"))
    def others_were_offered_what_they_were(self, before: Self, r: Request, q: Request) -> Bool:
        """What one request offers, or registers, is nothing of another's."""
        return implies(q != r, self.offered[q] == before.offered[q])

    @step("O2", of="copy_out")
    def a_store_goes_on_slot_by_slot(self, before: Self, c: HostBlock, w: Worker) -> Bool:
        """No part of it is reported by that."""
        return all_of(
            (self.source[c] == before.source[c]) & (self.named[c] == before.named[c]),
            iff(self.store_failed[c], before.store_failed[c]),
            iff(self.storing[c, w], before.storing[c, w]),
        )

    @step("O2, O7", of="report_store")
    def what_was_copied_stays_so(self, before: Self, c: HostBlock, w: Worker, s: Slot) -> Bool:
        """Until the store ends."""
        return implies(~before._ends_store(c, w), iff(self.stored_slot[c, s], before.stored_slot[c, s]))

    @step("O2", of="copy_in")
    def a_load_goes_on_slot_by_slot(self, before: Self, b: Block, w: Worker) -> Bool:
        """Likewise."""
        return all_of(
            (self.origin[b] == before.origin[b]) & (self.wanted[b] == before.wanted[b]),
            iff(self.load_failed[b], before.load_failed[b]),
            iff(self.loading[b, w], before.loading[b, w]),
        )

    @step("P2, P6, O8", of=("load", "fail_load"))
    def a_load_is_of_one_table(self, before: Self, r: Request, q: Request, i: Position, s: Slot) -> Bool:
        """At its end something comes, or goes; all other entries are as they were, and what is relied on in them."""
        stays = (q != r) | ((i < before.length[r]) & (i < self.length[r]))
        return implies(stays, self._stands_as_before(before, q, i, s))

    @step("O2", of="load")
    def a_load_begins_with_nothing(self, before: Self, b: Block, s: Slot) -> Bool:
        """Of what it will bring no slot has been copied."""
        return iff(self.loaded_slot[b, s], before.loaded_slot[b, s])

    @step("O2, O7", of="report_load")
    def what_was_brought_stays_so(self, before: Self, b: Block, w: Worker, s: Slot) -> Bool:
        """Until the load ends."""
        return implies(~before._ends_load(b, w), iff(self.loaded_slot[b, s], before.loaded_slot[b, s]))

    @step("O4, O9", of="register")
    def what_is_found_anew_is_offered_anew(self, before: Self, r: Request, i: Position) -> Bool:
        """From this block on."""
        return self.offered[r] == ite(i < before.offered[r], i, before.offered[r])

    @step("O8", of=BESIDE_TABLES)
    def transfers_leave_tables_alone(self, before: Self, r: Request, i: Position) -> Bool:
        """Who runs, what each holds, and under which hash it was filed."""
        return all_of(
            iff(self.running[r], before.running[r]) & (self.length[r] == before.length[r]),
            (self.table[r, i] == before.table[r, i]) & (self.filed[r, i] == before.filed[r, i]),
        )

    @step("O10", of="reset")
    def reset_empties_both_tiers(self, before: Self, h: Hash, b: Block, c: HostBlock) -> Bool:
        """No hash can be found any more; it is possible only where nobody holds anything."""
        is_idle = (before.ref_cnt[b] == 0) & (before.host_ref_cnt[c] == 0)
        return is_idle & self.cached[h].is_empty() & self.host_cached[h].is_empty()

    # -------------------------------------------------------------------------------- queues

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
    def nothing_else_changes_a_table(self, before: Self, r: Request, i: Position, s: Slot) -> Bool:
        """As in P; beside the request, its loads do."""
        return self._stands_as_before(before, r, i, s)

    @step("P6", unless=("write", "copy_in"))
    def nothing_else_is_written(self, before: Self, b: Block, s: Slot) -> Bool:
        """As in P; beside requests, loads write."""
        return self.content[b, s] == before.content[b, s]

    @step("P5, P11", unless=("allocate", "register", "evict", "reset", "load"))
    def nothing_else_gives_or_takes_a_hash(self, before: Self, b: Block, h: Hash) -> Bool:
        """As in P; a load takes blocks. What it has brought is registered like anything else."""
        return iff(self.hashes[b, h], before.hashes[b, h])

    @step("O1, P9, P10")
    def the_host_queue_keeps_its_order(self, before: Self, c: HostBlock, d: HostBlock) -> Bool:
        """Of blocks that were free and still are."""
        now, then = self.host_free, before.host_free
        stay = now.has(c) & now.has(d) & then.has(c) & then.has(d)
        return implies(stay, iff(now.before(c, d), then.before(c, d)))

    @step("O1, P10")
    def host_blocks_go_where_the_dialect_says(self, before: Self, c: HostBlock, d: HostBlock) -> Bool:
        """When nobody holds them any more: to the tail; in the dialect `split` those without a hash to the head."""
        return self._joins_the_host_queue(before, c, d)

    @step("O5, P10", of=("look", "unpin", "load", "finish", "preempt"))
    def pins_go_last_first(
        self, before: Self, r: Request, i: Position, j: Position, c: HostBlock, d: HostBlock
    ) -> Bool:
        """As the blocks of a table do."""
        return self._unpinned_in_order(before, r)(i, j, c, d)

    @step("O2, P10", of=("report_store", "report_load", "fail_load", "fail_abandoned_load"))
    def a_block_that_a_transfer_held_goes_where_the_dialect_says(self, before: Self, b: Block, c: Block) -> Bool:
        """When nobody else holds it: to the tail; in the dialect `split`, without a hash, to the head.

        Where a load failed, so do those that its table gives back.
        """
        is_new = self.free.has(b) & ~before.free.has(b)
        to_the_head = self._belongs_to_the_head(b)
        return implies(is_new & before.free.has(c), iff(self.free.before(b, c), to_the_head))

    @step("P9, P10", unless=("hit", "allocate", "skip", "load", "scan"))
    def the_free_queue_keeps_its_order(self, before: Self, b: Block, c: Block) -> Bool:
        """As in P; beside requests, loads and scans take from it."""
        return self._kept_in_order(before)(b, c)

    @step("P9, P10", of=("offer", "process", "look", "unpin", "copy_out", "copy_in"))
    def the_device_queue_is_left_alone(self, before: Self, a: Block, b: Block) -> Bool:
        """Nothing on the device becomes free or is taken."""
        return iff(self.free.has(a), before.free.has(a)) & implies(
            self.free.has(a) & self.free.has(b), iff(self.free.before(a, b), before.free.before(a, b))
        )
