"""One action as a TLA+ operator: a condition, a chain of records, and the next value of every variable.

Statements are functions from one record to the next: each gives the record of the state that it leaves a new name, so
that what was read keeps its value by itself. Where something happens that must not, the chain ends there, with a record
that says so; the variable `wrong` then shows it in the last state of TLC's trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

from ...machine import Bool, Index, Int, Map, Real, Sort
from ...machine.fitting import may_misfit
from ...machine.mistakes import Line
from ...machine.model import RESULT
from ...machine.program import Assign, Each, Emit, Let, Loop, Push, Remove, Require, Statement, When
from ...machine.terms import Term, name_of, number_of
from .setting import Plan, one_line
from .tla_terms import NEEDS, Need, TlaTerms, conjunction

__all__ = ["TlaAction"]


Give = Callable[[str], str]
"""Makes of a record that something is wrong with what the place at hand needs."""


@dataclass(frozen=True)
class Bound:
    """A name for a value, or (with parameters) for an operator that calls itself.

    A value is bound by running over the set that has only it: TLC computes that set once and at once, but what LET
    names anew wherever it is named, which takes exponential time where each state is named twice in the next.
    """

    name: str
    text: str
    parameters: tuple[str, ...] = ()

    def over(self, body: str, _: Give) -> str:
        """The body, as an expression, with the name."""
        if self.parameters:
            return f"{self.before()} {body}"
        return self.text if body == self.name else f"Only({{{body} : {self.name} \\in {{{self.text}}}}})"

    def before(self) -> str:
        """The name, in front of the rest of an action."""
        if not self.parameters:
            return f"\\E {self.name} \\in {{{self.text}}} :"
        blanks = ", ".join("_" for _ in self.parameters)
        head = f"{self.name}({', '.join(self.parameters)})"
        return f"LET RECURSIVE {self.name}({blanks}) {head} == {self.text} IN"


@dataclass(frozen=True)
class Asserted:
    """What must hold at this point, and what is said where it does not; or that nothing was said of the record."""

    record: str
    condition: str
    says: str | None

    def over(self, body: str, give: Give) -> str:
        """The body, as an expression, where that holds."""
        wrong = self.record if self.says is None else f"[{self.record} EXCEPT !.wrong = {self._says()}]"
        return f"(IF ~({self.condition}) THEN {give(wrong)} ELSE {body})"

    def before(self) -> str:
        """The assertion, in front of the rest of an action."""
        return f"IF ~({self.condition}) THEN Wrong({self._says()}) ELSE"

    def _says(self) -> str:
        return f"{self.record}.wrong" if self.says is None else f'"{one_line(self.says)}"'


Link = Bound | Asserted
"""A part of the chain that an action is."""


def _with(links: Sequence[Link], body: str, give: Give = lambda record: record) -> str:
    """The body, behind all these."""
    for link in reversed(links):
        body = link.over(body, give)
    return body


class TlaAction:
    """One action."""

    def __init__(self, plan: Plan, terms: TlaTerms, state: dict[str, str]) -> None:
        """``terms`` knows what the parameters are called; ``state`` names the variable of each map and queue."""
        self.plan, self.terms, self.state = plan, terms, state
        self.setting, self.words, self.names = terms.setting, terms.words, terms.words.names

    def write(self) -> list[str]:
        """Its lines."""
        lines = self._prefix()
        start = {id(s) for s in self.plan.action.asking}
        self.first = self.names.new("s")
        self.terms.now = self.first
        links: list[Link] = [Bound(self.first, "Now")]
        links += self._body([s for s in self.plan.body if id(s) not in start])
        links += self._returned()
        return lines + [f"  {link.before()}" for link in links] + [f"  /\\ {c}" for c in self._end()]

    def _prefix(self) -> list[str]:
        """What decides whether the action is possible. Conditions are conditions of IF, so that nothing branches."""
        lines = []
        for s in self.plan.action.asking:
            term = s.value if isinstance(s, Let) else s.condition
            lines += [f"  {link.before()}" for link in self._needed([term], s.line)]
            if isinstance(s, Require):
                lines.append(f"  IF ~({self.terms.value(term)}) THEN FALSE ELSE")
            else:
                lines.append(f"  {self._temporary(s.name, self.terms.value(term)).before()}")
        return lines

    def _returned(self) -> list[Link]:
        """What is wrong with the result; that it can be written down is asked where a property speaks of it."""
        result = self.plan.action.result
        is_asked = any(RESULT in p.given for p in self.plan.steps)
        return [] if result is None else self._needed([result], self.plan.action.line, NEEDS if is_asked else NEEDS[:1])

    def _end(self) -> list[str]:
        """What is wrong with the step, and the next value of every variable."""
        checks = "".join(f'IF ~({c}) THEN "{one_line(says)}" ELSE ' for c, says in (*self._fits(), *self._judged()))
        changed = [n for n in self.state if n in self.plan.written]
        conditions = [f'wrong\' = {checks}""']
        conditions += [f"{self.state[n]}' = {self.words.field(self.terms.now, n)}" for n in changed]
        kept = [v for n, v in self.state.items() if n not in changed]
        return conditions + ([f"UNCHANGED <<{', '.join(kept)}>>"] if kept else [])

    def _fits(self) -> Iterator[tuple[str, str]]:
        """The new state lies in the scope."""
        for name in self.setting.state():
            mapping = self.setting.model.maps[name]
            if name in self.plan.written and (mapping.to in (Int, Real) or issubclass(mapping.to, Index)):
                yield self._is_within(name, mapping), f"a value of {name} leaves the scope"

    def _is_within(self, name: str, mapping: Map[Any]) -> str:
        lo, hi = self.setting.bounds(mapping)
        keys = [self.names.new("k") for _ in mapping.kinds]
        sets = [self.words.set_of(kind) for kind in mapping.kinds]
        run = ", ".join(f"{k} \\in {s}" for k, s in zip(keys, sets, strict=True))
        value = f"{self.words.field(self.terms.now, name)}{''.join(f'[{k}]' for k in keys)}"
        return f"\\A {run} : {value} \\in ({lo})..{hi}" if keys else f"{value} \\in ({lo})..{hi}"

    def _judged(self) -> Iterator[tuple[str, str]]:
        """The step has its properties."""
        given = {name_of(p): self.terms.variables[number_of(p)] for p in self.plan.action.params}
        if self.plan.action.result is not None:
            given = {RESULT: self.terms.value(self.plan.action.result), **given}
        for prop in self.plan.steps:
            arguments = ", ".join([self.first, self.terms.now, *(given[n] for n in prop.given)])
            yield f"{self.words.operators[prop.name]}({arguments})", f"{prop.rule} {prop.name}"

    # ------------------------------------------------------------------------------------------------ links

    def _temporary(self, number: int, text: str) -> Bound:
        self.terms.temps[number] = self.names.new("t")
        return Bound(self.terms.temps[number], text)

    def _next(self, text: str) -> Bound:
        """The record after a statement."""
        self.terms.now = self.names.new("s")
        return Bound(self.terms.now, text)

    def _asserted(self, condition: str, says: str | None) -> list[Link]:
        """The assertion, if it can fail."""
        return [] if condition == "TRUE" else [Asserted(self.terms.now, condition, says)]

    def _needed(self, terms: Sequence[Term], line: Line, needs: Sequence[Need] = NEEDS) -> list[Link]:
        """The terms have values, which the scope can write down."""
        name = self.plan.action.name
        says = {
            "proper": f"{name} ({line}) asks for what is not there",
            "exact": f"{name} ({line}) needs numbers finer than 1/Real",
        }
        return [link for t in terms for need in needs for link in self._asserted(self.terms.need(t, need), says[need])]

    def _body(self, statements: Sequence[Statement]) -> list[Link]:
        """The links that statements come to; the last record is the state behind them."""
        return [link for s in statements for link in self._statement(s)]

    def _block(self, statements: Sequence[Statement]) -> tuple[str, bool]:
        """The record behind statements, as one expression, and whether something may be wrong with it.

        The state in front of them stays what it is called.
        """
        saved = self.terms.now
        links = self._body(statements)
        result, self.terms.now = self.terms.now, saved
        return _with(links, result), any(isinstance(link, Asserted) for link in links)

    def _unless_wrong(self, may_be_wrong: bool) -> list[Link]:
        """Nothing follows on a record that something is wrong with."""
        return self._asserted(f'{self.terms.now}.wrong = ""', None) if may_be_wrong else []

    def _statement(self, s: Statement) -> list[Link]:
        match s:
            case Let():
                found = self._needed([s.value], s.line)
                is_used = s.name in self.plan.used
                return [*found, self._temporary(s.name, self.terms.value(s.value))] if is_used else found
            case Assign():
                return self._assign(s)
            case Push() | Remove():
                return self._queue(s)
            case When():
                return self._when(s)
            case Each():
                return self._each(s)
            case Loop():
                return self._loop(s)
            case Require() | Emit():
                raise TypeError(f"a {type(s).__name__} is no part of a plan")
            case unknown:
                assert_never(unknown)

    def _place(self, name: str, kinds: Sequence[type[Term]], keys: Sequence[Term], line: Line) -> list[Link]:
        """What is written stands in the scope, and none is no key."""
        some = conjunction([f"{self.terms.value(k)} # none" for k in keys if k.is_optional])
        return [
            *self._asserted(some, f"{name} ({line}) is written at none, which is no key"),
            *self._asserted(self.terms.inside(kinds, keys), f"{name} ({line}) is written outside of the scope"),
        ]

    def _assign(self, s: Assign) -> list[Link]:
        mapping = self.setting.model.maps[s.name]
        links = self._needed([*s.keys, s.value], s.line) + self._place(s.name, mapping.kinds, s.keys, s.line)
        value = self.terms.value(s.value)
        if may_misfit(s.value, mapping.to, is_optional=mapping.is_optional):
            says = f"{s.name} ({s.line}) gets what is no {mapping.to.__name__}"
            links += self._asserted(self._is_element(s, mapping, value), says)
        return [*links, self._changed(s, value)]

    def _changed(self, s: Assign | Push | Remove, value: str) -> Link:
        """The record with one map or queue changed."""
        place = f"!.{self.words.fields[s.name]}{self.terms.place(s.keys)}"
        return self._next(f"[{self.terms.now} EXCEPT {place} = {value}]")

    def _is_element(self, s: Assign, mapping: Map[Any], value: str) -> str:
        least = -1 if mapping.is_optional and s.value.is_optional else 0
        if issubclass(mapping.to, Sort):
            return f"{value} \\in ({least})..{self.setting.scope.size(mapping.to) - 1}"
        return f"{value} >= {least}"

    def _queue(self, s: Push | Remove) -> list[Link]:
        queue = self.setting.model.queues[s.name]
        anchor = [s.anchor] if isinstance(s, Push) and s.anchor is not None else []
        links = self._needed([*s.keys, s.element, *anchor], s.line)
        links += self._place(s.name, (*queue.kinds, queue.of), (*s.keys, s.element), s.line)
        element, says = self.terms.value(s.element), f"{s.name} ({s.line}): an element is"
        member = self._member(s, element)
        if isinstance(s, Remove):
            links += self._asserted(member, f"{says} removed from where it does not stand")
            return [*links, self._changed(s, f"Without(@, {element})")]
        links += self._asserted(f"~{member}", f"{says} pushed to where it already stands")
        text = f"Append(@, {element})" if s.where == "back" else f"<<{element}>> \\o @"
        if anchor:
            before = self.terms.value(anchor[0])
            links += self._asserted(self._member(s, before), f"{says} pushed before one that does not stand there")
            text = f"PushBefore(@, {before}, {element})"
        return [*links, self._changed(s, text)]

    def _member(self, s: Push | Remove, element: str) -> str:
        """The element stands in the queue."""
        return f"Has({self.terms.queue(self.terms.now, s.name, s.keys)}, {element})"

    def _when(self, s: When) -> list[Link]:
        needed = self._needed([s.condition], s.line)
        condition = self.terms.value(s.condition)
        then, one = self._block(s.then)
        otherwise, other = self._block(s.otherwise)
        joined = self._next(f"IF {condition} THEN {then} ELSE {otherwise}")
        return [*needed, joined, *self._unless_wrong(one or other)]

    def _each(self, s: Each) -> list[Link]:
        """Round after round; the number of a round says which elements it is about."""
        start, number = self.terms.now, self.names.new("k")
        self.terms.now = record = self.names.new("s")
        elements: list[Link] = []
        stride = 1
        for b in reversed(s.binders):
            size = self.setting.scope.size(type(b))
            digit = f"(({number} \\div {stride}) % {size})"
            self.terms.variables[number_of(b)] = self.names.new(name_of(b))
            text = f"({digit} = 1)" if isinstance(b, Bool) else digit
            elements.append(Bound(self.terms.variables[number_of(b)], text))
            stride *= size
        name = self.names.new("each")
        round_, may_be_wrong = self._block(s.body)
        rest = f"{name}({_with(elements, round_)}, {number} + 1)"
        ends = f'{number} >= {stride} \\/ {record}.wrong # ""' if may_be_wrong else f"{number} >= {stride}"
        again = self._again(name, record, number, f"IF {ends} THEN {record} ELSE {rest}")
        self.terms.now = start
        return [again, self._next(f"{name}({start}, 0)"), *self._unless_wrong(may_be_wrong)]

    def _again(self, name: str, record: str, number: str, text: str) -> Bound:
        """An operator that goes from a record and the number of a round to what is behind the last round."""
        given = (self.names.new("s"), self.names.new("k"))
        values: list[Link] = [Bound(record, given[0]), Bound(number, given[1])]
        return Bound(name, _with(values, text), given)

    def _loop(self, s: Loop) -> list[Link]:
        """Round after round, as long as it goes; the result is the last record, and how many rounds there were."""
        limit, number, name = self.names.new("limit"), self.names.new("n"), self.names.new("loop")
        links = [*self._needed([s.count], s.line), Bound(limit, self.terms.value(s.count))]
        start = self.terms.now
        self.terms.now = record = self.names.new("s")
        self.terms.variables[number_of(s.index)] = number
        lets = [*self._body(s.going_lets), *self._needed([s.going], s.line)]
        round_, may_be_wrong = self._block(s.body)
        going = (
            f"IF {self.terms.value(s.going)} THEN {name}({round_}, {number} + 1) ELSE <<{self.terms.now}, {number}>>"
        )
        body = _with(lets, going, lambda wrong: f"<<{wrong}, {number}>>")
        may_be_wrong = may_be_wrong or any(isinstance(link, Asserted) for link in lets)
        goes_on = f'{number} < {limit} /\\ {record}.wrong = ""' if may_be_wrong else f"{number} < {limit}"
        text = f"IF {goes_on} THEN {body} ELSE <<{record}, {number}>>"
        self.terms.now = start
        ended = self.names.new("end")
        links += [self._again(name, record, number, text), Bound(ended, f"{name}({start}, 0)")]
        self.terms.temps[s.result] = f"{ended}[2]"
        return [*links, self._next(f"{ended}[1]"), *self._unless_wrong(may_be_wrong)]
