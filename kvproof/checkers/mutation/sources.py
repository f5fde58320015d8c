"""Mutants of a Python text: one mistake in one statement, made in its syntax tree.

The text is any module's. What does nothing when it runs is left alone: declarations, annotations, docstrings, messages,
what an object says of itself, and assertions: also that two sequences are of one length (``zip(…, strict=True)``).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass

__all__ = ["SOURCE_OPERATORS", "SourceMutant", "source_mutants"]

SOURCE_OPERATORS = {
    "forget statement": "a call, an assignment or a raise does not happen",
    "negate condition": "the opposite of a condition is asked",
    "weaken condition": "a part of it is missing",
    "boundary": "a comparison is one off",
    "off by one": "a number is one too great",
    "arithmetic": "a sum is a difference, or the other way round",
    "other end": "an element joins, leaves or is taken from the other end",
    "wrong value": "True for False, any for all, the least for the greatest",
    "loop on": "a loop is not left, or left at once",
}
"""The kinds of mistakes in a text, and what goes wrong."""

BOUNDARY = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
ARITHMETIC = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.FloorDiv: ast.Mult, ast.Mult: ast.FloorDiv}
ENDS = {
    "append": "appendleft",
    "appendleft": "append",
    "popleft": "pop",
    "append_n": "prepend_n",
    "prepend_n": "append_n",
}
NAMES = {"any": "all", "all": "any", "min": "max", "max": "min"}
SILENT = ("__repr__", "__str__")


@dataclass(frozen=True, eq=False)
class SourceMutant:
    """A module with one mistake: its tree, the line of the mistake, its kind and what it is."""

    file: str
    line: int
    operator: str
    what: str
    tree: ast.Module

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.what}"


def source_mutants(text: str, file: str, lines: frozenset[int] | None = None) -> Iterator[SourceMutant]:
    """All mutants of a text; ``lines``: of the statements that begin in one of these only."""
    tree = ast.parse(text)
    for path, statement in _statements(tree):
        if lines is None or statement.lineno in lines:
            for operator, what, wrong in _variants(statement):
                yield SourceMutant(file, statement.lineno, operator, what, _with(tree, path, wrong))


Path = tuple[tuple[str, int], ...]
"""From the module inwards: the name of the list of statements, and the place in it."""


def _statements(tree: ast.Module) -> Iterator[tuple[Path, ast.stmt]]:
    """Every statement that does something when a function runs."""

    def inside(node: ast.AST, path: Path, *, runs: bool) -> Iterator[tuple[Path, ast.stmt]]:
        for block in ("body", "orelse", "finalbody"):
            for number, s in enumerate(getattr(node, block, ())):
                here = (*path, (block, number))
                if isinstance(s, ast.FunctionDef):
                    if s.name not in SILENT:
                        yield from inside(s, here, runs=True)
                    continue
                if runs and not _is_silent(s):
                    yield here, s
                yield from inside(s, here, runs=runs)
        for block in ("handlers", "cases"):
            for number, part in enumerate(getattr(node, block, ())):
                yield from inside(part, (*path, (block, number)), runs=runs)

    yield from inside(tree, (), runs=False)


def _is_silent(s: ast.stmt) -> bool:
    """A docstring, an import, a declaration, or an assertion."""
    if isinstance(s, ast.Expr):
        return isinstance(s.value, ast.Constant)
    return isinstance(s, ast.Import | ast.ImportFrom | ast.ClassDef | ast.Pass | ast.Assert | ast.Global | ast.Nonlocal)


def _with(tree: ast.Module, path: Path, wrong: ast.stmt) -> ast.Module:
    """The tree with another statement at this path; what is not on the way to it is shared."""

    def changed(node: ast.AST, rest: Path) -> ast.AST:
        (block, number), *inner = rest
        fresh = type(node)(**dict(ast.iter_fields(node)))
        ast.copy_location(fresh, node)
        old = getattr(node, block)
        here = changed(old[number], tuple(inner)) if inner else wrong
        setattr(fresh, block, [*old[:number], here, *old[number + 1 :]])
        return fresh

    found = changed(tree, path)
    assert isinstance(found, ast.Module)
    return ast.fix_missing_locations(found)


# ------------------------------------------------------------------------------------------------ one statement

Variant = tuple[str, str, ast.stmt]


def _variants(s: ast.stmt) -> Iterator[Variant]:
    """What can go wrong in a statement, leaving aside those inside it."""
    if isinstance(s, ast.Expr | ast.Assign | ast.AugAssign | ast.Delete | ast.Raise):
        yield "forget statement", f"forgets `{_shown(s)}`", ast.copy_location(ast.Pass(), s)
    if isinstance(s, ast.Break | ast.Continue):
        other = ast.Continue() if isinstance(s, ast.Break) else ast.Break()
        yield "loop on", f"`{_shown(other)}` in place of `{_shown(s)}`", ast.copy_location(other, s)
    for place, operator, wrong in _expressions(s):
        fresh = _replaced(s, place, wrong)
        old = _at(s, place)
        yield operator, f"`{_shown(wrong)}` in place of `{_shown(old)}`", fresh


def _shown(node: ast.AST) -> str:
    """The text of a node in one line, of a statement with others inside it the first."""
    return ast.unparse(node).split("\n")[0]


Place = tuple[tuple[str, int | None], ...]
"""From a statement inwards to one of its expressions: fields, and places in them where they are lists."""


def _expressions(s: ast.stmt) -> Iterator[tuple[Place, str, ast.expr]]:
    """The wrong expressions that can stand in the place of one of the statement's own."""
    for place, node in _walk(s, ()):
        is_condition = place in ((("test", None),),) and isinstance(s, ast.If | ast.While)
        for operator, wrong in _wrong(node, is_condition=is_condition):
            yield place, operator, ast.copy_location(wrong, node)


def _walk(node: ast.AST, place: Place) -> Iterator[tuple[Place, ast.expr]]:
    """The expressions of a statement and those inside them; not what stands in other statements, messages, or types."""
    for name, value in ast.iter_fields(node):
        if name in ("body", "orelse", "finalbody", "handlers", "annotation", "ctx", "returns", "exc") and (
            not isinstance(node, ast.IfExp | ast.Lambda)
        ):
            continue
        for number, part in enumerate(value) if isinstance(value, list) else [(None, value)]:
            here = (*place, (name, number))
            if isinstance(part, ast.JoinedStr) or (isinstance(part, ast.keyword) and part.arg == "strict"):
                continue
            if isinstance(part, ast.expr):
                yield here, part
            if isinstance(part, ast.AST) and not isinstance(part, ast.stmt):
                yield from _walk(part, here)


def _wrong(node: ast.expr, *, is_condition: bool) -> Iterator[tuple[str, ast.expr]]:
    """The mistakes that can be made at the top of an expression."""
    if is_condition:
        yield "negate condition", ast.UnaryOp(ast.Not(), node)
    if isinstance(node, ast.IfExp):
        yield "negate condition", ast.IfExp(node.test, node.orelse, node.body)
    elif isinstance(node, ast.BoolOp):
        for number in range(len(node.values)):
            rest = [*node.values[:number], *node.values[number + 1 :]]
            yield "weaken condition", rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
    elif isinstance(node, ast.Compare):
        yield from _compared(node)
    elif isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        yield "arithmetic", ast.BinOp(node.left, ARITHMETIC[type(node.op)](), node.right)
    elif isinstance(node, ast.Constant):
        yield from _constants(node)
    elif isinstance(node, ast.Attribute) and node.attr in ENDS:
        yield "other end", ast.Attribute(node.value, ENDS[node.attr], node.ctx)
    elif isinstance(node, ast.Name) and node.id in NAMES:
        yield "wrong value", ast.Name(NAMES[node.id], node.ctx)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "reversed":
        yield "other end", node.args[0]


def _compared(node: ast.Compare) -> Iterator[tuple[str, ast.expr]]:
    for number, op in enumerate(node.ops):
        kind = BOUNDARY.get(type(op))
        if kind is not None:
            ops = [*node.ops[:number], kind(), *node.ops[number + 1 :]]
            yield "boundary", ast.Compare(node.left, ops, node.comparators)


def _constants(node: ast.Constant) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node.value, bool):
        yield "wrong value", ast.Constant(not node.value)
    elif isinstance(node.value, int):
        yield "off by one", ast.Constant(node.value + 1)


def _at(node: ast.AST, place: Place) -> ast.AST:
    for name, number in place:
        value = getattr(node, name)
        node = value if number is None else value[number]
    return node


def _replaced(s: ast.stmt, place: Place, wrong: ast.expr) -> ast.stmt:
    """A copy of the statement with another expression there."""
    fresh = deepcopy(s)
    *outer, (name, number) = place
    parent = _at(fresh, tuple(outer))
    if number is None:
        setattr(parent, name, wrong)
    else:
        getattr(parent, name)[number] = wrong
    return fresh
