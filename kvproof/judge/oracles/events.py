"""P12: replaying the KV events gives exactly what is cached, as states show it or else as lookups find it."""

from collections.abc import Iterator

from ...events.fold import Belief
from ..ghost import Ghost
from ..record import Step, World
from ..violation import Violation, of_key, of_request

__all__ = ["EventsOracle"]

Key = tuple[int, int | None]

_BEFORE_A_LOOKUP = frozenset({"request", "keys"})
"""What may be told between a boundary and a lookup that the map of the boundary answers."""

_ENGINE = 0
"""A worker drives one engine: all that it tells is of one rank."""


class EventsOracle:
    """A listener: it knows only the events, and at every boundary it must know exactly what a lookup would find."""

    def __init__(self, world: World) -> None:
        self._belief = Belief[int, int]()
        self._ever: set[int] = set()
        self._cached: dict[str, set[Key]] = {}
        """Per tier, what was cached when the listener's map was compared last."""
        self._news: dict[str, set[Key]] = {}
        """Per tier, what was told stored since then."""
        self._device = next(iter(world.tiers))
        self._world = world
        self._block = world.hash_block
        self._drops = bool(world.dialect.get("drop"))
        self._keys_are_tokens = world.notes.get("keys") == "tokens"
        self._one_group = [(group.kind, group.block) for group in world.groups] == [("full", world.hash_block)]
        self._at_boundary = False
        """Whether a lookup that is told next was answered from the map that the belief is of."""

    def step(self, step: Step, ghost: Ghost) -> Iterator[Violation]:
        """Hear the events of a step, and compare where it ends at a boundary."""
        boundaries: set[str] = set()
        for effect in step.effects:
            kind = effect[0]
            if kind == "lookup" and self._at_boundary and self._one_group and _shows_no_map(step, self._device):
                yield from self._looked_up(effect[1], effect[2], effect[4], ghost)
            self._at_boundary = self._at_boundary and kind in _BEFORE_A_LOOKUP
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
        self._at_boundary = self._at_boundary or self._device in boundaries
        if step.state is None:
            return
        for tier in boundaries & set(step.state.pools):
            entries = step.state.pools[tier].cached
            if entries is None:
                continue
            told = self._believed(tier)
            by_key_alone = any(g is None for _, g in told)
            believed = {(k, None) for k, _ in told} if by_key_alone else told
            there: set[Key] = {(k, g) for k, g, blocks in entries if blocks}
            cached: set[Key] = {(k, None) for k, _ in there} if by_key_alone else there
            heard = self._cached.get(tier, set()) | self._news.pop(tier, set())
            known = {(k, None) for k, _ in heard} if by_key_alone else heard
            self._cached[tier] = there
            missing = cached - believed
            # What was told stored and is taken for removed, and what was never told, have causes of their own.
            for some, why in ((missing & known, "cached, not reported"), (missing - known, "stored, not reported")):
                if some:
                    k, g = min(some, key=str)
                    text = f"key {k} of group {g} is cached ({tier}), but the events do not say so"
                    yield Violation("P12", "events and map", text, (tier, why), (of_key(k),))
            if wrong := believed - cached:
                k, g = min(wrong, key=str)
                text = f"key {k} of group {g} is not cached ({tier}), but the events say so"
                yield Violation("P12", "events and map", text, (tier, "reported, not cached"), (of_key(k),))
            if missing or wrong:  # Said once; from here on the listener knows again what is there.
                self._learn(tier, cached)

    def _looked_up(self, r: str, local: int, limit: int, ghost: Ghost) -> Iterator[Violation]:
        """A lookup finds what the events say is cached of its request, no more and no less.

        Where tokens stand for keys, events may speak of keys of their own, which say nothing of any request's blocks.
        """
        if self._keys_are_tokens and self._ever.isdisjoint(ghost.requests.named):
            return
        request, held = ghost.requests[r], {k for k, _ in self._believed(self._device)}
        believed = next((i for i, key in enumerate(request.keys) if key not in held), len(request.keys))
        found, most = local // self._block, min(believed, limit // self._block)
        if found > believed < len(request.keys):
            text = f"a lookup for {r} found the block of key {request.keys[believed]}, but the events do not say so"
            about = (of_key(request.keys[believed]), of_request(r))
            yield Violation("P12", "events and lookups", text, (self._device, "found, not reported"), about)
        elif found < most and not self._drops and not request.skips:
            text = f"a lookup for {r} did not find the block of key {request.keys[found]}, but the events say so"
            about = (of_key(request.keys[found]), of_request(r))
            yield Violation("P12", "events and lookups", text, (self._device, "reported, not found"), about)

    def _stored(
        self,
        tier: str,
        g: int | None,
        keys: list[int],
        parent: int | None = None,
        _tokens: object = None,
        size: int | None = None,
        _further: object = None,
    ) -> Iterator[Violation]:
        if keys and parent is not None and parent not in self._ever:
            text = f"key {keys[0]} ({tier}) is reported with parent {parent}, which was never reported"
            yield Violation("P12", "parent of a stored block", text, (tier,), (of_key(parent), of_key(keys[0])))
        self._ever.update(keys)
        # Who tells all that a chunk is made of tells what other chunks begin with too: it is known by its last.
        known = keys[-1:] if self._is_one_chunk(tier, g, len(keys), size) else keys
        self._news.setdefault(tier, set()).update((k, g) for k in known)
        self._belief.at(_ENGINE, tier, g).stored(known)

    def _is_one_chunk(self, tier: str, g: int | None, count: int, size: int | None) -> bool:
        """Whether so many keys of so many tokens each are those of one chunk of a tier, or of the first part of it."""
        if g is None or size is None or tier == self._device or tier not in self._world.tiers:
            return False
        return count * size <= self._world.tiers[tier].split * self._world.groups[g].block

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


def _shows_no_map(step: Step, tier: str) -> bool:
    """Whether lookups are all that tells what is cached: nobody shows the map."""
    pool = None if step.state is None else step.state.pools.get(tier)
    return pool is not None and pool.cached is None
