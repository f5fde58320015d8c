"""What a command shows: tables for people, JSON for programs, progress meanwhile."""

import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from .checkers.trace import write_atomically
from .errors import UsageError

STANDARD_OUTPUT = "-"
"""The name that ``--json`` takes for standard output."""


PIPE_WIDTH = 120
"""Columns of a table where there is no terminal."""


class Output:
    """Where a command writes. Tables go to standard output, or aside when standard output is for JSON."""

    def __init__(self, json: str | None) -> None:
        """Prepare output; ``json`` is the value of ``--json``.

        Raises:
            UsageError: no file can be written there. Found out before the work, not after it.
        """
        self._json = json
        self.notes = _console(stderr=True)
        self.tables = self.notes if json == STANDARD_OUTPUT else _console(stderr=False)
        if json is not None and json != STANDARD_OUTPUT:
            path = Path(json)
            if path.is_dir() or (path.exists() and not path.is_file()):
                raise UsageError(f"--json {json} is not a file; give the path of a file, or - for standard output")
            if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
                raise UsageError(f"--json {json} cannot be written; give a path in a folder that exists and is yours")

    def report(self, report: dict[str, Any]) -> None:
        """Give programs the report, if they asked for it: a file whole or not at all, or one line.

        Raises:
            UsageError: the file cannot be written.
        """
        if self._json is None:
            return
        line = msgspec.json.encode(_finite(report)) + b"\n"
        if self._json == STANDARD_OUTPUT:
            sys.stdout.write(line.decode())
            sys.stdout.flush()
            return
        try:
            write_atomically(self._json, line)
        except OSError as error:
            raise UsageError(
                f"--json {self._json} cannot be written ({error.strerror or error}); give another path"
            ) from error

    @contextmanager
    def progress(self, label: str) -> Iterator["Advance"]:
        """Show a bar on standard error while the body runs; nothing where that is not a terminal."""
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self.notes, transient=True, disable=not self.notes.is_terminal) as bars:
            yield Advance(bars, label)


class Advance:
    """Moves a progress bar. Called as the checkers call ``on_progress``."""

    def __init__(self, bars: Progress, label: str) -> None:
        """Start a bar of unknown length."""
        self._bars = bars
        self._task = bars.add_task(label, total=None)

    def __call__(self, done: int, total: int | None, label: str | None = None) -> None:
        """Say that ``done`` of ``total`` steps are done (``None``: unknown), and what is going on now."""
        self._bars.update(self._task, completed=done, total=total)
        if label is not None:
            self._bars.update(self._task, description=label)


def _console(*, stderr: bool) -> Console:
    """Return a console. In a file or a pipe a table has the room that it needs, whatever the terminal's width is."""
    console = Console(stderr=stderr)
    return console if console.is_terminal else Console(stderr=stderr, width=max(console.width, PIPE_WIDTH))


def _finite(value: Any) -> Any:
    """Return ``value`` with numbers that JSON lacks replaced by null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
