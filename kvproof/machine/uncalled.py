"""What Python takes for true in the text of a machine, whatever it holds: a function that should have been called, a
list of conditions, a generator of them. And what it takes for false: what a function returns that returns nothing.

Found in the code: one that is asked for its truth, or a function that is compared, by its own name or by one that it
was given, and one that stands in a list of which `all` or `any` asks that, or that a loop goes through. Methods of a
machine see to it themselves, wherever they come to stand (`called.py`).
"""

from __future__ import annotations

import builtins
import dis
import inspect
import re
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import cache, partial
from itertools import pairwise
from types import CodeType, FunctionType

from .asked import NOTHING, asks_for_truth, is_asked, returns_nothing
from .declarations import Declaration
from .instructions import (
    CALLS,
    MAKERS,
    begun_with,
    call_at,
    called_at,
    is_a_generator,
    numbers_for,
    numbers_of,
    one_of,
    opens_a_block,
    place,
    steps_of,
    user_of,
    with_those_inside,
)

__all__ = ["uncalled_functions"]


def uncalled_functions(function: FunctionType, machine: type) -> Iterator[tuple[int, str]]:
    """The lines, and what is wrong there; also in what is defined inside."""
    names = ChainMap(function.__globals__, vars(builtins))
    codes = [*with_those_inside(function.__code__)]
    made = frozenset().union(*map(_functions_made, codes))
    asked: set[CodeType] = set()
    for code in codes:
        if made or _may_ask(code) or code in asked:
            yield from _Looked(code, names, machine, made, asked).found()


def _may_ask(code: CodeType) -> bool:
    """It holds what can ask a function for its truth: to look at each instruction takes longer."""
    numbers = numbers_of(code)
    may_test = _TESTED.search(numbers) or _GONE_THROUGH.search(numbers) or _ENTERED.search(numbers)
    return may_test is not None or not _ASKERS.keys().isdisjoint(code.co_names)


_ASKERS = {"all": all, "any": any, "bool": bool}

_NEVER_FALSE = (map, filter, zip, enumerate, reversed, iter, partial)
"""What these make is true for Python, whatever is in it."""


class _Looked:
    """The code of a function that is looked through, or of one that is defined in it.

    ``made``: the names of the functions that are defined there; ``asked``: the generators found so far, of which `all`
    or `any` asks what they give.
    """

    def __init__(
        self, code: CodeType, names: Mapping[str, object], machine: type, made: Set[str], asked: set[CodeType]
    ) -> None:
        self.code, self.names, self.machine, self.made, self.asked = code, names, machine, made, asked
        self.steps = steps_of(code)
        self.states = {*code.co_varnames[: code.co_argcount][:2], "self", "before"}

    def found(self) -> Iterator[tuple[int, str]]:
        """The lines, and what is wrong there."""
        functions = [i for i in range(len(self.steps)) if self._is_function(i)]
        stored = [self.steps[i + 1].argval for i in functions if self.steps[i + 1].opname in _STORES]
        self.made = {*self.made, *stored, *self._gone_through(functions)}
        for i, step in enumerate(self.steps):
            if self._is_function(i) and self._after(i)[:1] == [_ENTERS]:
                text = place(self.code, step)[1]
                yield self._place(i), f"`{text}` is a function, and opens nothing: call it, as in `with {text}(…):`"
            elif self._is_function(i) and (_is_compared(self._after(i)) or self._is_asked(i)):
                yield (
                    self._place(i),
                    (f"{step.argval} is a function, which Python takes for true: call it, as in {step.argval}(…)"),
                )
            elif self._is_never_false(i) and self._is_asked(i):
                text = place(self.code, step)[1]
                yield self._place(i), f"`{text}` is true for Python, whatever it holds: ask for what it holds"
            elif step.opcode in CALLS and self._is_asked(i) and _returns_nothing(self._function_called(i)):
                yield self._place(i), NOTHING.format(place(self.code, step)[1])
            elif step.opcode in CALLS and self._is_joined(i) and _is_one_of((all, any), self._called(i)):
                yield self._place(i), _DECIDED.format(place(self.code, step)[1])

    def _place(self, i: int) -> int:
        return place(self.code, self.steps[i])[0]

    def _after(self, i: int) -> list[str]:
        return [step.opname for step in self.steps[i + 1 : i + 3]]

    def _is_function(self, i: int) -> bool:
        step = self.steps[i]
        if step.opname in ("LOAD_FAST", "LOAD_DEREF") and step.argval in self.made:
            return True
        return isinstance(self._value(i), FunctionType | staticmethod | classmethod | partial)

    def _value(self, i: int) -> object:
        """What is read here, as far as the text shows it: of a state, what its class has of this name."""
        step = self.steps[i]
        if step.opname == "LOAD_GLOBAL":
            return self.names.get(step.argval)
        if step.opname in ("LOAD_FAST", "LOAD_DEREF") and step.argval in self.states:
            return self.machine
        if step.opname in _SUPER:
            return inspect.getattr_static(self.machine, step.argval, None)
        if step.opcode in CALLS and _is_one_of((super, type), self._called(i)):  # of a machine, as what its class has
            return self.machine
        if step.opname not in ("LOAD_ATTR", "LOAD_METHOD") or not i:
            return None
        if step.argval == "__class__":
            return self._value(i - 1)
        of = self._value(i - 1)
        return None if of is None or isinstance(of, Declaration) else inspect.getattr_static(of, step.argval, None)

    def _called(self, i: int) -> object:
        return called_at(self.steps[i], self.steps[:i], self.names, self.machine)

    def _function_called(self, i: int) -> object:
        """The function that is called by its own name or by way of `super()`; methods of a state see to themselves."""
        begun = begun_with(self.steps[i], self.steps[:i])
        methods = [s for s in begun if s.opname in (*_SUPER, "LOAD_ATTR", "LOAD_METHOD")]
        if not methods:
            return self._called(i)
        if begun[0].argval != "super":
            return None
        above = (vars(base) for base in self.machine.__mro__[1:])
        return next((names[methods[-1].argval] for names in above if methods[-1].argval in names), None)

    def _is_never_false(self, i: int) -> bool:
        step = self.steps[i]
        if step.opname in MAKERS:
            return step.positions is not None and "<lambda>" in map(_code_name, self.steps[max(i - 2, 0) : i])
        if step.opname in _DISPLAYS:
            return bool(step.arg)
        if step.opcode not in CALLS:
            return False
        called = self._called(i)
        return _is_one_of(_NEVER_FALSE, called) or is_a_generator(called) or opens_a_block(called)

    def _is_joined(self, i: int) -> bool:
        """What was just made stands beside something else that is said."""
        user = user_of(self.steps, i)
        return user is not None and self.steps[user].argrepr in _JOINS

    def _is_asked(self, i: int) -> bool:
        """What was just read or made is asked for its truth."""
        after = self._after(i)
        if is_asked(after):
            return True
        return (after[:1] == ["YIELD_VALUE"] and self.code in self.asked) or self._is_asked_in_a_call(i)

    def _is_asked_in_a_call(self, i: int) -> bool:
        """What was just read goes into one of `_ASKERS`, be it in a list of that."""
        user, held = user_of(self.steps, i), False
        while user is not None and self.steps[user].opname in ("BUILD_LIST", "BUILD_TUPLE", "BUILD_SET"):
            user, held = user_of(self.steps, user), True
        if user is None:
            return False
        call = call_at(self.steps, user)
        asker = self._called(call) if self.steps[call].opcode in CALLS else None
        if not _is_one_of(_ASKERS.values(), asker):
            return False
        if asker is not bool and not held:  # these ask what is in it
            inside = self._called(i) if self.steps[i].opcode in CALLS else None
            if isinstance(inside, CodeType):
                self.asked.add(inside)
            return self._is_function(i)
        return True

    def _gone_through(self, functions: Sequence[int]) -> Iterator[str]:
        """The names of what a loop goes through where that is a list of functions, and nothing else."""
        users = [user_of(self.steps, i) for i in functions]
        for user in {user for user in users if user is not None}:
            is_list = self.steps[user].opname in ("BUILD_LIST", "BUILD_TUPLE", "BUILD_SET")
            after = self.steps[user + 1 : user + 4]
            is_loop = [s.opname for s in after[:2]] == ["GET_ITER", "FOR_ITER"] and after[2].opname in _STORES
            if is_list and is_loop and users.count(user) == self.steps[user].arg:
                yield after[2].argval


_JOINS = ("&", "|", "&=", "|=")
_DECIDED = (
    "`{}` is decided by Python while the machine is read, and so is what it is joined with: all_of and any_of say it "
    "of a state"
)


def _returns_nothing(called: object) -> bool:
    """It is a function of which every end returns nothing."""
    return isinstance(called, FunctionType) and returns_nothing(called.__code__)


def _is_one_of(some: Iterable[object], value: object) -> bool:
    """It is one of them itself: what a name stands for may be nothing that Python can compare."""
    return any(value is one for one in some)


def _code_name(step: dis.Instruction) -> str:
    return step.argval.co_name if isinstance(step.argval, CodeType) else ""


_SUPER = ("LOAD_SUPER_ATTR",)
_DISPLAYS = ("BUILD_LIST", "BUILD_TUPLE", "BUILD_SET", "BUILD_MAP", "BUILD_CONST_KEY_MAP")
_STORES = ("STORE_FAST", "STORE_DEREF")


@cache
def _functions_made(code: CodeType) -> frozenset[str]:
    """The names of the functions that are defined in this one."""
    if not _MADE.search(numbers_of(code)):
        return frozenset()
    return frozenset(
        after.argval for step, after in pairwise(steps_of(code)) if step.opname in MAKERS and after.opname in _STORES
    )


def _is_compared(after: Sequence[str]) -> bool:
    """What was just read is compared by these instructions."""
    first, second = [*after, "", ""][:2]
    is_one_load = first.startswith("LOAD_") and "LOAD_" not in first[1:]  # Python 3.13 reads two names in one
    return first == "COMPARE_OP" or (is_one_load and second == "COMPARE_OP")


def _gives_a_function(name: str) -> bool:
    return name in (*_SUPER, *_DISPLAYS, "LOAD_ATTR", "LOAD_GLOBAL", *MAKERS)


_FUNCTIONS = one_of(numbers_for(_gives_a_function) + CALLS)
_TESTS = one_of(numbers_for(lambda name: asks_for_truth(name) or name in ("COPY", "COMPARE_OP")))
_TESTED = re.compile(_FUNCTIONS + b".?" + _TESTS, re.DOTALL)
_ENTERS = "BEFORE_WITH"
_ENTERED = re.compile(one_of(numbers_for(lambda name: name.startswith("LOAD_"))) + one_of(numbers_for(_ENTERS.__eq__)))
_LOOP = one_of(numbers_for("GET_ITER".__eq__)) + one_of(numbers_for("FOR_ITER".__eq__))
_GONE_THROUGH = re.compile(one_of(numbers_for(_DISPLAYS.__contains__)) + _LOOP)
_MADE = re.compile(one_of(numbers_for(MAKERS.__contains__)) + one_of(numbers_for(_STORES.__contains__)))
