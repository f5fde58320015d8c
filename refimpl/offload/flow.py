"""Whole requests with asynchronous offload, and the loop of an engine around them.

A scheduled request may wait for a load while others go on::

    add_request -> schedule -> (is_loading: report ...) -> compute -> process -> finish

``OffloadFlow`` has the steps of one request, ``OffloadEngine`` the order in which an engine takes them for many.
Results come one step late, as in an engine that schedules a step while the one before it runs: what ``compute`` wrote
counts as being computed until ``process``.
"""

import random
import time
from collections import deque
from collections.abc import Callable, Sequence

from ..errors import RefusedError
from ..pool.blocks import position_of
from ..pool.keys import NO_EXTRAS, ExtraKeys, Tokens
from ..pool.manager import RequestId
from ..pool.request_flow import RequestFlow, _Request
from .manager import OffloadManager
from .transfers import Worker, WorkerReport

_IDLE_SECONDS = 0.0005


class OffloadFlow(RequestFlow):
    """A ``RequestFlow`` whose requests look on the host for what the device has not, and load it.

    ``schedule`` answers with the device's hits; when there is more on the host, the request waits for a load. If that
    ends well, what it brought counts as computed and can be hit; if not, the request computes it (O11): ``extend`` has
    to take room for it again.
    """

    def __init__(self, manager: OffloadManager) -> None:
        """Drive ``manager``; nobody else may."""
        super().__init__(manager)
        self.offload = manager
        self._loading: dict[RequestId, tuple[int, int]] = {}
        # The blocks that steps wrote since `process`, and the requests for which they did: dicts keep the order.
        self._written: dict[int, None] = {}
        self._stepped: dict[RequestId, None] = {}

    def is_loading(self, request_id: RequestId) -> bool:
        """Tell whether a request waits for a load."""
        return request_id in self._loading

    def compute(self, request_id: RequestId, num_tokens: int | None = None) -> int:
        """Compute tokens as the base does. Refused while the request waits for a load."""
        if request_id in self._loading:
            raise RefusedError(f"request {request_id!r} waits for a load")
        start = self.num_computed(request_id)
        computed = super().compute(request_id, num_tokens)
        if computed:
            first, _ = position_of(start, self.manager.block_tokens)
            last, _ = position_of(start + computed - 1, self.manager.block_tokens)
            table = self.manager.table(request_id)
            self._written.update(dict.fromkeys(filter(self.offload.is_computing, table[first : last + 1])))
            self._stepped[request_id] = None
        return computed

    def process(self) -> None:
        """Take the results of all that was computed until now. In eager mode, what that completed is offered (O4)."""
        for block in self._written:
            self.offload.processed(block)
        self._written.clear()
        stepped, self._stepped = self._stepped, {}
        for request_id in stepped:
            request = self._requests.get(request_id)
            if request is None or self.offload.lazy or not self.manager.is_inside(request_id):
                continue
            fresh = request.num_registered - self.offload.num_offered(request_id)
            if fresh > 0:
                self.offload.offer(request_id, fresh)

    def report(self, report: WorkerReport) -> bool:
        """Take a worker's report; tell whether it was waited for (O7). Requests whose load it ended can go on."""
        is_new = self.offload.report(report)
        if is_new:
            for request_id in [name for name in self._loading if not self.offload.is_loading(name)]:
                self._end_loading(request_id)
        return is_new

    def preempt(self, request_id: RequestId) -> None:
        """Take all blocks from a scheduled request, as the base does. Its transfers run on (O8)."""
        super().preempt(request_id)
        self._loading.pop(request_id, None)

    def finish(self, request_id: RequestId, *, abort: bool = False) -> None:
        """Let a request leave for good, at whatever length, with all its full blocks offered (O9).

        Refused while a step of it is not processed, which ``abort`` does not wait for.
        """
        is_inside = self.manager.is_inside(request_id)
        if not abort and is_inside and any(map(self.offload.is_computing, self.manager.table(request_id))):
            raise RefusedError(f"a step of request {request_id!r} is not processed")
        super().finish(request_id)
        self._loading.pop(request_id, None)

    def _bring(self, request_id: RequestId, request: _Request, limit: int) -> int:
        """Begin to load what the host has behind the hits. The gate of ``schedule`` has seen to the room."""
        first = self.manager.num_positions(request_id)
        found = self.offload.look(request_id, request.keys, limit)
        if found:
            blocks = self.offload.load(request_id, found)
            assert blocks is not None
            self._loading[request_id] = (first, found)
        return found

    def _end_loading(self, request_id: RequestId) -> None:
        """Let a request go on whose load has ended: with what it brought, or without."""
        first, count = self._loading.pop(request_id)
        request = self._scheduled(request_id)
        if self.manager.num_positions(request_id) == first:
            return  # The load failed; what was hit counts as computed already, and there is nothing more.
        block_tokens = self.manager.block_tokens
        for position in range(first, first + count):
            parent = request.keys[position - 1] if position else None
            self.manager.register(request_id, position, request.keys[position], parent, block_tokens)
        request.num_registered = first + count
        self._set_computed(request, (first + count) * block_tokens)


class OffloadEngine:
    """Serves requests to their end, step by step, with preemption when room runs short.

    The oldest request inside is never preempted for a younger one, so some request always comes further, or waits for
    a transfer that ends by itself (L1, L2).
    """

    def __init__(
        self,
        flow: OffloadFlow,
        workers: Sequence[Worker],
        *,
        seed: int | None = None,
        step_tokens: int | None = None,
        scan_blocks: int = 0,
        drive: Callable[[], object] | None = None,
        on_computed: Callable[[RequestId], object] | None = None,
    ) -> None:
        """Serve with ``flow`` and these workers, as many as its manager expects, in the order of their numbers.

        Args:
            flow: the flow; nobody else may drive it.
            workers: who copies.
            seed: of the order in which reports are taken, some of them late; ``None`` for the order in which they come.
            step_tokens: the most tokens of one request that a step computes, by default all.
            scan_blocks: in lazy mode, how many free blocks a step looks at.
            drive: called once a step: what moves workers that do not move by themselves.
            on_computed: called with each request that a step computed tokens for, while its table can be read.
        """
        if len(workers) != flow.offload.workers:
            raise RefusedError(f"the manager expects {flow.offload.workers} workers, got {len(workers)}")
        self.flow = flow
        self.preemptions = 0
        self._workers = workers
        self._random = None if seed is None else random.Random(seed)
        self._step_tokens = step_tokens
        self._scan_blocks = scan_blocks
        self._drive = drive
        self._on_computed = on_computed
        self._outputs: dict[RequestId, deque[int]] = {}
        self._waiting: deque[RequestId] = deque()
        self._running: list[RequestId] = []
        self._finishing: list[RequestId] = []
        self._reports: list[WorkerReport] = []

    @property
    def is_busy(self) -> bool:
        """Whether there is anything to step for: requests, or, also without any, transfers in flight (O8)."""
        return bool(self._outputs or self.flow.offload.pending)

    def add(
        self, request_id: RequestId, prompt: Tokens, output: Sequence[int] = (), extras: ExtraKeys = NO_EXTRAS
    ) -> bool:
        """Queue a request that will generate ``output``; ``False`` if it could never fit, and nothing changed."""
        if not self.flow.add_request(request_id, prompt, extras, max_new_tokens=len(output)):
            return False
        self._outputs[request_id] = deque(output)
        self._waiting.append(request_id)
        return True

    def abort(self, request_id: RequestId) -> None:
        """Let a request go at once, wherever it stands; its transfers run on (O8)."""
        self.flow.finish(request_id, abort=True)
        self._leave(request_id)

    def run(self, *, max_idle: int = 20_000) -> int:
        """Step until nothing is left to step for; return the number of steps.

        Raises:
            RuntimeError: after ``max_idle`` steps in a row in which nothing moved.
        """
        steps = idle = 0
        while self.is_busy:
            idle = 0 if self.step() else idle + 1
            steps += 1
            if idle > max_idle:
                raise RuntimeError(f"stalled: {len(self._outputs)} requests, {self.flow.offload.pending} transfers")
            if idle and self._drive is None:
                time.sleep(_IDLE_SECONDS)
        return steps

    def step(self) -> bool:
        """Take one step; tell whether anything moved: a report, an admission, a computed token or a departure."""
        moved = self._take_reports()
        self.flow.process()
        for request_id in list(self._finishing):
            self.flow.finish(request_id)
            self._leave(request_id)
            moved = True
        moved = self._schedule() or moved
        computed = False
        for request_id in list(self._running):
            # The list is of the step's beginning: an older request may have preempted this one since.
            if request_id in self._running and not self.flow.is_loading(request_id):
                computed = self._compute(request_id) or computed
        if self.flow.offload.lazy and computed:
            # Only then blocks are taken. If every step scanned, a host that is smaller than what is free on the device
            # would be filled anew for ever, each store followed by that of a block which it made the host forget.
            self.flow.offload.scan(self._scan_blocks)
        messages = self.flow.offload.take_messages()
        for worker in self._workers:
            worker.submit(messages)
        if self._drive is not None:
            self._drive()
        return moved or computed

    def _take_reports(self) -> bool:
        """Take what the workers have to report: with a seed some of it, in any order."""
        for worker in self._workers:
            self._reports += worker.poll()
        count = len(self._reports)
        if self._random is not None and count:
            self._random.shuffle(self._reports)
            count = self._random.randint(1, count)
        for report in self._reports[:count]:
            self.flow.report(report)
        del self._reports[:count]
        return count > 0

    def _schedule(self) -> bool:
        """Let waiting requests in, first come first served, while there is room."""
        moved = False
        while self._waiting and self.flow.schedule(self._waiting[0]) is not None:
            self._running.append(self._waiting.popleft())
            moved = True
        return moved

    def _compute(self, request_id: RequestId) -> bool:
        """Compute the next tokens of a request, or the next one that it generates; tell whether there was room."""
        flow, output = self.flow, self._outputs[request_id]
        if flow.num_computed(request_id) == flow.num_tokens(request_id):
            if not self._with_room(request_id, lambda: flow.append(request_id, output[0])):
                return False
            output.popleft()
        budget = self._step_tokens or flow.num_tokens(request_id)
        if not self._with_room(request_id, lambda: flow.extend(request_id, budget)):
            return False
        flow.compute(request_id, budget)
        if self._on_computed is not None:
            self._on_computed(request_id)
        if flow.num_computed(request_id) == flow.num_tokens(request_id) and not output:
            self._running.remove(request_id)
            self._finishing.append(request_id)
        return True

    def _with_room(self, request_id: RequestId, take: Callable[[], bool]) -> bool:
        """Take room for a request, from the youngest ones if need be; ``False`` if that was itself."""
        while not take():
            youngest = self._running.pop()
            self.flow.preempt(youngest)
            self._waiting.appendleft(youngest)
            self.preemptions += 1
            if youngest == request_id:
                return False
        return True

    def _leave(self, request_id: RequestId) -> None:
        """Forget a request that has left."""
        del self._outputs[request_id]
        for queue in (self._waiting, self._running, self._finishing):
            if request_id in queue:
                queue.remove(request_id)
