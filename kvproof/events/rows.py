"""E1, E4: whose row of numbers a batch continues, its own rank's or another's, and what its number says there.

Each publisher (address and topic) has a row for each rank; a worker of Dynamo's has rows as `WorkerNumbering` says.
What is wrong is not said here: whoever asks makes a fault of the answer. Where it is not sure yet that something is
wrong, the fault is kept until later numbers say so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from .arrival import Arrival
from .decoding import Decoded
from .faults import Fault
from .numbering import Numbering, Order, WorkerNumbering
from .room import check_room

__all__ = ["USUAL", "Claim", "Rows", "Step"]

_SILENT = 8
"""Batches of a new rank that continue the numbers of another, after which that one would have been heard."""
_PUBLISHERS = 10_000


@dataclass(frozen=True, slots=True)
class Claim:
    """The next number of a rank, first heard in the name of a rank that is new.

    Ranks that step together have the same numbers: it may be the new rank's own.
    """

    by: int | None
    """The rank that is new, as its batch names it."""
    of: int | None
    """The rank that was expected to send the number, as its batches name it."""
    number: int


class Step(NamedTuple):
    """What the number of a batch says."""

    order: Order
    missing: int = 0
    """How many are missing before it."""
    of_all: bool = False
    """Whether it is one of all ranks of its source."""
    another: int | None = None
    """The rank whose numbers the batch continues, where it names another one."""
    claim: Claim | None = None
    """Where it is not sure that the batch is of ``another``."""
    settled: Sequence[Fault] = ()
    """What was not sure before, and is now."""


USUAL = Step(Order.NEXT)
"""The batch is the next one of its own rank. One step for all of them: it is made for none, and known by identity."""


@dataclass(slots=True)
class _Publisher:
    """The rows of a publisher, by the rank that batches name; None where they name none."""

    rows: dict[int | None, Numbering] = field(default_factory=dict)
    claims: dict[int | None, tuple[Claim, Fault]] = field(default_factory=dict)
    """By whose number was claimed: what is wrong if the number was not the claimant's own."""

    def follow(self, arrival: Arrival, batch: Decoded, rank: int) -> Step:
        """Follow a batch of this rank."""
        key, number = batch.rank, arrival.number
        settled = [*self._settle(key, number)] if self.claims else ()
        row, another, claim = self.rows.get(key), None, None
        if row is None or row.expected != number:
            whose, other = self._row_of_another(key, number, batch) or (None, None)
            if other is not None and other.rank != rank:
                another = other.rank
            if other is not None and (row is not None or another is None):
                row = other
            elif row is None:
                row = self.rows[key] = Numbering(rank=rank)
                claim = None if other is None else Claim(key, whose, number)
        order, missing = row.take(number, arrival.check, batch.made)
        if order is USUAL.order and another is None and not settled:
            return USUAL
        return Step(order, missing, another=another, claim=claim, settled=settled)

    def _row_of_another(self, key: int | None, number: int, batch: Decoded) -> tuple[int | None, Numbering] | None:
        """The row of another rank that this number continues, where it is not likelier the batch's own; and how
        batches name that rank.

        Ranks that step together have numbers that are alike: a batch behind a gap of its own rank's may continue
        another's by chance, and so may the first that is heard of a rank.
        """
        if number == 0 or (batch.rank is None and batch.malformed):  # Its name may be in what could not be read.
            return None
        own = self.rows.get(key)
        if own is not None and own.away:
            return None
        behind_a_gap = own is not None and own.expected is not None and number > own.expected
        if behind_a_gap and not batch.clears:
            return None
        others = ((other, row) for other, row in self.rows.items() if other != key and row.expected == number)
        return next(((other, row) for other, row in others if own is not None or row.whole), None)

    def _settle(self, key: int | None, number: int) -> Iterator[Fault]:
        """Say whether the first batch that was heard of a rank was another's: it is, where the other's next number is
        the one behind it, or where that one is silent while the numbers go on."""
        for claim, fault in [*self.claims.values()]:
            ahead = number - claim.number
            if key == claim.of:
                if ahead == 1:
                    self.rows[claim.of].expected = number
                    yield fault
            elif key == claim.by and ahead >= _SILENT:
                yield fault
            else:
                continue
            del self.claims[claim.of]

    def was_away(self) -> None:
        """Nobody listened for a while: what was sent meanwhile was not lost by the stream, and a number that is claimed
        may have been sent by its rank too."""
        self.claims.clear()
        for row in self.rows.values():
            row.away = True


class Rows:
    """The numbers of all publishers."""

    def __init__(self) -> None:
        self._publishers: dict[tuple[str, bytes], _Publisher] = {}
        self._workers: dict[str, WorkerNumbering] = {}

    def likely_rank(self, arrival: Arrival) -> int | None:
        """Whose batch this is that cannot be read: that of the only rank that is expected to send this number."""
        publisher = self._publishers.get((arrival.source, arrival.topic))
        rows = {} if publisher is None else publisher.rows
        expecting = [rank for rank, row in rows.items() if row.expected == arrival.number]
        return expecting[0] if len(expecting) == 1 else None

    def follow(self, arrival: Arrival, batch: Decoded, rank: int) -> Step:
        """Follow a batch of this rank, 0 where it names none.

        Raises:
            TooMuchError: there are more publishers than are followed.
        """
        if arrival.of_worker:
            return self._of_worker(arrival, rank)
        publisher = self._publishers.get((arrival.source, arrival.topic))
        if publisher is None:
            check_room(len(self._publishers), _PUBLISHERS, "publishers")
            publisher = self._publishers[arrival.source, arrival.topic] = _Publisher()
        if arrival.resumed:
            for (source, _), other in self._publishers.items():
                if source == arrival.source:
                    other.was_away()
        return publisher.follow(arrival, batch, rank)

    def keep(self, arrival: Arrival, claim: Claim, fault: Fault) -> None:
        """Keep what is wrong with the batch that was followed last if the number that it claims is not its own."""
        self._publishers[arrival.source, arrival.topic].claims[claim.of] = claim, fault

    def _of_worker(self, arrival: Arrival, rank: int) -> Step:
        """Follow the numbers of a worker of Dynamo's."""
        worker = self._workers.get(arrival.source)
        if worker is None:
            check_room(len(self._workers), _PUBLISHERS, "workers")
            worker = self._workers[arrival.source] = WorkerNumbering()
        if arrival.resumed:
            worker.was_away()
        order, missing = worker.take(rank, arrival.number, arrival.check)
        return USUAL if order is Order.NEXT else Step(order, missing, of_all=not worker.by_rank)
