"""Reading a machine: its class is run once, checked, and becomes a `Model`.

A mistake is a `MachineError` that names the action or property, and the line.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from . import operations as op
from .again import check_again
from .called import or_none
from .classbody import (
    check_loose,
    check_override,
    check_returned,
    is_abstract,
    mark_of,
    note_read,
    parameters_of,
    what_is_returned,
)
from .connectives import all_of
from .declarations import Count, Map
from .declared import check_sorts, declare, is_fixed
from .fitting import is_within
from .kept import Kept
from .language import Machine
from .lasting import Lasting
from .lost import Conditions
from .members import functions_of, members_of
from .mistakes import Line, MachineError
from .model import INITIALLY, RESULT, Action, CountOf, Model, Promised, Property, written
from .part import Part, check_part
from .passed_over import refuse_passed_over
from .program import Assign, Each, Emit, Let, Loop, Push, Remove, Statement, statements, terms
from .promises import properties_of
from .recorder import NOW, Recorder, recording, variable
from .rounds import check_each
from .tallies import check_reads_none, counts_in_all
from .terms import (
    TRUE,
    Bool,
    Index,
    Int,
    Real,
    Term,
    as_bool,
    as_term,
    name_of,
    none,
    number_of,
)
from .traversal import substituted, unseen, walk
from .unasked import refuse_unasked
from .unnamed import check_named
from .unread import refuse_unread
from .untold import texts_of

__all__ = ["possible_when", "read", "reported", "speaking_of", "with_action"]


def read(machine: type[Machine]) -> Model:
    """Run the text of a machine and take down what it says.

    Raises:
        MachineError: the text has a mistake.
    """
    model, lasting = _read(machine)
    if not lasting.is_all_seen():
        check_again(model, lambda: _read(machine)[0])
    return model


def _read(machine: type[Machine]) -> tuple[Model, Lasting]:
    """The machine, and what its texts share."""
    if is_abstract(machine):
        raise MachineError(f"{machine.__name__} is a part of a machine (abstract=True): name one that extends it")
    model = _empty(machine)
    check_loose(machine)
    members = members_of(machine)
    lasting = _lasting(machine, members)
    with Kept.among(lasting.texts, texts_of):
        _take_down(model, members, lasting)
    return model, lasting


def _take_down(model: Model, members: dict[str, Any], lasting: Lasting) -> None:
    """All that the machine says."""
    machine = model.machine
    declare(model, members)
    for member in members.values():
        if isinstance(member, Part):
            if not (isinstance(member.machine, type) and issubclass(member.machine, Machine)):
                raise MachineError(
                    f"{member.name} is a part of the machine {member.machine!r}: it is none", member.line
                )
            check_part(machine, member, _counted(member.machine))
    for name, member in members.items():
        check_override(machine, name, member)
    marked = {n: (m, mark) for n, m in members.items() if callable(m) and (mark := mark_of(machine, n, m))}
    for name, (member, mark) in marked.items():
        if mark["kind"] == "action":
            model.actions[name] = _action(model, name, member, mark)
            lasting.check([member])
    _check_listeners(model)
    with _recorded(model):
        for name, (member, mark) in marked.items():
            if mark["kind"] != "action":
                _take(model, _said_by(model, name, member, mark))
                lasting.check([member])
    lasting.check()
    refuse_passed_over(lasting.texts)
    refuse_unasked(machine, lasting.texts)
    refuse_unread(lasting.texts)
    for prop in model.properties.values():
        for act in prop.of:
            if act not in model.actions:
                raise MachineError(f"{prop.name} speaks of an action {act} that the machine does not have", prop.line)
    check_named(model)
    model.has_exact = any(m.to is Real for m in model.maps.values())
    _drop_unused_sizes(model, _check_parts(model))
    note_read(machine)


def _lasting(machine: type[Machine], members: Mapping[str, Any]) -> Lasting:
    """What its texts, and those of the machines that are its parts, find when they begin."""
    machines, functions = [machine], [*functions_of(members)]
    for member in members.values():
        of = member.machine if isinstance(member, Part) else None
        if isinstance(of, type) and issubclass(of, Machine):
            machines.append(of)
            functions += functions_of(members_of(of))
    return Lasting(machines, functions)


def _empty(machine: type[Machine]) -> Model:
    """Nothing of the machine is taken down yet."""
    return Model(
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


def _counted(machine: type[Machine]) -> dict[str, frozenset[str]]:
    """For each count that the machine declares: the state and the parameters that it reads."""
    model, members = _empty(machine), members_of(machine)
    declare(model, members)
    return {name: _read_by(model.counts[name]) for name, member in members.items() if isinstance(member, Count)}


def _read_by(count: CountOf) -> frozenset[str]:
    operations = (part.operation for part in walk(count.formula))
    return frozenset(read.name for read in operations if isinstance(read, op.Read))


def with_action(model: Model, action: Action) -> Model:
    """The machine with another action in the place of its own: what its properties say by `can` is said of this one."""
    changed = replace(model, actions=model.actions | {action.name: action})
    possible = partial(possible_when, action)
    if repr(possible(action.params)) == repr(possible_when(model.actions[action.name], action.params)):
        return changed
    speaking = speaking_of(model, action.name)
    again: dict[str, Property] = {}
    for name in dict.fromkeys(model.properties[said].member for said in speaking):
        with _instead(action.name, possible):
            again |= {p.name: p for p in _read_again(changed, name) if p.name in speaking}
    changed.properties = model.properties | again
    return changed


def _read_again(model: Model, name: str) -> Iterator[Property]:
    """What a method of the machine says, read once more; properties only."""
    member = getattr(model.machine, name)
    mark = mark_of(model.machine, name, member)
    assert mark is not None
    yield from (p for p in _said_by(model, name, member, mark) if isinstance(p, Property))


def _said_by(
    model: Model, name: str, function: Callable[..., Any], mark: dict[str, Any]
) -> Iterator[Property | Promised]:
    """The property that a method states, or the promise with those that it follows from; each is read when wanted."""
    if mark["kind"] == "promise":
        yield from properties_of(model, name, function, mark)
    else:
        yield _property(model, name, function, mark)


def _take(model: Model, said: Iterable[Property | Promised]) -> None:
    for one in said:
        if isinstance(one, Promised):
            model.promises[one.name] = one
        elif one.name in model.properties:
            raise MachineError(f"{one.name} is a property of two promises: rename one of these", one.line)
        else:
            model.properties[one.name] = one


def reported(model: Model, emit: Emit, args: tuple[Term, ...]) -> Emit:
    """The same event in the same place, of something else: what a listener makes of it is said of that too."""
    named = [t.operation for arg in args for t in walk(arg)]
    around = Recorder(of_action=True)
    around.home = {n.number: around.open[0] for n in named if isinstance(n, op.Temporary | op.Variable)}
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
        for name in dict.fromkeys(p.member for p in model.properties.values()):
            with _instead(action, hear):
                for prop in _read_again(model, name):
                    if heard:
                        known[action].append(prop.name)
                    heard.clear()
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


@contextmanager
def _recorded(model: Model) -> Iterator[None]:
    """While this lasts, `can` says of the actions what was taken down of them, or is refused."""
    before, Recorder.recorded = Recorder.recorded, {n: partial(possible_when, a) for n, a in model.actions.items()}
    try:
        yield
    finally:
        Recorder.recorded = before


def possible_when(action: Action, given: tuple[Term, ...]) -> Bool:
    """When the action is possible with these arguments: what it requires, of the state at hand."""
    read = {s.name: s.value for s in action.body if isinstance(s, Let)}
    variables = {number_of(p): term for p, term in zip(action.params, given, strict=True)}
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
            yield from ((term, s.line) for term in _terms_of(s))


def _terms_of(s: Statement) -> Iterator[Term]:
    """What a statement says by itself: what it evaluates, what it binds, and what is known of its rounds."""
    yield from terms(s)
    if isinstance(s, Each):
        yield from s.binders
    if isinstance(s, Loop):
        yield from (*s.facts.values(), s.going)


def _check_parts(model: Model) -> set[str]:
    """Look at every part of every term once; returned are the queues of which the size is asked."""
    seen: set[int] = set()
    sized: set[str] = set()
    for term, line in _terms(model):
        for part in unseen(term, seen):
            _check_part(model, part, line)
            model.has_exact |= isinstance(part, Real)
            if isinstance(read := part.operation, op.Size):
                sized.add(read.name)
    return sized


def _check_part(model: Model, part: Term, line: Line) -> None:
    """What a term reads is part of this machine, and its sorts are known, wherever they are named."""
    match part.operation:
        case op.Read(_, name) if not (name in model.maps or name in model.queues or name in model.counts):
            raise MachineError(f"{name} is read, which is not part of this machine", line)
        case op.Entry(_, name, keys) if not _is_entry_of(model.maps.get(name), part, keys):
            raise MachineError(f"{part!r} is read of another machine's {name}, which is not as this one's is", line)
        case op.Within(_, index):
            check_sorts(model, [index], line)
        case op.Forall(binders) | op.Exists(binders):
            check_sorts(model, [type(b) for b in binders], line)
        case _ if type(part) not in (Int, Real, Bool, Index, Term) and part is not none:
            check_sorts(model, [type(part)], line)


def _is_entry_of(mapping: Map[Any] | None, part: Term, keys: tuple[Term, ...]) -> bool:
    """It is what this map holds, and not one of the same name in another machine."""
    return mapping is not None and (type(part), part.is_optional, len(keys)) == (
        mapping.to,
        mapping.is_optional,
        len(mapping.kinds),
    )


def _drop_unused_sizes(model: Model, sized: Container[str]) -> None:
    """The size of a queue is a count like any other, and costs as much: it is kept only where it is asked for."""
    for name in model.queues:
        if name not in sized:
            del model.counts[f"{name}.size"]


# ------------------------------------------------------------------------------------------ actions and properties


def _action(model: Model, name: str, function: Callable[..., Any], mark: dict[str, Any]) -> Action:
    line = mark["line"]
    if name == INITIALLY:
        raise MachineError(
            f"an action is named {INITIALLY}, as the first state is, and would not be asked: rename it", line
        )
    kinds = parameters_of(function, name, line, skip=1)
    if RESULT in kinds:
        raise MachineError(f"a parameter of {name} is named {RESULT}, as is what an action returns: rename it", line)
    check_sorts(model, kinds.values(), line)
    params = tuple(variable(kind, n) for n, kind in kinds.items())
    with recording(f"action {name}", of_action=True, known=params) as rec, Conditions.noted(function.__name__) as made:
        returned = or_none(function(model.machine(), *params))
        result = None if returned is None else _result(rec, returned, line)
        check_returned(function, name, None if result is None else type(result), line)
        _check_body(model, rec.body)
    said = [term for s in statements(rec.body) for term in _terms_of(s)]
    made.check(said if result is None else [*said, result])
    return Action(name, mark["rule"], inspect.getdoc(function) or "", params, rec.body, result, line)


def _result(rec: Recorder, value: object, line: Line) -> Term:
    if value is none:
        raise MachineError("what it returns is none and of no sort: return what may be none, or nothing", line)
    term = as_term(value, line)
    rec.check(term, line=line)
    return term


def _check_body(model: Model, body: list[Statement]) -> None:
    for s in statements(body):
        known: Mapping[str, object] = model.events if isinstance(s, Emit) else {**model.maps, **model.queues}
        name = s.event if isinstance(s, Emit) else s.name if isinstance(s, Assign | Push | Remove) else None
        if name is not None and name not in known:
            raise MachineError(f"{name} is not part of this machine", s.line)
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
    check_sorts(model, kinds.values(), line)
    given = _given(model, name, kinds, of, line) if is_step else set()
    may_miss = {RESULT} if RESULT in given and any(_may_return_none(model.actions[act]) for act in of) else set()
    variables = {n: variable(k, n, is_optional=n in may_miss) for n, k in kinds.items()}
    binders = tuple(v for n, v in variables.items() if n not in given)
    _check_binders(name, binders, line)
    _check_same_binding(model, name, function, given, of, line)
    views = (NOW, "before") if is_step else (NOW,)
    says = recording(f"{kind} {name}", of_action=False, known=variables.values(), views=views)
    with says as rec, Conditions.noted(function.__name__) as made:
        arguments = [model.machine("before")] if is_step else []
        said = function(model.machine(), *arguments, *variables.values())
        if isinstance(said, bool):
            text = f"{name} is plainly {said}: Python has decided it while the machine was read (`is` and `in` do that)"
            raise MachineError(text, line)
        formula = as_bool(said, line)
        rec.check(formula, line=line)
    made.check([formula])
    for part in walk(formula):
        if isinstance(read := part.operation, op.Read):
            _check_reading(model, name, kind, part, read, line)
    if not is_step:
        check_reads_none(model, name, formula, line)
    elif tally := counts_in_all(model, formula):
        text = (
            f"{name} seems to depend on all that the tally {tally} ever counted, which is no part of a state: speak of "
        )
        raise MachineError(f"{text}{tally} less before.{tally}, or keep a map or a scalar instead", line)
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
    owned = [{name_of(p): type(p) for p in a.params} for a in actions]
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
            if returned is None or not is_within(returned, kinds[RESULT]):
                raise MachineError(f"{wanted}: {act.name} returns {what_is_returned(returned)}", line)
        given.add(RESULT)
    return given


def _check_binders(name: str, binders: Iterable[Term], line: Line) -> None:
    for b in binders:
        if type(b) in (Int, Real):
            kind = "integers" if type(b) is Int else "numbers"
            raise MachineError(
                f"{name} would be asked for every {b!r}, and {kind} have no last one: declare an index with "
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


def _check_reading(model: Model, name: str, kind: str, part: Term, read: op.Read, line: Line) -> None:
    if kind == "assume" and not is_fixed(model, read):
        raise MachineError(f"assume {name} speaks of {part!r}, which is not a parameter", line)
