"""The instructions of a function's code: what they are, where they stand, and what they do with a value.

The text of a machine is looked through by its instructions, whether or not its source is at hand; to parse the source
takes longer than all that is looked for.
"""

from __future__ import annotations

import dis
import inspect
import linecache
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from types import CodeType, FunctionType, ModuleType

__all__ = [
    "CALLS",
    "FILLERS",
    "MAKERS",
    "begun_with",
    "call_at",
    "called_at",
    "ends_a_block",
    "is_a_generator",
    "names_of",
    "numbers_for",
    "numbers_of",
    "one_of",
    "opens_a_block",
    "place",
    "steps_of",
    "user_of",
    "with_those_inside",
]


def numbers_for(wanted: Callable[[str], bool]) -> bytes:
    """The numbers of the instructions with these names; those of 256 and more stand in no code."""
    return bytes(number for name, number in dis.opmap.items() if number < 256 and wanted(name))


def one_of(numbers: bytes) -> bytes:
    """What one of these numbers matches in a regular expression."""
    return b"[" + re.escape(numbers) + b"]"


CALLS = numbers_for(("CALL", "CALL_KW", "CALL_FUNCTION_EX").__contains__)

FILLERS = {"add", "append", "appendleft", "extend", "insert", "update"}
"""What puts something into a list, or the like."""

MAKERS = ("MAKE_FUNCTION", "SET_FUNCTION_ATTRIBUTE")


def with_those_inside(code: CodeType) -> Iterator[CodeType]:
    """The code of a function, and that of all that is defined in it."""
    yield code
    for inside in code.co_consts:
        if isinstance(inside, CodeType):
            yield from with_those_inside(inside)


@cache
def numbers_of(code: CodeType) -> bytes:
    """Its instructions, each as a number: to look through these takes less than to name them."""
    return bytes(number for number in code.co_code[::2] if number)  # a 0 stands for no instruction


@lru_cache(64)  # it is asked for several times, of one function after the other
def steps_of(code: CodeType) -> list[dis.Instruction]:
    """Its instructions, without those that only keep room for others."""
    return [step for step in dis.get_instructions(code) if step.opname != "CACHE"]


def place(code: CodeType, step: dis.Instruction) -> tuple[int, str]:
    """The line of an instruction, and its text, or the name of the instruction where the source is not at hand."""
    at = step.positions
    if at is None or at.lineno is None:
        return code.co_firstlineno, step.opname
    end = at.end_col_offset if at.end_lineno == at.lineno else None
    line = linecache.getline(code.co_filename, at.lineno).encode()
    return at.lineno, line[at.col_offset : end].decode(errors="replace").strip() or step.opname


def called_at(
    step: dis.Instruction, before: Sequence[dis.Instruction], names: Mapping[str, object], machine: type
) -> object:
    """What is called: what a name stands for, a method of the machine, or the code of a generator that stands there."""
    begun = begun_with(step, before)
    if any(one.opcode in CALLS for one in begun):
        return None  # what is called is what another call has returned, or a part of that
    methods = [s.argval for s in begun if s.opname in ("LOAD_METHOD", "LOAD_ATTR")]
    for one in begun:
        if one.opname == "LOAD_GLOBAL":
            value = names.get(one.argval)
            return getattr(value, methods[0], None) if isinstance(value, ModuleType) and methods else value
        if isinstance(one.argval, CodeType) and one.positions == step.positions:
            return one.argval
    is_own = begun and begun[0].opname in ("LOAD_FAST", "LOAD_DEREF") and begun[0].argval == "self"
    return getattr(machine, methods[0], None) if is_own and len(methods) == 1 else None


def is_a_generator(called: object) -> bool:
    """What is called does nothing before somebody goes through what it returns."""
    code = called.__code__ if isinstance(called, FunctionType) else called
    return isinstance(code, CodeType) and bool(code.co_flags & inspect.CO_GENERATOR)


def opens_a_block(called: object) -> bool:
    """What is called does nothing, or not all, before a `with` enters what it returns."""
    if isinstance(called, FunctionType):
        return called.__code__ is _OF_MANAGERS
    return isinstance(called, type) and hasattr(called, "__enter__")


_OF_MANAGERS = contextmanager(lambda: iter(())).__code__
"""What Python puts around each function that becomes a manager of blocks."""


def names_of(step: dis.Instruction) -> tuple[object, ...]:
    """The names that it speaks of: Python 3.13 reads two in one instruction."""
    return step.argval if isinstance(step.argval, tuple) else (step.argval,)


def begun_with(step: dis.Instruction, before: Sequence[dis.Instruction]) -> list[dis.Instruction]:
    """The instructions of what begins where this one does, as a call does where what is called is named."""
    begin = _begin(step)
    return [s for s in before if _begin(s) == begin]


def _begin(step: dis.Instruction) -> tuple[int | None, int | None]:
    """The line and the column."""
    return (None, None) if step.positions is None else (step.positions.lineno, step.positions.col_offset)


def user_of(steps: Sequence[dis.Instruction], i: int) -> int | None:
    """The instruction that takes what this one has put onto the stack; None where the code branches before that."""
    above = 0
    """How many values lie above it."""
    for j in range(i + 1, len(steps)):
        step = steps[j]
        if "JUMP" in step.opname or step.opname == "FOR_ITER":
            return None
        if _taken_by(step) > above:
            return j
        above += dis.stack_effect(step.opcode, step.arg)
    return None


def ends_a_block(steps: Sequence[dis.Instruction], i: int) -> bool:
    """Whether this calls the end of a `with`, as Python does by itself, for no mistake: in Python 3.13 that stands in
    the text where what is entered does."""
    before = [step.argval for step in steps[max(i - 3, 0) : i] if step.opname == "LOAD_CONST"]
    return steps[i].opcode in CALLS and before == [None, None, None]


def call_at(steps: Sequence[dis.Instruction], user: int) -> int:
    """The instruction that calls, where this one takes an argument: in Python 3.11 another stands right before it."""
    return user + (steps[user].opname == "PRECALL")


def _taken_by(step: dis.Instruction) -> int:
    """How many values it takes from the stack: of those known that matter here, of the others at least."""
    count = step.arg or 0
    if step.opname in ("BUILD_LIST", "BUILD_TUPLE", "BUILD_SET", "BUILD_STRING"):
        return count
    if step.opname == "PRECALL" or (step.opcode in CALLS and "PRECALL" not in dis.opmap):
        return count + 2
    if step.opname in ("COMPARE_OP", "BINARY_OP", "CONTAINS_OP", "IS_OP", "BINARY_SUBSCR"):
        return 2
    return max(-dis.stack_effect(step.opcode, step.arg), int(step.opname in _CHANGES))


_CHANGES = ("LOAD_ATTR", "LOAD_METHOD", "GET_ITER", "YIELD_VALUE", "UNARY_NOT", "UNARY_INVERT", "UNARY_NEGATIVE")
"""They take a value, and put another one in its place."""
