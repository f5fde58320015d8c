"""Files that hold a stream: what kind of file it is shows in its first bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ..errors import UsageError
from ..untrusted.opening import open_untrusted
from .arrival import Arrival, Damage
from .dynamo import read_dynamo
from .recording import MAGIC, read_recording

__all__ = ["read_stream", "read_streams"]

_BUFFER = 2**16
"""Bytes that are read at once: few enough to leave the processor's cache to what is believed."""

_DAMAGED = 1000
"""With so many lines before the first event, a file is no record of a router."""


def read_streams(paths: Sequence[Path]) -> Iterator[Arrival | Damage]:
    """Read the messages of several files, one after the other: between two of them nobody listened.

    Raises:
        UsageError: one cannot be read, or is named twice.
    """
    before: set[str] = set()
    for at, path in enumerate(paths):
        if path.resolve() in {other.resolve() for other in paths[:at]}:
            raise UsageError(f"{path} is named twice; name each recording once, the earlier ones first")
        here: set[str] = set()
        for arrival in read_stream(path):
            if isinstance(arrival, Arrival) and arrival.source not in here:
                here.add(arrival.source)
                yield arrival._replace(resumed=arrival.resumed or arrival.source in before)
            else:
                yield arrival
        before |= here


def read_stream(path: Path) -> Iterator[Arrival | Damage]:
    """Read the messages of a file: a recording of the kit's, or a router's own record.

    Raises:
        UsageError: it cannot be read, or is neither.
    """
    try:
        with open_untrusted(path, _BUFFER) as file:
            first = file.read(len(MAGIC))
            if first == MAGIC:
                yield from read_recording(file)
            elif first.lstrip()[:1] == b"{":
                file.seek(0)
                yield from _of_a_router(path, read_dynamo(file))
            elif first and MAGIC.startswith(first):
                yield Damage(str(path), "the file ends within its first line", final=True, cut=True)
            elif first:
                raise UsageError(
                    f"{path} is no recording of events; make one with kvproof events zmq://HOST:PORT --record FILE, "
                    "or give a router's record, a JSON object a line"
                )
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror or error}); give a recording of events") from error


def _of_a_router(path: Path, lines: Iterator[Arrival | Damage]) -> Iterator[Arrival | Damage]:
    """What the lines of a router's record say: of a file of other JSON, that it is none.

    Raises:
        UsageError: no line is an event.
    """
    damaged: list[Damage] = []
    for line in lines:
        if isinstance(line, Arrival):
            yield from damaged
            yield line
            yield from lines
            return
        damaged.append(line)
        if len(damaged) == _DAMAGED:
            break
    if damaged:
        raise UsageError(f"{path} is no router's record: {damaged[0].text}; give a recording of events")
