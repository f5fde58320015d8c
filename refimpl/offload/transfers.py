"""What scheduler and workers say to each other about copies between the tiers: they talk by nothing else.

The scheduler decides what is copied and numbers it; ids are unique and increasing over both kinds. Every message goes
to every worker, each copies its own part of every block it names, and reports that once.
"""

from dataclasses import dataclass
from typing import Protocol

Pairs = tuple[tuple[int, int], ...]
"""Block copies: (source block, destination block)."""


@dataclass(frozen=True, slots=True)
class Store:
    """Copy device blocks to host blocks."""

    id: int
    """Names the transfer."""
    pairs: Pairs
    """(device block, host block), in the order in which they were planned."""


@dataclass(frozen=True, slots=True)
class Load:
    """Copy host blocks to device blocks."""

    id: int
    """Names the transfer."""
    pairs: Pairs
    """(host block, device block), in the order of the positions that wait for them."""


Message = Store | Load
"""What the scheduler sends."""


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """A worker is done with its part of a transfer: it will neither read nor write for it any more (O7)."""

    worker: int
    """Its number, from 0."""
    id: int
    """The transfer."""
    ok: bool = True
    """Whether all of its part was copied."""


class Worker(Protocol):
    """The side that copies, as an engine sees it."""

    def submit(self, messages: list[Message]) -> None:
        """Begin these transfers. Returns at once; what was written to a tier before this call is what a copy reads."""

    def poll(self) -> list[WorkerReport]:
        """Return what was completed or failed since the last call. Returns at once."""

    def close(self) -> None:
        """End all activity; nothing may be submitted after it."""
