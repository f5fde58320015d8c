"""The reference implementation's tiers in virtual time, each step of which is told to a ledger."""

from collections.abc import Sequence

from ..refimpl.pool.manager import RequestId
from ..refimpl.timed.links import LinkModel
from ..refimpl.timed.records import Landed, TierEvent
from ..refimpl.timed.tiers import TimedTiers
from .timed_ledger import TierLedger


class WatchedTiers(TimedTiers[float]):
    """Tiers that behave as they do, while a ledger judges every step; a step that breaks a rule raises ``Violation``.

    Events are taken after each step, since that is when they must be right, and kept for whoever asks for them.
    """

    __slots__ = ("_told", "ledger")

    def __init__(
        self, links: LinkModel[float], *, slots: int, host_blocks: int, batch: int, block_bytes: float
    ) -> None:
        """Make them, and open the account. Links 0 and 1 lead down and up."""
        super().__init__(links, slots=slots, host_blocks=host_blocks, batch=batch, block_bytes=block_bytes)
        self.ledger = TierLedger(slots, host_blocks, batch=batch, block_bytes=block_bytes)
        self._told: list[TierEvent] = []

    def allocate_many(self, n: int) -> list[int] | None:
        """Allocate slots."""
        slots = super().allocate_many(n)
        self.ledger.allocated(n, slots)
        return slots

    def register(self, slot: int, key: bytes) -> None:
        """Let a slot be found."""
        super().register(slot, key)
        self.ledger.registered(slot, key, self._news())

    def release(self, slot: int) -> None:
        """End the use of a slot."""
        super().release(slot)
        self.ledger.released(slot)

    def touch(self, slot: int) -> None:
        """Take an idle slot into use."""
        super().touch(slot)
        self.ledger.touched(slot)

    def find(self, key: bytes) -> int | None:
        """Find a slot."""
        slot = super().find(key)
        self.ledger.found(key, slot)
        return slot

    def lookup(self, keys: Sequence[bytes]) -> tuple[int, int]:
        """Look a prefix up."""
        answer = super().lookup(keys)
        self.ledger.looked_up(keys, *answer)
        return answer

    def evict(self) -> int | None:
        """Evict a slot."""
        slot = super().evict()
        self.ledger.evicted(slot, self._news())
        return slot

    def adopt(self, key: bytes) -> None:
        """Let a block land on the host."""
        super().adopt(key)
        self.ledger.adopted(key, self._news())

    def swap_in(self, request: RequestId, keys: Sequence[bytes]) -> int | None:
        """Start to bring blocks back."""
        transfer = super().swap_in(request, keys)
        self.ledger.swapped_in(request, keys, transfer)
        return transfer

    def complete(self) -> Landed[float]:
        """Let a transfer land."""
        landed = super().complete()
        self.ledger.landed(landed, self._news())
        return landed

    def take_events(self) -> list[TierEvent]:
        """Return what happened since the last call."""
        told, self._told = self._told + super().take_events(), []
        return told

    def judge(self) -> None:
        """Judge the whole state."""
        self.ledger.check(self.snapshot())

    def _news(self) -> list[TierEvent]:
        """Return what the step that was just taken told."""
        events = super().take_events()
        self._told += events
        return events
