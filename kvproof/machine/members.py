"""The members of a machine, its bases' and its own, none of which is lost or decided by Python."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from types import FunctionType
from typing import Any

from .classbody import MachineType, check_said, is_read, mark_of
from .declarations import Declaration
from .mistakes import Line, MachineError
from .source import class_at
from .untold import refuse_untold
from .wrapped import functions_in, kept_by

__all__ = ["functions_of", "members_of"]


def members_of(machine: type) -> dict[str, Any]:
    """By name, those of subclasses in the place of those that they write anew.

    Raises:
        MachineError: something that a class says would be lost.
    """
    members: dict[str, Any] = {}
    owners: dict[str, type] = {}
    for base in reversed(machine.__mro__):
        if base.__module__ != object.__module__:
            _check_class(base)
        for name, member in vars(base).items():
            if name.startswith("__"):
                continue
            if not name.isidentifier():
                raise MachineError(f"{name!r} cannot be a part of {base.__name__}: name it by a plain word")
            if name in members and member is not members[name] and _hides(machine, name, base, owners[name]):
                raise MachineError(
                    f"{machine.__name__} extends {base.__name__} and {owners[name].__name__}, which both have {name}: "
                    "one would hide the other; rename one",
                    _line_of(member) or next((line for m in vars(base).values() if (line := _line_of(m))), None),
                )
            members[name], owners[name] = member, base
    return members


def _hides(machine: type, name: str, base: type, other: type) -> bool:
    """What one base says hides what another one says, neither of which extends the other.

    Also where that is a helper or a plain value, of which the other's properties speak. Of an action, a helper or a
    value that a class has which both extend, each says it in its own way, perhaps by way of ``super()``: that is no
    loss.
    """
    said = vars(other)[name]
    mark = mark_of(other, name, said) if isinstance(said, FunctionType) else None
    if issubclass(base, other) or other.__module__ in sys.stdlib_module_names:
        return False
    is_whole = isinstance(said, Declaration) or (mark is not None and mark["kind"] != "action")
    return is_whole or not any(name in vars(c) for c in machine.__mro__ if issubclass(base, c) and issubclass(other, c))


def _line_of(member: object) -> Line | None:
    if isinstance(member, Declaration):
        return member.line
    function = member.fget if isinstance(member, property) else member
    if isinstance(function, FunctionType):
        return Line(function.__code__.co_filename, function.__code__.co_firstlineno)
    return None


def _check_class(base: type) -> None:
    """All that its body says is there, none of it decided by Python, and the second of one name replaces no first."""
    if base.__module__ in sys.stdlib_module_names or is_read(base):
        return
    functions = [m for m in vars(base).values() if isinstance(m, FunctionType)]
    own = [f.__code__ for f in functions if f.__qualname__.startswith(f"{base.__qualname__}.")]
    if own and not isinstance(base, MachineType):
        for name, number in _twice(class_at(own[0].co_filename, base.__name__, own[0].co_firstlineno)):
            raise MachineError(
                f"{name} stands twice in {base.__name__}, and the second would replace the first; "
                "give one of them another name",
                Line(own[0].co_filename, number),
            )
    check_said(base)
    refuse_untold([*_functions_of(vars(base).values())], base)
    for name, value in vars(base).items():
        if (function := kept_by(value)) is not None:
            raise MachineError(
                f"{name} keeps what it has read first, whatever is written afterwards: read it anew, as a plain method "
                "or one under `@property` does",
                _line_of(function),
            )


def functions_of(members: Mapping[str, Any]) -> Iterator[FunctionType]:
    """The functions in which the text of these members stands."""
    yield from _functions_of(members.values())


def _functions_of(members: Iterable[object]) -> Iterator[FunctionType]:
    """Also those that declarations hold: what is counted, how it begins, what a listener does."""
    for value in members:
        for said in vars(value).values() if isinstance(value, Declaration) else (value,):
            yield from functions_in(said)


def _twice(body: ast.ClassDef | None) -> Iterator[tuple[str, int]]:
    """The methods that replace another one in the body of a class; what is made of the other one does not."""
    seen: dict[str, ast.FunctionDef] = {}
    for method in (n for n in (() if body is None else body.body) if isinstance(n, ast.FunctionDef)):
        if method.name in seen and not _is_made_of(method, seen[method.name]):
            yield method.name, method.lineno
        seen[method.name] = method


def _is_made_of(method: ast.FunctionDef, other: ast.FunctionDef) -> bool:
    """It is the setter of a property, or follows an ``@overload``."""
    said = [ast.unparse(d) for d in method.decorator_list]
    is_overloaded = any(ast.unparse(d).rpartition(".")[2] == "overload" for d in other.decorator_list)
    return is_overloaded or any(text.startswith(f"{method.name}.") for text in said)
