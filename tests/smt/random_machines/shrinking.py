"""From a machine that shows something to a small one that still does: pieces are left out as long as it is seen."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from .machines import MachineText
from .text import Piece, pieces

__all__ = ["shrunk"]

MOST = 400
"""So many smaller texts are tried."""


def shrunk(text: MachineText, is_seen: Callable[[MachineText], bool], *, most: int = MOST) -> MachineText:
    """A text from which nothing can be left out without losing what is seen; the larger pieces go first.

    ``is_seen`` says whether a text shows it still; whatever it raises means no.
    """
    left = most
    while True:
        smaller = next((t for t in _smaller(text) if (left := left - 1) >= 0 and _holds(is_seen, t)), None)
        if smaller is None:
            return text
        text = smaller


def _holds(is_seen: Callable[[MachineText], bool], text: MachineText) -> bool:
    try:
        return is_seen(text)
    except Exception:  # a text that lacks what it needs is no smaller example
        return False


def _smaller(text: MachineText) -> list[MachineText]:
    """Texts with one piece less, or with a block's lines in the place of the block."""
    every = [p for p in pieces(text.classes) if p is not text.classes[0]]
    by_size = sorted(every, key=lambda p: -sum(1 for _ in pieces([p])))
    found = [text.without(p) for p in by_size]
    found += [_opened(text, p) for p in every if p.tag in ("when", "otherwise")]
    used = " ".join(p.text for p in pieces(text.classes))
    spare = [s for s in text.sorts if not re.search(rf"\b{s.split()[1].split('(')[0]}\b", used)]
    return [replace(text, sorts=[s for s in text.sorts if s not in spare])] * bool(spare) + found


def _opened(text: MachineText, block: Piece) -> MachineText:
    """What stands in the block happens without it."""

    def left(some: list[Piece]) -> list[Piece]:
        kept: list[Piece] = []
        for p in some:
            kept += (
                left(p.inside or []) if p is block else [p if p.inside is None else replace(p, inside=left(p.inside))]
            )
        return kept

    return replace(text, classes=left(text.classes))
