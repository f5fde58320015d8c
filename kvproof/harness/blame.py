"""Whose mistake an exception is: that of a file of the user's, with its line, or that of kvproof."""

import os
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from ..errors import UsageError

__all__ = ["blamed", "forget_files", "mistakes_of"]

_TOOLS = tuple(
    {os.path.realpath(sysconfig.get_path(name)) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)
"""Where Python and what is installed lie: nobody's mistake is sought there."""

_users: set[str] = set()
"""The files of machines that this command was given."""


def forget_files() -> None:
    """Begin a command: no file of the user's has a part in it yet."""
    _users.clear()


@contextmanager
def mistakes_of(file: Path) -> Iterator[None]:
    """Turn whatever the text in a user's file raises while the body runs into one sentence.

    Raises:
        UsageError: it raised; the message has the file and, where there is one, the line. Only an interruption by the
            user goes through.
    """
    _users.add(os.path.realpath(file))
    try:
        yield
    except (UsageError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise UsageError(blamed(error) or f"{file}: {_words(error)}") from error


def blamed(error: BaseException) -> str | None:
    """Return the sentence that names the place in the user's text where an exception comes from; None: it comes from
    nowhere there, so it is no mistake of the user's."""
    line = getattr(error, "line", None)
    if line is not None and _is_users(getattr(line, "file", "<")):
        return str(error)  # A MachineError: its message names the place already.
    place = _of_syntax(error) or _of_call(error.__traceback__)
    return None if place is None else f"{place[0]}, line {place[1]}: {_words(error)}"


def _of_syntax(error: BaseException) -> tuple[str, int] | None:
    """The place of what is no Python, where that is the user's."""
    if isinstance(error, SyntaxError) and error.filename is not None and _is_users(error.filename):
        return error.filename, error.lineno or 1
    return None


def _of_call(trace: TracebackType | None) -> tuple[str, int] | None:
    """The innermost call in the user's text."""
    calls = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(trace)]
    return next((call for call in reversed(calls) if _is_users(call[0])), None)


def _is_users(file: str) -> bool:
    """Whether a file is one that the command was given, or one that such a file uses: not kvproof's, not Python's."""
    if not _users or file.startswith("<"):
        return False
    path = os.path.realpath(file)
    return path in _users or not (path.startswith(_TOOLS) or path in _ours())


def _ours() -> set[str]:
    """The files of kvproof, wherever its parts lie."""
    modules = [m for name, m in sys.modules.items() if name == "kvproof" or name.startswith("kvproof.")]
    return {os.path.realpath(file) for m in modules if (file := getattr(m, "__file__", None)) is not None}


def _words(error: BaseException) -> str:
    """What an exception says, in one sentence."""
    kind = type(error).__name__
    if isinstance(error, SyntaxError):
        return f"{error.msg} ({kind}); correct the line"
    if isinstance(error, SystemExit):
        return "it ends the program (SystemExit); a machine only declares state, actions and properties, leave that out"
    if isinstance(error, RecursionError):
        return f"{error} ({kind}); a method of a machine is run once, with terms, and must come to its end"
    try:
        said = str(error).strip()
    except Exception:  # The text of an exception is the user's too.
        said = ""
    return f"{kind}: {said}" if said else kind
