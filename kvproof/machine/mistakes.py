"""Mistakes in the text of a machine, and the line of the text on which they are made."""

from __future__ import annotations

import contextlib
import os
import sys
from dataclasses import dataclass
from functools import cache
from types import FrameType
from typing import ClassVar

__all__ = [
    "Line",
    "MachineError",
    "MissingPartError",
    "caller",
    "calling_frame",
    "is_asked_by_a_text",
    "is_tool",
    "refuse_keeping",
]

_HERE = os.path.dirname(os.path.abspath(__file__))


@cache
def is_tool(file: str) -> bool:
    """A file of the modelling language, or the standard library's `with`."""
    return os.path.dirname(os.path.abspath(file)) == _HERE or file == contextlib.__file__


@dataclass(frozen=True)
class Line:
    """A place in the text of a machine."""

    file: str
    number: int

    def __str__(self) -> str:
        return f"{os.path.basename(self.file)}:{self.number}"


def caller() -> Line:
    """The innermost line outside the modelling language: the line of the machine that is being read."""
    frame = calling_frame()
    return Line(frame.f_code.co_filename, frame.f_lineno)


def calling_frame() -> FrameType:
    """The innermost function outside the modelling language."""
    frame = sys._getframe(1)
    while frame.f_back is not None and is_tool(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


class MachineError(Exception):
    """A mistake in the text of a machine; the message names the action or property, and the line."""

    where_in: ClassVar[str] = ""
    """The text that is being read; empty where none is."""
    made: ClassVar[list[MachineError]] = []
    """Those that were made since that reading began: a text that catches one has been decided by Python."""

    def __init__(self, message: str, line: Line | None = None) -> None:
        line = line or caller()
        inside = f" in {MachineError.where_in}" if MachineError.where_in else ""
        super().__init__(f"{line}{inside}: {message}")
        self.line = line
        if MachineError.where_in:
            MachineError.made.append(self)


class MissingPartError(MachineError, AttributeError):
    """The text of a machine names something that the machine, or a part or a value of it, does not have."""


def refuse_keeping(what: str) -> None:
    """Refuse that a text puts something under this into a dict, as `functools.cache` does with what it is given.

    Raises:
        MachineError: it is the text of a machine that asked for the hash.
    """
    if MachineError.where_in and not is_tool(sys._getframe(2).f_code.co_filename):
        raise MachineError(
            f"{what} is no key of a dict, nor of what `functools.cache` keeps: what was read of it would stay as it "
            "was when something else has been written; read it anew"
        )


def is_asked_by_a_text() -> bool:
    """Whether it is the text of a machine, while that is read, that called the method in which this is asked."""
    return bool(MachineError.where_in) and not is_tool(sys._getframe(2).f_code.co_filename)
