"""Replaying a workload on a target, checked by the ledger."""

import heapq
import random
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Literal

import msgspec

from .host_ledger import HostLedger
from .ledger import Ledger, Violation
from .requests import BLOCK_TOKENS, Request, Workload
from .target import ReplayTarget, Started, TieredReplayTarget, View

Check = Literal["every", "sampled", "end"]
"""How often the whole state is judged: after every step, after some steps and at the end, or at the end only."""

SAMPLED_BLOCKS = 4_000_000
"""``sampled`` judges states until it has looked at about that many blocks."""

DEFAULT_TOKEN_MS = 20.0
"""With overlap, the milliseconds for which a request stays per token of its answer."""


class BrokenRule(msgspec.Struct, frozen=True):
    """A broken rule, and where the replay stood."""

    rule: str
    """Its code."""
    message: str
    """What was seen."""
    request: int
    """The place of the request in the file, from 0."""


class HostResult(msgspec.Struct, frozen=True):
    """What a replay showed of the host tier."""

    capacity: int
    """Blocks that it has."""
    reloaded: int
    """Blocks that came back to the device."""
    mirrored: int
    """Blocks that were stored on the host."""
    evictions: int
    """Blocks that lost their place on the host to others."""
    thrash_rate: float
    """Evictions / blocks stored; 0 when nothing was stored (M8)."""
    latency: int
    """The time units that the reloads cost together (M7)."""


class Result(msgspec.Struct, frozen=True):
    """What a replay showed."""

    target: str
    """On what."""
    capacity: int
    """Usable blocks of the device."""
    requests: int
    """Requests replayed, those that were turned away included."""
    turned_away: int
    """Requests with more blocks than the target has; their prompts count as missed."""
    waits: int
    """With overlap: requests that had to wait for others to leave."""
    most_running: int
    """The most requests inside at one time."""
    prompt_tokens: int
    """Of all these requests."""
    hit_tokens: int
    """Those of them that were found."""
    hit_rate: float
    """Hit tokens / prompt tokens."""
    block_operations: int
    """Blocks touched, handed out, registered and freed."""
    operations_per_second: float
    """Block operations per second of the target's own time, hashing included, checks excluded."""
    target_seconds: float
    """The target's own time."""
    seconds: float
    """What the replay took, checks included."""
    checks: int
    """Whole states judged; the answer to each request is judged besides."""
    violation: BrokenRule | None = None
    """What ended the replay early, if anything did."""
    host: HostResult | None = None
    """The host tier, of a target that has one."""


class Replay:
    """One replay of a workload on a fresh target."""

    def __init__(self, workload: Workload, target: ReplayTarget, *, check: Check = "sampled") -> None:
        """Prepare a replay of ``workload`` on ``target``, which has seen no request before."""
        self._workload = workload
        self._target = target
        self._ledger = Ledger(target.usable, target.null_block, target.free_order)
        self._tiers = target if isinstance(target, TieredReplayTarget) else None
        if self._tiers is not None:
            tiers = self._tiers
            self._ledger.host = HostLedger(tiers.host_capacity, tiers.base_latency, tiers.bandwidth)
        self._every = check == "every"
        steps = len(workload.requests) * (2 if self._tiers is None else 3)
        self._samples = _samples(steps, target.usable) if check == "sampled" else frozenset[int]()
        self._step = 0
        self._checks = 0
        self._target_seconds = 0.0
        self._last_view: View | None = None
        self._hit_blocks = 0
        self._operations = 0
        self._turned_away = 0
        self._waits = 0
        self._most_running = 0
        self._current = 0

    def run(
        self,
        *,
        overlap: bool = False,
        token_ms: float = DEFAULT_TOKEN_MS,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> Result:
        """Replay all requests and return what that showed; the first violation ends it.

        Args:
            overlap: serial by default: each request leaves before the next one comes. With overlap a request comes at
                its timestamp and stays ``token_ms`` for each token of its answer; one for which there is no room
                waits until enough others have left, and those behind it wait too.
            token_ms: see ``overlap``.
            on_progress: called with (requests done, requests in all).
        """
        began = perf_counter()
        finding: BrokenRule | None = None
        try:
            self._replay(overlap, token_ms, on_progress)
        except Violation as violation:
            finding = BrokenRule(violation.rule, violation.message, self._current)
        except Exception as error:  # A target that fails on a legal sequence is a finding, whatever it raises.
            finding = BrokenRule("error", f"the target raised {type(error).__name__}: {error}", self._current)
        prompt_tokens = self._workload.prompt_tokens
        hit_tokens = self._hit_blocks * BLOCK_TOKENS
        return Result(
            target=self._target.name,
            capacity=self._target.usable,
            requests=len(self._workload.requests) if finding is None else self._current + 1,
            turned_away=self._turned_away,
            waits=self._waits,
            most_running=self._most_running,
            prompt_tokens=prompt_tokens,
            hit_tokens=hit_tokens,
            hit_rate=hit_tokens / prompt_tokens,
            block_operations=self._operations,
            operations_per_second=self._operations / max(self._target_seconds, 1e-9),
            target_seconds=self._target_seconds,
            seconds=perf_counter() - began,
            checks=self._checks,
            violation=finding,
            host=None if self._tiers is None else _host_result(self._tiers),
        )

    def _replay(self, overlap: bool, token_ms: float, on_progress: Callable[[int, int], None] | None) -> None:
        """Replay all requests, and judge the last state."""
        requests = self._workload.requests
        running: list[tuple[float, int, Request]] = []
        clock = 0.0
        for done, request in enumerate(requests, start=1):
            self._current = request.index
            if len(request.blocks) > self._target.usable:
                self._turned_away += 1
                continue
            clock = max(clock, float(request.timestamp))
            while running and (not overlap or running[0][0] <= clock):
                self._finish(heapq.heappop(running)[2])
            waited = False
            while not self._start(request):
                waited = True
                if not running:
                    raise Violation("L1", f"request {request.index} fits the empty pool and was refused by it")
                leaves, _, other = heapq.heappop(running)
                clock = max(clock, leaves)
                self._finish(other)
            if self._tiers is not None:
                self._mirror(self._tiers, request)
            self._waits += waited
            heapq.heappush(running, (clock + request.output_length * token_ms, request.index, request))
            self._most_running = max(self._most_running, len(running))
            if on_progress is not None:
                on_progress(done, len(requests))
        while running:
            self._finish(heapq.heappop(running)[2])
        self._judge(self._target.view(), "M1")

    def _start(self, request: Request) -> bool:
        """Ask the target to let a request in, and judge its answer; tell whether it was let in."""
        before = self._view_before()
        began = perf_counter()
        answer = self._target.start(request)
        self._target_seconds += perf_counter() - began
        if answer is None:
            self._ledger.refused(request)
            self._take_events("P15")
            if before is not None:
                self._ledger.check_refused(before, self._view_after("P15"))
            return False
        admission = self._ledger.started(request, answer)
        self._take_events("M4")
        if before is not None:
            self._ledger.check_started(before, self._view_after("M4"), admission)
        self._count(request, answer)
        return True

    def _mirror(self, tiers: TieredReplayTarget, request: Request) -> None:
        """Let the full blocks of a request be brought to the host, and judge the step."""
        before = self._view_before()
        began = perf_counter()
        tiers.mirror(request)
        self._target_seconds += perf_counter() - began
        self._ledger.mirrored(request)
        self._take_events("M2")
        if before is not None:
            self._ledger.check_mirrored(before, self._view_after("M2"))
        self._operations += request.full_blocks

    def _finish(self, request: Request) -> None:
        """Let a request leave, and judge the step."""
        before = self._view_before()
        table = self._ledger.tables[request.index]
        began = perf_counter()
        self._target.finish(request)
        self._target_seconds += perf_counter() - began
        self._ledger.finished(request)
        self._take_events("M1")
        if before is not None:
            self._ledger.check_finished(before, self._view_after("M1"), table)
        self._operations += len(table)

    def _count(self, request: Request, answer: Started) -> None:
        """Count the hits and the block operations of a request that was let in."""
        self._hit_blocks += answer.hits
        registered = request.full_blocks - answer.hits
        self._operations += len(answer.table) + registered

    def _view_before(self) -> View | None:
        """Return the state before a step that is to be judged, or ``None``."""
        self._step += 1
        if self._every:
            return self._last_view or self._target.view()
        return self._target.view() if self._step in self._samples else None

    def _view_after(self, rule: str) -> View:
        """Return the state after a step, judged; ``rule`` says what the step may do to a host tier."""
        view = self._target.view()
        self._judge(view, rule)
        self._last_view = view
        return view

    def _take_events(self, rule: str) -> None:
        """Judge what is told after every step: the events, and the counters of a host tier."""
        self._ledger.events(self._target.take_events())
        if self._tiers is not None:
            self._ledger.check_counts(self._tiers.counts(), rule)

    def _judge(self, view: View, rule: str) -> None:
        """Judge a whole state, of both tiers."""
        self._checks += 1
        self._ledger.check_view(view)
        if self._tiers is not None:
            self._ledger.check_host(self._tiers.host_keys(), rule)


def replay_at(
    workload: Workload,
    make_target: Callable[[int], ReplayTarget],
    capacities: Sequence[int],
    *,
    check: Check = "sampled",
    overlap: bool = False,
    token_ms: float = DEFAULT_TOKEN_MS,
    on_progress: Callable[[int, int, int], None] | None = None,
) -> list[Result]:
    """Replay a workload at several capacities, each on a fresh target; return one result each.

    ``on_progress`` is called with (capacity, requests done, requests in all).
    """
    results: list[Result] = []
    for capacity in capacities:

        def report(done: int, total: int, capacity: int = capacity) -> None:
            if on_progress is not None:
                on_progress(capacity, done, total)

        replay = Replay(workload, make_target(capacity), check=check)
        results.append(replay.run(overlap=overlap, token_ms=token_ms, on_progress=report))
    return results


def _host_result(tiers: TieredReplayTarget) -> HostResult:
    """Return what a target has counted of its host tier."""
    counts = tiers.counts()
    thrash_rate = counts.evicted / counts.mirrored if counts.mirrored else 0.0
    return HostResult(
        tiers.host_capacity, counts.reloaded, counts.mirrored, counts.evicted, thrash_rate, counts.latency
    )


def _samples(steps: int, usable: int) -> frozenset[int]:
    """Return the steps after which ``sampled`` judges the state: always the same ones, spread over the replay."""
    wanted = min(steps, max(8, min(200, SAMPLED_BLOCKS // usable)))
    return frozenset(random.Random(0).sample(range(1, steps + 1), wanted))
