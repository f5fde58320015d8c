"""The reference implementation as a target for reports that may be stale or repeated."""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from kvproof.checkers.target import NONE, Answer, Args, Fields
from kvproof.harness.instances import Instance
from kvproof.harness.offload.target import OffloadTarget
from kvproof.refimpl.errors import RefusedError
from kvproof.refimpl.offload.records import OffloadSnapshot, TransferSnapshot
from kvproof.refimpl.pool.manager import ManagerSnapshot


class ReportsTarget(OffloadTarget):
    """An `OffloadManager` that hears every report of a transfer that it ever sent, as often as the machine likes.

    The manager numbers its transfers itself; the machine's numbers stand for those. A report that was not awaited
    leaves behind nothing that the manager remembers, beyond the machine's state either.
    """

    level = "reports"
    fields: ClassVar[tuple[str, ...]] = (*OffloadTarget.fields, "store_number", "load_number")
    # What is said of a load that failed and was awaited is said by machine O's own actions.
    unjudged: ClassVar = {**OffloadTarget.unjudged, "hear_load": frozenset({"load_failed"})}

    def __init__(self, setting: Instance) -> None:
        """A fresh manager, which has sent nothing."""
        super().__init__(setting)
        self._sent: dict[int, int] = {}

    def apply(self, action: str, args: Args) -> Answer:
        """Make the call; where a report was not awaited, see that nothing is remembered of it."""
        if not action.startswith("hear_"):
            return super().apply(action, args)
        before = self.manager.snapshot()
        answer = super().apply(action, args)
        if answer.result is False and (now := self.manager.snapshot()) != before:
            return Answer(f"not awaited, but {before} became {now}", answer.events)
        return answer

    def _send_store(self, c: int, t: int) -> None:
        self._send(self._in_flight(self._shown().stores, c), t)

    def _send_load(self, b: int, t: int) -> None:
        self._send(self._in_flight(self._shown().loads, b), t)

    def _send(self, transfer: int, t: int) -> None:
        """The manager has sent it already, under a number of its own: from now on this one stands for that."""
        if transfer == NONE or transfer in self._sent.values():
            raise RefusedError("nothing is there to be sent")
        self._sent[t] = transfer

    def _hear_store(self, t: int, w: int, ok: int) -> bool:
        return self._hear_report(t, w, ok)

    def _hear_load(self, t: int, w: int, ok: int) -> bool:
        return self._hear_report(t, w, ok)

    def _hear_report(self, t: int, w: int, ok: int) -> bool:
        try:
            self._report(self._sent[t], w, ok)
        except RefusedError:
            return False
        return True

    def _shown(self) -> OffloadSnapshot:
        shown = self.manager.snapshot()
        assert isinstance(shown, OffloadSnapshot)
        return shown

    def _in_flight(self, transfers: Mapping[int, TransferSnapshot], to: int) -> int:
        """The manager's number of the transfer in flight to this block, or none."""
        return next((name for name, shown in transfers.items() if shown.pairs[0][1] == to), NONE)

    def _fields_of(self, snapshot: ManagerSnapshot) -> Fields:
        assert isinstance(snapshot, OffloadSnapshot)
        number = {transfer: t for t, transfer in self._sent.items()}
        hosts, blocks = self.instance.scope.sizes["HostBlock"], self._sizes[0]
        return {
            **super()._fields_of(snapshot),
            "store_number": [number.get(self._in_flight(snapshot.stores, c), NONE) for c in range(hosts)],
            "load_number": [number.get(self._in_flight(snapshot.loads, b), NONE) for b in range(blocks)],
        }

    def fork(self) -> Self:
        """A second run in the same state."""
        other = super().fork()
        other._sent = dict(self._sent)
        return other

    def _spelled(self) -> Mapping[str, Any]:
        return {
            **super()._spelled(),
            "send_store": lambda c, t: f"# the store to host block {c} is number {t}",
            "send_load": lambda b, t: f"# the load to block {b} is number {t}",
            "hear_store": lambda t, w, ok: f"# worker {w} reports store {t}: ok={bool(ok)}",
            "hear_load": lambda t, w, ok: f"# worker {w} reports load {t}: ok={bool(ok)}",
        }
