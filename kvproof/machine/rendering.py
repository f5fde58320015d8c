"""Terms as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from . import operations as op

if TYPE_CHECKING:
    from .terms import Term

__all__ = ["render"]

Infix = (
    op.And
    | op.Or
    | op.Implies
    | op.Equal
    | op.Less
    | op.AtMost
    | op.Add
    | op.Subtract
    | op.Multiply
    | op.Divide
    | op.FloorDivide
    | op.Modulo
)
"""What stands between its operands."""

_SIGNS: dict[type[Infix], str] = {
    op.And: "&",
    op.Or: "|",
    op.Implies: "=>",
    op.Equal: "==",
    op.Less: "<",
    op.AtMost: "<=",
    op.Add: "+",
    op.Subtract: "-",
    op.Multiply: "*",
    op.Divide: "/",
    op.FloorDivide: "//",
    op.Modulo: "%",
}


def render(term: Term) -> str:
    """The term as a reader of the machine would write it."""
    match term.operation:
        case op.Constant(value):
            return "none" if value is None else str(value)
        case op.Variable(name):
            return name
        case op.Temporary(_, value):
            return render(value)
        case op.ToReal(of):
            return render(of)
        case op.Not(of):
            if isinstance(inner := of.operation, op.Equal):
                return f"{_group(inner.left)} != {_group(inner.right)}"
            return f"~{_group(of)}"
        case (
            op.And(left, right)
            | op.Or(left, right)
            | op.Implies(left, right)
            | op.Equal(left, right)
            | op.Less(left, right)
            | op.AtMost(left, right)
            | op.Add(left, right)
            | op.Subtract(left, right)
            | op.Multiply(left, right)
            | op.Divide(left, right)
            | op.FloorDivide(left, right)
            | op.Modulo(left, right)
        ) as infix:
            return f"{_group(left)} {_SIGNS[type(infix)]} {_group(right)}"
        case op.Within(number, index):
            return f"{index.__name__}.has({render(number)})"
        case op.Ite(condition, then, otherwise):
            return f"ite({render(condition)}, {render(then)}, {render(otherwise)})"
        case op.Forall(binders, body):
            return f"forall({_bound(binders)}. {render(body)})"
        case op.Exists(binders, body):
            return f"exists({_bound(binders)}. {render(body)})"
        case op.Read() as read:
            return _read(read)
        case unknown:
            assert_never(unknown)


def _read(read: op.Reading) -> str:
    place = f"{'' if read.view == 'now' else read.view + '.'}{read.name}"
    if read.keys:
        place += f"[{', '.join(map(render, read.keys))}]"
    match read:
        case op.Entry() | op.Total():
            return place
        case op.Size():
            return f"{place}.size()"
        case op.Empty():
            return f"{place}.empty()"
        case op.Head():
            return f"{place}.head()"
        case op.Tail():
            return f"{place}.tail()"
        case op.Has():
            return f"{place}.has({render(read.element)})"
        case op.First():
            return f"{place}.first({render(read.element)})"
        case op.Before():
            return f"{place}.before({render(read.earlier)}, {render(read.later)})"
        case unknown:
            assert_never(unknown)


def _bound(binders: tuple[Term, ...]) -> str:
    return ", ".join(f"{render(b)}: {type(b).__name__}" for b in binders)


def _group(term: Term) -> str:
    text = render(term)
    return f"({text})" if isinstance(term.operation, Infix | op.Not) else text
