"""The text of a machine as a tree of lines, from which lines can be taken away."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

__all__ = ["Piece", "lines", "pieces", "replaced_names"]


@dataclass(eq=False)
class Piece:
    """A line, with the lines of the block that it opens; ``closing`` ends a block that is no Python block."""

    text: str
    inside: list[Piece] | None = None
    closing: str = ""
    tag: str = ""
    """What it is, where something has to know: ``invariant``, ``step``, ``fact``, ``action`` …"""
    name: str = ""
    more: list[str] = field(default_factory=list)
    """Lines that belong to it and come before it, such as a decorator."""


def pieces(all_of: list[Piece]) -> Iterator[Piece]:
    """Every piece, those inside others too."""
    for piece in all_of:
        yield piece
        yield from pieces(piece.inside or [])


def lines(all_of: list[Piece], depth: int = 0) -> Iterator[tuple[str, Piece]]:
    """The text, line by line, each with the piece that it belongs to."""
    margin = "    " * depth
    for piece in all_of:
        for line in (*piece.more, piece.text):
            yield margin + line, piece
        if piece.inside is not None:
            yield from lines(piece.inside, depth + 1)
            if not piece.inside and not piece.closing:
                yield margin + "    pass", piece
        if piece.closing:
            yield margin + piece.closing, piece


def replaced_names(text: str, by: Mapping[str, str]) -> str:
    """The text with whole names replaced; what follows a dot is no name."""
    if not by:
        return text
    pattern = r"(?<![\w.\"])(" + "|".join(map(re.escape, sorted(by, key=len, reverse=True))) + r")(?!\w)"
    return re.sub(pattern, lambda found: by[found.group(1)], text)
