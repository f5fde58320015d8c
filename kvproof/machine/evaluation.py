"""Terms as formulas over given states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, assert_never

from . import operations as op
from .declarations import Map
from .fitting import is_surely
from .formulas import Formula, add, land, leq, less, lif, limplies, lnot, lor, num, real, sub
from .scope import NONE
from .terms import Bool, Index, Term, number_of

if TYPE_CHECKING:
    from .model import Clause
    from .symbolic import Snapshot, Symbolic

__all__ = ["Evaluation"]


@dataclass
class Evaluation:
    """Turns terms into formulas over given states."""

    symbolic: Symbolic
    now: Snapshot
    views: Mapping[str, Snapshot]
    temps: Mapping[int, Formula]

    def of(self, t: Term, env: dict[int, Formula]) -> Formula:
        """The formula that is the term's value."""
        match t.operation:  # What is most frequent comes first.
            case op.Variable(_, number):
                return env[number]
            case op.Temporary(number):
                return self.temps[number]
            case op.Entry() | op.Total() as read:
                return self._entry(read, env)
            case op.Equal(left, right):
                return self._equal(left, right, env)
            case op.And(left, right):
                return land(self.of(left, env), self.of(right, env))
            case op.Constant(value):
                return self.symbolic.universe.literal(type(t), value)
            case op.Implies(left, right):
                return limplies(self.of(left, env), self.of(right, env))
            case op.Or(left, right):
                return lor(self.of(left, env), self.of(right, env))
            case op.Not(of):
                return lnot(self.of(of, env))
            case op.Size() | op.Empty() | op.Head() | op.Tail() | op.Has() | op.First() | op.Before() as read:
                return self._queue(read, env)
            case op.Less(left, right):
                return less(self.of(left, env), self.of(right, env), strict=True)
            case op.AtMost(left, right):
                return less(self.of(left, env), self.of(right, env), strict=False)
            case op.Add(left, right):
                return add(self._number(left, env), self._number(right, env))
            case op.Subtract(left, right):
                return sub(self._number(left, env), self._number(right, env))
            case op.Ite(condition, then, otherwise):
                kind = type(t)
                return lif(self.of(condition, env), self.as_kind(kind, then, env), self.as_kind(kind, otherwise, env))
            case op.Forall(binders, body):
                return land(*[self.claim(clause, env) for clause in self.symbolic.clauses(binders, body)])
            case op.Exists(binders, body):
                return self.symbolic.universe.quantify(
                    "exists",
                    [type(b) for b in binders],
                    lambda *v: self.of(body, env | {number_of(b): x for b, x in zip(binders, v, strict=True)}),
                )
            case op.Multiply(left, right):
                return self._number(left, env) * self._number(right, env)
            case op.Divide(dividend, divisor) | op.FloorDivide(dividend, divisor):
                return self._number(dividend, env) / self._number(divisor, env)
            case op.Modulo(dividend, divisor):
                return self._number(dividend, env) % self._number(divisor, env)
            case op.ToReal(of):
                return real(self._number(of, env))
            case op.Within(number, index):
                return self.symbolic.universe.is_element(index, self._number(number, env))
            case unknown:
                assert_never(unknown)

    def claim(self, clause: Clause, env: dict[int, Formula]) -> Formula:
        """What the clause says for all values of its variables."""
        binders, formula = clause

        def at(*values: Formula) -> Formula:
            return self.of(formula, env | {number_of(b): v for b, v in zip(binders, values, strict=True)})

        return self.symbolic.universe.quantify("forall", [type(b) for b in binders], at)

    def as_kind(self, kind: type[Term], t: Term, env: dict[int, Formula]) -> Formula:
        """The term as a value of this type: `none` has no type of its own."""
        return self.symbolic.universe.literal(kind, None) if _is_none(t) else self.of(t, env)

    def _equal(self, a: Term, b: Term, env: dict[int, Formula]) -> Formula:
        kind = type(b) if _is_none(a) else type(a)
        return leq(self.as_kind(kind, a, env), self.as_kind(kind, b, env))

    def _number(self, t: Term, env: dict[int, Formula]) -> Formula:
        return num(self.of(t, env))

    # ------------------------------------------------------------------------------------------------ states

    def _state(self, view: str) -> Snapshot:
        return self.now if view == "now" else self.views[view]

    def _entry(self, read: op.Entry | op.Total, env: dict[int, Formula]) -> Formula:
        """What a map holds, or how many a count counts, for these keys."""
        symbolic, u, name = self.symbolic, self.symbolic.universe, read.name
        keys = [num(self.of(k, env)) for k in read.keys]
        if isinstance(read, op.Total):
            return self._total(read, name, keys)
        mapping = symbolic.model.maps[name]
        function = symbolic.params[name] if mapping.is_param else self._state(read.view).functions[name]
        return u.guard_read(self._default(mapping), mapping.kinds, keys, function(*keys))

    def _default(self, mapping: Map[Any]) -> Formula:
        """What a finite universe reads outside of the keys' types, as the other interpreters do."""
        if mapping.to is Bool:
            return False
        return self.symbolic.universe.literal(mapping.to, NONE if mapping.is_optional else 0)

    def _total(self, read: op.Total | op.Size, name: str, keys: list[Formula]) -> Formula:
        symbolic, u = self.symbolic, self.symbolic.universe
        count = symbolic.model.counts[name]
        kinds, nothing = [type(k) for k in count.keys], u.literal(count.to, 0)
        known = symbolic.params if name in symbolic.params else self._state(read.view).functions
        # Behind the last index nothing is counted, whatever is said of the number that would be its key: unlike what
        # stands in a map there, that may change with what is written elsewhere.
        inside = [
            u.is_element(kind, key)
            for term, kind, key in zip(read.keys, kinds, keys, strict=True)
            if issubclass(kind, Index) and not is_surely(term, kind)
        ]
        return lif(land(*inside), u.guard_read(nothing, kinds, keys, known[name](*keys)), nothing)

    def _queue(self, read: op.OfQueue, env: dict[int, Formula]) -> Formula:
        """What is said of the queue of these keys."""
        symbolic, u, name = self.symbolic, self.symbolic.universe, read.name
        keys = [num(self.of(k, env)) for k in read.keys]
        if isinstance(read, op.Size):
            return self._total(read, f"{name}.size", keys)
        state, queue = self._state(read.view), symbolic.model.queues[name]
        has, rank = state.functions[f"{name}.has"], state.functions[f"{name}.rank"]

        def standing(e: Formula, inside: Formula = True) -> Formula:
            return land(inside, u.guard_read(False, (*queue.kinds, queue.of), (*keys, e), has(*keys, e)))

        elements = [self.of(e, env) for e in read.elements]
        members = [
            standing(x, is_surely(e, queue.of) or u.is_element(queue.of, x))
            for e, x in zip(read.elements, elements, strict=True)
        ]
        match read:
            case op.Has():
                return members[0]
            case op.Empty():
                return u.quantify("forall", [queue.of], lambda b: lnot(standing(b)))
            case op.Before():
                a, b = elements
                return land(*members, less(rank(*keys, a), rank(*keys, b), strict=True))
            case op.First():
                (a,) = elements
                rest = u.quantify(
                    "forall",
                    [queue.of],
                    lambda c: limplies(standing(c), less(rank(*keys, a), rank(*keys, c), strict=False)),
                )
                return land(*members, rest)
            case op.Head():
                return symbolic.end_of(state, name, "head")(*keys)
            case op.Tail():
                return symbolic.end_of(state, name, "tail")(*keys)
            case unknown:
                assert_never(unknown)


def _is_none(t: Term) -> bool:
    return isinstance(t.operation, op.Constant) and t.operation.value is None
