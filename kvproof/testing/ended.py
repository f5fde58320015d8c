"""Who ends a run is heeded, and told what was found until then.

An interruption is an exception that comes anywhere, so it may be lost: in a call that catches all, in `__del__`, in
what a collector of garbage calls. Whoever does one thing after the other asks between them whether one came.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["heeding", "status", "with_found"]

_DEFAULTS = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
"""What these do where nobody says something else. Handlers of others are left alone."""

_told: list[int] = []
"""The signals that the run was told to end by."""


@contextmanager
def heeding() -> Iterator[Callable[[], None]]:
    """Take SIGTERM for an interruption, and give what raises one that came and was lost."""
    _told.clear()
    mine: dict[signal.Signals, object] = {}
    if threading.current_thread() is threading.main_thread():  # No other one may say what a signal does.
        mine = {number: usual for number, usual in _DEFAULTS.items() if signal.getsignal(number) == usual}
    for number in mine:
        signal.signal(number, _hear)
    try:
        yield _check
        _check()
    finally:
        for number in mine:
            if signal.getsignal(number) is _hear:
                signal.signal(number, _DEFAULTS[number])


def _hear(number: int, _frame: FrameType | None) -> None:
    """Break off what goes on. SIGTERM may come twice, as `timeout` tells a command and then its group."""
    again = number in _told
    _told.append(number)
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    if not again:
        raise KeyboardInterrupt("SIGTERM")


def _check() -> None:
    if _told:
        raise KeyboardInterrupt(*(["SIGTERM"] if signal.SIGTERM in _told else []))


def status() -> int | None:
    """The status of a process that SIGTERM ended, where that is what ended this run."""
    return 128 + signal.SIGTERM if signal.SIGTERM in _told else None


def with_found(error: KeyboardInterrupt, stories: Iterable[str]) -> None:
    """Let an interruption tell what was found before it: its notes are shown by pytest, and by Python itself."""
    for story in stories:
        error.add_note(f"found before the interruption:\n{story.rstrip()}\n")
