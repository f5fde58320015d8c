"""What is to be known about a ``MultiConnector``: what it counts, what it answers, what it shows to observers."""

from dataclasses import dataclass
from typing import Literal

from ..pool.manager import RequestId

Phase = Literal["open", "promised", "loading", "over"]
"""Where a request stands: it may look up; a connector was chosen; that one loads; no (further) load."""

Outcome = Literal["loaded", "failed", "expired"]
"""How a load ended: the content is there, the connector gave up, or it took too long."""


@dataclass(frozen=True, slots=True)
class LoadEnd:
    """What became of a load, and where its request stands after it."""

    job: int
    """The load."""
    request: RequestId
    """Who waited for it."""
    outcome: Outcome
    """How it ended."""
    computed: int
    """The leading tokens that the device had before it, as the last lookup was told."""
    external: int
    """The tokens behind these that were loaded: 0 unless it succeeded. Together they are what is really there (O11)."""


@dataclass(slots=True)
class Counters:
    """What a child was asked and did. All but ``pending_loads`` only grow."""

    queries: int = 0
    """Lookups that it answered, one per request and stay: the first that resolved (P15). They are hits, misses, and
    answers that another child outbid."""
    hits: int = 0
    """Of these, those that it won."""
    hit_tokens: int = 0
    """The tokens that it won them with."""
    misses: int = 0
    """Of these, those that it had nothing for."""
    pending_loads: int = 0
    """Loads that it is chosen for or that are in flight, now. The bound ``max_pending`` is on these."""
    deferrals: int = 0
    """How often it was not asked because of that bound."""
    failed: int = 0
    """Loads that it reported as failed."""
    expired: int = 0
    """Loads that were cancelled because they took too long."""


@dataclass(frozen=True, slots=True)
class RequestSnapshot:
    """What is known of a request."""

    phase: Phase
    """Where it stands."""
    computed: int
    """The leading tokens that the device had, as the last lookup was told."""
    external: int
    """The tokens behind these that are or were loaded; 0 again if that failed. Both together count as there."""
    promised: int
    """The tokens that the chosen child promised; 0 in any other phase."""
    child: int | None
    """The child that is chosen or loads, by its place."""
    counted: bool
    """Whether a lookup of this stay was counted."""


@dataclass(frozen=True, slots=True)
class LoadSnapshot:
    """A load in flight."""

    request: RequestId
    """Who waits for it."""
    child: int
    """Who loads, by its place."""
    keys: tuple[bytes, ...]
    """What was prepared, and is released when it ends: each once (H6)."""
    deadline: float
    """The moment from which on it is too late."""


@dataclass(frozen=True, slots=True)
class MultiSnapshot:
    """The whole observable state of a ``MultiConnector``, without its children's."""

    now: float
    """The latest moment that it was told."""
    next_job: int
    """The number of the next load."""
    requests: dict[RequestId, RequestSnapshot]
    """The requests that looked up in this stay."""
    loads: dict[int, LoadSnapshot]
    """The loads in flight by number, the oldest first."""
    counters: tuple[Counters, ...]
    """One per child."""
