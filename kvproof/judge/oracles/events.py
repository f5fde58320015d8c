"""P12: replaying the KV events gives exactly what is cached."""

from collections.abc import Iterator

from ...events.fold import Belief
from ..ghost import Ghost
from ..record import Step, World
from ..violation import Violation, of_key

__all__ = ["EventsOracle"]

Key = tuple[int, int | None]

_ENGINE = 0
"""A worker drives one engine: all that it tells is of one rank."""


class EventsOracle:
    """A listener: it knows only the events, and at every boundary it must know exactly what a lookup would find."""

    def __init__(self, _world: World) -> None:
        self._belief = Belief[int, int]()
        self._ever: set[int] = set()

    def step(self, step: Step, _ghost: Ghost) -> Iterator[Violation]:
        """Hear the events of a step, and compare where it ends at a boundary."""
        boundaries: set[str] = set()
        for effect in step.effects:
            kind = effect[0]
            if kind == "stored":
                yield from self._stored(*effect[1:])
            elif kind == "removed":
                self._removed(*effect[1:])
            elif kind == "cleared":
                self._belief.cleared(_ENGINE, effect[1])
            if kind == "boundary":
                boundaries.add(effect[1])
            elif kind in ("stored", "removed", "cleared"):
                boundaries.discard(effect[1])
        if step.state is None:
            return
        for tier in boundaries & set(step.state.pools):
            entries = step.state.pools[tier].cached
            if entries is None:
                continue
            told = self._believed(tier)
            by_key_alone = any(g is None for _, g in told)
            believed = {(k, None) for k, _ in told} if by_key_alone else told
            cached = {(k, None if by_key_alone else g) for k, g, blocks in entries if blocks}
            if missing := cached - believed:
                k, g = min(missing, key=str)
                text = f"key {k} of group {g} is cached ({tier}), but the events do not say so"
                yield Violation("P12", "events and map", text, (tier, "cached, not reported"), (of_key(k),))
            if wrong := believed - cached:
                k, g = min(wrong, key=str)
                text = f"key {k} of group {g} is not cached ({tier}), but the events say so"
                yield Violation("P12", "events and map", text, (tier, "reported, not cached"), (of_key(k),))
            if missing or wrong:  # Said once; from here on the listener knows again what is there.
                self._learn(tier, cached)

    def _stored(self, tier: str, g: int | None, keys: list[int], parent: int | None = None) -> Iterator[Violation]:
        if keys and parent is not None and parent not in self._ever:
            text = f"key {keys[0]} ({tier}) is reported with parent {parent}, which was never reported"
            yield Violation("P12", "parent of a stored block", text, (tier,), (of_key(parent), of_key(keys[0])))
        self._ever.update(keys)
        self._belief.at(_ENGINE, tier, g).stored(keys)

    def _removed(self, tier: str, g: int | None, keys: list[int]) -> None:
        """A removal that names no group is of these keys, in whatever group they were seen."""
        places = [self._belief.at(_ENGINE, tier, g)] if g is not None else [*self._belief.of(_ENGINE, tier)]
        for place in places:
            place.removed(keys)

    def _believed(self, tier: str) -> set[Key]:
        places = self._belief.places.items()
        return {(k, g) for (_, medium, g), place in places if medium == tier for k in place.held}

    def _learn(self, tier: str, cached: set[Key]) -> None:
        self._belief.cleared(_ENGINE, tier)
        for k, g in cached:
            self._belief.at(_ENGINE, tier, g).stored((k,))
