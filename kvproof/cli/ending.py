"""How a command ends that is told to: by an interruption, or by SIGTERM. Whatever it started ends with it."""

import signal

from .unheard import aside

__all__ = ["INTERRUPTED", "came_of_an_interruption", "check_not_ended", "ended", "heed_nothing_more", "heed_the_end"]

INTERRUPTED = 130
"""The status of a program that ended by an interruption, as shells have it."""

_told: list[int] = []
"""The signal that told this process to end, if one did."""


def heed_the_end() -> None:
    """Take SIGTERM for an interruption: sessions close, and end the drivers that they started.

    It cannot be a SystemExit: Hypothesis takes that for a failure of what it tests, and goes on.
    """
    signal.signal(signal.SIGTERM, _end)


def heed_nothing_more() -> None:
    """Let a process that is at its end come to it: an interruption would break off what others do there (torch)."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _end(number: int, _frame: object) -> None:
    """To be told once is enough: a second time (`timeout` tells a command, then its group) would break the end off."""
    signal.signal(number, signal.SIG_IGN)
    _told.append(number)
    raise KeyboardInterrupt


def check_not_ended() -> None:
    """Begin nothing in a process that was told to end.

    Raises:
        KeyboardInterrupt: it was.
    """
    if _told:
        raise KeyboardInterrupt


def came_of_an_interruption(error: BaseException | None) -> bool:
    """Whether an exception came while an interruption was handled: one within Python's locks ends in another."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def ended() -> int:
    """Say that the command was ended, and return the status for it."""
    if _told:
        aside("kvproof: ended")
        return 128 + _told[-1]
    aside("kvproof: interrupted")
    return INTERRUPTED
