"""What a prefix tree keeps, and what it does.

KV memory is a number of pages. A tree keeps finished pages: each stands for a *prefix*, a whole number of pages of
tokens from the start of a sequence, in a namespace, and holds the KV of that prefix's last page. A request matches its
own tokens against the tree, from the root down, and locks what it finds; what it computes itself stands in private
pages behind that. It checks in: its whole pages become the tree's, except where another was first with the same prefix;
those are duplicates, and are freed. When it leaves, its lock goes, and what nobody locks can be evicted, leaves first,
the least recently used at once with all of its node.

*Nodes.* A node is a run of pages, its edge; it is named by the prefix with which it ends, and ``cut`` says which
prefixes these are. So a split is one more cut, the tree is the set of its prefixes, and the parent of a prefix is fixed
(``above``): `docs/machine-tree.md` says what that leaves out, and who looks at it.
"""

from __future__ import annotations

from ...machine import (
    Bool,
    Count,
    Event,
    Index,
    Int,
    Machine,
    Map,
    Param,
    Queue,
    Scalar,
    Sum,
    Tally,
    action,
    all_of,
    any_of,
    assume,
    exists,
    forall,
    implies,
    ite,
    none,
    optional,
    otherwise,
    when,
)
from . import facts
from .sorts import Page, Position, Prefix, Request, Slot


class TreeActions(Machine, abstract=True):
    """State and actions; the rules stand in `invariants.py`, what each action does in `steps.py`."""

    # -------------------------------------------------------------------------------- parameters

    above = Param(Prefix, to=optional(Prefix))
    """The prefix that is a page shorter; none for the first page of a sequence."""

    depth = Param(Prefix, to=Int)
    """How many pages there are above a prefix's last one."""

    path = Param(Request, Position, to=Prefix)
    """The prefixes of a request's sequence, in order, as far as its pages are full."""

    limit = Param(Request, to=Int)
    """How many pages a match may return: those that end before the request's last token (R4)."""

    whole = Param(Request, to=Int)
    """How many pages of the sequence are full at its end. A last one that is not is never the tree's (R1)."""

    need = Param(Request, to=Int)
    """How many pages the request's table has when it is complete."""

    # -------------------------------------------------------------------------------- the allocator

    free = Queue(Page, init=True)
    """The allocator's free pages: the head is taken next."""

    # -------------------------------------------------------------------------------- the tree

    page = Map(Prefix, to=optional(Page))
    """The page that the tree has for a prefix; none where it has none."""

    cut = Map(Prefix, to=Bool)
    """A node ends with this prefix: the next page below, if there is one, belongs to another node."""

    lock = Map(Prefix, to=Int)
    """The ``lock_ref`` of the node to which the prefix's page belongs. All pages of a node have the same (R3)."""

    order = Queue(Prefix)
    """What nobody locks, most recently used first, parents before children: the tail is evicted next (R6)."""

    evictable = Scalar(to=Int)
    """The counter of the tree's pages that nobody locks."""

    protected = Scalar(to=Int)
    """The counter of those that are locked."""

    # -------------------------------------------------------------------------------- requests

    running = Map(Request, to=Bool)
    """Admitted, and neither finished nor aborted nor retracted."""

    table = Map(Request, Position, to=optional(Page))
    """Where the KV of each page of a request's sequence stands."""

    length = Map(Request, to=Int)
    """How many positions of a table are filled."""

    held = Map(Request, to=Int)
    """How many of them, from the first on, are the tree's and locked. The others are the request's own (R2)."""

    last = Map(Request, to=optional(Prefix))
    """Where the request's lock stands: the last of those. It locks this node and all above."""

    holds = Map(Request, Position, to=Bool)
    """The request locks what the tree has for this position."""

    # What an observer knows (ghosts).

    content = Map(Page, Slot, to=optional(Prefix))
    """What really stands in a slot: the KV of the last page of this prefix, at that place. Only writes change it."""

    announced = Map(Prefix, to=Bool)
    """The prefixes that a listener who replays all events believes to be cached (R8)."""

    misled = Map(Prefix, to=Bool)
    """An event told a listener of this prefix what was wrong, or what it knew already."""

    needless = Tally()
    """Nodes whose eviction was begun when enough was free already."""

    # Inside an action.

    moving = Scalar(to=optional(Request), scratch=True)
    """The request whose lock is on its way: it stands where no node ends yet."""

    shrinking = Scalar(to=optional(Prefix), scratch=True)
    """Where a node ends that is being evicted, and of which part is still there."""

    # -------------------------------------------------------------------------------- events

    stored = Event(Prefix, optional(Prefix), heard=lambda m, a, parent: m._hear_stored(a, parent))
    """A page can now be found; its parent is named with it."""

    removed = Event(Prefix, heard=lambda m, a: m._hear_removed(a))
    """A page can no longer be found."""

    # -------------------------------------------------------------------------------- counts

    pages = Count(Page, where=lambda m, p: p == p)  # noqa: ARG005 - every page
    """All there are."""

    unlocked = Count(Prefix, where=lambda m, a: (m.page[a] != none) & (m.lock[a] == 0))
    """The tree's pages that nobody locks."""

    locked = Count(Prefix, where=lambda m, a: m.lock[a] > 0)
    """Those that somebody locks."""

    placed = Count(Prefix, by=Page, where=lambda m, a, p: m.page[a] == p)
    """The places of the tree at which a page stands."""

    own = Count((Request, Position), by=Page, where=lambda m, r, i, p: (m.table[r, i] == p) & ~m.holds[r, i])
    """The private entries of requests in which it stands."""

    private = Count((Request, Position), where=lambda m, r, i: (m.table[r, i] != none) & ~m.holds[r, i])
    """All private entries."""

    holders = Count((Request, Position), by=Prefix, where=lambda m, r, i, a: m.holds[r, i] & (m.path[r, i] == a))
    """Those who lock a prefix, here or further down."""

    stops = Count(Request, by=Prefix, where=lambda m, r, a: m.last[r] == a)
    """Those whose lock stands right here."""

    below = Sum(Prefix, by=Prefix, of=lambda m, c, a: ite(m.above[c] == a, m.lock[c], 0), to=Int)
    """What the children have."""

    locks = Sum(Prefix, of=lambda m, a: m.lock[a], to=Int)
    """All locks."""

    spare = Sum(Prefix, of=lambda m, a: m.lock[a] - 1, to=Int)
    """Locks beyond the first, of all prefixes together: what sharing saves."""

    entries = Count((Request, Position), where=lambda m, r, i: m.table[r, i] != none)
    """All entries of all tables."""

    filled = Count(Position, by=Request, where=lambda m, i, r: m.table[r, i] != none)
    """Those of one request."""

    others = Count((Request, Position), by=Request, where=lambda m, q, i, r: (q != r) & (m.table[q, i] != none))
    """Those of all other requests."""

    # -------------------------------------------------------------------------------- what is known of the parameters

    @assume("R1")
    def a_prefix_is_a_page_longer_than_the_one_above(self, a: Prefix, b: Prefix) -> Bool:
        """Nothing is above a first page."""
        return (
            (self.depth[a] >= 0)
            & implies(self.above[a] == none, self.depth[a] == 0)
            & implies(self.above[a] == b, self.depth[a] == self.depth[b] + 1)
        )

    @assume("R1")
    def a_sequence_is_a_path(self, r: Request, i: Position, j: Position) -> Bool:
        """From a first page on, each prefix is right above the next."""
        a = self.path[r, i]
        is_here = all_of(
            self.depth[a] == i,
            implies(i == 0, self.above[a] == none),
            implies(j + 1 == i, self.above[a] == self.path[r, j]),
        )
        return implies(i < self.whole[r], is_here)

    @assume("R1")
    def who_shares_a_prefix_shares_all_above(self, r: Request, q: Request, i: Position, j: Position) -> Bool:
        """Two sequences that part never meet again."""
        are_full = (i < self.whole[r]) & (i < self.whole[q])
        is_shared = are_full & (self.path[r, i] == self.path[q, i])
        return implies(is_shared & (j <= i), self.path[r, j] == self.path[q, j])

    @assume("R4")
    def the_last_token_is_computed(self, r: Request) -> Bool:
        """A match leaves at least one token, and so one page, to compute; the tree gets full pages only."""
        limit, whole, need = self.limit[r], self.whole[r], self.need[r]
        return (limit >= 0) & (limit < need) & (limit <= whole) & (whole <= need) & (need <= whole + 1)

    @assume("R1")
    def a_table_has_a_position_for_all_that_it_needs(self, r: Request) -> Bool:
        """No sequence is longer than tables are."""
        return Position.has(self.need[r] - 1)

    # -------------------------------------------------------------------------------- actions

    @action("L1")
    def admit(self, r: Request) -> None:
        """A request comes, if it could be served alone."""
        self.require(~self.running[r])
        self.require(self.need[r] <= self.pages.value)
        self.running[r] = True

    @action("R4")
    def look(self, r: Request) -> Int:
        """A request that waits asks how much of its sequence is cached.

        Nothing stays locked, but what is found counts as used, and a node is split where the match ends.
        """
        self.require(self.running[r])
        self.require(self.length[r] == 0)
        found = self._match(r)
        self._let_go(r, found)
        return found

    @action("R4, R3")
    def hit(self, r: Request) -> Int:
        """A request that begins takes what is cached of its sequence, and locks it."""
        self.require(self.running[r])
        self.require(self.length[r] == 0)
        return self._match(r)

    @action("R2")
    def allocate(self, r: Request, n: Int) -> None:
        """Take the n pages at the head of the free queue. Not possible with fewer: evict first."""
        self.require(self.running[r])
        self.require(n >= 1)
        self.require(self.length[r] + n <= self.need[r])
        self.require(n <= self.free.size)
        with self.loop(n, facts=lambda i, entry: facts.taken_so_far(self, entry, r, i)):
            p = self.free.head()
            self.free.remove(p)
            self.table[r, self.length[r]] = p
            self.length[r] = self.length[r] + 1

    @action("R2")
    def write(self, r: Request, i: Position, s: Slot) -> None:
        """A step computes one token's KV, in a page that is the request's own.

        What it writes into a last page that will not be full is the KV of no whole page.
        """
        self.require((self.held[r] <= i) & (i < self.length[r]))
        self.content[self.table[r, i], s] = ite(i < self.whole[r], self.path[r, i], none)

    @action("R5, R7")
    def check_in(self, r: Request, k: Int) -> Int:
        """The first k pages of a request, finished or not, are computed: they become the tree's, and it locks them.

        Returns how many of them the tree had. What the request had in their place is freed, once.
        """
        self.require(self.running[r])
        self.require((self.held[r] <= k) & (k <= self.length[r]) & (k <= self.whole[r]))
        self.require(self._is_computed(r, k))
        return self._check_in(r, k)

    @action("R7")
    def leave(self, r: Request) -> None:
        """A request is finished, aborted, or retracted to be admitted again.

        Its lock goes, and what is its own is freed: with one that has checked in all its full pages, a last page that
        is not full.
        """
        self.require(self.running[r])
        self._let_go(r, self.length[r])
        self.running[r] = False

    @action("R6")
    def evict(self, n: Int) -> Int:
        """Free nodes that nobody locks, the least recently used first, until n pages are free or none is left.

        A node goes as a whole, from its last page up. Returns how many pages were freed.
        """
        self.require(n >= 1)
        with self.loop(
            self.evictable.value,
            going=lambda i: self._is_wanted(i, n) & ~self.order.is_empty(),
            facts=lambda i, entry: facts.evicted_so_far(self, entry, i),
        ) as loop:
            with when((self.shrinking.value == none) & (loop.index >= n)):
                self.needless.add(1)
            self._evict(self._next())
        return loop.rounds

    # -------------------------------------------------------------------------------- what actions are made of

    def _is_computed(self, r: Request, k: Int) -> Bool:
        """What the request has of its own among its first k pages holds the KV of its sequence, slot by slot."""
        return forall(
            Position,
            Slot,
            lambda i, s: implies(
                (self.held[r] <= i) & (i < k),
                exists(Page, lambda p: (self.table[r, i] == p) & (self.content[p, s] == self.path[r, i])),
            ),
        )

    def _match(self, r: Request) -> Int:
        """Walk down from the root and lock what is there; where the walk ends, a node ends."""
        self.moving.value = r
        with self.loop(
            self._most(r),
            going=lambda i: self.page[self.path[r, i]] != none,
            facts=lambda i, entry: facts.matched_so_far(self, entry, r, i),
        ) as walk:
            a = self.path[r, walk.index]
            self.table[r, walk.index] = self.page[a]
            self.length[r] = walk.index + 1
            self._hold(r, walk.index)
        self._split(r)
        self.moving.value = none
        return walk.rounds

    def _check_in(self, r: Request, k: Int) -> Int:
        """Walk down as far as the tree has the request's pages, and give it the rest."""
        first = self.held[r]
        self.moving.value = r
        with (
            self.loop(
                k,
                going=lambda i: self.page[self.path[r, i]] != none,
                facts=lambda i, entry: facts.shared_so_far(self, entry, r, i),
            ) as walk,
            when(walk.index >= first),
        ):
            self._share(r, walk.index)
        self._split(r)
        self.moving.value = none
        had = walk.rounds
        with self.loop(
            self._most_adopted(k, had), facts=lambda j, entry: facts.adopted_so_far(self, entry, r, had, k, j)
        ) as rest:
            self._adopt(r, had + rest.index, is_first=rest.index == 0)
        return had

    def _most(self, r: Request) -> Int:
        """How many pages a match may return."""
        return self.limit[r]

    def _share(self, r: Request, i: Index) -> None:
        """What the request has computed and the tree has too is freed; from now on it reads the tree's."""
        self.free.push_back(self.table[r, i])
        self.table[r, i] = self.page[self.path[r, i]]
        self._hold(r, i)

    def _most_adopted(self, k: Int, had: Int) -> Int:
        """How many of k pages the tree adopts, if it had some."""
        return k - had

    def _hold(self, r: Request, i: Index | Int) -> None:
        """One lock more on what the tree has for this position; who was not locked cannot be evicted any more."""
        a = self.path[r, i]
        is_news = self.lock[a] == 0
        self.lock[a] = self.lock[a] + 1
        with when(is_news):
            self.order.remove(a)
            self._protect(1)
        self._stand(r, i)

    def _stand(self, r: Request, i: Index | Int) -> None:
        """The request's lock stands at this position."""
        self.holds[r, i] = True
        self.held[r] = i + 1
        self.last[r] = self.path[r, i]

    def _protect(self, n: int) -> None:
        """So many pages that could be evicted cannot any more."""
        self.evictable.value = self.evictable.value - n
        self.protected.value = self.protected.value + n

    def _split(self, r: Request) -> None:
        """A node ends where the request's lock stands: the one that went on from there is two now (R4)."""
        end = self.held[r] - 1
        with when(end >= 0):
            self.cut[self.path[r, end]] = True

    def _adopt(self, r: Request, i: Int, *, is_first: Bool) -> None:
        """The request's page becomes the tree's, locked by it. What one call adopts is one node."""
        a = self.path[r, i]
        with when(~is_first):
            self.cut[self.last[r]] = False
        self.page[a] = self.table[r, i]
        self.cut[a] = True
        self.lock[a] = 1
        self.protected.value = self.protected.value + 1
        self._stand(r, i)
        self._tell_stored(a)

    def _tell_stored(self, a: Prefix) -> None:
        """A page more can be found."""
        self.stored(a, self.above[a])

    def _let_go(self, r: Request, n: Int) -> None:
        """Unlock and free, from the last of n entries up."""
        self.moving.value = r
        with self.loop(n, facts=lambda i, entry: facts.let_go_so_far(self, entry, r, i)):
            at = self.length[r] - 1
            self._give_up(r, at)
            self.table[r, at] = none
            self.length[r] = at
        self.moving.value = none

    def _give_up(self, r: Request, at: Int) -> None:
        """What is the tree's is unlocked, what is the request's own is freed."""
        with when(self.holds[r, at]):
            self._unlock(self.path[r, at])
            self.holds[r, at] = False
            self.held[r] = at
            self.last[r] = self.above[self.path[r, at]]
        with otherwise():
            self.free.push_back(self.table[r, at])

    def _unlock(self, a: Prefix) -> None:
        """One lock less; what nobody locks any more was just used."""
        left = self.lock[a] - 1
        self.lock[a] = left
        with when(left == 0):
            self.order.push_front(a)
            self._protect(-1)

    def _is_wanted(self, i: Index, n: Int) -> Bool:
        """Of n pages i are freed, or only a part of a node."""
        return any_of(i < n, self.shrinking.value != none)

    def _next(self) -> Prefix:
        """Where the node ends that nobody has used for longest."""
        return self.order.tail()

    def _evict(self, a: Prefix) -> None:
        """A leaf loses its last page: the node is a page shorter, or gone."""
        b = self.above[a]
        goes_on = exists(Prefix, lambda c: (b == c) & ~self.cut[c])
        self.order.remove(a)
        self._free_evicted(a)
        self.cut[a] = False
        self.evictable.value = self.evictable.value - 1
        with when(goes_on):
            self.cut[b] = True
            self.shrinking.value = b
        with otherwise():
            self.shrinking.value = none
        self._tell_removed(a)

    def _free_evicted(self, a: Prefix) -> None:
        """The tree's page is the allocator's."""
        self.free.push_back(self.page[a])
        self.page[a] = none

    def _tell_removed(self, a: Prefix) -> None:
        """A page less can be found."""
        self.removed(a)

    # -------------------------------------------------------------------------------- what a listener makes of events

    def _hear_stored(self, a: Prefix, parent: Prefix) -> None:
        """It can be found from now on, and could not before; its parent is the right one, and can be found."""
        is_right = (parent == self.above[a]) & forall(Prefix, lambda b: implies(parent == b, self.announced[b]))
        with when(self.announced[a] | ~is_right):
            self.misled[a] = True
        self.announced[a] = True

    def _hear_removed(self, a: Prefix) -> None:
        """It cannot be found any more, and could before; nothing that builds on it can."""
        has_child = exists(Prefix, lambda c: (self.above[c] == a) & self.announced[c])
        with when(~self.announced[a] | has_child):
            self.misled[a] = True
        self.announced[a] = False
