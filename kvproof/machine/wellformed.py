"""What must hold for a term to have a value: none is no key, an empty queue has no head, and nothing is divided by 0.

``a & b``, ``a | b``, ``implies`` are read from left to right: what the left side rules out is not looked at. A value
that an action reads from the state is looked at where it is read, whatever is done with it afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import z3

from .formulas import Formula, integer, land, leq, less, limplies, lnot, num
from .symbolic import Snapshot, Symbolic
from .terms import RESULT, Bool, Index, Int, Term, fits, make, parts
from .universe import Unbounded

__all__ = ["WellFormed", "have_values", "is_key"]

_READS = ("get", "count", "size", "has", "head", "tail", "first", "before", "empty")


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

    def demands(self, term: Term, env: dict[int, Formula]) -> Formula:
        """The condition under which the term has a value."""
        op, a = term.op, term.args
        if op in ("lit", "var", "temp"):
            return True
        if op in ("and", "implies", "or"):
            left = self._value(a[0], env)
            right = limplies(lnot(left) if op == "or" else left, self.demands(a[1], env))
            return land(self.demands(a[0], env), right)
        if op == "ite":
            condition = self._value(a[0], env)
            then = limplies(condition, self.demands(a[1], env))
            return land(self.demands(a[0], env), then, limplies(lnot(condition), self.demands(a[2], env)))
        if op in ("forall", "exists"):
            return self.symbolic.universe.quantify(
                "forall",
                [type(b) for b in a[0]],
                lambda *v: self.demands(a[1], env | {b.args[1]: x for b, x in zip(a[0], v, strict=True)}),
            )
        needed = [self.demands(p, env) for p in parts(term)]
        if op in _READS:
            needed.append(self._keys(term, env))
        if op == "div":
            needed.append(lnot(leq(self._value(a[1], env), z3.RealVal(0))))
        if op in ("floordiv", "mod"):
            needed.append(less(integer(0), num(self._value(a[1], env)), strict=True))
        if op in ("head", "tail"):
            needed.append(lnot(self._value(make(Bool, "empty", *a), env)))
        return land(*needed)

    def _value(self, term: Term, env: dict[int, Formula]) -> Formula:
        return self.symbolic.value(term, self.now, env, self.views, self.temps)

    def _keys(self, term: Term, env: dict[int, Formula]) -> Formula:
        universe = self.symbolic.universe
        needed = []
        for kind, key in zip(self._kinds(term.args[1]), term.args[2], strict=True):
            is_index = isinstance(key, Index) and key.op == "var" and key.args[0] != RESULT
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
        here = (env or {}) | {b.args[1]: v for b, v in zip(binders, values, strict=True)}
        return land(*[asks.demands(term, here) for term in terms])

    return symbolic.universe.quantify("forall", [type(b) for b in binders], at)
