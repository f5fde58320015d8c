"""The symbolic interpreter: a machine's states and properties as formulas for Z3.

A state is a set of functions from keys to formulas. The state that an action starts from is made of uninterpreted
functions; a write wraps a function in one more "if the key is this one" (`execution.py`). So the state after an action
is a formula over the state before it, and an obligation holds only uninterpreted functions, integers and quantifiers:
no arrays.

What is trusted here, beside the encoding: the counting facts in `counting` and `same_members`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import z3

from .formulas import Formula, Function, land, leq, less, lif, limplies, lnot, lor, num, real, remembered
from .language import Map
from .model import CountOf, Model, Property
from .scope import NONE
from .terms import Bool, Int, Real, Term, clauses, fits, variables
from .universe import Finite, Unbounded

__all__ = ["Snapshot", "Symbolic"]


@dataclass
class Snapshot:
    """A state: a function for each map, for each queue's membership, rank and bounds, and for each count."""

    functions: dict[str, Function]

    def copy(self) -> Snapshot:
        """A snapshot that can change without changing this one."""
        return Snapshot(dict(self.functions))


class Symbolic:
    """A machine's formulas in a universe."""

    def __init__(self, model: Model, universe: Unbounded) -> None:
        self.model, self.universe = model, universe
        self.params: dict[str, Function] = {n: universe.function(n, m.kinds, m.to) for n, m in model.params.items()}
        self.definitions: list[Formula] = []
        self.looked_at: set[str] = set()
        """The functions of states that were read since this was last emptied."""
        self.about: dict[int, tuple[Formula, frozenset[str]]] = {}
        """For formulas that are known of any state: which functions they speak of."""
        self._ends: dict[tuple[str, str, int, int], tuple[Function, Function, Function]] = {}

    # ------------------------------------------------------------------------------------------------ states

    def arbitrary(self, tag: str = "") -> Snapshot:
        """A state of which nothing is known; `typing` says what always is."""
        state = Snapshot({})
        for name in [*self.model.maps, *self.model.queues]:
            if name not in self.model.params:
                self.forget(state, name, tag)
        self.recount(state, list(self.model.counts), tag)
        return state

    def forget(self, state: Snapshot, name: str, tag: str = "") -> None:
        """Make a map or queue arbitrary."""
        u = self.universe
        if name in self.model.maps:
            mapping = self.model.maps[name]
            state.functions[name] = u.function(f"{name}{tag}", mapping.kinds, mapping.to)
            return
        queue = self.model.queues[name]
        state.functions[f"{name}.has"] = u.function(f"{name}.has{tag}", (*queue.kinds, queue.of), Bool)
        state.functions[f"{name}.rank"] = u.function(f"{name}.rank{tag}", (*queue.kinds, queue.of), Int)
        state.functions[f"{name}.lo"] = u.function(f"{name}.lo{tag}", queue.kinds, Int)
        state.functions[f"{name}.hi"] = u.function(f"{name}.hi{tag}", queue.kinds, Int)

    def recount(self, state: Snapshot, names: Iterable[str], tag: str = "") -> None:
        """Make counts arbitrary (`counting` says what is known of them); written out where the universe is finite."""
        for name in names:
            count = self.model.counts[name]
            if not self.universe.counts_by_law:
                state.functions[name] = self.written_out(count, state)
            elif count.reads or name not in self.params:
                state.functions[name] = self.universe.function(name + tag, [type(k) for k in count.keys], count.to)
                if not count.reads:  # it never changes: one function for all states
                    self.params[name] = state.functions[name]
            else:
                state.functions[name] = self.params[name]

    def written_out(self, count: CountOf, state: Snapshot) -> Function:
        """A count as a sum over all elements of a finite universe."""
        frozen = state.copy()

        def total(*keys: Formula) -> Formula:
            universe = self.universe
            assert isinstance(universe, Finite)
            choices = itertools.product(*[universe.elements(type(e)) for e in count.elements])
            terms = [self.amount(count, frozen, c, keys) for c in choices]
            return z3.Sum(terms) if len(terms) > 1 else terms[0]

        return remembered(total)

    def member(self, count: CountOf, state: Snapshot, elements: Sequence[Formula], keys: Sequence[Formula]) -> Formula:
        """The element has the property that is counted."""
        env = {b.args[1]: v for b, v in zip((*count.elements, *count.keys), (*elements, *keys), strict=True)}
        inside = land(*[self.universe.is_element(type(b), v) for b, v in zip(count.elements, elements, strict=True)])
        return land(inside, self.value(count.formula, state, env))

    def amount(self, count: CountOf, state: Snapshot, elements: Sequence[Formula], keys: Sequence[Formula]) -> Formula:
        """How much the element counts: 1 or, in a sum, its weight; 0 where it does not."""
        weight: Formula = self.universe.literal(count.to, 1)
        if count.weight is not None:
            env = {b.args[1]: v for b, v in zip((*count.elements, *count.keys), (*elements, *keys), strict=True)}
            weight = num(self.value(count.weight, state, env))
        return lif(self.member(count, state, elements, keys), weight, self.universe.literal(count.to, 0))

    def first(self) -> tuple[Snapshot, list[Formula]]:
        """The first state, and what is known of it."""
        state, known = self.arbitrary("0"), []
        for name, (keys, term) in self.model.inits.items():
            target = name if name in self.model.maps else f"{name}.has"

            def start(*values: Formula, name: str = name, keys: tuple[Term, ...] = keys, term: Term = term) -> Formula:
                return self.start_value(name, keys, term, state, values)

            if name in self.model.maps:
                state.functions[target] = remembered(start)
                continue
            # Membership keeps its name, so that what is known of members is found where it is asked for.
            kinds, has = [type(k) for k in keys], state.functions[target]
            known.append(
                self.universe.quantify("forall", kinds, lambda *k, has=has, start=start: leq(has(*k), start(*k)))
            )
        self.recount(state, list(self.model.counts), "0")
        known += [self.universally(p, state, None, {}) for p in self.model.of_kind("initially")]
        return state, [*self.typing(state), *self.counting(state), *self.same_members(state), *known]

    def start_value(
        self, name: str, keys: Sequence[Term], term: Term, state: Snapshot, values: Sequence[Formula]
    ) -> Formula:
        """The first value of an entry."""
        kind = self.model.maps[name].to if name in self.model.maps else Bool
        env = {k.args[1]: v for k, v in zip(keys, values, strict=True)}
        return num(self.value(term, state, env, kind=kind))

    # ------------------------------------------------------------------------------------ what is known of any state

    def about_params(self) -> list[Formula]:
        """Types of the parameters, and what the machine assumes of them."""
        facts = self.universe.background()
        for name, mapping in self.model.params.items():
            facts += self._typed(mapping.kinds, mapping.to, mapping.is_optional, self.params[name])
        nothing = Snapshot({})
        facts += [self.universally(p, nothing, None, {}) for p in self.model.of_kind("assume")]
        return facts

    def _typed(
        self, kinds: Sequence[type[Term]], to: type[Term], is_optional: bool, function: Function
    ) -> list[Formula]:
        u = self.universe

        def typed(*keys: Formula) -> Formula:
            value = function(*keys)
            inside = u.is_element(to, value)
            if not is_optional or inside is True:
                return inside
            return lor(inside, leq(value, u.literal(to, None)))

        formula = u.quantify("forall", kinds, typed)
        return [] if formula is True else [formula]

    def typing(self, state: Snapshot) -> list[Formula]:
        """Values have their types; members of a queue have different ranks between its bounds."""
        u, facts = self.universe, []
        for name, mapping in self.model.maps.items():
            if not mapping.is_param:
                facts += self.tagged(
                    self._typed(mapping.kinds, mapping.to, mapping.is_optional, state.functions[name]), name
                )
        for name, queue in self.model.queues.items():
            f, n = state.functions, len(queue.kinds)
            has, rank, lo, hi = (f[f"{name}.{x}"] for x in ("has", "rank", "lo", "hi"))

            def within(
                *k: Formula,
                has: Function = has,
                rank: Function = rank,
                lo: Function = lo,
                hi: Function = hi,
                n: int = n,
            ) -> Formula:
                r = rank(*k)
                return limplies(has(*k), land(less(lo(*k[:n]), r, strict=True), less(r, hi(*k[:n]), strict=True)))

            def apart(*k: Formula, has: Function = has, rank: Function = rank, n: int = n) -> Formula:
                a, b = (*k[:n], k[n]), (*k[:n], k[n + 1])
                return limplies(land(has(*a), has(*b), leq(rank(*a), rank(*b))), leq(k[n], k[n + 1]))

            def bounds(*k: Formula, lo: Function = lo, hi: Function = hi) -> Formula:
                return less(lo(*k), hi(*k), strict=True)

            known = [
                u.quantify("forall", (*queue.kinds, queue.of), within),
                u.quantify("forall", (*queue.kinds, queue.of, queue.of), apart),
                u.quantify("forall", queue.kinds, bounds),
            ]
            facts += self.tagged(known, f"{name}.has", f"{name}.rank")
        return facts

    def counting(self, state: Snapshot, names: Iterable[str] | None = None) -> list[Formula]:
        """The counting facts: trusted, and true of the number of members of any finite set.

        It is not negative; with a member it is at least 1, with two different ones at least 2; where it is at least 1
        there is a member. A sum, likewise: at least the weight of any member, and of any two together; where it is
        more than 0, some weight is.
        """
        if not self.universe.counts_by_law:
            return []
        facts: list[Formula] = []
        for name in self.model.counts if names is None else names:
            facts += self.tagged(self._counting_facts(self.model.counts[name], state), name)
        return facts

    def _counting_facts(self, count: CountOf, state: Snapshot) -> list[Formula]:
        u, total = self.universe, state.functions[count.name]
        over, by = [type(e) for e in count.elements], [type(k) for k in count.keys]
        n = len(over)
        witness = [u.function(f"member.{count.name}", by, kind) for kind in over]

        def one(*v: Formula) -> Formula:
            enough = less(self.amount(count, state, v[:n], v[n:]), total(*v[n:]), strict=False)
            return limplies(self.member(count, state, v[:n], v[n:]), enough)

        def two(*v: Formula) -> Formula:
            a, b, keys = v[:n], v[n : 2 * n], v[2 * n :]
            differ = lor(*[lnot(leq(x, y)) for x, y in zip(a, b, strict=True)])
            both = land(self.member(count, state, a, keys), self.member(count, state, b, keys), differ)
            together = self.amount(count, state, a, keys) + self.amount(count, state, b, keys)
            return limplies(
                both, less(together if count.weight is not None else z3.IntVal(2), total(*keys), strict=False)
            )

        def some(*keys: Formula) -> Formula:
            is_member = self.member(count, state, [w(*keys) for w in witness], keys)
            nothing, one = u.literal(count.to, 0), u.literal(count.to, 1)
            is_some = less(nothing if count.to is Real else one, total(*keys), strict=count.to is Real)
            return land(less(nothing, total(*keys), strict=False), limplies(is_some, is_member))

        return [
            u.quantify("forall", (*over, *by), one),
            u.quantify("forall", (*over, *over, *by), two),
            u.quantify("forall", by, some),
        ]

    def same_members(self, state: Snapshot) -> list[Formula]:
        """The last counting fact: where every element counts as much in both, two counts are equal."""
        if not self.universe.counts_by_law:
            return []
        facts: list[Formula] = []
        for a, b in itertools.combinations(self.model.counts.values(), 2):
            over, by = [type(e) for e in a.elements], [type(k) for k in a.keys]
            if over == [type(e) for e in b.elements] and by == [type(k) for k in b.keys]:
                facts.append(self._equal_if_alike(a, b, state, over, by))
        return facts

    def _equal_if_alike(
        self, a: CountOf, b: CountOf, state: Snapshot, over: list[type[Term]], by: list[type[Term]]
    ) -> Formula:
        """Two counts over the same sorts are equal for every key for which every element counts as much in both."""

        def equal(*keys: Formula) -> Formula:
            def alike(*e: Formula) -> Formula:
                return leq(self.amount(a, state, e, keys), self.amount(b, state, e, keys))

            same = self.universe.quantify("forall", over, alike)
            return limplies(same, leq(state.functions[a.name](*keys), state.functions[b.name](*keys)))

        return self.universe.quantify("forall", by, equal)

    def rested(self, state: Snapshot) -> list[tuple[str, Formula]]:
        """Scratch maps have their first values."""
        facts = []
        for name, mapping in self.model.maps.items():
            if mapping.scratch:
                keys, term = self.model.inits[name]

                def same(*v: Formula, name: str = name, keys: tuple[Term, ...] = keys, term: Term = term) -> Formula:
                    return leq(state.functions[name](*v), self.start_value(name, keys, term, state, v))

                facts.append((name, self.universe.quantify("forall", mapping.kinds, same)))
        return facts

    def end_of(self, state: Snapshot, name: str, op: str) -> Function:
        """The head or tail of a queue in this state; what is known of it is added to `definitions`."""
        has, rank = state.functions[f"{name}.has"], state.functions[f"{name}.rank"]
        place = (name, op, id(has), id(rank))
        if place in self._ends:
            return self._ends[place][0]
        u, queue = self.universe, self.model.queues[name]
        n = len(queue.kinds)
        end = u.function(f"{name}.{op}", queue.kinds, queue.of)

        def extreme(*k: Formula) -> Formula:
            e = end(*k[:n])
            mine, other = rank(*k[:n], e), rank(*k)
            order = less(mine, other, strict=False) if op == "head" else less(other, mine, strict=False)
            return limplies(has(*k), land(u.is_element(queue.of, e), has(*k[:n], e), order))

        self.definitions.append(u.quantify("forall", (*queue.kinds, queue.of), extreme))
        self._ends[place] = (end, has, rank)
        return end

    # ------------------------------------------------------------------------------------------------ formulas

    def tagged(self, formulas: list[Formula], *names: str) -> list[Formula]:
        """Note what formulas speak of: the functions named, or those read since `looked_at` was emptied."""
        about = frozenset(names or self.looked_at)
        for formula in formulas:
            if isinstance(formula, z3.ExprRef):
                self.about[formula.get_id()] = (formula, about)
        return formulas

    def universally(self, prop: Property, now: Snapshot, before: Snapshot | None, env: dict[int, Formula]) -> Formula:
        """The property for all values of its parameters."""
        return land(*self.claims(prop, now, before, env))

    def claims(self, prop: Property, now: Snapshot, before: Snapshot | None, env: dict[int, Formula]) -> list[Formula]:
        """The property as a list of smaller formulas, which together say the same."""
        views = {"before": before} if before else {}
        return _Evaluation(self, now, views, {}).claims(prop.binders, prop.formula, env)

    def value(
        self,
        t: Term,
        now: Snapshot,
        env: dict[int, Formula],
        views: dict[str, Snapshot] | None = None,
        temps: dict[int, Formula] | None = None,
        *,
        kind: type[Term] | None = None,
    ) -> Formula:
        """The term as a formula over a state, with variables bound by ``env`` and values read earlier in ``temps``.

        ``kind``: the type that the value is wanted in, which `none` has none of by itself.
        """
        evaluation = _Evaluation(self, now, views or {}, temps if temps is not None else {})
        return evaluation.of(t, env) if kind is None else evaluation.as_kind(kind, t, env)


@dataclass
class _Evaluation:
    """Turns terms into formulas over given states."""

    symbolic: Symbolic
    now: Snapshot
    views: dict[str, Snapshot]
    temps: dict[int, Formula]

    def of(self, t: Term, env: dict[int, Formula]) -> Formula:
        op, a, u = t.op, t.args, self.symbolic.universe
        if op == "lit":
            return u.literal(type(t), a[0])
        if op == "var":
            return env[a[1]]
        if op == "temp":
            return self.temps[a[0]] if a[0] in self.temps else self.of(a[1], env)
        if op == "not":
            return lnot(self.of(a[0], env))
        if op == "and":
            return land(self.of(a[0], env), self.of(a[1], env))
        if op == "or":
            return lor(self.of(a[0], env), self.of(a[1], env))
        if op == "implies":
            return limplies(self.of(a[0], env), self.of(a[1], env))
        if op == "eq":
            return self._equal(a[0], a[1], env)
        if op in ("lt", "le"):
            return less(self.of(a[0], env), self.of(a[1], env), strict=op == "lt")
        if op == "add":
            return num(self.of(a[0], env)) + num(self.of(a[1], env))
        if op == "sub":
            return num(self.of(a[0], env)) - num(self.of(a[1], env))
        if op == "mul":
            return num(self.of(a[0], env)) * num(self.of(a[1], env))
        if op in ("div", "floordiv"):
            return num(self.of(a[0], env)) / num(self.of(a[1], env))
        if op == "mod":
            return num(self.of(a[0], env)) % num(self.of(a[1], env))
        if op == "real":
            return real(num(self.of(a[0], env)))
        if op == "ite":
            kind = type(t)
            return lif(self.of(a[0], env), self.as_kind(kind, a[1], env), self.as_kind(kind, a[2], env))
        if op == "forall":
            return land(*self.claims(a[0], a[1], env))
        if op == "exists":
            kinds = [type(b) for b in a[0]]
            return u.quantify(
                op, kinds, lambda *v: self.of(a[1], env | {b.args[1]: x for b, x in zip(a[0], v, strict=True)})
            )
        return self._read(t, env)

    def claims(self, binders: Sequence[Term], formula: Term, env: dict[int, Formula]) -> list[Formula]:
        """What the formula says for all values of the binders, in small formulas."""
        result = []
        for more, clause in clauses(formula):
            named = variables(clause)
            used = [b for b in (*binders, *more) if b.args[1] in named]

            def at(*values: Formula, clause: Term = clause, used: list[Term] = used) -> Formula:
                return self.of(clause, env | {b.args[1]: v for b, v in zip(used, values, strict=True)})

            result.append(self.symbolic.universe.quantify("forall", [type(b) for b in used], at))
        return result

    def as_kind(self, kind: type[Term], t: Term, env: dict[int, Formula]) -> Formula:
        """The term as a value of this type: `none` has no type of its own."""
        return self.symbolic.universe.literal(kind, None) if t.op == "lit" and t.args[0] is None else self.of(t, env)

    def _equal(self, a: Term, b: Term, env: dict[int, Formula]) -> Formula:
        kind = type(b) if a.op == "lit" and a.args[0] is None else type(a)
        return leq(self.as_kind(kind, a, env), self.as_kind(kind, b, env))

    def _default(self, mapping: Map[Any]) -> Formula:
        """What a finite universe reads outside of the keys' types, as the other interpreters do."""
        if mapping.to is Bool:
            return False
        return self.symbolic.universe.literal(mapping.to, NONE if mapping.is_optional else 0)

    def _read(self, t: Term, env: dict[int, Formula]) -> Formula:
        op, view, name = t.op, t.args[0], t.args[1]
        state = self.now if view == "now" else self.views[view]
        symbolic, u = self.symbolic, self.symbolic.universe
        keys = [num(self.of(k, env)) for k in t.args[2]]
        if op in ("size", "count"):
            total = f"{name}.size" if op == "size" else name
            symbolic.looked_at.add(total)
            count = symbolic.model.counts[total]
            kinds = [type(k) for k in count.keys]
            return u.guard_read(u.literal(count.to, 0), kinds, keys, state.functions[total](*keys))
        if op == "get":
            mapping = symbolic.model.maps[name]
            symbolic.looked_at.add(name)
            function = symbolic.params[name] if mapping.is_param else state.functions[name]
            return u.guard_read(self._default(mapping), mapping.kinds, keys, function(*keys))
        queue = symbolic.model.queues[name]
        has, rank = state.functions[f"{name}.has"], state.functions[f"{name}.rank"]
        symbolic.looked_at |= {f"{name}.has", f"{name}.rank"}

        def standing(e: Formula, inside: Formula = True) -> Formula:
            return land(inside, u.guard_read(False, (*queue.kinds, queue.of), (*keys, e), has(*keys, e)))

        elements = [self.of(e, env) for e in t.args[3:]]
        members = [
            standing(x, fits(e, queue.of) or u.is_element(queue.of, x))
            for e, x in zip(t.args[3:], elements, strict=True)
        ]
        if op == "has":
            return members[0]
        if op == "empty":
            return u.quantify("forall", [queue.of], lambda b: lnot(standing(b)))
        if op == "before":
            a, b = elements
            return land(*members, less(rank(*keys, a), rank(*keys, b), strict=True))
        if op == "first":
            (a,) = elements
            rest = u.quantify(
                "forall",
                [queue.of],
                lambda c: limplies(standing(c), less(rank(*keys, a), rank(*keys, c), strict=False)),
            )
            return land(*members, rest)
        assert op in ("head", "tail")
        return symbolic.end_of(state, name, op)(*keys)
