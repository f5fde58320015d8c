"""What a function says in the place of a type: Python leaves it out.

`ok: self.x.value == 0` compares nothing. It says that ``ok``, which nobody has given a value, is of the type that
stands there, and leaves nothing in the code; so it is found in the source.
"""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Iterator
from functools import cache

from .source import tree_of

__all__ = ["said_as_types"]


@cache
def said_as_types(file: str) -> tuple[tuple[int, str], ...]:
    """The lines of what would be lost, and what is wrong there.

    To parse the file takes long, so its lines are looked through before.
    """
    tree = tree_of(file) if any(map(_may_be_one, linecache.getlines(file))) else None
    functions = () if tree is None else (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef))
    return tuple(found for function in functions for found in _lost_in(function))


_BEGINS = re.compile(r"(?:^|[;:])\s*[(\s]*(\w+)[\s)]*:\s*[^\s=]|^\s*:")
_OTHERS = {"class", "def", "else", "except", "finally", "lambda", "try"}


def _may_be_one(line: str) -> bool:
    """It may hold a name and its type; what ends with a comma is a parameter, or an entry of a dict."""
    if line.rstrip().endswith(",") and "#" not in line:
        return False
    return any(name not in _OTHERS for name in _BEGINS.findall(line))


def _lost_in(function: ast.FunctionDef) -> Iterator[tuple[int, str]]:
    """In the function itself: what stands in others that are defined in it is theirs."""
    inside = [*_inside(function)]
    said = [node for node in inside if isinstance(node, ast.AnnAssign)]
    declared = {id(node.target) for node in said if node.value is None}
    names = (n for n in inside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and id(n) not in declared)
    bound = {name.id for name in names}
    for node in said:
        is_alone = node.value is None and not (isinstance(node.target, ast.Name) and node.target.id in bound)
        if is_alone or _is_no_type(node.annotation):
            text, target = ast.unparse(node), ast.unparse(node.target)
            yield (
                node.lineno,
                f"`{text}` does nothing: what stands behind the colon is taken for the type of {target}, and what it "
                f"says would be lost; require it, return it, or write `{target} = …`",
            )


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    for part in ast.iter_child_nodes(node):
        yield part
        if not isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield from _inside(part)


def _is_no_type(said: ast.expr) -> bool:
    """It compares, calls or computes, or speaks of the state."""
    return any(
        isinstance(part, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Call | ast.NamedExpr)
        or (isinstance(part, ast.Name) and part.id in ("self", "before"))
        for part in ast.walk(said)
    )
