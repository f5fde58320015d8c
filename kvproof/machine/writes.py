"""What the statements that write do to the state of a run, and what has to be proved of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial

import z3

from .fitting import fits, may_be_none
from .formulas import Formula, Function, add, integer, land, leq, less, lif, limplies, lnot, num, occurs, replaced, sub
from .mistakes import Line
from .model import CountOf
from .program import Assign, Push, Remove
from .progress import Progress, constant
from .symbolic import Snapshot
from .terms import TRUE, Index, Int, Term, name_of, number_of
from .wellformed import is_key

__all__ = ["SCOPE", "Writes"]

SCOPE = "is written within the scope, for"
"""What is asked of a step, by the promise that relies on it."""


class Writes(Progress):
    """Assignments and queue operations: each changes one point of the state, and the counts with it."""

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
                    inside = self.universe.is_element(kind, key)
                    self._demand_scope(name, symbols, line, inside)
                    self._learn_scope(f"scope of {name} at {line}", symbols.union(*self.path_symbols), inside)

    def _demand_scope(self, name: str, symbols: frozenset[str], line: Line, inside: Formula) -> None:
        """A step that a promise relies on stays within the scope: where it leaves, nothing comes of it."""
        written = self._here(inside)
        for promise, relied, spoken in self._relied:
            about = symbols.union(spoken, *self.path_symbols)
            self._goal(f"{name} {SCOPE} {promise}", "", line, about, partial(_if_relied_on, relied, written))

    @cached_property
    def _relied(self) -> list[tuple[str, Callable[[], Formula], frozenset[str]]]:
        """The promises, what says that they rely on this step, and what that speaks of."""
        found: list[tuple[str, Callable[[], Formula], frozenset[str]]] = []
        given = dict(zip(map(name_of, self.action.params), self.args, strict=True))
        for promised in self.model.promises.values():
            if self.action.name not in promised.sure:
                continue
            params, serves = promised.sure[self.action.name]
            others, allows = promised.only.get(self.action.name, ((), TRUE))
            env = {number_of(p): given[name_of(p)] for p in (*params, *others)}
            terms = [~promised.goal, serves, allows]
            spoken = {number: constant(value) for number, value in env.items()}
            symbols = [self.symbolic.symbols(term, self.before, env=spoken) for term in terms]
            build = partial(self._is_relied_on, promised.binders, terms, env)
            found.append((promised.name, build, frozenset[str]().union(*symbols)))
        return found

    def _is_relied_on(self, binders: Sequence[Term], terms: Sequence[Term], env: dict[int, Formula]) -> Formula:
        """For some values of a promise's parameters all of this holds of the state before, and of the arguments."""

        def all_of_them(*values: Formula) -> Formula:
            here = env | {number_of(b): v for b, v in zip(binders, values, strict=True)}
            return land(*[self.symbolic.value(term, self.before, here) for term in terms])

        return self.universe.quantify("exists", [type(b) for b in binders], all_of_them)

    def _learn_scope(self, label: str, symbols: frozenset[str], inside: Formula) -> None:
        """What is written on this path lies within the scope; of each element of `each`, of which there may be none."""
        self._learn_formula(label, symbols, self._here(inside))
        if self.binders and inside is not True:
            written = limplies(land(*self.path), inside)

            def of(*elements: Formula) -> Formula:
                return replaced(written, [(c, e) for (_, c), e in zip(self.binders, elements, strict=True)])

            kinds = [kind for kind, _ in self.binders]
            self._learn_formula(f"{label}, of all", symbols, self.universe.quantify("forall", kinds, of))

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
        Where the element is that of a round of `each`, that is so for the key of the round alone, and a round asks for
        no other (`rounds.py`); `_each` says what is known when all rounds are done.
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


def _places(count: CountOf, name: str) -> list[int]:
    """For each element that is counted: the place among the keys of this map or queue at which it stands."""
    keys = count.reads[name][0]
    return [next(i for i, key in enumerate(keys) if key is e) for e in count.elements]


def _if_relied_on(relied: Callable[[], Formula], written: Formula) -> Formula:
    return limplies(relied(), written)
