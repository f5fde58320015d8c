"""Values that an action gives to a name of its own, and lists that it fills, of which nothing is ever read.

`level = 0` in place of `self.level.value = 0` writes nothing, and neither does what is put into a list of things to do
that nobody goes through. Of what is computed from a state it is seen while the text is run that nothing is made of it
(`lost.py`); of plain numbers, and of parts of the state, the code tells.
"""

from __future__ import annotations

import dis
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from types import CodeType, FunctionType

from .classbody import MARK
from .instructions import FILLERS, names_of, place, steps_of, with_those_inside
from .mistakes import Line, MachineError

__all__ = ["refuse_unread"]


def refuse_unread(texts: Iterable[FunctionType]) -> None:
    """None of these functions gives a name what nobody reads; of properties it is known already (`untold.py`).

    Raises:
        MachineError: one does; the line is where.
    """
    for function in texts:
        if getattr(function, MARK, _HELPER)["kind"] in ("action", "helper"):
            for number, text in _unread(function.__code__):
                raise MachineError(text, Line(function.__code__.co_filename, number))


_HELPER = {"kind": "helper"}


@cache
def _unread(code: CodeType) -> tuple[tuple[int, str], ...]:
    """The lines, and what is wrong there; also in what is defined inside."""
    return tuple(found for one in with_those_inside(code) for found in _unread_in(one))


def _unread_in(code: CodeType) -> Iterator[tuple[int, str]]:
    steps = steps_of(code)
    put_aside = {step.argval for step in steps if step.opname == "LOAD_FAST_AND_CLEAR"}
    """By a comprehension, and given back."""
    for i, after in enumerate(steps):
        if not after.opname.startswith("STORE_FAST"):
            continue
        for name, is_bound in zip(names_of(after), _WORDS.findall(after.opname), strict=True):
            if is_bound == "LOAD" or str(name).startswith("_") or name in put_aside:
                continue
            if name in names_of(after)[1:] and "LOAD" in after.opname:  # Python 3.13 reads it in the same instruction
                continue
            if _is_plain(steps, i) and not _reads(steps, i + 1, name):
                yield place(code, after)[0], f"{name} is never read again: write a part of the state, or leave it out"
            elif steps[i - 1].opname in _DISPLAYS and _is_only_filled(steps, name):
                yield place(code, after)[0], f"nobody reads what is put into {name}: what it says would be lost"


_WORDS = re.compile("LOAD|STORE")
_DISPLAYS = ("BUILD_LIST", "BUILD_MAP", "BUILD_SET")


def _is_plain(steps: Sequence[dis.Instruction], i: int) -> bool:
    """What is bound here is a number, a word, a value at hand or a part of something: to take it does nothing else.

    It may be one of several that are bound together, where these stand there; what a call gives, or a loop goes
    through, is named for what else is given.
    """
    source = i - 1
    while source >= 0 and (steps[source].opname.startswith("STORE_") or steps[source].opname in _HAND_ON):
        source -= 1
    step = steps[source]
    if source < i - 1 and step.opname in ("BUILD_TUPLE", "BUILD_LIST"):  # what stands there is taken apart again
        return True
    if step.opname.startswith("LOAD_CONST") or step.opname == "LOAD_SMALL_INT":
        return step.argval is not None
    return step.opname.startswith(_AT_HAND)


_HAND_ON = ("COPY", "SWAP", "UNPACK_SEQUENCE", "UNPACK_EX")
_AT_HAND = ("LOAD_ATTR", "LOAD_DEREF", "LOAD_FAST", "LOAD_GLOBAL", "BINARY_OP")


def _reads(steps: Sequence[dis.Instruction], begin: int, name: object) -> list[int]:
    """Where the name may be read from here on: in a loop, also before."""
    first = min([begin, *_turning_back(steps, begin)])
    return [i for i in range(first, len(steps)) if name in _read_by(steps[i])]


def _turning_back(steps: Sequence[dis.Instruction], begin: int) -> Iterator[int]:
    """Where those begin again that stand around this place."""
    for step in steps[begin:]:
        if "BACKWARD" in step.opname and step.argval <= steps[begin - 1].offset:
            yield next(i for i, one in enumerate(steps) if one.offset >= step.argval)


def _read_by(step: dis.Instruction) -> tuple[object, ...]:
    if "_FAST" not in step.opname:
        return ()
    if step.opname == "DELETE_FAST":  # nobody has it then
        return ()
    read = zip(names_of(step), _WORDS.findall(step.opname), strict=True)
    return tuple(name for name, word in read if word == "LOAD")


def _is_only_filled(steps: Sequence[dis.Instruction], name: object) -> bool:
    """Something is put into it, and nothing else is done with it."""
    reads = _reads(steps, 0, name)
    return bool(reads) and all(_is_filled(steps[i : i + 3]) for i in reads)


def _is_filled(behind: Sequence[dis.Instruction]) -> bool:
    """What is read first here gets an entry: by `append` and the like, or at a place."""
    read, then, last = [*behind, *[behind[-1]] * 2][:3]
    if len(names_of(read)) > 1:
        return False
    is_called = then.opname in ("LOAD_METHOD", "LOAD_ATTR") and then.argval in FILLERS
    return is_called or (then.opname.startswith("LOAD_") and last.opname == "STORE_SUBSCR")
