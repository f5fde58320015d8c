"""What a term looks at: which functions of which states, which values that were read before."""

from __future__ import annotations

from dataclasses import dataclass

from .terms import Term, parts

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
    op, args = term.op, term.args
    if op == "lit":
        return _NOTHING
    if op == "var":
        return Reads(variables=frozenset([args[1]]))
    if op == "temp":
        return Reads(temps=frozenset([args[0]]))
    found = _NOTHING
    for part in parts(term):
        found = found.joined(reads_of(part))
    if op in ("get", "count"):
        return found.joined(Reads(functions=frozenset([(args[0], args[1])])))
    if op == "size":
        return found.joined(Reads(functions=frozenset([(args[0], f"{args[1]}.size")])))
    if op in ("has", "empty"):
        return found.joined(Reads(functions=frozenset([(args[0], f"{args[1]}.has")])))
    if op in ("first", "before", "head", "tail"):
        both = frozenset([(args[0], f"{args[1]}.has"), (args[0], f"{args[1]}.rank")])
        ends = frozenset([(args[0], args[1], op)]) if op in ("head", "tail") else frozenset()
        return found.joined(Reads(functions=both, ends=ends))
    return found
