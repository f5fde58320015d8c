"""Mutants of a module's text: one thing in it is wrong, as a mistake of its author's would be."""

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

__all__ = ["Mutant", "mutants", "traced"]

_HIT = "_kvproof_hit"
"""The function that a traced module calls with the line of each statement that it begins."""


@dataclass(frozen=True)
class Mutant:
    """A module with one thing wrong."""

    line: int
    column: int
    function: str
    """The function, with its class, that it is in."""
    what: str
    """What was done, in words: ``drop: block.ref_cnt += 1``."""
    source: str
    """The module's text."""


Change = tuple[str, ast.AST]
"""What is done to a node, in words; and what stands in its place."""


def mutants(source: str, lines: set[int]) -> Iterator[Mutant]:
    """Yield the mutants of what begins in one of these lines."""
    tree = ast.parse(source)
    for function, statement in [*_statements(tree, "")]:
        if statement.lineno not in lines:
            continue
        for node in [*_own(statement)]:
            for what, new in _changes(node):
                column: int = getattr(node, "col_offset", 0)
                yield Mutant(statement.lineno, column, function, what, _text_with(tree, node, new))
    yield from _swapped(tree, lines)


def _swapped(tree: ast.Module, lines: set[int]) -> Iterator[Mutant]:
    """Two statements in the other order, where the second one does not need a name that the first one binds."""
    functions = {id(statement): function for function, statement in _statements(tree, "")}
    for body in [*_bodies(tree)]:
        for at, (one, other) in enumerate([*pairwise(body)]):
            if {one.lineno, other.lineno} <= lines and _may_be_swapped(one, other):
                body[at : at + 2] = other, one
                what = f"behind the next: {ast.unparse(one).partition(_LINE)[0]}"
                yield Mutant(one.lineno, one.col_offset, functions[id(one)], what, ast.unparse(tree))
                body[at : at + 2] = one, other


def _may_be_swapped(one: ast.stmt, other: ast.stmt) -> bool:
    if not all([*_own(statement)] and not isinstance(statement, _LEAVES) for statement in (one, other)):
        return False
    bound = {node.id for node in ast.walk(one) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return bound.isdisjoint(node.id for node in ast.walk(other) if isinstance(node, ast.Name))


_LEAVES = ast.Return | ast.Raise | ast.Continue | ast.Break | ast.Pass

_LINE = "\n"


def traced(source: str, sink: str) -> str:
    """The module, telling ``sink`` once of each line in which a statement of a function begins."""
    tree = ast.parse(source)
    for held in [*_bodies(tree)]:
        held[:] = [marked for statement in held for marked in (_mark(statement), statement)]
    begin = (
        f"_kvproof_seen = set()\n"
        f"def {_HIT}(line):\n"
        f"    if line not in _kvproof_seen:\n"
        f"        _kvproof_seen.add(line)\n"
        f"        with open({sink!r}, 'a') as sink:\n"
        f"            sink.write(f'{{line}}\\n')\n"
    )
    text, future = ast.unparse(ast.fix_missing_locations(tree)), "from __future__ import annotations\n"
    return future + begin + text.replace(future, "") if future in text else begin + text


def _bodies(tree: ast.Module) -> Iterator[list[ast.stmt]]:
    """Each list of statements within a function."""
    held = {id(statement) for _, statement in _statements(tree, "")}
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            body = getattr(node, name, None)
            if isinstance(body, list) and body and id(body[0]) in held:
                yield body


def _mark(statement: ast.stmt) -> ast.stmt:
    return ast.parse(f"{_HIT}({statement.lineno})").body[0]


def _statements(node: ast.AST, path: str) -> Iterator[tuple[str, ast.stmt]]:
    """The statements within functions, each with the function it is in; those of nested ones too."""
    for child in ast.iter_child_nodes(node):
        name = getattr(child, "name", None) if isinstance(child, ast.stmt) else None
        here = f"{path}.{name}".strip(".") if name else path
        if isinstance(child, ast.stmt) and path and not isinstance(node, ast.ClassDef | ast.Module):
            yield path, child
        yield from _statements(child, here)


_PARTS = ("body", "orelse", "finalbody", "handlers", "cases")


def _own(statement: ast.stmt) -> Iterator[ast.AST]:
    """The statement and its expressions, without the statements that it holds."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return
    if isinstance(statement, ast.Assert | ast.Import | ast.ImportFrom) or _is_talk(statement):
        return
    yield statement
    for name, value in ast.iter_fields(statement):
        if name in _PARTS or name == "annotation":
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from (node for node in ast.walk(child) if isinstance(node, ast.expr))


def _is_talk(statement: ast.stmt) -> bool:
    """A docstring, or a line of a log."""
    if not isinstance(statement, ast.Expr):
        return False
    value = statement.value
    if isinstance(value, ast.Constant):
        return True
    return isinstance(value, ast.Call) and "logger" in ast.unparse(value.func)


_OTHER: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add,
}  # fmt: skip

_OTHER_CALL = {"min": "max", "max": "min", "any": "all", "all": "any"}

_OTHER_END = {"append": "insert", "appendleft": "append", "pop": "pop", "popleft": "pop"}


def _changes(node: ast.AST) -> Iterator[Change]:
    text = ast.unparse(node).split("\n")[0]
    if _may_be_dropped(node):
        yield f"drop: {text}", ast.Pass()
    match node:
        case ast.If(test=test) | ast.IfExp(test=test):
            for always in (True, False):
                yield f"{always} for: {ast.unparse(test)}", _with(node, test=ast.Constant(always))
        case ast.While():
            yield f"False for: {text}", _with(node, test=ast.Constant(False))
        case ast.BoolOp(values=values):
            for place, value in enumerate(values):
                left = [*values[:place], *values[place + 1 :]]
                without = left[0] if len(left) == 1 else _with(node, values=left)
                yield f"without {ast.unparse(value)}: {text}", without
        case ast.BinOp(op=op, left=side) if type(op) in _OTHER:
            yield f"other sign: {text}", _with(node, op=_OTHER[type(op)]())
            yield f"left side alone: {text}", side
        case ast.AugAssign(op=op) if type(op) in _OTHER:
            yield f"other sign: {text}", _with(node, op=_OTHER[type(op)]())
        case ast.Compare(ops=[op, *more]) if type(op) in _OTHER:
            yield f"other sign: {text}", _with(node, ops=[_OTHER[type(op)](), *more])
        case ast.Constant(value=bool(said)):
            yield f"{not said} for {said}", ast.Constant(not said)
        case ast.Constant(value=int(number)):
            yield f"{number + 1} for {number}", ast.Constant(number + 1)
        case ast.Call(func=ast.Name(id="reversed"), args=[turned]):
            yield f"not reversed: {text}", turned
        case ast.List(elts=[ast.Starred(value=held)]) | ast.Call(func=ast.Name(id="list"), args=[held]):
            yield f"not copied: {text}", held
        case ast.Subscript(slice=ast.Slice(lower=lower, upper=upper) as part):
            if lower is not None:
                yield f"from the beginning: {text}", _with(node, slice=_with(part, lower=None))
            if upper is not None:
                yield f"to the end: {text}", _with(node, slice=_with(part, upper=None))
        case ast.Call(func=ast.Attribute(attr=name) as method, args=args) if _has_other_end(name, len(args)):
            first = [ast.Constant(0)] if name in ("append", "pop") else []
            yield f"other end: {text}", _with(node, func=_with(method, attr=_OTHER_END[name]), args=[*first, *args])
        case ast.Call(func=ast.Name(id=name)) if name in _OTHER_CALL:
            yield f"other function: {text}", _with(node, func=ast.Name(_OTHER_CALL[name], ast.Load()))


def _has_other_end(method: str, arguments: int) -> bool:
    return method in _OTHER_END and arguments == (method.startswith("append"))


def _may_be_dropped(node: ast.AST) -> bool:
    """A statement without which the function still runs: names that are bound later are not missed."""
    if isinstance(node, ast.Assign):
        return any(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets)
    return isinstance(node, ast.Expr | ast.AugAssign | ast.Delete | ast.Raise | ast.Continue | ast.Break)


def _with(node: ast.AST, **fields: object) -> ast.AST:
    """A copy of a node, with these fields."""
    copied = copy.copy(node)
    for name, value in fields.items():
        setattr(copied, name, value)
    return copied


class _Put(ast.NodeTransformer):
    """Puts something in the place of one node."""

    def __init__(self, node: ast.AST, new: ast.AST) -> None:
        self._node, self._new = node, new

    def visit(self, node: ast.AST) -> ast.AST:
        """Look for the node."""
        return self._new if node is self._node else super().generic_visit(node)


def _text_with(tree: ast.Module, node: ast.AST, new: ast.AST) -> str:
    _Put(node, new).visit(tree)
    text = ast.unparse(ast.fix_missing_locations(tree))
    _Put(new, node).visit(tree)
    return text
