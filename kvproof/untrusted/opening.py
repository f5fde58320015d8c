"""Opening what others send. A pipe into which nobody writes is not waited for."""

import errno
import os
import select
import stat
from pathlib import Path
from typing import BinaryIO

from . import limits

__all__ = ["open_untrusted"]


def open_untrusted(path: str | os.PathLike[str], buffering: int = -1) -> BinaryIO:
    """Open a file, a pipe or a device to be read.

    Raises:
        OSError: it cannot be, or it is a pipe that nobody opens to write for some seconds.
    """
    return open(path, "rb", buffering=buffering, opener=_opener)


def _opener(path: str, flags: int) -> int:
    """Open at once, where an open of a pipe by its name waits for a writer, however long none comes."""
    handle = os.open(path, flags | os.O_NONBLOCK)
    try:
        if stat.S_ISFIFO(os.fstat(handle).st_mode) and _has_a_name(path):
            _wait_for_a_writer(handle)
        os.set_blocking(handle, True)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _has_a_name(path: str) -> bool:
    """Whether a pipe stands in a folder; those of a shell's ``<(COMMAND)`` do not, and have a writer or their end."""
    return Path(os.path.realpath(path)).exists()


def _wait_for_a_writer(handle: int) -> None:
    """Wait until there is something to read, or at least somebody who might write it."""
    waiting = select.poll()
    waiting.register(handle, select.POLLIN)
    if waiting.poll(limits.WRITER_SECONDS * 1000):
        return
    try:
        os.read(handle, 1)
    except BlockingIOError:  # A writer is there, and has written nothing yet: it may take its time.
        return
    raise OSError(errno.EAGAIN, "it is a pipe, and nobody writes into it")
