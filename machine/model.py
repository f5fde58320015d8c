"""A machine, read: its sorts, state, actions and properties as data that every interpreter shares.

`Model.of(Pool)` runs the text of the machine once and checks it; a mistake is a `MachineError` that names the action or
property, and the line.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from .language import Count, Event, Machine, Map, Queue, Recorder, Sum, is_kind, recording, variable
from .program import Assign, Each, Let, Loop, Push, Remove, Require, Statement, statements
from .terms import (
    Bool,
    Int,
    Line,
    MachineError,
    Real,
    Term,
    as_bool,
    as_int,
    as_number,
    as_real,
    as_term,
    make,
    same_type,
    walk,
)

__all__ = ["Action", "CountOf", "Model", "Property"]


@dataclass(eq=False)
class Action:
    """An action: its parameters, and what it does."""

    name: str
    rule: str
    doc: str
    params: tuple[Term, ...]
    body: list[Statement]
    result: Term | None
    line: Line

    @property
    def requirements(self) -> list[Require]:
        """What must hold for the action to be possible."""
        return [s for s in self.body if isinstance(s, Require)]

    @property
    def loops(self) -> list[Loop]:
        """The loops at the top level of the action."""
        return [s for s in self.body if isinstance(s, Loop)]


@dataclass(eq=False)
class Property:
    """A formula over one state, or over the states before (view ``before``) and after a step.

    ``of`` names the actions that a property of steps speaks of (none: all of them); ``given`` are the variables in
    ``formula`` that stand for that action's parameters; ``binders`` the ones that are quantified (universally, or
    existentially in `sometimes`). A ``derived`` invariant follows from those that are not.
    """

    name: str
    kind: str
    rule: str
    doc: str
    binders: tuple[Term, ...]
    formula: Bool
    line: Line
    of: tuple[str, ...] = ()
    given: dict[str, Term] = field(default_factory=dict)
    derived: bool = False


@dataclass(eq=False)
class CountOf:
    """A count: the number of ``elements`` for which ``formula`` holds, for each value of ``keys``.

    With ``weight`` it is a sum: each element for which the formula (weight > 0) holds counts as much as its weight.

    ``reads``: for each map or queue that the formula reads, the places (index tuples) at which it does.
    """

    name: str
    elements: tuple[Term, ...]
    keys: tuple[Term, ...]
    formula: Bool
    line: Line
    reads: dict[str, list[tuple[Term, ...]]] = field(default_factory=dict)
    weight: Int | Real | None = None

    @property
    def to(self) -> type[Int | Real]:
        """What is counted with: integers, or exact numbers."""
        return Real if isinstance(self.weight, Real) else Int


@dataclass(eq=False)
class Model:
    """Everything that the interpreters need to know about a machine."""

    name: str
    doc: str
    machine: type[Machine]
    sorts: dict[str, type[Term]]
    maps: dict[str, Map[Any]]
    queues: dict[str, Queue[Any]]
    counts: dict[str, CountOf]
    events: dict[str, Event]
    inits: dict[str, tuple[tuple[Term, ...], Term]]
    actions: dict[str, Action]
    properties: dict[str, Property]

    @staticmethod
    def of(machine: type[Machine]) -> Model:
        """Read a machine (once; later calls return the same model)."""
        if machine not in _known:
            _known[machine] = _read(machine)
        return _known[machine]

    def of_kind(self, kind: str) -> list[Property]:
        """The properties of one kind: invariant, step, sometimes, assume or initially."""
        return [p for p in self.properties.values() if p.kind == kind]

    @property
    def inductive(self) -> list[Property]:
        """The invariants that every action must keep; the other invariants follow from them."""
        return [p for p in self.of_kind("invariant") if not p.derived]

    @property
    def params(self) -> dict[str, Map[Any]]:
        """The maps that never change."""
        return {n: m for n, m in self.maps.items() if m.is_param}

    @property
    def variables(self) -> dict[str, Map[Any]]:
        """The maps that actions change, without tallies."""
        return {n: m for n, m in self.maps.items() if not m.is_param and not m.is_tally}

    def steps_for(self, action: str) -> list[Property]:
        """The properties of steps that speak of this action."""
        return [p for p in self.of_kind("step") if not p.of or action in p.of]


READS = ("get", "has", "count", "size", "first", "head", "tail", "before", "empty")
"""The operations that look at the state or at a parameter."""


def written(body: Iterable[Statement]) -> set[str]:
    """The names of the maps and queues that the statements write."""
    return {s.name for s in statements(list(body)) if isinstance(s, Assign | Push | Remove)}


_known: dict[type[Machine], Model] = {}


def _read(machine: type[Machine]) -> Model:
    model = Model(
        name=machine.__name__,
        doc=inspect.getdoc(machine) or "",
        machine=machine,
        sorts={},
        maps={},
        queues={},
        counts={},
        events={},
        inits={},
        actions={},
        properties={},
    )
    members: dict[str, Any] = {}
    for base in reversed(machine.__mro__):
        members.update({k: v for k, v in vars(base).items() if not k.startswith("__")})
    _declare(model, members)
    marked = {n: (m, mark) for n, m in members.items() if callable(m) and (mark := _mark_of(machine, n, m))}
    for name, (member, mark) in marked.items():
        if mark["kind"] == "action":
            model.actions[name] = _action(model, name, member, mark)
    for name, (member, mark) in marked.items():
        if mark["kind"] != "action":
            model.properties[name] = _property(model, name, member, mark)
    for prop in model.properties.values():
        for act in prop.of:
            if act not in model.actions:
                raise MachineError(f"{prop.name} speaks of an action {act} that the machine does not have", prop.line)
    _drop_unused_sizes(model)
    return model


def _mark_of(machine: type[Machine], name: str, member: Any) -> dict[str, Any] | None:
    """What the decorator says of a method. An override without a decorator keeps what its original says of it."""
    mark: dict[str, Any] | None = getattr(member, "__kvproof__", None)
    if mark is not None:
        return mark
    mark = next((m for b in machine.__mro__ if (m := getattr(vars(b).get(name), "__kvproof__", None))), None)
    return mark and mark | {"line": Line(member.__code__.co_filename, member.__code__.co_firstlineno)}


def _drop_unused_sizes(model: Model) -> None:
    """The size of a queue is a count like any other, and costs as much: it is kept only where it is asked for."""
    terms: list[Term] = [p.formula for p in model.properties.values()]
    for act in model.actions.values():
        for s in statements(act.body):
            terms += [s.value] if isinstance(s, Let) else [*s.facts.values(), s.going] if isinstance(s, Loop) else []
    asked = {f"{part.args[1]}.size" for term in terms for part in walk(term) if part.op == "size"}
    for name in model.queues:
        if f"{name}.size" not in asked:
            del model.counts[f"{name}.size"]


# ------------------------------------------------------------------------------------------------ declarations


def _declare(model: Model, members: dict[str, Any]) -> None:
    for name, member in members.items():
        if isinstance(member, Map):
            model.maps[name] = member
            _sorts(model, (*member.kinds, member.to))
        elif isinstance(member, Queue):
            model.queues[name] = member
            _sorts(model, (*member.kinds, member.of))
        elif isinstance(member, Event):
            model.events[name] = member
            _sorts(model, member.kinds)
    for name, member in members.items():
        if isinstance(member, Count):
            _sorts(model, (*member.over, *member.kinds))
            model.counts[name] = _count(model, name, member)
    for name, queue in model.queues.items():
        model.counts[f"{name}.size"] = _size(model, name, queue)
    for name, mapping in model.maps.items():
        if not mapping.is_param:
            model.inits[name] = _init(model, name, mapping.kinds, mapping.init, mapping)
    for name, queue in model.queues.items():
        model.inits[name] = _init(model, name, (*queue.kinds, queue.of), queue.init, None)


def _sorts(model: Model, kinds: Iterable[type[Term]]) -> None:
    for kind in kinds:
        if kind.__name__ not in ("Int", "Real", "Bool"):
            model.sorts.setdefault(kind.__name__, kind)


def _is_fixed(model: Model, read: Term) -> bool:
    """The read is of a parameter, or of a count of what only depends on parameters."""
    name = read.args[1]
    return name in model.params or (read.op == "count" and name in model.counts and not model.counts[name].reads)


def _init(
    model: Model, name: str, kinds: tuple[type[Term], ...], init: object, decl: Map[Any] | None
) -> tuple[tuple[Term, ...], Term]:
    line = (model.queues[name] if decl is None else decl).line
    keys = tuple(variable(k, k.__name__.lower()[:1]) for k in kinds)
    with recording(f"init of {name}", of_action=False):
        value = init(model.machine(), *keys) if callable(init) else init
        term = as_bool(value, line) if decl is None else as_number(decl.to, as_term(value, line))
        if decl is not None and (
            not same_type(term, make(decl.to, "?")) or (term.is_optional and not decl.is_optional)
        ):
            raise MachineError(f"{name} holds {decl.to.__name__}; its first value {term!r} does not", line)
    for part in walk(term):
        if part.op in READS and not _is_fixed(model, part):
            raise MachineError(f"the first value of {name} may only depend on parameters, not on {part!r}", line)
    return keys, term


def _count(model: Model, name: str, count: Count) -> CountOf:
    names = list(inspect.signature(count.where).parameters)[1:]
    kinds = (*count.over, *count.kinds)
    if len(names) != len(kinds):
        raise MachineError(
            f"count {name}: `where` takes the machine and {len(kinds)} arguments, not {len(names)}", count.line
        )
    binders = tuple(variable(k, n) for k, n in zip(kinds, names, strict=True))
    with recording(f"count {name}", of_action=False):
        value = as_term(count.where(model.machine(), *binders), count.line)
        weight = _weight(count, value) if isinstance(count, Sum) else None
        formula = as_bool(value, count.line) if weight is None else weight > 0
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
    formula = make(Bool, "has", "now", name, keys, element)
    result = CountOf(f"{name}.size", (element,), keys, formula, Line("", 0))
    _track(model, result)
    return result


def _track(model: Model, count: CountOf) -> None:
    """Derive what a count reads, and that a write to one entry concerns one element.

    Raises MachineError where it cannot: the count could then not be carried from state to state.
    """
    for part in walk(count.formula):
        if part.op in ("forall", "exists"):
            raise MachineError(
                f"count {count.name} quantifies ({part!r}); a count may only look at its own element", count.line
            )
        if part.op in ("count", "size", "first", "head", "tail", "before", "empty"):
            raise MachineError(
                f"count {count.name} reads {part!r}, which one write can change for many elements", count.line
            )
        if part.op in ("get", "has"):
            name = part.args[1]
            if name in model.params:
                continue
            places = (*part.args[2], *part.args[3:])
            for element in count.elements:
                if not any(p is element for p in places):
                    raise MachineError(
                        f"count {count.name} reads {part!r}, which is not indexed by {element!r}: "
                        "one write would change the count of many elements",
                        count.line,
                    )
            known = count.reads.setdefault(name, [])
            where = tuple(next((i for i, p in enumerate(places) if p is e), -1) for e in count.elements)
            if any(
                tuple(next((i for i, p in enumerate(k) if p is e), -1) for e in count.elements) != where for k in known
            ):
                raise MachineError(
                    f"count {count.name} reads {name} at two different places for one element", count.line
                )
            known.append(places)


# ------------------------------------------------------------------------------------------ actions and properties


def _parameters(function: Callable[..., Any], name: str, line: Line, skip: int) -> dict[str, type[Term]]:
    try:
        hints = typing.get_type_hints(function)
    except NameError as error:
        raise MachineError(f"unknown sort in the parameters of {name}: {error}", line) from None
    kinds: dict[str, type[Term]] = {}
    for parameter in list(inspect.signature(function).parameters)[skip:]:
        kind = hints.get(parameter)
        if not is_kind(kind):
            raise MachineError(
                f"parameter {parameter} of {name} needs a sort, Int or Bool as its annotation, not {kind!r}", line
            )
        kinds[parameter] = kind  # type: ignore[assignment]
    return kinds


def _action(model: Model, name: str, function: Callable[..., Any], mark: dict[str, Any]) -> Action:
    line = mark["line"]
    kinds = _parameters(function, name, line, skip=1)
    _sorts(model, kinds.values())
    params = tuple(variable(kind, n) for n, kind in kinds.items())
    with recording(f"action {name}", of_action=True) as rec:
        returned = function(model.machine(), *params)
        result = None if returned is None else _result(rec, returned, line)
        _check_body(model, rec.body)
    return Action(name, mark["rule"], inspect.getdoc(function) or "", params, rec.body, result, line)


def _result(rec: Recorder, value: object, line: Line) -> Term:
    term = as_term(value, line)
    rec.check(term, line=line)
    return term


def _check_body(model: Model, body: list[Statement]) -> None:
    for s in statements(body):
        if isinstance(s, Assign | Push | Remove) and s.name not in model.maps and s.name not in model.queues:
            raise MachineError(f"{s.name} is not part of this machine", s.line)
        if isinstance(s, Each):
            _check_each(model, s)


def _check_each(model: Model, each: Each) -> None:
    """Rounds of `each` must not meet: what is written is written, and read, at the round's own entries only."""
    names = written(each.body)
    for s in statements(each.body):
        if isinstance(s, Each | Loop) and s is not each:
            raise MachineError("`each` holds plain statements and `when` only", s.line)
        if isinstance(s, Assign | Push | Remove):
            own = (*s.keys, *((s.element,) if isinstance(s, Push | Remove) else ()))
            if isinstance(s, Push) and not all(any(k is b for k in s.keys) for b in each.binders):
                raise MachineError(f"pushes to {s.name} for each {each.binders!r} have no order", s.line)
            if not all(any(k is b for k in own) for b in each.binders):
                raise MachineError(f"`each` writes {s.name} at an entry that is not its own", s.line)
        terms: list[Term] = []
        if isinstance(s, Let):
            terms = [s.value]
        for term in terms:
            for part in walk(term):
                if part.op in ("get", "has", "first", "before", "head", "tail", "empty") and part.args[1] in names:
                    places = (*part.args[2], *part.args[3:])
                    if not all(any(p is b for p in places) for b in each.binders):
                        raise MachineError(f"`each` reads {part!r}, which another round may write", s.line)
                if part.op in ("count", "size") and names & model.counts[_counted(part)].reads.keys():
                    raise MachineError(f"`each` reads the count {part!r}, which another round may change", s.line)


def _counted(read: Term) -> str:
    """The count that a term reads."""
    return f"{read.args[1]}.size" if read.op == "size" else str(read.args[1])


def _property(model: Model, name: str, function: Callable[..., Any], mark: dict[str, Any]) -> Property:
    kind, line, of = mark["kind"], mark["line"], mark.get("of", ())
    is_step = kind == "step"
    kinds = _parameters(function, name, line, skip=2 if is_step else 1)
    _sorts(model, kinds.values())
    # A parameter stands for the action's own where every action that the property speaks of has it.
    owned = [{p.args[0]: type(p) for p in model.actions[a].params} for a in of if a in model.actions]
    given_names = {n for n, k in kinds.items() if owned and all(own.get(n) is k for own in owned)}
    variables = {n: variable(k, n) for n, k in kinds.items()}
    given = {n: v for n, v in variables.items() if n in given_names}
    binders = tuple(v for n, v in variables.items() if n not in given_names)
    with recording(f"{kind} {name}", of_action=False):
        arguments = [model.machine("before")] if is_step else []
        formula = as_bool(function(model.machine(), *arguments, *variables.values()), line)
    if kind == "assume":
        for part in walk(formula):
            if part.op in READS and not _is_fixed(model, part):
                raise MachineError(f"assume {name} speaks of {part!r}, which is not a parameter", line)
    doc, derived = inspect.getdoc(function) or "", mark.get("derived", False)
    return Property(name, kind, mark["rule"], doc, binders, formula, line, of, given, derived)
