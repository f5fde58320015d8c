"""What a term looks at: which functions of which states, which values that were read before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from . import operations as op
from .terms import Term
from .traversal import parts

__all__ = ["Reads", "reads_of"]


@dataclass(frozen=True, slots=True)
class Reads:
    """What a term, or anything below it, looks at.

    ``functions`` are pairs of a view and the name of a function of states: a map, a count, the membership (``q.has``)
    or the order (``q.rank``) of a queue. ``ends`` are triples of a view, a queue, and ``head`` or ``tail``.
    """

    functions: frozenset[tuple[str, str]] = frozenset()
    ends: frozenset[tuple[str, str, str]] = frozenset()
    temps: frozenset[int] = frozenset()
    variables: frozenset[int] = frozenset()

    def joined(self, other: Reads) -> Reads:
        """What either looks at."""
        if other is _NOTHING:
            return self
        if self is _NOTHING:
            return other
        return Reads(
            self.functions | other.functions,
            self.ends | other.ends,
            self.temps | other.temps,
            self.variables | other.variables,
        )

    @property
    def names(self) -> frozenset[str]:
        """The functions, of whatever state."""
        return frozenset(name for _, name in self.functions)


_NOTHING = Reads()

_known: dict[int, tuple[Term, Reads]] = {}
"""By the identity of the term, which is kept alive for it."""


def reads_of(term: Term) -> Reads:
    """What the term looks at where it stands."""
    known = _known.get(id(term))
    if known is None:
        known = _known[id(term)] = term, _read(term)
    return known[1]


def _read(term: Term) -> Reads:
    match term.operation:
        case op.Constant():
            return _NOTHING
        case op.Variable(_, number):
            return Reads(variables=frozenset([number]))
        case op.Temporary(number):
            return Reads(temps=frozenset([number]))
        case op.Read() as read:
            return _below(term).joined(_looked_at(read))
        case _:
            return _below(term)


def _below(term: Term) -> Reads:
    """What the operands look at."""
    found = _NOTHING
    for part in parts(term):
        found = found.joined(reads_of(part))
    return found


def _looked_at(read: op.Reading) -> Reads:
    """What a look at the state itself is a look at."""
    view, name = read.view, read.name
    members = view, f"{name}.has"
    order = frozenset([members, (view, f"{name}.rank")])
    match read:
        case op.Entry() | op.Total():
            return Reads(functions=frozenset([(view, name)]))
        case op.Size():
            return Reads(functions=frozenset([(view, f"{name}.size")]))
        case op.Has() | op.Empty():
            return Reads(functions=frozenset([members]))
        case op.First() | op.Before():
            return Reads(functions=order)
        case op.Head():
            return Reads(functions=order, ends=frozenset([(view, name, "head")]))
        case op.Tail():
            return Reads(functions=order, ends=frozenset([(view, name, "tail")]))
        case unknown:
            assert_never(unknown)
