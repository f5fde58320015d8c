"""What was found before an interruption: it goes along with the exception, to whoever tells how a run ended."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["with_found"]


def with_found(error: KeyboardInterrupt, stories: Iterable[str]) -> None:
    """Let an interruption tell what was found before it: its notes are shown by pytest, and by Python itself."""
    for story in stories:
        error.add_note(f"found before the interruption:\n{story.rstrip()}\n")
