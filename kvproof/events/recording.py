"""Recordings: messages of a stream in a file, each whole or not at all, so that a file can be appended to at any time.

A recording begins with ``kvevents1`` and a line end. Records follow; numbers are big-endian:

    4  CRC-32 of the 29 bytes behind it, and of the topic
    4  CRC-32 of the payload
    4  bytes of the payload
    8  sequence number
    8  when it was received, in seconds since 1970 (IEEE 754)
    2  which source: its place among the names
    2  bytes of the topic
    1  0: as it came; 1: it was asked for again (replay); 2: the payload is the name of a source, and no message
    -  the topic, the payload

What a crash leaves of the last record is cut off before the next one is written; a file that is damaged before its end
is not written to, since that would take what is behind the damage. Who goes on with a recording names its sources anew:
a name that comes again says that nobody listened in between. See docs/events.md.
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from ..untrusted import limits
from .arrival import Arrival, Damage, checksum

__all__ = ["MAGIC", "Recorder", "RecordingError", "read_recording"]

MAGIC = b"kvevents1\n"

_HEAD = struct.Struct(">IIIQdHHB")
_PLAIN, _REPLAYED, _SOURCE = 0, 1, 2
_SOURCES = 2**16


class RecordingError(ValueError):
    """A file cannot be appended to. The message completes the sentence "it is ..."."""


def read_recording(file: BinaryIO) -> Iterator[Arrival | Damage]:
    """Read the messages of a recording, and what is damaged; the file stands behind its first bytes (`MAGIC`)."""
    for arrival, _ in _records(file, len(MAGIC)):
        if arrival is not None:
            yield arrival


def _records(file: BinaryIO, at: int) -> Iterator[tuple[Arrival | Damage | None, int]]:
    """Each record (None for the name of a source) and where it ends."""
    names: list[str] = []
    resumed: set[int] = set()
    size, unpack, read = _HEAD.size, _HEAD.unpack, file.read
    while head := read(size):
        if len(head) < size:
            yield _truncated(at, len(head)), at
            return
        head_check, check, length, number, received, source, topic_length, flag = unpack(head)
        if topic_length > limits.EVENT_TOPIC_BYTES or length > limits.EVENT_BATCH_BYTES:
            yield Damage("", f"the record at byte {at:,} says that it is larger than any", final=True), at
            return
        topic = read(topic_length) if topic_length else b""
        if len(topic) < topic_length:
            yield _truncated(at, size + len(topic)), at
            return
        if checksum(topic, checksum(head[4:])) != head_check:
            yield Damage("", f"the record at byte {at:,} is damaged, and where the next begins is lost", final=True), at
            return
        payload = read(length)
        if len(payload) < length:
            yield _truncated(at, size + len(topic) + len(payload)), at
            return
        start, at = at, at + size + topic_length + length
        name = names[source] if source < len(names) else f"source {source}"
        if checksum(payload) != check:
            yield Damage(name, f"the record at byte {start:,} is damaged (number {number})"), at
        elif flag == _SOURCE:
            name = payload.decode(errors="replace")[: limits.NAME_LETTERS]
            if name in names:
                resumed.add(len(names))
            names.append(name)
            yield None, at
        else:
            back = source in resumed
            yield Arrival(name, topic, number, payload, check, flag == _REPLAYED, received, resumed=back), at
            resumed.discard(source)


def _truncated(at: int, left: int) -> Damage:
    text = f"the file ends within a record: {left:,} bytes of it are there, from byte {at:,} on"
    return Damage("", text, final=True, cut=True)


class Recorder:
    """Writes a recording, or goes on with one."""

    def __init__(self, path: Path) -> None:
        """Open the file.

        Raises:
            OSError: it cannot be written.
            RecordingError: it is something else than a recording, is damaged before its end, or is being written by
                another process.
        """
        self.path = path
        self._file = open(path, "a+b", buffering=0)  # noqa: SIM115
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._sources: dict[str, int] = {}
            self._end = self._whole()
        except BlockingIOError as error:
            self._file.close()
            raise RecordingError("being written by another process") from error
        except BaseException:
            self._file.close()
            raise

    def _whole(self) -> int:
        """Return where the whole records end; what a crash left of the last one is cut off, and nothing else.

        Raises:
            RecordingError: there may be whole records behind what cannot be read.
        """
        self._file.seek(0)
        with open(self._file.fileno(), "rb", closefd=False) as file:
            magic = file.read(len(MAGIC))
            if not MAGIC.startswith(magic):
                raise RecordingError("no recording of events")
            if len(magic) < len(MAGIC):
                self._file.truncate(0)
                os.write(self._file.fileno(), MAGIC)
                return len(MAGIC)
            end = len(MAGIC)
            for arrival, at in _records(file, end):
                end = at
                if isinstance(arrival, Damage) and arrival.final and not arrival.cut:
                    raise RecordingError(f"damaged at byte {at:,}, and what is behind that would be lost")
                if arrival is None:  # Its number is taken; the source is named anew where it is met again.
                    self._sources[f"\0{len(self._sources)}"] = len(self._sources)
        self._file.truncate(end)
        return end

    def write(self, arrival: Arrival) -> None:
        """Append a message.

        Raises:
            OSError: it cannot be written; then nothing of it is in the file.
        """
        source = self._sources.get(arrival.source)
        if source is None:
            source = len(self._sources)
            if source == _SOURCES:
                raise OSError(f"a recording holds {_SOURCES:,} sources")
            self._sources[arrival.source] = source
            self._append(Arrival(arrival.source, b"", 0, arrival.source.encode(), 0, at=arrival.at), source, _SOURCE)
        self._append(arrival, source, _REPLAYED if arrival.replayed else _PLAIN)

    def _append(self, arrival: Arrival, source: int, flag: int) -> None:
        payload, topic = arrival.payload, arrival.topic
        fields = (len(payload), arrival.number, arrival.at, source, len(topic), flag)
        tail = _HEAD.pack(0, checksum(payload), *fields)[4:]
        record = struct.pack(">I", checksum(topic, checksum(tail))) + tail + topic + payload
        try:
            written = self._file.write(record)
            if written != len(record):
                raise OSError(f"only {written} of {len(record)} bytes could be written")
        except OSError:
            self._file.truncate(self._end)
            raise
        self._end += len(record)

    def close(self) -> None:
        """Write it through to the disk, and let others write."""
        if not self._file.closed:
            os.fsync(self._file.fileno())
            self._file.close()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
