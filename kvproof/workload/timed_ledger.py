"""An independent account of one worker's tiers in virtual time, against which they are judged (G1, G4 to G6).

It is told each step and its answer, and from that alone knows whether a slot is free, used, idle or being copied, what
was written there last, and what is on the host. Which idle slot or host block goes first is policy, and not judged.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import takewhile
from typing import Literal

from ..refimpl.pool.manager import RequestId
from ..refimpl.timed.records import Landed, Removed, Stored, TierEvent, TiersSnapshot
from .violation import Violation


class TierLedger:
    """What must be true of ``slots`` on a device and ``host_blocks`` on a host after the steps that it was told of."""

    def __init__(self, slots: int, host_blocks: int, *, batch: int, block_bytes: float) -> None:
        """Open an account: all slots are free and the host is empty."""
        self._slots = slots
        self._host_blocks = host_blocks
        self._batch = batch
        self._block_bytes = block_bytes
        # A slot that is in none of these states is free, or the target of a swap-in.
        self._state: dict[int, Literal["used", "idle", "copying"]] = {}
        self._content: dict[int, bytes] = {}
        self._found: dict[bytes, int] = {}
        self._leaving: dict[bytes, int] = {}
        self._host: set[bytes] = set()
        self._swap_ins: dict[int, tuple[RequestId, tuple[bytes, ...]]] = {}
        self._reads: Counter[bytes] = Counter()

    # Answers.

    def found(self, key: bytes, slot: int | None) -> None:
        """Judge what was found on the device under a key."""
        if slot != self._found.get(key):
            raise Violation("P6", f"slot {slot} was found for {_show(key)}, which is in {self._found.get(key)}")

    def looked_up(self, keys: Sequence[bytes], device: int, host: int) -> None:
        """Judge a lookup: leading keys on the device, and right behind them on the host (G5)."""
        expected = self._leading(keys)
        if (device, host) != expected:
            raise Violation("G5", f"a lookup found {device} on the device and {host} on the host, not {expected}")

    # Slots.

    def allocated(self, n: int, slots: Sequence[int] | None) -> None:
        """Judge an allocation: free slots only, none of which is being copied (G1), all or nothing (P7)."""
        free = self._num_free()
        if slots is None:
            if n <= free:
                raise Violation("P7", f"{n} slots were refused while {free} are free")
            return
        for slot in slots:
            self._require(slot, "free")
            self._state[slot] = "used"
            self._content.pop(slot, None)
        if len(slots) != n or n > free:
            raise Violation("P7", f"{len(slots)} slots were given where {n} were asked for and {free} are free")

    def registered(self, slot: int, key: bytes, events: list[TierEvent]) -> None:
        """Judge a registration: a used slot holds the content of a key from now on, and can be found (G6)."""
        self._require(slot, "used")
        self._content[slot] = key
        self._found[key] = slot
        self._expect(events, [Stored("device", key)])

    def released(self, slot: int) -> None:
        """Take into account that nobody uses a slot any more: idle if it can be found, else free."""
        self._require(slot, "used")
        if self._found.get(self._content.get(slot, b"")) == slot:
            self._state[slot] = "idle"
        else:
            del self._state[slot]

    def touched(self, slot: int) -> None:
        """Take into account that an idle slot is in use again."""
        self._require(slot, "idle")
        self._state[slot] = "used"

    def evicted(self, slot: int | None, events: list[TierEvent]) -> None:
        """Judge an eviction: an idle slot; it is free only if its block is on the host or on its way (G1)."""
        if slot is None:
            self._expect(events, [])
            return
        self._require(slot, "idle")
        key = self._content[slot]
        del self._found[key]
        if self._host_blocks and key not in self._host and key not in self._leaving:
            self._state[slot] = "copying"
            self._leaving[key] = slot
        else:
            del self._state[slot]
        self._expect(events, [Removed("device", key)])

    # Transfers.

    def swapped_in(self, request: RequestId, keys: Sequence[bytes], transfer: int | None) -> None:
        """Judge the start of a swap-in: everything contiguous for which there are slots (G5)."""
        device, host = self._leading(keys)
        count = min(host, self._num_free())
        if (transfer is None) != (count == 0):
            raise Violation("G5", f"{count} blocks can be swapped in for request {request}, and transfer {transfer} is")
        if transfer is None:
            return
        cargo = tuple(keys[device : device + count])
        self._swap_ins[transfer] = request, cargo
        self._reads.update(cargo)

    def landed(self, landed: Landed[float], events: list[TierEvent]) -> None:
        """Judge a transfer that came to its end, by what it brought where."""
        size = landed.completion.size
        if size != len(landed.cargo) * self._block_bytes:
            raise Violation("G4", f"{len(landed.cargo)} blocks of {self._block_bytes} bytes moved as {size} bytes")
        if landed.promoted is None:
            self._offloaded(landed, events)
        else:
            self._brought_back(landed, events)

    def adopted(self, key: bytes, events: list[TierEvent]) -> None:
        """Judge a block's landing on the host that came from the shared tier (G8)."""
        self._stored((key,), events)

    def _offloaded(self, landed: Landed[float], events: list[TierEvent]) -> None:
        """Judge the end of an offload: its slots are free from now on, its blocks on the host (G1, G4, G6)."""
        if len(landed.cargo) > self._batch:
            raise Violation("G4", f"{len(landed.cargo)} blocks went in one batch of {self._batch}")
        for slot, key in landed.cargo:
            if self._leaving.get(key) != slot:
                raise Violation("P6", f"{_show(key)} was copied from slot {slot}, and is in {self._leaving.get(key)}")
            del self._leaving[key], self._state[slot]
        self._stored([key for _, key in landed.cargo], events)

    def _brought_back(self, landed: Landed[float], events: list[TierEvent]) -> None:
        """Judge the end of a swap-in: its request is promoted, this once, and uses the slots (G5)."""
        request, keys = self._swap_ins.pop(landed.completion.id, (None, ()))
        if request != landed.promoted or keys != tuple(key for _, key in landed.cargo):
            raise Violation("G5", f"request {landed.promoted} was promoted with other blocks than it waited for")
        expected: list[TierEvent] = []
        for slot, key in landed.cargo:
            if slot in self._state:
                raise Violation("G1", f"slot {slot} is {self._state[slot]} at the end of the copy to it")
            self._state[slot] = "used"
            self._content[slot] = key
            if key not in self._found:
                self._found[key] = slot
                expected.append(Stored("device", key))
        self._reads -= Counter(keys)
        self._expect(events, expected)

    def _stored(self, keys: Sequence[bytes], events: list[TierEvent]) -> None:
        """Judge what landed on the host, in order: in place of one that nobody reads, where it was full (G5, G6)."""
        told = list(reversed(events))
        for key in keys:
            is_full = len(self._host) >= self._host_blocks
            if told and isinstance(told[-1], Removed):
                gone = told.pop()
                if not is_full or gone.tier != "host" or gone.key not in self._host or self._reads[gone.key]:
                    raise Violation("G6", f"{_show(gone.key)} was removed to make room, and was not there, or is read")
                self._host.remove(gone.key)
                is_full = False
            if told and told[-1] == Stored("host", key):
                told.pop()
                if is_full or key in self._host:
                    raise Violation("G6", f"{_show(key)} was stored on the host, where it was, or without room")
                self._host.add(key)
            elif not is_full or len(self._reads) < len(self._host):
                raise Violation("G6", f"{_show(key)} was dropped although the host has room, or a block to evict")
        if told:
            raise Violation("G6", f"{len(told)} events were told that nothing explains, {told[-1]} first")

    # Whole states.

    def check(self, state: TiersSnapshot[float]) -> None:
        """Judge the whole state: each slot in one place, nothing beyond capacity, each key with its content."""
        self._check_slots(state)
        if len(state.host) + len(state.reading) > self._host_blocks:
            raise Violation("P1", f"{len(state.host) + len(state.reading)} blocks are on a host of {self._host_blocks}")
        if not self._reads.keys().isdisjoint(state.host):
            raise Violation("G5", "a block on the host may be evicted while it is read")
        if self._host != {*state.host, *state.reading} or len(self._host) != len(state.host) + len(state.reading):
            raise Violation("G6", "the host has other blocks than its events say")
        if state.reading != dict(self._reads):
            raise Violation("G5", "what is kept for reading is not what the swap-ins under way read")
        if state.found != self._found:
            raise Violation("P6", "the device finds other blocks, or in other slots, than were written")
        if {key: slot for slot, key in state.keys.items()} != state.found or len(state.keys) != len(state.found):
            raise Violation("P5", "the slots carry other keys than they are found under")

    def _check_slots(self, state: TiersSnapshot[float]) -> None:
        """Judge that each slot is in exactly one place, and in the one that the account has it in (G1, P1)."""
        offloaded = [slot for cargo in (state.gathered, *state.offloads.values()) for slot, _ in cargo]
        arriving = [slot for _, cargo in state.swap_ins.values() for slot, _ in cargo]
        places = {
            "free": [*state.free, *arriving],
            "used": state.used,
            "idle": state.idle,
            "copying": offloaded,
        }
        seen = bytearray(self._slots)
        for place, slots in places.items():
            for slot in slots:
                if not 0 <= slot < self._slots or seen[slot]:
                    raise Violation("P1", f"slot {slot} is in two places, or there is none of that number")
                seen[slot] = 1
                if self._state.get(slot, "free") != place:
                    raise Violation("G1", f"slot {slot} is {place} and must be {self._state.get(slot, 'free')}")
        if (lost := seen.find(0)) >= 0:
            raise Violation("P1", f"slot {lost} is neither free, nor used, nor idle, nor copied")

    def _leading(self, keys: Sequence[bytes]) -> tuple[int, int]:
        """Return how much of a prefix is on the device, and right behind that on the host."""
        device = sum(1 for _ in takewhile(self._found.__contains__, keys))
        return device, sum(1 for _ in takewhile(self._host.__contains__, keys[device:]))

    def _require(self, slot: int, state: str) -> None:
        """Judge that a step was taken with a slot in the state that it is for (G1)."""
        if self._state.get(slot, "free") != state:
            raise Violation("G1", f"slot {slot} was taken for {state}, and is {self._state.get(slot, 'free')}")

    def _num_free(self) -> int:
        """Return how many slots can be allocated."""
        return self._slots - len(self._state) - sum(len(cargo) for _, cargo in self._swap_ins.values())

    def _expect(self, events: list[TierEvent], expected: list[TierEvent]) -> None:
        """Judge the events of a step: each change exactly once (G6)."""
        if events != expected:
            raise Violation("G6", f"{len(events)} events were told, not just the {len(expected)} that happened")


def _show(key: bytes) -> str:
    """Return the beginning of a key."""
    return f"block {key.hex()[:12]}"
