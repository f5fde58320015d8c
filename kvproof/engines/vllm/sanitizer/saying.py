"""What the sanitizer says, on the engine's standard error: one line, if there is anywhere to say it."""

from __future__ import annotations

import contextlib
import sys

__all__ = ["say"]


def say(text: str) -> None:
    """Say a sentence; the engine goes on where nobody can be told.

    Its standard error may be closed, a pipe that nobody reads any more, a file on a full disk, or an object of its own.
    """
    if sys.stderr is None:  # closed when the process began: `print` would take standard output
        return
    with contextlib.suppress(Exception):
        print(f"kvproof: {text}", file=sys.stderr, flush=True)
