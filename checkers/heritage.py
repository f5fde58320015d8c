"""What a machine has from the machines that it extends, and need not be proved again.

`Tiered` extends `Mirror` and `Pinned`. Most of its actions do to the state of `Pinned` exactly what they do there, and
something to state of their own beside it, or nothing. What `Pinned` promises of its own state was proved of such an
action from less than what is known in `Tiered`, so it holds here too.

An action is inherited from a base if all of this is so:

- leaving out writes to state that the base does not have, its text is the base's: the same statements in the same
  order, the same reads for the same values, the same loops with at least the base's facts;
- it requires at least what the base's requires;
- the base's state, counts, first values, assumptions and inductive invariants are all there, unchanged.

Texts are compared as the interpreters get them (`machine/program.py`), not as source: an override that changes what a
helper does changes the text of every action that uses it. What is inherited rests on a proof of the base, so whoever
proves a machine proves its bases too (`bases`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from inspect import getattr_static
from typing import Any

from ..machine import Machine, Model
from ..machine.execution import Settled
from ..machine.model import Action, Property
from ..machine.program import Assign, Each, Emit, Let, Loop, Push, Remove, Require, Statement, When
from ..machine.terms import Term, parts

__all__ = ["Heritage", "bases", "heritage", "settled_formulas"]

Text = Hashable
"""Something of a machine, written so that equal texts mean the same whatever their variables are numbered."""


@dataclass
class Heritage:
    """What of an action (or of first states and corollaries) is proved already, and of which machines."""

    of: list[str] = field(default_factory=list)
    settled: Settled = field(default_factory=Settled)


def bases(machine: type[Machine]) -> list[type[Machine]]:
    """The machines that this one extends, the nearest first."""
    return [b for b in machine.__mro__[1:] if issubclass(b, Machine) and b is not Machine]


def heritage(model: Model) -> dict[str, Heritage]:
    """For each action: what it has from the bases."""
    found = {name: Heritage() for name in model.actions}
    for base in _present(model):
        for name, action in base.actions.items():
            _inherit(found[name], model, model.actions[name], base, action)
    return found


def settled_formulas(model: Model) -> Heritage:
    """Of first states and of corollaries: what the bases' proofs cover."""
    found = Heritage()
    for base in _present(model):
        found.of.append(base.name)
        found.settled.properties |= {p.name for p in base.properties.values() if _is_same(model, p)}
    return found


def _present(model: Model) -> list[Model]:
    """The bases of which all that their proofs rest on is there, unchanged."""
    return [base for base in map(Model.of, bases(model.machine)) if _is_present(model, base)]


def _is_present(model: Model, base: Model) -> bool:
    declared = [*base.maps, *base.queues, *base.events, *(c for c in base.counts if "." not in c)]
    known = [*base.inductive, *base.of_kind("assume"), *base.of_kind("initially")]
    return (
        all(getattr_static(model.machine, n) is getattr_static(base.machine, n) for n in declared)
        and all(c in model.counts and _count(model, c) == _count(base, c) for c in base.counts)
        and all(_Writer().init(*model.inits[n]) == _Writer().init(*base.inits[n]) for n in base.inits)
        and all(_is_same(model, p) for p in known)
    )


def _count(model: Model, name: str) -> Text:
    count, writer = model.counts[name], _Writer()
    return writer.init((*count.elements, *count.keys), count.formula), None if count.weight is None else writer.term(
        count.weight
    )


def _is_same(model: Model, prop: Property) -> bool:
    """The machine has this property of its base, saying the same."""
    own = model.properties.get(prop.name)
    return own is not None and (own.kind, own.derived) == (prop.kind, prop.derived) and _said(own) == _said(prop)


def _said(prop: Property) -> Text:
    writer = _Writer()
    given = tuple((name, writer.term(v)) for name, v in sorted(prop.given.items()))
    return given, writer.init(prop.binders, prop.formula)


def _inherit(found: Heritage, model: Model, own: Action, base: Model, action: Action) -> None:
    """Note what the action has from this base, if it is the base's."""
    mine, theirs = _Projection(own, base), _Projection(action, base)
    if mine.text != theirs.text or not theirs.required <= mine.required:
        return
    if any(not t.items() <= m.items() for m, t in zip(mine.facts, theirs.facts, strict=True)):
        return
    found.of.append(base.name)
    found.settled.statements |= mine.kept
    promised = (*base.inductive, *base.steps_for(action.name))
    found.settled.properties |= {p.name for p in promised if _is_same(model, p)}
    for place, facts in zip(mine.places, theirs.facts, strict=True):
        found.settled.facts |= {(place, name) for name in facts}


class _Projection:
    """What an action does to the state of a base."""

    def __init__(self, action: Action, base: Model) -> None:
        self.names = {*base.maps, *base.queues}
        self.events = set(base.events)
        self.kept: set[int] = set()
        self.places: list[int] = []
        """The places of the loops that are left, among all loops of the action."""
        self.facts: list[dict[str, Text]] = []
        self.required: set[Text] = set()
        self.loops = action.loops
        self.params = action.params
        for s in action.body:
            if isinstance(s, Require):
                writer = self._writer()
                self.required.add(writer.inlined(s.condition))
        self.used: set[int] = set()
        left = self._without_others([s for s in action.body if not isinstance(s, Require)])
        self.writer = self._writer()
        self.text = tuple(self.writer.number(p.args[1]) for p in action.params), self._body(left)

    def _writer(self) -> _Writer:
        writer = _Writer()
        for p in self.params:
            writer.number(p.args[1])
        return writer

    def _without_others(self, body: list[Statement]) -> list[Statement]:
        """The statements that write the base's state or report its events, and the reads that these use."""
        left: list[Statement] = []
        for s in reversed(body):
            kept = self._kept(s)
            if kept is not None:
                left.append(kept)
        return left[::-1]

    def _kept(self, s: Statement) -> Statement | None:
        match s:
            case Let():
                if s.name not in self.used:
                    return None
                self._use(s.value)
            case Assign() | Push() | Remove():
                if s.name not in self.names:
                    return None
                anchor = s.anchor if isinstance(s, Push) else None
                self._use(
                    *s.keys, s.value if isinstance(s, Assign) else s.element, *([] if anchor is None else [anchor])
                )
            case Emit():
                if s.event not in self.events:
                    return None
                self._use(*s.args)
            case When():
                otherwise, then = self._without_others(s.otherwise), self._without_others(s.then)
                if not then and not otherwise:
                    return None
                self._use(s.condition)
                return When(s.condition, then, otherwise, s.line)
            case Each():
                body = self._without_others(s.body)
                return Each(s.binders, body, s.line) if body else None
            case Loop():
                return self._kept_loop(s)
            case Require():
                raise AssertionError("requirements are looked at by themselves")
        self.kept.add(id(s))
        return s

    def _kept_loop(self, s: Loop) -> Statement | None:
        body = self._without_others(s.body)
        if not body and s.result not in self.used:
            return None
        self._use(s.going)
        lets = self._without_others(s.going_lets)
        self._use(s.count)
        self.places.insert(0, self.loops.index(s))
        return Loop(s.number, s.index, s.count, lets, s.going, body, s.facts, s.result, s.line)

    def _use(self, *terms: Term) -> None:
        for term in terms:
            if term.op == "temp":
                self.used.add(term.args[0])
            self._use(*parts(term))

    def _body(self, body: list[Statement]) -> Text:
        return tuple(self._statement(s) for s in body)

    def _statement(self, s: Statement) -> Text:
        term, terms = self.writer.term, self.writer.terms
        match s:
            case Let():
                return "let", term(s.value), self.writer.number(s.name)
            case Assign():
                return "assign", s.name, terms(s.keys), term(s.value)
            case Push():
                return (
                    "push",
                    s.name,
                    terms(s.keys),
                    term(s.element),
                    s.where,
                    None if s.anchor is None else term(s.anchor),
                )
            case Remove():
                return "remove", s.name, terms(s.keys), term(s.element)
            case Emit():
                return "emit", s.event, terms(s.args)
            case When():
                return "when", term(s.condition), self._body(s.then), self._body(s.otherwise)
            case Each():
                return "each", terms(s.binders), self._body(s.body)
            case Loop():
                return self._loop(s)
            case Require():
                raise AssertionError("requirements are looked at by themselves")

    def _loop(self, s: Loop) -> Text:
        term = self.writer.term
        head = self.writer.number(s.number), term(s.count), term(s.index), self._body(s.going_lets), term(s.going)
        self.facts.append({name: _Writer(self.writer.numbers).term(fact) for name, fact in s.facts.items()})
        return "loop", head, self._body(s.body), self.writer.number(s.result)


class _Writer:
    """Writes terms, with variables, temporaries and loops numbered in the order in which they are met."""

    def __init__(self, numbers: Mapping[int, int] | None = None) -> None:
        self.numbers = dict(numbers or {})

    def number(self, n: int) -> int:
        """The number of a variable, a temporary or a loop."""
        return self.numbers.setdefault(n, len(self.numbers))

    def init(self, variables: Iterable[Term], term: Term) -> Text:
        """A term over these variables."""
        return self.terms(variables), self.term(term)

    def terms(self, terms: Iterable[Term]) -> Text:
        """Several terms."""
        return tuple(self.term(t) for t in terms)

    def term(self, term: Term) -> Text:
        """A term; a temporary is its number."""
        if term.op == "var":
            return type(term).__name__, self.number(term.args[1])
        if term.op == "temp":
            return "temp", self.number(term.args[0])
        return term.op, tuple(map(self._part, term.args))

    def inlined(self, term: Term) -> Text:
        """A term; a temporary is the value that it was given. Right where nothing was written in between."""
        if term.op == "temp":
            return self.inlined(term.args[1])
        if term.op == "var":
            return self.term(term)
        return term.op, tuple(self.inlined(a) if isinstance(a, Term) else self._inlined(a) for a in term.args)

    def _inlined(self, part: Any) -> Text:
        return tuple(self.inlined(p) if isinstance(p, Term) else p for p in part) if isinstance(part, tuple) else part

    def _part(self, part: Any) -> Text:
        if isinstance(part, Term):
            return self.term(part)
        if isinstance(part, tuple):
            return tuple(map(self._part, part))
        if isinstance(part, str) and part.startswith("entry:"):
            return "entry", self.number(int(part.removeprefix("entry:")))
        return part if isinstance(part, Hashable) else repr(part)
