"""The rounds of `each` are one simultaneous step: none sees or undoes what another does.

Proofs take the body of an `each` for all elements at once, the other interpreters take one element after the other.
Both are the same exactly where an entry that a round writes is its own, and where no round reads what another round
writes, be it directly, through a quantifier, an order or a count. What cannot be shown to be so is refused.

An entry is a round's own where each of the round's elements stands at a place of its own among the entry's keys, at the
same place in every write: entries of two rounds then differ at one of these places.
"""

from __future__ import annotations

from collections.abc import Iterator

from . import operations as op
from .mistakes import MachineError
from .model import Model
from .program import Assign, Each, Let, Loop, Push, Remove, Statement, statements
from .terms import Term
from .traversal import parts

__all__ = ["check_each"]


def check_each(model: Model, each: Each) -> None:
    """Refuse rounds that could meet.

    Raises:
        MachineError: what the body does to one element may be seen or undone by what it does to another.
    """
    inside = list(statements(each.body))
    for s in inside:
        if isinstance(s, Each | Loop):
            raise MachineError("`each` holds plain statements and `when` only", s.line)
    writes = [s for s in inside if isinstance(s, Assign | Push | Remove)]
    own = {name: _own_places(each, name, [w for w in writes if w.name == name]) for name in [w.name for w in writes]}
    for w in writes:
        if isinstance(w, Push) and any(place >= len(w.keys) for place in own[w.name]):
            raise MachineError(f"pushes to {w.name} for each {_named(each)} have no order", w.line)
        if isinstance(w, Push) and w.where == "before":
            raise MachineError(f"`each` cannot push before a member of {w.name}; push to its front or back", w.line)
    for s in inside:
        if isinstance(s, Let):
            for term, read in _reads(s.value):
                _check_read(model, each, term, read, own, s)


def _named(each: Each) -> str:
    return ", ".join(map(repr, each.binders))


def _keys(s: Statement) -> tuple[Term, ...]:
    """Where a write takes place: the keys, and for a queue the element."""
    assert isinstance(s, Assign | Push | Remove)
    return s.keys if isinstance(s, Assign) else (*s.keys, s.element)


def _own_places(each: Each, name: str, writes: list[Assign | Push | Remove]) -> tuple[int, ...]:
    """For each element of the round: the place among the keys at which it stands in all these writes."""
    found = []
    for b in each.binders:
        places = [p for p in range(len(_keys(writes[0]))) if all(_keys(w)[p] is b for w in writes)]
        if not places:
            raise MachineError(
                f"`each` writes {name} at an entry that is not its own: {b!r} has to stand at one place of its keys, "
                "the same in every write",
                writes[-1].line,
            )
        found.append(places[0])
    return tuple(found)


def _reads(term: Term) -> Iterator[tuple[Term, op.Read]]:
    """What the term reads from the state where it stands; what was read before is a value."""
    match term.operation:
        case op.Temporary():
            return
        case op.Read() as read:
            yield term, read
    for part in parts(term):
        yield from _reads(part)


def _check_read(model: Model, each: Each, term: Term, read: op.Read, own: dict[str, tuple[int, ...]], s: Let) -> None:
    if isinstance(read, op.Total):
        if own.keys() & model.counts[read.name].reads.keys():
            raise MachineError(f"`each` reads the count {term!r}, which another round may change", s.line)
        return
    if read.name not in own:
        return
    keys = (*read.keys, read.element) if isinstance(read, op.Has) else read.keys
    # An order belongs to a whole queue: it is the round's own if the queue is.
    is_own = all(p < len(keys) and keys[p] is b for p, b in zip(own[read.name], each.binders, strict=True))
    if not is_own:
        raise MachineError(f"`each` reads {term!r}, which another round may write", s.line)
