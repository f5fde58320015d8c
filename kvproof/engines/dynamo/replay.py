"""Dynamo's mocker: a trace of requests goes in, what became of each comes out (docs/dynamo.md).

The mocker simulates vLLM's scheduler and block pool, and a host tier with links, in virtual time. It is compiled; the
worker calls it with a configuration and a trace, and what it reports is read here, typed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import msgspec

from ...judge.record import Case
from ..session import Session

__all__ = [
    "Admission",
    "HostTierConfig",
    "MockerConfig",
    "MockerError",
    "Occupancy",
    "Replay",
    "ReplayedRequest",
    "TraceRequest",
    "replay",
]

BYTES_PER_MS = 1e6
"""Bytes per millisecond of one GB/s, the mocker's unit."""


class MockerError(Exception):
    """The mocker did not come to the end of a trace. The message is the mocker's."""


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """A request of a trace."""

    arrival: float
    """Milliseconds since the first one of the trace. All are different: the report names requests by them."""
    blocks: tuple[int, ...]
    """The content of each block of the prompt, as a number: equal numbers behind equal prefixes are equal blocks."""
    length: int
    """Tokens of the prompt: the last block may be partly filled."""
    output: int = 1
    """Tokens to generate."""


@dataclass(frozen=True, slots=True)
class HostTierConfig:
    """The mocker's host tier and the two links to it, one per direction."""

    blocks: int
    down: float
    """Bytes per millisecond from device to host; 0: instantaneous."""
    up: float
    """Bytes per millisecond from host to device; 0: instantaneous."""
    latency: float = 0.0
    """Milliseconds before the first byte of a transfer."""
    shared: bool = False
    """Whether transfers share a link (``cluster_shared``) or wait for each other (``dp_rank_local``)."""


@dataclass(frozen=True, slots=True)
class MockerConfig:
    """A mocker: one worker with vLLM's policies, whose forward passes take a fixed time."""

    blocks: int
    block_tokens: int
    prefill_ms: float = 4.0
    """How long a forward pass with any prefill takes."""
    decode_ms: float = 1.0
    """How much longer one with any decode takes."""
    bytes_per_token: int = 250
    max_batched_tokens: int = 8192
    host: HostTierConfig | None = None

    @property
    def block_bytes(self) -> int:
        """Bytes of one block."""
        return self.block_tokens * self.bytes_per_token

    def engine(self) -> dict[str, object]:
        """Return it as the mocker wants it: the object ``engine``."""
        engine: dict[str, object] = {
            "num_gpu_blocks": self.blocks,
            "block_size": self.block_tokens,
            "max_num_batched_tokens": self.max_batched_tokens,
            "kv_cache_bytes_per_token": self.bytes_per_token,
            "timing_model": {"type": "fixed", "prefill_ms": self.prefill_ms, "decode_ms": self.decode_ms},
        }
        if self.host is not None:
            engine["native_host_offload"] = _offload(self.host)
        return engine


def _offload(host: HostTierConfig) -> dict[str, object]:
    offload: dict[str, object] = {
        "num_host_blocks": host.blocks,
        "d2h_bandwidth_gbps": host.down / BYTES_PER_MS,
        "h2d_bandwidth_gbps": host.up / BYTES_PER_MS,
        "latency_to_first_byte_ms": host.latency,
    }
    if host.shared:
        offload |= {
            "scope": "cluster_shared",
            "kv_layout_id": "one",
            "shared_d2h_bandwidth_gbps": host.down / BYTES_PER_MS,
            "shared_h2d_bandwidth_gbps": host.up / BYTES_PER_MS,
        }
    return offload


class Admission(msgspec.Struct, frozen=True):
    """One time that the scheduler took a request in."""

    at_ms: float
    reused_input_tokens: int
    g1_reused_input_tokens: int | None = None
    host_reused_input_tokens: int | None = None


class ReplayedRequest(msgspec.Struct, frozen=True):
    """What the mocker reports of a request. Times are milliseconds of virtual time."""

    arrival_time_ms: float
    first_admit_ms: float | None
    first_token_ms: float | None
    terminal_time_ms: float | None
    input_length: int
    output_length: int
    reused_input_tokens: int
    admission_history: tuple[Admission, ...]
    terminal_status: str
    first_admission_g1_reused_input_tokens: int | None = None
    first_admission_host_reused_input_tokens: int | None = None


class Occupancy(msgspec.Struct, frozen=True):
    """How full the device is: blocks that requests hold, and blocks that only can be hit."""

    active_blocks: int
    inactive_blocks: int
    total_blocks: int


class _Sample(msgspec.Struct, frozen=True):
    sampled_at_ms: float
    decode_scheduler_metrics: tuple[Occupancy, ...]


class _Summary(msgspec.Struct, frozen=True):
    completed_requests: int
    first_admission_prefix_cache_reused_ratio: float


class _MockerReport(msgspec.Struct, frozen=True):
    requests: tuple[ReplayedRequest, ...]
    summary: _Summary
    samples: tuple[_Sample, ...]
    names: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Replay:
    """What came of a trace."""

    requests: tuple[ReplayedRequest, ...]
    """In order of arrival."""
    occupancy: tuple[tuple[float, Occupancy], ...]
    """How full the device was, by time."""
    hit_rate: float
    """Reused tokens of all prompt tokens, at first admissions."""
    names: tuple[tuple[int, ...], ...]
    """The mocker's own name of each block of each prompt."""


def replay(
    session: Session, config: MockerConfig, trace: Sequence[TraceRequest], *, sample_ms: float = 1000.0
) -> Replay:
    """Let the mocker replay a trace.

    Raises:
        MockerError: it refuses the configuration or the trace, fails, or reports something else than it should.
        ValueError: the requests do not arrive one after the other from time 0 on.
    """
    arrivals = [request.arrival for request in trace]
    if not arrivals or arrivals[0] or any(a >= b for a, b in pairwise(arrivals)):
        raise ValueError("the first request of a trace arrives at 0, and each other one later than that before it")
    rows = [
        {"timestamp": r.arrival, "input_length": r.length, "output_length": r.output, "hash_ids": list(r.blocks)}
        for r in trace
    ]
    case = Case("replay", {"engine": config.engine()}, [("replay", {"rows": rows, "sample_ms": sample_ms})])
    run = session.run(case)
    if run.failure is not None:
        raise MockerError(run.failure.text)
    if run.answer.refused is not None:
        raise MockerError(run.answer.refused)
    step = run.answer.steps[-1]
    if step.error is not None:
        raise MockerError(step.error.message)
    try:
        report = msgspec.convert(step.result, _MockerReport)
    except msgspec.ValidationError as error:
        raise MockerError(f"its report is not as expected: {error}") from error
    requests = tuple(sorted(report.requests, key=lambda request: request.arrival_time_ms))
    if [request.arrival_time_ms for request in requests] != arrivals:
        raise MockerError("its report is not of the requests of the trace")
    samples = tuple((s.sampled_at_ms, m) for s in report.samples for m in s.decode_scheduler_metrics)
    return Replay(requests, samples, report.summary.first_admission_prefix_cache_reused_ratio, report.names)
