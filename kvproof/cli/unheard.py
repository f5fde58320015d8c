"""Output that reaches nobody: a stream that is closed, a log on a full disk. It makes no verdict another one."""

import contextlib
import errno
import os
import sys
from typing import IO, Final

__all__ = ["aside", "of_the_place", "silence"]

_OF_THE_PLACE: Final = (errno.ENAMETOOLONG, errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EIO)
"""What is wrong with the disk, or with a name that a user gave; never a fault of the kit."""


def aside(text: str) -> None:
    """Say something on standard error, if there is anybody to hear it."""
    if sys.stderr is None:  # closed when the process began: `print` would take standard output
        return
    try:
        print(text, file=sys.stderr, flush=True)
    except (OSError, ValueError):
        silence(sys.stderr)


def silence(stream: IO[str] | None) -> None:
    """Let nothing more be written to a stream: what it still holds would be a failure at the exit, and its status."""
    if stream is None:
        return
    with contextlib.suppress(OSError, ValueError), open(os.devnull, "w", encoding="utf-8") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


def of_the_place(error: BaseException) -> str | None:
    """Return what is wrong with the disk or a name, if that is it."""
    if not isinstance(error, OSError) or error.errno not in _OF_THE_PLACE:
        return None
    if error.filename is not None:
        return f"{os.fsdecode(error.filename)}: {error.strerror}"
    return f"what it shows or keeps cannot be written ({error.strerror}); make room for it"
