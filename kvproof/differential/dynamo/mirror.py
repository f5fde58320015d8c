"""The scheduler around the reference implementation that does as Dynamo's mocker does, request by request.

Blocks are the reference implementation's (`DeviceMirror`, `HostMirror`). Here are the policies around them, which are
vLLM's as the mocker has them: passes over running requests and then waiting ones, a whole prompt or nothing, the
youngest running request preempted first, and a request that finds blocks on the host waits until they are loaded.
Time is the mocker's: milliseconds, in floats.
"""

from collections import deque
from collections.abc import Iterable, Sequence

from ...engines.dynamo.replay import MockerConfig, TraceRequest
from ...refimpl.pool.blocks import blocks_for, lookup_limit
from ...refimpl.pool.keys import chain_keys
from .device import DeviceMirror
from .host import HostMirror
from .state import Admitted, Load, Outcome, PartedError, Pass, Request, StallError

__all__ = ["Mirror"]

_TIE = 1e-9
"""Milliseconds that rounding may make of none, where transfers share a link."""

_OWN = 2**31
"""Tokens from here on are generated ones: those of a request are nobody else's."""


class Mirror:
    """One worker that serves a trace."""

    def __init__(self, config: MockerConfig) -> None:
        host = config.host
        self._config = config
        self._size = config.block_tokens
        self._names: dict[bytes, int] = {}
        self._shared = host is not None and host.shared
        self.device = DeviceMirror(config.blocks, config.block_tokens, stores_hold=self._shared)
        self._host = HostMirror(host, config.block_bytes, self._names) if host is not None else None
        self._requests: list[Request] = []
        self._waiting: deque[Request] = deque()
        self._deferred: list[Request] = []
        """Those that wait for the host: they come before the waiting ones."""
        self._asleep: set[int] = set()
        """The deferred ones for which nothing has changed yet."""
        self._running: list[Request] = []
        self._not_before = 0.0
        """When blocks that are to be written are read by no store any more."""

    def run(self, trace: Sequence[TraceRequest], names: Sequence[Sequence[int]]) -> list[Outcome]:
        """Serve all requests, and return what became of each; ``names`` are the mocker's of the blocks.

        Raises:
            StallError: some can never be served.
            PartedError: the mocker need not do the same from some point on.
        """
        self._requests = [self._made(number, request) for number, request in enumerate(trace)]
        for request, named in zip(self._requests, names, strict=True):
            self._names.update(zip(request.prompt_keys, named, strict=False))
        arrivals = deque(self._requests)
        now = 0.0
        while arrivals or self._waiting or self._running or self._deferred:
            while arrivals and arrivals[0].trace.arrival <= now:
                self._waiting.append(arrivals.popleft())
            end = self._pass(now) if self._is_ready() else None
            if end is not None:
                now = end
                self._settle(now)
                continue
            transfer = self._host.next_event() if self._host is not None else None
            events = [*(r.trace.arrival for r in list(arrivals)[:1]), *([] if transfer is None else [transfer])]
            if not events:
                left = len(self._waiting) + len(self._deferred)
                raise StallError(f"{left} requests wait for blocks that nobody will give back")
            now = max(now, min(events))
            self._advance(now)
        return [request.outcome for request in self._requests]

    def _made(self, number: int, request: TraceRequest) -> Request:
        tokens = [block for block in request.blocks for _ in range(self._size)][: request.length]
        keys = chain_keys(tokens, self._size)
        return Request(number, request, tokens, keys, list(keys))

    def _is_ready(self) -> bool:
        return bool(self._running or self._waiting) or len(self._deferred) > len(self._asleep)

    # --------------------------------------------------------------------------------------------------- a pass

    def _pass(self, now: float) -> float | None:
        """Schedule what can be, and return when that is done; none if nothing came of it."""
        this = Pass(self._config.max_batched_tokens)
        at = 0
        while at < len(self._running) and this.budget > 0:
            at += self._go_on(self._running[at], this)
        while not this.closed and this.budget > 0:
            self._admit_next(now, this)
        self._store(this)
        ready = [request for request in self._running if request.computed >= len(request.tokens)]
        end = max(now, self._not_before) + self._config.prefill_ms * any(this.prefills.values())
        end += self._config.decode_ms * any(len(request.tokens) > request.trace.length for request in ready)
        for request in ready:
            self._emit(request, end)
        return end if this.prefills or this.changed or end > now else None

    def _go_on(self, request: Request, this: Pass) -> bool:
        """Schedule the next tokens of a running request; tell whether it is still running."""
        target = min(len(request.tokens), request.computed + this.budget)
        while not self._grow(request, target):
            last = self._running.pop()
            self._preempt(last, this)
            if last is request:
                return False
        self._compute(request, request.computed, target, this)
        return True

    def _admit_next(self, now: float, this: Pass) -> None:
        """Take in the next request, or put it off if it waits for the host; else the pass takes in no more."""
        request = next((r for r in self._deferred if r.number not in self._asleep), None)
        if request is None and self._waiting:
            request = self._waiting[0]
        this.closed = True
        if request is None:
            return
        found = request.load.blocks if request.load is not None else self.device.reach(request.keys)
        missing = self._look(request, found)
        if missing is None:
            self._put_off(request, this)
            return
        hit = min(found, lookup_limit(len(request.tokens), self._size))
        if not self._is_room(request, found, hit, for_load=missing > 0):
            return
        if missing:
            self._begin_load(request, found, missing, now)
            self._put_off(request, this)
            return
        self._take_in(request, hit, now, this)
        this.closed = False

    def _look(self, request: Request, found: int) -> int | None:
        """Return how many blocks behind those found on the device the host has; none: that is not known yet."""
        host = self._host
        if host is None:
            return 0
        if request.load is not None:
            return 0 if request.load.arrived else None
        if request.latest_store is not None:
            if host.is_pending(request.latest_store):
                return None
            request.latest_store = None
        count, on_its_way = host.matched(request.prompt_keys[found:])
        host.touch(reversed(request.prompt_keys))
        return None if on_its_way else count

    def _is_room(self, request: Request, found: int, hit: int, *, for_load: bool) -> bool:
        """Tell whether all tokens of a request fit; a load leaves what others under way will need.

        The mocker takes a found block that is held as a sign that all before it are held too, as they are by a
        request. The stores of a shared tier hold just what they store: then it takes a request in that does not fit.
        """
        available = self.device.num_free - (self._reserved() if for_load else 0)
        total = blocks_for(len(request.tokens), self._size)
        if request.load is not None:
            return total - request.load.blocks <= available
        unheld = self.device.unheld(request.keys[:found])
        if total - hit + sum(unheld[:hit]) <= available:
            return True
        vouched = next((n for n in range(found, 0, -1) if not unheld[n - 1]), 0)
        if total - hit + sum(unheld[vouched:hit]) <= available:
            raise PartedError("blocks before one that a store holds are taken as held")
        return False

    def _reserved(self) -> int:
        """Return how many blocks the prefills and loads under way will still take."""
        size = self._size
        prefills = [r for r in self._running if r.computed < r.trace.length]
        loads = [r.load for r in self._requests if r.load is not None]
        return sum(blocks_for(len(r.tokens), size) - blocks_for(r.computed, size) for r in prefills) + sum(
            load.footprint - load.blocks for load in loads
        )

    def _begin_load(self, request: Request, found: int, missing: int, now: float) -> None:
        assert self._host is not None
        self.device.enter(request.number, request.keys[:found])
        blocks = self.device.grow(request.number, found + missing)
        assert blocks is not None, "there was room for more than that"
        not_before = max([now, *self._ends(self.device.readers(blocks))])
        self._host.load(request.number, request.prompt_keys[found : found + missing], now, not_before)
        request.load = Load(found, found + missing, blocks_for(len(request.tokens), self._size))

    def _put_off(self, request: Request, this: Pass) -> None:
        if request not in self._deferred:
            self._waiting.popleft()
            self._deferred.append(request)
        self._asleep.add(request.number)
        this.changed, this.closed = True, False

    def _take_in(self, request: Request, hit: int, now: float, this: Pass) -> None:
        load, request.load = request.load, None
        reused = hit * self._size
        if load is None:
            self.device.enter(request.number, request.keys[:hit])
        else:
            request.next_store = hit
        from_host = reused - min(load.on_device * self._size, reused) if load is not None else 0
        target = min(len(request.tokens), reused + this.budget)
        grown = self._grow(request, target)
        assert grown, "there was room for all of it"
        if request in self._deferred:
            self._deferred.remove(request)
        else:
            self._waiting.popleft()
        self._running.append(request)
        request.outcome.admissions.append(Admitted(now, reused, from_host))
        self._compute(request, reused, target, this)

    # ---------------------------------------------------------------------------------------------------- parts

    def _grow(self, request: Request, tokens: int) -> bool:
        """Let a table cover so many tokens. What is still read is not written before that ends."""
        blocks = self.device.grow(request.number, blocks_for(tokens, self._size))
        if blocks is None:
            return False
        self._not_before = max([self._not_before, *self._ends(self.device.readers(blocks))])
        return True

    def _ends(self, stores: Iterable[int]) -> list[float]:
        """Return when stores end, as far as that is known."""
        ends = [self._host.deadline(store) for store in stores] if self._host is not None else []
        return [end for end in ends if end is not None]

    def _compute(self, request: Request, before: int, after: int, this: Pass) -> None:
        """Schedule tokens: their full blocks can be hit, by those scheduled later in the pass too."""
        self.device.register(request.number, request.keys, range(before // self._size, after // self._size))
        request.computed = after
        this.prefills[request.number] = before < min(after, request.trace.length)
        this.budget -= after - before

    def _store(self, this: Pass) -> None:
        """Prepare to store the full blocks of prompts that the pass completes, those of a request all or none."""
        if self._host is None:
            return
        for request in self._running:
            end = min(request.computed, request.trace.length) // self._size
            if request.number not in this.prefills or end <= request.next_store:
                continue
            keys = request.prompt_keys[request.next_store : end]
            table = self.device.table(request.number)[request.next_store : end]
            blocks = [table[position] for position in self._host.missing(keys)]
            if self.device.readers(blocks):
                continue  # They are written late in the pass: they are stored with what the next one completes.
            store = self._host.prepare_store(request.number, keys) if blocks else None
            if blocks and store is None:
                continue
            request.next_store = end
            if store is not None:
                self.device.hold(store, blocks)
                request.latest_store = store
                self._host.touch(reversed(request.prompt_keys))

    def _emit(self, request: Request, at: float) -> None:
        """Generate a token; with the last one the request leaves."""
        request.tokens.append(_OWN + (request.number << 16) + len(request.tokens))
        request.keys = chain_keys(request.tokens, self._size, previous=request.keys)
        if request.outcome.first_token is None:
            request.outcome.first_token = at
        if len(request.tokens) == request.trace.length + request.trace.output:
            request.outcome.end = at
            self._running.remove(request)
            self.device.leave(request.number)

    def _preempt(self, request: Request, this: Pass) -> None:
        """Let a request that was running wait again, before all others; the pass waits for what it stores."""
        this.prefills.pop(request.number, None)
        this.changed = this.closed = True
        if self._host is not None and request.latest_store is not None and self._host.is_pending(request.latest_store):
            self._not_before = max([self._not_before, *self._ends([request.latest_store])])
        self.device.leave(request.number)
        request.computed = 0
        self._waiting.appendleft(request)

    def _settle(self, now: float) -> None:
        """End a pass: what it stores begins to move."""
        if self._host is None:
            return
        if self._shared:
            self._advance(now - _TIE)
            event = self._host.next_event()
            if event is not None and event < now + _TIE:
                raise PartedError("a transfer ends as a pass does, and rounding decides which is first")
        self._advance(now)
        self._host.submit(now)
        self._advance(now)

    def _advance(self, now: float) -> None:
        """Complete the transfers that are due; who waits for any looks again."""
        completed = self._host.advance(now) if self._host is not None else []
        for done in completed:
            if not done.loaded:
                self.device.let_go(done.transfer)
                continue
            request = self._requests[done.request]
            assert request.load is not None
            request.load.arrived = True
            self.device.register(request.number, request.keys, range(request.load.on_device, request.load.blocks))
        if completed:
            self._asleep.clear()
