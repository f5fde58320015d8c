"""Running one action on formulas, and what has to be proved on the way.

A loop is replaced by what is known of it. Before the first round its facts hold; a round that starts from any state in
which the machine's invariants and the facts hold ends in such a state; so they hold after the last. Of everything that
the loop writes nothing else is known afterwards, except that entries which no round can reach are as they were. Where
the universe is finite, loops are simply run, as many rounds as `rounds`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import z3

from .formulas import (
    Formula,
    Function,
    has_quantifier,
    land,
    leq,
    less,
    lif,
    limplies,
    lnot,
    lor,
    num,
    occurs,
    remembered,
    replaced,
)
from .model import Action, CountOf, Property, written
from .program import Assign, Each, Emit, Let, Loop, Push, Remove, Require, Statement, When, statements, terms
from .symbolic import Snapshot, Symbolic
from .terms import Index, Int, Line, MachineError, Term, fits, walk
from .wellformed import WellFormed, is_key

__all__ = ["Context", "Goal", "Run", "Settled"]


@dataclass(eq=False)
class Context:
    """What is known at a place of an action, on top of what an outer context knows."""

    outer: Context | None = None
    known: list[Formula] = field(default_factory=list)


@dataclass(eq=False)
class Goal:
    """Something to prove in a context. ``name`` says what, ``rule`` which rule it writes down."""

    name: str
    rule: str
    context: Context
    formula: Formula
    line: Line
    prop: Property | None = None
    about: frozenset[str] = frozenset()
    """The functions of states that it speaks of; empty where that was not noted."""
    branches: tuple[Formula, ...] = ()
    """The conditions of `when` on which the state that it speaks of may depend, those without quantifiers."""


@dataclass
class Settled:
    """What of an action is proved elsewhere, so that it is no goal here."""

    properties: set[str] = field(default_factory=set)
    facts: set[tuple[int, str]] = field(default_factory=set)
    """Facts of loops: the loop's place among the action's loops, and the fact's name."""
    statements: set[int] = field(default_factory=set)
    """Statements, by identity: that they have a meaning."""


class Run:
    """One action, run from an arbitrary state.

    ``before`` and ``now`` are the states around it, ``args`` its parameters, ``goals`` what has to be proved, each in
    its context. ``possible`` is the context in which everything that the action requires holds. In a finite universe
    ``halts`` holds each state between rounds of a loop, with the condition under which it occurs. ``unknown_counts``
    changed in a way for which there is no law; ``read`` are the functions that the action looks at. ``judged=False``:
    no goals, nor is what is ``settled``; ``assumed=False``: of the state before nothing is known, not even the
    invariants.
    """

    def __init__(
        self,
        symbolic: Symbolic,
        action: Action,
        *,
        rounds: int = 3,
        judged: bool = True,
        assumed: bool = True,
        settled: Settled | None = None,
    ) -> None:
        self.symbolic, self.action, self.rounds = symbolic, action, rounds
        self.judged, self.assumed = judged, assumed
        self.settled = settled or Settled()
        self.has_meaning = False
        """The statement that is being run is settled."""
        self.universe, self.model = symbolic.universe, symbolic.model
        self.before = symbolic.arbitrary()
        self.now = self.before.copy()
        self.start = self.before
        """The last state of which the invariants are known: the first one, or that at the start of a round."""
        self.goals: list[Goal] = []
        self.halts: list[tuple[Context, Formula, str, Snapshot]] = []
        self.temps: dict[int, Formula] = {}
        self.views: dict[str, Snapshot] = {}
        self.path: list[Formula] = []
        self.branches: list[Formula] = []
        """The conditions of `when` so far; in a round of a loop, those of the round."""
        self.binders: list[tuple[type[Term], Formula]] = []
        self.unknown_counts: set[str] = set()
        self.read: set[str] = set()
        self.args = [self.universe.fresh(p.args[0], type(p)) for p in action.params]
        self.env = {p.args[1]: a for p, a in zip(action.params, self.args, strict=True)}
        self.context = Context(None, self._arbitrary(self.before, resting=True))
        self.context.known += [
            self.universe.is_element(type(p), a) for p, a in zip(action.params, self.args, strict=True)
        ]
        self.possible = self.context
        self._body(action.body)
        if action.result is not None:
            self._asked(action.result, action.line)
        if judged:
            self._end()

    # ------------------------------------------------------------------------------------------- knowledge and goals

    def _arbitrary(self, state: Snapshot, *, resting: bool) -> list[Formula]:
        """What is known of any state of the machine."""
        symbolic = self.symbolic
        known = symbolic.about_params() if resting else []
        known += symbolic.typing(state)
        if self.assumed:
            known += symbolic.counting(state)
            for prop in self.model.inductive:
                symbolic.looked_at.clear()
                known += symbolic.tagged(symbolic.claims(prop, state, None, {}))
        return known + ([formula for _, formula in symbolic.rested(state)] if resting else [])

    def _goal(
        self,
        name: str,
        rule: str,
        formula: Formula,
        line: Line,
        prop: Property | None = None,
        about: frozenset[str] = frozenset(),
    ) -> None:
        """Note something to prove here, on this path."""
        if not self.judged or (self.has_meaning and prop is None):
            return
        inside = [self.universe.is_element(k, c) for k, c in self.binders]
        condition = limplies(land(*inside, *self.path), formula)
        if condition is not True:
            self.goals.append(Goal(name, rule, self.context, condition, line, prop, about, tuple(self.branches)))

    def _learn(self, *facts: Formula) -> None:
        """From here on these are known."""
        self.context = Context(self.context, [f for f in facts if f is not True])

    def _invariants(self, label: str) -> None:
        self._learn(*self.symbolic.counting(self.now))
        for prop in self.model.inductive:
            if prop.name in self.settled.properties:
                continue
            self.symbolic.looked_at.clear()
            formulas = self.symbolic.claims(prop, self.now, None, {})
            # Where nothing that the invariant looks at was written, it says what it said before, and that is known.
            if all(self.now.functions.get(n) is self.start.functions.get(n) for n in self.symbolic.looked_at):
                formulas = [z3.BoolVal(True)] * len(formulas)
            self._claims(label, prop, formulas)

    def _claims(self, label: str, prop: Property, formulas: list[Formula]) -> None:
        """One goal for each of the smaller formulas that a property is made of."""
        about = frozenset(self.symbolic.looked_at)
        for number, formula in enumerate(formulas, 1):
            part = f" ({number} of {len(formulas)})" if len(formulas) > 1 else ""
            self._goal(f"{label}{prop.name}{part}", prop.rule, formula, prop.line, prop, about)

    def _end(self) -> None:
        """After the last statement: invariants, properties of steps, and scratch back at rest."""
        self._invariants("")
        given_by_name = {p.args[0]: a for p, a in zip(self.action.params, self.args, strict=True)}
        for prop in self.model.steps_for(self.action.name):
            if prop.name in self.settled.properties:
                continue
            env = {v.args[1]: given_by_name[n] for n, v in prop.given.items() if n in given_by_name}
            self.symbolic.looked_at.clear()
            self._claims("", prop, self.symbolic.claims(prop, self.now, self.before, env))
        for name, formula in self.symbolic.rested(self.now):
            self._goal(f"{name} is back at its first value", "", formula, self.action.line)

    # ------------------------------------------------------------------------------------------------ values

    def _value(self, term: Term) -> Formula:
        return self.symbolic.value(term, self.now, self.env, self.views, self.temps)

    def _as(self, kind: type[Term], term: Term) -> Formula:
        return num(self.symbolic.value(term, self.now, self.env, self.views, self.temps, kind=kind))

    def _asked(self, term: Term, line: Line) -> None:
        """The term has a value: a read where it is made, a division where it is used."""
        if self.judged:
            demands = WellFormed(self.symbolic, self.now, self.views, self.temps).demands(term, self.env)
            about = frozenset(self.symbolic.looked_at)
            self._goal(f"{term!r} has a value", "", demands, line, about=about)

    # ------------------------------------------------------------------------------------------------ statements

    def _body(self, body: list[Statement]) -> None:
        for s in body:
            self.has_meaning = id(s) in self.settled.statements
            self.symbolic.looked_at.clear()
            for term in terms(s):
                self._asked(term, s.line)
            if isinstance(s, Let):
                self.temps[s.name] = self._value(s.value)
                self.read |= self.symbolic.looked_at
            elif isinstance(s, Require):
                self._learn(self._value(s.condition))
                self.possible = self.context
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
        self.has_meaning = False

    @contextmanager
    def _on_path(self, condition: Formula) -> Iterator[None]:
        self.path.append(condition)
        yield
        self.path.pop()

    def _when(self, s: When) -> None:
        condition = self._value(s.condition)
        if not self.binders and not has_quantifier(condition):
            self.branches.append(condition)
        with self._on_path(condition):
            self._body(s.then)
        with self._on_path(lnot(condition)):
            self._body(s.otherwise)

    def _each(self, s: Each) -> None:
        """The body once, for a constant that stands for any element; `_write` makes a write there one for all."""
        for b in s.binders:
            constant = self.universe.fresh(b.args[0], type(b))
            self.binders.append((type(b), constant))
            self.env[b.args[1]] = constant
        self._body(s.body)
        del self.binders[len(self.binders) - len(s.binders) :]

    def _assign(self, s: Assign) -> None:
        mapping = self.model.maps[s.name]
        keys = [num(self._value(k)) for k in s.keys]
        value = self._as(mapping.to, s.value)
        self._demand_keys(s.name, mapping.kinds, s.keys, keys, s.line)
        if not fits(s.value, mapping.to):
            is_none = mapping.is_optional and leq(value, self.universe.literal(mapping.to, None))
            self._goal(
                f"{s.name} gets an element", "", lor(self.universe.is_element(mapping.to, value), is_none), s.line
            )
        if issubclass(mapping.to, Index) and fits(s.value, mapping.to):
            self._goal(f"{s.name} gets an index", "", less(z3.IntVal(0), value, strict=False), s.line)
        before = self.now.copy()
        self._write(s.name, mapping.kinds, keys, value)
        self._recount(s.name, keys, before)

    def _demand_keys(
        self, name: str, kinds: Sequence[type[Term]], terms: Sequence[Term], keys: Sequence[Formula], line: Line
    ) -> None:
        for kind, term, key in zip(kinds, terms, keys, strict=True):
            if not fits(term, kind) or isinstance(term, Int):
                self._goal(f"{name} is written at an element", "", is_key(self.universe, kind, key), line)
                if self.universe.is_finite and issubclass(kind, Index):
                    self._learn(limplies(land(*self.path), self.universe.is_element(kind, key)))

    def _push(self, s: Push) -> None:
        queue = self.model.queues[s.name]
        kinds = (*queue.kinds, queue.of)
        keys, e = [num(self._value(k)) for k in s.keys], self._value(s.element)
        self._demand_keys(s.name, kinds, (*s.keys, s.element), (*keys, e), s.line)
        f = self.now.functions
        self._goal(f"{s.element!r} does not stand in {s.name} yet", "P3", lnot(f[f"{s.name}.has"](*keys, e)), s.line)
        lo, hi, rank = f[f"{s.name}.lo"](*keys), f[f"{s.name}.hi"](*keys), f[f"{s.name}.rank"]
        before = self.now.copy()
        self._write(f"{s.name}.has", kinds, [*keys, e], True)
        if s.where == "front":
            self._write(f"{s.name}.rank", kinds, [*keys, e], lo)
            self._write(f"{s.name}.lo", queue.kinds, keys, lo - 1)
        elif s.where == "back":
            self._write(f"{s.name}.rank", kinds, [*keys, e], hi)
            self._write(f"{s.name}.hi", queue.kinds, keys, hi + 1)
        else:
            assert s.anchor is not None
            anchor = self._value(s.anchor)
            self._goal(
                f"{s.anchor!r} stands in {s.name}", "P3", before.functions[f"{s.name}.has"](*keys, anchor), s.line
            )
            self._make_room(f"{s.name}.rank", keys, rank(*keys, anchor))
            self._write(f"{s.name}.rank", kinds, [*keys, e], rank(*keys, anchor))
            self._write(f"{s.name}.hi", queue.kinds, keys, hi + 1)
        self._recount(s.name, [*keys, e], before)

    def _make_room(self, name: str, keys: Sequence[Formula], rank: Formula) -> None:
        """Everything from this rank on moves back by one."""
        if self.binders:
            raise MachineError(f"`each` cannot push before a member of {name}")
        old, guard = self.now.functions[name], land(*self.path)

        def moved(*k: Formula) -> Formula:
            mine = land(guard, *[leq(x, w) for x, w in zip(k[:-1], keys, strict=True)])
            return lif(land(mine, less(rank, old(*k), strict=False)), old(*k) + 1, old(*k))

        self.now.functions[name] = remembered(moved)

    def _remove(self, s: Remove) -> None:
        queue = self.model.queues[s.name]
        kinds = (*queue.kinds, queue.of)
        keys, e = [num(self._value(k)) for k in s.keys], self._value(s.element)
        self._demand_keys(s.name, kinds, (*s.keys, s.element), (*keys, e), s.line)
        self._goal(f"{s.element!r} stands in {s.name}", "P3", self.now.functions[f"{s.name}.has"](*keys, e), s.line)
        before = self.now.copy()
        self._write(f"{s.name}.has", kinds, [*keys, e], False)
        self._recount(s.name, [*keys, e], before)

    # ------------------------------------------------------------------------------------------------ writes

    def _write(self, name: str, kinds: Sequence[type[Term]], keys: Sequence[Formula], value: Formula) -> None:
        """One entry gets a value; inside `each`, all entries that the body's constant stands for."""
        old, path = self.now.functions[name], land(*self.path)
        stand_ins: list[tuple[int, Formula]] = []
        conditions: list[tuple[int, Formula]] = []
        domain: list[Formula] = []
        for place, (kind, key) in enumerate(zip(kinds, keys, strict=True)):
            binder = next(((k, c) for k, c in self.binders if isinstance(key, z3.ExprRef) and key.eq(c)), None)
            if binder is None:
                conditions.append((place, key))
                continue
            stand_ins.append((place, key))
            if binder[0] is not kind:
                domain.append(self.universe.is_element(binder[0], key))
        guard = land(path, *domain)

        def new(*k: Formula) -> Formula:
            here = [(c, k[p]) for p, c in stand_ins]
            mine = land(*[leq(k[p], replaced(w, here)) for p, w in conditions], replaced(guard, here))
            return lif(mine, replaced(value, here), old(*k))

        self.now.functions[name] = remembered(new)

    def _recount(self, name: str, keys: Sequence[Formula], before: Snapshot) -> None:
        """Carry every count that reads the map or queue across a write at these keys.

        One element is concerned: for every key, the count changes by what it counts after, less what it counted before.
        """
        after = self.now.copy()
        for count in self.model.counts.values():
            if name not in count.reads:
                continue
            if not self.universe.counts_by_law:
                self.now.functions[count.name] = self.symbolic.written_out(count, after)
                continue
            places = count.reads[name][0]
            element = [keys[next(i for i, p in enumerate(places) if p is e)] for e in count.elements]
            if any(occurs(c, x) for x in element for _, c in self.binders):
                self.symbolic.recount(self.now, [count.name], "?")  # many elements at once: nothing is assumed
                self.unknown_counts.add(count.name)
                continue
            old = before.functions[count.name]

            def new(
                *k: Formula, old: Function = old, count: CountOf = count, element: list[Formula] = element
            ) -> Formula:
                return (
                    old(*k)
                    + self.symbolic.amount(count, after, element, k)
                    - self.symbolic.amount(count, before, element, k)
                )

            self.now.functions[count.name] = remembered(new)

    # ------------------------------------------------------------------------------------------------ loops

    def _loop(self, s: Loop) -> None:
        if self.path or self.binders:
            raise MachineError("a loop stands at the top level of an action, not inside `when` or `each`", s.line)
        if self.universe.is_finite:
            self._run_rounds(s)
        else:
            self._use_facts(s)

    def _run_rounds(self, s: Loop) -> None:
        """The loop itself, up to `rounds` rounds; runs that need more are left out."""
        count = num(self._value(s.count))
        done: Formula = z3.IntVal(0)
        self.views[f"entry:{s.number}"] = self.now.copy()
        going: Formula = True
        for i in range(self.rounds + 1):
            self.env[s.index.args[1]] = z3.IntVal(i)
            with self._on_path(going):
                self._body(s.going_lets)
                self._asked(s.going, s.line)
            going = land(going, less(z3.IntVal(i), count, strict=True), self._value(s.going))
            if i == self.rounds:
                break
            with self._on_path(going):
                self.halts.append((self.context, going, f"loop at {s.line}: ", self.now.copy()))
                if self.judged:
                    self._note_facts(s, z3.IntVal(i))
                self._body(s.body)
            done = lif(going, z3.IntVal(i + 1), done)
        self.halts.append((self.context, True, f"loop at {s.line}: ", self.now.copy()))
        self._learn(lnot(going))
        if self.judged:
            self._note_facts(s, done)
        self.temps[s.result] = done

    def _note_facts(self, s: Loop, index: Formula) -> None:
        self.env[s.index.args[1]] = index
        place = self.action.loops.index(s)
        for name, fact in s.facts.items():
            if (place, name) not in self.settled.facts:
                self.symbolic.looked_at.clear()
                formula = self._value(fact)
                about = frozenset(self.symbolic.looked_at)
                self._goal(f"loop at {s.line}: {name}", "", formula, s.line, about=about)

    def _use_facts(self, s: Loop) -> None:
        """The rule for loops of any number of rounds."""
        entry, label = self.now.copy(), f"loop at {s.line}: "
        self.views[f"entry:{s.number}"] = entry
        count = num(self._value(s.count))
        if self._touched_by_now():
            self._invariants(f"before {label}")
        self._note_facts(s, z3.IntVal(0))
        around, self.branches = self.context, []

        index = self.universe.fresh("i", Index)
        self._somewhere_in(s, entry, index, "~")
        self.env[s.index.args[1]] = index
        self._learn(less(z3.IntVal(0), index, strict=False), less(index, count, strict=True))
        self._body(s.going_lets)
        self._asked(s.going, s.line)
        self._learn(self._value(s.going))
        self._body(s.body)
        self._invariants(label)
        self._note_facts(s, index + 1)

        self.context, self.branches = around, []
        rounds = self.universe.fresh("rounds", Int)
        self._somewhere_in(s, entry, rounds, "'")
        self.env[s.index.args[1]] = rounds
        bounded = less(rounds, lif(less(z3.IntVal(0), count, strict=False), count, z3.IntVal(0)), strict=False)
        self._learn(less(z3.IntVal(0), rounds, strict=False), bounded)
        self._body(s.going_lets)
        none_left = (
            lnot(less(rounds, count, strict=True))
            if s.going.op == "lit"
            else limplies(less(rounds, count, strict=True), lnot(self._value(s.going)))
        )
        self._learn(none_left)
        self.temps[s.result] = rounds

    def _touched_by_now(self) -> bool:
        """Whether something that an invariant may read was written before the loop."""
        scratch = {n for n, m in self.model.maps.items() if m.scratch}
        return any(f is not self.before.functions[n] for n, f in self.now.functions.items() if n not in scratch)

    def _somewhere_in(self, s: Loop, entry: Snapshot, index: Formula, tag: str) -> None:
        """Any state in which a round may start: what the loop writes is arbitrary but for facts and invariants."""
        now = entry.copy()
        names = written(s.body)
        for name in names:
            self.symbolic.forget(now, name, tag)
        for name in names:
            for function in self._functions_of(name):
                now.functions[function] = self._framed(s, name, entry.functions[function], now.functions[function])
        self.symbolic.recount(now, [c.name for c in self.model.counts.values() if names & c.reads.keys()], tag)
        self.now, self.start = now, now.copy()
        known = self._arbitrary(now, resting=False)
        self.env[s.index.args[1]] = index
        self._learn(*known, *[self._value(fact) for fact in s.facts.values()])

    def _functions_of(self, name: str) -> list[str]:
        return [name] if name in self.model.maps else [f"{name}.{x}" for x in ("has", "rank", "lo", "hi")]

    def _framed(self, s: Loop, name: str, old: Function, new: Function) -> Function:
        """Entries that no round can reach are as they were: their key differs from one that all rounds share."""
        sites = [x for x in statements(s.body) if isinstance(x, Assign | Push | Remove) and x.name == name]
        inside = {x.name for x in statements([*s.going_lets, *s.body]) if isinstance(x, Let)}
        loose = {b.args[1] for x in statements(s.body) if isinstance(x, Each) for b in x.binders} | {s.index.args[1]}
        fixed: list[list[tuple[int, Formula]]] = []
        for site in sites:
            places = []
            for place, key in enumerate(site.keys):
                names = {p.args[0] for p in walk(key) if p.op == "temp"}
                variables = {p.args[1] for p in walk(key) if p.op == "var"}
                if not names & inside and not variables & loose:
                    places.append((place, num(self._value(key))))
            fixed.append(places)
        if any(not places for places in fixed):
            return new

        def framed(*k: Formula) -> Formula:
            reached = [land(*[leq(k[p], w) for p, w in places if p < len(k)]) for places in fixed]
            return lif(lor(*reached), new(*k), old(*k))

        return remembered(framed)
