"""Copies of an implementation in the midst of a run: what `copy.deepcopy` makes, several times as fast.

A walk through every transition copies a manager for each of them, and spends most of its time there. The copy is made
by pickling in memory: classes, functions and what says so by `SHARED` stay the same objects, and so no class has to be
found by its name.
"""

from __future__ import annotations

import io
import pickle
import types
from typing import Any, TypeVar

import torch

__all__ = ["forked"]

T = TypeVar("T")

SHARED = "__shared__"
"""A class names by this the attributes that a copy has in common with its original."""

_SAME = (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)


def forked(thing: T) -> T:
    """Return a copy that has nothing in common with the original that could change.

    What several parts of it hold together, as a tensor, their copies hold together too: copy such parts in one call.
    """
    file = io.BytesIO()
    kept: list[Any] = []
    _Pickler(file, kept).dump(thing)
    _KEPT.append(kept)
    try:
        copied: T = pickle.loads(file.getbuffer())
    finally:
        _KEPT.pop()
    return copied


_KEPT: list[list[Any]] = []
"""What the copies under way take as it is."""


def _kept(number: int) -> Any:
    return _KEPT[-1][number]


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, kept: list[Any]) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self._keep = kept

    def reducer_override(self, thing: Any) -> Any:
        """How a thing is made anew: of everything but plain data."""
        if isinstance(thing, torch.Tensor):
            return self._as_it_is(thing.clone())
        if isinstance(thing, _SAME):
            return NotImplemented if thing is _kept else self._as_it_is(thing)
        shared = getattr(type(thing), SHARED, ())
        if shared:
            bare = object.__new__(type(thing))
            vars(bare).update({name: vars(thing)[name] for name in shared})
            state = {name: value for name, value in vars(thing).items() if name not in shared}
            return (*self._as_it_is(bare), state)
        return NotImplemented

    def _as_it_is(self, thing: object) -> tuple[Any, tuple[int]]:
        self._keep.append(thing)
        return _kept, (len(self._keep) - 1,)
