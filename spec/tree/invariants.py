"""What holds of a prefix tree in every state: rules R1 to R8, and what each action asks for."""

from __future__ import annotations

from ...machine import Bool, all_of, can, corollary, exists, iff, implies, invariant, ite, none
from . import facts
from .actions import TreeActions
from .sorts import Page, Position, Prefix, Request, Slot

__all__ = ["TreeInvariants"]


class TreeInvariants(TreeActions, abstract=True):
    """The rules of states."""

    # -------------------------------------------------------------------------------- the tree

    @invariant("R1")
    def the_tree_is_closed(self, a: Prefix, b: Prefix) -> Bool:
        """Whatever is above a page of the tree is in the tree."""
        return implies((self.page[a] != none) & (self.above[a] == b), self.page[b] != none)

    @invariant("R1")
    def nodes_end_in_the_tree(self, a: Prefix) -> Bool:
        """Where nothing is cached, no node ends."""
        return implies(self.cut[a], self.page[a] != none)

    @invariant("R1")
    def an_edge_goes_on(self, a: Prefix) -> Bool:
        """Below a page at which no node ends there is a next one."""
        goes_on = exists(Prefix, lambda c: (self.above[c] == a) & (self.page[c] != none))
        return implies((self.page[a] != none) & ~self.cut[a], goes_on)

    @invariant("R1")
    def an_edge_does_not_fork(self, a: Prefix, c: Prefix, d: Prefix) -> Bool:
        """And no other: where sequences part, a node ends."""
        return implies(facts.on_one_edge(self, a, c) & facts.on_one_edge(self, a, d), c == d)

    @invariant("R5")
    def the_tree_names_what_is_there(self, a: Prefix, p: Page, s: Slot) -> Bool:
        """A page of the tree holds the KV of its prefix, in every slot."""
        return implies(self.page[a] == p, self.content[p, s] == a)

    # -------------------------------------------------------------------------------- conservation

    @invariant("R2")
    def every_page_is_in_one_place(self, p: Page) -> Bool:
        """Free, at one place of the tree, or one request's own."""
        return ite(self.free.has(p), 1, 0) + self.placed[p] + self.own[p] == 1

    @invariant("R2")
    def what_is_taken_is_not_free(self, r: Request, i: Position, a: Prefix, p: Page) -> Bool:
        """Neither what a request has of its own, nor what the tree has."""
        is_own, is_in_tree = (self.table[r, i] == p) & ~self.holds[r, i], self.page[a] == p
        return implies(is_own | is_in_tree, ~self.free.has(p)) & ~(is_own & is_in_tree)

    @invariant("R2")
    def the_tree_has_a_page_once(self, a: Prefix, b: Prefix) -> Bool:
        """Two prefixes have two pages."""
        return implies((self.page[a] != none) & (self.page[a] == self.page[b]), a == b)

    @invariant("R2")
    def a_page_is_one_entrys_own(self, r: Request, i: Position, q: Request, j: Position, p: Page) -> Bool:
        """No two requests have one page for themselves, and none has it twice."""
        is_one = (self.table[r, i] == p) & ~self.holds[r, i]
        is_other = (self.table[q, j] == p) & ~self.holds[q, j]
        return implies(is_one & is_other, (r == q) & (i == j))

    @invariant("R2")
    def pages_add_up(self) -> Bool:
        """Free, evictable, protected and private pages are all pages."""
        in_tree = self.evictable.value + self.protected.value
        return self.free.size + in_tree + self.private.value == self.pages.value

    @invariant("R3")
    def sizes_are_counted_by_lock(self) -> Bool:
        """Evictable is what nobody locks, protected is what somebody locks."""
        return all_of(
            self.evictable.value == self.unlocked.value,
            self.protected.value == self.locked.value,
            self.order.size == self.evictable.value,
        )

    # -------------------------------------------------------------------------------- locks

    @invariant("R3")
    def lock_ref_counts_locks(self, a: Prefix) -> Bool:
        """A lock is somebody's whose own lies at or below; none is negative."""
        return all_of(
            self.lock[a] == self.holders[a],
            self.lock[a] >= 0,
            implies(self.lock[a] > 0, self.page[a] != none),
        )

    @invariant("R3")
    def locks_add_up_towards_the_root(self, a: Prefix) -> Bool:
        """They are what the children have, and what stands right here."""
        return self.lock[a] == self.stops[a] + self.below[a]

    @invariant("R3")
    def who_is_locked_is_locked_from_the_root_on(self, a: Prefix, c: Prefix) -> Bool:
        """A lock is one on the node and on all above."""
        return implies((self.above[c] == a) & (self.lock[c] > 0), self.lock[a] > 0)

    @corollary("R3")
    def a_parent_has_at_least_the_sum_of_its_children(self, a: Prefix, c: Prefix) -> Bool:
        """And so at least what each of them has."""
        return (self.below[a] <= self.lock[a]) & implies(self.above[c] == a, self.lock[c] <= self.lock[a])

    @invariant("R3, R4")
    def a_node_has_one_lock_ref(self, a: Prefix, c: Prefix) -> Bool:
        """All pages of an edge are locked alike: both halves of a split carry what the whole had.

        But for a lock that is on its way, and stands between the two.
        """
        stands_between = exists(Request, lambda r: (self.moving.value == r) & (self.last[r] == a))
        return implies(facts.on_one_edge(self, a, c), self.lock[a] == self.lock[c] + ite(stands_between, 1, 0))

    @invariant("R3")
    def a_lock_stands_on_a_node(self, r: Request, a: Prefix) -> Bool:
        """Where a request's lock stands, a node ends."""
        return implies((self.last[r] == a) & (self.moving.value != r), self.cut[a])

    # -------------------------------------------------------------------------------- the order of eviction

    @invariant("R6")
    def the_order_has_what_nobody_locks(self, a: Prefix) -> Bool:
        """And nothing else."""
        return iff(self.order.has(a), (self.page[a] != none) & (self.lock[a] == 0))

    @invariant("R6")
    def parents_stand_before_children(self, a: Prefix, c: Prefix) -> Bool:
        """Who uses a node uses all above, so a child never goes after its parent."""
        are_there = self.order.has(a) & self.order.has(c)
        return implies(are_there & (self.above[c] == a), self.order.before(a, c))

    @invariant("R6")
    def a_node_stands_together(self, a: Prefix, c: Prefix, b: Prefix) -> Bool:
        """The order is one of nodes: nothing comes between two pages of an edge."""
        is_between = all_of(
            self.order.has(a) & self.order.has(b) & self.order.has(c),
            self.order.before(a, b) & self.order.before(b, c),
        )
        return ~(facts.on_one_edge(self, a, c) & is_between)

    @corollary("R6")
    def what_is_evicted_next_is_a_leaf(self, a: Prefix, c: Prefix) -> Bool:
        """A node ends there, nothing is below, and nobody locks it."""
        is_below = (self.above[c] == a) & (self.page[c] != none)
        return implies(facts.is_next(self, a), self.cut[a] & ~is_below & (self.lock[a] == 0))

    @corollary("R6")
    def what_nobody_locks_can_be_evicted(self) -> Bool:
        """As long as anything is evictable, something is next."""
        return implies(self.evictable.value > 0, ~self.order.is_empty() & can(self.evict, 1))

    # -------------------------------------------------------------------------------- requests

    @invariant("R2")
    def tables_are_filled_from_the_front(self, r: Request, i: Position) -> Bool:
        """A table's entries are those below its length; the first of them are the tree's."""
        return all_of(
            (self.held[r] >= 0) & (self.held[r] <= self.length[r]) & (self.length[r] <= self.need[r]),
            self.held[r] <= self.whole[r],
            iff(self.table[r, i] != none, i < self.length[r]),
            iff(self.holds[r, i], i < self.held[r]),
            implies(self.length[r] > 0, self.running[r]),
        )

    @invariant("R3, R7")
    def the_lock_stands_where_the_hold_ends(self, r: Request, i: Position) -> Bool:
        """At the last prefix that the request holds, right above the next; nowhere, if it holds none."""
        return all_of(
            iff(self.last[r] == none, self.held[r] == 0),
            implies(i + 1 == self.held[r], self.last[r] == self.path[r, i]),
            implies((i == self.held[r]) & (i < self.whole[r]), self.last[r] == self.above[self.path[r, i]]),
        )

    @invariant("R2, R4")
    def what_is_held_is_the_trees(self, r: Request, i: Position) -> Bool:
        """A request reads, as far as it holds, what the tree has for its own sequence."""
        a = self.path[r, i]
        return implies(self.holds[r, i], (self.table[r, i] == self.page[a]) & (self.lock[a] > 0))

    @invariant("L1")
    def entries_add_up(self, r: Request) -> Bool:
        """A request's entries and those of others are all there are; each is private, or a lock."""
        return all_of(
            self.entries.value == self.filled[r] + self.others[r],
            self.filled[r] == self.length[r],
            self.entries.value == self.private.value + self.locks.value,
            self.locks.value == self.locked.value + self.spare.value,
        )

    @invariant("L1")
    def admitted_requests_fit(self, r: Request) -> Bool:
        """Whoever is inside could finish alone."""
        return implies(self.running[r], self.need[r] <= self.pages.value)

    @corollary("R6, R3, L1")
    def who_is_alone_gets_its_pages(self, r: Request) -> Bool:
        """Where nobody else holds anything, what a request lacks is free or can be evicted."""
        is_alone = self.running[r] & (self.others[r] == 0)
        return implies(is_alone, self.need[r] - self.length[r] <= self.free.size + self.evictable.value)

    @corollary("R6, L1")
    def somebody_can_always_go_on(self, r: Request) -> Bool:
        """A page is free, or can be; or another can be retracted; or nothing is lacking."""
        can_get = (self.free.size > 0) | can(self.evict, 1) & (self.evictable.value > 0)
        another = exists(Request, lambda q: (q != r) & (self.length[q] > 0) & can(self.leave, q))
        return implies(self.running[r], can_get | another | (self.length[r] == self.need[r]))

    # -------------------------------------------------------------------------------- events

    @invariant("R8")
    def listeners_know_what_is_cached(self, a: Prefix) -> Bool:
        """Replaying the events gives exactly the tree's prefixes."""
        return iff(self.announced[a], self.page[a] != none)

    @invariant("R8")
    def every_event_is_news(self, a: Prefix) -> Bool:
        """A page is stored after its parent and removed before it, and each time something changes."""
        return ~self.misled[a]

    # -------------------------------------------------------------------------------- what is refused, and what is not

    @corollary("L1")
    def who_fits_is_admitted(self, r: Request) -> Bool:
        """Once."""
        return iff(can(self.admit, r), ~self.running[r] & (self.need[r] <= self.pages.value))

    @corollary("R4")
    def a_match_comes_first(self, r: Request) -> Bool:
        """With or without a lock, it is possible as long as the table is empty."""
        is_first = self.running[r] & (self.length[r] == 0)
        return iff(can(self.look, r), is_first) & iff(can(self.hit, r), is_first)

    @corollary("R2")
    def allocation_is_refused_for_lack_of_pages_only(self, r: Request, k: Position) -> Bool:
        """Or for a table that would be longer than the request needs."""
        fits = (self.length[r] + k + 1 <= self.need[r]) & (k + 1 <= self.free.size)
        return iff(can(self.allocate, r, k + 1), self.running[r] & fits) & ~can(self.allocate, r, 0)

    @corollary("R2")
    def who_may_write(self, r: Request, i: Position, s: Slot) -> Bool:
        """A request, into what is its own."""
        return iff(can(self.write, r, i, s), (i < self.length[r]) & ~self.holds[r, i])

    @corollary("R5, R7")
    def what_is_computed_can_be_checked_in(self, r: Request, k: Position) -> Bool:
        """Full pages, from the first on, and no fewer than are held."""
        n = k + 1
        fits = (self.held[r] <= n) & (n <= self.length[r]) & (n <= self.whole[r])
        return iff(can(self.check_in, r, n), self.running[r] & fits & self._is_computed(r, n)) & iff(
            can(self.check_in, r, 0), self.running[r] & (self.held[r] == 0)
        )

    @corollary("R7, L1")
    def who_is_inside_can_leave(self, r: Request) -> Bool:
        """Whatever it holds."""
        return iff(can(self.leave, r), self.running[r])

    @corollary("R6")
    def eviction_is_never_refused(self, k: Position) -> Bool:
        """It frees what it can."""
        return can(self.evict, k + 1) & ~can(self.evict, 0)
