"""Files that commands write beside what they show: looked at before the work, and no reason to hide what was found.

A file that cannot be written after all is told in a sentence, and the command goes on. It ends with the status of what
it found; only where it found nothing is the status that of a command that could not do what it was asked.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..checkers.trace import TraceError
from ..errors import ExitStatus, UsageError
from ..untrusted.text import one_line
from .unheard import aside

__all__ = ["begin", "check_file", "check_folder", "not_written", "status_with", "writing"]

_unwritten: list[str] = []
"""What this command could not write."""


def begin() -> None:
    """Begin a command: nothing failed yet."""
    _unwritten.clear()


def status_with(status: ExitStatus) -> ExitStatus:
    """The status of a command that found this, with regard to what it could not write."""
    found = status in (ExitStatus.REFUTED, ExitStatus.UNUSABLE)
    return status if found or not _unwritten else ExitStatus.UNUSABLE


def check_file(option: str, path: Path | None) -> None:
    """Make sure, before the work, that a file can be written there.

    Raises:
        UsageError: it cannot.
    """
    if path is None:
        return
    with _named(option, path):
        other = path.exists() and not path.is_file()
    if other:
        raise UsageError(f"{option} {path} is not a file; give the path of a file")
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise UsageError(f"{option} {path} cannot be written; give a path in a folder that exists and is yours")


def check_folder(option: str, path: Path | None) -> None:
    """Make sure, before the work, that files can be written into a folder, which need not exist yet.

    Raises:
        UsageError: they cannot.
    """
    if path is None:
        return
    with _named(option, path):
        # A link that leads nowhere is there, and no folder can be made in its place.
        there = next(place for place in (path, *path.absolute().parents) if place.exists() or place.is_symlink())
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise UsageError(f"{option} {path} is no folder that can be written to; give one that is, or a new one")


@contextmanager
def _named(option: str, path: Path) -> Iterator[None]:
    """Look at a path, whose name may be none that there can be.

    Raises:
        UsageError: it is.
    """
    try:
        yield
    except OSError as error:
        raise UsageError(f"{option} {path} cannot be written ({error.strerror}); give another path") from error


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Write a file in the body; if that fails, say so and go on."""
    try:
        yield
    except (OSError, TraceError) as error:
        not_written(str(path), error)


def not_written(what: str, error: OSError | TraceError) -> None:
    """Say that something cannot be written, and let the command go on."""
    _unwritten.append(what)
    why = str(error.strerror or error) if isinstance(error, OSError) else str(error)
    told = why if why.startswith(f"{what}: ") else f"{what} ({why})"  # A trace's error begins with its file.
    aside(f"kvproof: not written: {one_line(told)}")
