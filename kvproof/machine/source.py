"""The source of a machine's text, for what only the source shows: each file is parsed once."""

from __future__ import annotations

import ast
import dis
import inspect
import linecache
from collections.abc import Callable, Iterator
from functools import cache
from types import CodeType, FunctionType
from typing import Any

__all__ = ["IS", "WITH", "class_at", "does", "function_of", "parameters"]


def parameters(function: Callable[..., Any]) -> list[str]:
    """The names of a function's parameters, as `inspect.signature` has them, which takes its time for each."""
    if type(function) is FunctionType and not vars(function):
        code = function.__code__
        if not code.co_kwonlyargcount and not code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
            return [*code.co_varnames[: code.co_argcount]]
    return list(inspect.signature(function).parameters)


IS = ("IS_OP", "IF_NONE", "IF_NOT_NONE")
WITH = ("WITH_EXCEPT_START", "RERAISE")


@cache
def does(code: CodeType, words: tuple[str, ...]) -> bool:
    """Whether one of its instructions, or of those of a function inside it, ends with one of these words.

    This is asked before the source is: to parse a file takes longer than all that is looked for in it.
    """
    if not _numbers(words).isdisjoint(code.co_code[::2]):
        return True
    return any(does(inside, words) for inside in code.co_consts if isinstance(inside, CodeType))


@cache
def _numbers(words: tuple[str, ...]) -> frozenset[int]:
    """The instructions that end with one of these words."""
    return frozenset(number for name, number in dis.opmap.items() if name.endswith(words))


def function_of(code: CodeType) -> ast.FunctionDef | None:
    """The definition from which the code was made; None where its source is not at hand, and for a lambda."""
    found = _functions(code.co_filename).get(code.co_firstlineno)
    return found if found is not None and found.name == code.co_name else None


def class_at(file: str, name: str, line: int) -> ast.ClassDef | None:
    """The innermost class of this name whose body holds the line; None where the source is not at hand."""
    tree = _tree(file)
    found = [] if tree is None else [n for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and n.name == name]
    around = [n for n in found if n.lineno <= line <= (n.end_lineno or 0)]
    return max(around, key=lambda n: n.lineno, default=None)


@cache
def _functions(file: str) -> dict[int, ast.FunctionDef]:
    """By the line on which they begin, decorators included."""
    tree = _tree(file)
    found = () if tree is None else _defined(tree)
    return {min([n.lineno, *(d.lineno for d in n.decorator_list)]): n for n in found}


def _defined(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    """All definitions of functions: statements stand in statements, and in cases and handlers of these."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        inside = getattr(tree, name, None)
        for node in inside if isinstance(inside, list) else ():
            if isinstance(node, ast.FunctionDef):
                yield node
            yield from _defined(node)


@cache
def _tree(file: str) -> ast.Module | None:
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return None
