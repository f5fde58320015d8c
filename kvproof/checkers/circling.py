"""A run that has come back to a state where it was: which promises it breaks if it goes on so for ever."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from ..machine.concrete import Concrete, State
from ..machine.model import Promised

__all__ = ["Circling"]

Args = tuple[int, ...]


class Circling:
    """A run in the concrete interpreter, as far as promises are concerned."""

    def __init__(self, concrete: Concrete) -> None:
        self._concrete = concrete
        self._left: list[tuple[tuple[object, ...], State, str, Args]] = []

    def leave(self, state: State, action: str, args: Args) -> None:
        """The next step: from where, and which."""
        if self._concrete.model.promises:
            self._left.append((self._concrete.key(state), self._concrete.copy(state), action, args))

    def broken(self, state: State) -> Iterator[tuple[str, Args]]:
        """The promises that are broken, each with the values for which it is, where the run is back in this state.

        The goal is reached nowhere on the way round, all its steps are such as are taken, and some of them are fair.
        """
        key = self._concrete.key(state) if self._left else ()
        begins = [i for i, (known, *_) in enumerate(self._left) if known == key]
        for name, promised in self._concrete.model.promises.items():
            for values in itertools.product(*(range(n) for n in self._sizes(promised))):
                if any(self._is_broken(name, values, begin) for begin in begins):
                    yield name, values

    def _sizes(self, promised: Promised) -> Iterator[int]:
        return (self._concrete.scope.size(type(b)) for b in promised.binders)

    def _is_broken(self, name: str, values: Args, begin: int) -> bool:
        concrete, cycle = self._concrete, self._left[begin:]
        if any(concrete.has_kept(state, name, values) for _, state, _, _ in cycle):
            return False
        steps = [(state, name, values, action, args) for _, state, action, args in cycle]
        return all(concrete.allows(*step) for step in steps) and any(concrete.serves(*step) for step in steps)
