"""Dynamo's record of what its router heard: a JSON object a line, an event of a worker each.

A line is the event that the router applies (worker, tier, number, data), or that with the moment when it was heard.
Blocks come with a hash of their tokens in place of the tokens; it stands for them here (E3).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

import msgspec

from ..untrusted import limits
from ..untrusted.reading import UnreadableError, decode_json
from ..untrusted.text import one_line
from .arrival import Arrival, Damage, checksum
from .decoding import Decoded
from .wire import DEVICE, Cleared, Event, Removed, Stored

__all__ = ["read_dynamo"]

_TIERS = {"device": DEVICE, "host_pinned": "CPU", "disk": "DISK", "external": "EXTERNAL"}
_KNOWN = {
    "entry": {"timestamp", "event"},
    "router event": {"worker_id", "storage_tier", "event"},
    "event": {"event_id", "data", "dp_rank"},
    "stored": {"parent_hash", "start_position", "blocks"},
    "block": {"block_hash", "tokens_hash", "mm_extra_info"},
    "removed": {"block_hashes"},
}


def read_dynamo(file: BinaryIO) -> Iterator[Arrival | Damage]:
    """Read the lines of such a record; those that are none are told as damage."""
    number = 0
    while line := file.readline(limits.EVENT_LINE + 1):
        number += 1
        if len(line) > limits.EVENT_LINE:
            yield Damage("", f"line {number} has more than {limits.EVENT_LINE:,} bytes", final=True)
            return
        if not line.strip():
            continue
        try:
            yield _arrival(line)
        except (UnreadableError, msgspec.ValidationError, ValueError, KeyError, TypeError, AttributeError) as error:
            what = f"there is no {error}" if isinstance(error, KeyError) else str(error)
            yield Damage("", f"line {number} is no event of a router: {one_line(what, 200)}")


def _arrival(line: bytes) -> Arrival:
    entry = decode_json(line, dict[str, Any])
    unknown: list[str] = []
    at = 0.0
    if "worker_id" not in entry:
        _look(entry, "entry", unknown)
        at, entry = float(entry.get("timestamp", 0)) / 1000, entry["event"]
    _look(entry, "router event", unknown)
    worker, told = entry["worker_id"], entry["event"]
    _look(told, "event", unknown)
    number = told["event_id"]
    if not isinstance(number, int) or not 0 <= number < 2**64:
        raise ValueError(f"the event_id {number!r} is no number of 64 bits")
    tier = str(entry.get("storage_tier", "device"))
    event = _event(told["data"], _TIERS.get(tier, tier), unknown)
    batch = Decoded(msgspec.convert(told.get("dp_rank", 0), int), (event,), unknown)
    source = f"worker {msgspec.convert(worker, int)}"
    return Arrival(source, b"", number, line, checksum(line), at=at, batch=batch, of_worker=True)


def _event(data: Any, medium: str, unknown: list[str]) -> Event:
    if data == "cleared":
        return Cleared()
    kinds = [name for name in ("stored", "removed", "cleared") if isinstance(data, dict) and name in data]
    if not kinds:
        raise ValueError("the data are none of stored, removed and cleared")
    if len(kinds) > 1:
        raise ValueError(f"the data are {' and '.join(kinds)} at once")
    if kinds == ["cleared"]:
        return Cleared()
    if "removed" in data:
        _look(data["removed"], "removed", unknown)
        return msgspec.convert({"block_hashes": data["removed"]["block_hashes"], "medium": medium}, Removed)
    stored = data["stored"]
    _look(stored, "stored", unknown)
    blocks = stored["blocks"]
    if not isinstance(blocks, list):
        raise ValueError("the blocks are no list")
    for block in blocks:
        _look(block, "block", unknown)
    fields = {
        "block_hashes": [block["block_hash"] for block in blocks],
        "parent_block_hash": stored.get("parent_hash"),
        "token_ids": [block["tokens_hash"] for block in blocks],
        "block_size": 1,
        "medium": medium,
    }
    return msgspec.convert(fields, Stored)


def _look(given: Any, what: str, unknown: list[str]) -> None:
    if not isinstance(given, dict):
        raise ValueError(f"the {what} is no object")
    unknown += [f"{what}.{one_line(name, limits.NAME_LETTERS)}" for name in given.keys() - _KNOWN[what]]
