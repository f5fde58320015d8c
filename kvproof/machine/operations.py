"""What a term is: one of these operations, each with its operands under their names.

The union `Operation` is closed. Whoever gives terms a meaning matches over it and ends with `assert_never`, so that the
type checker refuses an interpreter that forgets an operation::

    match term.operation:
        case op.And(left, right):
            ...
        case op.Or(left, right):
            ...
        case unknown:
            assert_never(unknown)

Operands are terms, whose classes are their types (`terms.py`). Operations are compared by identity, as terms are:
`==` between operands would be a term itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from .terms import Bool, Index, Int, Real, Term

__all__ = [
    "Add",
    "And",
    "AtMost",
    "Before",
    "Constant",
    "Divide",
    "Empty",
    "Entry",
    "Equal",
    "Exists",
    "First",
    "FloorDivide",
    "Forall",
    "Has",
    "Head",
    "Implies",
    "Ite",
    "Less",
    "Modulo",
    "Multiply",
    "Not",
    "Operation",
    "Operator",
    "Or",
    "Quantified",
    "Read",
    "Reading",
    "Size",
    "Subtract",
    "Tail",
    "Temporary",
    "ToReal",
    "Total",
    "Variable",
    "Within",
]


class Operator:
    """Base of all operations; what an operation is made of are its fields, in the order of its declaration."""

    __slots__ = ()

    __match_args__: ClassVar[tuple[str, ...]]

    def values(self) -> tuple[Any, ...]:
        """The values of its fields: operands, tuples of operands, names and numbers."""
        return _reader(self.__match_args__)(self)


@cache
def _reader(names: tuple[str, ...]) -> Callable[[Operator], tuple[Any, ...]]:
    """What reads the values of these fields; terms are walked so often that this counts."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda operation: tuple(getattr(operation, name) for name in names)


# ------------------------------------------------------------------------------------------------ what has a value


@dataclass(frozen=True, eq=False, slots=True)
class Constant(Operator):
    """A truth value, a number, the name of one of a sort's extra elements, or None for `none`."""

    value: bool | int | Fraction | str | None


@dataclass(frozen=True, eq=False, slots=True)
class Variable(Operator):
    """A parameter, the element of a quantifier or an `each`, the index of a loop; its number is its own."""

    name: str
    number: int


@dataclass(frozen=True, eq=False, slots=True)
class Temporary(Operator):
    """The value that was read from the state where the `Let` of this number stands.

    Of the number of rounds that a loop has done, ``value`` is the loop's index.
    """

    number: int
    value: Term


# ------------------------------------------------------------------------------------------------ formulas


@dataclass(frozen=True, eq=False, slots=True)
class Not(Operator):
    """It does not hold."""

    of: Bool


@dataclass(frozen=True, eq=False, slots=True)
class And(Operator):
    """Both hold. The right is only looked at where the left holds."""

    left: Bool
    right: Bool


@dataclass(frozen=True, eq=False, slots=True)
class Or(Operator):
    """At least one holds. The right is only looked at where the left does not hold."""

    left: Bool
    right: Bool


@dataclass(frozen=True, eq=False, slots=True)
class Implies(Operator):
    """If the left holds then the right does. The right is only looked at where the left holds."""

    left: Bool
    right: Bool


@dataclass(frozen=True, eq=False, slots=True)
class Ite(Operator):
    """One value where the condition holds, the other where it does not; the other way is not looked at."""

    condition: Bool
    then: Term
    otherwise: Term


@dataclass(frozen=True, eq=False, slots=True)
class Forall(Operator):
    """The body holds for every element of the binders' types."""

    binders: tuple[Term, ...]
    body: Bool


@dataclass(frozen=True, eq=False, slots=True)
class Exists(Operator):
    """The body holds for at least one choice of elements of the binders' types."""

    binders: tuple[Term, ...]
    body: Bool


# ------------------------------------------------------------------------------------------------ comparisons


@dataclass(frozen=True, eq=False, slots=True)
class Equal(Operator):
    """Two values of one type are the same."""

    left: Term
    right: Term


@dataclass(frozen=True, eq=False, slots=True)
class Less(Operator):
    """The left number is less than the right."""

    left: Int | Real
    right: Int | Real


@dataclass(frozen=True, eq=False, slots=True)
class AtMost(Operator):
    """The left number is not greater than the right."""

    left: Int | Real
    right: Int | Real


@dataclass(frozen=True, eq=False, slots=True)
class Within(Operator):
    """There is an index of this type with this number."""

    number: Int
    index: type[Index]


# ------------------------------------------------------------------------------------------------ numbers


@dataclass(frozen=True, eq=False, slots=True)
class Add(Operator):
    """The sum; both operands have the type of the term, Int or Real."""

    left: Int | Real
    right: Int | Real


@dataclass(frozen=True, eq=False, slots=True)
class Subtract(Operator):
    """The difference; both operands have the type of the term."""

    left: Int | Real
    right: Int | Real


@dataclass(frozen=True, eq=False, slots=True)
class Multiply(Operator):
    """The product; both operands have the type of the term."""

    left: Int | Real
    right: Int | Real


@dataclass(frozen=True, eq=False, slots=True)
class Divide(Operator):
    """The exact quotient. The divisor is not 0."""

    dividend: Real
    divisor: Real


@dataclass(frozen=True, eq=False, slots=True)
class FloorDivide(Operator):
    """The quotient, rounded down. The divisor is positive."""

    dividend: Int
    divisor: Int


@dataclass(frozen=True, eq=False, slots=True)
class Modulo(Operator):
    """What is left by the division that is rounded down. The divisor is positive."""

    dividend: Int
    divisor: Int


@dataclass(frozen=True, eq=False, slots=True)
class ToReal(Operator):
    """An integer as an exact number."""

    of: Int


# ------------------------------------------------------------------------------------------------ what looks at a state


@dataclass(frozen=True, eq=False, slots=True)
class Read(Operator):
    """Base of what looks at a state, or at a parameter.

    ``view`` is the state: ``now``, ``before`` (of a step), or ``entry:<number>`` (before the loop of that number).
    ``name`` is the map, queue or count, ``keys`` say which entry of it.
    """

    view: str
    name: str
    keys: tuple[Term, ...]

    @property
    def elements(self) -> tuple[Term, ...]:
        """Of a queue: the elements that are asked for."""
        return ()


@dataclass(frozen=True, eq=False, slots=True)
class Entry(Read):
    """An entry of a map."""


@dataclass(frozen=True, eq=False, slots=True)
class Total(Read):
    """A count, or a sum."""


@dataclass(frozen=True, eq=False, slots=True)
class Size(Read):
    """How many elements stand in the queue."""


@dataclass(frozen=True, eq=False, slots=True)
class Empty(Read):
    """Nothing stands in the queue."""


@dataclass(frozen=True, eq=False, slots=True)
class Head(Read):
    """The first element of the queue, which is not empty."""


@dataclass(frozen=True, eq=False, slots=True)
class Tail(Read):
    """The last element of the queue, which is not empty."""


@dataclass(frozen=True, eq=False, slots=True)
class Has(Read):
    """The element stands in the queue."""

    element: Term

    @property
    def elements(self) -> tuple[Term, ...]:
        """The element."""
        return (self.element,)


@dataclass(frozen=True, eq=False, slots=True)
class First(Read):
    """The element stands at the head of the queue."""

    element: Term

    @property
    def elements(self) -> tuple[Term, ...]:
        """The element."""
        return (self.element,)


@dataclass(frozen=True, eq=False, slots=True)
class Before(Read):
    """Both stand in the queue, the one nearer to its head than the other."""

    earlier: Term
    later: Term

    @property
    def elements(self) -> tuple[Term, ...]:
        """Both."""
        return (self.earlier, self.later)


# ------------------------------------------------------------------------------------------------ unions

OfQueue = Size | Empty | Head | Tail | Has | First | Before
"""What looks at a queue."""

Reading = Entry | Total | OfQueue
"""What looks at a state: the subclasses of `Read`."""

Quantified = Forall | Exists
"""What binds variables."""

Operation = (
    Constant
    | Variable
    | Temporary
    | Not
    | And
    | Or
    | Implies
    | Ite
    | Quantified
    | Equal
    | Less
    | AtMost
    | Within
    | Add
    | Subtract
    | Multiply
    | Divide
    | FloorDivide
    | Modulo
    | ToReal
    | Reading
)
"""Everything that a term can be."""
