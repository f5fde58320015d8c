"""Terms: the values that a machine's text computes with.

A machine is ordinary Python that is run once, on terms. `self.ref_cnt[b] + 1` builds a small tree; the interpreters
(concrete, symbolic, batched) give that tree its value. The class of a term is its type, so that the text of a machine
is checked by a type checker too: an element of sort ``Block`` is an instance of the class ``Block``.

Nothing here knows about state: see `language.py` for maps, queues and counts, `model.py` for whole machines.
"""

from __future__ import annotations

import dataclasses
import reprlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from types import FrameType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast, overload

from . import operations as op
from .closer import refuse_unclear
from .lost import Conditions
from .mistakes import Line, MachineError, MissingPartError, is_tool
from .operations import Operation
from .rendering import render

__all__ = [
    "FALSE",
    "RESULT",
    "TRUE",
    "Bool",
    "Index",
    "Int",
    "Real",
    "Sort",
    "Term",
    "has_type",
    "is_natural",
    "is_none",
    "literal",
    "name_of",
    "none",
    "number_of",
    "optional",
    "same_type",
]

RESULT = "result"
"""The name by which properties of steps speak of what the action returns."""


class _Kind(type):
    """The type of the types of terms: of a sort Python has no elements, and of a type of numbers none either."""

    if not TYPE_CHECKING:  # a type checker says it by itself

        def __iter__(cls) -> Iterator[Any]:
            raise MachineError(f"Python cannot go through {cls.__name__}: {_TO_GO_THROUGH}")

        def __contains__(cls, _: object) -> bool:
            raise MachineError(
                f"Python cannot look into {cls.__name__}, whose elements are not known while the machine is read: a "
                "parameter of that type is always one of them; leave the question out, or ask what holds it"
            )

        def __len__(cls) -> int:
            raise MachineError(
                f"how many elements {cls.__name__} has is not known while the machine is read: use `Count`"
            )

        def __bool__(cls) -> bool:
            return True

        def __enter__(cls) -> None:
            raise MachineError(f"{cls.__name__} is no block: write `with self.each({cls.__name__}) as …:`")

        def __exit__(cls, *_: object) -> None:
            """Python looks whether there is such a thing before it enters."""


_TO_GO_THROUGH = (
    "write `with self.each(…) as …:`, `forall(…, lambda …: …)` or `exists`; how many elements there are is not known "
    "while the machine is read"
)


@dataclass(init=False, repr=False, eq=False, frozen=True, slots=True)
class Term(metaclass=_Kind):
    """An expression: an operation on other expressions. ``is_optional`` says that its value may be none.

    Terms are made by what the text of a machine does; whoever interprets them matches over ``operation``.
    """

    operation: Operation
    is_optional: bool

    def __init__(self, operation: Operation | None = None, *, is_optional: bool = False) -> None:
        if not isinstance(operation, op.Operator):
            name, given = type(self).__name__, "" if operation is None else repr(operation)
            raise MachineError(
                f"{name}({given}): {name} is a type, of parameters, of formulas and of what maps hold, and nothing is "
                "made of it; give the action or property a parameter of that type, or use forall or exists"
            )
        object.__setattr__(self, "operation", operation)
        object.__setattr__(self, "is_optional", is_optional)
        if Conditions.current is not None:
            Conditions.current.note(self, is_condition=isinstance(self, Bool))

    def __eq__(self, other: object) -> Bool:  # type: ignore[override]
        return _equals(self, other)

    def __ne__(self, other: object) -> Bool:  # type: ignore[override]
        return ~_equals(self, other)

    def __hash__(self) -> int:
        if MachineError.where_in and not is_tool(sys._getframe(1).f_code.co_filename):
            raise MachineError(
                f"{self!r} cannot stand in a set or be the key of a dict: its value is not known while the machine is "
                "read; use ==, `ite` or a map"
            )
        return object.__hash__(self)

    def __bool__(self) -> bool:
        raise MachineError(
            "the value of a state is not known while the machine is read, so Python cannot branch on it; "
            "use `with when(condition):`, `ite(condition, a, b)`, or & | ~ instead of `if`, `and`, `or`, `not`"
        )

    if not TYPE_CHECKING:  # a type checker says it by itself

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):  # Python, or a tool, asks whether there is such a thing
                raise AttributeError(name)
            raise MissingPartError(f"{type(self).__name__!r} object has no attribute {name!r}: {render(self)} is one")

    def __repr__(self) -> str:
        if MachineError.where_in and not is_tool(_who_asks_for_text()):
            raise MachineError(
                f"the text of {render(self)} is the same whatever its value is, and its value is not known while the "
                "machine is read; compare values with == and !="
            )
        return render(self)


def _refusing(said: str) -> Callable[..., Any]:
    """A method by which Python would look for the value; what it raises by itself is caught as any other TypeError."""

    def refuse(term: Term, *_: object) -> Any:
        raise MachineError(f"the value of {render(term)} is not known while the machine is read: {said}")

    return refuse


_UNKNOWN = {
    "write a // b for the quotient, and a % b for what is left": "divmod rdivmod",
    "write `with when(condition):`, or `with self.each(…) as …:`": "enter",
    "Python cannot compute with it so": "abs pow rpow round trunc floor ceil pos neg invert xor rxor "
    "lshift rlshift rshift rrshift add radd sub rsub mul rmul matmul rmatmul truediv rtruediv floordiv rfloordiv mod "
    "rmod",
    "Python cannot count with it (a `range`, a place in a list); use `self.loop`, or a map": "index int float complex",
    "Python cannot go through it or look into it; use forall, exists, `self.each` or `self.loop`": "iter len getitem",
    "Python cannot order it: only numbers are compared so": "lt le gt ge",
    "& and | stand between conditions, and bind closer than == and <: put each of these in parentheses": "and or rand "
    "ror",
}
"""What Python asks of values, and no term answers, but those whose own class does: the sentence, and the methods."""


def _refuse_setting(term: Term, name: str, _value: object) -> None:
    raise MachineError(
        f"{render(term)} is a value, and has no {name} that could be written: write what holds it, as in `self.x.value "
        "= …` or `self.m[key] = …`"
    )


Term.__setattr__ = _refuse_setting  # type: ignore[assignment] # no body of a frozen class can have it

setattr(Term, "__exit__", _refusing("it is no block"))  # noqa: B010 # Python looks for it before it enters

for _said, _methods in _UNKNOWN.items():
    for _method in _methods.split():
        setattr(Term, f"__{_method}__", _refusing(_said))


def _who_asks_for_text() -> str:
    """The file in which it is asked for. The text of an operation is made of that of its terms, by code of Python's."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename in ("<string>", reprlib.__file__, dataclasses.__file__):
        frame = frame.f_back
    return "" if frame is None else frame.f_code.co_filename


class Bool(Term):
    """A truth value. Combine with ``&``, ``|``, ``~``, `implies` and `iff`."""

    __slots__ = ()

    def __and__(self, other: Bool) -> Bool:
        return Bool(op.And(self, as_bool(other)))

    def __or__(self, other: Bool) -> Bool:
        return Bool(op.Or(self, as_bool(other)))

    def __rand__(self, other: bool) -> Bool:
        return Bool(op.And(as_bool(other), self))

    def __ror__(self, other: bool) -> Bool:
        return Bool(op.Or(as_bool(other), self))

    def __invert__(self) -> Bool:
        if isinstance(said := self.operation, op.Not):
            if Conditions.current is not None:
                Conditions.current.use(self)
            return said.of
        return Bool(op.Not(self))


class Int(Term):
    """An integer of any size."""

    __slots__ = ()

    @overload
    def __add__(self, other: Int | int) -> Int: ...
    @overload
    def __add__(self, other: Real | Fraction) -> Real: ...
    def __add__(self, other: Int | Real | int | Fraction) -> Int | Real:
        return _combine(op.Add, self, other)

    @overload
    def __radd__(self, other: int) -> Int: ...
    @overload
    def __radd__(self, other: Fraction) -> Real: ...
    def __radd__(self, other: int | Fraction) -> Int | Real:
        return _combine(op.Add, other, self)

    @overload
    def __sub__(self, other: Int | int) -> Int: ...
    @overload
    def __sub__(self, other: Real | Fraction) -> Real: ...
    def __sub__(self, other: Int | Real | int | Fraction) -> Int | Real:
        return _combine(op.Subtract, self, other)

    @overload
    def __rsub__(self, other: int) -> Int: ...
    @overload
    def __rsub__(self, other: Fraction) -> Real: ...
    def __rsub__(self, other: int | Fraction) -> Int | Real:
        return _combine(op.Subtract, other, self)

    def __neg__(self) -> Int:
        return Int(op.Subtract(as_int(0), self))

    @overload
    def __mul__(self, other: Int | int) -> Int: ...
    @overload
    def __mul__(self, other: Real | Fraction) -> Real: ...
    def __mul__(self, other: Int | Real | int | Fraction) -> Int | Real:
        return _combine(op.Multiply, self, other)

    @overload
    def __rmul__(self, other: int) -> Int: ...
    @overload
    def __rmul__(self, other: Fraction) -> Real: ...
    def __rmul__(self, other: int | Fraction) -> Int | Real:
        return _combine(op.Multiply, other, self)

    def __truediv__(self, other: Int | Real | int | Fraction) -> Real:
        return as_real(self) / other

    def __rtruediv__(self, other: int | Fraction) -> Real:
        return as_real(other) / self

    def __floordiv__(self, other: Int | int) -> Int:
        """Rounded down. The divisor must be positive; that is an obligation."""
        return Int(op.FloorDivide(as_int(self), as_int(other)))

    def __rfloordiv__(self, other: int) -> Int:
        return as_int(other) // self

    def __mod__(self, other: Int | int) -> Int:
        """What is left by the division that is rounded down."""
        return Int(op.Modulo(as_int(self), as_int(other)))

    def __rmod__(self, other: int) -> Int:
        return as_int(other) % self

    def __lt__(self, other: Int | Real | int | Fraction) -> Bool:
        return _compare(op.Less, self, other)

    def __le__(self, other: Int | Real | int | Fraction) -> Bool:
        return _compare(op.AtMost, self, other)

    def __gt__(self, other: Int | Real | int | Fraction) -> Bool:
        return _compare(op.Less, other, self)

    def __ge__(self, other: Int | Real | int | Fraction) -> Bool:
        return _compare(op.AtMost, other, self)


class Real(Term):
    """An exact number, such as a time or a number of bytes: a real number in proofs, a fraction where machines run.

    Integers take part in its arithmetic. Its divisions must never be by zero; that is an obligation.
    """

    __slots__ = ()

    def __add__(self, other: Real | Int | int | Fraction) -> Real:
        return Real(op.Add(self, as_real(other)))

    def __radd__(self, other: int | Fraction) -> Real:
        return Real(op.Add(as_real(other), self))

    def __sub__(self, other: Real | Int | int | Fraction) -> Real:
        return Real(op.Subtract(self, as_real(other)))

    def __rsub__(self, other: int | Fraction) -> Real:
        return Real(op.Subtract(as_real(other), self))

    def __neg__(self) -> Real:
        return Real(op.Subtract(as_real(0), self))

    def __mul__(self, other: Real | Int | int | Fraction) -> Real:
        return Real(op.Multiply(self, as_real(other)))

    def __rmul__(self, other: int | Fraction) -> Real:
        return Real(op.Multiply(as_real(other), self))

    def __truediv__(self, other: Real | Int | int | Fraction) -> Real:
        return Real(op.Divide(self, as_real(other)))

    def __rtruediv__(self, other: int | Fraction) -> Real:
        return Real(op.Divide(as_real(other), self))

    def __lt__(self, other: Real | Int | int | Fraction) -> Bool:
        return _compare(op.Less, self, other)

    def __le__(self, other: Real | Int | int | Fraction) -> Bool:
        return _compare(op.AtMost, self, other)

    def __gt__(self, other: Real | Int | int | Fraction) -> Bool:
        return _compare(op.Less, other, self)

    def __ge__(self, other: Real | Int | int | Fraction) -> Bool:
        return _compare(op.AtMost, other, self)


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
        if any(issubclass(other, Sort) and not issubclass(parent, other) for other in cls.__bases__):
            others = " and ".join(other.__name__ for other in cls.__bases__)
            raise MachineError(f"{cls.__name__} extends {others}: a sort extends one other, whose elements it has too")
        cls.base = cls if is_root else parent.base
        cls.extra = (() if is_root else parent.extra) + extra

    @classmethod
    def named(cls: type[S], name: str) -> S:
        """One of the sort's extra elements."""
        if name not in cls.extra:
            raise MachineError(f"sort {cls.__name__} has no element {name}; it has {', '.join(cls.extra) or 'none'}")
        return cls(op.Constant(name))


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
        return Bool(op.Within(as_int(number), cls))


S = TypeVar("S", bound=Sort)
T = TypeVar("T", bound=Term)


def name_of(variable: Term) -> str:
    """What a parameter, an element or an index is called in the text."""
    return _variable(variable).name


def number_of(variable: Term) -> int:
    """What tells a parameter, an element or an index from all others."""
    return _variable(variable).number


def _variable(term: Term) -> op.Variable:
    if not isinstance(term.operation, op.Variable):
        raise TypeError(f"{term!r} is no variable")
    return term.operation


def literal(value: bool | int) -> Bool | Int:
    """A constant."""
    return Bool(op.Constant(value)) if isinstance(value, bool) else Int(op.Constant(value))


TRUE = Bool(op.Constant(True))
FALSE = Bool(op.Constant(False))


class _Nothing(Term):
    """The type of `none` before it is compared or stored."""

    __slots__ = ()


none: Any = _Nothing(op.Constant(None), is_optional=True)
"""No element. It belongs to no sort: quantifiers, parameters, counts and sizes exclude it."""


def is_none(term: Term) -> bool:
    """The term is `none` itself, which has no type of its own."""
    return isinstance(term, _Nothing)


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
    is_inverted = isinstance(value, int) and value in (-1, -2)  # ~ of a bool is its number's complement
    instead = "; of what Python itself knows to be true or false write `not`, not ~" if is_inverted else ""
    raise MachineError(f"a condition is expected here, not {value!r}{instead}", line)


def as_int(value: object, line: Line | None = None) -> Int:
    """An integer from a term or a Python int."""
    if isinstance(value, int) and not isinstance(value, bool):
        return Int(op.Constant(_written(int(value), line)))
    if isinstance(value, Int):
        if value.is_optional:
            raise MachineError(f"{value!r} may be none, with which nothing can be computed", line)
        return value
    raise MachineError(f"an integer is expected here, not {value!r}", line)


def as_real(value: object, line: Line | None = None) -> Real:
    """An exact number from a term, or from a Python int or fraction."""
    if isinstance(value, int | Fraction) and not isinstance(value, bool):
        value = Fraction(value)
        _written(value.numerator, line)
        _written(value.denominator, line)
        return Real(op.Constant(value))
    if isinstance(value, Int):
        if isinstance(said := value.operation, op.Constant) and isinstance(said.value, int):
            return as_real(said.value)
        return Real(op.ToReal(as_int(value, line)))
    if isinstance(value, Real):
        return value
    raise MachineError(
        f"a number is expected here, not {value!r}; write one that is no integer as Fraction(1, 3)", line
    )


_DIGITS = 1000
"""So many digits a number of a text may have: each is written out again and again, and Python writes 4300 at most."""

_TOO_LONG = 10**_DIGITS


def _written(value: int, line: Line | None) -> int:
    if abs(value) >= _TOO_LONG:
        raise MachineError(f"a number of more than {_DIGITS:,} digits stands here, and nobody could read it", line)
    return value


def _combine(operator: type[op.Add] | type[op.Subtract] | type[op.Multiply], a: object, b: object) -> Int | Real:
    """Arithmetic of integers, or of exact numbers where one of the two is none."""
    if isinstance(a, Real | Fraction) or isinstance(b, Real | Fraction):
        return Real(operator(as_real(a), as_real(b)))
    return Int(operator(as_int(a), as_int(b)))


def _compare(operator: type[op.Less] | type[op.AtMost], a: object, b: object) -> Bool:
    if isinstance(a, Real | Fraction) or isinstance(b, Real | Fraction):
        return Bool(operator(as_real(a), as_real(b)))
    return Bool(operator(as_int(a), as_int(b)))


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
        return not (a.is_optional or b.is_optional) or (is_natural(a) and is_natural(b))
    return any(isinstance(a, kind) and isinstance(b, kind) for kind in (Real, Bool))


def has_type(term: Term, kind: type[Term]) -> bool:
    """Whether a term may be compared with something of this type, or stored in its place."""
    if isinstance(term, Sort) and issubclass(kind, Sort):
        return isinstance(term, kind) or issubclass(kind, type(term))
    return same_type(term, kind(op.Variable("", 0)))


def is_natural(number: Int) -> bool:
    """None of the numbers that stand for something else where a number may be missing: an index, or from 0 on."""
    return isinstance(number, Index) or (
        isinstance(said := number.operation, op.Constant) and isinstance(said.value, int) and said.value >= 0
    )


def _equals(a: Term, b: object) -> Bool:
    other = as_number(type(a), as_term(b))
    a = as_number(type(other), a)
    if isinstance(a, Int) and isinstance(other, Int) and not same_type(a, other):
        index = a if a.is_optional else other
        return ~_equals(index, none) & Bool(op.Equal(a, other))  # none is no number
    if isinstance(a, _Nothing) and isinstance(other, _Nothing):
        return TRUE
    if not same_type(a, other):
        raise MachineError(f"{a!r} ({type(a).__name__}) cannot equal {other!r} ({type(other).__name__})")
    if isinstance(a.operation, op.And | op.Or) or isinstance(other.operation, op.And | op.Or):
        refuse_unclear(sys._getframe(2))
    return Bool(op.Equal(a, other))
