"""Asynchronous offload with one thing wrong: faults of released engines and of first designs, and systematic ones.

As in ``mutants.py``. B8, B10 to B12 and S10 to S12 are the known faults of that name (`spec/faults.py`); that lazy mode
never stores what everybody holds (S11), and that a finish without its flush leaves blocks out (B10), are no matter of
single steps: `tests/refimpl/test_refimpl_offload.py` has them.
"""

from typing import Any

from kvproof.harness.offload.target import OffloadTarget
from kvproof.refimpl.offload.manager import OffloadManager
from kvproof.refimpl.offload.transfers import Store, WorkerReport
from kvproof.refimpl.offload.worker import SteppedWorker


class _Managing(OffloadManager):
    """Its parts may be of the broken kinds beside it."""

    pool: Any
    host: Any


class FindsWithoutPinning(OffloadTarget):
    """S10: what a lookup finds is let go at once (O5)."""

    class manager_kind(_Managing):
        def look(self, request_id, keys, limit):
            found = super().look(request_id, keys, limit)
            pins = self._tiers[request_id].pins
            if pins is not None:
                self.host.free(pins.blocks[::-1])
            return found

        def _drop_pins(self, tier):
            tier.pins = None


class KeepsPinsOfThePreempted(OffloadTarget):
    """S10: a preempted request's pins stay (O5, O8)."""

    class manager_kind(_Managing):
        def preempt(self, request_id):
            if request_id in self._tiers:
                self._tiers[request_id].pins = None
            super().preempt(request_id)


class LooksBeyondTheLastToken(OffloadTarget):
    """S12: nothing bounds the lookup (O6, P14)."""

    class manager_kind(_Managing):
        def look(self, request_id, keys, limit):
            return super().look(request_id, keys, min(len(keys), limit + 1, self.need(request_id)))


class StoresTwiceAtOnce(OffloadTarget):
    """B8: a block that is on its way is stored again (O3)."""

    class manager_kind(_Managing):
        def _outcome(self, block, key):
            outcome = super()._outcome(block, key)
            return "stored" if outcome == "in_flight" and self.host.num_free else outcome

        def _end_store(self, transfer):
            self._storing.update(zip((block for block, _ in transfer.message.pairs), transfer.keys, strict=True))
            super()._end_store(transfer)


class ReadsWhatItDoesNotHold(OffloadTarget):
    """B11: a store does not hold the block that it reads (O2, O8)."""

    class manager_kind(_Managing):
        def _take_host_block(self, block, key):
            pair = super()._take_host_block(block, key)
            self.pool.free((block,))
            return pair

        def _end_store(self, transfer):
            self.pool.touch([block for block, _ in transfer.message.pairs])
            super()._end_store(transfer)


class CannotComeBackWhileItsStoreRuns(OffloadTarget):
    """B12: a request that is admitted again before its store is reported (O8)."""

    class manager_kind(_Managing):
        def admit(self, request_id, need):
            assert not self.pending, "no request has stores in flight when it is admitted"
            return super().admit(request_id, need)


class EndsWithTheFirstReport(OffloadTarget):
    """One worker's report is taken for all (O7)."""

    class manager_kind(_Managing):
        def report(self, report):
            if report.id in self._transfers and report.worker in self._transfers[report.id].waiting:
                self._transfers[report.id].waiting &= {report.worker}
            return super().report(report)


class TakesRepeatedReports(OffloadTarget):
    """A worker that reports twice stands for two (O7)."""

    class manager_kind(_Managing):
        def report(self, report):
            transfer = self._transfers.get(report.id)
            if transfer is not None and report.worker not in transfer.waiting:
                report = WorkerReport(next(iter(transfer.waiting)), report.id, report.ok)
            return super().report(report)


class EndsWithTheFirstFailure(OffloadTarget):
    """A failed part ends the transfer while others copy (O8)."""

    class manager_kind(_Managing):
        def report(self, report):
            if not report.ok and report.id in self._transfers and report.worker in self._transfers[report.id].waiting:
                self._transfers[report.id].waiting &= {report.worker}
            return super().report(report)


class FailureCountsAsSuccess(OffloadTarget):
    """What failed can be found (O2)."""

    class manager_kind(_Managing):
        def _end_store(self, transfer):
            transfer.failed = False
            super()._end_store(transfer)


class KeepsWhatFailed(OffloadTarget):
    """A failed load leaves its blocks in the table (O11)."""

    class manager_kind(_Managing):
        def _fail_load(self, transfer):
            self._end_load(transfer)


class ForgetsToLetTheSourceGo(OffloadTarget):
    """The device block stays held when its store ends (O2)."""

    class manager_kind(_Managing):
        def _end_store(self, transfer):
            self.pool.touch([block for block, _ in transfer.message.pairs])
            super()._end_store(transfer)


class StoresWhatIsBeingComputed(OffloadTarget):
    """A block is offered before its step is done (P6)."""

    class manager_kind(_Managing):
        def offer(self, request_id, n=1):
            computing, self._computing = self._computing, set()
            try:
                return super().offer(request_id, n)
            finally:
                self._computing = computing


class LoadsIntoARunningStep(OffloadTarget):
    """A load does not wait for the step of the block's former holder (P6)."""

    class manager_kind(_Managing):
        def _must_wait(self, message):
            return False


class ResetsUnderAPin(OffloadTarget):
    """A reset does not ask the host (O10)."""

    class manager_kind(_Managing):
        def reset(self):
            if self.pool.num_reclaimable != self.pool.usable:
                return False
            held = [c for c in range(self.host.num_blocks) if self.host.ref_cnt(c)]
            self.host.free(held)
            done = super().reset()
            self.host.touch(held)
            return done


class ScansFromTheTail(OffloadTarget):
    """Lazy mode takes what will be reused last (O4)."""

    class manager_kind(_Managing):
        def scan(self, target):
            queue = self.pool._free
            for block in reversed(list(queue.walk())):
                key = self._worth_storing(block)
                if key is not None and self.host.num_free:
                    pair = self._take_host_block(block, key)
                    self.pool.touch((block,))
                    self._begin_store([pair], [key])
                    return 1
            return 0


class ReadsTooLate(OffloadTarget):
    """A worker copies after it has said that it is done: what it reads then may be another's (O2, P6)."""

    class worker_kind(SteppedWorker):
        def copy(self, transfer, pair_index, slot):
            message, left = self._job(transfer)
            if isinstance(message, Store):
                del left[pair_index, slot]
            else:
                super().copy(transfer, pair_index, slot)

        def finish(self, transfer):
            message, _ = self._job(transfer)
            super().finish(transfer)
            self._late = [*getattr(self, "_late", []), message] if isinstance(message, Store) else []

        def submit(self, messages):
            for message in getattr(self, "_late", []):
                for source, destination in message.pairs:
                    self._host[:, :, destination] = self._device[:, :, source]
            self._late = []
            super().submit(messages)


class ReadsTooEarly(OffloadTarget):
    """A worker copies everything when it is told to begin, before the moment comes: a load reads what is there then."""

    class worker_kind(SteppedWorker):
        def submit(self, messages):
            super().submit(messages)
            for message in messages:
                origin, target = (
                    (self._device, self._host) if isinstance(message, Store) else (self._host, self._device)
                )
                for source, destination in message.pairs:
                    target[:, :, destination] = origin[:, :, source]


class CopiesTheNeighbour(OffloadTarget):
    """A worker reads the block beside the one it is told to (O2)."""

    class worker_kind(SteppedWorker):
        def copy(self, transfer, pair_index, slot):
            super().copy(transfer, pair_index, slot)
            message, _ = self._job(transfer)
            if isinstance(message, Store):
                source, destination = message.pairs[pair_index]
                wrong = (source + 1) % self._device.shape[2]
                self._host[:, :, destination, slot] = self._device[:, :, wrong, slot]


WORKERS: dict[str, Any] = {"workers": 2, "slots": 2, "blocks": 1, "positions": 1, "limit": 0}
"""Each of two workers copies one of two slots; there are stores only."""

MUTANTS: dict[str, tuple[type[OffloadTarget], dict[str, Any], set[str]]] = {
    kind.__name__: (kind, more, fields)
    for kind, more, fields in (
        (FindsWithoutPinning, {}, {"host_ref_cnt", "host_free"}),
        (KeepsPinsOfThePreempted, {}, {"host_ref_cnt", "host_free"}),
        (LooksBeyondTheLastToken, {}, {"result"}),
        (StoresTwiceAtOnce, {"requests": 2, "hosts": 2, "positions": 1, "limit": 0}, {"ref_cnt", "refusal"}),
        (ReadsWhatItDoesNotHold, {}, {"ref_cnt"}),
        (CannotComeBackWhileItsStoreRuns, {}, {"crash"}),
        (EndsWithTheFirstReport, WORKERS, {"ref_cnt"}),
        (TakesRepeatedReports, WORKERS, {"refusal"}),
        (EndsWithTheFirstFailure, WORKERS, {"ref_cnt"}),
        (FailureCountsAsSuccess, {}, {"host_hashes", "events"}),
        (KeepsWhatFailed, {}, {"length"}),
        (ForgetsToLetTheSourceGo, {}, {"ref_cnt"}),
        (StoresWhatIsBeingComputed, {}, {"refusal"}),
        (LoadsIntoARunningStep, {}, {"refusal"}),
        (ResetsUnderAPin, {}, {"refusal"}),
        (ScansFromTheTail, {"lazy": True, "hashes": 2}, {"result", "refusal"}),
        (ReadsTooLate, {}, {"host_content"}),
        (ReadsTooEarly, {}, {"host_content"}),
        (CopiesTheNeighbour, {}, {"host_content"}),
    )
}
"""By name: the target, what its scope has besides `SMALL`, and what it must be noticed by."""
