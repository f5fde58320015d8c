"""What must hold for a term to have a value: none is no key, an empty queue has no head, and nothing is divided by 0.

``a & b``, ``a | b``, ``implies`` are read from left to right: what the left side rules out is not looked at. A value
that an action reads from the state is looked at where it is read, whatever is done with it afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import assert_never

import z3

from . import operations as op
from .fitting import fits
from .formulas import Formula, integer, land, leq, less, limplies, lnot, num
from .model import CountOf
from .symbolic import Snapshot, Symbolic
from .terms import RESULT, Bool, Index, Int, Term, number_of
from .traversal import parts
from .universe import Unbounded

__all__ = ["WellFormed", "have_values", "is_key", "values_where_wanted"]


def is_key(universe: Unbounded, kind: type[Term], value: Formula) -> Formula:
    """An element; of an index only that it is not negative, since how large it may get is no matter of the machine."""
    return less(integer(0), value, strict=False) if issubclass(kind, Index) else universe.is_element(kind, value)


@dataclass
class WellFormed:
    """Asks terms, in given states, for what must hold."""

    symbolic: Symbolic
    now: Snapshot
    views: dict[str, Snapshot]
    temps: dict[int, Formula]
    is_sure: Callable[[CountOf], bool] = lambda _: True
    """Whether a count is known to have a value in the state at hand. Where the invariants hold it has one, as is asked
    of every state; between two writes of an action it need not."""

    def demands(self, term: Term, env: dict[int, Formula]) -> Formula:
        """The condition under which the term has a value."""
        match term.operation:
            case op.Constant() | op.Variable() | op.Temporary():
                return True
            case op.And(left, right) | op.Implies(left, right):
                return land(self.demands(left, env), self._where(left, right, env))
            case op.Or(left, right):
                return land(self.demands(left, env), self._where(left, right, env, is_so=False))
            case op.Ite(condition, then, otherwise):
                ways = self._where(condition, then, env), self._where(condition, otherwise, env, is_so=False)
                return land(self.demands(condition, env), *ways)
            case op.Forall(binders, body) | op.Exists(binders, body):
                return self.symbolic.universe.quantify(
                    "forall",
                    [type(b) for b in binders],
                    lambda *v: self.demands(body, env | {number_of(b): x for b, x in zip(binders, v, strict=True)}),
                )
            case op.Divide(_, divisor):
                is_number = lnot(leq(self._value(divisor, env), z3.RealVal(0)))
                return land(self._below(term, env), is_number)
            case op.FloorDivide(_, divisor) | op.Modulo(_, divisor):
                is_positive = less(integer(0), num(self._value(divisor, env)), strict=True)
                return land(self._below(term, env), is_positive)
            case op.Head() | op.Tail() as read:
                is_filled = lnot(self._value(Bool(op.Empty(read.view, read.name, read.keys)), env))
                return land(self._below(term, env), self._keys(read, env), is_filled)
            case op.Total(view, name, keys) as read if view == "now" and not self.is_sure(self._count(name)):
                return land(self._below(term, env), self._keys(read, env), self._counted(self._count(name), keys, env))
            case (op.Entry() | op.Total() | op.Size() | op.Empty() | op.Has() | op.First() | op.Before()) as read:
                return land(self._below(term, env), self._keys(read, env))
            case (
                op.Not()
                | op.Equal()
                | op.Less()
                | op.AtMost()
                | op.Within()
                | op.Add()
                | op.Subtract()
                | op.Multiply()
                | op.ToReal()
            ):
                return self._below(term, env)
            case unknown:
                assert_never(unknown)

    def _count(self, name: str) -> CountOf:
        return self.symbolic.model.counts[name]

    def _counted(self, count: CountOf, keys: Sequence[Term], env: dict[int, Formula]) -> Formula:
        """What is asked of each element to count it has a value."""
        at = {number_of(k): num(self._value(key, env)) for k, key in zip(count.keys, keys, strict=True)}
        asked = [count.formula, *([] if count.weight is None else [count.weight])]
        return have_values(self.symbolic, asked, count.elements, self.now, env=at)

    def _where(self, condition: Term, term: Term, env: dict[int, Formula], *, is_so: bool = True) -> Formula:
        """The term has a value where the condition is true, or false."""
        needed = self.demands(term, env)
        if needed is True:  # as mostly: then the condition need not be built
            return True
        holds = self._value(condition, env)
        return limplies(holds if is_so else lnot(holds), needed)

    def _below(self, term: Term, env: dict[int, Formula]) -> Formula:
        """All operands have values."""
        return land(*[self.demands(part, env) for part in parts(term)])

    def _value(self, term: Term, env: dict[int, Formula]) -> Formula:
        return self.symbolic.value(term, self.now, env, self.views, self.temps)

    def _keys(self, read: op.Read, env: dict[int, Formula]) -> Formula:
        universe = self.symbolic.universe
        needed = []
        for kind, key in zip(self._kinds(read.name), read.keys, strict=True):
            said = key.operation
            is_index = isinstance(key, Index) and isinstance(said, op.Variable) and said.name != RESULT
            if not fits(key, kind) or (isinstance(key, Int) and not is_index):
                needed.append(is_key(universe, kind, num(self._value(key, env))))
        return land(*needed)

    def _kinds(self, name: str) -> Sequence[type[Term]]:
        model = self.symbolic.model
        if name in model.maps:
            return model.maps[name].kinds
        if name in model.queues:
            return model.queues[name].kinds
        return [type(k) for k in model.counts[name].keys]


def have_values(
    symbolic: Symbolic,
    terms: Sequence[Term],
    binders: Sequence[Term],
    now: Snapshot,
    *,
    views: dict[str, Snapshot] | None = None,
    env: dict[int, Formula] | None = None,
) -> Formula:
    """The terms have values, whatever the binders stand for.

    ``views`` are the states that they call by name, ``env`` the values of variables that are no binders.
    """
    asks = WellFormed(symbolic, now, views or {}, {})

    def at(*values: Formula) -> Formula:
        here = (env or {}) | {number_of(b): v for b, v in zip(binders, values, strict=True)}
        return land(*[asks.demands(term, here) for term in terms])

    return symbolic.universe.quantify("forall", [type(b) for b in binders], at)


def values_where_wanted(
    symbolic: Symbolic,
    terms: Sequence[Term],
    binders: Sequence[Term],
    now: Snapshot,
    *,
    views: dict[str, Snapshot] | None = None,
    env: dict[int, Formula] | None = None,
) -> Callable[[], Formula] | None:
    """What builds the formula of `have_values`; None where there is nothing to ask.

    In a finite universe it is long, and one goal of many is asked for: there it is only built when it is wanted.
    """
    build = cache(partial(have_values, symbolic, terms, binders, now, views=views, env=env))
    return build if symbolic.universe.is_finite or build() is not True else None
