"""Machine O with one thing wrong each: faults that the seeds and released engines have (S10 to S12, B8, B10, B11), and
systematic ones.

Each names the rule that it breaks. They are refuted by the prover and found by the explorer; the same faults in the
reference implementation stand in `tests/stateful/offload_mutants.py`.
"""

from __future__ import annotations

from kvproof.machine import Bool, Int, Machine, exists, forall, none, when
from kvproof.spec.offload import HostBlock, Offload, Worker
from kvproof.spec.pool import Block, Hash, Position, Request, Slot


class FindsWithoutPinning(Offload):
    """S10: what a lookup found is not held until the load is planned."""

    def _pin(self, r: Request, i: Int, c: HostBlock) -> None:
        self.pins[r, i] = c


class KeepsPinsOfThePreempted(Offload):
    """S10: a preempted request's state is not reset."""

    def _leave(self, r: Request) -> None:
        self._give_back(r, self.length[r])
        self.running[r] = False


class LooksBeyondTheLastToken(Offload):
    """S12: the bound comes after the lookup, if at all."""

    def _asked(self, r: Request) -> Int:
        return self.need[r]


class StoresTwiceAtOnce(Offload):
    """B8: a block that is on its way to the host is stored once more."""

    def _is_stored(self, _b: Block, h: Hash) -> Bool:
        return ~self.host_cached[h].is_empty()


class FinishesWithoutFlush(Offload):
    """B10: what the last step completed is never offered."""

    def finish(self, r: Request) -> None:
        """A complete request leaves."""
        self.require(self.running[r])
        self.require(self.length[r] == self.need[r])
        self.require(self._is_computed(r))
        self._leave(r)


class ReadsWhatItDoesNotHold(Offload):
    """B11: a preempted request's blocks are handed out while a copy reads them."""

    def _lend(self, b: Block) -> None:
        """Nobody is told."""

    def _take_back(self, b: Block) -> None:
        """Nor here."""


class ReleasesTheSourceTwice(Offload):
    """O2: the end of a store gives up a reference that it does not have."""

    def _take_back(self, b: Block) -> None:
        super()._take_back(b)
        with when(self.ref_cnt[b] > 0):
            self.ref_cnt[b] = self.ref_cnt[b] - 1


class EndsWithTheFirstReport(Offload):
    """O7: one of several workers is enough."""

    def report_store(self, c: HostBlock, w: Worker, ok: Bool) -> None:
        """A worker reports its part of a store."""
        self._require_store_report(c, w, ok)
        self.storing[c, w] = False
        with when(ok):
            self._let_be_found(c)
        self._end_store(c)


class EndsWithTheFirstFailure(Offload):
    """O8: a failed part ends the store, while other workers still copy to the host block."""

    def report_store(self, c: HostBlock, w: Worker, ok: Bool) -> None:
        """A worker reports its part of a store."""
        self._require_store_report(c, w, ok)
        is_last = forall(Worker, lambda v: (v == w) | ~self.storing[c, v])
        self.storing[c, w] = False
        with when(is_last | ~ok):
            with when(ok):
                self._let_be_found(c)
            self._end_store(c)


class RegistersUnderTheHashOfNow(Offload):
    """O2: the content is found under what the device block is called when the copy ends."""

    def _end_store(self, c: HostBlock) -> None:
        b = self.source[c]
        super()._end_store(c)
        with self.each(Hash) as h, when(self.hashes[b, h] & ~self.host_hashes[c, h]):
            self.host_hashes[c, h] = True
            self.host_cached[h].push_back(c)


class FailureCountsAsSuccess(Offload):
    """O2: a store can be found although a part of it failed."""

    def report_store(self, c: HostBlock, w: Worker, ok: Bool) -> None:
        """A worker reports its part of a store."""
        self._require_store_report(c, w, ok)
        is_last = forall(Worker, lambda v: (v == w) | ~self.storing[c, v])
        self.storing[c, w] = False
        self.store_failed[c] = self.store_failed[c] | ~ok
        with when(is_last):
            self._let_be_found(c)
            self._end_store(c)


class KeepsWhatFailed(Offload):
    """O11: after a failed load the table still has the blocks that never came."""

    def fail_load(self, r: Request, i: Position, w: Worker, ok: Bool) -> None:
        """The last report of a load that failed."""
        b = self.table[r, i]
        self.require(b != none)
        self._require_last_load_report(b, w, ok)
        self.loading[b, w] = False
        self._end_load(b)


class StoresWhatIsBeingComputed(Offload):
    """P6: a block is offered before the step that writes it is done."""

    def offer(self, r: Request) -> None:
        """The next block of a request is offered."""
        self.require(~self.lazy.value)
        self.require(self.running[r])
        i = self.offered[r]
        self.require(i < self.length[r])
        b = self.table[r, i]
        self.offered[r] = i + 1
        h = self.filed[r, i]
        with when(h != none):
            self._offer(b, h)


class LoadsIntoARunningStep(Offload):
    """P6: a copy does not wait for a step of the block's former holder."""

    def copy_in(self, b: Block, s: Slot) -> None:
        """A load writes one slot."""
        c = self.origin[b]
        self.require(c != none)
        self.require(~self.loaded_slot[b, s])
        self.require(self.loading[b, self.owner[s]])
        self.content[b, s] = self.host_content[c, s]
        self.loaded_slot[b, s] = True


class LetsBeFoundWhileItLoads(Offload):
    """P6: a block can be found under its hash before the load is complete."""

    def copy_in(self, b: Block, s: Slot) -> None:
        """A load writes one slot."""
        h = self.wanted[b]
        super().copy_in(b, s)
        with when(~self.hashes[b, h]):
            self.hashes[b, h] = True
            self.cached[h].push_back(b)
            self.stored(h, self.parent[h])


class ResetsUnderATransfer(Offload):
    """O10: the host is forgotten while it is read."""

    def reset(self) -> None:
        """Forget every hash of both tiers."""
        self.require(forall(Block, lambda b: self.ref_cnt[b] == 0))
        self._forget_everything()
        with self.each(HostBlock, Hash) as (c, h), when(self.host_hashes[c, h]):
            self.host_hashes[c, h] = False
            self.host_cached[h].remove(c)
        self.cleared()


class ScansWhatIsHeld(Offload):
    """O4: lazy mode that stores what requests hold; what it promises less of is not what it does."""

    def scan(self, b: Block, h: Hash) -> None:
        """Any block is stored."""
        self.require(self.lazy.value)
        self.require(self._is_worth_storing(b, h))
        self.require(self.host_free.size > 0)
        with when(self.ref_cnt[b] == 0):
            self._leave_queue(b)
        self._begin_store(b, h)


class RefusesAndEvicts(Offload):
    """O12: the host block loses its hashes although nothing is stored there."""

    def _offer(self, b: Block, h: Hash) -> None:
        is_missing = self.hashes[b, h] & ~self._is_stored(b, h)
        is_new = ~exists(HostBlock, lambda c: self.named[c] == h)
        super()._offer(b, h)
        with when((self.host_free.size > 0) & ~is_missing & is_new):
            self.host._forget(self.host_free.head())


class ForgetsTheListeners(Offload):
    """P12: a host block that makes room is not reported as removed."""

    def _begin_store(self, b: Block, h: Hash) -> None:
        c = self.host._take_head()
        with self.each(Hash) as g, when(self.host_hashes[c, g]):
            self.host_hashes[c, g] = False
            self.host_cached[g].remove(c)
        self.host_ref_cnt[c] = self.host_ref_cnt[c] + 1
        self._lend(b)
        self.source[c] = b
        self.named[c] = h
        with self.each(Worker) as w:
            self.storing[c, w] = True


BROKEN: list[tuple[type[Machine], str, str, str]] = [
    (FindsWithoutPinning, "look", "host_ref_cnt_counts_holders", "P2"),
    (KeepsPinsOfThePreempted, "preempt", "a_pin_holds_what_was_looked_for", "O5"),
    (LooksBeyondTheLastToken, "look", "a_pin_holds_what_was_looked_for", "O5"),
    (StoresTwiceAtOnce, "offer", "a_block_is_stored_once_at_a_time", "O3"),
    (FinishesWithoutFlush, "finish", "nothing_of_a_finished_request_is_left_out", "O9"),
    (ReadsWhatItDoesNotHold, "offer", "transfers_hold_what_they_touch", "O2"),
    (ReleasesTheSourceTwice, "report_store", "ref_cnt_counts_holders", "P2"),
    (EndsWithTheFirstReport, "report_store", "nobody_touches_what_is_not_held_for_it", "O8"),
    (EndsWithTheFirstFailure, "report_store", "nobody_touches_what_is_not_held_for_it", "O8"),
    (RegistersUnderTheHashOfNow, "report_store", "a_hash_names_what_is_on_the_host", "O1"),
    (FailureCountsAsSuccess, "report_store", "a_hash_names_what_is_on_the_host", "O1"),
    (KeepsWhatFailed, "fail_load", "a_failed_load_leaves_what_is_really_there", "O11"),
    (StoresWhatIsBeingComputed, "offer", "a_store_is_alone_at_its_destination", "O2"),
    (LoadsIntoARunningStep, "copy_in", "nothing_is_written_under_a_step", "P6"),
    (LetsBeFoundWhileItLoads, "copy_in", "a_load_is_alone_at_its_destination", "O2"),
    (ResetsUnderATransfer, "reset", "a_pin_holds_what_was_looked_for", "O5"),
    (ScansWhatIsHeld, "scan", "a_scan_stores_the_first_that_nobody_holds", "O4"),
    (RefusesAndEvicts, "offer", "an_offer_evicts_only_what_nobody_holds", "O12"),
    (ForgetsTheListeners, "offer", "listeners_know_what_is_on_the_host", "P12"),
]
"""Machine, an action that shows the fault, the property that it breaks, and its rule."""
