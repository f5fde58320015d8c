"""P12: replaying the KV events gives exactly what is cached."""

from collections.abc import Iterator

from ..ghost import Ghost
from ..record import Step, World
from ..violation import Violation

__all__ = ["EventsOracle"]

Key = tuple[int, int | None]


class EventsOracle:
    """A listener: it knows only the events, and at every boundary it must know exactly what a lookup would find."""

    def __init__(self, world: World) -> None:
        self._believed: dict[str, set[Key]] = {tier: set() for tier in world.tiers}
        self._ever: set[int] = set()

    def step(self, step: Step, _ghost: Ghost) -> Iterator[Violation]:
        """Hear the events of a step, and compare where it ends at a boundary."""
        boundaries: set[str] = set()
        for effect in step.effects:
            kind = effect[0]
            if kind == "stored":
                yield from self._stored(*effect[1:])
            elif kind == "removed":
                _, tier, g, keys = effect
                self._believed[tier].difference_update((k, g) for k in keys)
            elif kind == "cleared":
                self._believed[effect[1]].clear()
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
            by_key_alone = any(g is None for _, g in self._believed[tier])
            believed = {(k, None) for k, _ in self._believed[tier]} if by_key_alone else self._believed[tier]
            cached = {(k, None if by_key_alone else g) for k, g, blocks in entries if blocks}
            if missing := cached - believed:
                k, g = min(missing, key=str)
                text = f"key {k} of group {g} is cached ({tier}), but the events do not say so"
                yield Violation("P12", "events and map", text, (tier, "cached, not reported"))
            if wrong := believed - cached:
                k, g = min(wrong, key=str)
                text = f"key {k} of group {g} is not cached ({tier}), but the events say so"
                yield Violation("P12", "events and map", text, (tier, "reported, not cached"))
            if missing or wrong:  # Said once; from here on the listener knows again what is there.
                self._believed[tier] = set(cached)

    def _stored(self, tier: str, g: int | None, keys: list[int], parent: int | None) -> Iterator[Violation]:
        if keys and parent is not None and parent not in self._ever:
            text = f"key {keys[0]} ({tier}) is reported with parent {parent}, which was never reported"
            yield Violation("P12", "parent of a stored block", text, (tier,))
        self._ever.update(keys)
        self._believed[tier].update((k, g) for k in keys)
