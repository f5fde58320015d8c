"""One worker's way to a tier that it shares with others: what it gives to it, and what it fetches from it (G8)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from ..pool.manager import RequestId
from .links import Completion, LinkModel
from .shared_tier import SharedLanded, SharedTier


@dataclass(frozen=True, slots=True)
class Fetched:
    """Blocks that came from the shared tier."""

    completion: Completion[float]
    """What the link says of it."""
    request: RequestId
    """For whom."""
    keys: tuple[bytes, ...]
    """The blocks."""


class SharedAccess:
    """Stores blocks in a shared tier, and fetches them over a link of its own: what comes does not slow what goes.

    All that it does it does at the worker's own time, so ``work`` comes first, for all workers.
    """

    __slots__ = ("_block_bytes", "_fetches", "_landed", "_link", "_requests", "_tier", "_worker")

    def __init__(
        self,
        tier: SharedTier[float],
        worker: int,
        fetches: LinkModel[float],
        *,
        block_bytes: float,
        link: int = 0,
    ) -> None:
        """Be ``worker`` to ``tier``, and fetch blocks of ``block_bytes`` on ``link`` of ``fetches``, this worker's."""
        tier.clock(worker)  # Refuses a worker that there is not,
        fetches.active(link)  # and a link.
        self._tier = tier
        self._worker = worker
        self._fetches = fetches
        self._block_bytes = block_bytes
        self._link = link
        self._requests: dict[int, tuple[RequestId, tuple[bytes, ...]]] = {}
        self._landed: list[SharedLanded[float]] = []

    def work(self, now: float) -> None:
        """Tell the tier that the worker has come to ``now``."""
        self._tier.work(self._worker, now)

    def deadline(self) -> float | None:
        """Return when the next block will come or go as things stand; ``None`` if none is on its way."""
        deadlines = (self._tier.deadline(), self._fetches.deadline())
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def arrivals(self, now: float) -> list[Fetched]:
        """Return what has been fetched by ``now``, in order."""
        completions = self._fetches.advance(now)
        return [Fetched(completion, *self._requests.pop(completion.id)) for completion in completions]

    def leading(self, keys: Iterable[bytes]) -> tuple[bytes, ...]:
        """Return the keys before the first that the tier does not have now."""
        self._catch_up()
        return tuple(takewhile(lambda key: self._tier.look(self._worker, key), keys))

    def fetch(self, request: RequestId, keys: Sequence[bytes]) -> None:
        """Begin to fetch these blocks, as one transfer."""
        transfer = self._fetches.start(self._link, len(keys) * self._block_bytes)
        self._requests[transfer] = (request, tuple(keys))

    def store(self, key: bytes) -> None:
        """Begin to store a block, unless the tier has it or gets it."""
        self._catch_up()
        self._tier.store(self._worker, key)

    def landed(self) -> list[SharedLanded[float]]:
        """Return what has landed in the tier, and was not returned yet to this worker or another."""
        self._catch_up()
        landed, self._landed = self._landed, []
        return landed

    def _catch_up(self) -> None:
        """Bring the tier to the worker's time."""
        self._landed += self._tier.catch_up(self._worker)
