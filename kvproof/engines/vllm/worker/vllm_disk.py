"""A disk in memory, under the names that `os` has: for files that a release reads and writes itself."""

import errno
import itertools
import os
from types import SimpleNamespace

__all__ = ["Disk"]


class Disk:
    """Files by path; folders are wherever they are asked for."""

    O_CREAT, O_EXCL, O_TRUNC = os.O_CREAT, os.O_EXCL, os.O_TRUNC
    O_RDONLY, O_WRONLY, O_RDWR = os.O_RDONLY, os.O_WRONLY, os.O_RDWR
    O_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.path = SimpleNamespace(exists=self.files.__contains__, dirname=os.path.dirname, join=os.path.join)
        self._open: dict[int, str] = {}
        self._bad: tuple[int, int] | None = None
        self._gone: list[str] = []

    def go_bad(self, at: int, how: int) -> None:
        """Let the read or write of this number fail: it does not come about (``how`` 0), or, where it is a read, the
        file is not there any more (1), or is too short (2). At a place in a file it is too short (1)."""
        self._bad = (at, how)

    def go_well(self) -> list[str]:
        """Let all go well from here on; return the files that were gone."""
        self._bad = None
        gone, self._gone = self._gone, []
        return gone

    def makedirs(self, _path: str, exist_ok: bool = False) -> None:
        """`os.makedirs`."""

    def open(self, path: str, flags: int, _mode: int = 0o777) -> int:
        """`os.open`; a file that is written is made anew."""
        if flags & (os.O_WRONLY | os.O_RDWR):
            if flags & os.O_EXCL and path in self.files:
                raise _error(FileExistsError, errno.EEXIST, path)
            self.files[path] = b""
        else:
            self._spoil(path)
            if path not in self.files:
                raise _error(FileNotFoundError, errno.ENOENT, path)
        number = next(n for n in itertools.count(3) if n not in self._open)
        self._open[number] = path
        return number

    def write(self, number: int, data: memoryview) -> int:
        """`os.write`."""
        path = self._open[number]
        if self._fails() is not None:
            raise _error(OSError, errno.ENOSPC, path)
        self.files[path] += bytes(data)
        return len(data)

    def readv(self, number: int, buffers: list[memoryview]) -> int:
        """`os.readv`, from the beginning into one buffer."""
        (buffer,) = buffers
        data = self.files[self._open[number]][: len(buffer)]
        buffer[: len(data)] = data
        return len(data)

    def ftruncate(self, number: int, length: int) -> None:
        """`os.ftruncate`, of a file that is to be longer."""
        path = self._open[number]
        self.files[path] = self.files[path].ljust(length, b"\0")

    def pwritev(self, number: int, buffers: list[memoryview], offset: int) -> int:
        """`os.pwritev`, within the file."""
        path, data = self._open[number], b"".join(buffers)
        data = self._cut(path, data, errno.ENOSPC)
        before = self.files[path]
        self.files[path] = before[:offset] + data + before[offset + len(data) :]
        return len(data)

    def preadv(self, number: int, buffers: list[memoryview], offset: int) -> int:
        """`os.preadv`."""
        path, room = self._open[number], sum(map(len, buffers))
        data = rest = self._cut(path, self.files[path][offset : offset + room], errno.EIO)
        for buffer in buffers:
            part, rest = rest[: len(buffer)], rest[len(buffer) :]
            buffer.cast("B")[: len(part)] = part
        return len(data)

    def close(self, number: int) -> None:
        """`os.close`."""
        del self._open[number]

    def replace(self, source: str, target: str) -> None:
        """`os.replace`."""
        self.files[target] = self.files.pop(source)

    def remove(self, path: str) -> None:
        """`os.remove`."""
        if path not in self.files:
            raise _error(FileNotFoundError, errno.ENOENT, path)
        del self.files[path]

    unlink = remove

    def _cut(self, path: str, data: bytes, number: int) -> bytes:
        """What of these bytes is read or written: half of them, or an error, where this fails."""
        how = self._fails()
        if how == 0:
            raise _error(OSError, number, path)
        return data if how is None else data[: len(data) // 2]

    def _spoil(self, path: str) -> None:
        """What is read now may fail."""
        how = self._fails()
        if how == 0:
            raise _error(OSError, errno.EMFILE, path)
        if how is not None and path in self.files:
            data = self.files.pop(path)
            if how > 1:
                self.files[path] = data[: len(data) // 2]
            else:
                self._gone.append(path)

    def _fails(self) -> int | None:
        """How this read or write fails, if it does; it is counted."""
        if self._bad is None:
            return None
        at, how = self._bad
        self._bad = (at - 1, how) if at else None
        return None if at else how


def _error(kind: type[OSError], number: int, path: str) -> OSError:
    return kind(number, os.strerror(number), path)
