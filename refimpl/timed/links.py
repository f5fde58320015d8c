"""Links that transfers share, in virtual time (G2, G3): who is done when, for any number of transfers at once.

A link is a processor-sharing queue: with k active transfers each moves at bandwidth / k. All of them move at one speed,
so one number per link tells the progress of all: ``received``, the bytes that each active transfer has got since the
link was last idle. A transfer of ``size`` bytes that starts at ``received`` is done when ``received`` reaches its tag,
``received`` at the start + ``size``: the tags never change, a heap of them gives the next to be done, and an event
costs O(log active). Nothing is ever scanned but the links themselves, which are few.

Time and bytes are numbers of one kind: ``Fraction`` for exact answers, ``float`` for fast ones. With floats a transfer
is done when the clock cannot tell its deadline from now; so time always moves, and never backward.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from heapq import heappop, heappush
from typing import Generic, TypeVar

from ..errors import RefusedError

N = TypeVar("N", Fraction, float)
"""The numbers that times, bytes and bandwidths are given in: all exact, or all floats (ints count as floats)."""


@dataclass(frozen=True, slots=True)
class Completion(Generic[N]):
    """A transfer that is done."""

    id: int
    """Its name."""
    link: int
    """Where it moved."""
    size: N
    """Bytes."""
    begun: N
    """When it started."""
    done: N
    """When it was completed."""


@dataclass(frozen=True, slots=True)
class ActiveTransfer(Generic[N]):
    """A transfer that was started and not completed."""

    id: int
    """Its name."""
    link: int
    """Where it moves."""
    size: N
    """Bytes."""
    begun: N
    """When it started."""
    remaining: N
    """Bytes yet to be moved; 0 from the start on a link that is instantaneous."""


@dataclass(frozen=True, slots=True)
class LinksSnapshot(Generic[N]):
    """The whole observable state of a link model: two with equal snapshots behave alike from then on.

    So it is with exact numbers; with floats, deadlines may differ in their last digit.
    """

    now: N
    """The time."""
    issued: int
    """How many ids were given out: the next one."""
    active: tuple[ActiveTransfer[N], ...]
    """The active transfers, by id."""
    received: tuple[N, ...]
    """By link: bytes that each of its active transfers has got since it was last idle; 0 while it is."""


@dataclass(frozen=True, slots=True)
class _Transfer(Generic[N]):
    """What is known of an active transfer, beside its entry in a heap."""

    link: int
    size: N
    begun: N
    tag: N


def check_time(time: N) -> None:
    """Refuse what no clock shows. Floats have such values, and comparing with them tells nothing."""
    if not -math.inf < time < math.inf:
        raise RefusedError(f"{time} is no time: give a finite number")


class _Link(Generic[N]):
    """One link: its speed, what each of its transfers has received, and their tags.

    What was received is counted from the last change of who shares the link, not added up piece by piece: so a deadline
    stays where it is while time comes nearer, however little of a float moves in one piece.
    """

    __slots__ = ("bandwidth", "base", "ready", "since", "tags", "zero")

    def __init__(self, bandwidth: N | None, now: N) -> None:
        """Make an idle link. Its ``bandwidth`` is 0 if it is instantaneous."""
        limited = bandwidth is not None and bandwidth > 0
        self.zero: N = now - now
        self.bandwidth: N = bandwidth if bandwidth is not None and limited else self.zero
        # When those who share the link last changed, and what each of them had received by then.
        self.since: N = now
        self.base: N = self.zero
        self.tags: list[tuple[N, int]] = []
        # Those that are done and wait to be completed: ids, since theirs is the order at one time (G3).
        self.ready: list[int] = []

    def received(self, now: N) -> N:
        """Return the bytes that each active transfer has got since the link was last idle."""
        if not self.tags:
            return self.base
        # A sum of floats may pass the tag: the deadline decides who is done.
        return min(self.base + self.bandwidth * (now - self.since) / len(self.tags), self.tags[0][0])

    def start(self, transfer: int, size: N, now: N) -> N:
        """Take a transfer and return its tag. On an instantaneous link there is nothing to wait for."""
        self.base, self.since = self.received(now), now
        tag = self.base + size if self.bandwidth else self.base
        heappush(self.tags, (tag, transfer))
        self.settle()
        return tag

    def complete(self) -> None:
        """Let go of the one that ``due`` names. It was due from ``since`` on: time stands still for it."""
        heappop(self.ready)
        self.settle()

    def due(self) -> int | None:
        """Return the least id of those that are done."""
        return self.ready[0] if self.ready else None

    def deadline(self) -> N | None:
        """Return when the next transfer will be done, if none is started before."""
        return self.since if self.ready else self.end_of_next()

    def end_of_next(self) -> N | None:
        """Return the deadline as if all that are ready were completed."""
        if not self.tags:
            return None
        left = self.tags[0][0] - self.base
        return self.since + left * len(self.tags) / self.bandwidth if left > 0 and self.bandwidth else self.since

    def move(self, to: N) -> None:
        """Let all transfers move till ``to``, no later than the deadline; none is ready."""
        if self.end_of_next() == to:
            self.base, self.since = self.tags[0][0], to
            self.settle()

    def settle(self) -> None:
        """Take transfers as done whose deadline cannot be told from ``since``; forget the past of an idle link.

        That is asked of each as if those before it were completed: sums of floats give transfers that end together tags
        that differ in the last digit, and all of them are done at this time.
        """
        while self.end_of_next() == self.since:
            tag, transfer = heappop(self.tags)
            self.base = max(self.base, tag)
            heappush(self.ready, transfer)
        if not self.tags and not self.ready:
            self.base = self.zero

    def __len__(self) -> int:
        """Return the number of active transfers."""
        return len(self.tags) + len(self.ready)

    def active(self) -> list[int]:
        """Return the active transfers, in no order."""
        return [*self.ready, *(transfer for _, transfer in self.tags)]


class LinkModel(Generic[N]):
    """Several links under one clock. Each public method that changes something is one step; ``advance`` is many.

    A transfer whose deadline has come is *due*. Time stands still until all that is due was completed, so that
    completions come out in order: by time, then by id, over all links (G3). An illegal call raises ``RefusedError``
    and changes nothing.
    """

    __slots__ = ("_issued", "_links", "_now", "_transfers")

    def __init__(self, bandwidths: Sequence[N | None], *, now: N = 0) -> None:  # type: ignore[assignment]
        """Make links ``0, 1, ...``, all idle.

        Args:
            bandwidths: of each link, bytes per unit of time; ``None``, or one that is not positive, makes the link
                instantaneous: what starts there is due at once (G2).
            now: the time to begin at, an origin of the caller's choice.
        """
        check_time(now)
        if any(bandwidth is not None and bandwidth != bandwidth for bandwidth in bandwidths):
            raise RefusedError("a bandwidth is not a number: give None where it is not known")
        self._now: N = now
        self._links: list[_Link[N]] = [_Link(bandwidth, now) for bandwidth in bandwidths]
        self._transfers: dict[int, _Transfer[N]] = {}
        self._issued = 0

    @property
    def now(self) -> N:
        """The time."""
        return self._now

    def deadline(self) -> N | None:
        """Return when the next transfer will be done as things stand; ``None`` if none is active."""
        deadlines = (link.deadline() for link in self._links)
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def due(self) -> int | None:
        """Return the least id of the transfers that are due now, over all links (G3)."""
        return min((due for link in self._links if (due := link.due()) is not None), default=None)

    def start(self, link: int, size: N, at: N | None = None) -> int:
        """Start a transfer of ``size`` bytes and return its id; ids count up over all links.

        A start earlier than the clock is clamped to it (G3). One later than the clock is refused: time moves first.
        """
        chosen = self._link(link)
        if not 0 <= size < math.inf:
            raise RefusedError(f"a transfer cannot have {size} bytes: give a size of 0 or more")
        if at is not None and not at <= self._now:
            raise RefusedError(f"a transfer cannot start at {at} while it is {self._now}: move the time there first")
        transfer = self._issued
        self._issued += 1
        self._transfers[transfer] = _Transfer(link, size, self._now, chosen.start(transfer, size, self._now))
        return transfer

    def move(self, to: N) -> None:
        """Let time pass till ``to``; nothing happens if that is past already (G3).

        Refused while a transfer is due, and if one would be before ``to``: completing it changes the others' speed.
        """
        check_time(to)
        if to <= self._now:
            return
        deadline = self.deadline()
        if deadline is not None and deadline < to:
            raise RefusedError(f"time cannot move to {to}: complete what is due at {deadline} first")
        for link in self._links:
            link.move(to)
        self._now = to

    def complete(self) -> Completion[N]:
        """Complete the transfer that ``due`` names. Refused if none is due."""
        due = self.due()
        if due is None:
            raise RefusedError(f"no transfer is due at {self._now}: move the time to the deadline first")
        transfer = self._transfers.pop(due)
        self._links[transfer.link].complete()
        return Completion(due, transfer.link, transfer.size, transfer.begun, self._now)

    def advance(self, to: N) -> list[Completion[N]]:
        """Move through every deadline up to ``to`` and on to ``to``; return what was completed, in order (G3).

        Many steps in one call. Nothing happens if ``to`` is past.
        """
        check_time(to)
        if to < self._now:
            return []
        completions: list[Completion[N]] = []
        while (deadline := self.deadline()) is not None and deadline <= to:
            self.move(deadline)
            completions.append(self.complete())
        self.move(to)
        return completions

    def active(self, link: int) -> int:
        """Return how many transfers share a link now."""
        return len(self._link(link))

    def remaining(self, transfer: int) -> N:
        """Return the bytes that an active transfer has yet to move."""
        if transfer not in self._transfers:
            raise RefusedError(f"no transfer {transfer} is active: it was completed, or never started")
        entry = self._transfers[transfer]
        link = self._links[entry.link]
        return max(entry.tag - link.received(self._now), link.zero)

    def snapshot(self) -> LinksSnapshot[N]:
        """Collect the whole observable state, by walking the heaps. Linear: for checkers, not for serving."""
        active = sorted((transfer, index) for index, link in enumerate(self._links) for transfer in link.active())
        return LinksSnapshot(
            now=self._now,
            issued=self._issued,
            active=tuple(self._show(transfer, index) for transfer, index in active),
            received=tuple(link.received(self._now) for link in self._links),
        )

    def _show(self, transfer: int, link: int) -> ActiveTransfer[N]:
        """Show a transfer that stands in a heap of ``link``."""
        entry = self._transfers[transfer]
        return ActiveTransfer(transfer, link, entry.size, entry.begun, self.remaining(transfer))

    def _link(self, link: int) -> _Link[N]:
        """Return a link; refuse a number that none has, which could index from the end."""
        if not 0 <= link < len(self._links):
            raise RefusedError(f"{link} is not one of the {len(self._links)} links")
        return self._links[link]
