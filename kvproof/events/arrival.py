"""A message of a stream, as it came: live, from a recording, or from another tool's record of events."""

from __future__ import annotations

import zlib
from typing import NamedTuple

from .decoding import Decoded

__all__ = ["Arrival", "Damage", "checksum"]


class Arrival(NamedTuple):
    """A message: a numbered batch of a publisher."""

    source: str
    """Where it came from: an address, or a worker's number."""
    topic: bytes
    number: int
    """Its sequence number."""
    payload: bytes
    check: int
    """`checksum` of the payload."""
    replayed: bool = False
    """It had been lost, and was asked for again."""
    at: float = 0.0
    """When it was received, in seconds since 1970."""
    batch: Decoded | None = None
    """What is in it, where that was read already."""
    resumed: bool = False
    """The listener had been away before it: it is the first of its source that a recording has of a later session."""
    of_worker: bool = False
    """Whether it is of a worker of Dynamo's, which numbers events as `WorkerNumbering` says."""


class Damage(NamedTuple):
    """A piece of a stream that is no message (E5)."""

    source: str
    text: str
    final: bool = False
    """Nothing behind it can be read."""
    cut: bool = False
    """There is nothing behind it: the stream ends within it."""


checksum = zlib.crc32
