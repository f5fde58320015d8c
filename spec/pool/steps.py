"""The properties of steps of Pool (machine P): what each action must do, and what it must not touch."""

from __future__ import annotations

from typing import Self

from ...machine import Bool, Int, all_of, forall, iff, implies, ite, none, step
from .actions import PoolActions
from .state import Block, Content, Hash, Position, Request, Slot

__all__ = ["PoolSteps"]


class PoolSteps(PoolActions, abstract=True):
    """What each action of a pool is for, and what it leaves alone."""

    @step("P7", of="allocate")
    def allocation_takes_the_head_in_order(self, before: Self, r: Request, n: Int) -> Bool:
        """Exactly the n first blocks of the queue, in order, without hashes; the rest of the queue is as it was."""
        return all_of(
            self.length[r] == before.length[r] + n,
            self._room() == before._room() - n,
            *self._taken_from_the_head(before, r).values(),
        )

    # What every action does for the requests, and what it leaves alone.
    @step("P15, L1", of=("admit", "finish", "preempt"))
    def others_stay_inside_or_outside(self, before: Self, r: Request, q: Request) -> Bool:
        """Who comes or goes does so alone."""
        return implies(q != r, iff(self.running[q], before.running[q]))

    @step("P15, L1", unless=("admit", "finish", "preempt"))
    def nobody_else_comes_or_goes(self, before: Self, r: Request) -> Bool:
        """A request stays inside, or outside."""
        return iff(self.running[r], before.running[r])

    @step("P15, L1", of="admit")
    def who_is_admitted_runs(self, before: Self, r: Request) -> Bool:  # noqa: ARG002
        """From now on it can look up, allocate, and finish."""
        return self.running[r]

    @step("P9, L2", of=("finish", "preempt"))
    def who_leaves_holds_nothing(self, before: Self, r: Request) -> Bool:  # noqa: ARG002
        """It is outside, and its table is empty."""
        return ~self.running[r] & (self.length[r] == 0)

    @step("P9", of="trim")
    def a_table_is_cut_where_it_is_wanted(self, before: Self, r: Request, n: Int) -> Bool:
        """The last n entries are gone."""
        return self.length[r] == before.length[r] - n

    @step("P4", of="skip")
    def a_skipped_position_is_null(self, before: Self, r: Request, i: Position) -> Bool:
        """The table is longer by one, and the null block stands there."""
        return (self.length[r] == before.length[r] + 1) & implies(
            i == before.length[r], self.table[r, i] == self.null.value
        )

    @step("P2, P6", of=("hit", "allocate", "skip", "trim", "finish", "preempt"))
    def a_table_changes_at_its_end(self, before: Self, r: Request, q: Request, i: Position, s: Slot) -> Bool:
        """What stood there and is still within it is as it was, with all that is known of it; so are other tables."""
        stays = (q != r) | ((i < before.length[r]) & (i < self.length[r]))
        return implies(stays, self._stands_as_before(before, q, i, s))

    @step("P2, P6", unless=("hit", "allocate", "skip", "write", "register", "trim", "finish", "preempt"))
    def nothing_else_changes_a_table(self, before: Self, r: Request, i: Position, s: Slot) -> Bool:
        """Nor what a request relies on in it."""
        return self._stands_as_before(before, r, i, s)

    @step("P6, P7", of=("allocate", "skip"))
    def nothing_is_known_of_what_is_taken(self, before: Self, r: Request, i: Position, s: Slot) -> Bool:
        """A new entry is filed under no hash, and relied on for nothing; what was known of others still is."""
        return (self.filed[r, i] == before.filed[r, i]) & (self.expects[r, i, s] == before.expects[r, i, s])

    # What every action does to content and hashes.
    @step("P6", of="write")
    def a_write_fills_one_slot(
        self, before: Self, r: Request, i: Position, s: Slot, c: Content, b: Block, t: Slot, q: Request, k: Position
    ) -> Bool:
        """The slot of the block at this position holds the content, and the request relies on it."""
        is_here, is_own = (b == before.table[r, i]) & (t == s), (q == r) & (k == i) & (t == s)
        return all_of(
            self.content[b, t] == ite(is_here, c, before.content[b, t]),
            self.expects[q, k, t] == ite(is_own, c, before.expects[q, k, t]),
            self.table[q, k] == before.table[q, k],
            self.filed[q, k] == before.filed[q, k],
        )

    @step("P6", unless="write")
    def nothing_else_is_written(self, before: Self, b: Block, s: Slot) -> Bool:
        """Content stays where it is, above all when its block changes hands."""
        return self.content[b, s] == before.content[b, s]

    @step("P5", of="register")
    def a_registered_block_is_found_last(
        self, before: Self, r: Request, i: Position, h: Hash, b: Block, g: Hash
    ) -> Bool:
        """The block carries one more hash, and stands behind those that carried it already."""
        own = before.table[r, i]
        return all_of(
            iff(self.hashes[b, g], before.hashes[b, g] | ((b == own) & (g == h))),
            implies(before.cached[h].has(b), self.cached[h].before(b, own)),
        )

    @step("P12", of="register")
    def what_is_registered_was_reported(self, before: Self, h: Hash, g: Hash) -> Bool:
        """Some time, by this block or an earlier one; nothing else is."""
        return iff(self.reported[g], before.reported[g] | (g == h))

    @step("P12", unless="register")
    def nothing_else_is_reported(self, before: Self, h: Hash) -> Bool:
        """As stored."""
        return iff(self.reported[h], before.reported[h])

    @step("P5, P6", of="register")
    def a_full_block_is_filed(
        self, before: Self, r: Request, i: Position, h: Hash, q: Request, k: Position, s: Slot
    ) -> Bool:
        """The request knows a full block by its hash, and by the first one as long as it can be found under it.

        Tables, and what is relied on in them, are as they were.
        """
        is_full = forall(Slot, lambda t: self.kv[h, t] != none)
        is_new = (q == r) & (k == i) & is_full & ~before._is_filed(r, i)
        return all_of(
            self.table[q, k] == before.table[q, k],
            self.expects[q, k, s] == before.expects[q, k, s],
            self.filed[q, k] == ite(is_new, h, before.filed[q, k]),
        )

    @step("P11", of="evict")
    def an_evicted_block_has_no_hash(self, before: Self, b: Block, c: Block, h: Hash) -> Bool:
        """And every other block has those that it had."""
        return iff(self.hashes[c, h], before.hashes[c, h] & (c != b))

    @step("P11", of="reset")
    def after_a_reset_nothing_is_found(self, before: Self, h: Hash) -> Bool:  # noqa: ARG002
        """No block carries a hash."""
        return self.cached[h].is_empty()

    @step("P5, P11", unless=("allocate", "register", "evict", "reset"))
    def nothing_else_gives_or_takes_a_hash(self, before: Self, b: Block, h: Hash) -> Bool:
        """Above all a block that is given back keeps its hashes."""
        return iff(self.hashes[b, h], before.hashes[b, h])

    @step("P5")
    def who_was_registered_first_is_found_first(self, before: Self) -> Bool:
        """As long as both blocks carry the hash."""
        return self._found_in_order(before)

    # What every action does to the free queue.
    @step("P8, P14", of="hit")
    def what_is_found_is_held(self, before: Self, r: Request, i: Position, s: Slot) -> Bool:
        """The table is the prefix, in blocks that stood first under its hashes."""
        is_first = before.cached[self.prompt[r, i]].is_first(self.table[r, i])
        return implies(i < self.length[r], is_first & self._is_known(r, i, s))

    @step("P14", of="hit")
    def a_lookup_ends_where_it_must(self, before: Self, r: Request) -> Bool:
        """At its limit, or at the first hash that is not cached."""
        end = self.length[r]
        return (end == self.limit[r]) | before.cached[self.prompt[r, end]].is_empty()

    @step("P14", of="hit")
    def a_lookup_returns_what_it_found(self, before: Self, r: Request, result: Int) -> Bool:  # noqa: ARG002
        """So many blocks stand in the table."""
        return result == self.length[r]

    @step("P8", of="hit")
    def a_lookup_leaves_the_rest_of_the_queue(self, before: Self) -> Bool:
        """Who is still free was so, and stands as before."""
        return all_of(*self._only_taken_from(before).values())

    @step("P8, P14", of="hit")
    def a_hit_leaves_something_to_compute(self, before: Self, r: Request) -> Bool:  # noqa: ARG002
        """A lookup returns no more than its limit, and blocks leave the queue only for a holder."""
        return (self.length[r] <= self.limit[r]) & (self.length[r] < self.need[r])

    @step("P9, P10", unless=("hit", "allocate"))
    def the_free_queue_keeps_its_order(self, before: Self, b: Block, c: Block) -> Bool:
        """Who was free stays free, in the same order, whatever is given back."""
        return self._kept_in_order(before)(b, c)

    @step("P9, P10", of=("trim", "finish", "preempt"))
    def released_blocks_go_where_the_dialect_says(self, before: Self, r: Request) -> Bool:
        """To the tail; in the dialect `split` those without a hash to the head. Each run in the order given."""
        return all_of(*self._given_back_in_order(before, r).values())

    @step("P12", unless=("evict", "reset"))
    def a_held_block_keeps_its_hashes(self, before: Self, b: Block, h: Hash) -> Bool:
        """Only evict and reset take hashes from a block that is held."""
        return implies(before.hashes[b, h] & (before.ref_cnt[b] > 0), self.hashes[b, h])

    @step(
        "P2",
        of=("admit", "hit", "allocate", "skip", "write", "register", "trim", "finish", "preempt", "evict", "reset"),
    )
    def requests_lend_nothing(self, before: Self, b: Block) -> Bool:
        """Copies are begun and ended elsewhere; in P itself no block is ever lent."""
        return self.transfers[b] == before.transfers[b]

    @step("L2", of="preempt")
    def leaving_lowers_the_measure(self, before: Self, r: Request) -> Bool:
        """Every release lowers the number of entries by what the request held."""
        return (self.held[r] == 0) & (self.entries.value == before.entries.value - before.held[r])
