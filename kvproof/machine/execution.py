"""Running one action on formulas, and what has to be proved on the way.

A loop is replaced by what is known of it. Before the first round its facts hold; a round that starts from any state in
which the machine's invariants and the facts hold ends in such a state; so they hold after the last. Of everything that
the loop writes nothing else is known afterwards, except that entries which no round can reach are as they were. Where
the universe is finite, loops are simply run, as many rounds as `rounds`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, assert_never

from . import operations as op
from .formulas import Formula, Function, add, has_quantifier, integer, land, leq, less, lif, limplies, lnot, lor, num
from .knowledge import Context, Fact, bounded, rested
from .mistakes import MachineError
from .model import RESULT, Action, Property, written
from .program import Assign, Each, Emit, Let, Loop, Push, Remove, Require, Statement, When, statements, terms
from .progress import Beginning, Goal, constant
from .symbolic import Snapshot, Symbolic
from .terms import Index, Int, Term, name_of, number_of
from .traversal import numbers, walk
from .wellformed import values_where_wanted
from .writes import Writes

__all__ = ["Goal", "Point", "Report", "Run"]


@dataclass(eq=False)
class Report:
    """An event that is reported where ``guard`` holds; in the ``each`` of this number for the elements ``binders``."""

    event: str
    guard: Formula
    args: tuple[Formula, ...]
    each: int
    binders: tuple[tuple[type[Term], Formula], ...]


@dataclass(eq=False)
class Point:
    """A place at which two runs of one step can be compared: where a loop begins or stops, after a round, at the end.

    ``values`` are what is computed there (how many rounds at most, whether one more, what is returned), ``reports``
    the events since the point before.
    """

    name: str
    context: Context
    state: Snapshot
    values: tuple[Formula, ...]
    reports: list[Report]
    symbols: frozenset[str]
    branches: tuple[Formula, ...]


class Run(Writes):
    """One action, run from an arbitrary state.

    ``before`` and ``now`` are the states around it, ``args`` its parameters, ``goals`` what has to be proved, each in
    its context; ``untouched`` are invariants that nothing was written for, with the place where they were looked at.
    ``possible`` is the context in which everything that the action requires holds. In a finite universe ``halts``
    holds each state between rounds of a loop, with the condition under which it occurs. ``unknown_counts`` changed for
    many elements at once. ``judged=False``: no goals; ``"values"``: only that everything has a value, and scratch its
    first one; ``assumed=False``: of the state before nothing is known, not even the invariants; ``by_facts``: loops are
    replaced by what is known of them in a finite universe too.

    ``beside``: a run of as many loops, in whose states and with whose arguments this one starts, at first and in each
    loop, and by what is known there; ``required`` and ``points`` are what the two can be compared by. ``begun``: what
    runs of this machine begin with, made with the same ``symbolic`` and ``assumed``; none: it is made here.
    """

    def __init__(
        self,
        symbolic: Symbolic,
        action: Action,
        *,
        rounds: int = 3,
        judged: bool | Literal["values"] = True,
        assumed: bool = True,
        by_facts: bool = False,
        beside: Run | None = None,
        begun: Beginning | None = None,
    ) -> None:
        super().__init__(symbolic, action, judged=judged, assumed=assumed, beside=beside, begun=begun)
        self.rounds, self.beside = rounds, beside
        self.by_facts = by_facts or not symbolic.universe.is_finite
        self.passed: list[tuple[str, Snapshot, Snapshot]] = []
        """For each loop that was replaced by its facts: where it stands, the state before it, and that after it."""
        self.halts: list[tuple[Context, Formula, str, Snapshot]] = []
        self.required: list[Formula] = []
        self.required_symbols: frozenset[str] = frozenset()
        self.points: list[Point] = []
        self.somewhere: list[tuple[Snapshot, Context]] = []
        """The arbitrary states from which rounds of loops, and what comes after loops, were run, and what is known."""
        self.counters: list[Formula] = []
        """The constants that stand for the index of a round, and for the number of rounds."""
        self.reports: list[Report] = []
        self.report_symbols: frozenset[str] = frozenset()
        self.eaches = 0
        self.unknown_counts: set[str] = set()
        self._body(action.body)
        if action.result is not None:
            self._asked(action.result, action.line)
        self._point("the end", *([] if action.result is None else [action.result]))
        if judged is True:
            self._end()
        elif judged == "values":
            self._rests()

    def _end(self) -> None:
        """After the last statement: invariants, properties of steps, and scratch back at rest."""
        self._invariants("", " after")
        given = {name_of(p): a for p, a in zip(self.action.params, self.args, strict=True)}
        given_symbols = {name_of(p): constant(a) for p, a in zip(self.action.params, self.args, strict=True)}
        if self.action.result is not None:
            given[RESULT] = self._as(type(self.action.result), self.action.result)
            given_symbols[RESULT] = self._symbols(self.action.result)
        for prop in self.model.steps_for(self.action.name):
            env = {number_of(v): given[n] for n, v in prop.given.items()}
            self._step(prop, env, {number_of(v): given_symbols[n] for n, v in prop.given.items()})
        self._rests()

    def _rests(self) -> None:
        """Scratch that was written is as it must be found."""
        for name, fact in rested(self.symbolic, self.now, " after"):
            if self.now.functions[name] is not self.before.functions[name]:
                what = f"{name} is back at its first value"
                self._goal(what, "", self.action.line, fact.symbols, fact.build, of_value=True)

    def _step(self, prop: Property, env: dict[int, Formula], env_symbols: dict[int, frozenset[str]]) -> None:
        """What a property says of this step, and that all of it has a value."""
        now, views = self.now.copy(), {"before": self.before}
        self._claims("", prop, now, views, env, env_symbols)
        values = values_where_wanted(self.symbolic, [prop.formula], prop.binders, now, views=views, env=env)
        if values is not None:
            symbols = self.symbolic.symbols(prop.formula, now, views, env=env_symbols)
            self._goal(f"{prop.name} has a value", prop.rule, prop.line, symbols, values, prop)

    # ------------------------------------------------------------------------------------------------ statements

    def _body(self, body: list[Statement]) -> None:
        for s in body:
            for term in terms(s):
                self._asked(term, s.line)
            self._statement(s)

    def _statement(self, s: Statement) -> None:
        match s:
            case Let():
                self.temps[s.name] = self._value(s.value)
                self.temp_symbols[s.name] = self._symbols(s.value)
            case Require():
                self._require(s)
            case Assign():
                self._assign(s)
            case Push():
                self._push(s)
            case Remove():
                self._remove(s)
            case When():
                self._when(s)
            case Each():
                self._each(s)
            case Loop():
                self._loop(s)
            case Emit():
                self._report(s)
                self._body(s.heard)
            case unknown:
                assert_never(unknown)

    def _require(self, s: Require) -> None:
        condition, symbols = self._value(s.condition), self._symbols(s.condition)
        self._learn_formula(f"require {s.condition!r}", symbols, condition)
        self.possible = self.context
        self.required.append(condition)
        self.required_symbols |= symbols

    def _report(self, s: Emit) -> None:
        args = tuple(num(self._as(kind, a)) for kind, a in zip(self.model.events[s.event].kinds, s.args, strict=True))
        self.reports.append(Report(s.event, land(*self.path), args, self.eaches, tuple(self.binders)))
        self.report_symbols |= self._symbols(*s.args).union(*self.path_symbols)

    def _point(self, name: str, *values: Term) -> None:
        """Note what another run of this step can be compared with here."""
        symbols = self._symbols(*values) | self.report_symbols
        found = tuple(num(self._value(v)) for v in values)
        branches = tuple(self.branches)
        self.points.append(Point(name, self.context, self.now.copy(), found, self.reports, symbols, branches))
        self.reports, self.report_symbols = [], frozenset()

    def _when(self, s: When) -> None:
        condition, symbols = self._value(s.condition), self._symbols(s.condition)
        if not self.binders and not isinstance(condition, bool) and not has_quantifier(condition):
            self.branches.append(condition)
        with self._on_path(condition, symbols):
            self._body(s.then)
        with self._on_path(lnot(condition), symbols):
            self._body(s.otherwise)

    def _each(self, s: Each) -> None:
        """The body once, for a constant that stands for any element; `_write` makes a write there one for all."""
        before = self.now.copy()
        self.eaches += 1
        for b in s.binders:
            constant = self.universe.fresh(name_of(b), type(b))
            self.binders.append((type(b), constant))
            self.env[number_of(b)] = constant
            self.env_symbols[number_of(b)] = frozenset()
        self._body(s.body)
        self.eaches += 1
        del self.binders[len(self.binders) - len(s.binders) :]
        # All of them are of the state after before any is compared with another of that state.
        self.symbolic.recount(self.now, sorted(self.many), "?")
        after = self.now.copy()
        for name in sorted(self.many):
            self._learn(*bounded(self.symbolic, self.model.counts[name], before, after))
        self.unknown_counts |= self.many
        self.many = set()

    # ------------------------------------------------------------------------------------------------ loops

    def _loop(self, s: Loop) -> None:
        if self.path or self.binders:
            raise MachineError("a loop stands at the top level of an action, not inside `when` or `each`", s.line)
        if self.by_facts:
            self._use_facts(s)
        else:
            self._run_rounds(s)

    def _run_rounds(self, s: Loop) -> None:
        """The loop itself, up to `rounds` rounds; runs that need more are left out."""
        count = num(self._value(s.count))
        done: Formula = integer(0)
        self.views[f"entry:{s.number}"] = self.now.copy()
        going: Formula = True
        nothing: frozenset[str] = frozenset()
        for i in range(self.rounds + 1):
            self._set_index(s, integer(i), nothing)
            going = land(going, less(integer(i), count, strict=True))
            with self._on_path(going, nothing):
                self._body(s.going_lets)
                self._asked(s.going, s.line)
            going = land(going, self._value(s.going))
            if i == self.rounds:
                break
            with self._on_path(going, nothing):
                self.halts.append((self.context, going, f"loop at {s.line}: ", self.now.copy()))
                self._note_facts(s)
                self._body(s.body)
            done = lif(going, integer(i + 1), done)
        self.halts.append((self.context, True, f"loop at {s.line}: ", self.now.copy()))
        self._learn_formula("no further round", nothing, lnot(going))
        self._set_index(s, done, nothing)
        self._note_facts(s)
        self.temps[s.result], self.temp_symbols[s.result] = done, nothing

    def _set_index(self, s: Loop, index: Formula, symbols: frozenset[str]) -> None:
        number = number_of(s.index)
        self.env[number], self.env_symbols[number] = index, symbols

    def _note_facts(self, s: Loop) -> None:
        """The facts of the loop, to be proved of the present state and index."""
        for name, fact in s.facts.items():
            later, path = self._later(fact), land(*self.path)
            self._goal(
                f"loop at {s.line}: {name}",
                "",
                s.line,
                self._symbols(fact),
                lambda later=later, path=path: limplies(path, later()),  # type: ignore[misc]
            )

    def _use_facts(self, s: Loop) -> None:
        """The rule for loops of any number of rounds."""
        entry, label, place = self.now.copy(), f"loop at {s.line}: ", self.action.loops.index(s)
        self.views[f"entry:{s.number}"] = entry
        self._point(f"where the loop at {s.line} begins", s.count)
        count, counted = num(self._value(s.count)), self._symbols(s.count)
        zero = integer(0)
        self._invariants(f"before {label}", f" before loop {place}")
        self._set_index(s, zero, frozenset())
        self._note_facts(s)
        around, self.branches = self.context, []

        index = self._counter("i", Index)
        own = constant(index)
        self._set_index(s, index, own)
        self._somewhere_in(s, entry, "~", f" in loop {place}")
        self._learn_formula("a round", own, less(zero, index, strict=False))
        self._learn_formula("not the last round", own | counted, less(index, count, strict=True))
        self._body(s.going_lets)
        self._asked(s.going, s.line)
        self._point(f"before a round of the loop at {s.line}", s.going)
        self._learn_formula("going on", self._symbols(s.going), self._value(s.going))
        self._body(s.body)
        self._point(f"after a round of the loop at {s.line}")
        self._invariants(label, f" after a round of loop {place}")
        self._set_index(s, add(index, integer(1)), own)
        self._note_facts(s)

        self.context, self.branches = around, []
        rounds = self._counter("rounds", Int)
        own = constant(rounds)
        self._set_index(s, rounds, own)
        self._somewhere_in(s, entry, "^", f" after loop {place}")
        most = lif(less(zero, count, strict=False), count, zero)
        self._learn_formula("some rounds", own, less(zero, rounds, strict=False))
        self._learn_formula("no more rounds", own | counted, less(rounds, most, strict=False))
        with self._on_path(less(rounds, count, strict=True), own | counted):
            self._body(s.going_lets)  # looked at only where the count has not ended the loop
        stopped = (
            lnot(less(rounds, count, strict=True))
            if isinstance(s.going.operation, op.Constant)
            else limplies(less(rounds, count, strict=True), lnot(self._value(s.going)))
        )
        self.passed.append((label.removesuffix(": "), entry, self.now.copy()))
        self._learn_formula("stopped", own | counted | self._symbols(s.going), stopped)
        self.temps[s.result], self.temp_symbols[s.result] = rounds, own

    def _counter(self, name: str, kind: type[Int]) -> Formula:
        """Any number of rounds: that of the run beside this one, if there is one."""
        number = len(self.counters)
        self.counters.append(self.universe.fresh(name, kind) if self.beside is None else self.beside.counters[number])
        return self.counters[number]

    def _somewhere_in(self, s: Loop, entry: Snapshot, tag: str, moment: str) -> None:
        """Any state in which a round may start: what the loop writes is arbitrary but for facts and invariants."""
        if self.beside is not None:
            self.now, self.context = self.beside.somewhere[len(self.somewhere)]
            self.now = self.now.copy()
            self.start = self.now.copy()
            self.somewhere.append((self.start, self.context))
            return
        now = entry.copy()
        names = written(s.body)
        for name in sorted(names):
            self.symbolic.forget(now, name, tag)
        for name in sorted(names):
            for function in self.symbolic.functions_of(name):
                now.functions[function] = self._framed(
                    s, name, function, entry.functions[function], now.functions[function]
                )
        self.symbolic.recount(now, [c.name for c in self.model.counts.values() if names & c.reads.keys()], tag)
        self.now, self.start = now, now.copy()
        self._learn(*self._known_of(now.copy(), moment))
        self._learn(
            *[Fact(n, self._symbols(f), self._later(f), is_local=True, moment=moment) for n, f in s.facts.items()]
        )
        self.somewhere.append((self.start, self.context))

    def _framed(self, s: Loop, name: str, function: str, old: Function, new: Function) -> Function:
        """Entries that no round can reach are as they were: their key differs from one that all rounds share."""
        sites = [x for x in statements(s.body) if isinstance(x, Assign | Push | Remove) and x.name == name]
        inside = {x.name for x in statements([*s.going_lets, *s.body]) if isinstance(x, Let)}
        eaches = [x for x in statements(s.body) if isinstance(x, Each)]
        loose = {number_of(b) for b in (s.index, *(b for each in eaches for b in each.binders))}
        fixed: list[list[tuple[int, Formula]]] = []
        symbols = old.symbols | new.symbols
        for site in sites:
            places = []
            for place, key in enumerate(site.keys):
                temps = {p.operation.number for p in walk(key) if isinstance(p.operation, op.Temporary)}
                if not temps & inside and not numbers(key) & loose:
                    places.append((place, num(self._value(key))))
                    symbols |= self._symbols(key)
            fixed.append(places)
        if any(not places for places in fixed):
            return new

        def framed(*k: Formula) -> Formula:
            reached = [land(*[leq(k[p], w) for p, w in places if p < len(k)]) for places in fixed]
            return lif(lor(*reached), new(*k), old(*k))

        return self.universe.defined(function, symbols, framed)
