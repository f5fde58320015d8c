"""A method as the text of a machine has it: to be called, and neither true nor equal to anything.

Python takes any method for true. One that stands in a list, or that a loop goes through, and that nobody calls would
decide as if what it says always held.
"""

from __future__ import annotations

from types import MethodType
from typing import Any

from .mistakes import MachineError, is_asked_by_a_text

__all__ = ["Called", "to_be_called"]


def to_be_called(value: Any) -> Any:
    """The value, be it a method that is to be called and no more."""
    return Called(value) if type(value) is MethodType else value


class Called:
    """The method, without its truth."""

    def __init__(self, method: MethodType) -> None:
        self.__wrapped__ = method

    def __call__(self, *args: Any, **more: Any) -> Any:
        """What the method does."""
        return self.__wrapped__(*args, **more)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__wrapped__, name)

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
