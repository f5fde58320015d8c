"""What a random machine is about: its sorts and indices, and the parts of its state."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

__all__ = ["BOOL", "INT", "REAL", "Form", "Part", "Type", "World", "bare"]

Form = Literal["map", "param", "tally", "queue", "count", "event"]


@dataclass(frozen=True)
class Type:
    """The type of a value. A ``wide`` sort has extra elements beside those of the sort that it is made from."""

    name: str
    family: Literal["bool", "int", "real", "sort", "index"]
    optional: bool = False
    extra: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """As a declaration names it."""
        return f"optional({self.name})" if self.optional else self.name

    def takes(self, other: Type) -> bool:
        """Whatever has the other type may stand here without a second look."""
        if self.family != other.family or (other.optional and not self.optional):
            return False
        if self.family == "sort":
            return self.name == other.name or (bool(self.extra) and other.name == "A")
        return self.family != "index" or self.name == other.name or other.name == "Index"

    def may_take(self, other: Type) -> bool:
        """What has the other type may be written here; whether it fits is another question."""
        if self.family == "index" and other.family == "int":
            return not self.optional
        if self.family == "sort" and other.family == "sort":
            return self.name == other.name or {self.name, other.name} == {"A", "W"}
        return self.family == other.family


BOOL, INT, REAL = Type("Bool", "bool"), Type("Int", "int"), Type("Real", "real")


def bare(type_: Type) -> Type:
    """The type without none."""
    return Type(type_.name, type_.family, False, type_.extra)


@dataclass
class Part:
    """A part of the state: a map (or scalar), parameter, tally, queue (``to``: what stands in it), count or event."""

    name: str
    form: Form
    keys: tuple[Type, ...]
    to: Type
    text: str
    scratch: bool = False
    reads: frozenset[str] = frozenset()
    """Of a count: the maps and queues that it reads."""
    init: str | None = None
    """The first value of every entry where it is one constant."""
    heard: bool = False
    """What a listener keeps: only events write it."""
    listener: tuple[str, ...] = ()
    """Of an event: the text of the method that says what a listener makes of it."""

    def at(self, view: str, keys: Iterable[str] = ()) -> str:
        """How an entry is read or written; of a queue: how it is named."""
        given = tuple(keys)
        if given:
            return f"{view}.{self.name}[{', '.join(given)}]"
        if self.form == "queue":
            return f"{view}.{self.name}"
        return f"{view}.{self.name}.{'total' if self.form == 'tally' else 'value'}"

    @property
    def is_value(self) -> bool:
        """Its entries can be read as values."""
        return self.form in ("map", "param", "count")


@dataclass
class World:
    """Sorts, indices, parts."""

    types: list[Type] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)

    @property
    def keys(self) -> list[Type]:
        """The types that something can be kept for."""
        return [t for t in self.types if t.family in ("sort", "index", "bool")]

    @property
    def sorts(self) -> list[Type]:
        """The sorts."""
        return [t for t in self.types if t.family == "sort"]

    def of(self, *forms: Form) -> list[Part]:
        """The parts of these forms."""
        return [p for p in self.parts if p.form in forms]

    def part(self, name: str) -> Part:
        """The part of this name."""
        return next(p for p in self.parts if p.name == name)
