"""Instances that are a scope and nothing more: parameters that are drawn, and not made from token sequences."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self, TypeVar

from hypothesis import strategies as st

from ..checkers.target import Args
from ..machine import Machine, Model
from ..machine.concrete import State
from ..machine.scope import Scope

__all__ = ["Params", "ScopedInstance", "drawn", "row"]

Params = Callable[[type[Machine], Mapping[str, int]], dict[str, st.SearchStrategy[Any]]]
"""The strategy of each parameter of a machine, for these sizes."""


@dataclass(frozen=True)
class ScopedInstance(ABC):
    """One instance of the parameters of a machine. Subclasses say of which machines, and what leads somewhere."""

    SIZES: ClassVar[Mapping[type[Machine], Sequence[dict[str, int]]]]
    """The machines, and for each the sizes that random instances have, the smallest first."""

    scope: Scope

    @staticmethod
    def model_of(machine: type[Machine]) -> Model:
        """The machine, as the reference implementation is held against it."""
        return Model.of(machine)

    @abstractmethod
    def steering(self, state: State) -> object:
        """Its method ``_ACTION`` tells whether a possible step leads somewhere; what has none always does."""

    def numbers(self, name: str) -> list[Fraction]:
        """A parameter that holds exact numbers, in the order of its key."""
        flat = self.scope.flat(name, self.scope.model.params[name], self.scope.params[name])
        return [Fraction(value) for value in flat]

    def worthwhile(self, state: State, action: str, possible: list[Args]) -> list[Args]:
        """Those of the possible arguments that lead somewhere."""
        wanted = getattr(self.steering(state), f"_{action}", None)
        return possible if wanted is None else [args for args in possible if wanted(*args)]

    def describe(self) -> dict[str, Any]:
        """Everything that is needed to make this instance again, as JSON values."""
        machine = self.scope.model.machine.__name__
        return {"machine": machine, "sizes": dict(self.scope.sizes), "params": dict(self.scope.params)}

    @classmethod
    def load(cls, described: Mapping[str, Any]) -> Self:
        """The opposite of `describe`.

        Raises:
            ValueError: it is no instance of one of these machines.
        """
        machines = {machine.__name__: machine for machine in cls.SIZES}
        if described.get("machine") not in machines:
            raise ValueError(f"it is an instance of {described.get('machine')}, and none of {', '.join(machines)}")
        model = cls.model_of(machines[described["machine"]])
        return cls(Scope(model, dict(described["sizes"]), dict(described["params"])))

    @classmethod
    def of_scope(cls, scope: Scope) -> Self:
        """An instance in any scope of a machine, such as that of a proof's counterexample.

        Raises:
            ValueError: the implementation has no such setting.
        """
        return cls(scope)


W = TypeVar("W", bound=ScopedInstance)


def drawn(kind: type[W], machine: type[Machine], params: Params) -> st.SearchStrategy[W]:
    """Draws instances of all sizes for this machine; Hypothesis shrinks to the first size and the first numbers."""
    model = kind.model_of(machine)
    return st.sampled_from(list(kind.SIZES[machine])).flatmap(
        lambda size: st.fixed_dictionaries(params(machine, size)).map(
            lambda values: kind(Scope(model, dict(size), values))
        )
    )


def row(of: st.SearchStrategy[Any], length: int) -> st.SearchStrategy[list[Any]]:
    """Draws the values of a parameter with one key."""
    return st.lists(of, min_size=length, max_size=length)
