"""What the text of a machine does of which nothing tells while it is read: found in its code, and refused.

Of two terms `is` says only whether they were made at once, and of one whether it is Python's None, which none is; a
pattern `case None` asks the same, and no method of theirs is called. Nor is one where a value is computed and left, as
in a line `self.x.value == n` that should have been a write; and what is written in an `async def` is not even run. The
code is looked through, whether or not its source is at hand.
"""

from __future__ import annotations

import dis
import inspect
import linecache
import re
import sysconfig
from collections.abc import Iterable, Iterator
from functools import cache, partial
from itertools import pairwise
from types import CodeType, FunctionType, MethodType, ModuleType
from weakref import WeakSet

from .mistakes import Line, MachineError, is_tool
from .source import IS, does

__all__ = ["refuse_untold"]


def refuse_untold(functions: Iterable[FunctionType]) -> None:
    """Neither in these functions nor in those that they may call is anything of that kind.

    Raises:
        MachineError: it is in one; the line is where.
    """
    todo, seen = [*functions], set[FunctionType]()
    while todo:
        function = todo.pop()
        if function in seen or function in _looked_through or _is_of_others(function.__code__.co_filename):
            continue
        seen.add(function)
        for number, text in _mistakes(function.__code__):
            raise MachineError(text, Line(function.__code__.co_filename, number))
        todo += _called(function)
    _looked_through.update(seen)


_looked_through: WeakSet[FunctionType] = WeakSet()
"""Functions that ask no `is`, nor does anything that they call: many machines inherit them."""


@cache
def _is_of_others(file: str) -> bool:
    """The language itself, Python's library, or a package that is installed: none is the text of a machine."""
    places = (sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    return is_tool(file) or any(file.startswith(place) for place in places)


@cache
def _mistakes(code: CodeType) -> tuple[tuple[int, str], ...]:
    """The lines, and what is wrong there; also of what is defined inside."""
    found = [*_identities(code), *_left_values(code)]
    if code.co_flags & inspect.CO_COROUTINE:
        found.append((code.co_firstlineno, f"{code.co_name} is an `async def`, which is not run where it is called"))
    return (*found, *(one for inside in code.co_consts if isinstance(inside, CodeType) for one in _mistakes(inside)))


def _identities(code: CodeType) -> Iterator[tuple[int, str]]:
    for step in dis.get_instructions(code) if does(code, IS) else ():
        if step.opname.endswith(IS):
            number, text = _place(code, step)
            yield number, f"Python decides `{text}` while the machine is read: compare values with == and !="


def _left_values(code: CodeType) -> Iterator[tuple[int, str]]:
    """Comparisons, sums and reads with which nothing is done."""
    if _LEFT.search(bytes(number for number in code.co_code[::2] if number)):  # a 0 stands for no instruction
        steps = [step for step in dis.get_instructions(code) if step.opname != "CACHE"]
        for step, after in pairwise(steps):
            if step.opcode in _VALUES and after.opname == "POP_TOP":
                number, text = _place(code, step)
                yield number, f"nothing is done with `{text}`: require it, write it or return it"


_VALUES = bytes(
    number
    for name, number in dis.opmap.items()
    if name in ("COMPARE_OP", "CONTAINS_OP", "BINARY_OP", "BINARY_SUBSCR", "LOAD_ATTR") or name.startswith("UNARY_")
)
_LEFT = re.compile(b"[" + re.escape(_VALUES) + b"]" + re.escape(bytes([dis.opmap["POP_TOP"]])))


def _place(code: CodeType, step: dis.Instruction) -> tuple[int, str]:
    """The line of an instruction, and its text, or the name of the instruction where the source is not at hand."""
    at = step.positions
    if at is None or at.lineno is None:
        return code.co_firstlineno, step.opname
    end = at.end_col_offset if at.end_lineno == at.lineno else None
    line = linecache.getline(code.co_filename, at.lineno).encode()
    return at.lineno, line[at.col_offset : end].decode(errors="replace").strip() or step.opname


def _called(function: FunctionType) -> Iterator[FunctionType]:
    """The functions that it may call: by names of its module, as parts of these, and by what it closes over."""
    names = _names(function.__code__)
    yield from (f for name in names for f in _functions_in(function.__globals__.get(name), names))
    for cell in function.__closure__ or ():
        try:
            yield from _functions_in(cell.cell_contents, names)
        except ValueError:  # nothing is in it yet
            continue


@cache
def _names(code: CodeType) -> frozenset[str]:
    inside = [_names(c) for c in code.co_consts if isinstance(c, CodeType)]
    return frozenset(code.co_names).union(*inside)


def _functions_in(value: object, names: frozenset[str]) -> Iterator[FunctionType]:
    """Of a module only what is named is called."""
    if isinstance(value, FunctionType):
        yield value
    elif isinstance(value, MethodType):
        yield from _functions_in(value.__func__, names)
    elif isinstance(value, partial):
        yield from _functions_in(value.func, names)
    elif isinstance(value, ModuleType):
        if not _is_of_others(getattr(value, "__file__", None) or inspect.__file__):
            yield from (f for name in names for f in _functions_in(vars(value).get(name), frozenset()))
    elif isinstance(value, type):
        yield from (f for f in vars(value).values() if isinstance(f, FunctionType))
    elif type(value).__module__ != "builtins":
        yield from _functions_in(type(value), names)
