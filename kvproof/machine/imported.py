"""The modules that a text imports by itself: what it calls of them is looked through as what its own module has."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import CodeType, FunctionType, ModuleType

from .instructions import numbers_for, numbers_of, steps_of, with_those_inside
from .source import is_of_others

__all__ = ["modules_imported_in"]


def modules_imported_in(function: FunctionType) -> Iterator[ModuleType]:
    """Those of a text's own that the function, or one that is defined in it, imports where it is run."""
    for code in with_those_inside(function.__code__):
        for name in _names_imported(code):
            module = _module(name, function.__globals__.get("__package__"))
            if module is not None:
                yield module


def _names_imported(code: CodeType) -> Iterator[str]:
    """As an `import` has them, with a dot in front for each package to go up to."""
    if _IMPORTS.isdisjoint(numbers_of(code)):
        return
    steps = steps_of(code)
    for i, step in enumerate(steps):
        if step.opname == "IMPORT_NAME":
            level, parts = steps[i - 2].argval, steps[i - 1].argval or ()
            base = "." * level + step.argval
            yield base
            # A part may be a module of its own.
            yield from (f"{base}{'' if base.endswith('.') else '.'}{part}" for part in parts)


_IMPORTS = frozenset(numbers_for("IMPORT_NAME".__eq__))


def _module(name: str, package: str | None) -> ModuleType | None:
    """The module of this name, if it is a text's own: the text is about to import it, and so it is imported here."""
    with suppress(ImportError, ValueError):  # it is none, or one that is not there: the text will say so
        absolute = importlib.util.resolve_name(name, package)
        if _is_own(importlib.util.find_spec(absolute)):
            return import_module(absolute)
    return None


def _is_own(spec: ModuleSpec | None) -> bool:
    return spec is not None and spec.origin is not None and spec.has_location and not is_of_others(spec.origin)
