"""The members of a machine, its bases' and its own, none of which is lost or decided by Python."""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Iterator
from functools import cache
from types import FunctionType
from typing import Any

from .classbody import MARK, MachineType
from .declarations import Declaration
from .terms import Line, MachineError

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
    for function in [m for m in vars(base).values() if isinstance(m, FunctionType)]:
        code = function.__code__
        for number, text in _decided(code.co_filename, code.co_firstlineno):
            raise MachineError(
                f"Python decides `{text}` while the machine is read: compare values with == and !=",
                Line(code.co_filename, number),
            )
    if not isinstance(base, MachineType):
        file, first = inspect.getfile(base), _first_line_of(base)
        for name, number in _twice(file, base.__name__, first):
            raise MachineError(
                f"{name} stands twice in {base.__name__}, and the second would replace the first; "
                "give one of them another name",
                Line(file, number),
            )


def _first_line_of(base: type) -> int:
    lines = [m.__code__.co_firstlineno for m in vars(base).values() if isinstance(m, FunctionType)]
    return min(lines, default=0)


@cache
def _tree(file: str) -> ast.Module | None:
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return None


@cache
def _functions(file: str) -> dict[int, ast.FunctionDef]:
    """By the line on which they begin, decorators included."""
    tree = _tree(file)
    found = [] if tree is None else [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    return {min([n.lineno, *(d.lineno for d in n.decorator_list)]): n for n in found}


@cache
def _decided(file: str, first: int) -> tuple[tuple[int, str], ...]:
    """Where a function asks by `is` whether something that it reads of a machine is none."""
    function = _functions(file).get(first)
    if function is None:
        return ()
    return tuple(
        (node.lineno, ast.unparse(node))
        for node in ast.walk(function)
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


def _twice(file: str, name: str, first: int) -> Iterator[tuple[str, int]]:
    """The methods that replace another one in the body of the class that holds the given line."""
    tree = _tree(file)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.ClassDef) and node.name == name and node.lineno <= first <= (node.end_lineno or 0):
            seen: set[str] = set()
            for part in (n for n in node.body if isinstance(n, ast.FunctionDef)):
                if part.name in seen and not part.decorator_list:
                    yield part.name, part.lineno
                seen.add(part.name)
