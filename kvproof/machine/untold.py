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
import operator
import re
from collections import ChainMap
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, pairwise
from types import CodeType, FunctionType, ModuleType
from weakref import WeakSet

from .as_types import said_as_types
from .classbody import MARK
from .imported import modules_imported_in
from .instructions import (
    CALLS,
    FILLERS,
    begun_with,
    called_at,
    is_a_generator,
    names_of,
    numbers_for,
    numbers_of,
    one_of,
    place,
    steps_of,
    with_those_inside,
)
from .made import made_in_vain
from .mistakes import Line, MachineError, is_tool
from .overwritten import keys_that_stand_twice, overwritten_values
from .put_off import put_off_for_ever
from .source import IS, does, function_of, is_of_others, never_run, returns_at_last
from .uncalled import uncalled_functions
from .wrapped import functions_in

__all__ = ["names_in", "refuse_untold", "texts_of"]


def refuse_untold(functions: Iterable[FunctionType], machine: type) -> None:
    """Neither in these functions of a machine nor in those that they may call is anything of that kind.

    Raises:
        MachineError: it is in one; the line is where.
    """
    seen = [*texts_of(functions, but=_looked_through)]
    for function in seen:
        code = function.__code__
        for number, text in chain(
            _mistakes(code), _mistakes_with_names(function, machine), uncalled_functions(function, machine)
        ):
            raise MachineError(text, Line(code.co_filename, number))
    _looked_through.update(seen)


def texts_of(functions: Iterable[FunctionType], but: Container[FunctionType] = ()) -> Iterator[FunctionType]:
    """These functions of a machine and those that they may call, without what is no text of a machine."""
    todo, seen = [*functions], set[FunctionType]()
    while todo:
        function = todo.pop()
        if function not in seen and function not in but:
            seen.add(function)
            if not is_of_others(function.__code__.co_filename):
                yield function
            todo += _called(function)


_looked_through: WeakSet[FunctionType] = WeakSet()
"""Functions that ask no `is`, nor does anything that they call: many machines inherit them."""


@cache
def _mistakes(code: CodeType) -> tuple[tuple[int, str], ...]:
    """The lines, and what is wrong there; also of what is defined inside."""
    found = [*_identities(code), *_left_values(code), *_never_run(code), *_one_round(code), *_bound_outside(code)]
    if code.co_flags & inspect.CO_COROUTINE:
        found.append((code.co_firstlineno, f"{code.co_name} is an `async def`, which is not run where it is called"))
    return (*found, *(one for inside in code.co_consts if isinstance(inside, CodeType) for one in _mistakes(inside)))


def _identities(code: CodeType) -> Iterator[tuple[int, str]]:
    for step in dis.get_instructions(code) if does(code, IS) else ():
        if step.opname.endswith(IS):
            number, text = place(code, step)
            yield number, f"Python decides `{text}` while the machine is read: compare values with == and !="


def _bound_outside(code: CodeType) -> Iterator[tuple[int, str]]:
    """Names of the module that are bound anew."""
    if _BINDS.search(numbers_of(code)):
        for step in steps_of(code):
            if step.opname in _BINDERS:
                yield place(code, step)[0], _OUTLIVES.format(step.argval)


def _bound_around(code: CodeType) -> Iterator[tuple[int, str]]:
    """Names of what stands around the text that are bound anew."""
    for inside in with_those_inside(code) if code.co_freevars else ():
        for step in steps_of(inside):
            if step.opname in ("STORE_DEREF", "DELETE_DEREF") and step.argval in code.co_freevars:
                yield place(inside, step)[0], _OUTLIVES.format(step.argval)


_BINDERS = ("STORE_GLOBAL", "DELETE_GLOBAL")
_BINDS = re.compile(one_of(numbers_for(_BINDERS.__contains__)))
_OUTLIVES = (
    "{} outlives this text, which is read once and not for each step, and is bound anew by it: keep it as a part of "
    "the state"
)


def _never_run(code: CodeType) -> Iterator[tuple[int, str]]:
    """Lines that stand behind an end, what is returned in the place of something else, and what is taken for a type."""
    behind = ((number, _BEHIND) for number in never_run(code.co_filename))
    at_last = ((number, _RETURNED) for number in returns_at_last(code.co_filename))
    found = [*behind, *at_last, *said_as_types(code.co_filename)]
    function = function_of(code) if found else None
    for number, text in found:
        if function is not None and function.lineno <= number <= (function.end_lineno or 0):
            yield number, text


def _one_round(code: CodeType) -> Iterator[tuple[int, str]]:
    """Loops of which each way through the first round leaves them, as where a `return` is indented too far."""
    if not _LOOPS.search(numbers_of(code)):
        return
    steps = steps_of(code)
    goes_on = {step.argval for step in steps if "BACKWARD" in step.opname}
    for i, step in enumerate(steps):
        if step.opname == "FOR_ITER":
            begin = next(j for j in range(i, -1, -1) if j == 0 or steps[j - 1].opname != "EXTENDED_ARG")
            if steps[begin].offset not in goes_on:
                yield place(code, step)[0], "this loop is left in its first round, so what it says of others is lost"


_LOOPS = re.compile(one_of(numbers_for("FOR_ITER".__eq__)))

_BEHIND = "this stands behind the end of its block, and is never run: put it before, or leave it out"
_RETURNED = "a `return` in a `finally` takes the place of what was to be returned before: return it with that"


def _left_values(code: CodeType) -> Iterator[tuple[int, str]]:
    """Comparisons, sums and reads with which nothing is done."""
    if _LEFT.search(numbers_of(code)):
        steps = steps_of(code)
        for i, step in enumerate(steps):
            if step.opcode in _VALUES and _is_left(steps[i + 1 : i + 3]):
                number, text = place(code, step)
                yield number, f"nothing is done with `{text}`: require it, write it or return it"


def _mistakes_with_names(function: FunctionType, machine: type) -> Iterator[tuple[int, str]]:
    """Those that are one only because of what a name stands for, or because a property only says something."""
    names = ChainMap(function.__globals__, vars(builtins))
    says_only = getattr(function, MARK, {"kind": "action"})["kind"] != "action"
    for code in with_those_inside(function.__code__):
        if not _TELLERS.isdisjoint(code.co_names):
            yield from _told_apart(code, names)
        if _LEFT_CALL.search(numbers_of(code)):
            yield from _left_calls(code, names, machine, says_only)
        if not _TOGETHER.isdisjoint(code.co_names):
            yield from _cut_short(code, names, machine)
        if says_only and "next" in code.co_names:
            yield from _first_alone(code, names, machine)
    if says_only:
        yield from _unread(function.__code__)
        yield from overwritten_values(function.__code__)
    yield from keys_that_stand_twice(function.__code__)
    yield from put_off_for_ever(function.__code__, names, machine)
    yield from _bound_around(function.__code__)
    yield from made_in_vain(function.__code__)


_TELLERS = {"id", "is_", "is_not"}
"""What tells objects apart that are equal."""


def _told_apart(code: CodeType, names: Mapping[str, object]) -> Iterator[tuple[int, str]]:
    steps = steps_of(code)
    imports = any(step.opname == "IMPORT_NAME" and step.argval in ("operator", "builtins") for step in steps)
    for step, after in pairwise(steps):
        value = names.get(step.argval) if step.opname == "LOAD_GLOBAL" else None
        if (value is operator or value is builtins) and after.argval in _TELLERS:
            value = getattr(value, after.argval, None)
        is_imported = imports and step.opname in _PARTS and step.argval in _TELLERS
        # A term would be equal to nothing.
        if is_imported or any(value is teller for teller in (id, operator.is_, operator.is_not)):
            yield place(code, step)[0], "Python tells objects apart while the machine is read: compare with == and !="


_PARTS = ("IMPORT_FROM", "LOAD_ATTR", "LOAD_METHOD")


def _left_calls(
    code: CodeType, names: Mapping[str, object], machine: type, says_only: bool
) -> Iterator[tuple[int, str]]:
    """Calls of what does nothing but return something, with which nothing is done."""
    steps = steps_of(code)
    for i, step in enumerate(steps):
        if step.opcode in CALLS and _is_left(steps[i + 1 : i + 3]) and not _ends_a_block(steps, i):
            number, text = place(code, step)
            called = called_at(step, steps[:i], names, machine)
            if called is all or called is any or called is next:
                yield number, f"`{text}` goes no further than it must for its answer, and nobody asks: write a loop"
            elif says_only and not _fills(steps, i):
                yield number, f"nothing is done with `{text}`: return it with what else is said"
            elif not says_only and _makes_a_term(called):
                yield number, f"nothing is done with `{text}`: require it, write it or return it"


def _ends_a_block(steps: Sequence[dis.Instruction], call: int) -> bool:
    """It is Python that calls here, at the end of a `with`: it gives three times none, which stand nowhere in the
    text but where the whole block does."""
    given = [step for step in steps[max(call - 4, 0) : call] if step.opname.startswith("LOAD_")][-3:]
    return len(given) == 3 and all(step.argval is None and step.positions == steps[call].positions for step in given)


def _first_alone(code: CodeType, names: Mapping[str, object], machine: type) -> Iterator[tuple[int, str]]:
    """Calls of `next` that take the first of what a generator of the text's own says."""
    steps = steps_of(code)
    for i, step in enumerate(steps):
        if step.opcode in CALLS and called_at(step, steps[:i], names, machine) is next:
            before = [j for j in range(i - 2, i) if steps[j].opcode in CALLS]  # nothing else stands between the two
            called = called_at(steps[before[-1]], steps[: before[-1]], names, machine) if before else None
            if isinstance(called, FunctionType) and is_a_generator(called):
                number, text = place(code, step)
                yield number, f"`{text}` takes the first alone, and what else is said would be lost: go through all"


def _cut_short(code: CodeType, names: Mapping[str, object], machine: type) -> Iterator[tuple[int, str]]:
    """Calls of what ends with the shortest of several lists, and of which nothing says whether one may be longer: `zip`
    without `strict=`, and `map` of more than one."""
    steps = steps_of(code)
    for i, step in enumerate(steps):
        called = called_at(step, steps[:i], names, machine) if step.opcode in CALLS else None
        if called is zip:
            named = [code.co_consts[s.arg or 0] for s in steps[max(i - 2, 0) : i] if s.opname in _KEYWORDS]
            if not any("strict" in keywords for keywords in named if isinstance(keywords, tuple)):
                number, text = place(code, step)
                yield number, f"`{text}` leaves out what is longer than the shortest: say `strict=True`, or False"
        elif called is map and (step.opname == "CALL_FUNCTION_EX" or (step.arg or 0) > _ONE_LIST):
            number, text = place(code, step)
            how = "go through `zip(…, strict=True)` instead"
            yield number, f"`{text}` leaves out what is longer than the shortest: {how}"


_TOGETHER = {"zip", "map"}
"""What goes through several lists at once."""

_ONE_LIST = 2
"""Arguments of a `map` of one list: the function, and that."""

_KEYWORDS = ("KW_NAMES", "LOAD_CONST")
"""What names, right before a call, the keywords of its last arguments."""


def _fills(steps: Sequence[dis.Instruction], call: int) -> bool:
    """It puts something into a list, or the like, of the text's own, which is read where nothing is put into it."""
    begun = begun_with(steps[call], steps[:call])
    name = begun[0].argval if begun and begun[0].opname in _OWN else None
    reads = [i for i, step in enumerate(steps) if step.opname in _OWN and step.argval == name]
    return [s.argval in FILLERS for s in begun[1:2]] == [True] and any(
        steps[i + 1].argval not in FILLERS for i in reads
    )


_OWN = ("LOAD_FAST", "LOAD_DEREF", "LOAD_CLOSURE")


def _is_left(after: Sequence[dis.Instruction]) -> bool:
    """Nothing is done with what was computed right before, be it that a comma behind it makes a tuple of it."""
    is_in_tuple = len(after) > 1 and after[0].opname == "BUILD_TUPLE"
    return any(step.opname == "POP_TOP" for step in after[is_in_tuple : is_in_tuple + 1])


def _makes_a_term(called: object) -> bool:
    """It is one of the language's own, which does nothing else. What opens a block is known by its `with`."""
    if not isinstance(called, FunctionType) or not is_tool(called.__code__.co_filename):
        return False
    return called.__annotations__.get("return") in ("Bool", "Int", "Real", "T")


def _unread(code: CodeType) -> Iterator[tuple[int, str]]:
    """Names of values that are computed, and never read."""
    steps = steps_of(code)
    read = {name for step in steps if step.opname.startswith("LOAD_") for name in names_of(step)}
    read |= {name for inside in with_those_inside(code) for name in inside.co_freevars}
    for step, after in pairwise(steps):
        name = after.argval if after.opname == "STORE_FAST" and step.opcode in CALLS + _VALUES else "_"
        if name not in read and not name.startswith("_"):
            yield place(code, after)[0], f"nothing is done with {name}: return it with what else is said"


_ALONE = one_of(numbers_for("BUILD_TUPLE".__eq__)) + b"?" + one_of(numbers_for("POP_TOP".__eq__))
_LEFT_CALL = re.compile(one_of(CALLS) + _ALONE)
_VALUE_MAKERS = ("COMPARE_OP", "CONTAINS_OP", "BINARY_OP", "BINARY_SUBSCR", "LOAD_ATTR")
_VALUES = numbers_for(lambda name: name in _VALUE_MAKERS or name.startswith("UNARY_"))
_LEFT = re.compile(one_of(_VALUES) + _ALONE)


def _called(function: FunctionType) -> Iterator[FunctionType]:
    """The functions that it may call: by names of its module or of what it imports itself, as parts of these, as its
    defaults, and by what it closes over. What others have made, as Python's decorators do, calls nothing of a text's
    but the last of these."""
    names = names_in(function.__code__)
    for cell in function.__closure__ or ():
        try:
            yield from _functions_of(cell.cell_contents, names)
        except ValueError:  # nothing is in it yet
            continue
    if not is_of_others(function.__code__.co_filename):
        given = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
        for value in (*map(function.__globals__.get, names), *given, *modules_imported_in(function)):
            yield from _functions_of(value, names)


@cache
def names_in(code: CodeType) -> frozenset[str]:
    """The names of the module, and of parts of something, that it speaks of, and what is defined in it."""
    return frozenset().union(*(one.co_names for one in with_those_inside(code)))


def _functions_of(value: object, names: frozenset[str], depth: int = 4) -> Iterator[FunctionType]:
    """Of a module only what is named is called, also where that is a module inside of a package."""
    if not isinstance(value, ModuleType):
        yield from functions_in(value)
    elif depth and not is_of_others(getattr(value, "__file__", None) or inspect.__file__):
        for inside in (vars(value)[name] for name in names & vars(value).keys()):
            yield from _functions_of(inside, names, depth - 1)
