"""Machine R with one thing wrong each, and copies that do not do their job. Each is refuted by a step, and by a run.

Several are faults that were reported of engines: a page cached twice (sgl-project/sglang issue 35270), a lock that is
released too often (issue 24153), a removal that nobody is told of (pull request 29750).
"""

from __future__ import annotations

from kvproof.machine import Bool, Index, Int, Machine, none, when
from kvproof.spec.tree import Prefix, PrefixTree, Request

# ------------------------------------------------------------------------------------------------ matches and splits


class SplitForgetsLocks(PrefixTree):
    """The upper half of a split node begins without a lock."""

    def _split(self, r: Request) -> None:
        end = self.held[r] - 1
        with when(end >= 0):
            a = self.path[r, end]
            is_split = ~self.cut[a]
            self.cut[a] = True
            with when(is_split):
                self.lock[a] = 0


class MatchSplitsNothing(PrefixTree):
    """A lock stands in the midst of a node."""

    def _split(self, r: Request) -> None:
        pass


class MatchOvershoots(PrefixTree):
    """A match returns the page in which the last token stands: nothing is left to compute."""

    def _most(self, r: Request) -> Int:
        return self.whole[r]


class MatchTakesNoLock(PrefixTree):
    """What is found is handed out, and can be evicted."""

    def _hold(self, r: Request, i: Index | Int) -> None:
        self._stand(r, i)


class SizesStayWithLocks(PrefixTree):
    """A lock moves no counter: what is locked still counts as evictable."""

    def _protect(self, n: int) -> None:
        pass


class LocksTheNodeOnly(PrefixTree):
    """Of what a match finds, only the last page is locked, not what is above."""

    def _hold(self, r: Request, i: Index | Int) -> None:
        with when(i + 1 == self.limit[r]):
            a = self.path[r, i]
            self.lock[a] = self.lock[a] + 1
            with when(self.lock[a] == 1):
                self.order.remove(a)
                self._protect(1)
        self._stand(r, i)


# ------------------------------------------------------------------------------------------------ checking in


class AdoptsWhatIsThere(PrefixTree):
    """A page that the tree has is replaced: the old one belongs to nobody (issue 35270)."""

    def _share(self, r: Request, i: Index) -> None:
        self.page[self.path[r, i]] = self.table[r, i]
        self._hold(r, i)


class KeepsDuplicates(PrefixTree):
    """The caller does not free what the tree had already."""

    def _share(self, r: Request, i: Index) -> None:
        self.table[r, i] = self.page[self.path[r, i]]
        self._hold(r, i)


class FreesWhatWasAdopted(PrefixTree):
    """The caller frees what it gave to the tree as well."""

    def _adopt(self, r: Request, i: Int, *, is_first: Bool) -> None:
        super()._adopt(r, i, is_first=is_first)
        self.free.push_back(self.table[r, i])


class FreesAndReads(PrefixTree):
    """A duplicate is freed, and the table goes on naming it."""

    def _share(self, r: Request, i: Index) -> None:
        self.free.push_back(self.table[r, i])
        self._hold(r, i)


class LockStaysBehind(PrefixTree):
    """The lock of a request that goes on is not moved to what it checked in."""

    def _adopt(self, r: Request, i: Int, *, is_first: Bool) -> None:
        a = self.path[r, i]
        self.page[a] = self.table[r, i]
        self.cut[a] = True
        self.order.push_front(a)
        self.evictable.value = self.evictable.value + 1
        self._stand(r, i)
        self.stored(a, self.above[a])


class AdoptsPageByPage(PrefixTree):
    """Each page is a node of its own."""

    def _adopt(self, r: Request, i: Int, *, is_first: Bool) -> None:
        super()._adopt(r, i, is_first=is_first == is_first)


class StoresWithoutAParent(PrefixTree):
    """An event names no parent."""

    def _tell_stored(self, a: Prefix) -> None:
        self.stored(a, none)


# ------------------------------------------------------------------------------------------------ leaving and eviction


class LeavesALock(PrefixTree):
    """An abort frees the request's own pages and forgets its lock."""

    def _unlock(self, a: Prefix) -> None:
        pass


class UnlocksTwice(PrefixTree):
    """A lock is released once too often (issue 24153)."""

    def _unlock(self, a: Prefix) -> None:
        self.lock[a] = self.lock[a] - 1
        super()._unlock(a)


class FreesWhatIsTheTrees(PrefixTree):
    """Who leaves frees its whole table."""

    def _give_up(self, r: Request, at: Int) -> None:
        p = self.table[r, at]
        super()._give_up(r, at)
        with when(~self.free.has(p)):
            self.free.push_back(p)


class JoinsTheOldest(PrefixTree):
    """What was just used is evicted next."""

    def _unlock(self, a: Prefix) -> None:
        left = self.lock[a] - 1
        self.lock[a] = left
        with when(left == 0):
            self.order.push_back(a)
            self._protect(-1)


class EvictsTheYoungest(PrefixTree):
    """What was used last goes first: an inner node, and its children stay."""

    def _next(self) -> Prefix:
        return self.order.head()


class EvictsPageByPage(PrefixTree):
    """A node is evicted in part: eviction ends in the midst of an edge."""

    def _evict(self, a: Prefix) -> None:
        super()._evict(a)
        self.shrinking.value = none


class EvictsTooMuch(PrefixTree):
    """Everything goes, whatever is asked for."""

    def _is_wanted(self, i: Index, n: Int) -> Bool:
        return i == i


class EvictsSilently(PrefixTree):
    """Nobody is told (pull request 29750)."""

    def _tell_removed(self, a: Prefix) -> None:
        pass


class FreesNothing(PrefixTree):
    """What is evicted does not come back to the allocator."""

    def _free_evicted(self, a: Prefix) -> None:
        self.page[a] = none


# ------------------------------------------------------------------------------------------------ idle copies


class FindsNothing(PrefixTree):
    """Whatever the tree has."""

    def _most(self, r: Request) -> Int:
        return self.limit[r] - self.limit[r]


class AdoptsNothing(PrefixTree):
    """What is checked in stays the request's own, and is freed with it."""

    def _most_adopted(self, k: Int, had: Int) -> Int:
        return had - had


class EvictsNothing(PrefixTree):
    """Though something could go."""

    def _is_wanted(self, i: Index, n: Int) -> Bool:
        return i != i


class LooksAtNothing(PrefixTree):
    """A look does not count as use."""

    def look(self, r: Request) -> Int:
        """It finds what there is, and leaves it as it was."""
        self.require(self.running[r])
        self.require(self.length[r] == 0)
        with self.loop(self.limit[r], going=lambda i: self.page[self.path[r, i]] != none) as walk:
            pass
        return walk.rounds


# Which action breaks which property.
class HandsOutAPageTwice(PrefixTree):
    """The pages of an allocation are one page."""

    def allocate(self, r: Request, n: Int) -> None:
        """Take the page at the head n times, and then out of the queue."""
        self.require(self.running[r])
        self.require(n >= 1)
        self.require(self.length[r] + n <= self.need[r])
        self.require(n <= self.free.size)
        p = self.free.head()
        self.free.remove(p)
        with self.loop(n):
            self.table[r, self.length[r]] = p
            self.length[r] = self.length[r] + 1


BROKEN: list[tuple[type[Machine], str, str]] = [
    (SplitForgetsLocks, "hit", "a_node_has_one_lock_ref"),
    (MatchSplitsNothing, "hit", "a_lock_stands_on_a_node"),
    (MatchOvershoots, "hit", "a_match_is_the_longest"),
    (MatchTakesNoLock, "hit", "lock_ref_counts_locks"),
    (SizesStayWithLocks, "hit", "sizes_are_counted_by_lock"),
    (LocksTheNodeOnly, "hit", "lock_ref_counts_locks"),
    (HandsOutAPageTwice, "allocate", "a_page_is_one_entrys_own"),
    (AdoptsWhatIsThere, "check_in", "every_page_is_in_one_place"),
    (KeepsDuplicates, "check_in", "every_page_is_in_one_place"),
    (FreesWhatWasAdopted, "check_in", "every_page_is_in_one_place"),
    (FreesAndReads, "check_in", "what_is_held_is_the_trees"),
    (LockStaysBehind, "check_in", "lock_ref_counts_locks"),
    (AdoptsPageByPage, "check_in", "what was adopted is one node"),
    (StoresWithoutAParent, "check_in", "every_event_is_news"),
    (LeavesALock, "leave", "lock_ref_counts_locks"),
    (UnlocksTwice, "leave", "lock_ref_counts_locks"),
    (FreesWhatIsTheTrees, "leave", "every_page_is_in_one_place"),
    (JoinsTheOldest, "leave", "parents_stand_before_children"),
    (EvictsTheYoungest, "evict", "the_tree_is_closed"),
    (EvictsPageByPage, "evict", "a node goes as a whole"),
    (EvictsTooMuch, "evict", "no node was begun in vain"),
    (EvictsSilently, "evict", "listeners_know_what_is_cached"),
    (FreesNothing, "evict", "every_page_is_in_one_place"),
]

IDLE: list[tuple[type[Machine], str, str]] = [
    (FindsNothing, "hit", "a_match_is_the_longest"),
    (AdoptsNothing, "check_in", "the_lock_moves_once"),
    (EvictsNothing, "evict", "enough_is_freed_or_nothing_is_left"),
    (LooksAtNothing, "look", "what_is_looked_at_counts_as_used"),
]
