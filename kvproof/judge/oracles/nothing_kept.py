"""P14 where nothing is cached: nothing is found then, and no map has anything."""

from collections.abc import Iterable, Iterator

from ..ghost import Ghost
from ..record import Step, World
from ..violation import Violation, of_key, of_request
from .pools import entries, shown

__all__ = ["NOTHING_KEPT", "NothingKeptOracle", "kept_all_the_same"]

NOTHING_KEPT = "kept though nothing is to be"
"""What notices it."""


class NothingKeptOracle:
    """Holds a manager to it that caches nothing on the device, as it says (``dialect["keep"]`` is ``none``) or was made
    to."""

    def __init__(self, world: World) -> None:
        self._is_promised = world.dialect.get("keep") == "none"
        self._device = next(iter(world.tiers))

    def step(self, step: Step, _ghost: Ghost) -> Iterator[Violation]:
        """Yield the first hit of a step, and the first entry of the map."""
        if not self._is_promised or step.error is not None:
            return
        hits = ((effect[1], effect[2]) for effect in step.effects if effect[0] == "lookup" and effect[2])
        for r, local in hits:
            text = f"the lookup of {r} found {local} tokens, and nothing is to be kept here"
            yield Violation("P14", NOTHING_KEPT, text, about=(of_request(r),))
            break
        if step.state is not None and (there := entries(shown(step.state, self._device))):
            yield kept_all_the_same(there)


def kept_all_the_same(there: Iterable[tuple[int, int]]) -> Violation:
    """The violation that there are such entries, by hash key and group, where nothing is to be kept."""
    k, g = min(there)
    text = f"key {k} of group {g} is cached, and nothing is to be kept here"
    return Violation("P14", NOTHING_KEPT, text, about=(of_key(k),))
