"""Machines H with one thing wrong each: the faults that the seeds tell of (S16 to S18 of the list of known faults), and
systematic ones. Those of the planner (S19) stand in `test_planner.py`.

Each names the rule that it breaks. They are refuted by the prover and found by the explorer; the same faults in the
reference implementation stand in `tests/stateful/hybrid_mutants.py`.
"""

from __future__ import annotations

from kvproof.machine import Bool, Int, Machine, exists, forall, implies, ite, none, otherwise, when
from kvproof.spec.hybrid.aligned_split import AlignedSplit
from kvproof.spec.hybrid.connectors import Connector, Connectors, Job
from kvproof.spec.hybrid.file_store import FileStore, Page
from kvproof.spec.hybrid.groups import Groups
from kvproof.spec.hybrid.planner import Group, Tokens
from kvproof.spec.pool import Block, Hash, Position, Request
from kvproof.spec.timed.links import Moment

# -------------------------------------------------------------------------------- connectors


class CountsWhatNeverCame(Connectors):
    """S16: a load has failed, and what it should have brought counts all the same."""

    def finish_load(self, r: Request, j: Job, ok: Bool) -> None:
        """A store reports a load."""
        self.require(self.loading[r])
        self.require(self.job[r] == j)
        with when(ok):
            self.arrived[r] = self.external[r]
        self._end_load(r)


class CountsWhatWasGivenUp(Connectors):
    """S16: a load has taken too long, and what it should have brought counts all the same."""

    def expire(self, r: Request, m: Moment) -> None:
        """A load is given up."""
        self.require(self.loading[r])
        self.require(self.time[m] >= self.now.value)
        self.require(self.time[m] >= self.deadline[r])
        self.now.value = self.time[m]
        self._end_load(r)


class LateReportsCount(Connectors):
    """S18: what comes after the load was given up counts."""

    def report_late(self, j: Job) -> None:
        """A store reports a load that has ended already."""
        self.require(j < self.issued.value)
        self.require(forall(Request, lambda r: ~(self.loading[r] & (self.job[r] == j))))
        with self.each(Request) as r, when(self.over[r] & (self.job[r] == j)):
            self.external[r] = 1


class LateReportsRelease(Connectors):
    """S18: what comes after the load was given up lets go what was let go already."""

    def report_late(self, j: Job) -> None:
        """A store reports a load that has ended already."""
        self.require(j < self.issued.value)
        self.require(forall(Request, lambda r: ~(self.loading[r] & (self.job[r] == j))))
        with (
            self.each(Connector, Hash) as (c, h),
            when(self._is_late(j, h) & (self.pins[c, h] > 0)),
        ):
            self.pins[c, h] = self.pins[c, h] - 1

    def _is_late(self, j: Job, h: Hash) -> Bool:
        return exists(Request, lambda r: self.over[r] & (self.job[r] == j) & self.wanted[r, h])


class TakesAnyReport(Connectors):
    """S18: a late report of a load that was given up ends the next one."""

    def finish_load(self, r: Request, j: Job, ok: Bool) -> None:
        """A store reports a load."""
        self.require(self.loading[r])
        self.require(j < self.issued.value)
        with when(ok):
            self.arrived[r] = self.external[r]
        with otherwise():
            self.external[r] = 0
        self._end_load(r)


class WaitsForEver(Connectors):
    """S18: a load that never ends is never given up, as long as another is under way."""

    def expire(self, r: Request, m: Moment) -> None:
        """A load has taken too long."""
        self.require(forall(Request, lambda q: (q == r) | ~self.loading[q]))
        super().expire(r, m)


class GivesUpEarly(Connectors):
    """H6: a load is given up at any time."""

    def expire(self, r: Request, m: Moment) -> None:
        """A load is given up."""
        self.require(self.loading[r])
        self.require(self.time[m] >= self.now.value)
        self.now.value = self.time[m]
        self.external[r] = 0
        self._end_load(r)


class AnyNoneDefersAll(Connectors):
    """S17: one that has not resolved defers all, as in the other dialect."""

    def is_deferred(self, r: Request) -> Bool:
        """Somebody has not answered."""
        return exists(Connector, lambda c: (c < self.count.value) & ~self.has_answered(c, r))


class FirstAnswerWins(Connectors):
    """H5, dialect `first`: one that has not resolved is not waited for."""

    def is_deferred(self, r: Request) -> Bool:
        """Nobody has answered."""
        return forall(Connector, lambda c: ~self.has_answered(c, r))


class MissesWhatOneHas(Connectors):
    """H5: one that has nothing is enough for a miss."""

    def miss(self, r: Request) -> None:
        """A lookup finds nothing."""
        self.require(self.may_look_up(r))
        self.require(~self.is_deferred(r))
        self.require(exists(Connector, lambda c: (c < self.count.value) & ~self.offers(c, r)))
        self.inside[r] = True
        self._count(r)
        self._drop_answers(r)


class TrustsAnOldAnswer(Connectors):
    """H5: what a store has answered before is taken for what it has now."""

    def has_answered(self, c: Connector, r: Request) -> Bool:
        """The store is not busy."""
        return (c < self.count.value) & (self.pending[c] < self.most_pending.value)


class LosersKeepTheirAnswers(Connectors):
    """O5: only the winner is told that the lookup is over."""

    def choose(self, r: Request, c: Connector) -> Int:
        """A lookup is answered."""
        self.require(self.may_look_up(r))
        self.require(~self.is_deferred(r))
        self.require(self.offers(c, r))
        self.require(forall(Connector, lambda d: implies((d != c) & self.offers(d, r), self.is_better(c, d, r))))
        promised = self.answer[c, r]
        with when(~self.counted[r]):
            self.hits.add(1, c)
            self.hit_tokens.add(promised, c)
        self._count(r)
        self.resolved[c, r] = False
        self.inside[r] = True
        self.chosen[r] = c
        self.promised[r] = promised
        return promised


class LoadsMoreThanWasPromised(Connectors):
    """H5: as much as is wanted is loaded."""

    def begin_load(self, r: Request, n: Tokens, j: Job, m: Moment) -> None:
        """The chosen store begins to load."""
        promised = self.promised[r]
        super().begin_load(r, n, j, m)
        self.external[r] = promised + n


class ForgetsTheDeadline(Connectors):
    """H6: the time of a load runs from the first one on."""

    def begin_load(self, r: Request, n: Tokens, j: Job, m: Moment) -> None:
        """The chosen store begins to load."""
        deadline, is_first = self.deadline[r], self.job[r] == none
        super().begin_load(r, n, j, m)
        with when(~is_first):
            self.deadline[r] = deadline


class ComesBackAsItWas(Connectors):
    """P15: a request that was preempted goes on with the stay that it had."""

    def leave(self, r: Request) -> None:
        """A request leaves."""
        counted, over = self.counted[r], self.over[r]
        super().leave(r)
        self.counted[r] = counted
        self.over[r] = over


class WorthIsTokens(Connectors):
    """H5: the store with the most tokens wins, however slow it is."""

    def is_better(self, c: Connector, d: Connector, r: Request) -> Bool:
        """It has more."""
        mine, other = self.answer[c, r], self.answer[d, r]
        has_more = (mine > other) | ((mine == other) & (c < d))
        return (has_more & self.weighted.value) | ((c < d) & ~self.weighted.value)


class LastOfEqualsWins(Connectors):
    """H5: of stores that are worth as much, the last wins."""

    def is_better(self, c: Connector, d: Connector, r: Request) -> Bool:
        """It is worth more, or as much."""
        worth, other = self.answer[c, r] * self.weight[c], self.answer[d, r] * self.weight[d]
        is_worth_more = (worth > other) | ((worth == other) & (d < c))
        return (is_worth_more & self.weighted.value) | ((c < d) & ~self.weighted.value)


class AlwaysWeighs(Connectors):
    """H5, dialect `first`: the most worth wins although the first should."""

    def is_better(self, c: Connector, d: Connector, r: Request) -> Bool:
        """It is worth more."""
        worth, other = self.answer[c, r] * self.weight[c], self.answer[d, r] * self.weight[d]
        return (worth > other) | ((worth == other) & (c < d))


class LosersKeepWhatTheyHold(Connectors):
    """O5: who was not chosen is not told."""

    def _drop_answers(self, r: Request) -> None:
        with self.each(Connector) as c, when(self.resolved[c, r]):
            self.resolved[c, r] = False


class DeclinesInSilence(Connectors):
    """O5: who was chosen is not told that the request does without."""

    def _take_back(self, r: Request) -> None:
        self.chosen[r] = none
        self.promised[r] = 0


class OnlyTheWinnerStores(Connectors):
    """H5: what was computed is offered to stores that some request has chosen."""

    def store(self, h: Hash) -> None:
        """What was computed is offered."""
        with self.each(Connector) as c, when(exists(Request, lambda r: self.chosen[r] == c)):
            self.kept[c, h] = True


class AllLoad(Connectors):
    """H5: every store pins what the chosen one should load."""

    def begin_load(self, r: Request, n: Tokens, j: Job, m: Moment) -> None:
        """They begin to load."""
        c = self.chosen[r]
        super().begin_load(r, n, j, m)
        with self.each(Connector, Hash) as (d, h), when((d != c) & self.wanted[r, h]):
            self.pins[d, h] = self.pins[d, h] + 1


class PreemptsWithoutReleasing(Connectors):
    """O8: a preempted request's load is forgotten, and what it had pinned stays pinned."""

    def leave(self, r: Request) -> None:
        """A request leaves."""
        self.require(self.inside[r])
        with self.each(Hash) as h:
            self.prepared[r, h] = False
        with self.each(Connector) as d:
            self.resolved[d, r] = False
            self.holds[d, r] = False
        self.inside[r] = False
        self.loading[r] = False
        self.over[r] = False
        self.chosen[r] = none
        self.promised[r] = 0
        self.external[r] = 0
        self.arrived[r] = 0
        self.counted[r] = False


class ReleasesTwice(Connectors):
    """H6: what a load had pinned is let go at its end, and once more when the request leaves."""

    def _end_load(self, r: Request) -> None:
        c = self.chosen[r]
        with self.each(Hash) as h, when(self.prepared[r, h]):
            self.pins[c, h] = self.pins[c, h] - 1
        self.loading[r] = False
        self.over[r] = True
        self.chosen[r] = none


class ReleasesWhatItDidNotPin(Connectors):
    """H6: everything that somebody reads is let go."""

    def _end_load(self, r: Request) -> None:
        c = self.chosen[r]
        with self.each(Hash) as h, when(self.pins[c, h] > 0):
            self.prepared[r, h] = False
            self.pins[c, h] = self.pins[c, h] - 1
        self.loading[r] = False
        self.over[r] = True
        self.chosen[r] = none


class GivesUpAll(Connectors):
    """H6: one load has taken too long, and all are given up."""

    def expire(self, r: Request, m: Moment) -> None:
        """Loads are given up."""
        super().expire(r, m)
        with self.each(Connector, Hash) as (c, h):
            self.pins[c, h] = 0
        with self.each(Request, Hash) as (q, h):
            self.prepared[q, h] = False
        with self.each(Request) as q, when(self.loading[q]):
            self.external[q] = 0
            self.loading[q] = False
            self.over[q] = True
            self.chosen[q] = none


class LoadsMoreThanItMay(Connectors):
    """H5: how many loads a store has is not looked at."""

    def has_answered(self, c: Connector, r: Request) -> Bool:
        """The store has resolved."""
        return (c < self.count.value) & self.resolved[c, r]


class BusyMeansNothing(Connectors):
    """H5: too much work in flight is a miss: the request is not deferred, it computes."""

    def is_deferred(self, r: Request) -> Bool:
        """Nobody has resolved; where the first wins, somebody has not."""
        nobody = forall(Connector, lambda c: ~((c < self.count.value) & self.resolved[c, r]))
        somebody = exists(Connector, lambda c: (c < self.count.value) & ~self.resolved[c, r])
        return (nobody & self.weighted.value) | (somebody & ~self.weighted.value)


class CountsEveryLookup(Connectors):
    """P15: a request that looks up again counts again."""

    def _count(self, r: Request) -> None:
        with self.each(Connector) as c, when(self.has_answered(c, r)):
            self.queries.add(1, c)
            with when(self.answer[c, r] == 0):
                self.misses.add(1, c)
        self.counted[r] = True


class CountsTheWinnerOnly(Connectors):
    """P15: a store that was asked, and lost, was not asked."""

    def _count(self, r: Request) -> None:
        is_new = ~self.counted[r]
        with self.each(Connector) as c, when(is_new & self.has_answered(c, r)):
            with when(self.answer[c, r] > 0):
                self.queries.add(1, c)
            with otherwise():
                self.misses.add(1, c)
        self.counted[r] = True


# -------------------------------------------------------------------------------- files


class RenamesBeforeItSyncs(FileStore):
    """H9: the name reaches the disk before what the file holds."""

    def _sync_pages(self, h: Hash) -> None:
        """Later, perhaps."""


class RenamesWhatIsNotWhole(FileStore):
    """H9: a file gets its final name while it is being written."""

    def rename(self, h: Hash) -> None:
        """A file gets its final name."""
        self.require(self.temporary[h])
        self._sync_pages(h)
        self.temporary[h] = False
        self.final[h] = True


class WritesUnderTheFinalName(FileStore):
    """H9: there is no temporary name."""

    def create(self, h: Hash) -> None:
        """A file is begun."""
        super().create(h)
        self.final[h] = True


class WritesAnewWhatIsThere(FileStore):
    """H9: a file is begun although there is one, and gets its name beside it."""

    def create(self, h: Hash) -> None:
        """A file is begun."""
        self.require(~self.temporary[h])
        self.temporary[h] = True
        with self.each(Page) as p:
            self.written[h, p] = False
            self.on_disk[h, p] = False


class ReportsBeforeTheDirectory(FileStore):
    """H9: what has its name is reported as stored, and the name is not on the disk."""

    def sync_directory(self, h: Hash) -> None:
        """It is reported that the hash is stored."""
        self.require(self.final[h])
        self.require(~self.ready[h])
        self.ready[h] = True
        self.stored[h] = ~self.damaged[h]


class ReportsWhatIsDamaged(FileStore):
    """H9: somebody cut the file before it was reported."""

    def sync_directory(self, h: Hash) -> None:
        """It is reported that the hash is stored."""
        super().sync_directory(h)
        self.stored[h] = True


class LoadsUnchecked(FileStore):
    """O11: a file is served as it is."""

    def load(self, h: Hash) -> Bool:
        """A file is read."""
        self.require(self.ready[h])
        return self.ready[h] | self.is_whole(h)


class LoadsAnyPart(FileStore):
    """H9: a file of which some page is right is taken for whole."""

    def load(self, h: Hash) -> Bool:
        """A file is read."""
        self.require(self.ready[h])
        is_whole = exists(Page, lambda p: self.written[h, p])
        with when(~is_whole):
            self._remove(h)
        return is_whole


class ServesTemporaryFiles(FileStore):
    """H9: after a crash whatever lies there is served."""

    def crash(self) -> None:
        """The next process finds what is there."""
        with self.each(Hash, Page) as (h, p), when(self.temporary[h] & ~self.final_on_disk[h]):
            self.found[h, p] = self.on_disk[h, p]
        with self.each(Hash) as h, when(self.temporary[h]):
            self.final_on_disk[h] = True
        super().crash()


class StartsEmpty(FileStore):
    """H9: after a crash nothing is served."""

    def crash(self) -> None:
        """The next process looks for nothing."""
        super().crash()
        with self.each(Hash) as h:
            self.ready[h] = False


class ServesWhatItRemoved(FileStore):
    """H9: a file that made room is still thought to be there."""

    def evict(self, h: Hash) -> None:
        """A file makes room."""
        self.require(self.ready[h])
        self.final[h] = False
        self.stored[h] = False
        self.damaged[h] = False


class WritesInPlace(FileStore):
    """H9: what is damaged is mended under its final name."""

    def write(self, h: Hash, p: Page) -> None:
        """A page is written."""
        self.require(self.temporary[h] | self.final[h])
        self.written[h, p] = True


class ForgetsAfterARestart(FileStore):
    """H9: what was not reported before the crash is not looked for, and its name is taken for ever."""

    def crash(self) -> None:
        """The next process serves what it is told."""
        super().crash()
        with self.each(Hash) as h, when(~self.stored[h]):
            self.ready[h] = False


class EvictsNothing(FileStore):
    """H9: who makes room does not."""

    def evict(self, h: Hash) -> None:
        """A file makes no room."""
        self.require(self.ready[h])
        self.stored[h] = False


# -------------------------------------------------------------------------------- groups


class GroupsLengthen(Groups):
    """H4: a group answers with what it has, however short the candidate is by now."""

    def shorten(self, r: Request, g: Group, t: Tokens) -> None:
        """A group says how much it can use."""
        self.require(self.seeking.value == r)
        self.require(t <= self.limit[r])
        self.require(self.is_boundary[t] & self.is_served(g, r, t))
        self.require(
            forall(
                Tokens,
                lambda u: implies((u <= self.limit[r]) & self.is_boundary[u] & self.is_served(g, r, u), u <= t),
            )
        )
        self.candidate.value = t


class TakesLessThanThereIs(Groups):
    """H4: a group answers with some prefix that it can use."""

    def shorten(self, r: Request, g: Group, t: Tokens) -> None:
        """A group says how much it can use."""
        self.require(self.seeking.value == r)
        self.require(t <= self.candidate.value)
        self.require(self.is_boundary[t] & self.is_served(g, r, t))
        self.candidate.value = t


class AsksOnce(Groups):
    """H4: each group is asked once; that the last made the candidate too short for the first is not seen."""

    def hit(self, r: Request) -> None:
        """The candidate is taken if one group agrees."""
        self.require(self.seeking.value == r)
        length = self.candidate.value
        self.require(self.is_boundary[length])
        self.require(exists(Group, lambda g: self.is_served(g, r, length)))
        with self.each(Block) as b, when(exists(Group, Position, lambda g, i: self._hits(g, r, i, length, b))):
            self.free[b] = False
        with self.each(Group, Position) as (g, i), when(self.needs[g, length, i]):
            self.table[g, r, i] = self.cached[self.name[g, r, i]]
        self.computed[r] = length
        self.external[r] = 0
        self.seeking.value = none


class NamesForgetTheGroup(Groups):
    """H8: names tell a position, and not whose."""

    def a_name_tells_its_place(self, g: Group, x: Group, r: Request, q: Request, i: Position, j: Position) -> Bool:
        """Not even its group."""
        return implies(self.name[g, r, i] == self.name[x, q, j], i == j)


class TouchesOneGroup(Groups):
    """P8: what all groups need is taken from the free blocks, what one needs is not."""

    def hit(self, r: Request) -> None:
        """All groups agree."""
        self.require(self.seeking.value == r)
        self.require(self.is_common(r, self.candidate.value))
        length = self.candidate.value
        with (
            self.each(Block) as b,
            when(forall(Group, lambda g: exists(Position, lambda i: self._hits(g, r, i, length, b)))),
        ):
            self.free[b] = False
        with self.each(Group, Position) as (g, i), when(self.needs[g, length, i]):
            self.table[g, r, i] = self.cached[self.name[g, r, i]]
        self.computed[r] = length
        self.external[r] = 0
        self.seeking.value = none


class AllocatesWhatIsHeld(Groups):
    """P7: the block may be any."""

    def allocate(self, g: Group, r: Request, i: Position, b: Block) -> None:
        """A block is taken."""
        self.require(self.seeking.value == none)
        self.require(self.running[r])
        self.require(self.table[g, r, i] == none)
        self.free[b] = False
        self.table[g, r, i] = b
        with when(self.hash[b] != none):
            self.cached[self.hash[b]] = none
        self.hash[b] = none


class AllocatesWithoutForgetting(Groups):
    """P7: what was in the block is still found there."""

    def allocate(self, g: Group, r: Request, i: Position, b: Block) -> None:
        """A free block is taken."""
        self.require(self.seeking.value == none)
        self.require(self.running[r])
        self.require(self.free[b])
        self.require(self.table[g, r, i] == none)
        self.free[b] = False
        self.table[g, r, i] = b


class RegistersUnderALookup(Groups):
    """P8: what is registered while a lookup goes on makes a hit possible that it does not find."""

    def register(self, g: Group, r: Request, i: Position) -> None:
        """A full block can be found."""
        self.require(self.table[g, r, i] != none)
        self.require(self.hash[self.table[g, r, i]] == none)
        self.require(self.cached[self.name[g, r, i]] == none)
        self.hash[self.table[g, r, i]] = self.name[g, r, i]
        self.cached[self.name[g, r, i]] = self.table[g, r, i]


class FreesWhatIsShared(Groups):
    """P9: what leaves the window of one request is free, whoever else holds it."""

    def drop(self, g: Group, r: Request, i: Position) -> None:
        """A block is not needed any more."""
        self.require(self.seeking.value == none)
        b = self.table[g, r, i]
        self.require(b != none)
        self.table[g, r, i] = none
        self.free[b] = True


class LosesWhatItDrops(Groups):
    """P2: what leaves a window is never free again."""

    def drop(self, g: Group, r: Request, i: Position) -> None:
        """A block is not needed any more."""
        self.require(self.seeking.value == none)
        self.require(self.table[g, r, i] != none)
        self.table[g, r, i] = none


class LeavesWithTheBlocksOfOthers(Groups):
    """P9: whatever a request held is free when it leaves."""

    def leave(self, r: Request) -> None:
        """A request leaves."""
        self.require(self.seeking.value == none)
        self.require(self.running[r])
        with self.each(Block) as b, when(exists(Group, Position, lambda g, i: self.table[g, r, i] == b)):
            self.free[b] = True
        with self.each(Group, Position) as (g, i):
            self.table[g, r, i] = none
        self.running[r] = False
        self.computed[r] = 0
        self.external[r] = 0
        self.has_loaded[r] = False


class ZeroesComputedOnly(Groups):
    """S16: with nothing left in common, what was loaded still counts."""

    def settle(self, r: Request, t: Tokens) -> None:
        """The groups disagree."""
        self.require(self.seeking.value == none)
        self.require(self.has_loaded[r])
        self.require(self.is_boundary[t])
        self.require(forall(Group, lambda g: t <= self.reached[g, r]))
        self.require(
            forall(
                Tokens,
                lambda u: implies(self.is_boundary[u] & forall(Group, lambda g: u <= self.reached[g, r]), u <= t),
            )
        )
        before = self.computed[r]
        with when(before <= t):
            self.external[r] = t - before
        with otherwise():
            self.computed[r] = t
        self.has_loaded[r] = False


class CountsOneGroup(Groups):
    """H4: what one group has reached counts for all."""

    def settle(self, r: Request, t: Tokens) -> None:
        """The groups disagree."""
        self.require(self.seeking.value == none)
        self.require(self.has_loaded[r])
        self.require(self.is_boundary[t])
        self.require(exists(Group, lambda g: t <= self.reached[g, r]))
        before = self.computed[r]
        with when(before <= t):
            self.external[r] = t - before
        with otherwise():
            self.computed[r] = t
            self.external[r] = 0
        self.has_loaded[r] = False


class SettlesWithinABlock(Groups):
    """H4: the plain minimum of what groups have, boundary or not."""

    def settle(self, r: Request, t: Tokens) -> None:
        """The groups disagree."""
        self.require(self.seeking.value == none)
        self.require(self.has_loaded[r])
        self.require(forall(Group, lambda g: t <= self.reached[g, r]))
        self.require(exists(Group, lambda g: t == self.reached[g, r]))
        before = self.computed[r]
        with when(before <= t):
            self.external[r] = t - before
        with otherwise():
            self.computed[r] = t
            self.external[r] = 0
        self.has_loaded[r] = False


class SettlesForNothing(Groups):
    """H4: if groups disagree, nothing counts."""

    def settle(self, r: Request, t: Tokens) -> None:
        """The groups disagree."""
        self.require(self.seeking.value == none)
        self.require(self.has_loaded[r])
        self.require(t == 0)
        self.computed[r] = 0
        self.external[r] = 0
        self.has_loaded[r] = False


# -------------------------------------------------------------------------------- steps of mamba models


class AlignsTheLength(AlignedSplit):
    """H7: the length of a step is whole blocks, and not its end."""

    def end(self, r: Request, budget: Int) -> Int:
        """Where a step ends."""
        start, last = self.start(r), self.last(r)
        left = last - start
        length = ite(budget < left, budget, left) // self.block.value * self.block.value
        reach = start + budget
        return ite(start < last, start + length, ite(reach < self.total[r], reach, self.total[r]))


class StepsOverTheLastBlock(AlignedSplit):
    """H7: a step that reaches the end is not cut at the last whole block."""

    def end(self, r: Request, budget: Int) -> Int:
        """Where a step ends."""
        start, last = self.start(r), self.last(r)
        reach = start + budget
        aligned = reach // self.block.value * self.block.value
        rest = ite(reach < self.total[r], reach, self.total[r])
        return ite((start < last) & (reach < last), ite(aligned > start, aligned, start), rest)


class StopsAtTheLastBlock(AlignedSplit):
    """H7: what is behind the last whole block is never computed."""

    def end(self, r: Request, budget: Int) -> Int:
        """Where a step ends."""
        start, last = self.start(r), self.last(r)
        reach = start + budget
        aligned = ite(reach < last, reach, last) // self.block.value * self.block.value
        return ite(aligned > start, aligned, start)


class ComputesWhileItLoads(AlignedSplit):
    """H7: a load under way stops nothing."""

    def schedule(self, r: Request, budget: Tokens) -> None:
        """A step computes what it may."""
        self.computed[r] = self.computed[r] + self.end(r, budget) - self.start(r)


class ForgetsWhatWasLoaded(AlignedSplit):
    """H7: a step is aligned as if loaded tokens were not there."""

    def schedule(self, r: Request, budget: Tokens) -> None:
        """A step computes what it may."""
        start, last = self.computed[r], self.last(r)
        reach = start + budget
        aligned = ite(reach < last, reach, last) // self.block.value * self.block.value
        left = self.total[r] - self.external[r]
        rest = ite(reach < left, reach, left)
        with when(~self.loading[r]):
            self.computed[r] = ite(start < last, ite(aligned > start, aligned, start), rest)


class KeepsWhatFailed(AlignedSplit):
    """S16: what a load has not brought still counts."""

    def end_load(self, r: Request, ok: Bool) -> None:
        """A load ends, well or badly."""
        self.require(self.loading[r])
        self.require(ok | ~ok)
        self.loading[r] = False


class LoadsOverWhatWasLoaded(AlignedSplit):
    """H7: a second load takes the place of the first."""

    def begin_load(self, r: Request, n: Tokens) -> None:
        """Tokens behind the computed ones are promised."""
        self.require(~self.loading[r])
        self.require(self.computed[r] + n <= self.total[r])
        self.external[r] = n
        self.loading[r] = True


class TakesNegativeBlocks(AlignedSplit):
    """H7: a request that holds more than it is asked for gives back, or is an error."""

    def grow(self, r: Request, demand: Tokens) -> None:
        """Hold as many blocks as so many tokens need."""
        self.held[r] = (demand + self.block.value - 1) // self.block.value


class RoundsDown(AlignedSplit):
    """H7: a block that is begun is not taken."""

    def grow(self, r: Request, demand: Tokens) -> None:
        """Take what is missing."""
        needed = demand // self.block.value
        with when(needed > self.held[r]):
            self.held[r] = needed


BROKEN: list[tuple[type[Machine], str, str, str]] = [
    (CountsWhatNeverCame, "finish_load", "what_counts_is_there_or_comes", "O11"),
    (CountsWhatWasGivenUp, "expire", "a_load_given_up_is_computed", "H6"),
    (LateReportsCount, "report_late", "a_late_report_changes_nothing", "H6"),
    (LateReportsRelease, "report_late", "a_late_report_changes_nothing", "H6"),
    (TakesAnyReport, "finish_load", "a_load_ends_with_its_own_report", "H6"),
    (WaitsForEver, "every state", "a_load_that_takes_too_long_can_be_given_up", "H6"),
    (GivesUpEarly, "expire", "no_load_is_given_up_early", "H6"),
    (AnyNoneDefersAll, "wait", "only_who_has_no_answer_waits", "H5"),
    (FirstAnswerWins, "miss", "nobody_is_waited_for", "H5"),
    (MissesWhatOneHas, "miss", "a_miss_means_that_nobody_has_anything", "H5"),
    (TrustsAnOldAnswer, "choose", "the_winner_has_what_it_promises", "O5"),
    (LosersKeepTheirAnswers, "choose", "a_lookup_uses_up_the_answers", "P15"),
    (LoadsMoreThanWasPromised, "begin_load", "a_load_is_part_of_what_was_promised", "H6"),
    (ForgetsTheDeadline, "begin_load", "a_load_is_part_of_what_was_promised", "H6"),
    (ComesBackAsItWas, "leave", "nothing_is_known_of_who_is_not_inside", "O8"),
    (WorthIsTokens, "choose", "the_most_worth_wins", "H5"),
    (LastOfEqualsWins, "choose", "the_most_worth_wins", "H5"),
    (AlwaysWeighs, "choose", "the_most_worth_wins", "H5"),
    (LosersKeepWhatTheyHold, "choose", "only_who_may_be_needed_holds", "O5"),
    (DeclinesInSilence, "decline", "only_who_may_be_needed_holds", "O5"),
    (OnlyTheWinnerStores, "store", "all_store", "H5"),
    (AllLoad, "begin_load", "pins_count_loads", "H6"),
    (PreemptsWithoutReleasing, "leave", "pins_count_loads", "H6"),
    (ReleasesTwice, "finish_load", "a_load_has_prepared_what_it_reads", "H6"),
    (ReleasesWhatItDidNotPin, "finish_load", "pins_count_loads", "H6"),
    (GivesUpAll, "expire", "requests_go_on_by_themselves", "H5"),
    (LoadsMoreThanItMay, "choose", "nobody_has_more_loads_than_it_may", "H5"),
    (BusyMeansNothing, "miss", "nobody_is_waited_for", "H5"),
    (CountsEveryLookup, "miss", "an_answer_counts_once", "P15"),
    (CountsTheWinnerOnly, "miss", "an_answer_counts_once", "P15"),
    (RenamesBeforeItSyncs, "rename", "a_final_name_means_whole", "H9"),
    (RenamesWhatIsNotWhole, "rename", "a_final_name_means_whole", "H9"),
    (WritesUnderTheFinalName, "create", "a_final_name_means_whole", "H9"),
    (WritesAnewWhatIsThere, "create", "a_file_has_one_name", "H9"),
    (ReportsBeforeTheDirectory, "sync_directory", "only_final_names_are_served", "H9"),
    (ReportsWhatIsDamaged, "sync_directory", "what_was_stored_is_served", "H9"),
    (LoadsUnchecked, "load", "only_what_is_whole_stays", "H9"),
    (LoadsAnyPart, "load", "only_what_is_whole_stays", "H9"),
    (ServesTemporaryFiles, "crash", "a_crash_loses_nothing_that_was_stored", "H9"),
    (StartsEmpty, "crash", "a_crash_loses_nothing_that_was_stored", "H9"),
    (ServesWhatItRemoved, "evict", "only_final_names_are_served", "H9"),
    (WritesInPlace, "write", "only_temporary_files_change", "H9"),
    (ForgetsAfterARestart, "crash", "a_crash_loses_nothing_that_was_stored", "H9"),
    (EvictsNothing, "evict", "what_is_evicted_is_gone", "H9"),
    (GroupsLengthen, "shorten", "a_group_only_shortens", "H4"),
    (TakesLessThanThereIs, "shorten", "nothing_longer_is_common", "H4"),
    (AsksOnce, "hit", "a_hit_covers_what_every_group_needs", "H4"),
    (NamesForgetTheGroup, "hit", "a_block_keeps_its_place", "H8"),
    (TouchesOneGroup, "hit", "a_hit_covers_what_every_group_needs", "H4"),
    (AllocatesWhatIsHeld, "allocate", "no_block_is_in_two_places", "H8"),
    (AllocatesWithoutForgetting, "allocate", "a_block_keeps_its_place", "H8"),
    (RegistersUnderALookup, "register", "nothing_longer_is_common", "H4"),
    (FreesWhatIsShared, "drop", "nobody_loses_a_block", "P9"),
    (LosesWhatItDrops, "drop", "who_is_not_free_is_held", "P2"),
    (LeavesWithTheBlocksOfOthers, "leave", "nobody_loses_a_block", "P9"),
    (ZeroesComputedOnly, "settle", "what_counts_is_there_for_all", "O11"),
    (CountsOneGroup, "settle", "what_counts_is_there_for_all", "H4"),
    (SettlesWithinABlock, "settle", "what_counts_is_there_for_all", "H4"),
    (SettlesForNothing, "settle", "what_counts_is_the_most", "H4"),
    (AlignsTheLength, "schedule", "a_step_ends_with_a_block", "H7"),
    (StepsOverTheLastBlock, "schedule", "a_step_ends_with_a_block", "H7"),
    (StopsAtTheLastBlock, "schedule", "a_step_with_a_budget_goes_on", "H7"),
    (ComputesWhileItLoads, "schedule", "a_step_keeps_to_its_budget", "H7"),
    (ForgetsWhatWasLoaded, "schedule", "a_step_ends_with_a_block", "H7"),
    (KeepsWhatFailed, "end_load", "only_what_came_counts", "O11"),
    (LoadsOverWhatWasLoaded, "begin_load", "nothing_is_computed_again", "H7"),
    (TakesNegativeBlocks, "grow", "only_what_is_missing_is_taken", "H7"),
    (RoundsDown, "grow", "only_what_is_missing_is_taken", "H7"),
]
"""Machine, an action that shows the fault, the property that it breaks, and its rule."""
