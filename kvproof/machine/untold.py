"""What the text of a machine does of which nothing tells while it is read: found in its code, and refused.

Of two terms `is` says only whether they were made at once, and so do `id` and `operator.is_`; of one, whether it is
Python's None, which none is; a pattern `case None` asks the same, and no method of theirs is called. Nor is one where a
value is computed and left, as in a line `self.x.value == n` that should have been a write, or a claim that should have
been returned with another. What is written in an `async def` is not even run where it is called, nor what is written in
a generator that nobody goes through. The code is looked through, whether or not its source is at hand.
"""

from __future__ import annotations

import builtins
import dis
import inspect
import linecache
import operator
import re
import sysconfig
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import cache, lru_cache, partial
from itertools import pairwise
from types import CodeType, FunctionType, MethodType, ModuleType
from weakref import WeakSet

from .classbody import MARK
from .mistakes import Line, MachineError, is_tool
from .source import IS, does, function_of, never_run

__all__ = ["refuse_untold"]


def refuse_untold(functions: Iterable[FunctionType], machine: type) -> None:
    """Neither in these functions of a machine nor in those that they may call is anything of that kind.

    Raises:
        MachineError: it is in one; the line is where.
    """
    todo, seen = [*functions], set[FunctionType]()
    while todo:
        function = todo.pop()
        if function in seen or function in _looked_through or _is_of_others(function.__code__.co_filename):
            continue
        seen.add(function)
        for number, text in (*_mistakes(function.__code__), *_mistakes_with_names(function, machine)):
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
    found = [*_identities(code), *_left_values(code), *_never_run(code)]
    if code.co_flags & inspect.CO_COROUTINE:
        found.append((code.co_firstlineno, f"{code.co_name} is an `async def`, which is not run where it is called"))
    return (*found, *(one for inside in code.co_consts if isinstance(inside, CodeType) for one in _mistakes(inside)))


def _identities(code: CodeType) -> Iterator[tuple[int, str]]:
    for step in dis.get_instructions(code) if does(code, IS) else ():
        if step.opname.endswith(IS):
            number, text = _place(code, step)
            yield number, f"Python decides `{text}` while the machine is read: compare values with == and !="


def _never_run(code: CodeType) -> Iterator[tuple[int, str]]:
    lines = never_run(code.co_filename)
    function = function_of(code) if lines else None
    for number in lines:
        if function is not None and function.lineno <= number <= (function.end_lineno or 0):
            yield number, "this stands behind the end of its block, and is never run: put it before, or leave it out"


def _left_values(code: CodeType) -> Iterator[tuple[int, str]]:
    """Comparisons, sums and reads with which nothing is done."""
    if _LEFT.search(_numbers(code)):
        steps = _steps(code)
        for i, step in enumerate(steps):
            if step.opcode in _VALUES and _is_left(steps[i + 1 : i + 3]):
                number, text = _place(code, step)
                yield number, f"nothing is done with `{text}`: require it, write it or return it"


def _mistakes_with_names(function: FunctionType, machine: type) -> Iterator[tuple[int, str]]:
    """Those that are one only because of what a name stands for, or because a property only says something."""
    names = ChainMap(function.__globals__, vars(builtins))
    says_only = getattr(function, MARK, {"kind": "action"})["kind"] != "action"
    made = frozenset().union(*map(_functions_made, _with_those_inside(function.__code__)))
    for code in _with_those_inside(function.__code__):
        if made or _TESTED.search(_numbers(code)):
            yield from _tested_functions(code, names, machine, made)
        if not _TELLERS.isdisjoint(code.co_names):
            yield from _told_apart(code, names)
        if _LEFT_CALL.search(_numbers(code)):
            yield from _left_calls(code, names, machine, says_only)
    if says_only:
        yield from _unread(function.__code__)


def _with_those_inside(code: CodeType) -> Iterator[CodeType]:
    yield code
    for inside in code.co_consts:
        if isinstance(inside, CodeType):
            yield from _with_those_inside(inside)


_TELLERS = {"id", "is_", "is_not"}
"""What tells objects apart that are equal."""


def _told_apart(code: CodeType, names: Mapping[str, object]) -> Iterator[tuple[int, str]]:
    for step, after in pairwise(_steps(code)):
        value = names.get(step.argval) if step.opname == "LOAD_GLOBAL" else None
        if value is operator and after.argval in _TELLERS:
            value = getattr(operator, after.argval)
        if any(value is teller for teller in (id, operator.is_, operator.is_not)):  # a term would be equal to nothing
            yield _place(code, step)[0], "Python tells objects apart while the machine is read: compare with == and !="


def _tested_functions(
    code: CodeType, names: Mapping[str, object], machine: type, made: Set[str]
) -> Iterator[tuple[int, str]]:
    """Functions that should have been called: each is true for Python, and equal to nothing else."""
    steps = _steps(code)
    states = {*code.co_varnames[: code.co_argcount][:2], "self", "before"}
    for i, step in enumerate(steps):
        if step.opname == "LOAD_GLOBAL":
            value = names.get(step.argval)
        elif step.opname == "LOAD_ATTR" and steps[i - 1].argval in states:
            value = inspect.getattr_static(machine, step.argval, None)
        else:
            value = None
        is_function = isinstance(value, FunctionType | staticmethod | classmethod)
        is_made_here = step.opname in ("LOAD_FAST", "LOAD_DEREF") and step.argval in made
        if (is_function or is_made_here) and _is_tested([s.opname for s in steps[i + 1 : i + 3]]):
            text = f"{step.argval} is a function, which Python takes for true: call it, as in {step.argval}(…)"
            yield _place(code, step)[0], text


@cache
def _functions_made(code: CodeType) -> frozenset[str]:
    """The names of the functions that are defined in this one."""
    if not _MADE.search(_numbers(code)):
        return frozenset()
    return frozenset(
        after.argval
        for step, after in pairwise(_steps(code))
        if step.opname in _MAKERS and after.opname in ("STORE_FAST", "STORE_DEREF")
    )


def _is_tested(after: Sequence[str]) -> bool:
    """What was just read is asked for its truth, or compared: by these instructions."""
    first, second = [*after, "", ""][:2]
    is_one_load = first.startswith("LOAD_") and "LOAD_" not in first[1:]  # Python 3.13 reads two names in one
    is_compared = first == "COMPARE_OP" or (is_one_load and second == "COMPARE_OP")
    return is_compared or _asks_for_truth(first) or (first == "COPY" and _asks_for_truth(second))


def _asks_for_truth(name: str) -> bool:
    return name in ("UNARY_NOT", "TO_BOOL") or ("JUMP" in name and name.endswith(("TRUE", "FALSE", "OR_POP")))


def _left_calls(
    code: CodeType, names: Mapping[str, object], machine: type, says_only: bool
) -> Iterator[tuple[int, str]]:
    """Calls of what does nothing but return something, with which nothing is done."""
    steps = _steps(code)
    for i, step in enumerate(steps):
        if step.opcode in _CALLS and _is_left(steps[i + 1 : i + 3]):
            number, text = _place(code, step)
            called = _called_at(step, steps[:i], names, machine)
            if called is map or called is filter or _is_a_generator(called):
                yield number, f"nobody goes through `{text}`: write a loop"
            elif says_only:
                yield number, f"nothing is done with `{text}`: return it with what else is said"
            elif _makes_a_term(called):
                yield number, f"nothing is done with `{text}`: require it, write it or return it"


def _is_left(after: Sequence[dis.Instruction]) -> bool:
    """Nothing is done with what was computed right before, be it that a comma behind it makes a tuple of it."""
    is_alone = len(after) > 1 and after[0].opname == "BUILD_TUPLE" and after[0].arg == 1
    return any(step.opname == "POP_TOP" for step in after[is_alone : is_alone + 1])


def _called_at(
    step: dis.Instruction, before: Sequence[dis.Instruction], names: Mapping[str, object], machine: type
) -> object:
    """What is called: what a name stands for, a method of the machine, or the code of a generator that stands there."""
    begin = _begin(step)
    begun = [s for s in before if _begin(s) == begin]
    for one in begun:
        if one.opname == "LOAD_GLOBAL":
            return names.get(one.argval)
        if isinstance(one.argval, CodeType) and one.positions == step.positions:
            return one.argval
    methods = [s.argval for s in begun if s.opname in ("LOAD_METHOD", "LOAD_ATTR")]
    is_own = begun and begun[0].opname in ("LOAD_FAST", "LOAD_DEREF") and begun[0].argval == "self"
    return getattr(machine, methods[0], None) if is_own and len(methods) == 1 else None


def _begin(step: dis.Instruction) -> tuple[int | None, int | None]:
    """The line and the column."""
    return (None, None) if step.positions is None else (step.positions.lineno, step.positions.col_offset)


def _is_a_generator(called: object) -> bool:
    code = called.__code__ if isinstance(called, FunctionType) else called
    return isinstance(code, CodeType) and bool(code.co_flags & inspect.CO_GENERATOR)


def _makes_a_term(called: object) -> bool:
    """It is one of the language's own, which does nothing else. What opens a block is known by its `with`."""
    if not isinstance(called, FunctionType) or not is_tool(called.__code__.co_filename):
        return False
    return called.__annotations__.get("return") in ("Bool", "Int", "Real", "T")


def _unread(code: CodeType) -> Iterator[tuple[int, str]]:
    """Names of values that are computed, and never read."""
    steps = _steps(code)
    read = {name for step in steps if step.opname.startswith("LOAD_") for name in _argument_names(step)}
    read |= {name for inside in _with_those_inside(code) for name in inside.co_freevars}
    for step, after in pairwise(steps):
        name = after.argval if after.opname == "STORE_FAST" and step.opcode in _CALLS + _VALUES else "_"
        if name not in read and not name.startswith("_"):
            yield _place(code, after)[0], f"nothing is done with {name}: return it with what else is said"


def _argument_names(step: dis.Instruction) -> tuple[object, ...]:
    """Python 3.13 reads two names in one instruction."""
    return step.argval if isinstance(step.argval, tuple) else (step.argval,)


_CALLS = bytes(number for name, number in dis.opmap.items() if name in ("CALL", "CALL_KW", "CALL_FUNCTION_EX"))
_FUNCTIONS = bytes(dis.opmap[name] for name in ("LOAD_ATTR", "LOAD_GLOBAL"))
_TESTS = bytes(number for name, number in dis.opmap.items() if _asks_for_truth(name) or name in ("COPY", "COMPARE_OP"))
_TESTED = re.compile(b"[" + re.escape(_FUNCTIONS) + b"].?[" + re.escape(_TESTS) + b"]", re.DOTALL)
_MAKERS = ("MAKE_FUNCTION", "SET_FUNCTION_ATTRIBUTE")
_MADE = re.compile(
    b"["
    + re.escape(bytes(number for name, number in dis.opmap.items() if name in _MAKERS))
    + b"]["
    + re.escape(bytes(dis.opmap[name] for name in ("STORE_FAST", "STORE_DEREF")))
    + b"]"
)
_ALONE = b"]" + re.escape(bytes([dis.opmap["BUILD_TUPLE"]])) + b"?" + re.escape(bytes([dis.opmap["POP_TOP"]]))
_LEFT_CALL = re.compile(b"[" + re.escape(_CALLS) + _ALONE)
_VALUES = bytes(
    number
    for name, number in dis.opmap.items()
    if name in ("COMPARE_OP", "CONTAINS_OP", "BINARY_OP", "BINARY_SUBSCR", "LOAD_ATTR") or name.startswith("UNARY_")
)
_LEFT = re.compile(b"[" + re.escape(_VALUES) + _ALONE)


@cache
def _numbers(code: CodeType) -> bytes:
    """Its instructions, each as a number: to look through these takes less than to name them."""
    return bytes(number for number in code.co_code[::2] if number)  # a 0 stands for no instruction


@lru_cache(64)  # it is asked for several times, of one function after the other
def _steps(code: CodeType) -> list[dis.Instruction]:
    return [step for step in dis.get_instructions(code) if step.opname != "CACHE"]


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
    return frozenset().union(*(one.co_names for one in _with_those_inside(code)))


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
