"""Terms: the values that a machine's text computes with.

A machine is ordinary Python that is run once, on terms. `self.ref_cnt[b] + 1` builds a small tree; the interpreters
(concrete, symbolic, batched) give that tree its value. The class of a term is its type, so that the text of a machine
is checked by a type checker too: an element of sort ``Block`` is an instance of the class ``Block``.

Nothing here knows about state: see `language.py` for maps, queues and counts, `model.py` for whole machines.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, TypeVar, cast, overload

__all__ = [
    "FALSE",
    "RESULT",
    "TRUE",
    "Bool",
    "Index",
    "Int",
    "Line",
    "MachineError",
    "Real",
    "Sort",
    "Term",
    "all_of",
    "any_of",
    "caller",
    "iff",
    "implies",
    "inlined",
    "is_tool",
    "ite",
    "literal",
    "make",
    "none",
    "optional",
]

RESULT = "result"
"""The name by which properties of steps speak of what the action returns."""

_HERE = os.path.dirname(os.path.abspath(__file__))


def is_tool(file: str) -> bool:
    """A file of the modelling language, or the standard library's `with`."""
    return os.path.dirname(os.path.abspath(file)) == _HERE or file == contextlib.__file__


@dataclass(frozen=True)
class Line:
    """A place in the text of a machine."""

    file: str
    number: int

    def __str__(self) -> str:
        return f"{os.path.basename(self.file)}:{self.number}"


def caller() -> Line:
    """The innermost line outside the modelling language: the line of the machine that is being read."""
    frame = sys._getframe(1)
    while frame.f_back is not None and is_tool(frame.f_code.co_filename):
        frame = frame.f_back
    return Line(frame.f_code.co_filename, frame.f_lineno)


class MachineError(Exception):
    """A mistake in the text of a machine; the message names the action or property, and the line."""

    where_in: ClassVar[str] = ""

    def __init__(self, message: str, line: Line | None = None) -> None:
        line = line or caller()
        inside = f" in {MachineError.where_in}" if MachineError.where_in else ""
        super().__init__(f"{line}{inside}: {message}")
        self.line = line


class Term:
    """An expression. ``op`` names the operation, ``args`` its operands; ``is_optional`` says that it may be none."""

    __slots__ = ("args", "is_optional", "op")

    op: str
    args: tuple[Any, ...]
    is_optional: bool

    def __eq__(self, other: object) -> Bool:  # type: ignore[override]
        return _equals(self, other)

    def __ne__(self, other: object) -> Bool:  # type: ignore[override]
        return ~_equals(self, other)

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise MachineError(
            "the value of a state is not known while the machine is read, so Python cannot branch on it; "
            "use `with when(condition):`, `ite(condition, a, b)`, or & | ~ instead of `if`, `and`, `or`, `not`"
        )

    def __repr__(self) -> str:
        return render(self)


class Bool(Term):
    """A truth value. Combine with ``&``, ``|``, ``~``, `implies` and `iff`."""

    __slots__ = ()

    def __and__(self, other: Bool) -> Bool:
        return make(Bool, "and", self, as_bool(other))

    def __or__(self, other: Bool) -> Bool:
        return make(Bool, "or", self, as_bool(other))

    def __rand__(self, other: bool) -> Bool:
        return make(Bool, "and", as_bool(other), self)

    def __ror__(self, other: bool) -> Bool:
        return make(Bool, "or", as_bool(other), self)

    def __invert__(self) -> Bool:
        if self.op == "not":
            return cast(Bool, self.args[0])
        return make(Bool, "not", self)


class Int(Term):
    """An integer of any size."""

    __slots__ = ()

    @overload
    def __add__(self, other: Int | int) -> Int: ...
    @overload
    def __add__(self, other: Real | Fraction) -> Real: ...
    def __add__(self, other: Int | Real | int | Fraction) -> Int | Real:
        return _combine("add", self, other)

    @overload
    def __radd__(self, other: int) -> Int: ...
    @overload
    def __radd__(self, other: Fraction) -> Real: ...
    def __radd__(self, other: int | Fraction) -> Int | Real:
        return _combine("add", other, self)

    @overload
    def __sub__(self, other: Int | int) -> Int: ...
    @overload
    def __sub__(self, other: Real | Fraction) -> Real: ...
    def __sub__(self, other: Int | Real | int | Fraction) -> Int | Real:
        return _combine("sub", self, other)

    @overload
    def __rsub__(self, other: int) -> Int: ...
    @overload
    def __rsub__(self, other: Fraction) -> Real: ...
    def __rsub__(self, other: int | Fraction) -> Int | Real:
        return _combine("sub", other, self)

    def __neg__(self) -> Int:
        return make(Int, "sub", as_int(0), self)

    @overload
    def __mul__(self, other: Int | int) -> Int: ...
    @overload
    def __mul__(self, other: Real | Fraction) -> Real: ...
    def __mul__(self, other: Int | Real | int | Fraction) -> Int | Real:
        return _combine("mul", self, other)

    @overload
    def __rmul__(self, other: int) -> Int: ...
    @overload
    def __rmul__(self, other: Fraction) -> Real: ...
    def __rmul__(self, other: int | Fraction) -> Int | Real:
        return _combine("mul", other, self)

    def __truediv__(self, other: Int | Real | int | Fraction) -> Real:
        return as_real(self) / other

    def __rtruediv__(self, other: int | Fraction) -> Real:
        return as_real(other) / self

    def __floordiv__(self, other: Int | int) -> Int:
        """Rounded down. The divisor must be positive; that is an obligation."""
        return make(Int, "floordiv", as_int(self), as_int(other))

    def __rfloordiv__(self, other: int) -> Int:
        return as_int(other) // self

    def __mod__(self, other: Int | int) -> Int:
        """What is left by the division that is rounded down."""
        return make(Int, "mod", as_int(self), as_int(other))

    def __rmod__(self, other: int) -> Int:
        return as_int(other) % self

    def __lt__(self, other: Int | Real | int | Fraction) -> Bool:
        return _compare("lt", self, other)

    def __le__(self, other: Int | Real | int | Fraction) -> Bool:
        return _compare("le", self, other)

    def __gt__(self, other: Int | Real | int | Fraction) -> Bool:
        return _compare("lt", other, self)

    def __ge__(self, other: Int | Real | int | Fraction) -> Bool:
        return _compare("le", other, self)


class Real(Term):
    """An exact number, such as a time or a number of bytes: a real number in proofs, a fraction where machines run.

    Integers take part in its arithmetic. Its divisions must never be by zero; that is an obligation.
    """

    __slots__ = ()

    def __add__(self, other: Real | Int | int | Fraction) -> Real:
        return make(Real, "add", self, as_real(other))

    def __radd__(self, other: int | Fraction) -> Real:
        return make(Real, "add", as_real(other), self)

    def __sub__(self, other: Real | Int | int | Fraction) -> Real:
        return make(Real, "sub", self, as_real(other))

    def __rsub__(self, other: int | Fraction) -> Real:
        return make(Real, "sub", as_real(other), self)

    def __neg__(self) -> Real:
        return make(Real, "sub", as_real(0), self)

    def __mul__(self, other: Real | Int | int | Fraction) -> Real:
        return make(Real, "mul", self, as_real(other))

    def __rmul__(self, other: int | Fraction) -> Real:
        return make(Real, "mul", as_real(other), self)

    def __truediv__(self, other: Real | Int | int | Fraction) -> Real:
        return make(Real, "div", self, as_real(other))

    def __rtruediv__(self, other: int | Fraction) -> Real:
        return make(Real, "div", as_real(other), self)

    def __lt__(self, other: Real | Int | int | Fraction) -> Bool:
        return _compare("lt", self, other)

    def __le__(self, other: Real | Int | int | Fraction) -> Bool:
        return _compare("le", self, other)

    def __gt__(self, other: Real | Int | int | Fraction) -> Bool:
        return _compare("lt", other, self)

    def __ge__(self, other: Real | Int | int | Fraction) -> Bool:
        return _compare("le", other, self)


class Sort(Term):
    """A kind of thing of which there are finitely many, but any number: blocks, requests, hashes.

    Declare one by a subclass: ``class Block(Sort): ...``. A subclass of a sort may add named elements
    (``class Node(Block, extra=("HEAD", "TAIL"))``): then every block is a node, and ``Node.named("HEAD")`` is one more.
    """

    __slots__ = ()

    extra: ClassVar[tuple[str, ...]] = ()
    base: ClassVar[type[Sort]]

    def __init_subclass__(cls, extra: tuple[str, ...] = (), **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        parent = next(c for c in cls.__mro__[1:] if issubclass(c, Sort))
        is_root = parent is Sort
        for name in extra:
            if not isinstance(name, str) or not name.isidentifier() or name == "none":
                raise MachineError(f"{name!r} cannot be an extra element of {cls.__name__}: name it by a plain word")
        if len({*extra, *([] if is_root else parent.extra)}) < len(extra) + (0 if is_root else len(parent.extra)):
            raise MachineError(f"two extra elements of {cls.__name__} have one name: {', '.join(extra)}")
        cls.base = cls if is_root else parent.base
        cls.extra = (() if is_root else parent.extra) + extra

    @classmethod
    def named(cls: type[S], name: str) -> S:
        """One of the sort's extra elements."""
        if name not in cls.extra:
            raise MachineError(f"sort {cls.__name__} has no element {name}; it has {', '.join(cls.extra) or 'none'}")
        return make(cls, "lit", name)


class Index(Int):
    """Natural numbers used as keys, such as the positions of a table: 0, 1, … up to a last one.

    How many there are is not known to proofs, and given by the scope elsewhere. A map may hold a number behind the last
    one, as the length of a full table is. What is read there is False, 0 or none; whoever writes there leaves the
    scope, of which nothing is said. A map may hold ``optional`` ones; those can equal something and be used as keys,
    and nothing is computed with them.
    """

    __slots__ = ()

    @classmethod
    def has(cls, number: Int | int) -> Bool:
        """There is an index of this number: it is not negative, and not behind the last one."""
        if cls is Index:
            raise MachineError("name an index of your own, as in Position.has(n)")
        return make(Bool, "within", as_int(number), cls)


S = TypeVar("S", bound=Sort)
T = TypeVar("T", bound=Term)


def make(kind: type[T], op: str, *args: object, is_optional: bool = False) -> T:
    """A term of the given type."""
    term = object.__new__(kind)
    term.op = op
    term.args = args
    term.is_optional = is_optional
    return term


def literal(value: bool | int) -> Bool | Int:
    """A constant."""
    return make(Bool, "lit", value) if isinstance(value, bool) else make(Int, "lit", value)


TRUE = make(Bool, "lit", True)
FALSE = make(Bool, "lit", False)


class _Nothing(Term):
    """The type of `none` before it is compared or stored."""

    __slots__ = ()


none: Any = make(_Nothing, "lit", None, is_optional=True)
"""No element. It belongs to no sort: quantifiers, parameters, counts and sizes exclude it."""


@dataclass(frozen=True)
class Optional_:
    """The type of values that are an element of a sort, or none."""

    of: type[Term]


def optional(sort: type[T]) -> type[T]:
    """In a declaration: ``Map(Request, Position, to=optional(Block))``."""
    return cast("type[T]", Optional_(sort))


def as_bool(value: object, line: Line | None = None) -> Bool:
    """A truth value from a term or a Python bool."""
    if isinstance(value, bool):
        return TRUE if value else FALSE
    if isinstance(value, Bool):
        return value
    raise MachineError(f"a condition is expected here, not {value!r}", line)


def as_int(value: object, line: Line | None = None) -> Int:
    """An integer from a term or a Python int."""
    if isinstance(value, int) and not isinstance(value, bool):
        return make(Int, "lit", value)
    if isinstance(value, Int):
        if value.is_optional:
            raise MachineError(f"{value!r} may be none, with which nothing can be computed", line)
        return value
    raise MachineError(f"an integer is expected here, not {value!r}", line)


def as_real(value: object, line: Line | None = None) -> Real:
    """An exact number from a term, or from a Python int or fraction."""
    if isinstance(value, int | Fraction) and not isinstance(value, bool):
        return make(Real, "lit", Fraction(value))
    if isinstance(value, Int):
        return as_real(value.args[0]) if value.op == "lit" else make(Real, "real", as_int(value, line))
    if isinstance(value, Real):
        return value
    raise MachineError(
        f"a number is expected here, not {value!r}; write one that is no integer as Fraction(1, 3)", line
    )


def _combine(op: str, a: object, b: object) -> Int | Real:
    """Arithmetic of integers, or of exact numbers where one of the two is none."""
    if isinstance(a, Real | Fraction) or isinstance(b, Real | Fraction):
        return make(Real, op, as_real(a), as_real(b))
    return make(Int, op, as_int(a), as_int(b))


def _compare(op: str, a: object, b: object) -> Bool:
    if isinstance(a, Real | Fraction) or isinstance(b, Real | Fraction):
        return make(Bool, op, as_real(a), as_real(b))
    return make(Bool, op, as_int(a), as_int(b))


def as_number(kind: type[Term], value: Term) -> Term:
    """The value in the form in which something of this type holds it: an integer may stand for an exact number."""
    return as_real(value) if kind is Real and isinstance(value, Int) else value


def as_term(value: object, line: Line | None = None) -> Term:
    """Any term, or a Python bool, int or fraction."""
    if isinstance(value, bool):
        return as_bool(value)
    if isinstance(value, int):
        return as_int(value)
    if isinstance(value, Fraction):
        return as_real(value)
    if isinstance(value, Term):
        return value
    raise MachineError(f"{value!r} is not a value of the modelling language", line)


def same_type(a: Term, b: Term) -> bool:
    """Whether the two may be compared or stored in each other's place."""
    if isinstance(a, _Nothing) or isinstance(b, _Nothing):
        other = b if isinstance(a, _Nothing) else a
        return isinstance(other, Sort | Index | _Nothing)
    if isinstance(a, Sort) and isinstance(b, Sort):
        return issubclass(type(a), type(b)) or issubclass(type(b), type(a))
    if isinstance(a, Int) and isinstance(b, Int):
        return not (a.is_optional or b.is_optional) or (_is_natural(a) and _is_natural(b))
    return any(isinstance(a, kind) and isinstance(b, kind) for kind in (Real, Bool))


def _is_natural(number: Int) -> bool:
    """None of the numbers that stand for something else where a number may be missing: an index, or from 0 on."""
    return isinstance(number, Index) or (number.op == "lit" and number.args[0] >= 0)


def fits(term: Term, kind: type[Term]) -> bool:
    """The type of the term says that it is an element of the sort: not none, nor an extra element of a wider sort."""
    return not term.is_optional and (not isinstance(term, Sort) or set(term.extra) <= set(getattr(kind, "extra", ())))


def is_surely(term: Term, kind: type[Term]) -> bool:
    """The term says that it is an element: an index has to be a variable of that kind, as others may lie behind it."""
    is_own = term.op == "var" and type(term) is kind and term.args[0] != RESULT
    return fits(term, kind) and (not isinstance(term, Int) or is_own)


def may_misfit(term: Term, kind: type[Term], *, is_optional: bool) -> bool:
    """What the term says may be none of what is stored as this kind: it may be missing, of a wider sort, or below 0."""
    is_wider = isinstance(term, Sort) and not set(term.extra) <= set(getattr(kind, "extra", ()))
    is_number = isinstance(term, Int) and issubclass(kind, Index) and not _is_natural(term)
    return is_wider or is_number or (term.is_optional and not is_optional)


def may_be_none(term: Term, *, is_optional: bool) -> bool:
    """None may be stored where that is allowed, by a term that may be missing: a number below 0 only looks like it."""
    return is_optional and term.is_optional


def _equals(a: Term, b: object) -> Bool:
    other = as_number(type(a), as_term(b))
    a = as_number(type(other), a)
    if isinstance(a, Int) and isinstance(other, Int) and not same_type(a, other):
        index = a if a.is_optional else other
        return ~_equals(index, none) & make(Bool, "eq", a, other)  # none is no number
    if isinstance(a, _Nothing) and isinstance(other, _Nothing):
        return TRUE
    if not same_type(a, other):
        raise MachineError(f"{a!r} ({type(a).__name__}) cannot equal {other!r} ({type(other).__name__})")
    return make(Bool, "eq", a, other)


def implies(a: Bool, b: Bool) -> Bool:
    """If a then b. The second is only looked at where the first holds."""
    return make(Bool, "implies", as_bool(a), as_bool(b))


def iff(a: Bool, b: Bool) -> Bool:
    """Both or neither."""
    return make(Bool, "eq", as_bool(a), as_bool(b))


def ite(condition: Bool, then: T | int | bool | Fraction, otherwise: T | int | bool | Fraction) -> T:
    """One value or the other."""
    a, b = as_term(then), as_term(otherwise)
    a, b = as_number(type(b), a), as_number(type(a), b)
    if not same_type(a, b):
        raise MachineError(f"the two values of ite differ in type: {a!r}, {b!r}")
    if isinstance(a, _Nothing) and isinstance(b, _Nothing):
        return cast(T, none)  # of no sort yet
    kind = type(b) if isinstance(a, _Nothing) or issubclass(type(b), type(a)) else type(a)
    is_optional = a.is_optional or b.is_optional
    if isinstance(a, Int) and isinstance(b, Int) and type(a) is not type(b) and not is_optional:
        kind = Int
    return cast(T, make(kind, "ite", as_bool(condition), a, b, is_optional=is_optional))


def all_of(*conditions: Bool) -> Bool:
    """Every one of them, from left to right."""
    result = TRUE
    for c in conditions:
        result = as_bool(c) if result is TRUE else result & as_bool(c)
    return result


def any_of(*conditions: Bool) -> Bool:
    """At least one of them."""
    result = FALSE
    for c in conditions:
        result = as_bool(c) if result is FALSE else result | as_bool(c)
    return result


def parts(term: Term) -> Iterator[Term]:
    """The terms directly below this one."""
    for a in term.args:
        if isinstance(a, Term):
            yield a
        elif isinstance(a, tuple):
            yield from (x for x in a if isinstance(x, Term))


def walk(term: Term) -> Iterator[Term]:
    """This term and all below it."""
    yield term
    for part in parts(term):
        yield from walk(part)


def clauses(term: Term) -> list[tuple[tuple[Term, ...], Term]]:
    """The formula as a conjunction of smaller ones, each with the variables that are universally quantified in it.

    Conjunctions and universal quantifiers are taken apart, also on the right of an implication. A solver learns from a
    small formula as soon as its own terms occur, and not only when those of its neighbours do.
    """
    op, a = term.op, term.args
    if op == "and":
        return [*clauses(a[0]), *clauses(a[1])]
    if op == "forall":
        return [((*a[0], *binders), part) for binders, part in clauses(a[1])]
    if op == "implies":
        return [(binders, make(Bool, "implies", a[0], part)) for binders, part in clauses(a[1])]
    return [((), term)]


def inlined(term: T, temps: Container[int]) -> T:
    """The term with these temporaries replaced by the values that they were given."""
    if term.op == "temp" and term.args[0] in temps:
        return cast(T, inlined(term.args[1], temps))
    if term.op in ("lit", "var", "temp"):
        return term

    def changed(part: Any) -> Any:
        if isinstance(part, tuple):
            return tuple(map(changed, part))
        return inlined(part, temps) if isinstance(part, Term) else part

    return make(type(term), term.op, *map(changed, term.args), is_optional=term.is_optional)


def substituted(term: T, variables: Mapping[int, Term], temps: Mapping[int, Term]) -> T:
    """The term with these variables and temporaries replaced, also in what replaces the temporaries."""
    if term.op == "temp" and term.args[0] in temps:
        return cast(T, substituted(temps[term.args[0]], variables, temps))
    if term.op == "var":
        return cast(T, variables.get(term.args[1], term))
    if term.op in ("lit", "temp"):
        return term
    bound = term.args[0] if term.op in ("forall", "exists") else None

    def changed(part: Any) -> Any:
        if isinstance(part, tuple) and part is not bound:
            return tuple(map(changed, part))
        return substituted(part, variables, temps) if isinstance(part, Term) else part

    return make(type(term), term.op, *map(changed, term.args), is_optional=term.is_optional)


def variables(term: Term) -> set[int]:
    """The numbers of the variables in the term, bound ones too."""
    return {t.args[1] for t in walk(term) if t.op == "var"}


_INFIX = {
    "and": "&",
    "or": "|",
    "eq": "==",
    "lt": "<",
    "le": "<=",
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "floordiv": "//",
    "mod": "%",
    "implies": "=>",
}


def render(term: Term) -> str:
    """The term as a reader of the machine would write it."""
    op, args = term.op, term.args
    if op == "lit":
        return "none" if args[0] is None else str(args[0])
    if op in ("var", "temp"):
        return str(args[0]) if op == "var" else render(args[1])
    if op == "real":
        return render(args[0])
    if op == "not":
        inner = args[0]
        if inner.op == "eq":
            return f"{_group(inner.args[0])} != {_group(inner.args[1])}"
        return f"~{_group(inner)}"
    if op in _INFIX:
        return f"{_group(args[0])} {_INFIX[op]} {_group(args[1])}"
    if op == "within":
        return f"{args[1].__name__}.has({render(args[0])})"
    if op == "ite":
        return f"ite({render(args[0])}, {render(args[1])}, {render(args[2])})"
    if op in ("forall", "exists"):
        binders = ", ".join(f"{b.args[0]}: {type(b).__name__}" for b in args[0])
        return f"{op}({binders}. {render(args[1])})"
    view, decl, keys = args[0], args[1], args[2]
    place = f"{'' if view == 'now' else view + '.'}{decl}" + (f"[{', '.join(map(render, keys))}]" if keys else "")
    if op in ("get", "count"):
        return place
    return f"{place}.{op}({', '.join(render(a) for a in args[3:])})"


def _group(term: Term) -> str:
    text = render(term)
    return f"({text})" if term.op in _INFIX or term.op == "not" else text
