"""What the commands that replay real requests write: workload, and verify, which may."""

from typing import Literal

from msgspec import UNSET, UnsetType

from ...workload.replay import Result
from ...workload.tiers import TierResult
from ..gaps import Gap
from . import Report
from .machines import Explore, Prove
from .runs import Fuzz

__all__ = ["Verify", "Workload", "WorkloadTiers"]


class Workload(Report, frozen=True, kw_only=True, tag="workload"):
    """What ``kvproof workload`` writes. Its figures are those of the largest capacities; each replay has its own."""

    file: str
    """The trace of requests."""
    target: str
    """What they were replayed on."""
    requests: int
    """How many there are."""
    prompt_tokens: int
    """Of all requests."""
    blocks: int
    """Different blocks that they have."""
    mode: Literal["serial", "overlap"]
    """One by one, or by their timestamps."""
    check: Literal["every", "sampled", "end"]
    """How often the whole state was judged."""
    hit_rate: float
    """Hit tokens / prompt tokens."""
    operations_per_second: float
    """Blocks touched, handed out, registered and freed per second of the target's own time."""
    seconds: float
    """What all replays took."""
    violations: int
    """How many of them broke a rule."""
    runs: list[Result]
    """Each replay."""
    gaps: list[Gap]
    """What was not judged."""


class WorkloadTiers(Report, frozen=True, kw_only=True, tag="workload"):
    """What ``kvproof workload --tiers`` writes."""

    file: str
    """The trace of requests."""
    target: str
    """What they were replayed on."""
    requests: int
    """How many there are."""
    prompt_tokens: int
    """Of all requests."""
    blocks: int
    """Different blocks that they have."""
    mode: Literal["tiers"]
    """Through tiers in virtual time."""
    check: Literal["every", "sampled", "end"]
    """How often the whole state was judged."""
    seconds: float
    """What all replays took."""
    violations: int
    """How many of them broke a rule."""
    runs: list[TierResult]
    """Each replay."""
    gaps: list[Gap]
    """What was not judged."""


class Verify(Report, frozen=True, kw_only=True, tag="verify"):
    """What ``kvproof verify`` writes: each part as its own command does."""

    prove: Prove
    """All machines."""
    explore: list[Explore]
    """The small scopes."""
    fuzz: list[Fuzz]
    """The levels of the reference implementation."""
    workload: Workload | UnsetType = UNSET
    """The real requests, where ``--trace`` names some."""
    gaps: list[Gap]
    """What was not judged in any part."""
