"""Machine G with one thing wrong each: faults that the seeds describe (S13 to S15), and systematic ones.

Each names the rule that it breaks. They are refuted by the prover, and found by the explorer in `tests/explore`; the
same faults in the reference implementation stand in `tests/stateful/timed_mutants.py`.
"""

from __future__ import annotations

from kvproof.machine import Bool, Event, Int, Machine, Map, Real, action, forall, implies, ite, none, otherwise, when
from kvproof.spec.pool import Block, Hash, Position, Request
from kvproof.spec.timed.links import Link, Links, Moment, Transfer
from kvproof.spec.timed.shared_tier import SharedTier, Worker
from kvproof.spec.timed.timed_tiers import TimedTiers

# ------------------------------------------------------------------------------------------------ links


class EachHasTheWholeLink(Links):
    """S14: every transfer moves at the full bandwidth, however many there are."""

    def _move(self, time: Real) -> None:
        passed = time - self.now.value
        with self.each(Link) as x, when(self.active[x] > 0):
            self.given[x] = self.given[x] + self.bandwidth[x] * passed
        self.now.value = time


class DividesByOneMore(Links):
    """A transfer shares with one that is not there, so that a link is never busy."""

    def _move(self, time: Real) -> None:
        passed = time - self.now.value
        with self.each(Link) as x, when(self.active[x] > 0):
            self.given[x] = self.given[x] + self.bandwidth[x] * passed / (self.active[x] + 1)
        self.now.value = time


class RoundsTheShare(Links):
    """Half bytes are lost."""

    def _move(self, time: Real) -> None:
        passed = time - self.now.value
        with self.each(Link) as x, when((self.active[x] > 0) & (self.bandwidth[x] * passed >= self.active[x])):
            self.given[x] = self.given[x] + self.bandwidth[x] * passed / self.active[x]
        self.now.value = time


class LetsTimePassDeadlines(Links):
    """Time moves to a moment, whatever ends on the way."""

    def nobody_is_done_before(self, time: Real) -> Bool:
        return time == time


class MovesOnWithoutCompleting(Links):
    """Time moves on though something is done: where copies take no time, they are completed late."""

    def nothing_is_due(self) -> Bool:
        return self.now.value == self.now.value


class CompletesTheLastFirst(Links):
    """Of transfers that end at one time, the greatest id comes first."""

    def complete(self, t: Transfer) -> None:
        """The transfer that is due with the greatest id is completed."""
        self.require(self.moving[t])
        self.require(self.is_due(t))
        self.require(forall(Transfer, lambda u: implies(self.is_due(u), u <= t)))
        self._complete(t)


class CompletesTooEarly(Links):
    """S13: a copy is done when it has begun."""

    def complete(self, t: Transfer) -> None:
        """Any transfer under way."""
        self.require(self.moving[t])
        self._complete(t)


class CountsIdsPerLink(Links):
    """S15: ids are given anew on every link, so two transfers have the same."""

    begun_on = Map(Link, to=Int)

    def start(self, t: Transfer, x: Link, m: Moment) -> None:
        """A copy takes the next id of its link."""
        self.require(self.time[m] <= self.now.value)
        self.require(t == self.begun_on[x])
        self.begun_on[x] = self.begun_on[x] + 1
        self._begin(t, x, self.bytes[t])


class RunsBackward(Links):
    """A moment that is past is gone to."""

    def advance(self, m: Moment) -> None:
        """Time moves to a moment."""
        self.require(self.nothing_is_due())
        self.require(self.nobody_is_done_before(self.time[m]))
        self._move(self.time[m])


class StartsInThePast(Links):
    """No clamp: a copy begins when it was asked for."""

    def start(self, t: Transfer, x: Link, m: Moment) -> None:
        """A copy begins."""
        self.require(self.time[m] <= self.now.value)
        self.require(t == self.issued.value)
        self._begin(t, x, self.bytes[t])
        self.begun[t] = self.time[m]


class NeverForgetsWhatWasGiven(Links):
    """A link that is idle keeps its number."""

    def _complete(self, t: Transfer) -> None:
        self.moving[t] = False
        self.ended[t] = self.now.value
        self.completed.push_back(t)


class ForgetsTooEarly(Links):
    """What was given is forgotten while others still need it."""

    def _complete(self, t: Transfer) -> None:
        super()._complete(t)
        self.given[self.link[t]] = 0


class WaitsWithoutABandwidth(Links):
    """Where a bandwidth is unknown, a copy never ends."""

    def _begin(self, t: Transfer, x: Link, size: Real) -> None:
        super()._begin(t, x, size)
        self.mark[t] = self.given[x] + size


class CompletesAnother(Links):
    """S15: the end of one transfer wakes the next as well."""

    def _complete(self, t: Transfer) -> None:
        super()._complete(t)
        self.moving[t + 1] = False


# ------------------------------------------------------------------------------------------------ timed tiers


class FreesBeforeTheCopyEnds(TimedTiers):
    """S13: a block is free when its copy begins."""

    def _load(self, b: Block, t: Transfer) -> None:
        super()._load(b, t)
        self.free.push_back(b)


class HandsOutWhatIsCopied(TimedTiers):
    """S13: where nothing is free, a block is taken that is still to be copied."""

    @action("G1")
    def allocate_in_need(self) -> Block:
        """Take the head of the open batch."""
        self.require(self.free.is_empty())
        self.require(~self.gathered.is_empty())
        b = self.gathered.head()
        self.gathered.remove(b)
        self.used[b] = True
        return b


class GathersMoreThanABatch(TimedTiers):
    """The size of a batch is ignored."""

    def evict(self, b: Block) -> None:
        """The idle block that was not used for longest joins the open batch."""
        self.require(self.idle.is_first(b))
        h = self.holds[b]
        is_spare = self.on_host[h] | self.is_on_its_way(h) | (self.capacity.value == 0)
        self.idle.remove(b)
        self.found[h] = none
        with when(is_spare):
            self.holds[b] = none
            self.free.push_back(b)
        with otherwise():
            self.gathered.push_back(b)


class PaysForOneBlock(TimedTiers):
    """S14: a batch moves as many bytes as one block has."""

    def _begin(self, t: Transfer, x: Link, size: Real) -> None:
        is_batch = (x == self.down.value) & (size > self.block_bytes.value)
        super()._begin(t, x, ite(is_batch, self.block_bytes.value, size))


class ShipsUpwards(TimedTiers):
    """A batch takes the wrong link."""

    def ship(self, t: Transfer) -> None:
        """The open batch goes down, in one transfer."""
        up = self.up.value
        super().ship(t)
        self.link[t] = up
        self.mark[t] = self.given[up] + ite(self.bandwidth[up] > 0, self.size[t], 0)


class StoresWhatTheHostHas(TimedTiers):
    """What is on the host goes down again."""

    def evict(self, b: Block) -> None:
        """The idle block that was not used for longest joins the open batch."""
        self.require(self.idle.is_first(b))
        self.require(self.gathered.size < self.batch.value)
        h = self.holds[b]
        is_spare = self.is_on_its_way(h) | (self.capacity.value == 0)
        self.idle.remove(b)
        self.found[h] = none
        with when(is_spare):
            self.holds[b] = none
            self.free.push_back(b)
        with otherwise():
            self.gathered.push_back(b)


class StoresTwiceAtOnce(TimedTiers):
    """What is on its way to the host goes down in another block too."""

    def is_on_its_way(self, h: Hash) -> Bool:
        return self.on_host[h] & ~self.on_host[h]


class FindsWhatIsGathered(TimedTiers):
    """An evicted block can still be found."""

    def evict(self, b: Block) -> None:
        """The idle block that was not used for longest joins the open batch."""
        h = self.holds[b]
        super().evict(b)
        with when(self.gathered.has(b)):
            self.found[h] = b


class KeepsMoreThanItsCapacity(TimedTiers):
    """A full host makes no room."""

    def _land(self, b: Block) -> None:
        h = self.holds[b]
        self.holds[b] = none
        self.free.push_back(b)
        self.host.push_back(h)
        self.on_host[h] = True
        self.host_stored(h)


class KeepsWithoutATier(TimedTiers):
    """G7: with a capacity of 0, blocks go down and land on the host nevertheless."""

    def evict(self, b: Block) -> None:
        """The idle block that was not used for longest joins the open batch."""
        self.require(self.idle.is_first(b))
        self.require(self.gathered.size < self.batch.value)
        h = self.holds[b]
        is_spare = self.on_host[h] | self.is_on_its_way(h)
        self.idle.remove(b)
        self.found[h] = none
        with when(is_spare):
            self.holds[b] = none
            self.free.push_back(b)
        with otherwise():
            self.gathered.push_back(b)

    def _land(self, b: Block) -> None:
        h = self.holds[b]
        super()._land(b)
        with when(self.capacity.value == 0):
            self.host.push_back(h)
            self.on_host[h] = True
            self.host_stored(h)


class EvictsWhatIsRead(TimedTiers):
    """What a transfer reads can be evicted meanwhile."""

    def swap_in(self, r: Request, t: Transfer, p: Position, e: Position) -> None:
        """Bring up what the host has of a request's prefix."""
        super().swap_in(r, t, p, e)
        with self.each(Hash) as h, when(self.on_host[h] & ~self.host.has(h) & (self.prefix[r, p] == h)):
            self.on_host[h] = False


class LandsWithoutAWord(TimedTiers):
    """G6: nobody is told that a block landed."""

    host_stored = Event(Hash)


class LeavesWithoutAWord(TimedTiers):
    """G6: nobody is told that a block left the host to make room."""

    host_removed = Event(Hash)


class PromotesTwice(TimedTiers):
    """A request is told twice that it may go on."""

    def _complete(self, t: Transfer) -> None:
        super()._complete(t)
        with when(self.serves[t] != none):
            self.promotions.add(1)


class PromotesNobody(TimedTiers):
    """A request goes on waiting when its transfer has ended."""

    def _complete(self, t: Transfer) -> None:
        r = self.serves[t]
        super()._complete(t)
        with when(r != none):
            self.waits[r] = t


class PromotesAtOnce(TimedTiers):
    """A request goes on before its transfer has ended."""

    def swap_in(self, r: Request, t: Transfer, p: Position, e: Position) -> None:
        """Bring up what the host has of a request's prefix."""
        super().swap_in(r, t, p, e)
        self.waits[r] = none


class ArrivesWithoutItsName(TimedTiers):
    """What has come up cannot be found, though nothing else is found there."""

    def _arrive(self, b: Block) -> None:
        h = self.fetch[b]
        super()._arrive(b)
        with when(self.found[h] == b):
            self.holds[b] = none


class ReadsForEver(TimedTiers):
    """What was read is not given back: it can never be evicted."""

    def _arrive(self, b: Block) -> None:
        h = self.fetch[b]
        super()._arrive(b)
        with when(self.host.has(h)):
            self.host.remove(h)


class LandsWhatComesUp(TimedTiers):
    """The end of a swap-in is taken for that of a batch: its blocks are free."""

    def _arrive(self, b: Block) -> None:
        super()._arrive(b)
        self.used[b] = False
        self.free.push_back(b)


# ------------------------------------------------------------------------------------------------ a shared tier


class LooksByItsOwnClock(SharedTier):
    """A worker does not wait until the tier has come to its time."""

    def is_up_to(self, w: Worker) -> Bool:
        return self.now.value <= self.clock[w]


class RunsAheadOfWorkers(SharedTier):
    """The tier goes on although a worker is behind, whose copies then are of the past."""

    def nobody_is_behind(self, time: Real) -> Bool:
        return time >= 0


class LandsWhenItBegins(SharedTier):
    """What a worker stores can be found at once."""

    def store(self, w: Worker, h: Hash, t: Transfer, x: Link) -> None:
        """A worker copies something into the tier."""
        super().store(w, h, t, x)
        self.present[h] = True


class NeverLands(SharedTier):
    """What was copied cannot be found."""

    def _complete(self, t: Transfer) -> None:
        Links._complete(self, t)


class StoresTwice(SharedTier):
    """What another worker's copy brings is copied once more."""

    def store(self, w: Worker, h: Hash, t: Transfer, x: Link) -> None:
        """A worker copies something into the tier."""
        self.require(self.is_up_to(w))
        self.require(t == self.issued.value)
        self.require(~self.present[h])
        self._begin(t, x, self.bytes[t])
        self.stores[t] = h


class SeesWhatIsDue(SharedTier):
    """A worker looks before what ends at its time is completed."""

    def is_up_to(self, w: Worker) -> Bool:
        return self.clock[w] == self.now.value


BROKEN: list[tuple[type[Machine], str, str, str]] = [
    (EachHasTheWholeLink, "advance", "a_link_is_shared_fairly", "G2"),
    (DividesByOneMore, "advance", "bytes_are_conserved", "G2"),
    (RoundsTheShare, "advance", "a_link_is_shared_fairly", "G2"),
    (LetsTimePassDeadlines, "advance", "nothing_is_overdue", "G2"),
    (MovesOnWithoutCompleting, "advance", "without_a_bandwidth_copies_take_no_time", "G2"),
    (CompletesTheLastFirst, "complete", "who_waits_comes_later", "G3"),
    (CompletesTooEarly, "complete", "an_end_leaves_nothing_behind", "G2"),
    (CountsIdsPerLink, "start", "a_beginning_is_not_backdated", "G3"),
    (RunsBackward, "advance", "time_never_runs_back", "G3"),
    (StartsInThePast, "start", "a_beginning_is_not_backdated", "G3"),
    (NeverForgetsWhatWasGiven, "complete", "an_idle_link_starts_anew", "G2"),
    (ForgetsTooEarly, "complete", "an_end_leaves_nothing_behind", "G2"),
    (WaitsWithoutABandwidth, "start", "without_a_bandwidth_copies_take_no_time", "G2"),
    (CompletesAnother, "complete", "a_completion_is_of_one", "G3"),
    (FreesBeforeTheCopyEnds, "ship", "a_block_is_one_thing", "G1"),
    (HandsOutWhatIsCopied, "allocate_in_need", "who_is_used_stays_so", "G1"),
    (GathersMoreThanABatch, "evict", "the_open_batch_is_no_larger_than_a_batch", "G4"),
    (PaysForOneBlock, "ship", "a_batch_is_one_transfer", "G4"),
    (ShipsUpwards, "ship", "a_batch_is_one_transfer", "G4"),
    (StoresWhatTheHostHas, "evict", "nothing_goes_down_twice", "G4"),
    (StoresTwiceAtOnce, "evict", "nothing_goes_down_twice", "G4"),
    (FindsWhatIsGathered, "evict", "what_is_found_is_there", "G5"),
    (KeepsMoreThanItsCapacity, "complete", "the_host_keeps_to_its_capacity", "G6"),
    (KeepsWithoutATier, "evict", "without_a_host_nothing_goes_down", "G7"),
    (EvictsWhatIsRead, "swap_in", "what_is_read_stays", "G5"),
    (LandsWithoutAWord, "complete", "listeners_know_what_is_on_the_host", "G6"),
    (LeavesWithoutAWord, "complete", "listeners_know_what_is_on_the_host", "G6"),
    (PromotesTwice, "complete", "a_request_is_promoted_once", "G5"),
    (PromotesNobody, "complete", "a_request_is_promoted_once", "G5"),
    (PromotesAtOnce, "swap_in", "a_swap_in_is_one_transfer", "G5"),
    (ArrivesWithoutItsName, "complete", "what_is_found_is_there", "G5"),
    (ReadsForEver, "complete", "what_is_read_stays", "G5"),
    (LandsWhatComesUp, "complete", "only_the_end_of_its_copy_ends_it", "G1"),
    (LooksByItsOwnClock, "store", "a_store_begins_at_its_workers_time", "G8"),
    (RunsAheadOfWorkers, "advance", "the_tier_is_ahead_of_nobody", "G8"),
    (LandsWhenItBegins, "store", "what_is_present_has_landed", "G8"),
    (NeverLands, "complete", "what_is_present_has_landed", "G8"),
    (StoresTwice, "store", "a_copy_under_way_is_of_what_is_missing", "G8"),
    (SeesWhatIsDue, "store", "nothing_is_yet_to_land", "G8"),
]
"""Machine, an action that shows the fault, the property that it breaks, and its rule."""
