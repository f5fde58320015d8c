"""What is in flight ends (L2): transfers of machine O, and loads of several connectors.

Here requests may come, be preempted, abort and finish as they like, workers may report in any order, and any part may
fail. All that is assumed is that workers go on: somebody who has a part of this transfer to copy, or to report, is not
put off for ever; and that a scheduled step which still writes the block is processed some day. No step of anybody else
puts the end off.
"""

from __future__ import annotations

from ...machine import (
    Bool,
    Count,
    Promise,
    all_of,
    eventually,
    exists,
    implies,
    invariant,
    none,
    promise,
    steps,
)
from ..hybrid.connectors import Connector, Connectors, Job
from ..offload import HostBlock, Offload, Worker
from ..pool import Block, Position, Request, Slot

__all__ = ["LoadsEnd", "TransfersEnd"]


class TransfersEnd(Offload):
    """Asynchronous offload, and what is left to be done of a transfer."""

    store_reports = Count(Worker, by=HostBlock, where=lambda m, w, c: m.storing[c, w])
    """The workers that have yet to report a store."""

    store_slots = Count(Slot, by=HostBlock, where=lambda m, s, c: ~m.stored_slot[c, s])
    """The slots that it has not copied."""

    load_reports = Count(Worker, by=Block, where=lambda m, w, b: m.loading[b, w])
    """The workers that have yet to report a load."""

    load_slots = Count(Slot, by=Block, where=lambda m, s, b: ~m.loaded_slot[b, s])
    """The slots that it has not copied."""

    def _load_is_as_it_was(self, before: TransfersEnd, b: Block) -> Bool:
        """Also in what is left to be done."""
        is_left = self.load_reports[b] == before.load_reports[b]
        return all_of(super()._load_is_as_it_was(before, b), is_left, self.load_slots[b] == before.load_slots[b])

    @eventually("L2, O7")
    def every_store_ends(self, c: HostBlock) -> Promise:
        """Whatever is being stored is on the host some day, or has failed; its blocks are let go."""
        some = [steps(self.report_store, c, Worker, ok) for ok in (True, False)]
        return promise(
            goal=self.source[c] == none,
            fair=[steps(self.copy_out, c, Slot), *some],
            measure=[self.store_reports[c], self.store_slots[c]],
        )

    @eventually("L2, O7, O11")
    def every_load_ends(self, b: Block) -> Promise:
        """Whatever is being loaded is there some day, or is given up, also where nobody waits for it any more."""

        def is_its(r: Request, i: Position, _w: Worker, _ok: Bool) -> Bool:
            return self.table[r, i] == b

        return promise(
            goal=self.origin[b] == none,
            fair=[
                steps(self.process, b),
                steps(self.copy_in, b, Slot),
                *[steps(self.report_load, b, Worker, ok) for ok in (True, False)],
                *[steps(self.fail_abandoned_load, b, Worker, ok) for ok in (True, False)],
                *[steps(self.fail_load, Request, Position, Worker, ok, where=is_its) for ok in (True, False)],
            ],
            measure=[self.computing[b], self.load_reports[b], self.load_slots[b]],
        )


class LoadsEnd(Connectors):
    """Several connectors, of which each reports the loads that it has begun."""

    @invariant("O8")
    def who_loads_is_a_connector(self, r: Request) -> Bool:
        """A load that is under way has been begun by one of them, who can report it."""
        return implies(self.loading[r], exists(Connector, lambda c: self.chosen[r] == c))

    @eventually("L2, O8")
    def every_load_ends(self, r: Request) -> Promise:
        """A load that is under way ends: by its report, by its time, or because its request has left."""
        return promise(
            goal=~self.loading[r],
            fair=[steps(self.finish_load, r, Job, ok) for ok in (True, False)],
            measure=[self.loading[r]],
        )
