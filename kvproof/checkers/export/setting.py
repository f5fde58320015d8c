"""What the translations share: a machine in one scope, and which of its text takes part.

A translation is one more interpreter of the same model. It covers every operation and every statement, which the type
checker proves; what looks at another state than those of a step is refused and never guessed at.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, assert_never

from ...machine import Action, Index, Machine, Map, Model, Property, Real
from ...machine import operations as op
from ...machine.concrete import Concrete, IllFormed
from ...machine.fitting import fits, is_surely
from ...machine.mistakes import Line
from ...machine.model import RESULT
from ...machine.program import Assign, Each, Emit, Let, Loop, Push, Remove, Require, Statement, When, statements, terms
from ...machine.scope import NONE, Scope, ScopeError
from ...machine.terms import Sort, Term
from ...machine.traversal import parts, walk

__all__ = ["Names", "Plan", "Refused", "Setting", "is_sure", "one_line"]


class Refused(Exception):
    """The machine cannot be translated. The message is one sentence that names the construct and its line."""


@dataclass
class Plan:
    """What of an action takes part."""

    action: Action
    body: list[Statement]
    """Without requirements and tallies that nothing looks at; of events there is what listeners make of them."""
    steps: list[Property]
    """The properties of steps that are judged after it."""
    written: set[str]
    """The maps and queues that it may write."""
    remembered: set[str]
    """Those of them whose value before the step a property looks at."""
    used: set[int]
    """The numbers of the temporaries that something looks at."""


class Setting:
    """A machine in one scope, checked: its first values, and a plan for each action.

    Raises:
        Refused: the machine uses what the translations do not know.
        ScopeError: the scope does not fit the machine, or breaks what it assumes of its parameters.
    """

    def __init__(self, machine: type[Machine] | Model, scope: Scope) -> None:
        self.model = machine if isinstance(machine, Model) else Model.of(machine)
        self.scope = scope
        self.left_out: list[tuple[str, str]] = []
        """Properties that the translation does not check, each with the reason."""
        self._check_actions()
        self.steps = [p for p in self.model.of_kind("step") if self._is_covered(p)]
        for prop in self.model.of_kind("sometimes"):
            self.left_out.append((prop.name, "something to be reached, which no violation shows; see kvproof explore"))
        self.invariants = self.model.of_kind("invariant")
        for prop in self.invariants:
            self._check_term(prop.formula, prop.line, {"now"})
        for count in self.model.counts.values():
            self._check_term(count.formula, count.line, {"now"})

    # ------------------------------------------------------------------------------------------------ coverage

    def _check_actions(self) -> None:
        for act in self.model.actions.values():
            for s in statements(act.body):
                if not isinstance(s, Let | Require | Assign | Push | Remove | Emit | When | Each | Loop):
                    what = f"{act.name} ({act.line}) holds a {type(s).__name__}"
                    raise Refused(f"{what}, which no translation covers yet")
                for t in (*terms(s), *((s.going,) if isinstance(s, Loop) else ())):
                    self._check_term(t, s.line, {"now"})

    def _check_term(self, term: Term, line: Line, views: set[str]) -> None:
        for part in walk(term):
            if isinstance(read := part.operation, op.Read) and read.view not in views:
                raise Refused(f"`{part!r}` ({line}) looks at another state, which no translation covers yet")

    def _is_covered(self, prop: Property) -> bool:
        try:
            self._check_term(prop.formula, prop.line, {"now", "before"})
            self._check_result(prop)
        except Refused as why:
            self.left_out.append((prop.name, str(why)))
            return False
        return True

    def _check_result(self, prop: Property) -> None:
        """What is returned is surely of the type by which the property speaks of it, so that it may be used as a key.

        Where that is not known, the interpreters do not agree on what is read there.
        """
        if RESULT not in prop.given:
            return
        kind = type(prop.given[RESULT])
        for name in prop.of:
            returned = self.model.actions[name].result
            assert returned is not None
            sure = is_surely(returned, kind) if issubclass(kind, Index) else fits(returned, kind)
            if not sure:
                what = f"the result ({prop.line}) counts as {kind.__name__}, and {name} may return what is none of them"
                raise Refused(f"{what}, which no translation covers")

    # ------------------------------------------------------------------------------------------------ values

    @cached_property
    def first(self) -> dict[str, Any]:
        """The first value of every map (a flat list) and queue (a list of lists); exact numbers in units."""
        concrete = Concrete(self.model, self.scope)
        try:
            broken = concrete.unassumed()
            state = concrete.initial()
            broken += concrete.violations(state, "initially")
        except IllFormed as error:
            raise ScopeError(f"the first values of {self.model.name}: {error}") from error
        if broken:
            raise ScopeError(f"the parameters break an assumption of {self.model.name}: {broken[0]}")
        values: dict[str, Any] = {}
        for name, mapping in self.model.maps.items():
            values[name] = [self.in_units(v, name) if mapping.to is Real else int(v) for v in state.__dict__[name]]
            self._check_fits(name, mapping, values[name])
        for name, queue in self.model.queues.items():
            value = state.__dict__[name]
            values[name] = [list(q) for q in value] if queue.kinds else [list(value)]
        return values

    def _check_fits(self, name: str, mapping: Map[Any], values: list[int]) -> None:
        lo, hi = self.bounds(mapping)
        if mapping.is_param or mapping.is_tally or mapping.scratch or all(lo <= v <= hi for v in values):
            return
        raise ScopeError(f"the first value of {name} leaves the scope, where it is {lo} to {hi}; give a greater size")

    @property
    def unit(self) -> int:
        """What an exact number is counted in: so many make 1."""
        return self.scope.sizes.get("Real", 1)

    def in_units(self, number: Fraction | int, what: str) -> int:
        """An exact number as a whole number of units."""
        units = Fraction(number) * self.unit
        if units.denominator != 1:
            raise ScopeError(
                f"{what} is {number}, no multiple of 1/{self.unit}; "
                f"give Real a size of which {Fraction(number).denominator} is a divisor"
            )
        return int(units)

    def literal(self, t: Term, value: object) -> int:
        """The number that stands for a constant of this value."""
        number = self.scope.number(type(t), value)
        return self.in_units(number, "a number in the text") if isinstance(t, Real) else int(number)

    def bounds(self, mapping: Map[Any]) -> tuple[int, int]:
        """The least and the greatest value that an entry has in a state of this scope."""
        if mapping.to is Real:
            return 0, self.scope.sizes["Int"] * self.unit
        return NONE if mapping.is_optional else 0, self.scope.greatest(mapping.to)

    def every(self, kinds: Iterable[type[Term]]) -> Iterator[tuple[int, ...]]:
        """All choices of elements of these sorts, in order."""
        return itertools.product(*(range(self.scope.size(k)) for k in kinds))

    def state(self) -> list[str]:
        """The maps that are part of a state; queues are besides."""
        return [n for n, m in self.model.variables.items() if not m.scratch]

    # ------------------------------------------------------------------------------------------------ plans

    def plan(self, act: Action) -> Plan:
        """What of an action takes part."""
        steps = [p for p in self.model.steps_for(act.name) if p in self.steps]
        watched = {n for p in steps for n in _reads(self.model, p.formula)}
        body = list(_without(act.body, self._unwatched(act, watched)))
        changed = {s.name for s in statements(body) if isinstance(s, Assign | Push | Remove)}
        remembered = {n for p in steps for n in _reads(self.model, p.formula, "before")} & changed
        result = () if act.result is None else (act.result,)
        looked_at = [*result, *(term for s in statements(body) for term in _looked_at(s))]
        used = {number for term in looked_at for number in _temporaries(term)}
        return Plan(act, body, steps, changed, remembered, used)

    def _unwatched(self, act: Action, watched: set[str]) -> set[str]:
        """The tallies at which neither these properties look, nor what the action does."""
        tallies = {n for n, m in self.model.maps.items() if m.is_tally} - watched
        for s in statements(act.body):
            is_own = isinstance(s, Let) and _is_entry_of(s.value, tallies)
            if is_own or (isinstance(s, Assign) and s.name in tallies):
                continue
            seen = {n for t in _looked_at(s) for n in _reads(self.model, t)} & tallies
            if seen:
                return self._unwatched(act, watched | seen)
        return tallies

    # ------------------------------------------------------------------------------------------------ words

    def excuses(self) -> list[str]:
        """What is left out, a line for each reason."""
        reasons: dict[str, list[str]] = {}
        for name, why in self.left_out:
            reasons.setdefault(why, []).append(name)
        return [f"{', '.join(names)} ({why})" for why, names in reasons.items()]

    def header(self, how: Sequence[str]) -> list[str]:
        """What stands at the head of every file: the machine, the scope, what is checked and what is not."""
        model, scope = self.model, self.scope
        lines = [
            f"{model.name}, written by kvproof export from the text that is also proved, explored and fuzzed.",
            "",
            f"Sizes: {', '.join(f'{n}={v}' for n, v in scope.sizes.items())}",
        ]
        lines += [f"Parameter {n} = {json.dumps(scope.params[n], default=str)}" for n in model.params]
        if model.has_exact:
            lines.append(f"Exact numbers are counted in units of 1/{self.unit}.")
        lines += ["", *how, ""]
        lines += [f"Checked in every state: {', '.join(p.name for p in self.invariants) or 'nothing'}"]
        lines += [f"Checked of every step: {', '.join(p.name for p in self.steps) or 'nothing'}"]
        lines += [f"Left out: {line}" for line in self.excuses()]
        return [one_line(line) for line in lines]


def one_line(text: str) -> str:
    """Text without anything that could end a line, a comment or a string, or begin a comment."""
    plain = re.sub(r"[^ -~]", "?", text).replace("\\", "/").replace('"', "'")
    return re.sub(r"(?<=[/(])(?=\*)|(?<=\*)(?=[/)])", " ", plain)


def is_sure(kind: type[Term], key: Term) -> bool:
    """The type of the key says that it is an element of the sort, and the scope has as many of both."""
    if key.is_optional:
        return False
    if isinstance(key, Sort):
        return issubclass(kind, Sort) and set(type(key).extra) <= set(kind.extra)
    return isinstance(key.operation, op.Variable) and type(key) is kind


def _is_entry_of(term: Term, names: set[str]) -> bool:
    """The term reads one of these maps."""
    return isinstance(read := term.operation, op.Entry) and read.name in names


def _looked_at(s: Statement) -> tuple[Term, ...]:
    return (*terms(s), s.going) if isinstance(s, Loop) else terms(s)


def _temporaries(term: Term) -> Iterator[int]:
    """The numbers of the temporaries that a term looks at; not of those from which these were computed."""
    if isinstance(said := term.operation, op.Temporary):
        yield said.number
        return
    for part in parts(term):
        yield from _temporaries(part)


def _reads(model: Model, term: Term, view: str | None = None) -> set[str]:
    """The maps and queues that a property reads, in one view or in any, through counts too."""
    found: set[str] = set()
    for part in walk(term):
        match part.operation:
            case op.Read() as read if view not in (None, read.view):
                pass
            case op.Total(_, name):
                count = model.counts[name]
                for inner in (count.formula, *(() if count.weight is None else (count.weight,))):
                    found |= _reads(model, inner)
            case op.Read(_, name):
                found.add(name)
    return found


def _without(body: Iterable[Statement], tallies: set[str]) -> Iterator[Statement]:
    """The statements without requirements and what only keeps these tallies; of events, what listeners make of them."""
    for s in body:
        match s:
            case Require():
                pass
            case Assign() if s.name in tallies:
                pass
            case Let() if _is_entry_of(s.value, tallies):
                pass
            case Emit():
                yield from _without(s.heard, tallies)
            case When():
                then, otherwise = list(_without(s.then, tallies)), list(_without(s.otherwise, tallies))
                yield replace(s, then=then, otherwise=otherwise)
            case Each() | Loop():
                yield replace(s, body=list(_without(s.body, tallies)))
            case Let() | Assign() | Push() | Remove():
                yield s
            case unknown:
                assert_never(unknown)


# ------------------------------------------------------------------------------------------------ names


@dataclass
class Names:
    """Names for one file: letters, digits and underscores, none twice, none that the language keeps for itself."""

    reserved: frozenset[str] = frozenset()
    taken: set[str] = field(default_factory=set)

    def new(self, wanted: str) -> str:
        """The name, or one like it that is still free."""
        plain = re.sub(r"[^A-Za-z0-9_]", lambda m: f"_{ord(m[0]):x}_", wanted)
        if re.match(r"[0-9_]*$|WF_|SF_", plain):  # no name in TLA+
            plain = f"x{plain}"
        name, number = plain, 1
        while name in self.taken or name in self.reserved:
            number += 1
            name = f"{plain}_{number}"
        self.taken.add(name)
        return name
