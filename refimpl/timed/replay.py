"""Serving requests through tiers in time, virtual or real: one code path, whatever the clock (G4).

A pass (``tick``) takes notice of all that has happened by now: transfers that landed, requests that were computed or
have arrived; then it starts what can be started. Between passes nothing happens, and time goes to the next event: a
transfer's deadline, the end of a computation, or an arrival (G1).

A request enters in order of arrival, when it has a slot for each of its blocks: those that hold a prefix of it on the
device are taken first, so that making room for the others does not evict them (P8). What the host has of its prefix
behind that is swapped in while it waits (G5); the rest it computes. When it is done its blocks are registered, and let
go last first.

A shared tier (G8), where there is one, takes what the host evicts, and gives it back before the request enters: over a
link of its own into the host tier, from which it is swapped in like the rest. That is as simple as can be: a block on
its way to or from the shared tier needs no room on the host, and what arrives may push out what is there.
"""

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from ..errors import RefusedError
from ..pool.manager import RequestId
from .clocks import Clock
from .records import Landed, Removed
from .shared_access import Fetched, SharedAccess
from .shared_tier import SharedLanded
from .tiers import TimedTiers


class StallError(RuntimeError):
    """Requests are left, and nothing will ever happen that lets one go on (G1)."""


@dataclass(frozen=True, slots=True)
class TimedRequest:
    """A request as a trace has it."""

    name: RequestId
    """A name of its own."""
    arrival: float
    """Seconds."""
    keys: tuple[bytes, ...]
    """The keys of its full blocks."""
    blocks: int
    """The slots that it needs: one per full block, and those for the rest."""
    lookup_limit: int
    """The most blocks that may be reused: the last token is always computed (P14)."""
    seconds_per_block: float = 0.0
    """What computing one block takes."""


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """What became of a request."""

    name: RequestId
    """Its name."""
    device_blocks: int
    """Blocks that it reused from the device."""
    host_blocks: int
    """Blocks that it reused from the host."""
    shared_blocks: int
    """Blocks that it reused from the shared tier."""
    arrived: float
    """When it came."""
    queued: float
    """Seconds that it waited for its turn and for slots."""
    waited: float
    """Seconds that it waited for blocks from other tiers."""
    finished: float
    """When it was done."""


LogEntry = Landed[float] | SharedLanded[float] | Fetched
"""A transfer that came to its end: what it moved, how much that was, when it was begun and done."""


@dataclass(slots=True)
class _Entry:
    """A request, and how far it is served."""

    order: int
    request: TimedRequest
    table: list[int] = field(default_factory=list)
    """Slots, by position; those behind a swap-in follow when that has landed."""
    behind: list[int] = field(default_factory=list)
    device: int = 0
    swapped: tuple[bytes, ...] = ()
    fetched: frozenset[bytes] | None = None
    """What was asked of the shared tier; ``None`` if it was not looked at yet."""
    fetching: float = 0.0
    """Seconds that that took."""
    entered: float = 0.0
    began: float = 0.0

    @property
    def keys(self) -> tuple[bytes, ...]:
        """The keys that it may reuse."""
        return self.request.keys[: self.request.lookup_limit]


class TierReplay:
    """One worker that serves the requests of a trace; ``run`` lets it, or several that share a tier."""

    def __init__(
        self,
        tiers: TimedTiers[float],
        requests: Sequence[TimedRequest],
        *,
        concurrency: int,
        shared: SharedAccess | None = None,
    ) -> None:
        """Prepare to serve ``requests`` on fresh ``tiers``, at most ``concurrency`` of them at a time.

        Requests are served in order of arrival, those that arrive together in the order given.
        """
        if concurrency < 1:
            raise RefusedError(f"{concurrency} requests at a time: let one in at least")
        if shared is not None and not tiers.host_blocks:
            raise RefusedError("a shared tier is reached through the host tier: give that a block at least")
        if len({request.name for request in requests}) < len(requests):
            raise RefusedError("two requests have one name: give each its own")
        for request in requests:
            if not request.lookup_limit <= len(request.keys) <= request.blocks:
                raise RefusedError(f"request {request.name} has more keys than blocks, or may reuse more than its keys")
        self.records: list[RequestRecord] = []
        self.log: list[LogEntry] = []
        self._tiers = tiers
        self._shared = shared
        self._concurrency = concurrency
        self._arrivals = deque(
            _Entry(order, request) for order, request in enumerate(sorted(requests, key=lambda one: one.arrival))
        )
        self._waiting: list[tuple[int, _Entry]] = []
        self._inside: dict[RequestId, _Entry] = {}
        self._door: _Entry | None = None
        self._computing: list[tuple[float, int, _Entry]] = []
        self._holders: Counter[int] = Counter()
        self._now = 0.0

    # What a run asks for.

    def work(self, now: float) -> None:
        """Tell the shared tier that this worker has come to ``now``. Every worker does, before any acts (G8)."""
        if self._shared is not None:
            self._shared.work(now)

    def tick(self, now: float) -> None:
        """Take notice of all that has happened by ``now``, and start what can be started."""
        self._now = now
        self._land()
        while self._computing and self._computing[0][0] <= now:
            self._finish(heappop(self._computing)[2])
        while self._arrivals and self._arrivals[0].request.arrival <= now:
            entry = self._arrivals.popleft()
            heappush(self._waiting, (entry.order, entry))
        self._admit()
        self._spill()

    def next_event(self) -> float | None:
        """Return when something will happen next; ``None`` if nothing will."""
        deadlines = (self._tiers.deadline(), None if self._shared is None else self._shared.deadline())
        events = [deadline for deadline in deadlines if deadline is not None]
        if self._computing:
            events.append(self._computing[0][0])
        if self._arrivals:
            events.append(self._arrivals[0].request.arrival)
        return min(events, default=None)

    def stalled(self) -> list[str]:
        """Say what each request that is left waits for, once nothing will happen any more."""
        door = [] if self._door is None else [self._door]
        slots = [
            f"request {entry.request.name} waits for {entry.request.blocks - len(entry.table)} slots, "
            f"{self._tiers.num_free} of {self._tiers.slots} are free"
            for entry in door
        ]
        return slots + [f"request {entry.request.name} waits for its turn" for _, entry in sorted(self._waiting)]

    # What has happened.

    def _land(self) -> None:
        """Take in what transfers have brought."""
        for landed in self._tiers.advance(self._now):
            self.log.append(landed)
            if landed.promoted is not None:
                self._promote(self._inside[landed.promoted], landed)
        if self._shared is not None:
            for fetched in self._shared.arrivals(self._now):
                self.log.append(fetched)
                self._take_in(self._inside[fetched.request], fetched)
            self.log += self._shared.landed()

    def _take_in(self, entry: _Entry, fetched: Fetched) -> None:
        """Put on the host what was fetched, unless it got there otherwise; its request may enter next.

        Last first: should the host be too small for all, it is the beginning of the prefix that it keeps.
        """
        for key in reversed(fetched.keys):
            if not self._tiers.on_host(key) and not self._tiers.is_bound_for_host(key):
                self._tiers.adopt(key)
        entry.fetching = self._now - fetched.completion.begun
        heappush(self._waiting, (entry.order, entry))

    def _promote(self, entry: _Entry, landed: Landed[float]) -> None:
        """Let a request compute whose swap-in has landed."""
        entry.swapped = tuple(key for _, key in landed.cargo)
        slots = [slot for slot, _ in landed.cargo]
        self._holders.update(slots)
        entry.table += slots
        self._compute(entry)

    def _compute(self, entry: _Entry) -> None:
        """Begin to compute what could not be reused."""
        reused = len(entry.table)
        entry.table += entry.behind
        entry.began = self._now
        ends = self._now + entry.request.seconds_per_block * (entry.request.blocks - reused)
        heappush(self._computing, (ends, entry.order, entry))

    def _finish(self, entry: _Entry) -> None:
        """Register what a request computed, and let its slots go, last first."""
        request = entry.request
        computed = slice(entry.device + len(entry.swapped), len(request.keys))
        for slot, key in zip(entry.table[computed], request.keys[computed], strict=True):
            if self._tiers.find(key) is None:
                self._tiers.register(slot, key)
        for slot in reversed(entry.table):
            self._holders[slot] -= 1
            if not self._holders[slot]:
                del self._holders[slot]
                self._tiers.release(slot)
        del self._inside[request.name]
        shared = sum(1 for key in entry.swapped if key in (entry.fetched or ()))
        self.records.append(
            RequestRecord(
                name=request.name,
                device_blocks=entry.device,
                host_blocks=len(entry.swapped) - shared,
                shared_blocks=shared,
                arrived=request.arrival,
                queued=entry.entered - request.arrival - entry.fetching,
                waited=entry.fetching + entry.began - entry.entered,
                finished=self._now,
            )
        )

    # What can be started.

    def _admit(self) -> None:
        """Let requests in, in order, until one has to wait for slots or there are as many as may be.

        Only the one at the door holds slots without being served: two could wait for each other for ever.
        """
        while True:
            if self._door is None:
                if not self._waiting or not self._has_turn(self._waiting[0][1]):
                    return
                entry = heappop(self._waiting)[1]
                self._inside[entry.request.name] = entry
                if self._fetch(entry):
                    continue
                self._door = entry
            if not self._enter(self._door):
                return
            self._door = None

    def _has_turn(self, entry: _Entry) -> bool:
        """Tell whether a request may come in: it was in already, to fetch, or there is a place."""
        return entry.request.name in self._inside or len(self._inside) < self._concurrency

    def _fetch(self, entry: _Entry) -> bool:
        """Begin to fetch what the shared tier has behind the host's part of the prefix; tell whether there is any."""
        if self._shared is None or entry.fetched is not None:
            return False
        found = self._shared.leading(entry.keys[sum(self._tiers.lookup(entry.keys)) :])
        entry.fetched = frozenset(found)
        if found:
            self._shared.fetch(entry.request.name, found)
        return bool(found)

    def _enter(self, entry: _Entry) -> bool:
        """Give a request its slots and start its swap-in or its computation; tell whether there were enough."""
        tiers, keys = self._tiers, entry.keys
        for key in keys[len(entry.table) : tiers.lookup(keys)[0]]:
            self._hold(entry, key)
        needed = entry.request.blocks - len(entry.table)
        tiers.make_room(needed)
        if tiers.num_free < needed:
            return False
        entry.device, host = tiers.lookup(keys)
        entry.entered = self._now
        waits = tiers.swap_in(entry.request.name, keys) is not None
        entry.behind = tiers.allocate_many(needed - host) or []
        self._holders.update(entry.behind)
        if not waits:
            self._compute(entry)
        return True

    def _hold(self, entry: _Entry, key: bytes) -> None:
        """Let a request use a block that the device has."""
        slot = self._tiers.find(key)
        assert slot is not None
        if not self._holders[slot]:
            self._tiers.touch(slot)
        self._holders[slot] += 1
        entry.table.append(slot)

    def _spill(self) -> None:
        """Give what the host has evicted to the shared tier."""
        for event in self._tiers.take_events():
            if self._shared is not None and isinstance(event, Removed) and event.tier == "host":
                self._shared.store(event.key)


def run(workers: Sequence[TierReplay], clock: Clock) -> None:
    """Let workers serve all their requests. Whether time is real makes no difference here: ``clock`` knows.

    Raises:
        StallError: requests are left and nothing will happen; it says what each of them waits for (G1).
    """
    wake: float | None = clock.now()
    while wake is not None:
        now = clock.wait_until(wake)
        for worker in workers:
            worker.work(now)
        for worker in workers:
            worker.tick(now)
        events = (worker.next_event() for worker in workers)
        wake = min((event for event in events if event is not None), default=None)
    stalled = [reason for worker in workers for reason in worker.stalled()]
    if stalled:
        raise StallError("nothing can run and nothing is on its way: " + "; ".join(stalled))
