"""What the mirror of Dynamo's mocker remembers of requests, and what it tells of them."""

from dataclasses import dataclass, field

from ...engines.dynamo.replay import TraceRequest

__all__ = ["Admitted", "Load", "Outcome", "PartedError", "Pass", "Request", "StallError"]


class PartedError(Exception):
    """From here on the mocker may do something else, by a fault that is known or by chance: the message says what."""


class StallError(Exception):
    """Requests wait, and nothing will ever happen (G1)."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """One time that a request was taken in."""

    at: float
    reused: int
    """Tokens that need not be computed."""
    host: int
    """Those of them that came from the host."""


@dataclass(slots=True)
class Outcome:
    """What became of a request."""

    admissions: list[Admitted] = field(default_factory=list)
    first_token: float | None = None
    end: float | None = None


@dataclass(slots=True)
class Load:
    """Blocks on their way from the host, or arrived and not yet used."""

    on_device: int
    """Blocks of the request that were on the device before."""
    blocks: int
    """Blocks that the request holds because of it, those on the device included."""
    footprint: int
    """Blocks that all tokens of the request take."""
    arrived: bool = False


@dataclass(slots=True)
class Request:
    """A request of the trace."""

    number: int
    trace: TraceRequest
    tokens: list[int]
    keys: list[bytes]
    """Of all full blocks of its tokens."""
    prompt_keys: list[bytes]
    outcome: Outcome = field(default_factory=Outcome)
    computed: int = 0
    next_store: int = 0
    """Blocks of the prompt that were offered to the host."""
    latest_store: int | None = None
    load: Load | None = None


class Pass:
    """What a pass has scheduled so far."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        """Tokens that may still be computed."""
        self.prefills: dict[int, bool] = {}
        """The requests scheduled: whether any of their prompts is computed."""
        self.changed = False
        """Whether a request was preempted or put off."""
        self.closed = False
        """Whether no further request is taken in."""
