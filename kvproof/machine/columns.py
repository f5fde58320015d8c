"""Formulas over columns of numbers, written out as torch operations.

`compiled` turns the formulas that are wanted (`graph.py`) into one Python function of the columns.

Truth values are the numbers 0 and 1, also in tensors: torch compares and combines int8 several times faster than bool.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .graph import Node, Value

__all__ = ["Columns", "Program", "bits_for", "compiled", "dtype_for"]


def bits_for(lo: int, hi: int) -> int:
    """The width of the smallest integer tensor for numbers from lo to hi.

    Wider ones do not occur but in the changes of words by values that leave the scope, which are reported and not used.
    """
    return next((bits for bits in (8, 16, 32) if -(1 << (bits - 1)) <= lo and hi < 1 << (bits - 1)), 64)


_DTYPES = {8: torch.int8, 16: torch.int16, 32: torch.int32, 64: torch.int64}


def dtype_for(lo: int, hi: int) -> torch.dtype:
    """The smallest integer type for numbers from lo to hi."""
    return _DTYPES[bits_for(lo, hi)]


@dataclass(frozen=True)
class Program:
    """Formulas as one function of the columns of ``fields``; it returns a column, or a number, for each formula."""

    fields: tuple[int, ...]
    run: Callable[..., tuple[torch.Tensor | int, ...]]
    source: str

    def __call__(self, columns: Columns) -> tuple[torch.Tensor | int, ...]:
        """Evaluate."""
        return self.run(*[columns[f] for f in self.fields])


class Columns:
    """The fields of some states, unpacked when first asked for."""

    def __init__(self, load: Callable[[int], torch.Tensor]) -> None:
        self._load = load
        self._columns: dict[int, torch.Tensor] = {}

    def __getitem__(self, field: int) -> torch.Tensor:
        column = self._columns.get(field)
        if column is None:
            column = self._columns[field] = self._load(field)
        return column

    def rows(self, index: torch.Tensor) -> Columns:
        """The same for some of the states only."""
        return Columns(lambda field: self[field].index_select(0, index))


def compiled(outputs: Sequence[Value]) -> Program:
    """Write the formulas as a function."""
    return _Writer(outputs).program()


def _compare(op: str) -> Callable[[torch.Tensor, int], torch.Tensor]:
    function = getattr(torch, op)

    def compare(a: torch.Tensor, number: int) -> torch.Tensor:
        # With an output of the operand's own type torch compares in vectors, ten times faster than into a bool.
        result: torch.Tensor = function(a, number, out=torch.empty_like(a))
        return result if result.dtype == torch.int8 else result.to(torch.int8)

    return compare


_SPACE: dict[str, Any] = {
    "maximum": torch.maximum,
    "add": torch.add,
    "i8": torch.int8,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
    **{f"{op}k": _compare(op) for op in ("eq", "ne", "le", "ge")},
}
_SIGN = {"eq": "==", "ne": "!=", "lt": "<", "le": "<="}


@functools.lru_cache(maxsize=1024)
def _function(source: str) -> Callable[..., tuple[torch.Tensor | int, ...]]:
    """The function that the text defines. A mutant differs from its machine in little: most of its text is the same."""
    space = dict(_SPACE)
    exec(compile(source, "<columns>", "exec"), space)  # our own text, written from the formulas
    program: Callable[..., tuple[torch.Tensor | int, ...]] = space["program"]
    return program


class _Writer:
    """Writes nodes as Python text, one line each; names are used again once their value is no longer needed."""

    def __init__(self, outputs: Sequence[Value]) -> None:
        self.outputs = outputs
        self.order = _ordered([v for v in outputs if isinstance(v, Node)])
        self.uses: dict[Node, int] = {}
        for node in self.order:
            for part in _parts(node):
                self.uses[part] = self.uses.get(part, 0) + 1
        for value in outputs:
            if isinstance(value, Node):
                self.uses[value] = self.uses.get(value, 0) + 1
        self.names: dict[Node, str] = {}
        self.free: list[str] = []
        self.made = 0
        self.lines: list[str] = []

    def program(self) -> Program:
        """The function."""
        fields = []
        for node in self.order:
            if node.op == "col":
                fields.append(node.args[0])
                self.names[node] = f"c{node.args[0]}"
                continue
            text = self._text(node)
            for part in _parts(node):
                self._used(part)
            name = self.free.pop() if self.free else self._fresh()
            self.names[node] = name
            self.lines.append(f"    {name} = {text}")
        results = "".join(f"{v if isinstance(v, int) else self.names[v]}, " for v in self.outputs)
        head = f"def program({', '.join(f'c{f}' for f in fields)}):"
        source = "\n".join([head, *self.lines, f"    return ({results})", ""])
        return Program(tuple(fields), _function(source), source)

    def _fresh(self) -> str:
        self.made += 1
        return f"v{self.made}"

    def _used(self, node: Node) -> None:
        self.uses[node] -= 1
        if not self.uses[node] and node.op != "col":
            self.free.append(self.names[node])

    def _operand(self, value: Value, bits: int) -> str:
        if isinstance(value, int):
            return str(value) if value >= 0 else f"({value})"
        name = self.names[value]
        return name if bits_for(value.lo, value.hi) == bits else f"{name}.to(i{bits})"

    def _text(self, node: Node) -> str:
        op, args = node.op, node.args
        if op == "not":
            return f"{self.names[args[0]]} ^ 1"
        if op in ("and", "or"):
            return f"{self.names[args[0]]} {'&' if op == 'and' else '|'} {self.names[args[1]]}"
        if op in ("eq", "ne", "lt", "le", "ge"):
            if isinstance(args[1], int):
                return f"{op}k({self.names[args[0]]}, {args[1]})"
            bits = max(bits_for(x.lo, x.hi) for x in args)
            return f"({self._operand(args[0], bits)} {_SIGN[op]} {self._operand(args[1], bits)}).view(i8)"
        if op == "pick":
            return self._pick(node)
        if op == "quotient":
            return self._quotient(node)
        # These are exact modulo the width of the result, so wider operands may be cut to it.
        constants = [x for x in args if isinstance(x, int)]
        bits = bits_for(min(node.lo, *constants, 0), max(node.hi, *constants, 0))
        if op == "max":
            bits = max(bits, *(bits_for(x.lo, x.hi) for x in args if isinstance(x, Node)))
        text = self._arithmetic(node, [self._operand(x, bits) for x in args])
        return text if bits == bits_for(node.lo, node.hi) else f"({text}).to(i{bits_for(node.lo, node.hi)})"

    def _arithmetic(self, node: Node, parts: list[str]) -> str:
        op, args = node.op, node.args
        if op == "add":
            return f"{parts[0]} + {parts[1]}"
        if op == "sub":
            return f"{parts[0]} - {parts[1]}"
        if op == "max":
            return (
                f"{parts[0]}.clamp(min={args[1]})" if isinstance(args[1], int) else f"maximum({parts[0]}, {parts[1]})"
            )
        if op == "mul":
            factor = args[1]
            if factor > 0 and factor & (factor - 1) == 0:
                return f"{parts[0]} << {factor.bit_length() - 1}"
            return f"-{parts[0]}" if factor == -1 else f"{parts[0]} * {factor}"
        assert op == "where"
        condition, a, b = parts
        if args[1] == 0:
            return f"{b} & ({condition} - 1)"
        return f"{condition} * {a}" if args[2] == 0 else f"{b} + {condition} * ({a} - {b})"

    def _quotient(self, node: Node) -> str:
        a, divisor = node.args
        bits = max(bits_for(a.lo, a.hi), bits_for(0, divisor))
        return f"({self._operand(a, bits)} // {divisor}).to(i{bits_for(node.lo, node.hi)})"

    def _pick(self, node: Node) -> str:
        bits = bits_for(node.lo, node.hi)
        cases = [(self._operand(c, bits), v) for c, v in zip(*node.args, strict=True) if v]
        text = cases[0][0] if cases[0][1] == 1 else f"({cases[0][0]} * {cases[0][1]})"
        for name, value in cases[1:]:
            text = f"add({text}, {name}, alpha={value})"
        return text


def _parts(node: Node) -> Iterator[Node]:
    args = node.args[0] if node.op == "pick" else node.args
    return (a for a in args if isinstance(a, Node))


def _ordered(outputs: Iterable[Node]) -> list[Node]:
    """The nodes below the outputs, each after those that it needs."""
    order: list[Node] = []
    done: set[Node] = set()
    for output in outputs:
        stack: list[tuple[Node, Iterator[Node]]] = [(output, _parts(output))]
        open_now = {output}
        while stack:
            node, rest = stack[-1]
            below = next((p for p in rest if p not in done and p not in open_now), None)
            if below is not None:
                open_now.add(below)
                stack.append((below, _parts(below)))
                continue
            stack.pop()
            if node not in done:
                done.add(node)
                order.append(node)
    return order
