"""Judging what a replay through tiers in time has told, from its records and logs alone (G2 to G5, G8)."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ..refimpl.pool.manager import RequestId
from ..refimpl.timed.links import Completion
from ..refimpl.timed.records import Landed
from ..refimpl.timed.replay import LogEntry, RequestRecord, TimedRequest
from ..refimpl.timed.shared_access import Fetched
from ..refimpl.timed.shared_tier import SharedLanded
from .violation import Violation


@dataclass(frozen=True, slots=True)
class Story:
    """What a worker was given, what it tells of it, and what its tiers logged."""

    requests: Sequence[TimedRequest]
    records: Sequence[RequestRecord]
    log: Sequence[LogEntry]


@dataclass(slots=True)
class Link:
    """A link, and what it has completed."""

    name: str
    bandwidth: float | None
    """Bytes per second; ``None`` takes no time."""
    completions: list[Completion[float]] = field(default_factory=list)


@dataclass(slots=True)
class _Moves:
    """What was brought for one request."""

    seconds: float = 0.0
    fetched: set[bytes] = field(default_factory=set)
    swapped: list[tuple[bytes, ...]] = field(default_factory=list)


def links_of(stories: Sequence[Story], *, down: float | None, up: float | None, shared: float | None) -> list[Link]:
    """Return every link that the workers of ``stories`` used: their own, and the one to the shared tier."""
    links: list[Link] = []
    stored = Link("stored", shared)
    for story in stories:
        offloads, swap_ins, fetches = Link("down", down), Link("up", up), Link("fetched", shared)
        for entry in story.log:
            if isinstance(entry, Landed):
                (offloads if entry.promoted is None else swap_ins).completions.append(entry.completion)
            elif isinstance(entry, Fetched):
                fetches.completions.append(entry.completion)
            else:
                stored.completions.append(entry.completion)
        links += offloads, swap_ins, fetches
    # Workers take notice in turn of what has landed in the shared tier.
    stored.completions.sort(key=lambda completion: (completion.done, completion.id))
    return [*links, stored]


def judge_link(link: Link) -> None:
    """Judge the transfers of a link: none too early, none late, time forward, every byte moved once (G2, G3).

    A link with something to do moves ``bandwidth`` bytes a second, however many share it. Times are floats: each may
    be off by what their last digit is worth.
    """
    done = link.completions
    if not done:
        return
    places = [(one.done, one.id) for one in done]
    if places != sorted(places) or len({one.id for one in done}) < len(done):
        raise Violation("G3", f"link {link.name} completed transfers out of order, or one of them twice")
    slack = 8 * math.ulp(done[-1].done) * (len(done) + 1)
    busy, reached = 0.0, -math.inf
    for one in sorted(done, key=lambda one: one.begun):
        least = one.size / link.bandwidth if link.bandwidth else 0.0
        took = one.done - one.begun
        if took < least - slack or (link.bandwidth is None and took > slack):
            raise Violation("G2", f"link {link.name} moved {one.size:,.0f} bytes in {took} s")
        busy += max(0.0, one.done - max(one.begun, reached))
        reached = max(reached, one.done)
    if link.bandwidth:
        least = math.fsum(one.size for one in done) / link.bandwidth
        if abs(busy - least) > slack + 1e-9 * least:
            raise Violation("G2", f"link {link.name} was busy for {busy} s with what takes {least} s")


def judge_requests(story: Story) -> None:
    """Judge what each request reused and how long it waited, by the transfers that were made for it (G5).

    Every request is served once. What was swapped in for it is its prefix right behind what the device had, and it
    waited for just as long as its transfers took.
    """
    moves = _moves(story.log)
    requests = {request.name: request for request in story.requests}
    slack = 8 * math.ulp(max((record.finished for record in story.records), default=0.0))
    for record in story.records:
        request = requests.pop(record.name, None)
        if request is None:
            raise Violation("G5", f"request {record.name} was served twice, or never came")
        _judge_reuse(request, record, moves[record.name])
        if abs(record.waited - moves[record.name].seconds) > slack:
            raise Violation("G5", f"request {record.name} waited {record.waited} s for other transfers than its own")
        reused = record.device_blocks + record.host_blocks + record.shared_blocks
        computing = (request.blocks - reused) * request.seconds_per_block
        expected = request.arrival + record.queued + record.waited + computing
        if record.queued < -slack or abs(record.finished - expected) > slack:
            raise Violation("G5", f"request {record.name} was done at {record.finished} s, and not at {expected} s")
    if requests:
        raise Violation("L1", f"request {next(iter(requests))} was never served")


def judge_shared(stories: Sequence[Story]) -> None:
    """Judge the shared tier: each block is stored once, and fetched only after it had landed, by anybody (G8)."""
    landed: dict[bytes, float] = {}
    for entry in (entry for story in stories for entry in story.log if isinstance(entry, SharedLanded)):
        if entry.key in landed:
            raise Violation("G8", f"block {entry.key.hex()[:12]} was stored twice")
        landed[entry.key] = entry.completion.done
    for fetch in (entry for story in stories for entry in story.log if isinstance(entry, Fetched)):
        if any(landed.get(key, math.inf) > fetch.completion.begun for key in fetch.keys):
            raise Violation("G8", f"request {fetch.request} was given a block that had not landed by then")


def _judge_reuse(request: TimedRequest, record: RequestRecord, moves: _Moves) -> None:
    """Judge that a request reused what was brought for it, in its place."""
    brought = record.host_blocks + record.shared_blocks
    reused = record.device_blocks + brought
    if not 0 <= reused <= request.lookup_limit:
        raise Violation("P14", f"request {request.name} reused {reused} blocks, at most {request.lookup_limit} it may")
    if len(moves.swapped) > 1:
        raise Violation("G5", f"request {request.name} was promoted {len(moves.swapped)} times")
    swapped = moves.swapped[0] if moves.swapped else ()
    if swapped != request.keys[record.device_blocks : reused]:
        raise Violation("G5", f"request {request.name} reused other blocks than were swapped in for it")
    if record.shared_blocks != len(moves.fetched.intersection(swapped)):
        raise Violation("G8", f"request {request.name} counts {record.shared_blocks} blocks of the shared tier")


def _moves(log: Iterable[LogEntry]) -> "defaultdict[RequestId, _Moves]":
    """Return what was brought for each request."""
    moves: defaultdict[RequestId, _Moves] = defaultdict(_Moves)
    for entry in log:
        if isinstance(entry, Fetched):
            of = moves[entry.request]
            of.fetched.update(entry.keys)
        elif isinstance(entry, Landed) and entry.promoted is not None:
            of = moves[entry.promoted]
            of.swapped.append(tuple(key for _, key in entry.cargo))
        else:
            continue
        of.seconds += entry.completion.done - entry.completion.begun
    return moves
