"""A tier that several workers share, in virtual time (G8): everybody sees what had landed by its own time, and no more.

Each worker has a clock of its own, since each computes at its own pace. The tier has one clock, behind all of theirs,
and one queue of completions, ordered by time. A worker may act on the tier only when the tier's time is its own: what
has landed by then is there, what lands later is not, whoever stored it. So the worker that is furthest behind acts
first, and the tier's time never passes it: what it may yet store cannot come too late for anybody.
"""

from dataclasses import dataclass
from typing import Generic

from ..errors import RefusedError
from .links import Completion, LinkModel, LinksSnapshot, N, check_time


@dataclass(frozen=True, slots=True)
class SharedLanded(Generic[N]):
    """A block that can be found in the tier from now on."""

    completion: Completion[N]
    """What the link says of its copy."""
    worker: int
    """Who stored it."""
    key: bytes
    """What it is called."""


@dataclass(frozen=True, slots=True)
class SharedSnapshot(Generic[N]):
    """The whole observable state: two tiers with equal snapshots behave alike from then on."""

    clocks: tuple[N, ...]
    """The time of each worker."""
    landed: tuple[bytes, ...]
    """What can be found, in the order in which it landed."""
    stores: dict[int, tuple[int, bytes]]
    """The copies in flight, by transfer: (worker, key)."""
    links: LinksSnapshot[N]
    """The link, and the tier's time."""


class SharedTier(Generic[N]):
    """Blocks by key, stored over one link by workers with clocks of their own. What has landed stays.

    Each public method that changes something is one step; ``catch_up`` is several. An illegal call raises
    ``RefusedError`` and changes nothing.
    """

    __slots__ = ("_block_bytes", "_clocks", "_known", "_landed", "_link", "_links", "_stores")

    def __init__(self, links: LinkModel[N], workers: int, *, link: int = 0, block_bytes: N) -> None:
        """Make an empty tier, with all clocks at the links' time.

        Args:
            links: what the copies move on; nobody else may start a transfer there or move its time.
            workers: how many share the tier; they are numbered from 0.
            link: the link to the tier.
            block_bytes: the size of a block.
        """
        if workers < 1 or not block_bytes >= 0:
            raise RefusedError(
                f"{workers} workers with blocks of {block_bytes} bytes: give one worker or more, and bytes"
            )
        links.active(link)  # Refuses a link that there is not.
        self._links: LinkModel[N] = links
        self._link = link
        self._block_bytes: N = block_bytes
        self._clocks: list[N] = [links.now] * workers
        self._landed: dict[bytes, None] = {}
        self._stores: dict[int, tuple[int, bytes]] = {}
        # What has landed or will: nothing ever leaves.
        self._known: set[bytes] = set()

    # The workers.

    def clock(self, worker: int) -> N:
        """Return a worker's time."""
        self._check_worker(worker)
        return self._clocks[worker]

    def work(self, worker: int, until: N) -> None:
        """Let a worker be busy with its own until then; nothing happens if that is past for it (G3)."""
        self._check_worker(worker)
        check_time(until)
        if until > self._clocks[worker]:
            self._clocks[worker] = until

    def next_worker(self) -> int:
        """Return who has to act first: the worker that is furthest behind, of several the first."""
        return min(range(len(self._clocks)), key=lambda worker: self._clocks[worker])

    # The tier, at a worker's own time.

    def store(self, worker: int, key: bytes) -> int | None:
        """Start to copy a worker's block to the tier; return the transfer's id.

        ``None`` if the block is there or on its way, whoever stored it. The worker must have caught up.
        """
        self._check_caught_up(worker)
        if key in self._known:
            return None
        transfer = self._links.start(self._link, self._block_bytes)
        self._stores[transfer] = (worker, key)
        self._known.add(key)
        return transfer

    def look(self, worker: int, key: bytes) -> bool:
        """Tell whether a block had landed by the worker's time. Nothing changes. The worker must have caught up."""
        self._check_caught_up(worker)
        return key in self._landed

    # Time.

    @property
    def now(self) -> N:
        """The tier's time: that of the worker that acted last, or earlier than every worker's."""
        return self._links.now

    def deadline(self) -> N | None:
        """Return when the next block will land as things stand; ``None`` if none is on its way."""
        return self._links.deadline()

    def due(self) -> int | None:
        """Return the transfer that ``complete`` would complete, or ``None``."""
        return self._links.due()

    def move(self, to: N) -> None:
        """Let the tier's time pass till ``to``; nothing happens if that is past.

        Refused if a block would land before, and beyond any worker's clock: that one may yet store something.
        """
        first = self.next_worker()
        if to > self._links.now and not to <= self._clocks[first]:
            raise RefusedError(f"the tier cannot be at {to}: worker {first} is at {self._clocks[first]}, it acts first")
        self._links.move(to)

    def complete(self) -> SharedLanded[N]:
        """Let the first block that is due land. Refused if none is."""
        completion = self._links.complete()
        worker, key = self._stores.pop(completion.id)
        self._landed[key] = None
        return SharedLanded(completion, worker, key)

    def catch_up(self, worker: int) -> list[SharedLanded[N]]:
        """Bring the tier's time to the worker's own; return what landed on the way, in order. Composed.

        Refused while another worker is behind that time: it has to act, or go on working, first.
        """
        self._check_worker(worker)
        first, to = self.next_worker(), self._clocks[worker]
        if self._clocks[first] < to:
            raise RefusedError(
                f"worker {worker} is at {to}, and worker {first} only at {self._clocks[first]}: let {first} act first"
            )
        landed: list[SharedLanded[N]] = []
        while (deadline := self.deadline()) is not None and deadline <= to:
            self.move(deadline)
            landed.append(self.complete())
        self.move(to)
        return landed

    def snapshot(self) -> SharedSnapshot[N]:
        """Collect the whole observable state. Linear: for checkers, not for serving."""
        return SharedSnapshot(
            clocks=tuple(self._clocks),
            landed=tuple(self._landed),
            stores=dict(self._stores),
            links=self._links.snapshot(),
        )

    def _check_worker(self, worker: int) -> None:
        """Refuse a number that no worker has."""
        if not 0 <= worker < len(self._clocks):
            raise RefusedError(f"{worker} is not one of the {len(self._clocks)} workers")

    def _check_caught_up(self, worker: int) -> None:
        """Refuse a worker at another time than the tier, or to which something that is due is still hidden."""
        self._check_worker(worker)
        if self._clocks[worker] != self._links.now or self._links.due() is not None:
            raise RefusedError(
                f"worker {worker} is at {self._clocks[worker]}, the tier at {self._links.now} with what was due by "
                "then: let the worker catch up first"
            )
