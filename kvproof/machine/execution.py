"""Running one action on formulas, and what has to be proved on the way.

A loop is replaced by what is known of it. Before the first round its facts hold; a round that starts from any state in
which the machine's invariants and the facts hold ends in such a state; so they hold after the last. Of everything that
the loop writes nothing else is known afterwards, except that entries which no round can reach are as they were. Where
the universe is finite, loops are simply run, as many rounds as `rounds`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import z3

from .formulas import (
    Formula,
    Function,
    add,
    has_quantifier,
    integer,
    land,
    leq,
    less,
    lif,
    limplies,
    lnot,
    lor,
    num,
    occurs,
    replaced,
    sub,
)
from .knowledge import Context, Fact, background, bounded, counting, invariants, of_parameters, rested, typing
from .model import RESULT, Action, CountOf, Property, written
from .program import Assign, Each, Emit, Let, Loop, Push, Remove, Require, Statement, When, statements, terms
from .reads import reads_of
from .symbolic import Snapshot, Symbolic
from .terms import Index, Int, Line, MachineError, Term, fits, may_be_none, walk
from .wellformed import WellFormed, have_values, is_key

__all__ = ["Goal", "Point", "Report", "Run"]


@dataclass(eq=False)
class Goal:
    """Something to prove in a context. ``name`` says what, ``rule`` which rule it writes down.

    It is built when it is first wanted; ``symbols`` are the uninterpreted functions that it may speak of.
    """

    name: str
    rule: str
    context: Context
    line: Line
    build: Callable[[], Formula]
    symbols: frozenset[str]
    prop: Property | None = None
    branches: tuple[Formula, ...] = ()
    """The conditions of `when` on which the state that it speaks of may depend, those without quantifiers."""
    states: tuple[Snapshot, Snapshot] | None = None
    """The last state of which the invariants are known, and the one at hand."""

    @cached_property
    def formula(self) -> Formula:
        """What has to be proved."""
        return self.build()

    @cached_property
    def lemma(self) -> Fact:
        """What is known once it is proved."""
        return Fact(f"proved: {self.name}", self.symbols, lambda: self.formula)


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


class Run:
    """One action, run from an arbitrary state.

    ``before`` and ``now`` are the states around it, ``args`` its parameters, ``goals`` what has to be proved, each in
    its context; ``untouched`` are invariants that nothing was written for, with the place where they were looked at.
    ``possible`` is the context in which everything that the action requires holds. In a finite universe ``halts``
    holds each state between rounds of a loop, with the condition under which it occurs. ``unknown_counts`` changed for
    many elements at once. ``judged=False``: no goals; ``assumed=False``: of the state before nothing is known, not even
    the invariants; ``by_facts``: loops are replaced by what is known of them in a finite universe too.

    ``beside``: a run of as many loops, in whose states and with whose arguments this one starts, at first and in each
    loop; ``required`` and ``points`` are what the two can be compared by.
    """

    def __init__(
        self,
        symbolic: Symbolic,
        action: Action,
        *,
        rounds: int = 3,
        judged: bool = True,
        assumed: bool = True,
        by_facts: bool = False,
        beside: Run | None = None,
    ) -> None:
        self.symbolic, self.action, self.rounds, self.beside = symbolic, action, rounds, beside
        self.judged, self.assumed = judged, assumed
        self.by_facts = by_facts or not symbolic.universe.is_finite
        self.universe, self.model = symbolic.universe, symbolic.model
        self.before: Snapshot = symbolic.arbitrary() if beside is None else beside.before
        self.now = self.before.copy()
        self.start = self.before
        """The last state of which the invariants are known: the first one, or that at the start of a round."""
        self.goals: list[Goal] = []
        self.untouched: list[tuple[str, Property]] = []
        self.passed: list[tuple[str, Snapshot, Snapshot]] = []
        """For each loop that was replaced by its facts: where it stands, the state before it, and that after it."""
        self.halts: list[tuple[Context, Formula, str, Snapshot]] = []
        self.required: list[Formula] = []
        self.required_symbols: frozenset[str] = frozenset()
        self.points: list[Point] = []
        self.somewhere: list[Snapshot] = []
        """The arbitrary states from which rounds of loops, and what comes after loops, were run."""
        self.counters: list[Formula] = []
        """The constants that stand for the index of a round, and for the number of rounds."""
        self.reports: list[Report] = []
        self.report_symbols: frozenset[str] = frozenset()
        self.eaches = 0
        self.temps: dict[int, Formula] = {}
        self.temp_symbols: dict[int, frozenset[str]] = {}
        self.views: dict[str, Snapshot] = {}
        self.path: list[Formula] = []
        self.path_symbols: list[frozenset[str]] = []
        self.branches: list[Formula] = []
        """The conditions of `when` so far; in a round of a loop, those of the round."""
        self.binders: list[tuple[type[Term], Formula]] = []
        self.unknown_counts: set[str] = set()
        self.many: set[str] = set()
        """The counts of which many elements change at once, in the `each` that is being run."""
        fresh = [] if beside is not None else [self.universe.fresh(p.args[0], type(p)) for p in action.params]
        self.args: list[Formula] = fresh if beside is None else beside.args
        self.env = {p.args[1]: a for p, a in zip(action.params, self.args, strict=True)}
        self.env_symbols = {number: _constant(a) for number, a in self.env.items()}
        self.context = Context(None, self._known_at_first())
        self.first = self.possible = self.context
        self._body(action.body)
        if action.result is not None:
            self._asked(action.result, action.line)
        self._point("the end", *([] if action.result is None else [action.result]))
        if judged:
            self._end()

    # ------------------------------------------------------------------------------------------- knowledge and goals

    def _known_at_first(self) -> list[Fact]:
        symbolic, facts = self.symbolic, []
        facts += background(symbolic)
        facts += of_parameters(symbolic)
        facts += self._known_of(self.before, "")
        facts += [fact for _, fact in rested(symbolic, self.before, "")]
        for p, a in zip(self.action.params, self.args, strict=True):
            inside = self.universe.is_element(type(p), a)
            facts.append(Fact.of(f"type of {p.args[0]}", _constant(a), inside))
        return facts

    def _known_of(self, state: Snapshot, moment: str) -> list[Fact]:
        """What is known of any state of the machine."""
        facts = typing(self.symbolic, state, moment)
        if self.assumed:
            facts += counting(self.symbolic, state, moment)
            facts += invariants(self.symbolic, state, moment)
        return facts

    def _goal(
        self,
        name: str,
        rule: str,
        line: Line,
        symbols: frozenset[str],
        build: Callable[[], Formula],
        prop: Property | None = None,
    ) -> None:
        """Note something to prove here."""
        if self.judged:
            states = self.start, self.now.copy()
            self.goals.append(Goal(name, rule, self.context, line, build, symbols, prop, tuple(self.branches), states))

    def _on_this_path(self, name: str, rule: str, line: Line, symbols: frozenset[str], formula: Formula) -> None:
        """Note something to prove on this way through the branches, for the element of `each` at hand.

        What comes after it may rely on it: it is asked where nothing of that is known yet.
        """
        inside = [self.universe.is_element(k, c) for k, c in self.binders]
        condition = limplies(land(*inside, *self.path), formula)
        if condition is not True and self.judged:
            spoken = symbols.union(*self.path_symbols)
            self._goal(name, rule, line, spoken, lambda: condition)
            self._learn_formula(f"{name} at {line}", spoken, condition)

    def _learn(self, *facts: Fact) -> None:
        """From here on these are known."""
        self.context = Context(self.context, list(facts))

    def _learn_formula(self, label: str, symbols: frozenset[str], formula: Formula) -> None:
        if formula is not True:
            self._learn(Fact.of(label, symbols, formula, is_local=True))

    def _invariants(self, label: str, moment: str) -> None:
        """The inductive invariants, to be proved of the present state."""
        self._learn(*counting(self.symbolic, self.now, moment))
        state = self.now.copy()
        for prop in self.model.inductive:
            # Where nothing that the invariant looks at was written, it says what it said before, and that is known.
            if all(self._is_untouched(name) for name in reads_of(prop.formula).names):
                self.untouched.append((label, prop))
            else:
                self._claims(label, prop, state, {}, {}, {})

    def _is_untouched(self, name: str) -> bool:
        return name in self.symbolic.params or self.now.functions[name] is self.start.functions[name]

    def _claims(
        self,
        label: str,
        prop: Property,
        now: Snapshot,
        views: dict[str, Snapshot],
        env: dict[int, Formula],
        env_symbols: dict[int, frozenset[str]],
    ) -> None:
        """One goal for each of the smaller formulas that a property is made of."""
        clauses = self.symbolic.clauses(prop.binders, prop.formula)
        for number, clause in enumerate(clauses, 1):
            part = f" ({number} of {len(clauses)})" if len(clauses) > 1 else ""
            symbols = self.symbolic.symbols(clause[1], now, views, env=env_symbols)

            def build(clause: tuple[tuple[Term, ...], Term] = clause) -> Formula:
                return self.symbolic.claim(clause, now, views, env)

            self._goal(f"{label}{prop.name}{part}", prop.rule, prop.line, symbols, build, prop)

    def _end(self) -> None:
        """After the last statement: invariants, properties of steps, and scratch back at rest."""
        self._invariants("", " after")
        given = {p.args[0]: a for p, a in zip(self.action.params, self.args, strict=True)}
        given_symbols = {p.args[0]: _constant(a) for p, a in zip(self.action.params, self.args, strict=True)}
        if self.action.result is not None:
            given[RESULT] = self._as(type(self.action.result), self.action.result)
            given_symbols[RESULT] = self._symbols(self.action.result)
        for prop in self.model.steps_for(self.action.name):
            env = {v.args[1]: given[n] for n, v in prop.given.items()}
            self._step(prop, env, {v.args[1]: given_symbols[n] for n, v in prop.given.items()})
        for name, fact in rested(self.symbolic, self.now, " after"):
            if self.now.functions[name] is not self.before.functions[name]:
                self._goal(f"{name} is back at its first value", "", self.action.line, fact.symbols, fact.build)

    def _step(self, prop: Property, env: dict[int, Formula], env_symbols: dict[int, frozenset[str]]) -> None:
        """What a property says of this step, and that all of it has a value."""
        now, views = self.now.copy(), {"before": self.before}
        self._claims("", prop, now, views, env, env_symbols)
        values = have_values(self.symbolic, [prop.formula], prop.binders, now, views=views, env=env)
        if values is not True:
            symbols = self.symbolic.symbols(prop.formula, now, views, env=env_symbols)
            self._goal(f"{prop.name} has a value", prop.rule, prop.line, symbols, lambda: values, prop)

    # ------------------------------------------------------------------------------------------------ values

    def _value(self, term: Term) -> Formula:
        return self.symbolic.value(term, self.now, self.env, self.views, self.temps)

    def _later(self, term: Term) -> Callable[[], Formula]:
        """Computes the value that the term has now when that is wanted."""
        now, env, views, temps = self.now.copy(), dict(self.env), dict(self.views), dict(self.temps)
        return lambda: self.symbolic.value(term, now, env, views, temps)

    def _as(self, kind: type[Term], term: Term) -> Formula:
        return num(self.symbolic.value(term, self.now, self.env, self.views, self.temps, kind=kind))

    def _symbols(self, *of: Term) -> frozenset[str]:
        """What the values that the terms have now speak of."""
        found: frozenset[str] = frozenset()
        for term in of:
            found |= self.symbolic.symbols(term, self.now, self.views, self.temp_symbols, self.env_symbols)
        return found

    def _asked(self, term: Term, line: Line) -> None:
        """The term has a value: a read where it is made, a division where it is used."""
        if self.judged:
            demands = WellFormed(self.symbolic, self.now, self.views, self.temps).demands(term, self.env)
            if demands is not True:
                self._on_this_path(f"{term!r} has a value", "", line, self._symbols(term), demands)

    # ------------------------------------------------------------------------------------------------ statements

    def _body(self, body: list[Statement]) -> None:
        for s in body:
            for term in terms(s):
                self._asked(term, s.line)
            if isinstance(s, Let):
                self.temps[s.name] = self._value(s.value)
                self.temp_symbols[s.name] = self._symbols(s.value)
            elif isinstance(s, Require):
                self._require(s)
            elif isinstance(s, Assign):
                self._assign(s)
            elif isinstance(s, Push):
                self._push(s)
            elif isinstance(s, Remove):
                self._remove(s)
            elif isinstance(s, When):
                self._when(s)
            elif isinstance(s, Each):
                self._each(s)
            elif isinstance(s, Loop):
                self._loop(s)
            else:
                assert isinstance(s, Emit)
                self._report(s)
                self._body(s.heard)

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

    @contextmanager
    def _on_path(self, condition: Formula, symbols: frozenset[str]) -> Iterator[None]:
        self.path.append(condition)
        self.path_symbols.append(symbols)
        yield
        self.path.pop()
        self.path_symbols.pop()

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
            constant = self.universe.fresh(b.args[0], type(b))
            self.binders.append((type(b), constant))
            self.env[b.args[1]] = constant
            self.env_symbols[b.args[1]] = frozenset()
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

    def _assign(self, s: Assign) -> None:
        mapping = self.model.maps[s.name]
        keys = [num(self._value(k)) for k in s.keys]
        value, symbols = self._as(mapping.to, s.value), self._symbols(*s.keys, s.value)
        self._demand_keys(s.name, mapping.kinds, s.keys, keys, s.line)
        if not fits(s.value, mapping.to):
            or_none = may_be_none(s.value, is_optional=mapping.is_optional)
            is_one = self.universe.is_value(mapping.to, value, or_none=or_none)
            self._on_this_path(f"{s.name} gets an element", "", s.line, symbols, is_one)
        elif issubclass(mapping.to, Index):
            is_one = less(integer(0), value, strict=False)
            self._on_this_path(f"{s.name} gets an index", "", s.line, symbols, is_one)
        before = self.now.copy()
        self._write(s.name, keys, value, symbols)
        self._recount(s.name, keys, symbols, before)

    def _demand_keys(
        self, name: str, kinds: Sequence[type[Term]], terms: Sequence[Term], keys: Sequence[Formula], line: Line
    ) -> None:
        """Keys are elements; of an index that lies behind the last one nothing is said, as that leaves the scope."""
        for kind, term, key in zip(kinds, terms, keys, strict=True):
            if not fits(term, kind) or isinstance(term, Int):
                symbols = self._symbols(term)
                self._on_this_path(
                    f"{name} is written at an element", "", line, symbols, is_key(self.universe, kind, key)
                )
                if issubclass(kind, Index):
                    inside = limplies(land(*self.path), self.universe.is_element(kind, key))
                    self._learn_formula(f"scope of {name} at {line}", symbols.union(*self.path_symbols), inside)

    def _push(self, s: Push) -> None:
        queue = self.model.queues[s.name]
        kinds = (*queue.kinds, queue.of)
        keys, e = [num(self._value(k)) for k in s.keys], self._value(s.element)
        symbols = self._symbols(*s.keys, s.element)
        self._demand_keys(s.name, kinds, (*s.keys, s.element), (*keys, e), s.line)
        f = self.now.functions
        has, rank = f[f"{s.name}.has"], f[f"{s.name}.rank"]
        self._on_this_path(
            f"{s.element!r} does not stand in {s.name} yet", "P3", s.line, symbols | has.symbols, lnot(has(*keys, e))
        )
        lo, hi = f[f"{s.name}.lo"](*keys), f[f"{s.name}.hi"](*keys)
        ends = symbols | f[f"{s.name}.lo"].symbols | f[f"{s.name}.hi"].symbols
        before = self.now.copy()
        self._write(f"{s.name}.has", [*keys, e], True, symbols)
        if s.where == "front":
            self._write(f"{s.name}.rank", [*keys, e], lo, ends)
            self._write(f"{s.name}.lo", keys, sub(lo, integer(1)), ends)
        elif s.where == "back":
            self._write(f"{s.name}.rank", [*keys, e], hi, ends)
            self._write(f"{s.name}.hi", keys, add(hi, integer(1)), ends)
        else:
            assert s.anchor is not None
            anchor, symbols = self._value(s.anchor), symbols | self._symbols(s.anchor)
            self._on_this_path(
                f"{s.anchor!r} stands in {s.name}", "P3", s.line, symbols | has.symbols, has(*keys, anchor)
            )
            place = rank(*keys, anchor)
            self._make_room(f"{s.name}.rank", keys, place, symbols | rank.symbols)
            self._write(f"{s.name}.rank", [*keys, e], place, symbols | rank.symbols)
            self._write(f"{s.name}.hi", keys, add(hi, integer(1)), ends)
        self._recount(s.name, [*keys, e], symbols, before)

    def _make_room(self, name: str, keys: Sequence[Formula], rank: Formula, symbols: frozenset[str]) -> None:
        """Everything from this rank on moves back by one."""
        assert not self.binders  # `each` cannot push before a member (`rounds.py`)
        old, guard = self.now.functions[name], land(*self.path)

        def moved(*k: Formula) -> Formula:
            mine = land(guard, *[leq(x, w) for x, w in zip(k[:-1], keys, strict=True)])
            later = land(mine, less(rank, old(*k), strict=False))
            return lif(later, add(old(*k), integer(1)), old(*k))

        spoken = old.symbols.union(symbols, *self.path_symbols)
        self.now.functions[name] = self.universe.defined(name, spoken, moved)

    def _remove(self, s: Remove) -> None:
        queue = self.model.queues[s.name]
        keys, e = [num(self._value(k)) for k in s.keys], self._value(s.element)
        symbols = self._symbols(*s.keys, s.element)
        self._demand_keys(s.name, (*queue.kinds, queue.of), (*s.keys, s.element), (*keys, e), s.line)
        has = self.now.functions[f"{s.name}.has"]
        self._on_this_path(f"{s.element!r} stands in {s.name}", "P3", s.line, symbols | has.symbols, has(*keys, e))
        before = self.now.copy()
        self._write(f"{s.name}.has", [*keys, e], False, symbols)
        self._recount(s.name, [*keys, e], symbols, before)

    # ------------------------------------------------------------------------------------------------ writes

    def _write(self, name: str, keys: Sequence[Formula], value: Formula, symbols: frozenset[str]) -> None:
        """One entry gets a value; inside `each`, all entries that the body's constant stands for."""
        old, path = self.now.functions[name], land(*self.path)
        stand_ins: list[tuple[int, Formula]] = []
        conditions: list[tuple[int, Formula]] = []
        domain: list[Formula] = []
        for place, key in enumerate(keys):
            kind = next((k for k, c in self.binders if isinstance(key, z3.ExprRef) and key.eq(c)), None)
            if kind is None or any(key.eq(c) for _, c in stand_ins):
                conditions.append((place, key))  # where an element stands at two places, the two are the same
                continue
            stand_ins.append((place, key))
            domain.append(self.universe.is_element(kind, key))
        guard = land(path, *domain)

        def new(*k: Formula) -> Formula:
            here = [(c, k[p]) for p, c in stand_ins]
            mine = land(*[leq(k[p], replaced(w, here)) for p, w in conditions], replaced(guard, here))
            return lif(mine, replaced(value, here), old(*k))

        spoken = old.symbols.union(symbols, *self.path_symbols)
        self.now.functions[name] = self.universe.defined(name, spoken, new)

    def _recount(
        self,
        name: str,
        keys: Sequence[Formula],
        symbols: frozenset[str],
        before: Snapshot,
    ) -> None:
        """Carry every count that reads the map or queue across a write at these keys.

        One element is concerned: for every key, the count changes by what it counts after, less what it counted before.
        Where the element is that of a round of `each`, `_each` says what is known when all rounds are done.
        """
        after = self.now.copy()
        for count in self.model.counts.values():
            if name not in count.reads:
                continue
            if not self.universe.counts_by_law:
                self.now.functions[count.name] = self.symbolic.written_out(count, after)
                continue
            places = _places(count, name)
            element = [keys[p] for p in places]
            if any(occurs(c, x) for x in element for _, c in self.binders):
                self.many.add(count.name)
                continue
            old = before.functions[count.name]

            def new(
                *k: Formula, old: Function = old, count: CountOf = count, element: list[Formula] = element
            ) -> Formula:
                gained = self.symbolic.amount(count, after, element, k)
                return sub(add(old(*k), gained), self.symbolic.amount(count, before, element, k))

            spoken = old.symbols.union(
                symbols, self.symbolic.symbols(count.formula, after), self.symbolic.symbols(count.formula, before)
            )
            if count.weight is not None:
                spoken |= self.symbolic.symbols(count.weight, after) | self.symbolic.symbols(count.weight, before)
            self.now.functions[count.name] = self.universe.defined(count.name, spoken, new)

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
        self.env[s.index.args[1]], self.env_symbols[s.index.args[1]] = index, symbols

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
        own = _constant(index)
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
        own = _constant(rounds)
        self._set_index(s, rounds, own)
        self._somewhere_in(s, entry, "^", f" after loop {place}")
        most = lif(less(zero, count, strict=False), count, zero)
        self._learn_formula("some rounds", own, less(zero, rounds, strict=False))
        self._learn_formula("no more rounds", own | counted, less(rounds, most, strict=False))
        with self._on_path(less(rounds, count, strict=True), own | counted):
            self._body(s.going_lets)  # looked at only where the count has not ended the loop
        stopped = (
            lnot(less(rounds, count, strict=True))
            if s.going.op == "lit"
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
            self.now = self.beside.somewhere[len(self.somewhere)].copy()
            self.start = self.now.copy()
            self.somewhere.append(self.start)
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
        self.somewhere.append(self.start)
        self._learn(*self._known_of(now.copy(), moment))
        self._learn(
            *[Fact(n, self._symbols(f), self._later(f), is_local=True, moment=moment) for n, f in s.facts.items()]
        )

    def _framed(self, s: Loop, name: str, function: str, old: Function, new: Function) -> Function:
        """Entries that no round can reach are as they were: their key differs from one that all rounds share."""
        sites = [x for x in statements(s.body) if isinstance(x, Assign | Push | Remove) and x.name == name]
        inside = {x.name for x in statements([*s.going_lets, *s.body]) if isinstance(x, Let)}
        loose = {b.args[1] for x in statements(s.body) if isinstance(x, Each) for b in x.binders} | {s.index.args[1]}
        fixed: list[list[tuple[int, Formula]]] = []
        symbols = old.symbols | new.symbols
        for site in sites:
            places = []
            for place, key in enumerate(site.keys):
                names = {p.args[0] for p in walk(key) if p.op == "temp"}
                variables = {p.args[1] for p in walk(key) if p.op == "var"}
                if not names & inside and not variables & loose:
                    places.append((place, num(self._value(key))))
                    symbols |= self._symbols(key)
            fixed.append(places)
        if any(not places for places in fixed):
            return new

        def framed(*k: Formula) -> Formula:
            reached = [land(*[leq(k[p], w) for p, w in places if p < len(k)]) for places in fixed]
            return lif(lor(*reached), new(*k), old(*k))

        return self.universe.defined(function, symbols, framed)


def _constant(value: Formula) -> frozenset[str]:
    """The symbol that a constant is."""
    return frozenset([str(value)])


def _places(count: CountOf, name: str) -> list[int]:
    """For each element that is counted: the place among the keys of this map or queue at which it stands."""
    keys = count.reads[name][0]
    return [next(i for i, key in enumerate(keys) if key is e) for e in count.elements]
