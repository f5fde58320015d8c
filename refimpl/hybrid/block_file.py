"""One block in one file: its format, how it is read without trust, and how it is written so that no crash shows (H9).

A file is a header, the key, and the content (integers little-endian)::

    8s   magic, with the version of the format
    u32  length of the key
    u64  length of the content
    16s  layout: a fingerprint of everything that decides what the bytes mean
    16s  checksum: blake2b of the header before it, the key and the content

The checksum is blake2b and not a CRC: what is in doubt is not a flipped bit on a wire but whole pages that are zero,
old, or another block's. A CRC-32 passes one such block in 2**32, 128 bits of blake2b pass none. It takes several times
as long as a CRC, but less than a disk.

A file is written under a temporary name, synced, renamed, and the directory synced. Under its final name it is
therefore complete, and it is there for good once the last step is done: only then may anybody count on it.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from struct import Struct
from typing import Literal, Protocol

FINGERPRINT_BYTES = 16
"""The length of a layout fingerprint, and of a checksum."""

_MAGIC = b"KVBLOCK\x01"
_FIELDS = Struct("<8sIQ16s")
_HEADER_BYTES = _FIELDS.size + FINGERPRINT_BYTES

WriteStep = Literal["created", "written", "synced", "renamed", "durable"]
"""What has been done of writing a file, step by step."""

Fault = Literal["size", "format", "layout", "key", "checksum"]
"""What is wrong with a stored file."""


class StaleFileError(Exception):
    """A stored file is not what its name says: cut off, too long, of another format or layout, or damaged (H9)."""

    def __init__(self, fault: Fault) -> None:
        """Say what is wrong."""
        super().__init__(f"the {fault} of a stored file is wrong")
        self.fault: Fault = fault


class FileOps(Protocol):
    """What is done with files, and nothing else is: each call is one step after which a process may be gone.

    Every method may raise ``OSError``.
    """

    def create(self, path: Path) -> int:
        """Create a file that is not there, and open it for writing."""

    def write(self, file: int, data: bytes) -> None:
        """Append all of ``data``."""

    def open(self, path: Path) -> int:
        """Open a file for reading."""

    def size(self, file: int) -> int:
        """Return the length of an open file."""

    def read(self, file: int, count: int) -> bytes:
        """Return the next ``count`` bytes, fewer only where the file ends."""

    def sync(self, file: int) -> None:
        """Return when what was written would survive a loss of power."""

    def close(self, file: int) -> None:
        """Close an open file."""

    def rename(self, old: Path, new: Path) -> None:
        """Give a file another name, in place of what has that name; at no moment is neither there."""

    def sync_directory(self, path: Path) -> None:
        """Return when the names in a directory would survive a loss of power."""

    def remove(self, path: Path) -> None:
        """Remove a file."""


class PosixFiles:
    """``FileOps`` of the operating system."""

    def create(self, path: Path) -> int:
        """Create and open; never an existing one."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)

    def write(self, file: int, data: bytes) -> None:
        """Write until all is written: one call may take less."""
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(file, rest) :]

    def open(self, path: Path) -> int:
        """Open for reading."""
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def size(self, file: int) -> int:
        """Ask the file itself."""
        return os.fstat(file).st_size

    def read(self, file: int, count: int) -> bytes:
        """Read until there is enough, or no more: one call may give less."""
        parts: list[bytes] = []
        while count and (part := os.read(file, count)):
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def sync(self, file: int) -> None:
        """Sync content and length."""
        os.fsync(file)

    def close(self, file: int) -> None:
        """Close."""
        os.close(file)

    def rename(self, old: Path, new: Path) -> None:
        """Rename, atomically."""
        os.replace(old, new)

    def sync_directory(self, path: Path) -> None:
        """Sync the directory's own entries."""
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def remove(self, path: Path) -> None:
        """Unlink."""
        os.unlink(path)


def layout_fingerprint(facts: Mapping[str, object]) -> bytes:
    """Return a fingerprint of what decides the meaning of stored bytes: model, dtype, shapes, block sizes, ranks.

    The facts are of the kinds that JSON has; tuples count as lists, and their order by name does not matter.
    """
    return blake2b(json.dumps(facts, sort_keys=True).encode(), digest_size=FINGERPRINT_BYTES).digest()


def file_bytes(key_bytes: int, content_bytes: int) -> int:
    """Return the length of the file of a content, given its and its key's length in bytes."""
    return _HEADER_BYTES + key_bytes + content_bytes


def encode_file(key: bytes, content: bytes, layout: bytes) -> bytes:
    """Return the bytes of a file."""
    fields = _FIELDS.pack(_MAGIC, len(key), len(content), layout)
    return b"".join((fields, _checksum(fields, key, content), key, content))


def read_file(ops: FileOps, path: Path, key: bytes, layout: bytes) -> bytes:
    """Return the content of the file of ``key``, all of it checked.

    Lengths are compared with the file's real size before anything of that length is read, so a damaged header makes
    nobody read past the end or ask for absurd amounts of memory.

    Raises:
        StaleFileError: when anything in it is not as it was written.
        OSError: when it cannot be read.
    """
    file = ops.open(path)
    try:
        return _read_open_file(ops, file, key, layout)
    finally:
        ops.close(file)


def write_file(ops: FileOps, temporary: Path, final: Path, data: bytes) -> Iterator[WriteStep]:
    """Write a file so that under its final name it is never seen incomplete; yield each step when it is done.

    An error, or giving up between two steps, leaves neither name behind, as far as they can still be removed.
    """
    is_durable = False
    file = ops.create(temporary)
    is_open, name = True, temporary
    try:
        yield "created"
        ops.write(file, data)
        yield "written"
        ops.sync(file)
        is_open = False
        ops.close(file)
        yield "synced"
        ops.rename(temporary, final)
        name = final
        yield "renamed"
        ops.sync_directory(final.parent)
        is_durable = True
    finally:
        if not is_durable:
            _clean_up(ops, file if is_open else None, name)
    yield "durable"


def remove_file(ops: FileOps, path: Path) -> None:
    """Remove a file if it is there and can be removed. One that stays is found, and checked, at the next start."""
    with suppress(OSError):
        ops.remove(path)


def _read_open_file(ops: FileOps, file: int, key: bytes, layout: bytes) -> bytes:
    """Return the checked content of an open file."""
    size = ops.size(file)
    if size < _HEADER_BYTES:
        raise StaleFileError("size")
    header = ops.read(file, _HEADER_BYTES)
    if len(header) != _HEADER_BYTES:
        raise StaleFileError("size")
    fields, checksum = header[: _FIELDS.size], header[_FIELDS.size :]
    magic, key_bytes, content_bytes, stored_layout = _FIELDS.unpack(fields)
    if magic != _MAGIC:
        raise StaleFileError("format")
    if stored_layout != layout:
        raise StaleFileError("layout")
    if size != file_bytes(key_bytes, content_bytes):
        raise StaleFileError("size")
    if ops.read(file, key_bytes) != key:
        raise StaleFileError("key")
    content = ops.read(file, content_bytes)
    if _checksum(fields, key, content) != checksum:
        raise StaleFileError("checksum")
    return content


def _checksum(fields: bytes, key: bytes, content: bytes) -> bytes:
    """Return the checksum of all that a file says."""
    digest = blake2b(fields, digest_size=FINGERPRINT_BYTES)
    digest.update(key)
    digest.update(content)
    return digest.digest()


def _clean_up(ops: FileOps, file: int | None, name: Path) -> None:
    """Undo what can be undone of a file that was not finished. The first error is the one to be told, not these."""
    if file is not None:
        with suppress(OSError):
            ops.close(file)
    remove_file(ops, name)
