"""Conditions, and numbers, that a text makes and does nothing with: what they say would be lost.

There are more ways to lose one than the look of a code shows: it is left out when a tuple is taken apart, another one
takes its place in a dict, a helper does not use its argument, or takes the first of several. All have one thing in
common, that is seen while the text is run: nothing is made of the condition, and no statement holds it. So it is with a
number that was computed, as where `n += 1` gives a name of the text's own what a part of the state was to hold.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FrameType, GeneratorType
from typing import TYPE_CHECKING, ClassVar

from . import operations as op
from .instructions import steps_of
from .kept import Kept
from .mistakes import Line, MachineError, caller, calling_frame

if TYPE_CHECKING:
    from .terms import Term

__all__ = ["Conditions"]


class Conditions:
    """Those that were made since a text began, and of which nothing has been made yet."""

    current: ClassVar[Conditions | None] = None
    """Those of the text that is being read; none where nobody asks what becomes of them."""

    def __init__(self) -> None:
        self._outside = calling_frame()
        """What has asked for the machine, and is none of its text."""
        self._unused: dict[int, tuple[Term, Line]] = {}
        """By identity, in the order in which they were made, with the line of the text that did."""
        self._begun: dict[int, tuple[FrameType, Line]] = {}
        """By identity: what gives conditions one by one, and where it gave the first, or was called."""

    @classmethod
    @contextmanager
    def noted(cls, text: str | None = None) -> Iterator[Conditions]:
        """While this lasts, it is noted which conditions the text of this name makes, and which are used."""
        made = cls()
        with Kept.noted(text), cls._in_place(made):
            yield made

    @classmethod
    @contextmanager
    def unheard(cls) -> Iterator[None]:
        """While this lasts, a text is run for something else than all that it says."""
        with cls._in_place(None):
            yield

    @classmethod
    @contextmanager
    def _in_place(cls, made: Conditions | None) -> Iterator[None]:
        before, cls.current = cls.current, made
        try:
            yield
        finally:
            cls.current = before

    def note(self, term: Term, *, is_condition: bool) -> None:
        """The term was made, of those that its operation names. What has a name only says nothing by itself."""
        for value in term.operation.values():
            for part in value if isinstance(value, tuple) else (value,):
                self._unused.pop(id(part), None)
        said = term.operation
        if isinstance(said, _COMPUTED) or (is_condition and not isinstance(said, op.Constant | op.Variable)):
            frame = calling_frame()
            self._unused[id(term)] = term, Line(frame.f_code.co_filename, frame.f_lineno)
            self._note_frame(frame)

    def note_write(self) -> None:
        """Something is about to be required or written."""
        self._note_frame(calling_frame())

    def _note_frame(self, frame: FrameType) -> None:
        """What stands behind this in a generator is done only if somebody goes on with it."""
        if frame is not self._outside and frame.f_code.co_flags & inspect.CO_GENERATOR:
            self._begun.setdefault(id(frame), (frame, Line(frame.f_code.co_filename, frame.f_lineno)))

    def note_begun(self, generator: GeneratorType[object, object, object]) -> None:
        """A method of the machine will give its conditions, or do its writes, one by one."""
        if generator.gi_frame is not None:
            self._begun[id(generator.gi_frame)] = generator.gi_frame, caller()

    def use(self, *terms: Term) -> None:
        """These are part of what the text says, or something else stands for them."""
        for term in terms:
            self._unused.pop(id(term), None)

    def check(self, said: Iterable[Term]) -> None:
        """Nothing is left but what the text says.

        Raises:
            MachineError: a condition is no part of that, or would not even have been made.
        """
        for frame, line in self._begun.values():
            if not _has_returned(frame):
                name = "this" if frame.f_code.co_name.startswith("<") else f"{frame.f_code.co_name}(…)"
                raise MachineError(f"nobody goes through {name} to its end, so what it says last would be lost", line)
        self.use(*said)
        for term, line in self._unused.values():
            raise MachineError(
                f"nothing is done with {term!r}, so what it says would be lost: require it, write it or return it; "
                f"{_NEEDLESS[isinstance(term.operation, _COMPUTED)]}",
                line,
            )


_COMPUTED = op.Add | op.Subtract | op.Multiply | op.Divide | op.FloorDivide | op.Modulo | op.Ite
"""What a text makes on purpose, unlike a read, which the language makes by itself."""


_NEEDLESS = ("make no condition where it is not needed", "compute nothing where it is not needed")


def _has_returned(generator: FrameType) -> bool:
    """It came to its end, and was not left where it gave something."""
    ends = (step.opname for step in steps_of(generator.f_code) if step.offset == generator.f_lasti)
    return next(ends, "").startswith("RETURN_") and generator.f_lasti >= 0
