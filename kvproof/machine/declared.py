"""What a machine declares: its state, its parameters, its events, and what its counts read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from . import operations as op
from .declarations import Count, Event, Map, Queue, Sum
from .lost import Conditions
from .mistakes import Line, MachineError
from .model import CountOf, Model
from .recorder import recording, variable
from .source import parameters
from .terms import (
    Bool,
    Index,
    Int,
    Real,
    Sort,
    Term,
    as_bool,
    as_int,
    as_number,
    as_real,
    as_term,
    has_type,
)
from .traversal import walk

__all__ = ["check_sorts", "declare", "is_fixed"]


def declare(model: Model, members: dict[str, Any]) -> None:
    """Take down what the machine's state, parameters, events and counts are."""
    for name, member in members.items():
        if isinstance(member, Map):
            model.maps[name] = member
            check_sorts(model, (*member.kinds, member.to), member.line)
        elif isinstance(member, Queue):
            model.queues[name] = member
            check_sorts(model, (*member.kinds, member.of), member.line)
        elif isinstance(member, Event):
            model.events[name] = member
            check_sorts(model, member.kinds, member.line)
    for name, member in members.items():
        if isinstance(member, Count):
            check_sorts(model, (*member.over, *member.kinds), member.line)
            model.counts[name] = _count(model, name, member)
    for name, queue in model.queues.items():
        model.counts[f"{name}.size"] = _size(model, name, queue)
    for name, mapping in model.maps.items():
        if not mapping.is_param:
            model.inits[name] = _init(model, name, mapping.kinds, mapping.init, mapping)
    for name, queue in model.queues.items():
        model.inits[name] = _init(model, name, (*queue.kinds, queue.of), queue.init, None)


RESERVED = frozenset({"Bool", "Index", "Int", "Real", "Sort", "none"})
"""Names that no sort can have."""


def check_sorts(model: Model, kinds: Iterable[type[Term]], line: Line) -> None:
    """Take down sorts that are named in a text, and refuse names that two of them have."""
    for kind in kinds:
        if kind in (Int, Real, Bool) or model.sorts.get(kind.__name__) is kind:
            continue
        _check_plain(kind, line)
        if kind.__name__ in RESERVED:
            text = f"a sort is named {kind.__name__}, which means something else: give it another name"
            raise MachineError(text, line)
        for known in (*model.sorts.values(), *(k.base for k in model.sorts.values() if issubclass(k, Sort))):
            _check_pair(kind, known, line)
            if issubclass(kind, Sort):
                _check_pair(kind.base, known, line)
        model.sorts.setdefault(kind.__name__, kind)


def _check_plain(kind: type[Term], line: Line) -> None:
    """Its elements equal each other, and are computed with, as the language says: by no methods of the sort's own."""
    of_language = (Sort, Index, Int, Term)
    for own in kind.__mro__:
        if own in of_language:
            return
        for name, value in vars(own).items():
            is_method = callable(value) or isinstance(value, property | classmethod | staticmethod)
            if is_method and name not in _OF_EVERY_CLASS and any(name in vars(b) for b in (*of_language, object)):
                raise MachineError(f"{kind.__name__} has {name} of its own, and a sort is declared and no more", line)


_OF_EVERY_CLASS = {"base", "__annotate__", "__annotate_func__"}
"""What the language, or Python, gives to each sort."""


def _check_pair(kind: type[Term], known: type[Term], line: Line) -> None:
    """Two sorts of one machine have two names, and so have their extra elements."""
    if kind is known:
        return
    if kind.__name__ == known.__name__:
        text = f"two sorts are named {kind.__name__} ({_where(kind)}, {_where(known)}): rename one of them"
        raise MachineError(text, line)
    if not (issubclass(kind, Sort) and issubclass(known, Sort) and kind.base is known.base):
        return
    shared = set(kind.extra) & set(known.extra)
    if shared and not (issubclass(kind, known) or issubclass(known, kind)):
        raise MachineError(f"{kind.__name__} and {known.__name__} both have an extra element {min(shared)}", line)


def _where(kind: type[Term]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def is_fixed(model: Model, read: op.Read) -> bool:
    """The read is of a parameter, or of a count of what only depends on parameters."""
    is_count = isinstance(read, op.Total) and read.name in model.counts
    return read.name in model.params or (is_count and not model.counts[read.name].reads)


def _init(
    model: Model, name: str, kinds: tuple[type[Term], ...], init: object, decl: Map[Any] | None
) -> tuple[tuple[Term, ...], Term]:
    line = (model.queues[name] if decl is None else decl).line
    keys = tuple(variable(k, k.__name__.lower()[:1]) for k in kinds)
    with recording(f"init of {name}", of_action=False, known=keys) as rec, Conditions.noted() as made:
        value = init(model.machine(), *keys) if callable(init) else init
        term = as_bool(value, line) if decl is None else as_number(decl.to, as_term(value, line))
        if decl is not None and (not has_type(term, decl.to) or (term.is_optional and not decl.is_optional)):
            raise MachineError(f"{name} holds {decl.to.__name__}; its first value {term!r} does not", line)
        rec.check(term, line=line)
    made.check([term])
    for part in walk(term):
        if isinstance(read := part.operation, op.Read) and not is_fixed(model, read):
            raise MachineError(f"the first value of {name} may only depend on parameters, not on {part!r}", line)
    return keys, term


def _count(model: Model, name: str, count: Count) -> CountOf:
    kinds = (*count.over, *count.kinds)
    names = parameters(count.where, given=1 + len(kinds))[1:]
    if len(names) != len(kinds):
        raise MachineError(
            f"count {name}: `where` takes the machine and {len(kinds)} arguments, not {len(names)}", count.line
        )
    binders = tuple(variable(k, n) for k, n in zip(kinds, names, strict=True))
    with recording(f"count {name}", of_action=False, known=binders) as rec, Conditions.noted() as made:
        value = as_term(count.where(model.machine(), *binders), count.line)
        weight = _weight(count, value) if isinstance(count, Sum) else None
        formula = as_bool(value, count.line) if weight is None else weight > 0
        rec.check(formula, line=count.line)
    made.check([formula])
    elements = binders[: len(count.over)]
    result = CountOf(name, elements, binders[len(elements) :], formula, count.line, weight=weight)
    _track(model, result)
    return result


def _weight(count: Sum[Any], value: Term) -> Int | Real:
    """What an element counts, in the type of the sum."""
    return as_real(value, count.line) if count.to is Real else as_int(value, count.line)


def _size(model: Model, name: str, queue: Queue[Any]) -> CountOf:
    element = variable(queue.of, "element")
    keys = tuple(variable(k, k.__name__.lower()[:1]) for k in queue.kinds)
    formula = Bool(op.Has("now", name, keys, element))
    result = CountOf(f"{name}.size", (element,), keys, formula, Line("", 0))
    _track(model, result)
    return result


def _track(model: Model, count: CountOf) -> None:
    """Derive what a count reads, and that a write to one entry concerns one element.

    Raises MachineError where it cannot: the count could then not be carried from state to state.
    """
    for part in walk(count.formula):
        match part.operation:
            case op.Forall() | op.Exists():
                raise MachineError(
                    f"count {count.name} quantifies ({part!r}); a count may only look at its own element", count.line
                )
            case op.Entry() | op.Has() as read:
                _track_read(model, count, part, read)
            case op.Total():
                raise MachineError(
                    f"count {count.name} reads {part!r}; a count may only look at its own element, not at a count",
                    count.line,
                )
            case op.Read():
                raise MachineError(
                    f"count {count.name} reads {part!r}, which one write can change for many elements", count.line
                )


def _track_read(model: Model, count: CountOf, part: Term, read: op.Entry | op.Has) -> None:
    name = read.name
    if name in model.params:
        return
    if model.is_tally(name):
        raise MachineError(f"count {count.name} reads the tally {name}, which is no part of the state", count.line)
    places = (*read.keys, *read.elements)
    for element in count.elements:
        if not any(p is element for p in places):
            raise MachineError(
                f"count {count.name} reads {part!r}, which is not indexed by {element!r}: "
                "one write would change the count of many elements",
                count.line,
            )
    known = count.reads.setdefault(name, [])
    if any(_standing(count, k) != _standing(count, places) for k in known):
        raise MachineError(f"count {count.name} reads {name} at two different places for one element", count.line)
    known.append(places)


def _standing(count: CountOf, places: tuple[Term, ...]) -> tuple[int, ...]:
    """For each element that is counted: the first of these places at which it stands."""
    return tuple(next((i for i, p in enumerate(places) if p is e), -1) for e in count.elements)
