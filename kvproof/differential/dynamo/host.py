"""The host tier of Dynamo's mocker, kept by the reference implementation: a `BlockPool` of host blocks, and two links.

As in vLLM's ``OffloadingConnector``, which the mocker follows, every full block of a prompt is stored as soon as it is
computed, all new ones of a request as one transfer; it stays until its place is needed and it was used longest ago.
Blocks on their way, in either direction, are held and cannot go.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ...engines.dynamo.replay import HostTierConfig
from ...refimpl.pool.block_pool import BlockPool
from ...refimpl.timed.links import LinkModel

__all__ = ["Completed", "HostMirror", "Lanes", "SharedLinks", "Transport", "transport_of"]

DOWN, UP = 0, 1
"""The directions: to the host, and to the device."""


class Transport(Protocol):
    """How transfers take their time."""

    def start(self, direction: int, size: float, now: float, not_before: float) -> int:
        """Begin a transfer of ``size`` bytes at ``not_before``, which is ``now`` or later; return its number."""

    def next_event(self) -> float | None:
        """Return when the next transfer will be complete as things stand."""

    def advance(self, now: float) -> list[int]:
        """Return what is complete by ``now``, in order."""

    def deadline(self, transfer: int) -> float | None:
        """Return when a transfer will be complete; none if that depends on those to come."""


class Lanes:
    """One transfer at a time in each direction, in the order in which they were begun: the mocker's private tier."""

    def __init__(self, host: HostTierConfig) -> None:
        self._speed = (host.down, host.up)
        self._latency = host.latency
        self._tail = [0.0, 0.0]
        self._deadlines: dict[int, tuple[float, int]] = {}
        self._begun = 0

    def start(self, direction: int, size: float, now: float, not_before: float) -> int:  # noqa: ARG002
        """Queue a transfer behind those of its direction."""
        speed = self._speed[direction]
        begin = max(self._tail[direction], not_before + self._latency)
        self._tail[direction] = begin + (size / speed if speed else 0.0)
        self._begun += 1
        self._deadlines[self._begun] = (self._tail[direction], direction)
        return self._begun

    def next_event(self) -> float | None:
        """Return the first deadline."""
        return min((at for at, _ in self._deadlines.values()), default=None)

    def advance(self, now: float) -> list[int]:
        """Return what is complete: by time, then stores before loads, then by number."""
        due = sorted((at, direction, n) for n, (at, direction) in self._deadlines.items() if at <= now)
        for _, _, number in due:
            del self._deadlines[number]
        return [number for _, _, number in due]

    def deadline(self, transfer: int) -> float:
        """Return when a transfer will be complete: that never changes."""
        return self._deadlines[transfer][0]


class SharedLinks:
    """All transfers of a direction share its link (G2): the mocker's shared tier, and our `LinkModel`."""

    def __init__(self, host: HostTierConfig) -> None:
        self._links: LinkModel[float] = LinkModel([host.down, host.up], now=0.0)

    def start(self, direction: int, size: float, now: float, not_before: float) -> int:  # noqa: ARG002
        """Begin a transfer."""
        self._links.move(now)
        return self._links.start(direction, size)

    def next_event(self) -> float | None:
        """Return the first deadline."""
        return self._links.deadline()

    def advance(self, now: float) -> list[int]:
        """Return what is complete."""
        return [completion.id for completion in self._links.advance(now)]

    def deadline(self, transfer: int) -> None:
        """Return none: whoever begins next makes all others slower."""


def transport_of(host: HostTierConfig) -> Transport:
    """Return the links of a host tier."""
    return SharedLinks(host) if host.shared else Lanes(host)


@dataclass(frozen=True, slots=True)
class Completed:
    """A transfer that is complete."""

    transfer: int
    request: int
    loaded: bool
    """Whether it was a load."""


@dataclass(frozen=True, slots=True)
class _Transfer:
    request: int
    loaded: bool
    keys: list[bytes]
    blocks: list[int]


class HostMirror:
    """Which blocks the host has, in which order they go, and which are on their way."""

    def __init__(self, host: HostTierConfig, block_bytes: int, names: Mapping[bytes, int]) -> None:
        self._names = names
        self._pool = BlockPool(host.blocks, free_order="append", null_block=False, events=False)
        self._block_bytes = block_bytes
        self._links = transport_of(host)
        self._pending: dict[bytes, None] = {}
        """Keys on their way to the host."""
        self._loading: set[bytes] = set()
        """Keys on their way to the device."""
        self._prepared: deque[tuple[int, _Transfer]] = deque()
        self._numbers: dict[int, int] = {}
        """Of a transfer of the links, our own number."""
        self._transfers: dict[int, _Transfer] = {}
        self._issued = 0

    def matched(self, keys: Sequence[bytes]) -> tuple[int, bool]:
        """Return how many leading keys the host has or will have, and whether one of them is on its way (G5)."""
        count, on_its_way = 0, False
        for key in keys:
            pending = key in self._pending
            if not pending and self._pool.lookup(key) is None:
                break
            count += 1
            on_its_way |= pending or key in self._loading
        return count, on_its_way

    def touch(self, keys: Iterable[bytes]) -> None:
        """Note that keys were asked for; those that are not there, or held, are left alone."""
        for key in keys:
            block = self._pool.lookup(key)
            if block is not None and self._pool.is_free(block):
                self._pool.touch([block])
                self._pool.free([block])

    def missing(self, keys: Sequence[bytes]) -> list[int]:
        """Return the positions of the keys that are neither on the host nor on their way there."""
        return [i for i, key in enumerate(keys) if key not in self._pending and self._pool.lookup(key) is None]

    def prepare_store(self, request: int, keys: Sequence[bytes]) -> int | None:
        """Take host blocks for the keys of a request that are missing; none if too few can go (O12).

        The transfer begins with `submit`. What the host has of the keys does not go for the others.
        """
        wanted = [keys[i] for i in self.missing(keys)]
        spared = [b for b in map(self._pool.lookup, keys) if b is not None and self._pool.is_free(b)]
        if len(wanted) > self._pool.num_free - len(spared):
            return None
        self._pool.touch(spared)
        blocks = self._pool.allocate(len(wanted))
        assert blocks is not None
        self._pool.free(spared)
        self._pending |= dict.fromkeys(wanted)
        self._issued += 1
        self._prepared.append((self._issued, _Transfer(request, False, wanted, blocks)))
        return self._issued

    def submit(self, now: float) -> None:
        """Begin what was prepared."""
        while self._prepared:
            number, transfer = self._prepared.popleft()
            self._begin(number, transfer, DOWN, now, now)

    def load(self, request: int, keys: Sequence[bytes], now: float, not_before: float) -> int:
        """Begin to load keys, all of which are on the host; they are held until it is complete."""
        blocks = [block for key in keys if (block := self._pool.lookup(key)) is not None]
        assert len(blocks) == len(keys)
        self._pool.touch(blocks)
        self._loading.update(keys)
        self._issued += 1
        self._begin(self._issued, _Transfer(request, True, list(keys), blocks), UP, now, not_before)
        return self._issued

    def advance(self, now: float) -> list[Completed]:
        """Complete what is due, in order."""
        done = []
        for link_number in self._links.advance(now):
            number = self._numbers.pop(link_number)
            transfer = self._transfers.pop(number)
            if transfer.loaded:
                self._loading.difference_update(transfer.keys)
            else:
                for key, block in zip(transfer.keys, transfer.blocks, strict=True):
                    del self._pending[key]
                    self._pool.register(block, key, None)
            # Those that one transfer frees were all used last at once: the mocker orders them by its names.
            self._pool.free(sorted(transfer.blocks, key=lambda block: self._names[self._pool.keys_of(block)[0]]))
            done.append(Completed(number, transfer.request, transfer.loaded))
        return done

    def next_event(self) -> float | None:
        """Return when the next transfer will be complete as things stand."""
        return self._links.next_event()

    def is_pending(self, transfer: int) -> bool:
        """Tell whether a transfer was prepared or begun and is not complete."""
        return transfer in self._transfers or any(number == transfer for number, _ in self._prepared)

    def deadline(self, transfer: int) -> float | None:
        """Return when a transfer that was begun will be complete; none if that depends on those to come."""
        return self._links.deadline(next(link for link, number in self._numbers.items() if number == transfer))

    def _begin(self, number: int, transfer: _Transfer, direction: int, now: float, not_before: float) -> None:
        size = float(len(transfer.blocks) * self._block_bytes)
        self._transfers[number] = transfer
        self._numbers[self._links.start(direction, size, now, not_before)] = number
