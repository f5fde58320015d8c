"""The source of a machine's text, for what only the source shows: each file is parsed once."""

from __future__ import annotations

import ast
import linecache
from functools import cache
from types import CodeType

__all__ = ["class_at", "function_of"]


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
    found = [] if tree is None else [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    return {min([n.lineno, *(d.lineno for d in n.decorator_list)]): n for n in found}


@cache
def _tree(file: str) -> ast.Module | None:
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return None
