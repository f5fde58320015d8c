"""What each action of a prefix tree does, and what it leaves alone."""

from __future__ import annotations

from typing import Self

from ...machine import Bool, Int, all_of, exists, forall, iff, implies, ite, none, sometimes, step
from . import facts
from .invariants import TreeInvariants
from .sorts import Page, Position, Prefix, Request, Slot

__all__ = ["TreeSteps"]


class TreeSteps(TreeInvariants, abstract=True):
    """The prefix tree over its allocator (machine R)."""

    # -------------------------------------------------------------------------------- who is inside

    @step("L1", of="admit")
    def who_is_admitted_runs(self, before: Self, r: Request, q: Request) -> Bool:
        """And nobody else comes or goes."""
        return iff(self.running[q], before.running[q] | (q == r))

    @step("R7", of="leave")
    def who_leaves_has_nothing(self, before: Self, r: Request, q: Request) -> Bool:
        """It is outside, and its table is empty; nobody else comes or goes."""
        return all_of(
            iff(self.running[q], before.running[q] & (q != r)),
            (self.length[r] == 0) & (self.held[r] == 0),
        )

    @step("L1", unless=("admit", "leave"))
    def nobody_else_comes_or_goes(self, before: Self, r: Request) -> Bool:
        """A request stays inside, or outside."""
        return iff(self.running[r], before.running[r])

    # -------------------------------------------------------------------------------- a match

    @step("R4", of=("look", "hit"))
    def a_match_is_the_longest(self, before: Self, r: Request, result: Int, i: Position) -> Bool:
        """It ends at its limit, or at the first page that is not cached, and not before."""
        ends = (result == self.limit[r]) | forall(
            Position, lambda k: implies(k == result, before.page[self.path[r, k]] == none)
        )
        is_found = before.page[self.path[r, i]] != none
        return all_of((result >= 0) & (result <= self.limit[r]), implies(i < result, is_found), ends)

    @step("R4", of="hit")
    def what_is_matched_is_held(self, before: Self, r: Request, result: Int, i: Position) -> Bool:
        """The table is what the tree has."""
        is_all = (self.length[r] == result) & (self.held[r] == result)
        return is_all & implies(i < result, self.table[r, i] == before.page[self.path[r, i]])

    @step("R4", of="look")
    def a_look_holds_nothing(self, before: Self, r: Request, a: Prefix) -> Bool:
        """Its table is empty, and all locks are as they were."""
        return (self.length[r] == 0) & (self.held[r] == 0) & (self.lock[a] == before.lock[a])

    @step("R4", of=("look", "hit"))
    def a_node_is_split_where_the_match_ends(self, before: Self, r: Request, result: Int, a: Prefix) -> Bool:
        """There, and nowhere else."""
        is_end = exists(Position, lambda k: (k + 1 == result) & (self.path[r, k] == a))
        return iff(self.cut[a], before.cut[a] | is_end)

    @step("R4", of=("look", "hit", "allocate", "write", "leave", "admit"))
    def the_tree_keeps_what_it_has(self, before: Self, a: Prefix) -> Bool:
        """Neither a match, nor a split, nor what requests do with their own pages, adds or removes anything."""
        return self.page[a] == before.page[a]

    @step("R4", of="look")
    def what_is_looked_at_counts_as_used(self, before: Self, r: Request, result: Int, a: Prefix, b: Prefix) -> Bool:
        """It stands in front of the rest, which stands as before."""
        is_used, is_rest = facts.is_on(self, r, 0, result, a), ~facts.is_on(self, r, 0, result, b)
        are_there = self.order.has(a) & self.order.has(b)
        return all_of(
            iff(self.order.has(a), before.order.has(a)),
            implies(are_there & is_rest & is_used, self.order.before(a, b)),
            implies(are_there & is_rest & ~is_used, iff(self.order.before(a, b), before.order.before(a, b))),
        )

    @step("R3, R6", of=("hit", "check_in"))
    def who_is_left_in_the_order_stands_as_before(self, before: Self) -> Bool:
        """A lock takes its nodes out of it, and does nothing else to it."""
        return facts.order_of_the_rest(self, before)

    # -------------------------------------------------------------------------------- locks

    @step("R3", of="hit")
    def a_match_locks_its_path_once(self, before: Self, r: Request, result: Int) -> Bool:
        """From the root to where it ends."""
        return facts.locked_along(self, before, r, 0, result)

    @step("R3, R7", of="check_in")
    def the_lock_moves_once(self, before: Self, r: Request, k: Int) -> Bool:
        """It stands at the end of what was checked in; what it stood on before is locked as it was."""
        return (self.held[r] == k) & facts.locked_along(self, before, r, before.held[r], k)

    @step("R3, R7", of="leave")
    def the_lock_goes_once(self, before: Self, r: Request) -> Bool:
        """From where it stood up to the root."""
        return facts.unlocked_along(self, before, r, 0, before.held[r])

    @step("R3", unless=("look", "hit", "check_in", "leave"))
    def nothing_else_locks(self, before: Self, a: Prefix) -> Bool:
        """Nor unlocks."""
        return self.lock[a] == before.lock[a]

    @step("R3", unless=("look", "hit", "check_in", "leave"))
    def nothing_else_moves_a_hold(self, before: Self, r: Request) -> Bool:
        """A request holds what it held."""
        return self.held[r] == before.held[r]

    # -------------------------------------------------------------------------------- checking in

    @step("R5", of="check_in")
    def what_the_tree_lacks_is_adopted(self, before: Self, r: Request, k: Int, a: Prefix, i: Position) -> Bool:
        """In the page in which the request had it; what the tree has already stays, and so does all else."""
        is_on = facts.is_on(self, r, 0, k, a)
        return all_of(
            implies(before.page[a] != none, self.page[a] == before.page[a]),
            iff(self.page[a] != none, (before.page[a] != none) | is_on),
            implies((i < k) & (before.page[self.path[r, i]] == none), self.page[self.path[r, i]] == before.table[r, i]),
        )

    @step("R5", of="check_in")
    def the_caller_learns_what_was_there(self, before: Self, r: Request, k: Int, result: Int, i: Position) -> Bool:
        """So many pages from the first on."""
        was_there = before.page[self.path[r, i]] != none
        return (result >= 0) & (result <= k) & implies(i < k, iff(was_there, i < result))

    @step("R5", of="check_in")
    def duplicates_are_freed_once(self, before: Self, r: Request, result: Int) -> Bool:
        """Nothing else is; they go to the tail, in order."""
        return all_of(*facts.freed_from(self, before, r, before.held[r], result, is_upward=True).values())

    @step("R5", of="check_in")
    def the_table_shows_what_the_tree_has(self, before: Self, r: Request, k: Int, q: Request, i: Position) -> Bool:
        """For what was checked in; the rest of it, and all other tables, are as they were."""
        is_shown = self.table[r, i] == self.page[self.path[r, i]]
        return all_of(
            implies(i < k, is_shown),
            implies((q != r) | (i >= k), self.table[q, i] == before.table[q, i]),
            self.length[q] == before.length[q],
        )

    @step("R1, R5", of="check_in")
    def what_is_adopted_is_one_node(self, before: Self, r: Request, k: Int, result: Int, a: Prefix) -> Bool:
        """Below the node that ends where the tree's part ends."""
        is_end = exists(Position, lambda i: ((i + 1 == result) | (i + 1 == k)) & (self.path[r, i] == a))
        return iff(self.cut[a], before.cut[a] | is_end)

    @step("R1, R4", unless=("look", "hit", "check_in", "evict"))
    def nothing_else_splits_a_node(self, before: Self, a: Prefix) -> Bool:
        """Nor joins two."""
        return iff(self.cut[a], before.cut[a])

    # -------------------------------------------------------------------------------- leaving

    @step("R2, R7", of="leave")
    def what_is_private_is_freed_once(self, before: Self, r: Request) -> Bool:
        """The last page first; nothing else is freed."""
        return all_of(*facts.freed_from(self, before, r, before.held[r], before.length[r], is_upward=False).values())

    @step("R6, R7", of="leave")
    def who_was_used_last_goes_last(self, before: Self) -> Bool:
        """What nobody locks any more stands in front of what nobody locked."""
        return all_of(*facts.used_just_now(self, before).values())

    # -------------------------------------------------------------------------------- eviction

    @step("R6", of="evict")
    def enough_is_freed_or_nothing_is_left(self, before: Self, n: Int, result: Int) -> Bool:
        """And no node more than is wanted."""
        return all_of(
            (result >= n) | (self.evictable.value == 0),
            result == before.evictable.value - self.evictable.value,
        )

    @step("R6", of="evict")
    def a_node_is_evicted_as_a_whole(self, before: Self, a: Prefix, c: Prefix) -> Bool:
        """Or not at all; what is left ends where it ended."""
        stays_whole = iff(self.page[a] != none, self.page[c] != none)
        return implies(facts.on_one_edge(before, a, c), stays_whole) & implies(
            self.page[a] != none, iff(self.cut[a], before.cut[a])
        )

    @step("R6", of="evict")
    def the_least_recently_used_goes_first(self, before: Self) -> Bool:
        """And nothing that is locked."""
        return all_of(*facts.gone_from_the_tail(self, before).values())

    @step("R2, R6", of="evict")
    def what_is_evicted_is_freed_once(self, before: Self) -> Bool:
        """And nothing else."""
        return all_of(*facts.freed_by_eviction(self, before).values())

    @step("R6")
    def no_node_is_evicted_in_vain(self, before: Self) -> Bool:
        """Whatever happens."""
        return self.needless.total == before.needless.total

    @step("R3, R6", unless=("look", "hit", "check_in", "leave", "evict"))
    def nothing_else_counts_as_used(self, before: Self, a: Prefix, b: Prefix) -> Bool:
        """What can be evicted, and in which order, is as it was."""
        is_same = iff(self.order.has(a), before.order.has(a))
        return is_same & iff(self.order.before(a, b), before.order.before(a, b))

    # -------------------------------------------------------------------------------- pages of requests

    @step("R2", of="allocate")
    def allocation_takes_the_head_in_order(self, before: Self, r: Request, n: Int) -> Bool:
        """Exactly the n first pages of the queue; the rest of it is as it was."""
        return all_of(
            self.length[r] == before.length[r] + n,
            self.free.size == before.free.size - n,
            *facts.taken_from_the_head(self, before, r).values(),
        )

    @step("R2", of=("admit", "look", "hit", "write"))
    def nothing_else_is_freed_or_taken(self, before: Self, p: Page, q: Page) -> Bool:
        """The free queue is as it was."""
        is_same = iff(self.free.has(p), before.free.has(p))
        return is_same & implies(
            self.free.has(p) & self.free.has(q), iff(self.free.before(p, q), before.free.before(p, q))
        )

    @step("R2", of=("look", "hit", "allocate", "leave"))
    def others_keep_their_tables(self, before: Self, r: Request, q: Request, i: Position) -> Bool:
        """What one request does changes no other's."""
        is_same = (self.table[q, i] == before.table[q, i]) & (self.length[q] == before.length[q])
        return implies(q != r, is_same & (self.held[q] == before.held[q]))

    @step("R2", unless=("look", "hit", "allocate", "check_in", "leave"))
    def nothing_else_changes_a_table(self, before: Self, r: Request, i: Position) -> Bool:
        """Above all no eviction does."""
        return (self.table[r, i] == before.table[r, i]) & (self.length[r] == before.length[r])

    @step("R2, R5", of="write")
    def a_write_fills_one_slot(self, before: Self, r: Request, i: Position, s: Slot, p: Page, t: Slot) -> Bool:
        """With the KV of the request's sequence, if the page will be full."""
        is_here = (before.table[r, i] == p) & (t == s)
        written = ite(i < self.whole[r], self.path[r, i], none)
        return all_of(self.content[p, t] == ite(is_here, written, before.content[p, t]))

    @step("R2, R5", unless="write")
    def nothing_else_is_written(self, before: Self, p: Page, s: Slot) -> Bool:
        """Content stays where it is, above all when its page changes hands."""
        return self.content[p, s] == before.content[p, s]

    # -------------------------------------------------------------------------------- what must be reachable

    @sometimes("R3")
    def a_node_is_shared(self, a: Prefix) -> Bool:
        """Two requests lock it."""
        return self.lock[a] >= 2

    @sometimes("R4")
    def a_node_is_longer_than_a_page(self, a: Prefix, c: Prefix) -> Bool:
        """And could be split."""
        return facts.on_one_edge(self, a, c) & (self.lock[a] > 0)

    @sometimes("R5")
    def somebody_was_first(self, r: Request, i: Position) -> Bool:
        """A request has computed what the tree has meanwhile."""
        a = self.path[r, i]
        is_own = all_of(self.table[r, i] != none, ~self.holds[r, i], i < self.whole[r])
        return all_of(is_own, self.page[a] != none, self._is_computed(r, i + 1))

    @sometimes("R6")
    def sequences_part(self, a: Prefix, b: Prefix, c: Prefix) -> Bool:
        """Two nodes have one parent, and nobody locks any."""
        are_siblings = (a != b) & (self.above[a] == c) & (self.above[b] == c)
        return are_siblings & self.order.has(a) & self.order.has(b) & self.order.has(c)
