"""The functions in which text of a machine stands, whatever Python has put around them.

A property, a method without a state, one that keeps what it said, one that was given some of its arguments, an object
that is called, a class that extends another one: in each of them stand functions, and what these lose is lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import is_dataclass
from functools import cached_property, lru_cache, partial, partialmethod, singledispatchmethod
from inspect import getmro
from types import FunctionType, MethodType

from .holding import held, is_class_of_text

__all__ = ["functions_in", "kept_by"]

_DEPTH = 4
"""So deep is looked into what stands around something that stands around something."""

_KEEPS = type(lru_cache(lambda: None))
"""What `cache` and `lru_cache` make of a function."""


def functions_in(value: object, depth: int = _DEPTH) -> Iterator[FunctionType]:
    """The function itself, those inside of what is wrapped around one, holds one or has one as a method."""
    if isinstance(value, FunctionType):
        yield value
    elif depth:
        for inside in _members(value) if isinstance(value, type) else _inside(value):
            yield from functions_in(inside, depth - 1)


def kept_by(value: object) -> object:
    """The function of which this keeps what it said, once it has been asked; None: it keeps nothing."""
    if isinstance(value, cached_property):
        return value.func
    return value.__wrapped__ if isinstance(value, _KEEPS) else None


def _members(kind: type) -> Iterator[object]:
    """What stands in the class, and in those of a text that it extends."""
    for base in getmro(kind):
        if base is kind or is_class_of_text(base):
            made = "<string>" if is_dataclass(base) else None  # by Python, which writes no text of a machine
            for member in vars(base).values():
                if not (isinstance(member, FunctionType) and member.__code__.co_filename == made):
                    yield member


def _inside(value: object) -> Iterator[object]:
    if isinstance(value, property):
        yield from (value.fget, value.fset, value.fdel)
    elif isinstance(value, staticmethod | classmethod | MethodType):
        yield value.__func__
    elif isinstance(value, partial | partialmethod | cached_property | singledispatchmethod):
        yield value.func
    elif isinstance(value, _KEEPS):
        yield value.__wrapped__
    if isinstance(value, singledispatchmethod):
        yield value.dispatcher
    if is_class_of_text(type(value)):
        yield type(value)
    yield from held(value, 1)
