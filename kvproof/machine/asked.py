"""What is written or required in a function that returns nothing, of which Python is asked whether that is true.

Of ``put(b) and put(c)`` Python never comes to the second: what returns nothing is false. Methods of a machine see to
it by themselves (`called.py`). Of all others, be they of a module, of a class, made in the text, or inside of something
else, it shows where they write: whoever has called them stands there, and what is made of what they return.
"""

from __future__ import annotations

import dis
import inspect
import sys
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from types import CodeType, FrameType

from .instructions import CALLS, names_of, place, steps_of
from .mistakes import Line, MachineError, is_tool
from .source import is_of_others

__all__ = ["NOTHING", "asks_for_truth", "is_asked", "refuse_asked", "returns_nothing"]

NOTHING = "`{}` returns nothing, which Python takes for false: what stands behind it would be left out"
"""What is said of such a call."""


def refuse_asked() -> None:
    """Refuse what is about to be taken down where it is done by a function that is asked so, or may be by a name.

    Raises:
        MachineError: it is; the line is where it is called.
    """
    called = frame = sys._getframe(1)
    is_nothing = returns_nothing(called.f_code)
    while frame.f_back is not None and not _is_reader(frame.f_code):
        frame = frame.f_back
        if frame.f_code.co_name == "__getattribute__":  # that has only found the property which is asked
            continue
        if is_nothing and not is_of_others(frame.f_code.co_filename):
            _refuse(frame, called.f_code.co_name)
        is_nothing = returns_nothing(frame.f_code) or (is_nothing and _passes_on(frame, called.f_code.co_name))
        called = frame


def _is_reader(code: CodeType) -> bool:
    """It has the text run: what called it is none of that."""
    return code.co_name in ("read", "reported") and is_tool(code.co_filename)


def _refuse(frame: FrameType, called: str) -> None:
    """Refuse a call that is asked; also of which the value is kept, if it is sure that the function itself was called,
    and not `list`, or the like, which makes something of what it returns."""
    asked = _asked(frame.f_code).get(frame.f_lasti)
    if asked is not None:
        step, is_kept = asked
        number, text = place(frame.f_code, step)
        if not is_kept or _names(text, called):
            raise MachineError(NOTHING.format(text), Line(frame.f_code.co_filename, number))


def _names(call: str, called: str) -> bool:
    """The text of a call has the name of what was called."""
    return call.partition("(")[0].rpartition(".")[2] == called


def _passes_on(frame: FrameType, called: str) -> bool:
    """What was called returns nothing, and that is what this returns."""
    step = _returned(frame.f_code).get(frame.f_lasti)
    return step is not None and _names(place(frame.f_code, step)[1], called)


@cache
def _returned(code: CodeType) -> dict[int, dis.Instruction]:
    """The calls of which the value is returned, as `_asked` has its own."""
    ends = ((step, after) for step, after in pairwise(steps_of(code)) if after.opname == "RETURN_VALUE")
    calls = ((step, range(step.offset, after.offset)) for step, after in ends if step.opcode in CALLS)
    return {at: step for step, room in calls for at in room}


_KEEPS = ("PRECALL", "KW_NAMES", "CALL", "CALL_KW", "BUILD_TUPLE", "BUILD_LIST", "BUILD_SET", "COMPARE_OP", "IS_OP")
"""What keeps a value, or makes something of it, that Python may be asked for later."""


@cache
def _asked(code: CodeType) -> dict[int, tuple[dis.Instruction, bool]]:
    """The instructions that call, or read what may call, and whose value is asked for its truth or kept; and whether it
    is the latter. By where they stand, with the room behind them, in which Python may say that it is."""
    steps = steps_of(code)
    found: dict[int, tuple[dis.Instruction, bool]] = {}
    for i, step in enumerate(steps[:-1]):
        if not (step.opcode in CALLS or step.opname == "LOAD_ATTR"):
            continue
        after = steps[i + 1]
        is_named = after.opname.startswith(("STORE_FAST", "STORE_DEREF")) and not str(names_of(after)[0]).startswith(
            "_"
        )
        is_kept = is_named or (after.opname in _KEEPS and step.opcode in CALLS)
        if is_kept or is_asked([s.opname for s in steps[i + 1 : i + 3]]):
            found |= dict.fromkeys(range(step.offset, after.offset), (step, is_kept))
    return found


def is_asked(after: Sequence[str]) -> bool:
    """A value is asked for its truth by the instructions behind it, or a copy of it is."""
    first, second = [*after, "", ""][:2]
    return asks_for_truth(first) or (first == "COPY" and asks_for_truth(second))


def asks_for_truth(name: str) -> bool:
    """The instruction of this name takes a value for true or false."""
    return name in ("UNARY_NOT", "TO_BOOL") or ("JUMP" in name and name.endswith(("TRUE", "FALSE", "OR_POP")))


@cache
def returns_nothing(code: CodeType) -> bool:
    """Every end of the function returns nothing; what a generator gives comes before its end."""
    if code.co_flags & inspect.CO_GENERATOR:
        return False
    steps = steps_of(code)
    values = [step for step, end in pairwise(steps) if end.opname == "RETURN_VALUE"]
    values += [step for step in steps if step.opname == "RETURN_CONST"]
    return bool(values) and all(step.opname.endswith("_CONST") and step.argval is None for step in values)
