"""As `idle_machines.py`, for the machines O, G and H: nothing is stored, nothing lands, nobody is answered."""

from __future__ import annotations

from kvproof.machine import Bool, Int, forall, none, when
from kvproof.spec.hybrid.connectors import Connectors, Job
from kvproof.spec.hybrid.file_store import FileStore, Page
from kvproof.spec.hybrid.groups import Groups
from kvproof.spec.hybrid.planner import Chunks, Planner, Tokens
from kvproof.spec.offload import HostBlock, Offload, Worker
from kvproof.spec.pool import Block, Hash, Position, Request
from kvproof.spec.timed.links import Links, Moment, Transfer
from kvproof.spec.timed.shared_tier import SharedTier
from kvproof.spec.timed.shared_tier import Worker as Engine
from kvproof.spec.timed.timed_tiers import TimedTiers

# ------------------------------------------------------------------------------------------------ O: offload


class OffersNothing(Offload):
    """What is offered goes nowhere."""

    def _offer(self, b: Block, h: Hash) -> None:
        self.met[h] = True


class StoresWhatIsThere(Offload):
    """What the host has is stored once more."""

    def _offer(self, b: Block, h: Hash) -> None:
        with when(self.hashes[b, h] & (self.host_free.size > 0)):
            self._begin_store(b, h)
        self.met[h] = True


class CountsNoRefusal(Offload):
    """An offer that meets a full host is dropped silently."""

    def _offer(self, b: Block, h: Hash) -> None:
        with when(self.hashes[b, h] & ~self._is_stored(b, h) & (self.host_free.size > 0)):
            self._begin_store(b, h)
        self.met[h] = True


class ScansPastTheFirst(Offload):
    """Any block that is worth storing is stored."""

    def scan(self, b: Block, h: Hash) -> None:
        """One that can be found and is not stored yet."""
        self.require(self.lazy.value)
        self.require(self.free.has(b))
        self.require(self._is_worth_storing(b, h))
        self.require(self.host_free.size > 0)
        self._leave_queue(b)
        self._begin_store(b, h)
        self.met[h] = True


class ThrowsAwayWhatIsStored(Offload):
    """A store ends well, and cannot be found."""

    def _let_be_found(self, c: HostBlock) -> None:
        """Nor is anybody told."""


class FindsNothing(Offload):
    """Whatever the host has."""

    def look(self, r: Request) -> Int:
        """A lookup that lets go what an earlier one pinned."""
        self.require(self.running[r])
        self.require(self.caching.value)
        self._unpin(r)
        return self.length[r] - self.length[r]


class StopsEarly(Offload):
    """A lookup asks for one block less than it may."""

    def _asked(self, r: Request) -> Int:
        return self.limit[r] - 1


class UnpinsNothing(Offload):
    """Another connector was chosen, and this one goes on holding what it found."""

    def unpin(self, r: Request) -> None:
        """Nothing is let go."""
        self.require(self.running[r])


class LoadsForNobody(Offload):
    """What has come does not count for who waited for it."""

    def report_load(self, b: Block, w: Worker, ok: Bool) -> None:
        """A worker reports its part of a load."""
        self._require_load_report(b, w, ok)
        is_last = forall(Worker, lambda v: (v == w) | ~self.loading[b, v])
        is_good = ok & ~self.load_failed[b]
        self.loading[b, w] = False
        self.load_failed[b] = ~is_good
        with when(is_last):
            self._end_load(b)


# ------------------------------------------------------------------------------------------------ G: virtual time


class StandsStill(Links):
    """Time does not move to a moment."""

    def advance(self, m: Moment) -> None:
        """Nothing happens."""
        self.require(self.nothing_is_due())
        self.require(self.nobody_is_done_before(self.time[m]))


class LosesWhatItShips(TimedTiers):
    """What goes down frees its block, and never lands."""

    def _land(self, b: Block) -> None:
        self.holds[b] = none
        self.free.push_back(b)


class FindsNothingThatCameUp(TimedTiers):
    """A block is up, and nobody can find it."""

    def _arrive(self, b: Block) -> None:
        h = self.fetch[b]
        was_last = self.reads[h] == 1
        self.used[b] = True
        self.fetch[b] = none
        with when(was_last):
            self.host.push_back(h)


class BringsLessThanThereIs(TimedTiers):
    """A swap-in may end before the first host miss."""

    def swap_in(self, r: Request, t: Transfer, p: Position, e: Position) -> None:
        """Bring up a part of what the host has of a prefix."""
        self.require(t == self.issued.value)
        self.require(self.waits[r] == none)
        self.require(forall(Position, lambda i: (i >= p) | self._is_on_device(r, i)))
        self.require(~self._is_on_device(r, p))
        self.require(forall(Position, lambda i: (i < p) | (i >= e) | self._is_on_host(r, i)))
        self.require(p < e)
        self.require(e - p <= self.free.size)
        self._begin(t, self.up.value, self.block_bytes.value * (e - p))
        self.waits[r] = t
        self.serves[t] = r
        with self.loop(e - p) as loop:
            h = self.prefix[r, p + loop.index]
            b = self.free.head()
            self.free.remove(b)
            self._load(b, t)
            with when(self.host.has(h)):
                self.host.remove(h)
            self.fetch[b] = h


class SeesNothing(SharedTier):
    """Whoever looks finds nothing."""

    def look(self, w: Engine, h: Hash) -> Bool:
        """A worker asks in vain."""
        self.require(self.is_up_to(w))
        return self.present[h] & ~self.present[h]


# ------------------------------------------------------------------------------------------------ H: hybrid models


class AnswersNothing(Planner):
    """Who asks how many chunks so many tokens fill hears nothing."""

    def measure(self, t: Tokens, k: Chunks) -> None:
        """Nothing is said."""
        self.require(k == t // self.chunk.value)


class SeeksNothing(Groups):
    """A request enters, and nobody looks for its prefix."""

    def seek(self, r: Request) -> None:
        """It is inside."""
        self.require(self.seeking.value == none)
        self.require(~self.running[r])
        self.running[r] = True


class LoadsForNothing(Connectors):
    """What has come does not count."""

    def finish_load(self, r: Request, j: Job, ok: Bool) -> None:
        """A load ends as if it had failed."""
        self.require(self.loading[r])
        self.require(self.job[r] == j)
        self.external[r] = 0
        self._end_load(r)


class WritesNothing(FileStore):
    """A page is written, and is not there."""

    def write(self, h: Hash, p: Page) -> None:
        """Nothing changes."""
        self.require(self.temporary[h])


IDLE = [
    (OffersNothing, "offer", "an_offer_stores_what_is_missing"),
    (StoresWhatIsThere, "offer", "an_offer_stores_what_is_missing"),
    (CountsNoRefusal, "offer", "an_offer_stores_what_is_missing"),
    (ScansPastTheFirst, "scan", "a_scan_stores_the_first_that_nobody_holds"),
    (ThrowsAwayWhatIsStored, "report_store", "a_good_store_can_be_found"),
    (FindsNothing, "look", "a_lookup_finds_all_that_is_there"),
    (StopsEarly, "look", "a_lookup_finds_all_that_is_there"),
    (UnpinsNothing, "unpin", "who_held_something_holds_nothing"),
    (LoadsForNobody, "report_load", "what_has_come_can_be_relied_on"),
    (StandsStill, "advance", "time_moves_to_the_moment"),
    (LosesWhatItShips, "complete", "what_was_shipped_lands"),
    (FindsNothingThatCameUp, "complete", "copies_land_in_order"),
    (BringsLessThanThereIs, "swap_in", "a_swap_in_covers_the_contiguous_hits"),
    (SeesNothing, "look", "who_looks_sees_what_has_landed"),
    (AnswersNothing, "measure", "who_asks_for_chunks_is_answered"),
    (SeeksNothing, "seek", "a_lookup_begins_with_all_that_it_may_return"),
    (LoadsForNothing, "finish_load", "a_load_ends_with_its_own_report"),
    (WritesNothing, "write", "what_is_written_is_there"),
]
"""The machine, the action that does not do its job, and the property that says so."""
