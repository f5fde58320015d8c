"""The content of a machine as a text that is the same wherever and whenever the machine is read.

Two parts of machines with the same text have the same obligations. Where something stands in a file, and what its
docstring says, is no part of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from fractions import Fraction
from functools import cached_property

from . import operations as op
from .declarations import Event, Map, Queue
from .mistakes import Line
from .model import Model, Property
from .program import Let, Loop
from .terms import Sort, Term

__all__ = ["Content", "Contents", "content_of"]

_PLAIN = {str, int, bool, Fraction, type(None)}
"""Most of what is met, and known by its type at once."""

_ASIDE = {"doc", "of"}
"""Fields that say nothing of what is proved at a place: ``of`` says only at which places a property is asked at all."""


@dataclass
class Content:
    """The text, and the lines of files that were met on the way, in an order that depends on the text only."""

    parts: list[str] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    _numbers: dict[object, int] = field(default_factory=dict)
    """Of variables and temporaries, and of what was written before: by the order in which they occur."""
    _alive: list[object] = field(default_factory=list)
    """What has a number by its identity, which has to stay its own."""

    @property
    def text(self) -> str:
        """What was written."""
        return " ".join(self.parts)

    @cached_property
    def digest(self) -> bytes:
        """That of the text, once all of it is written."""
        return hashlib.sha256(self.text.encode()).digest()

    def write(self, thing: object) -> None:
        """Add a part of a machine.

        Raises:
            TypeError: it is of a kind that has no text here; nothing is ever left out silently.
        """
        kind = type(thing)
        if kind in _PLAIN:
            self.parts.append(repr(thing))
        elif isinstance(thing, Term):
            self._write_once(thing)
        elif isinstance(thing, Line):
            self.lines.append(thing)
        elif isinstance(thing, str | int | Fraction | None):
            self.parts.append(repr(thing))
        elif isinstance(thing, type):
            self._write_type(thing)
        elif isinstance(thing, Map | Queue | Event):
            # A first value is written as the term that it is, with the others.
            said = [(name, value) for name, value in vars(thing).items() if name not in ("init", "heard", "line")]
            self._write_all(kind.__name__, said)
        elif isinstance(thing, dict):
            # Some keys are any text, as the names of a loop's facts are: what they say must not look like content.
            self._write_all("dict", ((repr(name), value) for name, value in thing.items()))
        elif isinstance(thing, list | tuple):
            self._write_all("list", enumerate(thing))
        elif is_dataclass(thing):
            self._write_once(thing)
        else:
            raise TypeError(f"a {kind.__name__} has no canonical text")

    def _write_once(self, thing: object) -> None:
        """What stands in several places is written at the first of them."""
        known = self._numbers.get(id(thing))
        if known is not None:
            self.parts.append(f"#{known}")
            return
        self._number(id(thing))
        self._alive.append(thing)
        if isinstance(thing, Term):
            self._write_term(thing)
        else:
            self._write_all(type(thing).__name__, self._fields(thing))

    def _fields(self, thing: object) -> Iterator[tuple[str, object]]:
        """What a statement or a property is made of; its numbers depend on what was read before, so they get others."""
        for f in fields(thing):  # type: ignore[arg-type]
            value = getattr(thing, f.name)
            if isinstance(thing, Let | Loop) and f.name in ("name", "result"):
                yield f.name, self._number(("temporary", value))
            elif isinstance(thing, Loop) and f.name == "number":
                yield f.name, self._number(("loop", value))
            elif f.name not in _ASIDE:
                yield f.name, value

    def _write_term(self, term: Term) -> None:
        said = term.operation
        values = dict(zip(said.__match_args__, said.values(), strict=True))
        # These have numbers that depend on what was read before.
        if isinstance(said, op.Variable):
            values["number"] = self._number(("variable", said.number))
        elif isinstance(said, op.Temporary):
            values["number"] = self._number(("temporary", said.number))
        elif isinstance(said, op.Read) and said.view.startswith("entry:"):
            values["view"] = f"entry {self._number(('loop', int(said.view.removeprefix('entry:'))))}"
        self._write_all(f"{type(said).__name__} {type(term).__name__} {term.is_optional}", values.items())

    def _number(self, key: object) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def _write_type(self, kind: type) -> None:
        self.parts.append(kind.__name__)
        if issubclass(kind, Sort) and kind is not Sort:
            self.parts.append(f"of {kind.base.__name__} with {kind.extra!r}")

    def _write_all(self, head: str, items: Iterable[tuple[object, object]]) -> None:
        self.parts.append(f"({head}")
        for name, value in items:
            if not isinstance(name, int):
                self.parts.append(f"{name}:")
            self.write(value)
        self.parts.append(")")


class Contents:
    """The contents of a machine's parts, each written once."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._declared = content_of(model.name, model.sorts, model.maps, model.queues, model.inits, model.counts)
        self._properties = {name: content_of(prop) for name, prop in model.properties.items()}

    def of_place(self, place: str) -> list[Content]:
        """Everything on which the obligations of one action depend, of the first state, or of every state."""
        concerned = [self._properties[p.name] for p in self._model.properties.values() if self._concerns(place, p)]
        promised = [content_of(p) for p in self._model.promises.values() if place in p.fair]
        return [self._declared, *concerned, *promised, content_of(place, self._model.actions.get(place))]

    def _concerns(self, place: str, prop: Property) -> bool:
        if place not in self._model.actions or prop.kind in ("assume", "initially"):
            return True
        if prop.kind == "invariant":
            return not prop.derived
        return prop.kind == "step" and (not prop.of or place in prop.of)


def content_of(*things: object) -> Content:
    """What these are, one after the other."""
    content = Content()
    for thing in things:
        content.write(thing)
    return content
