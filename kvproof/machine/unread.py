"""Values that an action gives to a name of its own, and lists that it fills, of which nothing is ever read.

`level = 0` in place of `self.level.value = 0` writes nothing, and neither does what is put into a list of things to do
that nobody goes through. Of what is computed from a state it is seen while the text is run that nothing is made of it
(`lost.py`); of plain numbers, and of parts of the state, the code tells.
"""

from __future__ import annotations

import dis
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import pairwise
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
    for i, (step, after) in enumerate(pairwise(steps)):
        if not after.opname.startswith("STORE_FAST"):
            continue
        name, *read = names_of(after)  # Python 3.13 reads another name in the same instruction
        if name in read or str(name).startswith("_"):
            continue
        if _is_plain(step) and not _reads(steps, i + 2, name):
            yield place(code, after)[0], f"{name} is never read again: write a part of the state, or leave it out"
        elif step.opname in _DISPLAYS and _is_only_filled(steps, name):
            yield place(code, after)[0], f"nobody reads what is put into {name}: what it says would be lost"


_DISPLAYS = ("BUILD_LIST", "BUILD_MAP", "BUILD_SET")


def _is_plain(step: dis.Instruction) -> bool:
    """It gives a number, a word, or a part of something, and does nothing else."""
    is_constant = step.opname in ("LOAD_CONST", "LOAD_SMALL_INT") and isinstance(step.argval, int | str)
    return is_constant or step.opname in ("LOAD_ATTR", "BINARY_OP")


def _reads(steps: Sequence[dis.Instruction], begin: int, name: object) -> list[int]:
    """Where the name may be read from here on: in a loop, also before."""
    first = min([begin, *_turning_back(steps, begin)])
    return [i for i in range(first, len(steps)) if i != begin - 1 and name in _read_by(steps[i])]


def _turning_back(steps: Sequence[dis.Instruction], begin: int) -> Iterator[int]:
    """Where those begin again that stand around this place."""
    for step in steps[begin:]:
        if "BACKWARD" in step.opname and step.argval <= steps[begin - 1].offset:
            yield next(i for i, one in enumerate(steps) if one.offset >= step.argval)


def _read_by(step: dis.Instruction) -> tuple[object, ...]:
    if "_FAST" not in step.opname:
        return ()
    return names_of(step)[1:] if step.opname.startswith("STORE") else names_of(step)


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
