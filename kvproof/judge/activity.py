"""Activity: what happened in a run, counted from what a target told. It judges nothing."""

import dataclasses
from dataclasses import dataclass

from .record import Answer, Step, World
from .shapes import problem_of_world, problems

__all__ = ["Activity"]

_NEARLY_FULL = 4
"""A pool is nearly full when at most one in so many of its usable blocks is free."""

_ASKED = ("evict", "reset")
"""Operations that empty the prefix map because they are asked to."""


@dataclass
class Activity:
    """Counts over all cases of a run. What nothing was told of stays None."""

    states: int = 0
    """Steps after which a state was told."""
    lookups: int = 0
    asked_again: int = 0
    """Lookups of a prompt whose first full block had been computed before, for this request or another."""
    hits: int = 0
    """Lookups that found something on the device."""
    hit_tokens: int = 0
    external_tokens: int = 0
    """Tokens that lookups found elsewhere: on a host tier, in a remote engine."""
    refusals: int = 0
    """Operations that were refused for want of room, and lookups that no admission followed."""
    preemptions: int = 0
    evictions: int | None = None
    """Hash keys that left the device's prefix map though nobody asked for that."""
    wanted_evicted: int | None = None
    """Lookups of a prefix of which something had been evicted and was not back."""
    tight_hits: int | None = None
    """Hits in a pool of which at most a quarter was free."""

    def see(self, answer: Answer) -> None:
        """Count what happened in an answer; one that is none is counted up to where it goes wrong."""
        world = answer.world
        if world is None or problem_of_world(world) is not None:
            return
        case = _Case(self, world)
        for number, step in enumerate(answer.steps):
            try:
                case.step(step)
            except (LookupError, TypeError, ValueError, AttributeError):
                if next(problems(world, answer.steps[: number + 1]), None) is None:
                    raise
                return

    def add(self, other: "Activity") -> None:
        """Add what another run counted."""
        for name, count in other.to_json().items():
            mine = getattr(self, name)
            setattr(self, name, mine if count is None else (mine or 0) + count)

    def to_json(self) -> dict[str, int | None]:
        """The counts by name."""
        return dataclasses.asdict(self)


class _Case:
    """One case: what must be remembered to count it."""

    def __init__(self, total: Activity, world: World) -> None:
        self._total, self._device = total, next(iter(world.tiers))
        tier = world.tiers[self._device]
        self._usable = tier.blocks - (tier.null is not None)
        self._hash_block = world.hash_block
        self._block = max(group.block for group in world.groups)
        self._caches = world.dialect.get("keep") != "none"
        self._keys: dict[str, list[int]] = {}
        self._computed: set[int] = set()
        """Keys of first blocks that were computed."""
        self._cached: list[tuple[int, int, list[int]]] = []
        self._gone: set[int] = set()
        """Keys that were evicted, and are not back."""
        self._tight = False

    def step(self, step: Step) -> None:
        """Count a step."""
        total, looked_up, admitted, removed = self._total, set[str](), set[str](), set[int]()
        for effect in step.effects:
            kind = effect[0]
            if kind == "keys":
                self._keys.setdefault(effect[1], [])[effect[2] :] = effect[3]
            elif kind == "lookup":
                self._looked_up(*effect[1:])
                if not effect[3]:
                    looked_up.add(effect[1])
            elif kind == "table":
                admitted.add(effect[1])
            elif kind == "processed":
                self._processed(effect[1], effect[2])
            elif kind == "preempted":
                total.preemptions += 1
            elif kind == "removed" and effect[1] == self._device:
                removed.update(effect[3])
        if step.result is False:
            total.refusals += step.op != "reset"
        else:
            total.refusals += len(looked_up - admitted)
        total.states += step.state is not None
        pool = None if step.state is None else step.state.pools.get(self._device)
        if pool is not None and pool.cached is not None:
            removed = self._moved(pool.cached)
            total.evictions, total.wanted_evicted = total.evictions or 0, total.wanted_evicted or 0
        if removed and step.op not in _ASKED:
            total.evictions = (total.evictions or 0) + len(removed)
            self._gone |= removed
        if pool is not None and pool.free is not None:
            total.tight_hits = total.tight_hits or 0
            self._tight = len(pool.free) * _NEARLY_FULL <= self._usable

    def _looked_up(self, r: str, local: int, external: int, limit: int) -> None:
        total, keys = self._total, self._keys.get(r, [])
        total.lookups += 1
        total.external_tokens += external
        if local:
            total.hits += 1
            total.hit_tokens += local
            total.tight_hits = (total.tight_hits or 0) + 1 if self._tight else total.tight_hits
        if self._caches and self._block <= limit and self._first_key(r) in self._computed:
            total.asked_again += 1
        if self._gone and not self._gone.isdisjoint(keys[: limit // self._hash_block]):
            total.wanted_evicted = (total.wanted_evicted or 0) + 1

    def _processed(self, r: str, n: int) -> None:
        key = self._first_key(r)
        if key is not None and n >= self._block:
            self._computed.add(key)

    def _first_key(self, r: str) -> int | None:
        """The key of a request's first full block; of the largest block, where groups have several."""
        keys, place = self._keys.get(r, ()), self._block // self._hash_block - 1
        return keys[place] if 0 <= place < len(keys) else None

    def _moved(self, cached: list[tuple[int, int, list[int]]]) -> set[int]:
        """The keys that have left the prefix map since the state before."""
        if cached == self._cached:
            return set()
        now = {k for k, _, blocks in cached if blocks}
        removed = {k for k, _, blocks in self._cached if blocks} - now
        self._cached = cached
        self._gone -= now
        return removed
