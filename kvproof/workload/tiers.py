"""Replaying a workload through a device, a host tier and a shared tier in virtual time, judged throughout (G).

Requests come at their timestamps, and are dealt to the workers in turn. All of them are known by the keys that real
hashing gives their tokens. No bytes are moved: the links tell how long that takes.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from time import perf_counter

import msgspec

from ..refimpl.pool.keys import chain_keys
from ..refimpl.timed.clocks import VirtualClock
from ..refimpl.timed.links import LinkModel
from ..refimpl.timed.replay import RequestRecord, StallError, TierReplay, TimedRequest, run
from ..refimpl.timed.shared_access import SharedAccess
from ..refimpl.timed.shared_tier import SharedTier
from ..untrusted.numbers import Rate
from .replay import SAMPLED_BLOCKS, BrokenRule, Check
from .requests import BLOCK_TOKENS, Request, Workload
from .timed_story import Link, Story, judge_link, judge_requests, judge_shared, links_of
from .timed_watch import WatchedTiers
from .violation import Violation


class TierSetting(msgspec.Struct, frozen=True, kw_only=True):
    """What a workload is replayed through."""

    capacity: int
    """Slots on the device of each worker."""
    host_blocks: int
    """Blocks on the host of each worker; 0 is no host tier."""
    block_bytes: float
    """What a block takes."""
    batch: int = 16
    """The most blocks in one offload (G4)."""
    down: Rate = "unlimited"
    """From device to host."""
    up: Rate = "unlimited"
    """From host to device."""
    shared: Rate | None = None
    """To the shared tier, for all workers together, and from it, for each; ``None`` is no such tier."""
    workers: int = 1
    """How many there are."""
    concurrency: int = 1
    """The most requests that a worker serves at a time."""
    block_seconds: float = 0.0
    """What computing a block takes."""

    def at(self, capacity: int, host_blocks: int) -> "TierSetting":
        """Return this with other capacities."""
        return msgspec.structs.replace(self, capacity=capacity, host_blocks=host_blocks)


class Waiting(msgspec.Struct, frozen=True):
    """How long requests waited, in seconds. A percentile is the least time that as many waited no longer than."""

    requests: int
    """Those that waited at all."""
    mean: float
    """Of those; 0 if there are none, like the next two."""
    p50: float
    """Of those, the median."""
    p99: float
    """Of those."""
    max: float
    """The longest."""
    mean_of_all: float
    """Of all requests that were served, those that did not wait included."""
    p50_of_all: float
    """The median of these."""
    p99_of_all: float
    """Of these."""


class PerTier(msgspec.Struct, frozen=True):
    """A figure for each tier."""

    device: float
    """Of the device."""
    host: float
    """Of the host."""
    shared: float
    """Of the shared tier."""


class Moved(msgspec.Struct, frozen=True):
    """What all links of a kind have moved."""

    transfers: int
    """How many there were."""
    bytes: float
    """What they moved together."""


class TierResult(msgspec.Struct, frozen=True):
    """What a replay showed."""

    setting: TierSetting
    """What it went through."""
    requests: int
    """Requests replayed, those that were turned away included."""
    turned_away: int
    """Requests with more blocks than the device has slots; their prompts count as missed."""
    prompt_tokens: int
    """Of all these requests."""
    hit_rate: float
    """Hit tokens / prompt tokens, all tiers together."""
    hit_rates: PerTier
    """The same by the tier that the blocks came from."""
    waited: Waiting
    """For blocks from other tiers."""
    queued: Waiting
    """For their turn and for slots: those of blocks that are copied to the host are not free before (G1)."""
    moved: dict[str, Moved]
    """By kind of link: down, up, stored (to the shared tier) and fetched (from it)."""
    seconds: float
    """What the replay took, checks included; not virtual."""
    checks: int
    """Whole states judged; every step and answer is judged besides."""
    violation: BrokenRule | None = None
    """What ended the replay early, if anything did."""


def replay_tiers(
    workload: Workload,
    setting: TierSetting,
    *,
    check: Check = "sampled",
    on_progress: Callable[[int, int], None] | None = None,
) -> TierResult:
    """Replay a workload on fresh tiers and return what that showed; the first violation ends it.

    ``on_progress`` is called with (requests served, requests in all).
    """
    return _Replay(workload, setting, check, on_progress).run()


def summarize(times: Sequence[float]) -> Waiting:
    """Return the figures of how long each request waited."""
    every = sorted(times)
    waited = every[bisect_right(every, 0.0) :]
    return Waiting(
        requests=len(waited),
        mean=_mean(waited),
        p50=_percentile(waited, 50),
        p99=_percentile(waited, 99),
        max=max(waited, default=0.0),
        mean_of_all=_mean(every),
        p50_of_all=_percentile(every, 50),
        p99_of_all=_percentile(every, 99),
    )


class _JudgingClock(VirtualClock):
    """A virtual clock; whoever waits on it is at rest, which is when the whole state can be judged."""

    def __init__(self, judge: Callable[[], None]) -> None:
        """Begin at 0."""
        super().__init__()
        self._judge = judge

    def wait_until(self, until: float) -> float:
        """Judge, then be there."""
        self._judge()
        return super().wait_until(until)


class _Replay:
    """One replay of a workload."""

    def __init__(
        self,
        workload: Workload,
        setting: TierSetting,
        check: Check,
        on_progress: Callable[[int, int], None] | None,
    ) -> None:
        """Make the tiers, and deal the requests that fit."""
        self._workload = workload
        self._setting = setting
        self._on_progress = on_progress
        fitting = [request for request in workload.requests if len(request.blocks) <= setting.capacity]
        self._turned_away = len(workload.requests) - len(fitting)
        # From the first one on: the fewer digits a time has before the point, the more are left behind it.
        self._first = workload.requests[0].timestamp
        timed = [_timed(request, self._first, setting.block_seconds) for request in fitting]
        self._dealt = [timed[worker :: setting.workers] for worker in range(setting.workers)]
        self._tiers = [_make_tiers(setting) for _ in range(setting.workers)]
        accesses = _make_shared(setting)
        self._workers = [
            TierReplay(tiers, requests, concurrency=setting.concurrency, shared=access)
            for tiers, requests, access in zip(self._tiers, self._dealt, accesses, strict=True)
        ]
        self._every = _requests_between_checks(setting, len(fitting), check)
        self._next_check = self._every
        self._checks = 0
        self._clock = _JudgingClock(self._at_rest)

    def run(self) -> TierResult:
        """Let the workers serve everything, and judge that."""
        began = perf_counter()
        finding: BrokenRule | None = None
        try:
            run(self._workers, self._clock)
            self._judge_states()
            self._judge_stories()
        except Violation as violation:
            finding = self._found(violation.rule, violation.message)
        except StallError as stall:
            finding = self._found("L1", str(stall).partition("; ")[0])
        except Exception as error:  # A target that fails on a legal sequence is a finding, whatever it raises.
            finding = self._found("error", f"the target raised {type(error).__name__}: {error}")
        return self._result(finding, perf_counter() - began)

    def _at_rest(self) -> None:
        """Judge the whole state now and then, between two passes."""
        done = sum(len(worker.records) for worker in self._workers)
        if self._on_progress is not None:
            self._on_progress(done, len(self._workload.requests) - self._turned_away)
        if done >= self._next_check:
            self._next_check = done + self._every
            self._judge_states()

    def _judge_states(self) -> None:
        """Judge the state of every worker."""
        self._checks += 1
        for tiers in self._tiers:
            tiers.judge()

    def _judge_stories(self) -> None:
        """Judge all that was told, once everything has landed."""
        stories = self._stories()
        for story in stories:
            judge_requests(story)
        for link in self._links(stories):
            judge_link(link)
        judge_shared(stories)

    def _stories(self) -> list[Story]:
        """Return what the workers tell."""
        return [
            Story(requests, worker.records, worker.log)
            for requests, worker in zip(self._dealt, self._workers, strict=True)
        ]

    def _links(self, stories: Sequence[Story]) -> list[Link]:
        """Return the links, and what they have completed."""
        setting = self._setting
        return links_of(
            stories, down=_bandwidth(setting.down), up=_bandwidth(setting.up), shared=_bandwidth(setting.shared)
        )

    def _found(self, rule: str, message: str) -> BrokenRule:
        """Return a finding, with the last request that had come by then."""
        arrivals = [(request.timestamp - self._first) / 1000 for request in self._workload.requests]
        return BrokenRule(rule, message, max(0, bisect_right(arrivals, self._clock.now()) - 1))

    def _result(self, finding: BrokenRule | None, seconds: float) -> TierResult:
        """Return what the replay showed."""
        records = [record for worker in self._workers for record in worker.records]
        tokens = self._workload.prompt_tokens
        by_tier = _hit_blocks(records)
        moved: dict[str, Moved] = {}
        for link in self._links(self._stories()):
            before = moved.get(link.name, Moved(0, 0.0))
            size = math.fsum(completion.size for completion in link.completions)
            moved[link.name] = Moved(before.transfers + len(link.completions), before.bytes + size)
        return TierResult(
            setting=self._setting,
            requests=len(self._workload.requests) if finding is None else finding.request + 1,
            turned_away=self._turned_away,
            prompt_tokens=tokens,
            hit_rate=sum(by_tier) * BLOCK_TOKENS / tokens,
            hit_rates=PerTier(*(blocks * BLOCK_TOKENS / tokens for blocks in by_tier)),
            waited=summarize([record.waited for record in records]),
            queued=summarize([record.queued for record in records]),
            moved=moved,
            seconds=seconds,
            checks=self._checks,
            violation=finding,
        )


def _timed(request: Request, first: int, block_seconds: float) -> TimedRequest:
    """Return a request as the tiers know it; ``first`` is the timestamp that is time 0."""
    return TimedRequest(
        name=request.index,
        arrival=(request.timestamp - first) / 1000,
        keys=tuple(chain_keys(request.tokens(), BLOCK_TOKENS)),
        blocks=len(request.blocks),
        lookup_limit=request.lookup_limit,
        seconds_per_block=block_seconds,
    )


def _make_tiers(setting: TierSetting) -> WatchedTiers:
    """Return the device and the host of a worker."""
    return WatchedTiers(
        LinkModel([_bandwidth(setting.down), _bandwidth(setting.up)], now=0.0),
        slots=setting.capacity,
        host_blocks=setting.host_blocks,
        batch=setting.batch,
        block_bytes=setting.block_bytes,
    )


def _make_shared(setting: TierSetting) -> Sequence[SharedAccess | None]:
    """Return each worker's way to a new shared tier; ``None`` for each without one."""
    if setting.shared is None:
        return [None] * setting.workers
    rate, size = _bandwidth(setting.shared), setting.block_bytes
    tier = SharedTier(LinkModel([rate], now=0.0), setting.workers, block_bytes=size)
    return [
        SharedAccess(tier, worker, LinkModel([rate], now=0.0), block_bytes=size) for worker in range(setting.workers)
    ]


def _requests_between_checks(setting: TierSetting, requests: int, check: Check) -> int:
    """Return after how many requests the whole state is judged again; 0 is after every pass."""
    if check == "every":
        return 0
    if check == "end":
        return requests + 1
    size = setting.workers * (setting.capacity + setting.host_blocks)
    return -(-requests // max(8, min(200, SAMPLED_BLOCKS // size)))


def _bandwidth(rate: Rate | None) -> float | None:
    """Return a rate as links take it."""
    return None if rate is None or rate == "unlimited" else rate


def _hit_blocks(records: Sequence[RequestRecord]) -> tuple[int, int, int]:
    """Return the blocks that were reused from the device, the host and the shared tier."""
    return (
        sum(record.device_blocks for record in records),
        sum(record.host_blocks for record in records),
        sum(record.shared_blocks for record in records),
    )


def _mean(times: Sequence[float]) -> float:
    """Return the mean; 0 of nothing."""
    return math.fsum(times) / len(times) if times else 0.0


def _percentile(ordered: Sequence[float], percent: int) -> float:
    """Return the least of these that ``percent`` % of them do not exceed; 0 of nothing."""
    return ordered[-(-len(ordered) * percent // 100) - 1] if ordered else 0.0
