"""What a value holds that may come to be something else while the value stays the same one."""

from __future__ import annotations

import sys
import types
from collections import deque
from collections.abc import Iterator
from enum import Enum
from fractions import Fraction
from functools import cache, partial
from inspect import getmro
from io import IOBase
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType, NoneType
from typing import Any

from .source import is_of_others

__all__ = ["FIXED", "held", "holds_unseen", "is_class_of_text", "is_iterator", "may_keep"]

FIXED = (ModuleType, type, FunctionType)
"""What a module imports and defines: no text binds it anew."""

_DEPTH = 4
"""So deep is looked into what holds something that holds something."""


def held(value: object, depth: int = _DEPTH) -> tuple[object, ...]:
    """What may come to be something else in a value that stays the same one, and what is held by that."""
    if not depth or not _may_hold(type(value)):  # type: ignore[arg-type]
        return ()
    inside = tuple(_inside(value))
    return (*inside, *(one for part in inside for one in held(part, depth - 1)))


_SEEN = (int, float, complex, str, bytes, range, slice, Fraction, Enum, NoneType, *FIXED)
"""What cannot come to hold anything else, or is looked at elsewhere: classes, functions and modules by their names."""


def holds_unseen(value: object, depth: int = _DEPTH) -> bool:
    """Something in it may come to be something else that `held` would not show."""
    own: type = type(value)
    kind = value if isinstance(value, type) else own
    if any(map(_is_of_language, getmro(kind))) or kind.__module__ == "typing":
        return False
    if isinstance(value, MethodType | BuiltinFunctionType):
        of = value.__self__  # it may be changed by the method alone, which shows nothing of it
        changed: type = type(of)
        return not isinstance(of, (*FIXED, NoneType)) and (_may_hold(changed) or holds_unseen(of, depth))
    if not _may_hold(own):
        return not isinstance(value, _SEEN)
    return not depth or any(holds_unseen(part, depth - 1) for part in _inside(value))


_PURE = {
    *("__future__", "abc", "builtins", "collections", "contextlib", "dataclasses", "enum", "fractions", "functools"),
    *("itertools", "math", "operator", "types", "typing"),
}
"""Modules of Python's library in which nothing is kept from one call to the next."""


def may_keep(value: object) -> bool:
    """It is a module, or something of one, that is none of a text's own, and that may keep something between calls."""
    if isinstance(value, ModuleType):
        name, file = value.__name__, getattr(value, "__file__", None)
    elif isinstance(value, (*FIXED, BuiltinFunctionType, MethodType)):
        name = getattr(value, "__module__", None) or ""
        file = getattr(sys.modules.get(name), "__file__", None)
    else:
        return False
    is_own = file is not None and not is_of_others(file)
    return not (is_own or name.partition(".")[0] in (*_PURE, __package__.partition(".")[0]))


@cache
def _may_hold(kind: type) -> bool:
    """Values of this type may: containers, objects of a text's own classes, and these classes."""
    return issubclass(kind, _HOLDERS) or _is_of_text(kind)


_HOLDERS = (dict, list, set, frozenset, tuple, deque, partial, type, types.SimpleNamespace, FunctionType)


def _inside(value: Any) -> Iterator[object]:
    if isinstance(value, dict):
        yield from value
        yield from value.values()
    elif isinstance(value, list | set | frozenset | tuple | deque):
        yield from value
    elif isinstance(value, partial):
        yield from (value.func, *value.args, *value.keywords.values())
    if isinstance(value, type):
        if is_class_of_text(value):
            yield from (one for name, one in vars(value).items() if not name.startswith("__"))
    else:  # also what a container of a text's own class has beside what it contains
        yield from getattr(value, "__dict__", {}).values()
        names = [name for base in type(value).__mro__ for name in _words(vars(base).get("__slots__", ()))]
        yield from (getattr(value, name) for name in names if hasattr(value, name))


def _words(slots: Any) -> list[str]:
    """Slots may be said by one word."""
    return [slots] if isinstance(slots, str) else [*slots]


def _is_of_text(kind: type) -> bool:
    """The class is a text's own, and its objects are no machine, part of a state or term: these see to it."""
    return not any(_is_of_language(base) for base in getmro(kind)) and is_class_of_text(kind)


def is_class_of_text(kind: type) -> bool:
    """It is a text's own, and may have variables: none of Python's library, nor a machine, which sees to them."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    sees_to_it = _is_of_language(type(kind)) and "__setattr__" in vars(type(kind))
    return file is not None and not is_of_others(file) and not sees_to_it


def _is_of_language(kind: type) -> bool:
    return kind.__module__.startswith(f"{__package__}.")


def is_iterator(value: object) -> bool:
    """Whoever goes through it leaves it elsewhere than it was; a file is asked for its lines by nobody here."""
    return hasattr(type(value), "__next__") and not isinstance(value, IOBase)
