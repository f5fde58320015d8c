"""What a campaign shows while it lasts: a table on a terminal, else a line for what is new and one now and then."""

import time
from types import TracebackType

from rich import box
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ...untrusted.text import one_line
from ..output import Output
from .causes import Cause, Parting
from .running import Campaign, Running

__all__ = ["View", "duration"]

_SECONDS = 60.0
"""Between two lines about what is going on, where there is no terminal."""


class View:
    """Shows a campaign. A context manager."""

    def __init__(self, output: Output, campaign: Campaign, seconds: float) -> None:
        """Show a campaign of so many seconds."""
        self._output, self._campaign, self._seconds = output, campaign, seconds
        self._live = Live(console=output.notes, transient=True, auto_refresh=False)
        self._terminal = output.notes.is_terminal
        self._said = time.monotonic()
        self._told = 0
        self._done = (0, 0)
        self._last_new: float | None = None

    def __enter__(self) -> "View":
        if self._terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._terminal:
            self._live.stop()

    def line(self, text: str) -> None:
        """Say something, above what is shown."""
        self._output.notes.print(one_line(text), highlight=False, soft_wrap=not self._terminal)

    def show(self, causes: list[Cause], partings: list[Parting], done: tuple[int, int]) -> None:
        """Show what was found and how many cases and steps the slices did that are over."""
        self._last_new = max((*(c.after for c in causes), *(p.first.after for p in partings)), default=None)
        self._done = done
        if self._terminal:
            self._live.update(Group(self._table(), Text(one_line(self._sums(causes, partings)))), refresh=True)
        elif time.monotonic() - self._said > _SECONDS:
            self._said = time.monotonic()
            self.line(f"{self._sums(causes, partings)}; now {'; '.join(map(_now, self._campaign.running)) or 'idle'}")

    def _table(self) -> Table:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for column in ("searched now", "level"):
            table.add_column(column)
        for column in ("cases", "steps", "for"):
            table.add_column(column, justify="right")
        for each in self._campaign.running:
            examples, steps = _counts(each)
            level = each.level or f"starting {', '.join(each.order.plan.levels)}"
            past = duration(time.monotonic() - each.began)
            table.add_row(each.order.plan.target, level, f"{examples:,}", f"{steps:,}", past)
        return table

    def _sums(self, causes: list[Cause], partings: list[Parting]) -> str:
        elapsed = self._campaign.elapsed
        counts = [self._done, *map(_counts, self._campaign.running)]
        examples, steps = sum(cases for cases, _ in counts), sum(steps for _, steps in counts)
        news = sum(not cause.expected for cause in causes) + len(partings)
        expected = sum(cause.expected for cause in causes)
        known = f" and {expected} that are known" if expected else ""
        last = "none yet" if self._last_new is None else f"{duration(elapsed - self._last_new)} ago"
        lost = f", {self._campaign.lost} processes lost" if self._campaign.lost else ""
        return (
            f"{duration(elapsed)} of {duration(self._seconds)}: {news} causes{known}, the last new one {last}; "
            f"{examples:,} cases, {steps:,} steps{lost}"
        )


def _counts(each: Running) -> tuple[int, int]:
    """Cases and steps of a slice under way."""
    return sum(told.examples for told in each.told.values()), sum(told.steps for told in each.told.values())


def _now(each: Running) -> str:
    return f"{each.order.plan.target} {each.level or 'starting'}"


def duration(seconds: float) -> str:
    """A time in words: ``1 h 05 min``, ``3 min 20 s``, ``12 s``."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"
