"""The invariants of Offload (machine O), and what must be reachable."""

from __future__ import annotations

from ...machine import Bool, all_of, exists, iff, implies, invariant, ite, none, sometimes
from ..pool import Block, Hash, Pool, Position, Request, Slot
from .actions import OffloadActions
from .state import HostBlock, Worker

__all__ = ["OffloadInvariants"]


class OffloadInvariants(OffloadActions, abstract=True):
    """What always holds of both tiers, and of every copy in flight."""

    # -------------------------------------------------------------------------------- the host is a pool

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

    # -------------------------------------------------------------------------------- transfers

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

    @invariant("O2, P12")
    def what_is_stored_was_reported(self, c: HostBlock, h: Hash) -> Bool:
        """Listeners have heard of its hash, of the device, before a store of it begins."""
        return implies(self.named[c] == h, self.reported[h])

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
