"""The source of a machine's text, for what only the source shows: each file is parsed once."""

from __future__ import annotations

import ast
import dis
import inspect
import linecache
import re
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from types import CodeType, FunctionType
from typing import Any

from .mistakes import is_tool

__all__ = [
    "IS",
    "WITH",
    "class_at",
    "does",
    "function_of",
    "is_of_others",
    "never_run",
    "parameters",
    "returns_at_last",
    "tree_of",
]


def parameters(function: Callable[..., Any], given: int | None = None) -> list[str]:
    """The names of a function's parameters, as `inspect.signature` has them, which takes its time for each.

    ``given``: so many are given; where there are more, those with a default are left out, as in `lambda b, i=i: …`.
    """
    names = _parameters(function)
    if given is None or len(names) <= given:
        return names
    own = inspect.signature(function).parameters
    return [name for name in names if own[name].default is inspect.Parameter.empty]


def _parameters(function: Callable[..., Any]) -> list[str]:
    if type(function) is FunctionType and not vars(function):
        code = function.__code__
        if not code.co_kwonlyargcount and not code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
            return [*code.co_varnames[: code.co_argcount]]
    return list(inspect.signature(function).parameters)


@cache
def is_of_others(file: str) -> bool:
    """The language itself, Python's library, or a package that is installed: none is the text of a machine."""
    places = (sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    return is_tool(file) or any(file.startswith(place) for place in places)


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
    tree = tree_of(file)
    found = [] if tree is None else [n for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and n.name == name]
    around = [n for n in found if n.lineno <= line <= (n.end_lineno or 0)]
    return max(around, key=lambda n: n.lineno, default=None)


@cache
def never_run(file: str) -> tuple[int, ...]:
    """The lines of what stands behind a `return` in the same block, or behind what ends it likewise: it leaves no code.

    To parse the file takes long, so its lines are looked through before.
    """
    tree = tree_of(file) if _may_hold_more(linecache.getlines(file)) else None
    return () if tree is None else tuple(sorted({line for node in ast.walk(tree) for line in _behind_an_end(node)}))


@cache
def returns_at_last(file: str) -> tuple[int, ...]:
    """The lines of each `return` in a `finally`: it takes the place of what was to be returned before."""
    tree = tree_of(file) if any(line.lstrip().startswith("finally") for line in linecache.getlines(file)) else None
    blocks = () if tree is None else [node.finalbody for node in ast.walk(tree) if isinstance(node, ast.Try)]
    return tuple(sorted({line for block in blocks for line in _returns(block)}))


def _returns(block: Sequence[ast.AST]) -> Iterator[int]:
    for node in block:
        if isinstance(node, ast.Return):
            yield node.lineno
        elif not isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef):
            yield from _returns([*ast.iter_child_nodes(node)])


_ENDS = ("return", "raise", "break", "continue")
_GOES_ON = re.compile(r"else\b|elif\b|except\b|finally\b|case\b")


def _may_hold_more(lines: Sequence[str]) -> bool:
    """Behind a line that ends a block one is indented as far."""
    ended: int | None = None
    """How far a line is indented that ends a block, and behind which there was none yet but what belongs to it."""
    for line in lines:
        text = line.lstrip()
        if not text or text[0] == "#":
            continue
        indent = len(line) - len(text)
        if ended is not None and (indent > ended or (indent == ended and text[0] in ")]}")):
            continue
        if indent == ended and not _GOES_ON.match(text):
            return True
        ended = indent if text.startswith(_ENDS) else None
    return False


def _behind_an_end(node: ast.AST) -> Iterator[int]:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        for one, other in pairwise(block if isinstance(block, list) else ()):
            makes_a_generator = isinstance(other, ast.Expr) and isinstance(other.value, ast.Yield)
            if isinstance(one, ast.Return | ast.Raise | ast.Break | ast.Continue) and not makes_a_generator:
                yield other.lineno


@cache
def _functions(file: str) -> dict[int, ast.FunctionDef]:
    """By the line on which they begin, decorators included."""
    tree = tree_of(file)
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
def tree_of(file: str) -> ast.Module | None:
    """The file, parsed; None where its source is not at hand."""
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return None
