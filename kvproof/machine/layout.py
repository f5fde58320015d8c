"""How a state of a finite scope is packed into 64-bit words, for the batched interpreter."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import torch

from .columns import Columns, dtype_for
from .concrete import State
from .declarations import Map
from .model import Model
from .scope import NONE, Scope, ScopeError
from .terms import Bool, Int, Real, Term

__all__ = ["WORD", "Field", "Layout", "scaled", "too_coarse", "volume"]

WORD = 63
"""Bits used of each word: all but the sign."""


@dataclass(frozen=True)
class Field:
    """One entry of a map, or the place of one element in a queue (0: absent, 1: first, …), in a packed state."""

    name: str
    place: int
    lo: int
    hi: int
    word: int
    offset: int
    width: int


class Layout:
    """Where each part of a state stands in its words."""

    def __init__(self, model: Model, scope: Scope) -> None:
        self.model, self.scope = model, scope
        self.fields: list[Field] = []
        self.first: dict[str, int] = {}
        self._word = self._offset = 0
        for name, mapping in model.variables.items():
            if not mapping.scratch:
                self._add(name, volume(scope, mapping.kinds), *_bounds(scope, mapping.to, mapping.is_optional))
        for name, queue in model.queues.items():
            members = scope.size(queue.of)
            self._add(name, volume(scope, queue.kinds) * members, 0, members)
        self.words = self._word + 1

    def _add(self, name: str, entries: int, lo: int, hi: int) -> None:
        self.first[name] = len(self.fields)
        width = (hi - lo).bit_length()
        if width > WORD:
            raise ScopeError(f"a value of {name} needs more than {WORD} bits; give Int or Real a smaller size")
        for place in range(entries):
            if self._offset + width > WORD:
                self._word, self._offset = self._word + 1, 0
            self.fields.append(Field(name, place, lo, hi, self._word, self._offset, width))
            self._offset += width

    def pack(self, states: Sequence[State]) -> torch.Tensor:
        """States as words: one row a word, one column a state."""
        packed = [[0] * len(states) for _ in range(self.words)]
        for column, state in enumerate(states):
            for field, number in zip(self.fields, self._numbers(state), strict=True):
                if not field.lo <= number <= field.hi:
                    raise self.misfit(field)
                packed[field.word][column] |= (int(number) - field.lo) << field.offset
        return torch.tensor(packed, dtype=torch.int64).reshape(self.words, len(states))

    def _numbers(self, state: State) -> Iterator[int]:
        for name in self.first:
            value = state.__dict__[name]
            queue = self.model.queues.get(name)
            if queue is None:
                is_exact = self.model.maps[name].to is Real
                yield from (scaled(self.scope, Fraction(v), name) for v in value) if is_exact else value
                continue
            for members in value if queue.kinds else [value]:
                ranks = {e: i for i, e in enumerate(members, 1)}
                yield from (ranks.get(e, 0) for e in range(self.scope.size(queue.of)))

    def describe(self, words: Sequence[int]) -> dict[str, Any]:
        """One state as plain data, as `Concrete.describe` gives it (tallies are left out)."""
        numbers: dict[str, list[int]] = {name: [] for name in self.first}
        for f in self.fields:
            numbers[f.name].append((words[f.word] >> f.offset & ((1 << f.width) - 1)) + f.lo)
        result: dict[str, Any] = {}
        for name, flat in numbers.items():
            queue = self.model.queues.get(name)
            if queue is None:
                mapping = self.model.maps[name]
                result[name] = self.scope.nested(mapping, [self._number(mapping, v) for v in flat])
                continue
            members = self.scope.size(queue.of)
            queues = [_members(flat[i : i + members]) for i in range(0, len(flat), members)]
            result[name] = queues if queue.kinds else queues[0]
        return result

    def _number(self, mapping: Map[Any], packed: int) -> int | bool | Fraction:
        if mapping.to is Real:
            return Fraction(packed, self.scope.sizes["Real"])
        return bool(packed) if mapping.to is Bool else packed

    def columns(self, words: torch.Tensor) -> Columns:
        """The fields of packed states."""
        return Columns(lambda index: self._column(words, self.fields[index]))

    @staticmethod
    def _column(words: torch.Tensor, f: Field) -> torch.Tensor:
        raw = (words[f.word] >> f.offset) & ((1 << f.width) - 1)
        return (raw + f.lo if f.lo else raw).to(dtype_for(f.lo, f.hi))

    def misfit(self, field: Field) -> ScopeError:
        """A value does not fit into its field."""
        to = self.model.maps[field.name].to
        root = "Int" if to in (Int, Real) else self.scope.root(to)
        most = field.hi // self.scope.sizes["Real"] if to is Real else field.hi
        return ScopeError(
            f"a value of {field.name} leaves the scope, where it is {field.lo} to {most}; give {root} a greater "
            f"size (now {self.scope.sizes.get(root)}), or bound what the machine does"
        )


def _members(ranks: list[int]) -> list[int]:
    return sorted((e for e, rank in enumerate(ranks) if rank), key=lambda e: ranks[e])


def volume(scope: Scope, kinds: Sequence[type[Term]]) -> int:
    """How many entries a map with these keys has."""
    return math.prod(scope.size(k) for k in kinds)


def scaled(scope: Scope, number: Fraction, what: str) -> int:
    """An exact number as it is packed: how many times 1/Real."""
    unit = scope.sizes["Real"]
    units = number * unit
    if units.denominator != 1:
        raise ScopeError(
            f"{what} is {number}, no multiple of 1/{unit}; give Real a size of which {number.denominator} is a divisor"
        )
    return int(units)


def too_coarse(scope: Scope) -> str:
    """What is said of a number that would have to be rounded."""
    return f"a number is no multiple of 1/{scope.sizes['Real']}; give Real a size that has more divisors"


def _bounds(scope: Scope, kind: type[Term], is_optional: bool) -> tuple[int, int]:
    if kind is Real:
        return 0, scope.sizes["Int"] * scope.sizes["Real"]
    return NONE if is_optional else 0, scope.greatest(kind)
