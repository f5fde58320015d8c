"""Who ends a run is heeded, and told what was found until then.

What a signal raises comes anywhere, so it may be lost: in a call that catches all, in `__del__`, in what a collector of
garbage calls. Whoever does one thing after the other asks between them whether something came.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

__all__ = ["heeding", "status", "with_found"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)
"""What ends a test: pytest-timeout and others set a timer."""

_raised: list[BaseException] = []
"""What the handlers of these raised in this run."""

_told: list[int] = []
"""SIGTERM, as often as the run was told to end by it."""


@contextmanager
def heeding() -> Iterator[Callable[[], None]]:
    """Take SIGTERM for an interruption, and give what raises again what a signal had raised before."""
    _raised.clear()
    _told.clear()
    before: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():  # No other one may say what a signal does.
        before = {number: signal.getsignal(number) for number in _SIGNALS}
    mine = {number: _noted(does) for number, theirs in before.items() if callable(does := _does(number, theirs))}
    for number, noted in mine.items():
        signal.signal(number, noted)
    try:
        yield _check
        _check()
    except BaseException:
        _check()  # Hypothesis takes what came while it drew for a failure, and says so in words of its own.
        raise
    finally:
        for number, noted in mine.items():
            if signal.getsignal(number) is noted:
                signal.signal(number, before[number])


def _does(number: int, theirs: Any) -> Any:
    return _end if number == signal.SIGTERM and theirs == signal.SIG_DFL else theirs


def _end(number: int, _frame: object) -> None:
    """Break off what goes on, once: `timeout` tells a command, and then its group."""
    _told.append(number)
    if len(_told) == 1:
        raise KeyboardInterrupt("SIGTERM")


def _noted(does: Callable[[int, FrameType | None], Any]) -> Callable[[int, FrameType | None], None]:
    def hear(number: int, frame: FrameType | None) -> None:
        try:
            does(number, frame)
        except BaseException as error:
            _raised.append(error)
            raise

    return hear


def _check() -> None:
    if _raised:
        raise _raised[0] from None


def status() -> int | None:
    """The status of a process that SIGTERM ended, where that is what ended this run."""
    return 128 + signal.SIGTERM if _told else None


def with_found(error: BaseException, stories: Iterable[str]) -> None:
    """Let what ends a run tell what was found before it: its notes are shown by pytest, and by Python itself."""
    for story in stories:
        error.add_note(f"found before the interruption:\n{story.rstrip()}\n")
