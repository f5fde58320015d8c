"""What a command shows: tables for people, JSON for programs, progress meanwhile.

All that reaches a terminal passes here, and is made harmless here: texts come from files, engines and machines of
others, and nothing in them is an escape sequence, a control character or markup that is obeyed.
"""

import errno
import math
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from ..checkers.trace import write_atomically
from ..untrusted.text import json_text, one_line, visible
from .schema import Report, plain
from .unheard import silence
from .written import check_file, not_written, writing

STANDARD_OUTPUT = "-"
"""The name that ``--json`` takes for standard output."""

LINE_SECONDS = 5.0
"""Between two lines about what is going on, where there is no terminal."""

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
            check_file("--json", Path(json))

    def line(self, text: str) -> None:
        """Show text of others, or text that may hold some, as one line: it writes no line of the kit's own.

        A terminal gets it broken between words, but for commands: who copies one wants it whole.
        """
        whole = not self.tables.is_terminal or text.lstrip().startswith("again: ")
        self.tables.print(one_line(text), highlight=False, soft_wrap=whole)

    def report(self, report: Report) -> None:
        """Give programs the report, if they asked for it: a file whole or not at all, or one line."""
        if self._json is None:
            return
        line = as_json(plain(report))
        if self._json == STANDARD_OUTPUT:
            _shown(line.decode())
            return
        with writing(self._json):
            write_atomically(self._json, line)

    @contextmanager
    def progress(self, label: str) -> Iterator["Advance"]:
        """Show on standard error what is going on while the body runs: a bar, or lines where that is no terminal."""
        if not self.notes.is_terminal:
            yield Advance(_Lines(self.notes), label)
            return
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self.notes, transient=True) as bars:
            yield Advance(_Bar(bars, label), label)


def _shown(text: str) -> None:
    """Write to standard output; whoever reads it may leave early, but a full disk is told and ends no command."""
    if sys.stdout is None:
        not_written("standard output", OSError(errno.EBADF, "it is closed"))
        return
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        silence(sys.stdout)
        not_written("standard output", error)


def as_json(value: Any) -> bytes:
    """A line of JSON that every program can read and every terminal can show, whatever of others stands in it."""
    return json_text(msgspec.json.encode(_finite(value)) + b"\n").encode()


def alarm(text: str) -> Text:
    """Text that says that something is wrong."""
    return Text(visible(text), "red")


def show_violation(output: "Output", rule: str, message: str, where: str, again: str) -> None:
    """Show a rule that was broken, what was seen and where, and the command that shows it again."""
    text = Text.assemble((rule, "bold red"), f" at {where}: {one_line(message)}")
    output.notes.print(text)
    output.notes.print(one_line(f"  again: {again}"), highlight=False, soft_wrap=True)


class Advance:
    """Moves what shows progress. Called as the checkers call ``on_progress``."""

    def __init__(self, shown: "_Bar | _Lines", label: str) -> None:
        """Start something of unknown length."""
        self._shown, self._label = shown, label

    def __call__(self, done: int, total: int | None, label: str | None = None) -> None:
        """Say that ``done`` of ``total`` steps are done (``None``: unknown), and what is going on now."""
        self._label = self._label if label is None else label
        self._shown.show(done, total, self._label)


class _Bar:
    """A bar on a terminal."""

    def __init__(self, bars: Progress, label: str) -> None:
        self._bars = bars
        self._task = bars.add_task(label, total=None)

    def show(self, done: int, total: int | None, label: str) -> None:
        self._bars.update(self._task, completed=done, total=total, description=label)


class _Lines:
    """A line every few seconds, for a file or a pipe; none for what is done sooner."""

    def __init__(self, notes: Console) -> None:
        self._notes = notes
        self._began = self._said = time.monotonic()

    def show(self, done: int, total: int | None, label: str) -> None:
        now = time.monotonic()
        if now - self._said < LINE_SECONDS:
            return
        self._said = now
        count = "" if total is None else f", {done:,} of {total:,}"
        self._notes.print(one_line(f"{label}{count}, {now - self._began:,.0f} s"), highlight=False, soft_wrap=True)


class _HarmlessConsole(Console):
    """A console that obeys nothing in what it is given to print. Styles come as `Text`, never as markup."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print, or say that it cannot be done: what is found is still to be written, and has a status of its own."""
        try:
            super().print(*objects, **options)
        except BrokenPipeError:
            raise
        except OSError as error:
            silence(self.file)
            if not self.stderr:
                not_written("standard output", error)

    def render_str(self, text: str, **options: Any) -> Text:
        """Make text of a string: here, before it is laid out, so that columns are as wide as what stands in them."""
        return super().render_str(visible(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render anything. All that is printed comes through here, however it was made.

        A table that is wider than the terminal breaks what stands in its cells, and loses no digit of it.
        """
        if isinstance(renderable, Table):
            for column in renderable.columns:
                column.no_wrap, column.overflow = False, "fold"
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)


def _console(*, stderr: bool) -> Console:
    """Return a console. In a file or a pipe a table has the room that it needs, whatever the terminal's width is."""
    console = _HarmlessConsole(stderr=stderr, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = max(console.width, PIPE_WIDTH)
    return console


def _finite(value: Any) -> Any:
    """Return ``value`` with what JSON lacks replaced: numbers that are not finite by null, no characters by escapes."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_finite(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
