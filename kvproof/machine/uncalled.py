"""Functions in the text of a machine that should have been called: each is true for Python, and equal to nothing else.

Found in the code: one that is asked for its truth or compared, by its own name or by one that it was given, and one
that stands in a list of which `all` or `any` asks that. Functions that a loop goes through are its own affair.
"""

from __future__ import annotations

import builtins
import dis
import inspect
import re
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cache
from itertools import pairwise
from types import CodeType, FunctionType

from .instructions import CALLS, called_at, numbers_of, place, steps_of, user_of, with_those_inside

__all__ = ["uncalled_functions"]


def uncalled_functions(function: FunctionType, machine: type) -> Iterator[tuple[int, str]]:
    """The lines, and what is wrong there; also in what is defined inside."""
    names = ChainMap(function.__globals__, vars(builtins))
    codes = [*with_those_inside(function.__code__)]
    made = frozenset().union(*map(_functions_made, codes))
    for code in codes:
        if made or _may_ask(code):
            yield from _asked_functions(code, names, machine, made)


def _may_ask(code: CodeType) -> bool:
    """It holds what can ask a function for its truth: to look at each instruction takes longer."""
    return not _ASKERS.keys().isdisjoint(code.co_names) or _TESTED.search(numbers_of(code)) is not None


_ASKERS = {"all": all, "any": any, "bool": bool}


def _asked_functions(
    code: CodeType, names: Mapping[str, object], machine: type, made: Set[str]
) -> Iterator[tuple[int, str]]:
    steps = steps_of(code)
    states = {*code.co_varnames[: code.co_argcount][:2], "self", "before"}

    def is_function(i: int) -> bool:
        step = steps[i]
        if step.opname == "LOAD_GLOBAL":
            value = names.get(step.argval)
        elif step.opname == "LOAD_ATTR" and steps[i - 1].argval in states:
            value = inspect.getattr_static(machine, step.argval, None)
        else:
            return step.opname in ("LOAD_FAST", "LOAD_DEREF") and step.argval in made
        return isinstance(value, FunctionType | staticmethod | classmethod)

    functions = [i for i in range(len(steps)) if is_function(i)]
    made = {*made, *(steps[i + 1].argval for i in functions if steps[i + 1].opname in _STORES)}
    for i in [i for i in range(len(steps)) if is_function(i)]:
        if _is_tested([s.opname for s in steps[i + 1 : i + 3]]) or _is_asked_in_a_call(i, steps, names, machine):
            text = f"{steps[i].argval} is a function, which Python takes for true: call it, as in {steps[i].argval}(…)"
            yield place(code, steps[i])[0], text


_STORES = ("STORE_FAST", "STORE_DEREF")


@cache
def _functions_made(code: CodeType) -> frozenset[str]:
    """The names of the functions that are defined in this one."""
    if not _MADE.search(numbers_of(code)):
        return frozenset()
    return frozenset(
        after.argval for step, after in pairwise(steps_of(code)) if step.opname in _MAKERS and after.opname in _STORES
    )


def _is_tested(after: Sequence[str]) -> bool:
    """What was just read is asked for its truth, or compared: by these instructions."""
    first, second = [*after, "", ""][:2]
    is_one_load = first.startswith("LOAD_") and "LOAD_" not in first[1:]  # Python 3.13 reads two names in one
    is_compared = first == "COMPARE_OP" or (is_one_load and second == "COMPARE_OP")
    return is_compared or _asks_for_truth(first) or (first == "COPY" and _asks_for_truth(second))


def _asks_for_truth(name: str) -> bool:
    return name in ("UNARY_NOT", "TO_BOOL") or ("JUMP" in name and name.endswith(("TRUE", "FALSE", "OR_POP")))


def _is_asked_in_a_call(i: int, steps: Sequence[dis.Instruction], names: Mapping[str, object], machine: type) -> bool:
    """What was just read goes into one of `_ASKERS`, be it in a list of that."""
    user = user_of(steps, i)
    while user is not None and steps[user].opname in ("BUILD_LIST", "BUILD_TUPLE", "BUILD_SET"):
        user = user_of(steps, user)
    if user is None:
        return False
    call = user + (steps[user].opname == "PRECALL")  # in Python 3.11 that stands right before the call
    return steps[call].opcode in CALLS and called_at(steps[call], steps[:call], names, machine) in _ASKERS.values()


_FUNCTIONS = bytes(dis.opmap[name] for name in ("LOAD_ATTR", "LOAD_GLOBAL"))
_TESTS = bytes(number for name, number in dis.opmap.items() if _asks_for_truth(name) or name in ("COPY", "COMPARE_OP"))
_TESTED = re.compile(b"[" + re.escape(_FUNCTIONS) + b"].?[" + re.escape(_TESTS) + b"]", re.DOTALL)
_MAKERS = ("MAKE_FUNCTION", "SET_FUNCTION_ATTRIBUTE")
_MADE = re.compile(
    b"["
    + re.escape(bytes(number for name, number in dis.opmap.items() if name in _MAKERS))
    + b"]["
    + re.escape(bytes(dis.opmap[name] for name in _STORES))
    + b"]"
)
