"""Differential: Dynamo's mocker and the reference implementation serve the same traces (docs/dynamo.md).

The mocker reports what became of each request; `Mirror` puts its scheduler around the reference implementation. Both
must have, of every request and exactly: when it was taken in, each time, and how many tokens it then had to compute
less; how many of those came from the host; when its first and its last token were there. And at the end, how many
device blocks are held, and how many can be hit. Where both serve a trace alike, and where they do not, the report must
keep to the laws that need no knowledge of policies (`broken_laws`).

Three families of mockers: without a host tier, with a private one (transfers of a direction one after the other), and
with a shared one (they share the link, G2; ours is `LinkModel`). Requests come far apart, so that each is served alone,
or close together.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import takewhile
from math import isclose

import msgspec
from hypothesis import strategies as st

from ...engines.dynamo.replay import (
    HostTierConfig,
    MockerConfig,
    MockerError,
    Replay,
    ReplayedRequest,
    TraceRequest,
    replay,
)
from ...engines.session import Session
from ...judge.record import Answer, Case, Step
from ...judge.violation import Violation
from ...refimpl.pool.blocks import blocks_for
from ..outcome import Disagreement, Outcome
from .mirror import Mirror
from .state import Outcome as Served
from .state import PartedError, StallError

__all__ = [
    "FAMILIES",
    "LEVEL",
    "Trace",
    "broken_laws",
    "cases",
    "compare",
    "content_hits",
    "of_case",
    "profiles",
    "to_case",
]

Trace = tuple[TraceRequest, ...]

LEVEL = "replay"

FAMILIES = ("device", "private", "shared")
"""The mockers that are compared, by their host tier."""

_REPORT = "report"

_CLOSE = 1e-6
"""Milliseconds by which times may differ that were rounded differently."""

_STALL = "effect-free zero-duration pass"
"""What the mocker says when requests wait and nothing will ever happen."""

# Speeds with which transfers that share a link rarely end when a pass does: then rounding would decide.
_SPEEDS = {"private": (0.0, 250.0, 500.0, 1000.0, 2000.0), "shared": (251.0, 997.0, 1993.0)}


@st.composite
def cases(draw: st.DrawFn, family: str, *, apart: bool) -> tuple[MockerConfig, Trace]:
    """Cases of a family; ``apart``: every request is served before the next one comes."""
    longest = draw(st.integers(2, 6))
    host = None
    if family != "device":
        speeds = st.sampled_from(_SPEEDS[family])
        latency = draw(st.sampled_from([0.0, 0.5])) if family == "private" else 0.0
        host = HostTierConfig(
            draw(st.sampled_from([3, 6, 9, 16])), draw(speeds), draw(speeds), latency, family == "shared"
        )
    config = MockerConfig(
        blocks=longest + draw(st.sampled_from([2, 2, 3, 6])),  # Two are enough for what is generated.
        block_tokens=draw(st.sampled_from([2, 4])),
        bytes_per_token=draw(st.sampled_from([125, 250, 1000])),
        max_batched_tokens=draw(st.sampled_from([8192, 5, 9])),
        host=host,
    )
    gaps = st.just(1000.0) if apart else st.sampled_from([0.125, 0.5, 2.25, 7.0625, 20.03125])
    prompts: list[tuple[int, ...]] = [()]
    trace, arrival = [], 0.0
    for _ in range(draw(st.integers(1, 12))):
        base = draw(st.sampled_from(prompts))
        kept = base[: draw(st.sampled_from([0, 1, len(base), len(base)]))]
        blocks = (*kept, *draw(st.lists(st.integers(1, 9), min_size=1, max_size=longest)))[:longest]
        length = len(blocks) * config.block_tokens - draw(st.integers(0, config.block_tokens - 1))
        trace.append(TraceRequest(arrival, blocks, length, draw(st.sampled_from([1, 1, 1, 2, 5]))))
        prompts.append(blocks)
        arrival += draw(gaps)
    return config, tuple(trace)


def profiles(_release: str) -> dict[str, st.SearchStrategy[Case]]:
    """Families of cases, by name; close together, and each request by itself."""
    return {
        f"{family}{' apart' if apart else ''}": cases(family, apart=apart).map(lambda case: to_case(*case))
        for family in FAMILIES
        for apart in (False, True)
    }


def to_case(config: MockerConfig, trace: Trace) -> Case:
    """A configuration and a trace as a case: each request is an operation, so that some can be left out."""
    return Case(LEVEL, msgspec.to_builtins(config), [("request", msgspec.to_builtins(request)) for request in trace])


def of_case(case: Case) -> tuple[MockerConfig, Trace]:
    """The configuration and the trace of a case; the first of its requests arrives at 0.

    Raises:
        msgspec.ValidationError: it is none of this level.
    """
    requests = [msgspec.convert(args, TraceRequest) for _, args in case.ops]
    first = requests[0].arrival if requests else 0.0
    trace = tuple(replace(request, arrival=request.arrival - first) for request in requests)
    return msgspec.convert(case.setup, MockerConfig), trace


def compare(session: Session, case: Case) -> Outcome:
    """Let both serve a trace. A mocker that fails disagrees, but for a stall, which both may have."""
    config, trace = of_case(case)
    outcome = Outcome(case, Answer(0, steps=[Step(op, args) for op, args in case.ops]), len(trace))
    if not trace:
        return outcome
    mirror = Mirror(config)
    try:
        replayed = replay(session, config, trace)
    except MockerError as error:
        if _STALL in str(error):
            return _compare_stall(outcome, mirror, trace)
        outcome.disagreement = Disagreement(len(trace) - 1, "request", "outcome", f"an error: {error}", "not run")
        return outcome
    outcome.broken = list(broken_laws(config, trace, replayed))
    try:
        outcomes = mirror.run(trace, replayed.names)
    except PartedError as error:
        outcome.parted = str(error)
        return outcome
    except StallError as error:
        outcome.disagreement = Disagreement(len(trace) - 1, "request", "progress", "served all", f"a stall: {error}")
        return outcome
    outcome.disagreement = next(_differences(replayed, mirror, outcomes), None)
    if outcome.disagreement is None:
        outcome.compared = len(trace)
        outcome.counts["tokens reused"] = sum(request.reused_input_tokens for request in replayed.requests)
        outcome.counts["tokens from the host"] = sum(
            request.first_admission_host_reused_input_tokens or 0 for request in replayed.requests
        )
    return outcome


def _compare_stall(outcome: Outcome, mirror: Mirror, trace: Trace) -> Outcome:
    """See whether the reference implementation stalls too. The mocker has named no blocks: any names do."""
    names = [range(100 * number, 100 * number + len(request.blocks)) for number, request in enumerate(trace)]
    try:
        mirror.run(trace, names)
    except StallError:
        outcome.compared = len(trace)
        outcome.counts["stalls of both"] = 1
    except PartedError as error:
        outcome.parted = str(error)
    else:
        outcome.disagreement = Disagreement(len(trace) - 1, "request", "progress", "a stall", "served all")
    return outcome


def _differences(replayed: Replay, mirror: Mirror, outcomes: Sequence[Served]) -> Iterator[Disagreement]:
    """Yield what the two have differently."""
    for number, (mocker, own) in enumerate(zip(replayed.requests, outcomes, strict=True)):
        admissions = [(a.at_ms, a.reused_input_tokens) for a in mocker.admission_history]
        host = mocker.first_admission_host_reused_input_tokens or 0
        theirs = [*_flat(admissions), host, mocker.first_token_ms, mocker.terminal_time_ms]
        ours = [*_flat([(a.at, a.reused) for a in own.admissions]), own.admissions[0].host, own.first_token, own.end]
        if not _alike(theirs, ours):
            what = "(admitted, reused) ..., from host, first token, end"
            yield Disagreement(number, "request", what, theirs, ours)
    _, last = replayed.occupancy[-1]
    if (last.active_blocks, last.inactive_blocks) != mirror.device.occupancy():
        what = "blocks held and blocks to be hit at the end"
        yield Disagreement(len(outcomes) - 1, "request", what, last, mirror.device.occupancy())


def _flat(pairs: Sequence[tuple[float, int]]) -> list[float | None]:
    return [number for pair in pairs for number in pair]


def _alike(theirs: Sequence[float | None], ours: Sequence[float | None]) -> bool:
    def same(a: float | None, b: float | None) -> bool:
        return a == b if a is None or b is None else isclose(a, b, rel_tol=0, abs_tol=_CLOSE)

    return len(theirs) == len(ours) and all(map(same, theirs, ours))


def broken_laws(config: MockerConfig, trace: Trace, replayed: Replay) -> Iterator[Violation]:
    """Yield the laws that a report breaks, whatever the policies are."""
    known: list[tuple[int, ...]] = []
    for number, (request, told) in enumerate(zip(trace, replayed.requests, strict=True)):
        for rule, text in _broken_by(request, told):
            yield Violation(rule, _REPORT, f"{text} (request {number})")
        first = told.admission_history[0].reused_input_tokens if told.admission_history else 0
        reused = first // config.block_tokens
        if reused > max((_common(request.blocks, other) for other in known), default=0):
            text = f"{reused} blocks are reused, but no earlier request had as many in common (request {number})"
            yield Violation("P6", _REPORT, text)
        known.append(request.blocks)
    if config.host is not None:
        yield from _broken_by_links(config, config.host, replayed)
    for at, told_occupancy in replayed.occupancy:
        if told_occupancy.active_blocks + told_occupancy.inactive_blocks > told_occupancy.total_blocks:
            text = f"more blocks are held or can be hit than there are: {told_occupancy} at {at} ms"
            yield Violation("P1", _REPORT, text)


def _broken_by(request: TraceRequest, told: ReplayedRequest) -> Iterator[tuple[str, str]]:
    """What a request's own figures break."""
    if told.terminal_status != "completed" or told.output_length != request.output:
        yield "L1", f"it ends as {told.terminal_status} with {told.output_length} of {request.output} tokens"
        return
    reused = told.admission_history[0].reused_input_tokens
    if reused > request.length - 1:
        yield "P14", f"{reused} of {request.length} tokens are reused, the last one with them"
    device, host = told.first_admission_g1_reused_input_tokens, told.first_admission_host_reused_input_tokens
    if device is not None and device + (host or 0) != reused:
        yield "P15", f"{reused} tokens are reused, but {device} from the device and {host} from the host"
    times = [told.arrival_time_ms, told.first_admit_ms, told.first_token_ms, told.terminal_time_ms]
    if None in times or times != sorted(time for time in times if time is not None):
        yield "G3", f"arrival, admission, first token and end are not in order: {times}"


def _broken_by_links(config: MockerConfig, host: HostTierConfig, replayed: Replay) -> Iterator[Violation]:
    """What a link did that it cannot (G2): a load done earlier than bytes / bandwidth, or more than it moves in all."""
    if not host.up:
        return
    loaded = 0.0
    admitted = [(request.first_admit_ms or 0.0, request) for request in replayed.requests]
    for at, request in sorted(admitted, key=lambda pair: pair[0]):
        tokens = request.first_admission_host_reused_input_tokens or 0
        size = tokens // config.block_tokens * config.block_bytes
        loaded += size
        if at + _CLOSE < request.arrival_time_ms + size / host.up:
            text = f"{size} bytes are loaded from {request.arrival_time_ms} to {at} ms, at {host.up} bytes/ms"
            yield Violation("G2", _REPORT, text)
        if at + _CLOSE < loaded / host.up:
            yield Violation("G2", _REPORT, f"{loaded} bytes are loaded by {at} ms, at {host.up} bytes/ms")


def _common(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    """Return how many leading blocks two prompts have in common."""
    return len(list(takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False))))


def content_hits(trace: Trace, block_tokens: int) -> list[int]:
    """Return how many tokens each request could reuse with unlimited capacity, if all before it were served (P14)."""
    hits = []
    known: set[tuple[int, ...]] = set()
    for request in trace:
        full = [request.blocks[: n + 1] for n in range(request.length // block_tokens)]
        found = len(list(takewhile(known.__contains__, full)))
        hits.append(min(found, blocks_for(request.length, block_tokens) - 1) * block_tokens)
        known.update(full)
    return hits
