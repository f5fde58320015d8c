"""A method as the text of a machine has it: to be called, and neither true nor equal to anything.

Python takes any method for true. One that stands in a list, or that a loop goes through, and that nobody calls would
decide as if what it says always held. What a method returns that returns nothing Python takes for false: of
``self.require(a) and self.require(b)`` it would never come to the second.
"""

from __future__ import annotations

import sys
from contextlib import _GeneratorContextManager
from functools import cache, partial
from itertools import pairwise
from types import CodeType, FunctionType, GeneratorType, MethodType
from typing import Any

from .instructions import CALLS, steps_of
from .kept import Kept
from .lost import Conditions
from .mistakes import MachineError, is_asked_by_a_text, is_tool
from .program import Let
from .recorder import Recorder
from .source import is_of_others
from .terms import Term

__all__ = ["Called", "Nothing", "or_none", "to_be_called"]


def to_be_called(value: Any, kind: type) -> Any:
    """The value, be it a method of a class that is to be called and no more."""
    return Called(value, kind) if type(value) is MethodType else value


class Called:
    """The method, without its truth."""

    def __init__(self, method: MethodType, kind: type) -> None:
        """``kind`` is the class that it is a method of."""
        self.__wrapped__, self._kind = method, kind
        self.taken_by_a_text = None if Kept.current is None else Kept.current.take(method.__name__)

    def __call__(self, *args: Any, **more: Any) -> Any:
        """What the method does; one that only says something is not left without anybody who listens."""
        self._note_use()
        rec = Recorder.current
        if rec is None:
            return self.__wrapped__(*args, **more)
        done = len(rec.blocks[-1])
        if Conditions.current is not None and self._is_override():
            # It need not use all that others under its name are told: who calls it knows nothing of that.
            Conditions.current.use(*(given for given in (*args, *more.values()) if isinstance(given, Term)))
        said = self.__wrapped__(*args, **more)
        if said is None:
            return Nothing(self.__wrapped__.__name__)
        if isinstance(said, FunctionType | partial) and _is_left():
            raise MachineError(f"nobody calls what {self.__wrapped__.__name__}(…) returns: what it says would be lost")
        generator = said.gen if isinstance(said, _GeneratorContextManager) else said
        if isinstance(generator, GeneratorType) and Conditions.current is not None:
            Conditions.current.note_begun(generator)
        is_said_only = isinstance(said, Term) and all(isinstance(s, Let) for s in rec.blocks[-1][done:])
        if rec.of_action and is_said_only and _is_left():
            name = self.__wrapped__.__name__
            raise MachineError(f"nothing is done with what {name}(…) says: require it, write it or return it")
        return said

    def _is_override(self) -> bool:
        return sum(self.__wrapped__.__name__ in vars(kind) for kind in self._kind.__mro__) > 1

    def _note_use(self) -> None:
        if self.taken_by_a_text is not None:
            self.taken_by_a_text.is_called = True

    def __getattr__(self, name: str) -> Any:
        if is_tool(sys._getframe(1).f_code.co_filename):
            self._note_use()  # the language has been given it, as `can` is
        return getattr(self.__wrapped__, name)

    def __repr__(self) -> str:
        name = self.__wrapped__.__name__
        return f"{name}, which is a function: call it, as in {name}(…); this"

    def __enter__(self) -> None:
        name = self.__wrapped__.__name__
        raise MachineError(f"{name} is a function: call it, as in `with self.{name}(…):`")

    def __exit__(self, *_: object) -> None:
        """Python looks whether there is such a thing before it enters."""

    def __bool__(self) -> bool:
        if is_asked_by_a_text():
            raise self._mistake()
        return True

    def __eq__(self, other: object) -> bool:
        if is_asked_by_a_text():
            raise self._mistake()
        return isinstance(other, Called) and self.__wrapped__ == other.__wrapped__

    def __hash__(self) -> int:
        return hash(self.__wrapped__)

    def _mistake(self) -> MachineError:
        name = self.__wrapped__.__name__
        return MachineError(f"{name} is a function, which Python takes for true: call it, as in {name}(…)")


class Nothing:
    """What a method returns that returns nothing, without the truth that Python sees in that."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"nothing (from {self._name}(…))"

    def __bool__(self) -> bool:
        if is_asked_by_a_text():
            raise self._mistake()
        return False

    def __eq__(self, other: object) -> bool:
        if is_asked_by_a_text():
            raise self._mistake()
        return other is None or isinstance(other, Nothing)

    __hash__ = object.__hash__

    def _mistake(self) -> MachineError:
        return MachineError(
            f"{self._name}(…) returns nothing, which Python takes for false: what stands behind it would be left out"
        )


def or_none(returned: Any) -> Any:
    """What a text has returned, be it what another text returned that returns nothing."""
    return None if isinstance(returned, Nothing) else returned


def _is_left() -> bool:
    """A text does nothing with what the call gives in whose midst this is asked."""
    frame = sys._getframe(2)
    return not is_of_others(frame.f_code.co_filename) and frame.f_lasti in _left_calls(frame.f_code)


@cache
def _left_calls(code: CodeType) -> frozenset[int]:
    """Where the calls stand with whose results nothing is done."""
    pairs = pairwise(steps_of(code))
    return frozenset(step.offset for step, after in pairs if step.opcode in CALLS and after.opname == "POP_TOP")
