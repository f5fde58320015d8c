"""Mistakes of a text that the text itself passes over.

What the language raises is noted, and told even where it is caught. What Python raises by itself, of a name that is
written wrongly or of a helper that is called wrongly, is not: behind an `except Exception` the condition that was meant
is never made, and what is proved is proved without it. So a text catches nothing that every mistake would be; nor does
a block of its own, which passes over whatever is raised in it where its end says something true.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from types import CodeType, FunctionType

from .mistakes import Line, MachineError
from .source import does, function_of

__all__ = ["refuse_passed_over"]

_WIDE = {"BaseException", "Exception", "NameError", "TypeError", "UnboundLocalError"}
"""What Python raises of a text that is wrong, and what is told as that."""


def refuse_passed_over(texts: Iterable[FunctionType]) -> None:
    """None of these functions, in which the text of a machine stands, passes over what is wrong in it.

    Raises:
        MachineError: one does; the line is where.
    """
    for function in texts:
        for number, text in _passing(function.__code__):
            raise MachineError(text, Line(function.__code__.co_filename, number))


@cache
def _passing(code: CodeType) -> tuple[tuple[int, str], ...]:
    """The lines on which everything is passed over, and not raised again, and what is wrong there."""
    is_end = code.co_name == "__exit__"
    function = function_of(code) if is_end or does(code, ("PUSH_EXC_INFO",)) else None
    if function is None:
        return ()
    return (*_caught(function), *(_at_an_end(function) if is_end else ()))


def _caught(function: ast.FunctionDef) -> Iterator[tuple[int, str]]:
    for number, caught in _found(function):
        yield (
            number,
            f"`{caught}` passes over whatever is wrong in the text before it, and what that says would be lost: name "
            "the one error that may come there, as in `except KeyError`, or raise it again",
        )


def _at_an_end(function: ast.FunctionDef) -> Iterator[tuple[int, str]]:
    """What the end of a block says that passes over everything: not what it asks, as which error it was."""
    for node in ast.walk(function):
        if isinstance(node, ast.Return) and node.value is not None and not _says_no_or_asks(node.value):
            yield (
                node.lineno,
                f"`{ast.unparse(node)}` in `__exit__` passes over whatever is wrong in the block, and what that says "
                "would be lost: return nothing, or which error it is, as in `return isinstance(error, KeyError)`",
            )


def _says_no_or_asks(value: ast.expr) -> bool:
    is_no = isinstance(value, ast.Constant) and not value.value
    return is_no or any(isinstance(part, ast.Call) for part in ast.walk(value))


def _found(function: ast.FunctionDef) -> Iterator[tuple[int, str]]:
    for node in ast.walk(function):
        if isinstance(node, ast.ExceptHandler) and not isinstance(node.body[-1], ast.Raise):
            if node.type is None:
                yield node.lineno, "except"
            elif _is_wide(node.type):
                yield node.lineno, f"except {ast.unparse(node.type)}"
        elif isinstance(node, ast.Call) and _name(node.func) == "suppress" and any(map(_is_wide, node.args)):
            yield node.lineno, ast.unparse(node)


def _is_wide(caught: ast.expr) -> bool:
    names = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return not _WIDE.isdisjoint(map(_name, names))


def _name(node: ast.expr) -> str:
    """What it is called, be it as a part of a module."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
