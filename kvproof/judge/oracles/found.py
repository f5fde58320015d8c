"""P5: what a lookup finds stands in the prefix map."""

from collections.abc import Iterator

from ..ghost import Ghost
from ..record import Step, World
from ..violation import Violation, of_key, of_request
from .pools import entries, shown
from .reloads import ADMITS

__all__ = ["FoundOracle"]


class FoundOracle:
    """Compares what an admission found with the map as it is told before and behind: who keeps two maps, and shows the
    one that lookups do not ask, tells nobody what is cached."""

    def __init__(self, world: World) -> None:
        self._device, self._size = next(iter(world.tiers)), world.hash_block
        self._is_judged = [(group.kind, group.block) for group in world.groups] == [("full", world.hash_block)]
        self._there: set[tuple[int, int]] | None = None
        """The entries of the map in the last state; None where it is not told."""

    def step(self, step: Step, ghost: Ghost) -> Iterator[Violation]:
        """Yield the first key of a hit that the map does not have."""
        if step.state is None:
            return
        pool, before = shown(step.state, self._device), self._there
        self._there = None if pool.cached is None else {*entries(pool)}
        if not self._is_judged or step.op not in ADMITS or before is None or self._there is None:
            return
        there = before | self._there
        for effect in step.effects:
            if effect[0] == "lookup":
                _, r, local, *_ = effect
                keys = ghost.requests[r].keys[: local // self._size]
                missing = next((key for key in keys if (key, 0) not in there), None)
                if missing is not None:
                    text = f"the lookup of {r} finds key {missing}, which the prefix map does not have"
                    yield Violation("P5", "found and not in the map", text, about=(of_request(r), of_key(missing)))
