"""What a text keeps to be called and never calls: seen while the text is run.

A method that stands in a dict, in an object or in a stack of things to do writes nothing before it is called. The look
of a code shows some of that (`put_off.py`); where such a list is read by the way, as by who asks for its length, it
looks like any other. So it is noted which methods of the machine a text takes, and which functions stand in what it
holds when it ends, and which of them are called. Of several that stand together, as in a table of them, one has to be.
"""

from __future__ import annotations

import dis
import gc
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from inspect import GEN_CREATED, getgeneratorstate
from itertools import pairwise
from operator import methodcaller
from types import CodeType, FrameType, FunctionType, GeneratorType, MethodType, ModuleType
from typing import Any, ClassVar, TypeAlias

from .instructions import (
    CALLS,
    MAKERS,
    begun_with,
    call_at,
    is_a_generator,
    place,
    steps_of,
    user_of,
    with_those_inside,
)
from .mistakes import Line, MachineError
from .source import is_of_others

__all__ = ["Kept", "Taken"]


@dataclass(eq=False)
class Taken:
    """A method that a text has taken from its machine: where, and whether it was called."""

    name: str
    code: CodeType
    at: int
    is_called: bool = False


_Called: TypeAlias = Callable[[list[FunctionType]], Iterable[FunctionType]]

_Delayed: TypeAlias = "CodeType | GeneratorType[Any, Any, Any] | Taken"
"""What does nothing before it is called, or gone through."""


@dataclass(eq=False)
class Kept:
    """What a text had at hand since it began."""

    current: ClassVar[Kept | None] = None
    keepers: ClassVar[frozenset[CodeType]] = frozenset()
    """The functions that may keep others, of the machine that is being read."""
    reaching: ClassVar[frozenset[str]] = frozenset()
    """The names of those that may call one of these, be it by way of others."""

    taken: list[Taken] = field(default_factory=list)
    entered: set[CodeType] = field(default_factory=set)
    """What was called, where it is asked."""
    left: list[list[_Delayed]] = field(default_factory=list)
    """What stood together in something that was at hand where a function ended."""

    @classmethod
    @contextmanager
    def among(cls, texts: Iterable[FunctionType], called: _Called) -> Iterator[None]:
        """While this lasts, texts are run that consist of these functions; ``called`` tells what one has by another
        name than by one of its machine."""
        before = cls.keepers, cls.reaching
        own = [*texts]
        later = _PREPARING.union(t.__name__ for t in own if is_a_generator(t) or _returns_one(t.__code__))
        keepers = [t for t in own if _may_keep(t.__code__, later.intersection(_names_in(t.__code__)))]
        cls.keepers = frozenset(code for text in keepers for code in with_those_inside(text.__code__))
        cls.reaching = _reaching({text.__name__ for text in keepers}, own, called) if keepers else frozenset()
        try:
            yield
        finally:
            cls.keepers, cls.reaching = before

    @classmethod
    @contextmanager
    def noted(cls, text: str | None = None) -> Iterator[None]:
        """While this lasts, it is noted what the text at hand, of this name, keeps; at its end, whether it was called.

        Raises:
            MachineError: it was not; the line is where it is kept.
        """
        before, cls.current = cls.current, cls()
        watching, may_keep = sys.getprofile(), bool(cls.keepers) and (text is None or text in cls.reaching)
        if may_keep:  # it takes long
            sys.setprofile(cls.current._watch)
        try:
            yield
        finally:
            if may_keep:
                sys.setprofile(watching)
            kept, cls.current = cls.current, before
        kept._check()

    def take(self, name: str) -> Taken | None:
        """A text has taken a method; None where Python only asks whether there is such a one."""
        frame = sys._getframe(4)
        if is_of_others(frame.f_code.co_filename):
            return None
        found = Taken(name, frame.f_code, frame.f_lasti)
        self.taken.append(found)
        return found

    def _watch(self, frame: FrameType, event: str, given: Any) -> None:
        if event == "call":
            self.entered.add(frame.f_code)
        elif event == "return" and frame.f_code in self.keepers and _has_ended(frame):
            code = frame.f_code
            others = {*code.co_varnames[: code.co_argcount + code.co_kwonlyargcount], *code.co_freevars}
            own = [value for name, value in frame.f_locals.items() if name not in others]
            seen = {id(part) for part in _within(given, set())}  # whoever has called this has it now
            for value in own:
                if not isinstance(value, FunctionType):  # of those with a name the code tells
                    self.left.append([*self._called_later(_within(value, {*seen}), frame)])

    def _check(self) -> None:
        called = {_holder(one.code, one.at) for one in self.taken if one.is_called}
        beside = {one for together in self.left if any(map(self._is_called, together)) for one in together}
        for one in self.taken:
            is_alone = one not in beside and _holder(one.code, one.at) not in called
            if not one.is_called and is_alone and not _is_passed_on(one):
                number, _ = place(one.code, steps_of(one.code)[_step(one.code, one.at)])
                raise MachineError(_NEVER.format(one.name), Line(one.code.co_filename, number))
        for together in self.left:
            if together and not any(map(self._is_called, together)):
                first, code = together[0], _code_of(together[0])
                name = first.name if isinstance(first, Taken) else code.co_name
                text = _NEVER_BEGUN if isinstance(first, GeneratorType) else _NEVER
                name = "this function" if name.startswith("<") else name
                raise MachineError(text.format(name), Line(code.co_filename, code.co_firstlineno))

    def _called_later(self, values: Iterable[object], frame: FrameType) -> Iterator[_Delayed]:
        """Of these: functions that a text has made, what calls one, what is gone through, methods that were taken."""
        for value in values:
            if isinstance(value, Taken):
                yield value
            elif isinstance(value, methodcaller):
                name = value.__reduce__()[1][0]
                called = (one for one in self.taken if one.name == name and one.is_called)
                yield next(called, Taken(name, frame.f_code, frame.f_lasti))
            function = _function_of(value)
            one = value if isinstance(value, GeneratorType) else None if function is None else function.__code__
            if one is not None and not is_of_others(_code_of(one).co_filename):
                yield one

    def _is_called(self, one: _Delayed) -> bool:
        if isinstance(one, Taken):
            return one.is_called
        return one in self.entered if isinstance(one, CodeType) else getgeneratorstate(one) != GEN_CREATED


_NEVER = "{0} is kept to be called later, and nobody calls it: what it says would be lost"
_NEVER_BEGUN = "nobody goes through {0}(…) to its end, so what it says would be lost"


def _reaching(names: set[str], texts: Iterable[FunctionType], called: _Called) -> frozenset[str]:
    """These names, and those of the texts in which one of them stands, and so on."""
    rest: dict[str, frozenset[str]] = {}
    for text in texts:  # several may have one name
        inside = {
            name for one in called([text]) for name in (*_names_in(one.__code__), one.__name__) if one is not text
        }
        rest[text.__name__] = rest.get(text.__name__, frozenset()) | _names_in(text.__code__) | inside
    while more := {name for name, inside in rest.items() if name in names or not names.isdisjoint(inside)}:
        names |= more
        rest = {name: inside for name, inside in rest.items() if name not in more}
    return frozenset(names)


@cache
def _names_in(code: CodeType) -> frozenset[str]:
    return frozenset(name for one in with_those_inside(code) for name in (*one.co_names, *one.co_freevars))


@cache
def _may_keep(code: CodeType, later: frozenset[str]) -> bool:
    """In the function, or in one inside, one that is made there may be kept, or what comes of a call by these names."""
    return "ExitStack" in later or any(_keeps_one(one, later) for one in with_those_inside(code))


def _keeps_one(code: CodeType, later: frozenset[str]) -> bool:
    steps = steps_of(code)
    for i, step in enumerate(steps):
        if step.opname in MAKERS:
            made = next((s.argval for s in reversed(steps[:i]) if isinstance(s.argval, CodeType)), None)
            is_own = steps[i + 1].opname not in MAKERS and (made is None or made.co_name not in _OF_PYTHON)
            if is_own and _is_kept(steps, i):
                return True
        elif step.opcode in CALLS:
            begun = begun_with(step, steps[:i])
            is_later = any(s.argval in later or _is_of_generator(s.argval) for s in begun)
            if is_later and _is_kept(steps, i):
                return True
        elif step.opname == "LOAD_SUPER_ATTR" and not (step.arg or 0) & 1:
            return True  # a method, and no call of it
        elif step.opname == "LOAD_ATTR" and "super" in code.co_names and steps[i - 1].opcode in CALLS:
            return True  # of what a call has returned; in Python 3.11 that of `super` looks as any other
    return False


def _is_kept(steps: Sequence[dis.Instruction], i: int) -> bool:
    """What was made here is neither given to a call at once, nor gets a name of its own, nor is returned."""
    user = user_of(steps, i)
    if user is None or steps[call_at(steps, user)].opcode not in CALLS:
        return user is None or steps[user].opname not in _HANDED_ON
    return not any(s.argval in _CALL_AT_ONCE for s in begun_with(steps[call_at(steps, user)], steps[:user]))


def _is_of_generator(what: object) -> bool:
    return isinstance(what, CodeType) and what.co_name == "<genexpr>"


@cache
def _returns_one(code: CodeType) -> bool:
    """It returns a function that it makes."""
    return any(a.opname in MAKERS and b.opname == "RETURN_VALUE" for a, b in pairwise(steps_of(code)))


_HANDED_ON = ("RETURN_VALUE", "STORE_FAST", "STORE_DEREF", "GET_ITER", "LIST_EXTEND", "CALL_FUNCTION_EX", "POP_TOP")

_OF_PYTHON = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
"""What Python makes a function of and calls at once."""

_CALL_AT_ONCE = {"exists", "filter", "forall", "loop", "map", "max", "min", "sorted"}
_PREPARING = frozenset({"ExitStack", "filter", "map", "methodcaller", "partial", "partialmethod", "starmap"})
"""What calls something later."""


def _has_ended(frame: FrameType) -> bool:
    """And was not left where it gave something, nor by what was raised in it."""
    return steps_of(frame.f_code)[_step(frame.f_code, frame.f_lasti)].opname.startswith("RETURN_")


def _step(code: CodeType, at: int) -> int:
    """The instruction that stands there, or that has room there."""
    return max(i for i, step in enumerate(steps_of(code)) if step.offset <= at)


def _within(value: object, seen: set[int], depth: int = 6) -> Iterator[object]:
    """The value, and what it holds: not what a function of a text finds around itself, and none of the language's."""
    if id(value) in seen or isinstance(value, type | ModuleType | FrameType | CodeType):
        return
    if type(value).__module__.startswith(f"{__package__}."):
        taken = getattr(value, "taken_by_a_text", None) if type(value).__name__ == "Called" else None
        yield from () if taken is None else (taken,)
        return
    seen.add(id(value))
    yield value
    if isinstance(value, FunctionType):
        inside = [*(value.__closure__ or ())] if is_of_others(value.__code__.co_filename) else []
    else:
        inside = [] if isinstance(value, GeneratorType) else gc.get_referents(value)
    for part in inside if depth else ():
        yield from _within(part, seen, depth - 1)


def _code_of(one: _Delayed) -> CodeType:
    """Where it stands."""
    if isinstance(one, GeneratorType):
        return one.gi_code
    return one.code if isinstance(one, Taken) else one


def _function_of(value: object) -> FunctionType | None:
    if isinstance(value, FunctionType):
        return value if "<locals>" in value.__qualname__ else None
    inside = value.func if isinstance(value, partial) else value.__func__ if isinstance(value, MethodType) else None
    return inside if isinstance(inside, FunctionType) else None


@cache
def _holder(code: CodeType, at: int) -> tuple[CodeType, int]:
    """Where the list, or the like, is made in which what is read there comes to stand; else the place itself."""
    steps, i = steps_of(code), _step(code, at)
    while (user := user_of(steps, i)) is not None and steps[user].opname in _DISPLAYS:
        i = user
    return code, steps[i].offset


_DISPLAYS = ("BUILD_LIST", "BUILD_TUPLE", "BUILD_SET", "BUILD_MAP", "BUILD_CONST_KEY_MAP")


@cache
def _call_around(code: CodeType, at: int) -> str:
    """The name of what it is given to at once, or which has found it."""
    steps, i = steps_of(code), _step(code, at)
    user = i if steps[i].opcode in CALLS else user_of(steps, i)
    if user is None or steps[call_at(steps, user)].opcode not in CALLS:
        return ""
    begun = begun_with(steps[call_at(steps, user)], steps[:user])
    return next((str(s.argval) for s in begun if s.opname == "LOAD_GLOBAL"), "")


def _is_passed_on(one: Taken) -> bool:
    """Python only looks whether there is such a method, or calls it for each of some; or what it is to be called with
    has raised something."""
    steps = steps_of(one.code)
    i = _step(one.code, one.at)
    user = user_of(steps, i)
    if user is not None and one.name == steps[i].argval and steps[i] in begun_with(steps[call_at(steps, user)], steps):
        return True
    return _call_around(one.code, one.at) in ("callable", "filter", "map", "max", "min", "sorted")
