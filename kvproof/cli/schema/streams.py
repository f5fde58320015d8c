"""What ``kvproof events`` and ``kvproof events diff`` write."""

import msgspec

from ..gaps import Gap
from . import Report

__all__ = ["EventsCheck", "EventsDiff", "FaultCount", "HeldBlocks", "MapDifference", "Publisher", "StreamFault"]


class Publisher(msgspec.Struct, frozen=True, kw_only=True):
    """A rank that was heard."""

    source: str
    """Its address, or the worker."""
    rank: int
    """Its number."""


class HeldBlocks(msgspec.Struct, frozen=True, kw_only=True):
    """How much a router believes to be cached in one place."""

    source: str
    """The address, or the worker."""
    rank: int
    """The rank."""
    medium: str
    """The medium, as GPU."""
    group: int | None
    """The group; null where events do not name it."""
    blocks: int
    """How many blocks."""


class StreamFault(msgspec.Struct, frozen=True, kw_only=True):
    """Where a stream breaks a rule."""

    rule: str
    """The rule's code, as E2."""
    kind: str
    """Which way of breaking it."""
    text: str
    """What is wrong, in one sentence."""
    event: int
    """Which event, counted from 0 over all that was read."""
    number: int | None
    """The sequence number of its batch."""
    rank: int | None
    """The rank that the batch names."""
    source: str
    """The address, or the worker."""
    router: str
    """What a router now believes that is not so."""


class FaultCount(msgspec.Struct, frozen=True, kw_only=True):
    """How often a rule was broken in one way."""

    rule: str
    """The rule's code."""
    kind: str
    """Which way of breaking it."""
    count: int
    """How often."""


class EventsCheck(Report, frozen=True, kw_only=True, tag="events check"):
    """What ``kvproof events`` writes."""

    streams: list[str]
    """What was read or listened to."""
    events: int
    """How many events were applied."""
    batches: int
    """How many batches."""
    ranks: list[Publisher]
    """The ranks that were heard."""
    held: list[HeldBlocks]
    """What a router believes at the end, by place."""
    remembered: int
    """Hashes that are remembered with what they name."""
    faults: list[StreamFault]
    """The first faults of each kind."""
    counts: list[FaultCount]
    """All faults, counted."""
    restarts: int
    """How often a publisher began anew."""
    replayed: int
    """Batches that had been lost and were asked for again."""
    unjudged: dict[str, int]
    """What could not be judged, since what was before is not known: how often."""
    unknown: dict[str, int]
    """Fields that the kit does not know: how often each came."""
    gaps: list[Gap]
    """What was not judged at all."""


class MapDifference(msgspec.Struct, frozen=True, kw_only=True):
    """A place in which two maps differ."""

    source: str | None
    """The address, or the worker; null where these are not told apart."""
    rank: int
    """The rank."""
    medium: str
    """The medium."""
    group: int | None
    """The group; null where these are not told apart."""
    only_first: list[str]
    """Hashes that only the first has."""
    only_second: list[str]
    """Hashes that only the second has."""


class EventsDiff(Report, frozen=True, kw_only=True, tag="events diff"):
    """What ``kvproof events diff`` writes."""

    first: str
    """The first file."""
    second: str
    """The second file."""
    blocks: list[int]
    """How many blocks each says are cached."""
    differences: list[MapDifference]
    """Where they differ."""
    gaps: list[Gap]
    """What was not compared."""
