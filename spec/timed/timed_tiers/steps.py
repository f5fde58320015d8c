"""The properties of steps of TimedTiers (machine G): what each action must do, and what it must not touch."""

from __future__ import annotations

from typing import Self

from ....machine import Bool, all_of, iff, implies, ite, none, step
from ...pool import Block, Hash, Position, Request
from ...timed.links import Transfer
from .actions import TimedTiersActions

__all__ = ["TimedTiersSteps"]


class TimedTiersSteps(TimedTiersActions, abstract=True):
    """What each action is for, and what it leaves alone."""

    @step("G1", of="complete")
    def only_the_end_of_its_copy_ends_it(self, before: Self, t: Transfer, b: Block) -> Bool:
        """A block that goes down is free when its own transfer ends, and one that comes up is used."""
        was = before.carrier[b]
        return all_of(
            implies(was == t, self.carrier[b] == none),
            implies((was == t) & (before.fetch[b] == none), self.free.has(b)),
            implies((was == t) & (before.fetch[b] != none), self.used[b]),
            implies((was != none) & (was != t), (self.carrier[b] != none) & (self.carrier[b] == was)),
        )

    @step("G1", unless="complete")
    def a_copying_block_stays(self, before: Self, b: Block) -> Bool:
        """Until then nothing happens to it."""
        was = before.carrier[b]
        return implies(was != none, (self.carrier[b] != none) & (self.carrier[b] == was))

    @step("G1", of="allocate")
    def only_free_blocks_are_handed_out(self, before: Self, b: Block, result: Block) -> Bool:
        """One of them, without a name."""
        is_new = self.used[b] & ~before.used[b]
        return iff(is_new, b == result) & implies(is_new, before.free.is_first(b) & (self.holds[b] == none))

    @step("G5", of="register")
    def what_was_computed_can_be_found(self, before: Self, b: Block, h: Hash) -> Bool:
        """In that block, if it was found nowhere else."""
        is_new = before.used[b] & (before.holds[b] == none) & (before.found[h] == none)
        return all_of(is_new, self.found[h] == b, self.holds[b] == h, self.used[b])

    @step("G1", of="release")
    def who_is_let_go_waits_to_be_used_again(self, before: Self, b: Block) -> Bool:
        """What can be found goes behind all that is idle, any other block behind all that is free."""
        is_named = before.holds[b] != none
        return before.used[b] & ~self.used[b] & iff(self.idle.has(b), is_named) & iff(self.free.has(b), ~is_named)

    @step("G5", of="touch")
    def who_is_hit_is_used(self, before: Self, b: Block) -> Bool:
        """And not idle any more."""
        return before.idle.has(b) & self.used[b] & ~self.idle.has(b)

    @step("G1, G4", of="evict")
    def who_is_evicted_goes_down_or_is_free(self, before: Self, b: Block, h: Hash) -> Bool:
        """It joins the open batch, unless the host has what it holds, or gets it, or is none.

        It was not used for longest, and cannot be found any more. What the host has of it counts as used.
        """
        is_spare = before.on_host[h] | before.is_on_its_way(h) | (self.capacity.value == 0)
        goes = ite(is_spare, self.free.has(b) & (self.holds[b] == none), self.gathered.has(b) & (self.holds[b] == h))
        is_used = implies(before.host.has(h), self.host.has(h) & (self.host.tail() == h))
        was_last = before.idle.is_first(b) & ~self.idle.has(b)
        return was_last & implies(before.holds[b] == h, goes & (self.found[h] == none) & is_used)

    @step("G1, G3")
    def queues_are_in_order(self, before: Self, b: Block, c: Block, t: Transfer) -> Bool:
        """Who joins one stands behind all that stood there; nobody else changes places."""
        return all_of(
            self._keep_their_place(before.free, self.free)(b, c),
            self._keep_their_place(before.idle, self.idle)(b, c),
            self._keep_their_place(before.gathered, self.gathered)(b, c),
            self._keep_their_place(before.cargo[t], self.cargo[t])(b, c),
        )

    @step("G5", unless="evict")
    def the_hosts_queue_is_in_order(self, before: Self, g: Hash, h: Hash) -> Bool:
        """What was used joins behind all that stood there."""
        return self._keep_their_place(before.host, self.host)(g, h)

    @step("G5", of="evict")
    def only_what_is_evicted_counts_as_used(self, before: Self, b: Block, g: Hash, h: Hash) -> Bool:
        """On the host the others stand as they stood."""
        is_other = (before.holds[b] != g) & (before.holds[b] != h)
        return implies(is_other, self._keep_their_place(before.host, self.host)(g, h))

    @step("G5", unless=("register", "evict", "complete"))
    def what_is_found_stays(self, before: Self, b: Block, h: Hash) -> Bool:
        """Under its hash, in its block."""
        return (self.found[h] == before.found[h]) & (self.holds[b] == before.holds[b])

    @step("G5", of=("register", "evict"))
    def what_others_hold_stays(self, before: Self, b: Block, c: Block) -> Bool:
        """Only the block that the action names gets a name, or loses it."""
        return (c == b) | (self.holds[c] == before.holds[c])

    @step("G6", unless="complete")
    def nothing_lands_before_its_copy_ends(self, before: Self, h: Hash) -> Bool:
        """Nor does anything leave the host."""
        return iff(self.on_host[h], before.on_host[h])

    @step("G1", unless=("allocate", "release", "touch", "complete"))
    def who_is_used_stays_so(self, before: Self, b: Block) -> Bool:
        """Until it is released."""
        return iff(self.used[b], before.used[b])

    @step("G1", of=("release", "touch"))
    def others_are_used_as_before(self, before: Self, b: Block, c: Block) -> Bool:
        """It concerns the block that it names."""
        return (c == b) | iff(self.used[c], before.used[c])

    @step("G5", unless=("swap_in", "complete"))
    def who_waits_goes_on_waiting(self, before: Self, r: Request, b: Block) -> Bool:
        """For the same transfer, which brings the same; and nobody else is told that it may go on."""
        is_same = (self.waits[r] == before.waits[r]) & (self.fetch[b] == before.fetch[b])
        return is_same & (self.promotions.total == before.promotions.total)

    @step("G5", unless="swap_in")
    def a_transfer_serves_for_good(self, before: Self, t: Transfer) -> Bool:
        """The request for which it began, or none."""
        return self.serves[t] == before.serves[t]

    @step("G3", unless=("start", "ship", "swap_in"))
    def nothing_else_begins(self, before: Self) -> Bool:
        """As on any link; here batches and swap-ins begin copies."""
        return super().nothing_else_begins(before)

    @step("G3", of=("start", "ship", "swap_in"))
    def who_begins_takes_the_next_id(self, before: Self, t: Transfer) -> Bool:
        """As on any link."""
        return super().who_begins_takes_the_next_id(before, t)

    @step("G4", of="ship")
    def a_batch_is_one_transfer(self, before: Self, t: Transfer, b: Block, c: Block) -> Bool:
        """All of it, in order, with its bytes, on the way down; and no more than a batch."""
        count = before.gathered.size
        return all_of(
            iff(before.gathered.has(b), self.carrier[b] == t),
            implies(before.gathered.before(b, c), self.cargo[t].before(b, c)),
            self.gathered.is_empty(),
            (self.cargo[t].size == count) & (count >= 1) & (count <= self.batch.value),
            self.begun[t] == before.now.value,
            self.size[t] == self.block_bytes.value * count,
            self.link[t] == self.down.value,
        )

    @step("G5", of="swap_in")
    def a_swap_in_is_one_transfer(self, before: Self, r: Request, t: Transfer, p: Position, e: Position) -> Bool:
        """So many free blocks are taken as it brings up, and so many bytes."""
        count = e - p
        return all_of(
            self.cargo[t].size == count,
            self.free.size == before.free.size - count,
            self.size[t] == self.block_bytes.value * count,
            self.link[t] == self.up.value,
            self.begun[t] == before.now.value,
            self.waits[r] == t,
        )

    @step("G5", of="swap_in")
    def a_swap_in_covers_the_contiguous_hits(
        self, before: Self, r: Request, p: Position, e: Position, i: Position
    ) -> Bool:
        """From the first device miss to the first host miss, or as far as there are free blocks."""
        return all_of(
            implies(i < p, before._is_on_device(r, i)) & ~before._is_on_device(r, p),
            implies((p <= i) & (i < e), before._is_on_host(r, i)),
            ~before._is_on_host(r, e) | (e - p == before.free.size),
        )

    @step("G5", of="swap_in")
    def a_swap_in_brings_exactly_these(
        self, before: Self, r: Request, t: Transfer, p: Position, e: Position, i: Position, b: Block, c: Block
    ) -> Bool:
        """Each of them, and nothing else, to the blocks at the head of the free queue, in order."""
        return all_of(
            implies((p <= i) & (i < e), self._comes_up(r, i, t)),
            self._was_asked_for(r, p, e, b, t),
            self._moved_in_order(before.free, self.free, t)(b, c),
            implies(before.fetch[b] != none, self.fetch[b] == before.fetch[b]),
        )

    @step("G5", of="swap_in")
    def a_request_waits_for_its_own(self, before: Self, r: Request, t: Transfer, q: Request, u: Transfer) -> Bool:
        """It did not wait before; others wait for what they did, and nobody is told that it may go on."""
        are_others = all_of(
            implies(q != r, self.waits[q] == before.waits[q]),
            implies(u != t, self.serves[u] == before.serves[u]),
            self.promotions.total == before.promotions.total,
        )
        return all_of(before.waits[r] == none, self.serves[t] == r, are_others)

    @step("G4, G5, G6", of="complete")
    def what_was_shipped_lands(self, before: Self, t: Transfer, b: Block, h: Hash) -> Bool:
        """A full host gives up what was not used for longest, and where all it has is being read, nothing lands.

        A batch that is larger than what the host can give up pushes out its own first blocks.
        """
        goes_down = before.cargo[t].has(b) & (before.fetch[b] == none) & (before.holds[b] == h)
        is_stuck = (before.on_host_now.value == before.capacity.value) & before.host.is_empty()
        is_last = before.cargo[t].has(b) & (before.cargo[t].tail() == b)
        return all_of(
            implies(goes_down & is_last & ~is_stuck, self.on_host[h]),
            implies(goes_down & ~self.on_host[h], self.on_host_now.value == self.capacity.value),
            implies(goes_down, self.holds[b] == none),
        )

    @step("G4, G5, G6", of="complete")
    def copies_land_in_order(self, before: Self, t: Transfer) -> Bool:
        """Where everything stands when a transfer has ended."""
        return all_of(*self._landed_so_far(before, t).values())

    @step("G5", of="complete")
    def a_request_is_promoted_once(self, before: Self, t: Transfer, r: Request) -> Bool:
        """When its own transfer ends; who waits for another goes on waiting."""
        told = self.promotions.total - before.promotions.total
        return all_of(
            implies(before.serves[t] != none, told == 1) & implies(before.serves[t] == none, told == 0),
            implies(before.waits[r] == t, (self.waits[r] == none) & (told == 1)),
            implies(before.waits[r] != t, self.waits[r] == before.waits[r]),
        )
