"""What a text puts off, and what nobody does then: what stands in it would be lost.

A generator does nothing before somebody goes through it, a manager of blocks nothing before a `with` enters what it
made, a `partial` or a lambda nothing before it is called. One that is left where it was made, or that gets a name which
is never read, be it in a list, does nothing at all.
"""

from __future__ import annotations

import atexit
import inspect
import itertools
import operator
import re
import weakref
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import pairwise
from types import CodeType, FunctionType

from .instructions import (
    CALLS,
    MAKERS,
    begun_with,
    called_at,
    ends_a_block,
    is_a_generator,
    names_of,
    numbers_for,
    numbers_of,
    one_of,
    opens_a_block,
    place,
    steps_of,
    user_of,
    with_those_inside,
)

__all__ = ["put_off_for_ever"]

_TO_GO_THROUGH = (map, filter, zip, enumerate, itertools.chain, itertools.starmap, itertools.islice)
_TO_BE_CALLED = (partial, operator.methodcaller)


def put_off_for_ever(code: CodeType, names: Mapping[str, object], machine: type) -> Iterator[tuple[int, str]]:
    """The lines, and what is wrong there; also in what is defined inside."""
    for one in with_those_inside(code):
        if _MAY_BE_LEFT.search(numbers_of(one)) or not _AFTERWARDS.isdisjoint(one.co_names):
            yield from _Looked(one, names, machine).found()


class _Looked:
    """The code of a function that is looked through."""

    def __init__(self, code: CodeType, names: Mapping[str, object], machine: type) -> None:
        self.code, self.names, self.machine = code, names, machine
        self.steps = steps_of(code)
        reads = (step for step in self.steps if "LOAD_FAST" in step.opname)
        self.unread = frozenset(code.co_varnames[code.co_argcount :]).difference(*map(names_of, reads))
        """The names that are bound there and read nowhere."""
        self.defined = {
            after.argval: self._code_made(i + 1)
            for i, (step, after) in enumerate(pairwise(self.steps[1:]))
            if step.opname in MAKERS and after.opname in ("STORE_FAST", "STORE_DEREF")
        }
        """By name: the code of the functions that are defined there."""

    def found(self) -> Iterator[tuple[int, str]]:
        """The lines, and what is wrong there."""
        for i, step in enumerate(self.steps):
            if step.opcode in CALLS and self._is_done_afterwards(i):
                number, text = place(self.code, step)
                yield number, f"`{text}` is done when all has been read: {_LOST}"
            elif step.opcode in _GIVERS and self._comes_to_nothing(i) and not ends_a_block(self.steps, i):
                number, text = place(self.code, step)
                what = self._never_called(i, text) if step.opcode not in CALLS else self._never_begun(i, text)
                if what is not None:
                    yield number, what

    def _is_done_afterwards(self, i: int) -> bool:
        """What it is given is called by Python at some later time, and by no text."""
        called = self._called(i)
        return any(called is one for one in (atexit.register, weakref.finalize))

    def _comes_to_nothing(self, i: int) -> bool:
        """Nobody does anything with what was made here, nor with a list in which it stands."""
        user = user_of(self.steps, i)
        while user is not None and self.steps[user].opname in ("BUILD_LIST", "BUILD_TUPLE"):
            user = user_of(self.steps, user)
        if user is None:
            return False
        step = self.steps[user]
        return step.opname == "POP_TOP" or (step.opname == "STORE_FAST" and step.argval in self.unread)

    def _never_called(self, i: int, text: str) -> str | None:
        """It is a function that is only read, or made and not defined with a name of its own (`made.py`)."""
        step = self.steps[i]
        if step.opname in MAKERS:
            is_one = self.steps[i + 1].opname != "STORE_FAST"
        elif step.opname == "LOAD_GLOBAL":
            is_one = isinstance(self.names.get(step.argval), FunctionType)
        else:
            is_own = [s.argval for s in begun_with(step, self.steps[:i])] == ["self"]
            is_one = is_own and isinstance(inspect.getattr_static(self.machine, step.argval, None), FunctionType)
        return f"{text} is a function that is never called: {_LOST}" if is_one else None

    def _never_begun(self, i: int, text: str) -> str | None:
        """What is called does nothing by itself."""
        called = self._called(i)
        if is_a_generator(called) or any(called is one for one in _TO_GO_THROUGH):
            return f"nobody goes through `{text}`: write a loop"
        if opens_a_block(called):
            return f"nobody enters `{text}`: write `with {text}:`"
        return f"nobody calls what `{text}` makes: {_LOST}" if any(called is one for one in _TO_BE_CALLED) else None

    def _called(self, i: int) -> object:
        """What is called, as far as the text shows it."""
        begun = begun_with(self.steps[i], self.steps[:i])
        read = [step.argval for step in begun if step.opname.startswith("LOAD_")]
        if len(read) == 1 and read[0] in self.defined:
            return self.defined[read[0]]
        return called_at(self.steps[i], self.steps[:i], self.names, self.machine)

    def _code_made(self, i: int) -> CodeType | None:
        """The code of the function that is made here."""
        return next((s.argval for s in reversed(self.steps[:i]) if isinstance(s.argval, CodeType)), None)


_AFTERWARDS = {"register", "finalize"}
_LOST = "what it says would be lost"
_GIVERS = CALLS + numbers_for(("LOAD_GLOBAL", "LOAD_ATTR", "LOAD_METHOD", *MAKERS).__contains__)
_BUILT = one_of(numbers_for(("BUILD_LIST", "BUILD_TUPLE").__contains__))
_MAY_BE_LEFT = re.compile(one_of(_GIVERS) + _BUILT + b"*" + one_of(numbers_for(("POP_TOP", "STORE_FAST").__contains__)))
