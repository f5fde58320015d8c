"""The members of a machine, its bases' and its own, none of which is lost or decided by Python."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from types import CodeType, FunctionType
from typing import Any

from .classbody import MARK, MachineType
from .declarations import Declaration
from .mistakes import Line, MachineError
from .source import IS, class_at, does, function_of

__all__ = ["members_of"]


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
            if name in members and member is not members[name] and _hides(machine, name, base, owners[name]):
                raise MachineError(
                    f"{machine.__name__} extends {base.__name__} and {owners[name].__name__}, which both have {name}: "
                    "one would hide the other; rename one",
                    _line_of(member),
                )
            members[name], owners[name] = member, base
    return members


def _hides(machine: type, name: str, base: type, other: type) -> bool:
    """What one base says hides what another one says, neither of which extends the other.

    Of an action that both have extended, by way of ``super()``, that is no loss.
    """
    said = vars(other)[name]
    if issubclass(base, other) or not (isinstance(said, Declaration) or hasattr(said, MARK)):
        return False
    is_action = getattr(said, MARK, {"kind": ""})["kind"] == "action"
    return not (
        is_action and any(name in vars(c) for c in machine.__mro__ if issubclass(base, c) and issubclass(other, c))
    )


def _line_of(member: object) -> Line | None:
    if isinstance(member, Declaration):
        return member.line
    if isinstance(member, FunctionType):
        return Line(member.__code__.co_filename, member.__code__.co_firstlineno)
    return None


def _check_class(base: type) -> None:
    """No method replaces another one in a body that the language does not watch, and none asks `is` of a value."""
    functions = [m for m in vars(base).values() if isinstance(m, FunctionType)]
    for function in functions:
        for number, text in _decided(function.__code__):
            raise MachineError(
                f"Python decides `{text}` while the machine is read: compare values with == and !=",
                Line(function.__code__.co_filename, number),
            )
    own = [f.__code__ for f in functions if f.__qualname__.startswith(f"{base.__qualname__}.")]
    if own and not isinstance(base, MachineType):
        for name, number in _twice(class_at(own[0].co_filename, base.__name__, own[0].co_firstlineno)):
            raise MachineError(
                f"{name} stands twice in {base.__name__}, and the second would replace the first; "
                "give one of them another name",
                Line(own[0].co_filename, number),
            )


@cache
def _decided(code: CodeType) -> tuple[tuple[int, str], ...]:
    """Where a function asks by `is` whether something that it reads of a machine is none."""
    function = function_of(code) if does(code, IS) else None
    return tuple(
        (node.lineno, ast.unparse(node))
        for node in (() if function is None else ast.walk(function))
        if isinstance(node, ast.Compare)
        and any(isinstance(op, ast.Is | ast.IsNot) for op in node.ops)
        and _reads_state([node.left, *node.comparators])
    )


def _reads_state(sides: list[ast.expr]) -> bool:
    """One side is the language's `none`, or an entry of the state, as in ``self.owner[b]`` or ``self.cursor.value``."""
    return any(
        (isinstance(side, ast.Name) and side.id == "none")
        or isinstance(side, ast.Subscript)
        or (isinstance(side, ast.Attribute) and side.attr == "value")
        for side in sides
    )


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
