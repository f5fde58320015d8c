"""Reading a machine: its class is run once, checked, and becomes a `Model`.

A mistake is a `MachineError` that names the action or property, and the line.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from .classbody import check_override, mark_of, parameters_of
from .declarations import Count, Event, Map, Queue, Sum
from .language import Machine
from .members import members_of
from .model import RESULT, Action, CountOf, Model, Property, written
from .part import Part, check_part
from .program import Assign, Each, Emit, Let, Loop, Push, Remove, Statement, statements, terms
from .recorder import Recorder, recording, variable
from .rounds import check_each
from .terms import (
    TRUE,
    Bool,
    Index,
    Int,
    Line,
    MachineError,
    Real,
    Sort,
    Term,
    all_of,
    as_bool,
    as_int,
    as_number,
    as_real,
    as_term,
    make,
    none,
    same_type,
    substituted,
    walk,
)

__all__ = ["read", "reported", "speaking_of", "with_action"]

READS = ("get", "has", "count", "size", "first", "head", "tail", "before", "empty")
"""The operations that look at the state or at a parameter."""


def read(machine: type[Machine]) -> Model:
    """Run the text of a machine and take down what it says.

    Raises:
        MachineError: the text has a mistake.
    """
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
    members = members_of(machine)
    _declare(model, members)
    for member in members.values():
        if isinstance(member, Part):
            check_part(machine, member)
    for name, member in members.items():
        check_override(machine, name, member)
    marked = {n: (m, mark) for n, m in members.items() if callable(m) and (mark := mark_of(machine, n, m))}
    for name, (member, mark) in marked.items():
        if mark["kind"] == "action":
            model.actions[name] = _action(model, name, member, mark)
    _check_listeners(model)
    for name, (member, mark) in marked.items():
        if mark["kind"] != "action":
            model.properties[name] = _property(model, name, member, mark)
    for prop in model.properties.values():
        for act in prop.of:
            if act not in model.actions:
                raise MachineError(f"{prop.name} speaks of an action {act} that the machine does not have", prop.line)
    for term, line in _terms(model):
        for part in walk(term):
            _check_part(model, part, line)
    _drop_unused_sizes(model)
    return model


def with_action(model: Model, action: Action) -> Model:
    """The machine with another action in the place of its own: what its properties say by `can` is said of this one."""
    changed = replace(model, actions=model.actions | {action.name: action})
    possible = partial(_possible, action)
    if repr(possible(action.params)) == repr(_possible(model.actions[action.name], action.params)):
        return changed
    marks = {name: mark_of(model.machine, name, member) for name, member in members_of(model.machine).items()}
    again = {}
    for name in speaking_of(model, action.name):
        mark = marks[name]
        assert mark is not None
        with _instead(action.name, possible):
            again[name] = _property(changed, name, getattr(model.machine, name), mark)
    changed.properties = model.properties | again
    return changed


def reported(model: Model, emit: Emit, args: tuple[Term, ...]) -> Emit:
    """The same event in the same place, of something else: what a listener makes of it is said of that too."""
    named = [t for arg in args for t in walk(arg) if t.op in ("temp", "var")]
    around = Recorder(of_action=True)
    around.home = {t.args[0 if t.op == "temp" else 1]: around.open[0] for t in named}
    with recording(f"event {emit.event}", of_action=True, outer=around) as rec:
        getattr(model.machine(), emit.event)(*args)
    (made,) = rec.body
    assert isinstance(made, Emit)
    return replace(made, line=emit.line)


def speaking_of(model: Model, action: str) -> list[str]:
    """The properties that say something of when this action is possible."""
    known = _spoken.setdefault(model, {})
    if action not in known:
        heard: list[tuple[Term, ...]] = []

        def hear(given: tuple[Term, ...]) -> Bool:
            heard.append(given)
            return TRUE

        known[action] = []
        for name, prop in model.properties.items():
            mark = mark_of(model.machine, name, getattr(model.machine, name))
            assert mark is not None
            heard.clear()
            with _instead(action, hear):
                _property(model, name, getattr(model.machine, name), mark)
            if heard:
                known[action].append(prop.name)
    return known[action]


_spoken: WeakKeyDictionary[Model, dict[str, list[str]]] = WeakKeyDictionary()


@contextmanager
def _instead(action: str, possible: Callable[[tuple[Term, ...]], Bool]) -> Iterator[None]:
    """While this lasts, `can` says of this action what it is told."""
    before, Recorder.instead = Recorder.instead, {action: possible}
    try:
        yield
    finally:
        Recorder.instead = before


def _possible(action: Action, given: tuple[Term, ...]) -> Bool:
    """What the action requires for these arguments, of the state at hand."""
    read = {s.name: s.value for s in action.body if isinstance(s, Let)}
    variables = {p.args[1]: term for p, term in zip(action.params, given, strict=True)}
    return all_of(*[substituted(s.condition, variables, read) for s in action.requirements])


def _terms(model: Model) -> Iterator[tuple[Term, Line]]:
    """Every formula of the machine, and every value that an action reads, with the line on which it stands."""
    yield from ((p.formula, p.line) for p in model.properties.values())
    yield from ((c.formula if c.weight is None else c.weight, c.line) for c in model.counts.values())
    for name, (_, value) in model.inits.items():
        yield value, (model.maps | model.queues)[name].line
    for act in model.actions.values():
        if act.result is not None:
            yield act.result, act.line
        for s in statements(act.body):
            yield from ((term, s.line) for term in terms(s))
            if isinstance(s, Each):
                yield from ((binder, s.line) for binder in s.binders)
            if isinstance(s, Loop):
                yield from ((term, s.line) for term in (*s.facts.values(), s.going))


def _check_part(model: Model, part: Term, line: Line) -> None:
    """What a term reads is part of this machine, and its sorts are known, wherever they are named."""
    if part.op in READS and part.args[1] not in (model.maps | model.queues | model.counts):
        raise MachineError(f"{part.args[1]} is read, which is not part of this machine", line)
    if part.op == "within":
        _sorts(model, [part.args[1]], line)
    elif part.op in ("forall", "exists"):
        _sorts(model, [type(b) for b in part.args[0]], line)
    elif type(part) not in (Int, Real, Bool, Index, Term) and part is not none:
        _sorts(model, [type(part)], line)


def _drop_unused_sizes(model: Model) -> None:
    """The size of a queue is a count like any other, and costs as much: it is kept only where it is asked for."""
    asked = {f"{part.args[1]}.size" for term, _ in _terms(model) for part in walk(term) if part.op == "size"}
    for name in model.queues:
        if f"{name}.size" not in asked:
            del model.counts[f"{name}.size"]


# ------------------------------------------------------------------------------------------------ declarations


def _declare(model: Model, members: dict[str, Any]) -> None:
    for name, member in members.items():
        if isinstance(member, Map):
            model.maps[name] = member
            _sorts(model, (*member.kinds, member.to), member.line)
        elif isinstance(member, Queue):
            model.queues[name] = member
            _sorts(model, (*member.kinds, member.of), member.line)
        elif isinstance(member, Event):
            model.events[name] = member
            _sorts(model, member.kinds, member.line)
    for name, member in members.items():
        if isinstance(member, Count):
            _sorts(model, (*member.over, *member.kinds), member.line)
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


def _sorts(model: Model, kinds: Iterable[type[Term]], line: Line) -> None:
    for kind in kinds:
        if kind in (Int, Real, Bool):
            continue
        if kind.__name__ in RESERVED:
            text = f"a sort is named {kind.__name__}, which means something else: give it another name"
            raise MachineError(text, line)
        for known in (*model.sorts.values(), *(k.base for k in model.sorts.values() if issubclass(k, Sort))):
            _check_pair(kind, known, line)
            if issubclass(kind, Sort):
                _check_pair(kind.base, known, line)
        model.sorts.setdefault(kind.__name__, kind)


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


def _is_fixed(model: Model, read: Term) -> bool:
    """The read is of a parameter, or of a count of what only depends on parameters."""
    name = read.args[1]
    return name in model.params or (read.op == "count" and name in model.counts and not model.counts[name].reads)


def _init(
    model: Model, name: str, kinds: tuple[type[Term], ...], init: object, decl: Map[Any] | None
) -> tuple[tuple[Term, ...], Term]:
    line = (model.queues[name] if decl is None else decl).line
    keys = tuple(variable(k, k.__name__.lower()[:1]) for k in kinds)
    with recording(f"init of {name}", of_action=False, known=keys) as rec:
        value = init(model.machine(), *keys) if callable(init) else init
        term = as_bool(value, line) if decl is None else as_number(decl.to, as_term(value, line))
        if decl is not None and (
            not same_type(term, make(decl.to, "?")) or (term.is_optional and not decl.is_optional)
        ):
            raise MachineError(f"{name} holds {decl.to.__name__}; its first value {term!r} does not", line)
        rec.check(term, line=line)
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
    with recording(f"count {name}", of_action=False, known=binders) as rec:
        value = as_term(count.where(model.machine(), *binders), count.line)
        weight = _weight(count, value) if isinstance(count, Sum) else None
        formula = as_bool(value, count.line) if weight is None else weight > 0
        rec.check(formula, line=count.line)
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
            if name in model.maps and model.maps[name].is_tally:
                raise MachineError(
                    f"count {count.name} reads the tally {name}, which is no part of the state", count.line
                )
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


def _action(model: Model, name: str, function: Callable[..., Any], mark: dict[str, Any]) -> Action:
    line = mark["line"]
    kinds = parameters_of(function, name, line, skip=1)
    if RESULT in kinds:
        raise MachineError(f"a parameter of {name} is named {RESULT}, as is what an action returns: rename it", line)
    _sorts(model, kinds.values(), line)
    params = tuple(variable(kind, n) for n, kind in kinds.items())
    with recording(f"action {name}", of_action=True, known=params) as rec:
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
            check_each(model, s)


def _check_listeners(model: Model) -> None:
    """What listeners keep is written where events are heard, and nowhere else."""
    kept = {name: event for event in model.events for name in _kept(model, event)}
    for act in model.actions.values():
        heard = {id(s) for e in statements(act.body) if isinstance(e, Emit) for s in statements(e.heard)}
        for s in statements(act.body):
            if isinstance(s, Assign | Push | Remove) and s.name in kept and id(s) not in heard:
                text = f"{s.name} is what listeners make of {kept[s.name]}: report the event, and do not write this"
                raise MachineError(text, s.line)


def _kept(model: Model, event: str) -> set[str]:
    """The maps and queues in which a listener keeps what it knows of an event, whether or not it is ever reported."""
    carried = tuple(variable(kind, kind.__name__.lower()[:1]) for kind in model.events[event].kinds)
    with recording(f"event {event}", of_action=True, known=carried) as rec:
        getattr(model.machine(), event)(*carried)
        _check_body(model, rec.body)
    return written(rec.body)


def _property(model: Model, name: str, function: Callable[..., Any], mark: dict[str, Any]) -> Property:
    kind, line, of = mark["kind"], mark["line"], mark.get("of", ())
    is_step = kind == "step"
    concerned = _all_but(model, name, mark["unless"], of, line) if mark.get("unless") else of
    kinds = parameters_of(function, name, line, skip=2 if is_step else 1)
    _sorts(model, kinds.values(), line)
    variables = {n: variable(k, n) for n, k in kinds.items()}
    given = _given(model, name, kinds, of, line) if is_step else set()
    if RESULT in given:
        variables[RESULT].is_optional = any(_may_return_none(model.actions[act]) for act in of)
    binders = tuple(v for n, v in variables.items() if n not in given)
    _check_binders(name, binders, line)
    _check_same_binding(model, name, function, given, of, line)
    with recording(f"{kind} {name}", of_action=False, known=variables.values()) as rec:
        arguments = [model.machine("before")] if is_step else []
        said = function(model.machine(), *arguments, *variables.values())
        if isinstance(said, bool):
            text = f"{name} is plainly {said}: Python has decided it while the machine was read (`is` and `in` do that)"
            raise MachineError(text, line)
        formula = as_bool(said, line)
        rec.check(formula, line=line)
    for part in walk(formula):
        if part.op in READS:
            _check_reading(model, name, kind, part, line)
    doc, derived = inspect.getdoc(function) or "", mark.get("derived", False)
    bound = {n: v for n, v in variables.items() if n in given}
    return Property(name, kind, mark["rule"], doc, binders, formula, line, concerned, bound, derived)


def _all_but(model: Model, name: str, unless: tuple[str, ...], of: tuple[str, ...], line: Line) -> tuple[str, ...]:
    """The actions of a property that holds of all but some."""
    if of:
        raise MachineError(f"{name} has both of= and unless=: name the actions that it speaks of, or the others", line)
    for act in unless:
        if act not in model.actions:
            raise MachineError(f"{name} leaves out an action {act} that the machine does not have", line)
    concerned = tuple(act for act in model.actions if act not in unless)
    if not concerned:
        raise MachineError(f"{name} leaves out every action, and says nothing", line)
    return concerned


def _may_return_none(act: Action) -> bool:
    return act.result is not None and act.result.is_optional


def _given(model: Model, name: str, kinds: dict[str, type[Term]], of: Iterable[str], line: Line) -> set[str]:
    """The parameters of a property of steps that stand for those of the actions, or for what these return."""
    actions = [model.actions[a] for a in of if a in model.actions]
    owned = [{p.args[0]: type(p) for p in a.params} for a in actions]
    given = {n for n in kinds if owned and all(n in own for own in owned)}
    for n in given:
        for act, own in zip(actions, owned, strict=True):
            if own[n] is not kinds[n]:
                raise MachineError(
                    f"{n} is a {own[n].__name__} in {act.name} and a {kinds[n].__name__} in {name}: rename one, or "
                    "give both one sort",
                    line,
                )
    if RESULT in kinds:
        wanted = f"{name} speaks of the {RESULT}, a {kinds[RESULT].__name__}"
        if not actions:
            raise MachineError(f"{wanted}: name the actions with of=", line)
        for act in actions:
            returned = None if act.result is None else type(act.result)
            # What is returned may be of a narrower type than the property speaks of, and of no wider one.
            if returned is None or not issubclass(returned, kinds[RESULT]):
                raise MachineError(f"{wanted}: {act.name} returns {_shown(returned)}", line)
        given.add(RESULT)
    return given


def _shown(kind: type[Term] | None) -> str:
    return "nothing" if kind is None else f"a {kind.__name__}"


def _check_binders(name: str, binders: Iterable[Term], line: Line) -> None:
    for b in binders:
        if type(b) is Int:
            raise MachineError(
                f"{name} would be asked for every {b.args[0]}, and integers have no last one: declare an index with "
                "`class Name(Index)`, or name the actions of which it is a parameter",
                line,
            )


def _check_same_binding(
    model: Model, name: str, function: Callable[..., Any], given: set[str], of: tuple[str, ...], line: Line
) -> None:
    """A property that is inherited says no less than where it was written.

    Where an action that is extended gets a parameter of the name of one of the property's, "for every" would become
    "for this one".
    """
    for base in model.machine.__mro__[1:]:
        if not (issubclass(base, Machine) and vars(base).get(name) is function):
            continue
        there = [_parameter_names(base, act) for act in of]
        for n in given - {RESULT}:
            if any(names is not None and n not in names for names in there):
                raise MachineError(
                    f"{name} holds for every {n} in {base.__name__}, and an action of {model.name} has a parameter of "
                    "that name: rename the parameter",
                    line,
                )


def _parameter_names(machine: type[Machine], action: str) -> list[str] | None:
    """None where the machine has no such method."""
    method = next((vars(c)[action] for c in machine.__mro__ if action in vars(c)), None)
    return list(inspect.signature(method).parameters) if inspect.isfunction(method) else None


def _check_reading(model: Model, name: str, kind: str, part: Term, line: Line) -> None:
    read = part.args[1]
    if kind == "assume" and not _is_fixed(model, part):
        raise MachineError(f"assume {name} speaks of {part!r}, which is not a parameter", line)
    if kind != "step" and read in model.maps and model.maps[read].is_tally:
        raise MachineError(f"{name} reads the tally {read}, of which properties of steps alone can speak", line)
