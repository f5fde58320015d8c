"""Who ends a run is heeded, and told what was found until then.

What a signal raises comes anywhere, so it may be lost: in a call that catches all, in `__del__`, in what a collector of
garbage calls. Whoever does one thing after the other asks between them whether something came.
"""

from __future__ import annotations

import os
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
"""Signals that would have ended the process, and ended the run."""


@contextmanager
def heeding() -> Iterator[Callable[[], None]]:
    """Take SIGTERM for an interruption, and give what raises again what a signal had raised before."""
    _raised.clear()
    _told.clear()
    before: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():  # No other one may say what a signal does.
        before = {number: signal.getsignal(number) for number in _SIGNALS}
    if before.get(signal.SIGALRM) == signal.SIG_DFL:
        del before[signal.SIGALRM]  # Nobody has a timer.
    mine = {number: _noted(does) for number, theirs in before.items() if callable(does := _does(theirs))}
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


def _does(theirs: Any) -> Any:
    """What a signal does, as a function: to end the process, as SIGTERM does, is to break off what goes on."""
    return _ending(os.getpid()) if theirs == signal.SIG_DFL else theirs


def _ending(process: int) -> Callable[[int, FrameType | None], None]:
    """What breaks off what goes on in this process. A copy of it, as a manager's own workers are, ends as it would."""

    def end(number: int, _frame: object) -> None:
        if os.getpid() != process:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        _told.append(number)
        if len(_told) == 1:  # `timeout` tells a command, and then its group.
            raise KeyboardInterrupt(signal.Signals(number).name)

    return end


def _noted(does: Callable[[int, FrameType | None], Any]) -> Callable[[int, FrameType | None], None]:
    def hear(number: int, frame: FrameType | None) -> None:
        try:
            does(number, frame)
        except BaseException as error:
            if not isinstance(error, Exception):  # That may be what a manager's own timer tells itself.
                _raised.append(error)
            raise

    return hear


def _check() -> None:
    if _raised:
        raise _raised[0] from None


def status() -> int | None:
    """The status of a process that SIGTERM ended, where that is what ended this run."""
    return 128 + _told[0] if _told else None


def with_found(error: BaseException, stories: Iterable[str]) -> None:
    """Let what ends a run tell what was found before it: its notes are shown by pytest, and by Python itself."""
    for story in stories:
        error.add_note(f"found before the interruption:\n{story.rstrip()}\n")
