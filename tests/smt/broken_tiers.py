"""Machines M and D with one thing wrong each: the faults that the seeds tell of (S1 to S9 of the list of known faults).

Each names the rule that it breaks. They are refuted by the prover and found by the explorer; the same faults in the
reference implementation stand in `tests/stateful/tier_mutants.py`.
"""

from __future__ import annotations

from kvproof.machine import Int, none, otherwise, when
from kvproof.spec.pool import Block, Hash, Request, Slot
from kvproof.spec.tiers.mirror import Mirror
from kvproof.spec.tiers.pin import Pinned


class OffloadsOnRelease(Mirror):
    """S1: a released block leaves the device's map, as if it had moved to the host."""

    def _join(self, b: Block) -> None:
        self._forget(b)
        super()._join(b)


class TouchesWhatItDoesNotAsk(Mirror):
    """S2: the walk uses host blocks that are none of its prefix."""

    def _fill(self, r: Request, reach: Int) -> Int:
        found = super()._fill(r, reach)
        with when(~self.host.is_empty()):
            oldest = self.host.head()
            self.host.remove(oldest)
            self.host.push_back(oldest)
        return found


class ReloadsWithoutHolding(Mirror):
    """S3: a reloaded block is in the table, and in the free queue as well."""

    def _reload(self, r: Request, h: Hash) -> None:
        b = self._take_head()
        self._forget(b)
        self._enter(r, b)
        self._come_back(b, h)
        self.free.push_back(b)


class CountsReloadsTwice(Mirror):
    """S4: a reloaded block is a hit of the device, and of the host once more."""

    def _come_back(self, b: Block, h: Hash) -> None:
        super()._come_back(b, h)
        self.hits.add(1)


class KeepsTheOldHash(Mirror):
    """S5: the block that a reload takes is still found under what stood there before."""

    def _reload(self, r: Request, h: Hash) -> None:
        b = self._take_head()
        self._hold(r, b)
        self._come_back(b, h)


class StoresBeyondItsRoom(Mirror):
    """M3: the host makes no room."""

    def _keep(self, h: Hash, b: Block) -> None:
        with when(self.host.has(h)):
            self.host.remove(h)
        with self.each(Slot) as s:
            self.kept[h, s] = self.content[b, s]
        self.host.push_back(h)


class EvictsTheMostRecent(Mirror):
    """M3: the host gives up what was used last."""

    def _keep(self, h: Hash, b: Block) -> None:
        is_there = self.host.has(h)
        is_full = self.host.size >= self.capacity.value
        with when(~is_there & is_full):
            self.host.remove(self.host.tail())
        with when(is_there):
            self.host.remove(h)
        with self.each(Slot) as s:
            self.kept[h, s] = self.content[b, s]
        self.host.push_back(h)


class PinsByReference(Pinned):
    """S6: the pin is one more reference, so that nobody can tell it from a user."""

    def _join(self, b: Block) -> None:
        is_marked = self.marked[b]
        with when(is_marked):
            self.ref_cnt[b] = 1
        with otherwise():
            super()._join(b)


class LeavesStaleEntries(Pinned):
    """S7: a hit does not take the block out of the pinned queue."""

    def _leave_queue(self, b: Block) -> None:
        with when(self.free.has(b)):
            self.free.remove(b)


class RefusesWithoutDemoting(Pinned):
    """S8: pinned blocks do not count as room."""

    def allocate(self, r: Request, n: Int) -> None:
        self.require(n <= self.free.size)
        super().allocate(r, n)


class PinsWhatCannotBeFound(Pinned):
    """S9: window blocks are kept out of the map, and pinned all the same."""

    def _join(self, b: Block) -> None:
        self._forget(b)
        super()._join(b)


class DemotesTheYoungest(Pinned):
    """D2: the last pinned goes first."""

    def _demote_one(self) -> None:
        youngest = self.pinned.tail()
        self.pinned.remove(youngest)
        self.marked[youngest] = False
        self.free.push_back(youngest)


class DropsWhatIsRead(Pinned):
    """D7: the window moves on although a scheduled step still reads."""

    def drop(self, r: Request, m: Int) -> None:
        self.require(self.running[r])
        self.require(self.null.value != none)
        self.require((m >= 1) & (m <= self.length[r]))
        self._drop(r, m, self._passed(r, m))


BROKEN = [
    (OffloadsOnRelease, "finish", "released_blocks_keep_their_hashes", "M1"),
    (TouchesWhatItDoesNotAsk, "hit", "a_lookup_moves_only_what_it_asks_for", "M4"),
    (ReloadsWithoutHolding, "hit", "ref_cnt_counts_holders", "P2"),
    (CountsReloadsTwice, "hit", "a_lookup_counts_once", "P15"),
    (KeepsTheOldHash, "hit", "a_hash_names_what_is_there", "P6"),
    (StoresBeyondItsRoom, "mirror", "the_host_holds_no_more_than_it_can", "M3"),
    (EvictsTheMostRecent, "mirror", "the_host_keeps_what_was_mirrored", "M3"),
    (PinsByReference, "drop", "ref_cnt_counts_holders", "P2"),
    (LeavesStaleEntries, "hit", "free_exactly_when_unreferenced", "P3"),
    (RefusesWithoutDemoting, "every state", "somebody_can_always_go_on", "L1"),
    (PinsWhatCannotBeFound, "drop", "pinned_blocks_are_marked", "D1"),
    (DemotesTheYoungest, "demote", "the_oldest_are_demoted_first", "D2"),
    (DropsWhatIsRead, "drop", "what_a_step_reads_is_not_released", "D7"),
]
"""The broken machine, the action that shows it, the property that it breaks, and the property's rule."""
