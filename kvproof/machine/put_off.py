"""What a text puts off, and what nobody does then: what stands in it would be lost.

A generator does nothing before somebody goes through it, a manager of blocks nothing before a `with` enters what it
made, a `partial` nothing before it is called. One that is left where it was made, or that gets a name which is never
read, be it in a list, does nothing at all.
"""

from __future__ import annotations

import dis
import inspect
import itertools
import operator
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import partial
from types import CodeType, FunctionType

from .instructions import (
    CALLS,
    begun_with,
    called_at,
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
        if _MAY_BE_LEFT.search(numbers_of(one)):
            steps = steps_of(one)
            unread = _never_read(one, steps)
            for i, step in enumerate(steps):
                if step.opcode in _GIVERS and _comes_to_nothing(steps, i, unread):
                    number, text = place(one, step)
                    if what := _what_is_due(_made_at(steps, i, names, machine), text):
                        yield number, what


def _never_read(code: CodeType, steps: Sequence[dis.Instruction]) -> frozenset[str]:
    """Names that are bound in the function and read nowhere."""
    reads = (step for step in steps if "LOAD_FAST" in step.opname or step.opname == "DELETE_FAST")
    read = {name for step in reads for name in names_of(step)}
    return frozenset(code.co_varnames[code.co_argcount :]) - read


def _comes_to_nothing(steps: Sequence[dis.Instruction], i: int, unread: Set[str]) -> bool:
    """Nobody does anything with what was made here, nor with a list in which it stands."""
    user = user_of(steps, i)
    while user is not None and steps[user].opname in ("BUILD_LIST", "BUILD_TUPLE"):
        user = user_of(steps, user)
    if user is None:
        return False
    return steps[user].opname == "POP_TOP" or (steps[user].opname == "STORE_FAST" and steps[user].argval in unread)


def _made_at(steps: Sequence[dis.Instruction], i: int, names: Mapping[str, object], machine: type) -> object:
    """What is called here, as far as the text shows it; or a function that is only read, as a method of a state."""
    step = steps[i]
    if step.opcode in CALLS:
        return called_at(step, steps[:i], names, machine)
    if step.opname == "LOAD_GLOBAL":
        return _Read(names.get(step.argval))
    is_own = [s.argval for s in begun_with(step, steps[:i])] == ["self"]
    return _Read(inspect.getattr_static(machine, step.argval, None) if is_own else None)


class _Read:
    """What a name stands for, where it is read and not called."""

    def __init__(self, value: object) -> None:
        self.value = value


def _what_is_due(made: object, text: str) -> str | None:
    """What nobody does with it; None: it does something by itself."""
    if isinstance(made, _Read):
        return f"{text} is a function that is never called: {_LOST}" if isinstance(made.value, FunctionType) else None
    if is_a_generator(made) or any(made is one for one in _TO_GO_THROUGH):
        return f"nobody goes through `{text}`: write a loop"
    if opens_a_block(made):
        return f"nobody enters `{text}`: write `with {text}:`"
    return f"nobody calls what `{text}` makes: {_LOST}" if any(made is one for one in _TO_BE_CALLED) else None


_LOST = "what it says would be lost"
_GIVERS = CALLS + numbers_for(("LOAD_GLOBAL", "LOAD_ATTR", "LOAD_METHOD").__contains__)
_BUILT = one_of(numbers_for(("BUILD_LIST", "BUILD_TUPLE").__contains__))
_MAY_BE_LEFT = re.compile(one_of(_GIVERS) + _BUILT + b"*" + one_of(numbers_for(("POP_TOP", "STORE_FAST").__contains__)))
