"""How much of a stream is followed at most: names come from outside, and each that is new takes memory."""

from __future__ import annotations

__all__ = ["TooMuchError", "check_room"]


class TooMuchError(ValueError):
    """The stream says that more is cached, or names more, than is followed. The message is a sentence."""


def check_room(have: int, most: int, what: str) -> None:
    """See whether there is room for one more.

    Raises:
        TooMuchError: there is none.
    """
    if have >= most:
        raise TooMuchError(f"the stream names more than {most:,} {what}, the most that are followed")
