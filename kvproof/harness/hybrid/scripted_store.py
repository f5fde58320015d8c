"""A store that answers what it is told to, for whoever checks how several stores are put behind one connector."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from fractions import Fraction

from ...refimpl.hybrid.connector import BlockRef, Chain, Completion
from ...refimpl.pool.manager import RequestId

__all__ = ["ScriptedStore"]


@dataclass
class ScriptedStore:
    """A store that finds what it is told to, and keeps strict books of what is held and read in it.

    It refuses what a store must never be asked: to load what it does not hold, to release a load twice or other keys
    than it was given.
    """

    name: str
    weight: Fraction
    wanted: Sequence[tuple[bytes, ...]]
    """What a load for each request reads."""
    supports_hybrid: bool = True
    found: dict[int, int] = field(default_factory=dict)
    """By request, how many tokens it has for it, where it has resolved."""
    held: set[int] = field(default_factory=set)
    """The requests for which it holds what it found."""
    reads: dict[int, tuple[bytes, ...]] = field(default_factory=dict)
    """By load, what it reads."""
    kept: set[bytes] = field(default_factory=set)
    """What it was offered."""
    ended: list[Completion] = field(default_factory=list)
    """What it reports at the next poll."""
    heard: int = 0
    """How many preemptions it was told of."""

    def resolve(self, request: int, tokens: int) -> None:
        """Find out what it has for a request, and hold it."""
        self.found[request] = tokens
        self._hold(request)

    def matched(self, request: RequestId, chain: Chain, computed: int) -> int | None:  # noqa: ARG002
        """Answer, if it has resolved."""
        assert isinstance(request, int)
        self._hold(request)
        return self.found.get(request)

    def _hold(self, request: int) -> None:
        self.held.discard(request)
        if self.found.get(request):
            self.held.add(request)

    def drop(self, request: RequestId) -> None:
        """Let go what is held for it."""
        assert isinstance(request, int)
        self.held.discard(request)

    def begin_load(self, job: int, request: RequestId, blocks: Sequence[BlockRef]) -> None:
        """Read what it holds."""
        assert isinstance(request, int)
        keys = tuple(ref.key for ref in blocks)
        assert request in self.held, "it is asked to load what it does not hold"
        assert keys == self.wanted[request], "it is asked to load something else"
        self.held.remove(request)
        self.reads[job] = keys

    def release(self, job: int, keys: Sequence[bytes]) -> None:
        """End a load."""
        assert self.reads.pop(job, None) == tuple(keys), "it is asked to release what it did not prepare"

    def store(self, request: RequestId, blocks: Sequence[BlockRef]) -> int:  # noqa: ARG002
        """Take all."""
        self.kept |= {ref.key for ref in blocks}
        return len(blocks)

    def preempted(self, requests: AbstractSet[RequestId]) -> None:
        """Count them."""
        self.heard += len(requests)

    def poll(self) -> list[Completion]:
        """Report what has ended."""
        ended, self.ended = self.ended, []
        return ended
