"""Methods that look like a property or an action, stand under no decorator, and are called by nobody.

Such a decorator was forgotten: what the method says would neither be proved nor explored, and nothing would tell. That
nobody calls it is seen in all files in which machines stand that are loaded; a helper for others has a name with `_`.
"""

from __future__ import annotations

import dis
import inspect
import linecache
from collections.abc import Iterable, Iterator, Set
from functools import cache
from types import CodeType, FunctionType, NoneType

from .classbody import MARK, MachineType, annotated, machines_loaded
from .instructions import with_those_inside
from .mistakes import Line, MachineError
from .recorder import is_kind
from .source import is_of_others
from .terms import Bool

__all__ = ["refuse_unasked"]


def refuse_unasked(machine: type, texts: Iterable[FunctionType]) -> None:
    """Each method of the machine is asked, or somebody calls it. ``texts``: the functions that are known to be run.

    Raises:
        MachineError: one is neither; the line is where it stands.
    """
    named = frozenset[str]().union(*(_names(text.__code__) for text in texts))
    for name, method in _without_a_decorator(machine):
        is_unknown = name not in named and _looks_so(method)
        if is_unknown and not any(name in _names_in_file(file) for file in _files(machine)):
            raise MachineError(
                f"{name} stands under no decorator, and nobody calls it, so it is not asked: put @invariant, @action "
                f"or one of the others over it, or call it _{name} if it is for others",
                Line(method.__code__.co_filename, method.__code__.co_firstlineno),
            )


def _without_a_decorator(machine: type) -> Iterator[tuple[str, FunctionType]]:
    """Methods of this machine, and of those that it extends, by their names."""
    for base in machine.__mro__:
        for name, value in vars(base).items() if isinstance(base, MachineType) else ():
            if not isinstance(value, FunctionType) or value.__name__ == "<lambda>" or name.startswith("_"):
                continue
            is_marked = any(hasattr(vars(above).get(name), MARK) for above in machine.__mro__)
            if not is_marked and not is_of_others(value.__code__.co_filename):
                yield name, value


def _looks_so(function: FunctionType) -> bool:
    """It takes elements of sorts, and returns a condition or nothing, as far as it says so."""
    try:
        parameters = annotated(function)[1:]
        returned = inspect.signature(function, eval_str=True).return_annotation
    except NameError:
        return False
    return returned in (Bool, None, NoneType, inspect.Signature.empty) and all(
        is_kind(kind) for _, _, kind in parameters
    )


def _files(machine: type) -> Iterator[str]:
    """The files in which machines stand, its own ones first."""
    files = dict.fromkeys(file for base in (*machine.__mro__, *machines_loaded()) for file in _files_of(base))
    return (file for file in files if not is_of_others(file))


def _files_of(base: type) -> Iterator[str]:
    """Where its methods stand: that is known of a class, too, whose module nobody has imported."""
    yield from dict.fromkeys(f.__code__.co_filename for f in vars(base).values() if isinstance(f, FunctionType))


@cache
def _names_in_file(file: str) -> Set[str]:
    """What is named in the file: where something gets its name, it is not."""
    try:
        return _names(compile("".join(linecache.getlines(file)), file, "exec"))
    except (SyntaxError, ValueError):
        return frozenset()


@cache
def _names(code: CodeType) -> Set[str]:
    return frozenset().union(*(_read_in(inside) | _words(inside.co_consts) for inside in with_those_inside(code)))


def _read_in(code: CodeType) -> Set[str]:
    if code.co_flags & inspect.CO_OPTIMIZED:  # a function, of which the own names are no such ones
        return {*code.co_names}
    return {step.argval for step in dis.get_instructions(code) if step.opname in _READS}


_READS = ("LOAD_NAME", "LOAD_ATTR", "LOAD_METHOD", "LOAD_GLOBAL")


def _words(constants: Iterable[object]) -> Set[str]:
    """What may be a name of something that is looked up by it."""
    inside = (_words(part) for part in constants if isinstance(part, tuple | frozenset))
    return {word for word in constants if isinstance(word, str) and word.isidentifier()}.union(*inside)
