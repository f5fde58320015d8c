"""Faults that the prover had, or could have, each put back: the test has to notice every one of them.

A fault is a context in which the prover (and nothing else) is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import z3

from kvproof.checkers import deciding, obligations, solvers
from kvproof.checkers.deciding import Deciding
from kvproof.machine import execution, formulas, knowledge, progress, reading, wellformed
from kvproof.machine import operations as op
from kvproof.machine.evaluation import Evaluation
from kvproof.machine.execution import Run
from kvproof.machine.formulas import Formula, Function, add, land, leq, less, lif, limplies, lnot, num, occurs, sub
from kvproof.machine.knowledge import Fact
from kvproof.machine.model import written
from kvproof.machine.program import Emit, Push, Statement, When, statements
from kvproof.machine.reads import reads_of
from kvproof.machine.symbolic import Snapshot, Symbolic
from kvproof.machine.terms import Index, Sort, Term, number_of
from kvproof.machine.traversal import parts
from kvproof.machine.universe import Unbounded

__all__ = ["FAULTS", "Fault"]

Fault = Callable[[], AbstractContextManager[Any]]


@contextmanager
def scratch_is_not_asked_before_a_loop() -> Iterator[None]:
    """Invariants that read scratch are known in the rounds of a loop, and not asked before it."""
    ordinary = Run._claims

    def claims(self: Run, label: str, prop: Any, *args: Any) -> None:
        scratch = {n for n, m in self.model.maps.items() if m.scratch}
        if not (label.startswith("before ") and reads_of(prop.formula).names & scratch):
            ordinary(self, label, prop, *args)

    with patch.object(Run, "_claims", claims):
        yield


def _written(
    self: Run,
    name: str,
    keys: Sequence[Formula],
    value: Formula,
    symbols: frozenset[str],
    *,
    path: Formula,
    is_bounded: bool = True,
    is_first_only: bool = True,
) -> None:
    """A write as it is, and as it should not be.

    ``is_bounded``: rounds of `each` write entries of elements only. ``is_first_only``: an element that stands at two
    places of the keys is the same at both; otherwise it stands for any, wherever it stands.
    """
    old = self.now.functions[name]
    stand_ins: list[tuple[int, Formula]] = []
    conditions: list[tuple[int, Formula]] = []
    domain: list[Formula] = []
    for place, key in enumerate(keys):
        kind = next((k for k, c in self.binders if isinstance(key, z3.ExprRef) and key.eq(c)), None)
        if kind is None or (is_first_only and any(key.eq(c) for _, c in stand_ins)):
            conditions.append((place, key))
            continue
        stand_ins.append((place, key))
        domain.append(self.universe.is_element(kind, key) if is_bounded else True)
    guard = land(path, *domain)

    def new(*k: Formula) -> Formula:
        here = [(c, num(k[p])) for p, c in stand_ins]
        mine = land(*[leq(k[p], formulas.replaced(w, here)) for p, w in conditions], formulas.replaced(guard, here))
        return lif(mine, formulas.replaced(value, here), old(*k))

    spoken = old.symbols.union(symbols, *self.path_symbols)
    self.now.functions[name] = self.universe.defined(name, spoken, new)


@contextmanager
def rounds_of_each_may_meet() -> Iterator[None]:
    """Nothing looks whether the rounds of `each` write and read what is their own, and an element stands for any."""

    def write(self: Run, *args: Any) -> None:
        _written(self, *args, path=land(*self.path), is_bounded=False, is_first_only=False)

    with patch.object(reading, "check_each", lambda *_: None), patch.object(Run, "_write", write):
        yield


@contextmanager
def rounds_of_each_may_read_each_other() -> Iterator[None]:
    """The same, where writes are encoded as they are today."""
    with patch.object(reading, "check_each", lambda *_: None):
        yield


@contextmanager
def rounds_of_each_have_no_end() -> Iterator[None]:
    """`each` writes the entries of what is no element, too."""

    def write(self: Run, *args: Any) -> None:
        _written(self, *args, path=land(*self.path), is_bounded=False)

    with patch.object(Run, "_write", write):
        yield


@contextmanager
def conditions_in_each_are_forgotten() -> Iterator[None]:
    """What stands under `when` inside an `each` is written for every element."""
    ordinary = Run._write

    def write(self: Run, *args: Any) -> None:
        if self.binders:
            _written(self, *args, path=True)
        else:
            ordinary(self, *args)

    with patch.object(Run, "_write", write):
        yield


@contextmanager
def steps_need_no_value() -> Iterator[None]:
    """Properties of steps are not asked for a value."""

    def step(self: Run, prop: Any, env: dict[int, Formula], env_symbols: dict[int, frozenset[str]]) -> None:
        self._claims("", prop, self.now.copy(), {"before": self.before}, env, env_symbols)

    with patch.object(Run, "_step", step):
        yield


@contextmanager
def properties_need_no_value() -> Iterator[None]:
    """Properties of states are not asked for a value."""
    with patch.object(obligations, "values_where_wanted", lambda *_, **__: None):
        yield


@contextmanager
def statements_need_no_value() -> Iterator[None]:
    """What an action reads is not asked for a value."""
    with patch.object(Run, "_asked", lambda *_: None):
        yield


@contextmanager
def steps_begin_where_they_end() -> Iterator[None]:
    """For properties of steps the state before is the state after."""
    ordinary = Run._step

    def step(self: Run, *args: Any) -> None:
        with patch.object(self, "before", self.now):
            ordinary(self, *args)

    with patch.object(Run, "_step", step):
        yield


@contextmanager
def first_values_have_any_type() -> Iterator[None]:
    """First values are taken to be of their type, and not asked."""

    def never(*_: Any, is_optional: bool) -> bool:
        return False

    with patch.object(obligations, "may_misfit", never), patch.object(knowledge, "may_misfit", never):
        yield


@contextmanager
def first_states_are_not_asked() -> Iterator[None]:
    """Nothing asks whether invariants hold at first."""
    ordinary = obligations.initially

    def initially(*args: Any) -> Any:
        problems = ordinary(*args)
        problems.goals[:] = [g for g in problems.goals if g.prop is None]
        return problems

    with patch.object(obligations, "initially", initially):
        yield


@contextmanager
def corollaries_are_known() -> Iterator[None]:
    """Corollaries are known of every state, as invariants are."""

    def everything(symbolic: Symbolic, state: Snapshot, moment: str) -> list[Fact]:
        every = symbolic.model.of_kind("invariant")
        return [f for prop in every for f in knowledge._claims(symbolic, prop, state, moment)]

    with patch.object(progress, "invariants", everything):
        yield


@contextmanager
def indices_have_no_end() -> Iterator[None]:
    """Every natural number is an index."""
    ordinary = Unbounded.is_element

    def is_element(self: Unbounded, kind: type[Term], value: Formula) -> Formula:
        if issubclass(kind, Index) and not self.is_finite:
            return less(z3.IntVal(0), value, strict=False)
        return ordinary(self, kind, value)

    with patch.object(Unbounded, "is_element", is_element):
        yield


@contextmanager
def indices_are_several() -> Iterator[None]:
    """There are two indices of each kind, at least."""
    ordinary = Unbounded.background

    def background(self: Unbounded) -> list[Formula]:
        kinds = [k for k in self.model.sorts.values() if issubclass(k, Index) and k is not Index]
        return [*ordinary(self), *(less(z3.IntVal(1), self.size_of(k), strict=True) for k in kinds)]

    with patch.object(Unbounded, "background", background):
        yield


@contextmanager
def scopes_hold_off_the_path() -> Iterator[None]:
    """That an index is within its scope is known also where the write under `when` did not happen."""
    ordinary = Run._learn_formula

    def learn(self: Run, label: str, symbols: frozenset[str], formula: Formula) -> None:
        is_scope = label.startswith("scope of ") and z3.is_implies(formula)
        ordinary(self, label, symbols, formula.arg(1) if is_scope else formula)

    with patch.object(Run, "_learn_formula", learn):
        yield


@contextmanager
def what_is_asked_is_known() -> Iterator[None]:
    """What is asked of a statement may be used to prove it."""
    ordinary = Run._goal

    def goal(
        self: Run, name: str, rule: str, line: Any, symbols: Any, build: Any, prop: Any = None, **more: Any
    ) -> None:
        if prop is None:
            self._learn(Fact(name, symbols, build))
        ordinary(self, name, rule, line, symbols, build, prop, **more)

    with patch.object(Run, "_goal", goal):
        yield


@contextmanager
def counts_are_never_touched() -> Iterator[None]:
    """An invariant of counts is not asked where no map that it reads was written."""
    ordinary = Run._is_untouched

    def untouched(self: Run, name: str) -> bool:
        return name in self.model.counts or ordinary(self, name)

    with patch.object(Run, "_is_untouched", untouched):
        yield


@contextmanager
def one_untouched_is_enough() -> Iterator[None]:
    """An invariant is not asked where one of the things that it reads was not written."""
    with patch.object(progress, "all", any, create=True):
        yield


@contextmanager
def a_write_moves_one_count() -> Iterator[None]:
    """A write changes the count of the keys that are written, and of no others."""

    def recount(self: Run, name: str, keys: Sequence[Formula], symbols: frozenset[str], before: Any) -> None:
        after = self.now.copy()
        for count in self.model.counts.values():
            if name not in count.reads:
                continue
            places = count.reads[name][0]
            element = [keys[next(i for i, p in enumerate(places) if p is e)] for e in count.elements]
            if any(occurs(c, x) for x in element for _, c in self.binders):
                self.many.add(count.name)
                continue
            old = before.functions[count.name]
            own = [(i, keys[j]) for i, k in enumerate(count.keys) for j, p in enumerate(places) if p is k]

            def new(*k: Formula, old: Any = old, count: Any = count, element: Any = element, own: Any = own) -> Formula:
                gained = self.symbolic.amount(count, after, element, k)
                moved = sub(add(old(*k), gained), self.symbolic.amount(count, before, element, k))
                return lif(land(*[leq(k[i], w) for i, w in own]), moved, old(*k))

            spoken = old.symbols.union(symbols, *(f.symbols for s in (before, after) for f in s.functions.values()))
            self.now.functions[count.name] = self.universe.defined(count.name, spoken, new)

    with patch.object(Run, "_recount", recount):
        yield


@contextmanager
def members_count_twice() -> Iterator[None]:
    """A count with a member is 2 at least."""
    ordinary = knowledge._counting

    def counting(symbolic: Symbolic, count: Any, state: Snapshot, moment: str) -> list[Fact]:
        u, total, n = symbolic.universe, state.functions[count.name], len(count.elements)
        kinds = [type(k) for k in (*count.elements, *count.keys)]

        def two(*v: Formula) -> Formula:
            weight = symbolic.weight(count, state, v[:n], v[n:])
            is_member = symbolic.member(count, state, v[:n], v[n:])
            return limplies(is_member, less(add(weight, weight), total(*v[n:]), strict=False))

        facts = ordinary(symbolic, count, state, moment)
        return [
            *facts,
            Fact(f"{count.name}: twice{moment}", facts[0].symbols, lambda: u.quantify("forall", kinds, two)),
        ]

    with patch.object(knowledge, "_counting", counting):
        yield


@contextmanager
def counts_need_no_members() -> Iterator[None]:
    """A count has a member, whatever it is."""
    ordinary = knowledge._counting

    def counting(symbolic: Symbolic, count: Any, state: Snapshot, moment: str) -> list[Fact]:
        u, total = symbolic.universe, state.functions[count.name]
        zero, kinds = u.literal(count.to, 0), [type(k) for k in count.keys]

        def more(*k: Formula) -> Formula:
            return less(zero, total(*k), strict=True)

        facts = ordinary(symbolic, count, state, moment)
        return [
            *facts,
            Fact(f"{count.name}: more{moment}", facts[0].symbols, lambda: u.quantify("forall", kinds, more)),
        ]

    with patch.object(knowledge, "_counting", counting):
        yield


@contextmanager
def counts_are_compared_without_condition() -> Iterator[None]:
    """When many elements changed, counts that are compared are alike, whatever is counted."""

    def compared(symbolic: Symbolic, a: Any, at: Snapshot, b: Any, then: Snapshot, *, equal: bool = False) -> Fact:
        first, second = at.functions[a.name], then.functions[b.name]

        def no_more(*k: Formula) -> Formula:
            return less(first(*k), second(*k), strict=False)

        kinds = [type(k) for k in a.keys]
        symbols = first.symbols | second.symbols
        return Fact("compared", symbols, lambda: symbolic.universe.quantify("forall", kinds, no_more))

    with patch.object(knowledge, "compared", compared):
        yield


@contextmanager
def counts_are_compared_while_stale() -> Iterator[None]:
    """When many elements changed, a count of the state after is compared with others of the state before."""
    ordinary = knowledge.bounded

    def bounded(symbolic: Symbolic, count: Any, before: Snapshot, after: Snapshot) -> list[Fact]:
        stale = after.copy()
        for name in symbolic.model.counts:
            if name > count.name:
                stale.functions[name] = before.functions[name]
        return ordinary(symbolic, count, before, stale)

    with patch.object(execution, "bounded", bounded):
        yield


@contextmanager
def proofs_need_no_facts() -> Iterator[None]:
    """What was proved once follows anywhere, whatever its proof needed."""
    with patch.object(Deciding, "_at_hand", lambda *_: []), patch.object(deciding, "SAMPLE", 0.0):
        yield


@contextmanager
def counts_stay_when_many_change() -> Iterator[None]:
    """`each` changes no count."""
    with patch.object(execution, "bounded", lambda symbolic, count, before, after: []):
        ordinary = Run._each

        def each(self: Run, s: Any) -> None:
            before = self.now.copy()
            ordinary(self, s)
            for name in self.unknown_counts:
                self.now.functions[name] = before.functions[name]

        with patch.object(Run, "_each", each):
            yield


@contextmanager
def optional_values_are_never_none() -> Iterator[None]:
    """What may be none is known to be an element."""
    ordinary = knowledge._typed

    def typed(symbolic: Symbolic, name: str, function: Function, moment: str) -> Fact:
        mapping = symbolic.model.maps[name]
        if not mapping.is_optional:
            return ordinary(symbolic, name, function, moment)
        u = symbolic.universe

        def there(*k: Formula) -> Formula:
            return lnot(leq(function(*k), u.literal(mapping.to, None)))

        return Fact(f"type of {name}{moment}", function.symbols, lambda: u.quantify("forall", mapping.kinds, there))

    with patch.object(knowledge, "_typed", typed):
        yield


@contextmanager
def anything_is_an_element() -> Iterator[None]:
    """Nothing asks whether what is stored is of its type."""
    ordinary = Run._goal

    def goal(self: Run, name: str, *args: Any, **more: Any) -> None:
        if " gets an " not in name:
            ordinary(self, name, *args, **more)

    with patch.object(Run, "_goal", goal):
        yield


@contextmanager
def values_are_read_where_they_are_used() -> Iterator[None]:
    """What an action read is read once more where it is used."""
    ordinary = Evaluation.of

    def of(self: Evaluation, t: Term, env: dict[int, Formula], *more: Any) -> Formula:
        if isinstance(t.operation, op.Temporary):
            return ordinary(self, t.operation.value, env, *more)
        return ordinary(self, t, env, *more)

    with patch.object(Evaluation, "of", of):
        yield


def _is_before_the_loop(run: Run, s: Any) -> bool:
    return bool(z3.is_int_value(run.env[number_of(s.index)]))


@contextmanager
def loop_facts_are_asked_at_first_only() -> Iterator[None]:
    """That a round keeps the facts of its loop is not asked."""
    ordinary = Run._note_facts

    def note(self: Run, s: Any) -> None:
        if _is_before_the_loop(self, s):
            ordinary(self, s)

    with patch.object(Run, "_note_facts", note):
        yield


@contextmanager
def loop_facts_are_asked_in_rounds_only() -> Iterator[None]:
    """That the facts of a loop hold before it is not asked."""
    ordinary = Run._note_facts

    def note(self: Run, s: Any) -> None:
        if not _is_before_the_loop(self, s):
            ordinary(self, s)

    with patch.object(Run, "_note_facts", note):
        yield


@contextmanager
def rounds_need_not_keep_invariants() -> Iterator[None]:
    """That a round keeps the invariants is not asked."""
    ordinary = Run._claims

    def claims(self: Run, label: str, *args: Any) -> None:
        if not label.startswith("loop at "):
            ordinary(self, label, *args)

    with patch.object(Run, "_claims", claims):
        yield


@contextmanager
def loops_leave_one_thing_alone() -> Iterator[None]:
    """Of what a loop writes the last is as it was before it."""
    ordinary = written

    with patch.object(execution, "written", lambda body: set(sorted(ordinary(body))[:-1])):
        yield


@contextmanager
def heads_are_tails() -> Iterator[None]:
    """The head of a queue is its last member."""
    ordinary = Symbolic.end_of

    def end_of(self: Symbolic, state: Snapshot, name: str, op: str) -> Function:
        end, queue = ordinary(self, state, name, op), self.model.queues[name]
        has, rank = state.functions[f"{name}.has"], state.functions[f"{name}.rank"]

        def extreme(*k: Formula) -> Formula:
            e, keys = end(*k[:-1]), k[:-1]
            a, b = (e, k[-1]) if op == "tail" else (k[-1], e)
            order = less(rank(*keys, a), rank(*keys, b), strict=False)
            return limplies(has(*k), land(self.universe.is_element(queue.of, e), has(*keys, e), order))

        called = self.end_name(state, name, op)
        self.ends[called] = lambda: self.universe.quantify("forall", (*queue.kinds, queue.of), extreme)
        return end

    with patch.object(Symbolic, "end_of", end_of):
        yield


@contextmanager
def queues_are_pushed_at_the_other_end() -> Iterator[None]:
    """The back is the front."""
    ordinary = Run._push

    def push(self: Run, s: Push) -> None:
        other = {"back": "front", "front": "back"}.get(s.where, s.where)
        ordinary(self, Push(s.name, s.keys, s.element, other, s.anchor, s.line))  # type: ignore[arg-type]

    with patch.object(Run, "_push", push):
        yield


@contextmanager
def members_may_be_pushed() -> Iterator[None]:
    """Nothing asks whether what is pushed stands in the queue already, or what is removed does."""
    ordinary = Run._goal

    def goal(self: Run, name: str, *args: Any, **more: Any) -> None:
        if " stand in " not in name and " stands in " not in name:
            ordinary(self, name, *args, **more)

    with patch.object(Run, "_goal", goal):
        yield


@contextmanager
def the_other_way_is_forgotten() -> Iterator[None]:
    """What follows `otherwise` happens wherever it stands."""

    def when(self: Run, s: When) -> None:
        with self._on_path(self._value(s.condition), self._symbols(s.condition)):
            self._body(s.then)
        self._body(s.otherwise)

    with patch.object(Run, "_when", when):
        yield


@contextmanager
def conditions_are_forgotten() -> Iterator[None]:
    """What stands under `when` happens always."""

    def when(self: Run, s: When) -> None:
        self._body(s.then)
        with self._on_path(lnot(self._value(s.condition)), self._symbols(s.condition)):
            self._body(s.otherwise)

    with patch.object(Run, "_when", when):
        yield


@contextmanager
def one_case_is_enough() -> Iterator[None]:
    """Where a question is split into cases, the first of them decides."""
    ordinary = solvers._where
    with patch.object(solvers, "_where", lambda question, branch, **_: ordinary(question, branch, truth=True)):
        yield


@contextmanager
def one_of_a_group_is_enough() -> Iterator[None]:
    """Of goals that are asked together the first decides."""
    with patch.object(deciding, "land", lambda *parts: parts[0]):
        yield


@contextmanager
def lemmas_hold_anywhere() -> Iterator[None]:
    """What is open may be used to prove something else."""

    def lemmas(self: Deciding, goals: Collection[Any]) -> list[Fact]:
        asked = set(map(id, goals))
        others = [d.goal for d in self.decisions if id(d.goal) not in asked]
        return [Fact(f"proved: {g.name}", g.symbols, g.build) for g in others]

    with patch.object(Deciding, "_lemmas", lemmas):
        yield


@contextmanager
def extra_elements_are_ordinary() -> Iterator[None]:
    """An extra element of a wide sort is an element of the sort that it is made from."""
    ordinary = Unbounded.is_element

    def is_element(self: Unbounded, kind: type[Term], value: Formula) -> Formula:
        if issubclass(kind, Sort) and not self.is_finite:
            return lnot(leq(value, self.literal(kind, None)))
        return ordinary(self, kind, value)

    with patch.object(Unbounded, "is_element", is_element):
        yield


@contextmanager
def counts_stay() -> Iterator[None]:
    """A write changes no count."""
    with patch.object(Run, "_recount", lambda *_: None):
        yield


@contextmanager
def loops_leave_counts_alone() -> Iterator[None]:
    """After a loop counts are what they were before."""
    ordinary = Run._somewhere_in

    def somewhere(self: Run, *args: Any) -> None:
        with patch.object(self.symbolic, "recount", lambda *_: None):
            ordinary(self, *args)

    with patch.object(Run, "_somewhere_in", somewhere):
        yield


@contextmanager
def none_is_a_key() -> Iterator[None]:
    """Every key is one."""
    with (
        patch.object(wellformed.WellFormed, "_keys", lambda *_: True),
        patch.object(Run, "_demand_keys", lambda *_: None),
    ):
        yield


@contextmanager
def divisors_are_positive() -> Iterator[None]:
    """Nothing asks what is divided by."""
    ordinary = wellformed.WellFormed.demands

    def demands(self: Any, term: Term, env: dict[int, Formula]) -> Formula:
        if isinstance(term.operation, op.Divide | op.FloorDivide | op.Modulo):
            return land(*[self.demands(p, env) for p in parts(term)])
        return ordinary(self, term, env)

    with patch.object(wellformed.WellFormed, "demands", demands):
        yield


@contextmanager
def loops_end_at_their_count() -> Iterator[None]:
    """Every loop does all its rounds, whatever keeps it going."""
    ordinary = Run._use_facts

    def use(self: Run, s: Any) -> None:
        ordinary(self, s)
        count = num(self._value(s.count))
        rounds = lif(less(z3.IntVal(0), count, strict=False), count, z3.IntVal(0))
        spoken = self._symbols(s.count) | self.temp_symbols[s.result]
        self._learn_formula("all rounds", spoken, leq(self.temps[s.result], rounds))

    with patch.object(Run, "_use_facts", use):
        yield


@contextmanager
def scratch_may_stay() -> Iterator[None]:
    """Nothing asks whether scratch is back at its first value."""
    ordinary = Run._goal

    def goal(self: Run, name: str, *args: Any, **more: Any) -> None:
        if "is back at its first value" not in name:
            ordinary(self, name, *args, **more)

    with patch.object(Run, "_goal", goal):
        yield


@contextmanager
def loops_write_nothing_else() -> Iterator[None]:
    """All entries of a map but those with the key of the first write are as they were before a loop."""
    ordinary = statements

    def framed(self: Run, s: Any, name: str, *args: Any) -> Any:
        sites = [x for x in ordinary(s.body) if getattr(x, "name", None) == name and hasattr(x, "keys")]
        with patch.object(execution, "statements", lambda body: iter(sites[:1]) if body is s.body else ordinary(body)):
            return whole(self, s, name, *args)

    whole = Run._framed
    with patch.object(Run, "_framed", framed):
        yield


@contextmanager
def sums_count_once() -> Iterator[None]:
    """In a sum every element counts 1."""

    def amount(self: Symbolic, count: Any, state: Any, elements: Any, keys: Any) -> Formula:
        one, nothing = self.universe.literal(count.to, 1), self.universe.literal(count.to, 0)
        return lif(self.member(count, state, elements, keys), one, nothing)

    with patch.object(Symbolic, "amount", amount):
        yield


@contextmanager
def listeners_hear_nothing() -> Iterator[None]:
    """An event changes nothing."""
    ordinary = Run._body

    def body(self: Run, given: list[Statement]) -> None:
        ordinary(self, [replace(s, heard=[]) if isinstance(s, Emit) else s for s in given])

    with patch.object(Run, "_body", body):
        yield


@contextmanager
def rounds_read_sizes_from_before() -> Iterator[None]:
    """In a round of `each` a count stays where the element that it concerns is that of the round."""
    ordinary = Run._recount

    def recount(self: Run, name: str, keys: Sequence[Formula], symbols: frozenset[str], before: Snapshot) -> None:
        ordinary(self, name, keys, symbols, before)
        self.now.functions.update({n: before.functions[n] for n in self.many})

    with patch.object(Run, "_recount", recount):
        yield


@contextmanager
def counts_go_on_behind_the_last_index() -> Iterator[None]:
    """A count behind the last index is carried as any other."""

    def total(self: Evaluation, read: Any, name: str, keys: list[Formula]) -> Formula:
        known = self.symbolic.params if name in self.symbolic.params else self._state(read.view).functions
        return known[name](*keys)

    with patch.object(Evaluation, "_total", total):
        yield


FAULTS: dict[str, Fault] = {
    f.__name__: f
    for f in (
        rounds_read_sizes_from_before,
        counts_go_on_behind_the_last_index,
        scratch_is_not_asked_before_a_loop,
        rounds_of_each_may_meet,
        rounds_of_each_may_read_each_other,
        rounds_of_each_have_no_end,
        conditions_in_each_are_forgotten,
        steps_need_no_value,
        properties_need_no_value,
        statements_need_no_value,
        steps_begin_where_they_end,
        first_values_have_any_type,
        first_states_are_not_asked,
        corollaries_are_known,
        indices_have_no_end,
        indices_are_several,
        scopes_hold_off_the_path,
        what_is_asked_is_known,
        counts_are_never_touched,
        one_untouched_is_enough,
        a_write_moves_one_count,
        members_count_twice,
        counts_need_no_members,
        counts_are_compared_without_condition,
        counts_are_compared_while_stale,
        counts_stay_when_many_change,
        proofs_need_no_facts,
        optional_values_are_never_none,
        anything_is_an_element,
        values_are_read_where_they_are_used,
        loop_facts_are_asked_at_first_only,
        loop_facts_are_asked_in_rounds_only,
        rounds_need_not_keep_invariants,
        loops_leave_one_thing_alone,
        heads_are_tails,
        queues_are_pushed_at_the_other_end,
        members_may_be_pushed,
        the_other_way_is_forgotten,
        conditions_are_forgotten,
        one_case_is_enough,
        one_of_a_group_is_enough,
        lemmas_hold_anywhere,
        extra_elements_are_ordinary,
        counts_stay,
        loops_leave_counts_alone,
        none_is_a_key,
        divisors_are_positive,
        loops_end_at_their_count,
        scratch_may_stay,
        loops_write_nothing_else,
        sums_count_once,
        listeners_hear_nothing,
    )
}
