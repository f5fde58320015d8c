"""The symbolic interpreter as a plain successor function: give it a state and an action, get the state after."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import z3

from kvproof.machine import Model
from kvproof.machine.concrete import Concrete, State
from kvproof.machine.execution import Run
from kvproof.machine.formulas import Formula
from kvproof.machine.scope import NONE, Scope
from kvproof.machine.symbolic import Symbolic
from kvproof.machine.universe import Finite


class SymbolicSuccessor:
    """One action of a machine, run on formulas in a finite universe, with counts carried by their laws."""

    def __init__(self, model: Model, scope: Scope, action: str, *, rounds: int) -> None:
        self.model, self.scope = model, scope
        self.universe = Finite(model, scope.sizes, counts_by_law=True)
        self.symbolic = Symbolic(model, self.universe)
        self.run = Run(self.symbolic, model.actions[action], rounds=rounds, judged=False, assumed=False)
        known = [fact.formula for fact in self.run.context.all_facts()]
        self.wanted = [f for f in (*known, *[build() for build in self.symbolic.ends.values()]) if f is not True]

    def _cells(self, kinds: Any) -> list[tuple[Formula, ...]]:
        return list(itertools.product(*[self.universe.elements(k) for k in kinds]))

    def after(self, concrete: Concrete, state: State, args: tuple[int, ...]) -> dict[str, Any] | None:
        """The state after the action, as `Concrete.describe` gives it; None where the action is not possible."""
        solver = z3.Solver()
        solver.add(*self.wanted)
        described = {**concrete.describe(state), **concrete.scope.params}
        for name, mapping in self.model.maps.items():
            if mapping.scratch:
                continue
            function = self.symbolic.params[name] if mapping.is_param else self.run.before.functions[name]
            flat = self.scope.flat(name, mapping, described[name])
            for cell, value in zip(self._cells(mapping.kinds), flat, strict=True):
                formula = function(*cell)
                solver.add(formula if value is True else z3.Not(formula) if value is False else formula == value)
        for name, queue in self.model.queues.items():
            orders = described[name] if queue.kinds else [described[name]]
            f = self.run.before.functions
            for keys, order in zip(self._cells(queue.kinds), orders, strict=True):
                for element in range(self.scope.size(queue.of)):
                    e = z3.IntVal(element)
                    solver.add(f[f"{name}.has"](*keys, e) == (element in order))
                    if element in order:
                        solver.add(f[f"{name}.rank"](*keys, e) == order.index(element))
        for count in self.model.counts.values():  # where counts start is not a matter of their laws
            total, kinds = self.run.before.functions[count.name], [type(k) for k in count.keys]
            summed = self.symbolic.written_out(count, self.run.before)
            for keys in self._cells(kinds):
                solver.add(total(*keys) == summed(*keys))
        for formula, value in zip(self.run.args, args, strict=True):
            solver.add(formula == value)
        if solver.check() != z3.sat:
            return None
        return self._read(solver.model())

    def _read(self, found: z3.ModelRef) -> dict[str, Any]:
        def number(formula: Formula) -> int | bool | Fraction:
            if isinstance(formula, bool):
                return formula
            value = found.eval(formula, model_completion=True)
            if z3.is_real(value):
                return Fraction(str(value.as_fraction()))
            return bool(z3.is_true(value)) if z3.is_bool(value) else int(value.as_long())

        result: dict[str, Any] = {}
        for name, mapping in self.model.maps.items():
            if not mapping.is_param and not mapping.scratch:
                function = self.run.now.functions[name]
                result[name] = self.scope.nested(mapping, [number(function(*c)) for c in self._cells(mapping.kinds)])
        for name, queue in self.model.queues.items():
            f, orders = self.run.now.functions, []
            for keys in self._cells(queue.kinds):
                members = [e for e in self.universe.elements(queue.of) if number(f[f"{name}.has"](*keys, e))]
                orders.append([number(e) for e in sorted(members, key=lambda e: number(f[f"{name}.rank"](*keys, e)))])
            result[name] = orders if queue.kinds else orders[0]
        for count in self.model.counts.values():
            if count.name in self.run.unknown_counts:
                continue
            after = self.symbolic.written_out(count, self.run.now)
            for keys in self._cells([type(k) for k in count.keys]):
                assert number(self.run.now.functions[count.name](*keys)) == number(after(*keys)), count.name
        return result


assert NONE == -1
