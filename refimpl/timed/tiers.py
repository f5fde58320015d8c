"""Two tiers in virtual time: the device slots of one worker (G1), the host blocks behind them (G2), links between.

A slot whose content moves is not free: from its eviction until its offload ends, and from the start of a swap-in until
that ends, it counts as ``copying`` and nobody can have it (G1). What is evicted is gathered in a batch, and each batch
is one transfer (G4). What the host has of a request's prefix comes back as one transfer, and the request waits for that
(G5). Who shares a slot is not asked here: a slot is used or it is not.

Keys are all that is known of the blocks' content, and no bytes are moved: the links tell how long that would take.
"""

from collections.abc import Sequence
from itertools import takewhile
from typing import Generic

from ..errors import RefusedError
from ..pool.free_list import FreeList
from ..pool.manager import RequestId
from .host_cache import HostCache
from .links import LinkModel, N
from .records import Cargo, Landed, Removed, Stored, TierEvent, TiersSnapshot


class TimedTiers(Generic[N]):
    """The slots of one worker and the host tier behind them, over links under one clock.

    A slot is exactly one of free, used, idle (unused, with a key), gathered (in the open batch), or in the cargo of a
    transfer (G1). Each public method that changes something is one step; those named as composed are several. An
    illegal call raises ``RefusedError`` and changes nothing. Steps cost O(1) per slot that they move, and O(log
    transfers) for the link.
    """

    __slots__ = (
        "_block_bytes",
        "_cargoes",
        "_down",
        "_events",
        "_found",
        "_free",
        "_gathered",
        "_host",
        "_idle",
        "_keys",
        "_leaving",
        "_links",
        "_up",
        "_used",
        "_waiting",
        "batch",
        "host_blocks",
        "slots",
    )

    def __init__(
        self,
        links: LinkModel[N],
        *,
        slots: int,
        host_blocks: int,
        batch: int,
        block_bytes: N,
        down: int = 0,
        up: int = 1,
    ) -> None:
        """Make a worker whose slots are all free, in the order of their numbers, before an empty host tier.

        Args:
            links: what the transfers move on. Others may start some there too; only this worker completes them, and
                moves the time.
            slots: blocks on the device.
            host_blocks: blocks on the host; with 0 there is no host tier, and no link is used (G7).
            batch: the most blocks of one offload (G4).
            block_bytes: the size of a block.
            down: the link for offloads, from device to host.
            up: the link for swap-ins, from host to device; it may be the same one.
        """
        if slots < 1 or host_blocks < 0 or batch < 1 or not block_bytes >= 0:
            raise RefusedError(
                f"{slots} slots, {host_blocks} host blocks, batches of {batch}, blocks of {block_bytes} bytes: there "
                "must be a slot and room for it in a batch, and nothing may be negative"
            )
        for link in (down, up) if host_blocks else ():
            links.active(link)  # Refuses a link that there is not.
        self.slots = slots
        self.host_blocks = host_blocks
        self.batch = batch
        self._block_bytes: N = block_bytes
        self._links: LinkModel[N] = links
        self._down = down
        self._up = up
        self._free = FreeList(slots, range(slots))
        self._idle = FreeList(slots, beside=self._free)
        self._used: set[int] = set()
        self._keys: dict[int, bytes] = {}
        self._found: dict[bytes, int] = {}
        self._gathered: list[tuple[int, bytes]] = []
        # The keys that are gathered or in an offload: on their way to the host.
        self._leaving: set[bytes] = set()
        self._cargoes: dict[int, tuple[RequestId | None, Cargo]] = {}
        self._waiting: set[RequestId] = set()
        self._host = HostCache(host_blocks)
        self._events: list[TierEvent] = []

    # Slots.

    def allocate(self) -> int | None:
        """Take the slot at the head of the free queue into use, without a key; ``None`` if no slot is free (G1)."""
        taken = self.allocate_many(1)
        return taken[0] if taken else None

    def allocate_many(self, n: int) -> list[int] | None:
        """Allocate ``n`` slots, or none of them: ``None`` while fewer are free (G1, P7). Composed."""
        if n < 0:
            raise RefusedError(f"{n} slots cannot be allocated: ask for 0 or more")
        if n > len(self._free):
            return None
        taken = self._free.popleft_n(n)
        self._used.update(taken)
        return taken

    def register(self, slot: int, key: bytes) -> None:
        """Let ``find`` find a used slot under ``key``. It must carry none, and no other slot may be found there."""
        self._check_used(slot)
        if slot in self._keys:
            raise RefusedError(f"slot {slot} carries a key already: release it, or register another")
        if key in self._found:
            raise RefusedError(f"slot {self._found[key]} carries the key {key.hex()}: use that, or give another key")
        self._carry(slot, key)

    def release(self, slot: int) -> None:
        """End the use of a slot: with a key it is idle from now on, and evicted last; without one it is free."""
        self._check_used(slot)
        self._used.remove(slot)
        queue = self._idle if slot in self._keys else self._free
        queue.append(slot)

    def touch(self, slot: int) -> None:
        """Take an idle slot into use again: a hit on the device."""
        if slot not in self._idle or slot not in self._keys:
            raise RefusedError(f"slot {slot} is not idle: touch what find returned and nobody uses")
        self._idle.remove(slot)
        self._used.add(slot)

    # Finding.

    def find(self, key: bytes) -> int | None:
        """Return the used or idle slot that carries ``key``, or ``None``. Nothing changes."""
        return self._found.get(key)

    def on_host(self, key: bytes) -> bool:
        """Tell whether the host tier has a block. Nothing changes, the order of eviction neither (G5)."""
        return key in self._host

    def is_bound_for_host(self, key: bytes) -> bool:
        """Tell whether a block is on its way to the host: in the open batch, or in an offload."""
        return key in self._leaving

    def lookup(self, keys: Sequence[bytes]) -> tuple[int, int]:
        """Return how much of a prefix is there: leading keys on the device, and right behind them on the host (G5).

        Nothing changes, the order of eviction neither.
        """
        device = sum(1 for _ in takewhile(self._found.__contains__, keys))
        host = sum(1 for _ in takewhile(self._host.__contains__, keys[device:]))
        return device, host

    # Moving.

    def evict(self) -> int | None:
        """Take the first idle slot from the device, and return it; ``None`` if none is idle.

        What is on the host, or on its way there, is not copied again: the slot is free at once, and the host notes a
        use of the block. Else the slot joins the open batch. Refused while that is full: ship it first.
        """
        if len(self._gathered) >= self.batch:
            raise RefusedError(f"the open batch has its {self.batch} slots: ship it first")
        slot = self._idle.first()
        if slot is None:
            return None
        self._idle.remove(slot)
        key = self._keys.pop(slot)
        del self._found[key]
        self._events.append(Removed("device", key))
        if not self.host_blocks or key in self._host or key in self._leaving:
            self._host.touch(key)
            self._free.append(slot)
        else:
            self._gathered.append((slot, key))
            self._leaving.add(key)
        return slot

    def ship(self) -> int | None:
        """Start one transfer with all that the open batch has, and return its id; ``None`` if it is empty (G4)."""
        if not self._gathered:
            return None
        cargo = tuple(self._gathered)
        self._gathered.clear()
        return self._send(self._down, None, cargo)

    def adopt(self, key: bytes) -> None:
        """Let a block land on the host that came from elsewhere: from a tier behind it. Else as an offload lands."""
        if not self.host_blocks or self.is_bound_for_host(key) or key in self._host:
            raise RefusedError(f"the key {key.hex()} is on the host, or on its way, or there is no host tier")
        self._events += self._host.store(key)

    def swap_in(self, request: RequestId, keys: Sequence[bytes]) -> int | None:
        """Start to bring back what the host has of a prefix, right behind what the device has (G5).

        As many blocks as there are slots free come in one transfer, whose id is returned; ``None`` if there is nothing
        to bring. The request waits until it lands, and may not ask again before. The host keeps what is read.
        """
        if request in self._waiting:
            raise RefusedError(f"request {request} waits for a swap-in already: complete that first")
        device, host = self.lookup(keys)
        count = min(host, len(self._free))
        if not count:
            return None
        cargo = tuple(zip(self._free.popleft_n(count), keys[device : device + count], strict=True))
        for _, key in cargo:
            self._host.begin_read(key)
        self._waiting.add(request)
        return self._send(self._up, request, cargo)

    def make_room(self, n: int) -> list[int]:
        """Evict until ``n`` slots are free or will be once the offloads have landed, or none is idle. Composed.

        Full batches are shipped as they fill, the rest at the end. Returns the transfers that were started.
        """
        started: list[int | None] = []
        while len(self._free) + len(self._leaving) < n and len(self._idle):
            if len(self._gathered) == self.batch:
                started.append(self.ship())
            self.evict()
        started.append(self.ship())
        return [transfer for transfer in started if transfer is not None]

    # Time.

    @property
    def now(self) -> N:
        """The time."""
        return self._links.now

    def deadline(self) -> N | None:
        """Return when the next transfer will land as things stand; ``None`` if none is in flight."""
        return self._links.deadline()

    def due(self) -> int | None:
        """Return the transfer that ``complete`` would complete, or ``None``."""
        return self._links.due()

    def move(self, to: N) -> None:
        """Let time pass till ``to``; nothing happens if that is past. Refused if a transfer would land before."""
        self._links.move(to)

    def complete(self) -> Landed[N]:
        """Let the first transfer that is due land. Refused if none is.

        An offload: each slot of its cargo in order is free again, and its block lands on the host as the one used
        last. A full host evicts its oldest block for it; if every block there is being read, this one is dropped (G6).
        A swap-in: each slot is in use, and found under its key unless another slot is; the host blocks count as used;
        the request is promoted, this once (G5). What others have on the links moves nothing here.
        """
        completion = self._links.complete()
        request, cargo = self._cargoes.pop(completion.id, (None, ()))
        if request is None:
            self._end_offload(cargo)
        else:
            self._end_swap_in(cargo)
            self._waiting.remove(request)
        return Landed(completion, cargo, request)

    def advance(self, to: N) -> list[Landed[N]]:
        """Move through every deadline up to ``to`` and on to ``to``; return what landed, in order (G3). Composed."""
        landed: list[Landed[N]] = []
        while to >= self.now and (deadline := self.deadline()) is not None and deadline <= to:
            self.move(deadline)
            landed.append(self.complete())
        self.move(to)
        return landed

    # Observation.

    @property
    def num_free(self) -> int:
        """The number of slots that could be allocated now."""
        return len(self._free)

    @property
    def num_leaving(self) -> int:
        """The number of slots that will be free once their offload has landed, shipped or not."""
        return len(self._leaving)

    def take_events(self) -> list[TierEvent]:
        """Return what happened in both tiers since the last call, oldest first (G6), and forget it."""
        events, self._events = self._events, []
        return events

    def snapshot(self) -> TiersSnapshot[N]:
        """Collect the whole observable state, by walking the queues. Linear: for checkers, not for serving."""
        swap_ins = {name: (request, cargo) for name, (request, cargo) in self._cargoes.items() if request is not None}
        return TiersSnapshot(
            free=tuple(self._free.walk()),
            idle=tuple(self._idle.walk()),
            used=frozenset(self._used),
            keys=dict(self._keys),
            found=dict(self._found),
            gathered=tuple(self._gathered),
            offloads={name: cargo for name, (request, cargo) in self._cargoes.items() if request is None},
            swap_ins=swap_ins,
            host=tuple(self._host.order),
            reading=dict(self._host.reading),
            links=self._links.snapshot(),
        )

    # Parts of the steps above.

    def _check_used(self, slot: int) -> None:
        """Refuse a slot that nobody uses."""
        if slot not in self._used:
            raise RefusedError(f"slot {slot} is not in use: allocate or touch it first")

    def _carry(self, slot: int, key: bytes) -> None:
        """Let a slot carry a key."""
        self._keys[slot] = key
        self._found[key] = slot
        self._events.append(Stored("device", key))

    def _send(self, link: int, request: RequestId | None, cargo: Cargo) -> int:
        """Start the transfer of a cargo."""
        transfer = self._links.start(link, len(cargo) * self._block_bytes)
        self._cargoes[transfer] = (request, cargo)
        return transfer

    def _end_offload(self, cargo: Cargo) -> None:
        """Free the slots, and let their blocks land on the host."""
        for slot, key in cargo:
            self._free.append(slot)
            self._leaving.remove(key)
            self._events += self._host.store(key)

    def _end_swap_in(self, cargo: Cargo) -> None:
        """Let the request use the slots, and the host evict what was read."""
        for slot, key in cargo:
            self._used.add(slot)
            if key not in self._found:
                self._carry(slot, key)
            self._host.end_read(key)
