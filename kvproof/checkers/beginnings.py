"""What the proofs of all places of one machine begin with, built once: any state, and what is known of it."""

from __future__ import annotations

from collections.abc import Callable

from ..machine.model import Model
from ..machine.progress import Beginning
from ..machine.symbolic import Symbolic
from ..machine.universe import Finite, Unbounded

__all__ = ["Beginnings"]


class Beginnings:
    """By universe, of the machine that was asked for last: a process mostly proves one place of it after the other.

    What is given serves one run, until the next is asked for in the same universe.
    """

    def __init__(self) -> None:
        self._model: Model | None = None
        self._known: dict[object, Beginning] = {}

    def unbounded(self, model: Model) -> Beginning:
        """Where there is any number of elements."""
        return self._of(model, None, lambda: Beginning(Symbolic(model, Unbounded(model))))

    def finite(self, model: Model, sizes: dict[str, int], *, counts_by_law: bool = False) -> Beginning:
        """Where there are so many elements; ``counts_by_law``: nothing is known of the state, and nothing is summed."""
        key = (counts_by_law, *sorted(sizes.items()))
        return self._of(
            model,
            key,
            lambda: Beginning(
                Symbolic(model, Finite(model, sizes, counts_by_law=counts_by_law)), assumed=not counts_by_law
            ),
        )

    def _of(self, model: Model, key: object, make: Callable[[], Beginning]) -> Beginning:
        if self._model is not model:
            self._model, self._known = model, {}
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = make()
        return known.again()
