"""The symbolic interpreter: a machine's states and formulas over them, for Z3.

A state is a set of functions from keys to formulas. The state that an action starts from is made of uninterpreted
functions; a write wraps a function in one more "if the key is this one" (`execution.py`). So the state after an action
is a formula over the state before it, and an obligation holds only uninterpreted functions, integers and quantifiers:
no arrays. What is known of states stands in `knowledge.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import z3

from .evaluation import Evaluation
from .formulas import Formula, Function, land, less, lif, limplies, num
from .model import Clause, CountOf, Model, Property
from .reads import reads_of
from .terms import Bool, Int, Term, number_of
from .traversal import clauses, numbers
from .universe import Finite, Unbounded, marked

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
        self.params: dict[str, Function] = {
            n: universe.named(marked(n), m.kinds, m.to) for n, m in model.params.items()
        }
        self.ends: dict[str, Callable[[], Formula]] = {}
        """By the name of the function that gives the head or tail of a queue in some state: what is known of it."""
        self.subjects: set[str] = set()
        """The functions that laws are about: counts, and the orders of queues."""
        self._end_functions: dict[str, Function] = {}
        for name, count in model.counts.items():
            if not count.reads:  # It never changes: one function for all states.
                self.params[name] = self._counted(count, Snapshot({}))

    # ------------------------------------------------------------------------------------------------ states

    def arbitrary(self, tag: str = "") -> Snapshot:
        """A state of which nothing is known."""
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
        rank = state.functions[f"{name}.rank"] = u.function(f"{name}.rank{tag}", (*queue.kinds, queue.of), Int)
        self.subjects |= rank.symbols
        state.functions[f"{name}.lo"] = u.function(f"{name}.lo{tag}", queue.kinds, Int)
        state.functions[f"{name}.hi"] = u.function(f"{name}.hi{tag}", queue.kinds, Int)

    def functions_of(self, name: str) -> list[str]:
        """The functions of states that a map or queue is made of."""
        return [name] if name in self.model.maps else [f"{name}.{x}" for x in ("has", "rank", "lo", "hi")]

    def recount(self, state: Snapshot, names: Iterable[str], tag: str = "") -> None:
        """Make counts arbitrary (the counting facts say what is known of them); in a finite universe written out."""
        for name in names:
            state.functions[name] = self.params.get(name) or self._counted(self.model.counts[name], state, tag)
            self.subjects |= state.functions[name].symbols

    def _counted(self, count: CountOf, state: Snapshot, tag: str | None = None) -> Function:
        """A function for the count; without a tag it is one for all states."""
        if not self.universe.counts_by_law:
            return self.written_out(count, state)
        kinds = [type(k) for k in count.keys]
        if tag is None:
            return self.universe.named(marked(count.name), kinds, count.to)
        return self.universe.function(count.name + tag, kinds, count.to)

    def written_out(self, count: CountOf, state: Snapshot) -> Function:
        """A count as a sum over all elements of a finite universe."""
        frozen = state.copy()

        def total(*keys: Formula) -> Formula:
            universe = self.universe
            assert isinstance(universe, Finite)
            choices = itertools.product(*[universe.elements(type(e)) for e in count.elements])
            terms = [self.amount(count, frozen, c, keys) for c in choices]
            return z3.Sum(terms) if len(terms) > 1 else terms[0]

        return self.universe.defined(count.name, frozenset(), total)

    def member(self, count: CountOf, state: Snapshot, elements: Sequence[Formula], keys: Sequence[Formula]) -> Formula:
        """The element has the property that is counted."""
        env = {number_of(b): v for b, v in zip((*count.elements, *count.keys), (*elements, *keys), strict=True)}
        inside = land(*[self.universe.is_element(type(b), v) for b, v in zip(count.elements, elements, strict=True)])
        return land(inside, self.value(count.formula, state, env))

    def amount(self, count: CountOf, state: Snapshot, elements: Sequence[Formula], keys: Sequence[Formula]) -> Formula:
        """How much the element counts: 1 or, in a sum, its weight; 0 where it does not."""
        weight = self.weight(count, state, elements, keys)
        return lif(self.member(count, state, elements, keys), weight, self.universe.literal(count.to, 0))

    def weight(self, count: CountOf, state: Snapshot, elements: Sequence[Formula], keys: Sequence[Formula]) -> Formula:
        """How much the element counts if it counts."""
        if count.weight is None:
            return self.universe.literal(count.to, 1)
        env = {number_of(b): v for b, v in zip((*count.elements, *count.keys), (*elements, *keys), strict=True)}
        return num(self.value(count.weight, state, env))

    def first(self) -> Snapshot:
        """The first state; membership of queues keeps a name of its own, of which the facts speak."""
        state = self.arbitrary("0")
        for name, (keys, term) in self.model.inits.items():
            if name not in self.model.maps:
                continue
            kinds, default = self.model.maps[name].kinds, state.functions[name]

            def start(
                *values: Formula,
                name: str = name,
                keys: tuple[Term, ...] = keys,
                term: Term = term,
                kinds: tuple[type[Term], ...] = kinds,
                default: Function = default,
            ) -> Formula:
                inside = land(*[self.universe.is_element(k, v) for k, v in zip(kinds, values, strict=True)])
                return lif(inside, self.start_value(name, keys, term, state, values), default(*values))

            symbols = self.symbols(term, state) | default.symbols
            state.functions[name] = self.universe.defined(f"{name}0", symbols, start)
        self.recount(state, list(self.model.counts), "0")
        return state

    def start_value(
        self, name: str, keys: Sequence[Term], term: Term, state: Snapshot, values: Sequence[Formula]
    ) -> Formula:
        """The first value of an entry."""
        kind = self.model.maps[name].to if name in self.model.maps else Bool
        env = {number_of(k): v for k, v in zip(keys, values, strict=True)}
        return num(self.value(term, state, env, kind=kind))

    def end_of(self, state: Snapshot, name: str, op: str) -> Function:
        """The head or tail of a queue in this state."""
        called = self.end_name(state, name, op)
        if called in self._end_functions:
            return self._end_functions[called]
        u, queue = self.universe, self.model.queues[name]
        has, rank = state.functions[f"{name}.has"], state.functions[f"{name}.rank"]
        n = len(queue.kinds)
        end = self._end_functions[called] = u.named(called, queue.kinds, queue.of)

        def extreme(*k: Formula) -> Formula:
            e = end(*k[:n])
            mine, other = rank(*k[:n], e), rank(*k)
            order = less(mine, other, strict=False) if op == "head" else less(other, mine, strict=False)
            return limplies(has(*k), land(u.is_element(queue.of, e), has(*k[:n], e), order))

        self.ends[called] = lambda: u.quantify("forall", (*queue.kinds, queue.of), extreme)
        return end

    def forget_ends(self, but: Collection[str]) -> None:
        """Forget the heads and tails of queues in all states, but those of these names."""
        for known in (self.ends, self._end_functions):
            for name in known.keys() - but:
                del known[name]

    def known_of_ends(self) -> list[Formula]:
        """What is known of all heads and tails that formulas spoke of so far."""
        return [build() for build in list(self.ends.values())]

    @staticmethod
    def end_name(state: Snapshot, name: str, op: str) -> str:
        """The name of the function that gives a queue's head or tail in this state."""
        return f"{op} {state.functions[f'{name}.has'].name} {state.functions[f'{name}.rank'].name}"

    # ------------------------------------------------------------------------------------------------ formulas

    def symbols(
        self,
        term: Term,
        now: Snapshot,
        views: Mapping[str, Snapshot] | None = None,
        temps: Mapping[int, frozenset[str]] | None = None,
        env: Mapping[int, frozenset[str]] | None = None,
    ) -> frozenset[str]:
        """The uninterpreted functions that the term's value may speak of.

        ``temps`` and ``env`` say it of values that were read before, and of variables.
        """
        reads = reads_of(term)
        found: set[str] = set()
        for view, name in reads.functions:
            state = now if view == "now" else (views or {})[view]
            found |= self.params[name].symbols if name in self.params else state.functions[name].symbols
        for view, name, op in reads.ends:
            found.add(self.end_name(now if view == "now" else (views or {})[view], name, op))
        for temp in reads.temps:
            found |= (temps or {})[temp]
        if env:
            for number in reads.variables:
                found |= env.get(number, frozenset())
        return frozenset(found)

    def clauses(self, binders: Sequence[Term], formula: Term) -> list[Clause]:
        """What the formula says for all values of the binders, in small formulas."""
        known = self.model.clauses.get(id(formula))
        if known is None:
            found = [_used((*binders, *more), part) for more, part in clauses(formula)]
            known = self.model.clauses[id(formula)] = formula, found
        return known[1]

    def claim(
        self,
        clause: Clause,
        now: Snapshot,
        views: Mapping[str, Snapshot] | None = None,
        env: dict[int, Formula] | None = None,
    ) -> Formula:
        """One of the small formulas, for all values of its variables."""
        return Evaluation(self, now, views or {}, {}).claim(clause, env or {})

    def universally(self, prop: Property, now: Snapshot) -> Formula:
        """The property of one state, for all values of its parameters."""
        return land(*[self.claim(clause, now) for clause in self.clauses(prop.binders, prop.formula)])

    def value(
        self,
        t: Term,
        now: Snapshot,
        env: dict[int, Formula],
        views: Mapping[str, Snapshot] | None = None,
        temps: Mapping[int, Formula] | None = None,
        *,
        kind: type[Term] | None = None,
    ) -> Formula:
        """The term as a formula over a state, with variables bound by ``env`` and values read earlier in ``temps``.

        ``kind``: the type that the value is wanted in, which `none` has none of by itself.
        """
        evaluation = Evaluation(self, now, views or {}, temps if temps is not None else {})
        return evaluation.of(t, env) if kind is None else evaluation.as_kind(kind, t, env)


def _used(binders: Sequence[Term], clause: Term) -> Clause:
    named = numbers(clause)
    return tuple(b for b in binders if number_of(b) in named), clause
