"""Text of others, made harmless: what a terminal, a reader's eye or a file system would obey is written out instead."""

import re

from . import limits

__all__ = ["file_stem", "json_text", "one_line", "visible"]

_LAYOUT = frozenset("\n\t")
"""What is no letter and still may be shown as it is: lines and columns."""

_UNSAFE_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


def visible(text: str) -> str:
    r"""Return the text with everything that is not a printable character written as an escape: ``\x1b``, ``\u202e``.

    So a terminal obeys nothing in it: no control character, no escape sequence, no change of direction, nothing of no
    width. Lines and tabs stay. What is printable is what Python prints of a string as it is.
    """
    return text if text.isprintable() else "".join(c if c.isprintable() or c in _LAYOUT else _escape(c) for c in text)


def one_line(text: str, most: int = limits.SHOWN_LETTERS) -> str:
    """Return the text as one line that is shown: as `visible`, line ends and tabs too, and cut where it is too long.

    Whoever sends a text could else write lines of the kit's own.
    """
    left = len(text) - most
    text = text[:most]
    shown = text if text.isprintable() else "".join(c if c.isprintable() else _escape(c) for c in text)
    return shown if left <= 0 else f"{shown}… ({left:,} letters more)"


def json_text(data: bytes) -> str:
    """Return JSON as text that means the same and has printable characters and line ends only."""
    text = data.decode()
    return text if text.isprintable() else "".join(c if c.isprintable() or c == "\n" else _unit(c) for c in text)


def file_stem(text: str) -> str:
    """Return a file name made from the text, without an ending: letters, digits, dots, hyphens; never a path, never
    hidden, never empty."""
    return _UNSAFE_IN_NAMES.sub("-", text)[:120].strip("-.") or "unnamed"


def _escape(character: str) -> str:
    """A character as Python writes it in a string."""
    return character.encode("unicode_escape").decode("ascii")


def _unit(character: str) -> str:
    """A character as JSON writes it in a string: one or two units of sixteen bits."""
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
