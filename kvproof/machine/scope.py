"""A finite scope: how many elements each sort has, and what the parameters are.

Proofs need none of this: they hold for every scope. The concrete and the batched interpreter, and the search for
counterexamples, work in one scope at a time.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from .declarations import Map
from .model import Model
from .terms import Bool, Index, Int, Real, Sort, Term

__all__ = ["Scope", "ScopeError", "Value", "exact", "plain"]

Value = int | bool | Fraction | None
"""A value outside of terms: a number, a truth value, the number of an element, or None for none."""

NONE = -1
"""How the interpreters store none. Elements are 0, 1, …; a sort's extra elements come after them."""


class ScopeError(ValueError):
    """The scope does not fit the machine, or a run left it; the message says how to mend it."""


def exact(value: object, what: str = "an exact number") -> Fraction:
    """The number that an integer, a fraction, or text such as 1/3 says; never a float, which may have been rounded.

    Raises:
        ScopeError: it says none.
    """
    if isinstance(value, int | str | Fraction) and not isinstance(value, bool):
        with contextlib.suppress(ValueError, ZeroDivisionError):
            return Fraction(value)
    raise ScopeError(f'{what}: an integer, or text such as "1/3", and not {value!r}')


def plain(value: Value) -> int | bool | str | None:
    """A value as JSON has it: an exact number that is no integer is text, such as 1/3; `exact` reads it back."""
    if not isinstance(value, Fraction):
        return value
    return int(value) if value.denominator == 1 else str(value)


@dataclass
class Scope:
    """Sizes by the name of the sort, and the values of the parameters.

    ``Int`` is the greatest number that may occur; where states are packed, exact numbers are multiples of 1/``Real``.

    A parameter with keys is a nested list in the order of its keys; one without is a plain value. None stands for none.
    """

    model: Model
    sizes: dict[str, int]
    params: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.model.sorts:
            root = self.root(self.model.sorts[name])
            if not isinstance(self.sizes.get(root), int) or self.sizes[root] < 1:
                raise ScopeError(f"the scope needs the size of sort {root}: a positive integer, as in {root}=3")
        units = {"Real": 1} if self.model.has_exact else {}
        known = {*self.roots(self.model), "Int", *units}
        for name in self.sizes:
            if name not in known:
                raise ScopeError(f"{self.model.name} has no sort {name}; it has {', '.join(sorted(known))}")
        self.sizes = {"Int": self._widest(), **units, **self.sizes}
        for name in ("Int", *units):
            if not isinstance(self.sizes[name], int) or self.sizes[name] < 1:
                raise ScopeError(f"the size of {name} is {self.sizes[name]}; it is a positive integer, as in {name}=6")
        for name, mapping in self.model.params.items():
            if name not in self.params:
                raise ScopeError(f"the scope needs a value for the parameter {name} of {self.model.name}")
            self.flat(name, mapping, self.params[name])
        for name in self.params:
            if name not in self.model.params:
                raise ScopeError(f"{self.model.name} has no parameter {name}")

    def _widest(self) -> int:
        """Enough for any count of entries, unless the caller says otherwise."""
        return math.prod(sorted((self.sizes[self.root(k)] for k in self.model.sorts.values()), reverse=True)[:2])

    @staticmethod
    def root(kind: type[Term]) -> str:
        """The name under which the sort's size is given."""
        return kind.base.__name__ if issubclass(kind, Sort) else kind.__name__

    @staticmethod
    def roots(model: Model) -> list[str]:
        """The names under which a machine's sorts have sizes, in order."""
        return sorted({Scope.root(kind) for kind in model.sorts.values()})

    def size(self, kind: type[Term]) -> int:
        """How many values a key, parameter or quantifier of this type runs over."""
        if issubclass(kind, Sort):
            return self.sizes[kind.base.__name__] + len(kind.extra)
        if issubclass(kind, Index):
            return self.sizes[kind.__name__]
        if issubclass(kind, Int):
            return self.sizes["Int"] + 1
        return 2

    def greatest(self, kind: type[Term]) -> int:
        """The greatest value of this type that a state holds where states are packed.

        An index may be the number behind the last one, as the length of a full table is.
        """
        return self.size(kind) if issubclass(kind, Index) else self.size(kind) - 1

    def number(self, kind: type[Term], literal: object) -> int | Fraction:
        """The number that stands for a literal of this type."""
        if isinstance(literal, Fraction):
            return literal
        if literal is None:
            return NONE
        if isinstance(literal, str):
            assert issubclass(kind, Sort)
            return self.sizes[kind.base.__name__] + kind.extra.index(literal)
        return int(literal)  # type: ignore[call-overload, no-any-return]

    def place(self, kinds: Sequence[type[Term]], keys: Sequence[int]) -> int:
        """The offset of an entry in a flat map."""
        offset = 0
        for kind, key in zip(kinds, keys, strict=True):
            offset = offset * self.size(kind) + key
        return offset

    def _end(self, mapping: Map[Any]) -> float:
        """What a map holds is less: an index in the state may lie behind the last one, a parameter is one."""
        return math.inf if issubclass(mapping.to, Index) and not mapping.is_param else self.size(mapping.to)

    def flat(self, name: str, mapping: Map[Any], value: object) -> list[int | bool | Fraction]:
        """A parameter's value as a flat list of numbers."""
        values: list[Any] = [value]
        for kind in mapping.kinds:
            if not all(isinstance(v, Sequence) for v in values):
                raise ScopeError(f"parameter {name} needs a list nested {len(mapping.kinds)} deep")
            # One list that is too long would hide another that is too short, and values would be those of other keys.
            if any(len(v) != self.size(kind) for v in values):
                raise ScopeError(f"the value of parameter {name} does not have the sizes of the scope")
            values = [x for v in values for x in v]
        result: list[int | bool | Fraction] = []
        for v in values:
            if mapping.to is Real:
                result.append(exact(v, f"{name} holds exact numbers"))
                continue
            if v is None and not mapping.is_optional:
                raise ScopeError(f"parameter {name} must not be none")
            if not isinstance(v, int | None) or (mapping.to is Bool and v not in (0, 1)):
                raise ScopeError(f"parameter {name} holds {mapping.to.__name__}, not {v!r}")
            if issubclass(mapping.to, Sort | Index) and v is not None and not 0 <= v < self._end(mapping):
                raise ScopeError(
                    f"parameter {name} holds {v}, but {mapping.to.__name__} has only {self.size(mapping.to)} elements"
                )
            result.append(bool(v) if mapping.to is Bool else NONE if v is None else v)
        return result

    def nested(self, mapping: Map[Any], flat: Sequence[int | bool | Fraction]) -> Any:
        """The opposite of `flat`, as JSON values: an exact number that is no integer is text, such as 1/3."""
        values: list[Any] = [None if (v == NONE and mapping.is_optional) else v for v in flat]
        if mapping.to is Real:
            values = [plain(Fraction(v)) for v in flat]
        for kind in reversed(mapping.kinds):
            n = self.size(kind)
            values = [values[i : i + n] for i in range(0, len(values), n)]
        return values[0]
