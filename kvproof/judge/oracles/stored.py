"""O9: where a tier takes everything, everything is there at rest."""

from collections.abc import Iterator, Sequence

from ..ghost import Ghost
from ..record import Effect, Step, World
from ..violation import Violation, of_key, of_request
from .kept import is_upset
from .pools import entries

__all__ = ["StoredOracle"]

Entry = tuple[int, int]
"""A hash key and a group."""


class StoredOracle:
    """Follows which blocks of finished requests a tier that stores eagerly must hold.

    The world names such tiers in ``notes["eager"]``. Judged are full blocks of full attention that the device has had
    cached for their request, and only while the tier has had room for all copies that were ever made: then nothing
    excuses a block that is not there. What is cached of another request, which was aborted perhaps, is no reason to
    store a copy of it that nobody caches. A tier that takes an offer as a whole or not at all (``notes["whole"]``) had
    room for certain where all that there is of any request fits there. Where the pages of the first group lie on a tier
    themselves (``notes["reads"]``), that is to have cached of this group what the device has cached of others.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self._eager = [tier for tier in world.notes.get("eager", ()) if tier in world.tiers]
        self._device = next(iter(world.tiers))
        self._computed: dict[str, int] = {}
        self._finished: list[str] = []
        self._most: dict[str, int] = {}
        """How many tokens are stored of a request that asks for that."""
        self._copies = dict.fromkeys(self._eager, 0)
        self._pages: set[int] = set()
        """The blocks of the tier that attention reads too that were ever written, or held."""
        self._reads = world.notes.get("reads")
        self._whole = world.notes.get("whole", ())
        self._excused: set[Entry] = set()
        self._cached: dict[Entry, set[int]] = {}
        """The blocks that the device ever had cached, by entry."""
        self._shown: set[Entry] = set()
        """What the device had cached last."""
        self._tables: dict[str, list[list[int]]] = {}
        self._stored: dict[str, set[Entry]] = {tier: set() for tier in self._eager}
        self._shows: set[str] = set()
        """The tiers whose maps the states show."""

    def step(self, step: Step, ghost: Ghost) -> Iterator[Violation]:
        """Yield the first block that a tier should hold at rest and never did."""
        if not self._eager:
            return
        for effect in step.effects:
            if effect[0] == "request" and "stored" in effect[2]:
                self._most[effect[1]] = effect[2]["stored"]
            elif effect[0] == "processed":
                self._computed[effect[1]] = effect[2]
            elif effect[0] == "table":
                _, r, g, at, blocks = effect
                self._tables.setdefault(r, [[] for _ in self.world.groups])[g][at:] = blocks
            elif effect[0] == "cut":
                self._computed[effect[1]] = min(self._computed.get(effect[1], 0), effect[2])
            elif effect[0] == "end" and effect[2:] == ["finished"]:
                self._finished.append(effect[1])
            elif effect[0] == "copy" and effect[2] == "begin":
                for _, _, tier, unit in effect[3]:
                    if tier in self._copies:
                        self._copies[tier] += 1
                    if tier == self._reads:
                        self._pages.add(unit)
            elif effect[0] == "cleared":
                self._finished.clear()
            elif effect[0] in ("rows", "copied"):
                self._pages |= {block for tier, block in _written(effect) if tier == self._reads}
        is_reset = step.op == "reset" and not step.skipped and bool(step.result or step.args.get("connector"))
        if is_reset:
            # A reset may void the stores of what was computed before it, not of what is computed after it.
            self._finished.clear()
            self._excused |= self._cached.keys()
        if step.state is None:
            return
        for tier, pool in step.state.pools.items():
            if pool.cached is not None:
                self._shows.add(tier)
            if tier == self._reads:
                self._pages |= {block for block, count in enumerate(pool.ref or ()) if count}
            there = entries(pool)
            if tier in self._stored:
                self._stored[tier] = {*there} if is_reset else self._stored[tier] | there.keys()
            elif tier == self._device:
                for entry, blocks in there.items():
                    self._cached.setdefault(entry, set()).update(blocks)
                self._excused -= there.keys() - self._shown  # It was computed again.
                self._shown = {*there}
        if is_upset(step):  # A store that was cancelled, or came behind an evict or a reset.
            self._finished.clear()
            self._excused |= self._cached.keys()
        if step.op == "drain" and step.error is None and not step.result["left"] and not step.result["pending"]:
            yield from self._missing(ghost)

    def _missing(self, ghost: Ghost) -> Iterator[Violation]:
        for tier in self._eager:
            blocks = self.world.tiers[tier].blocks - (self.world.tiers[tier].null is not None)
            used = len(self._pages) if tier == self._reads else self._copies[tier]
            split = self.world.tiers[tier].split
            offered = self._chunks(split, ghost) if tier in self._whole else 0
            if tier not in self._shows or used >= blocks or offered > blocks:
                continue  # Something may have been evicted, or found no room.
            cached = self._cached.keys() - self._excused
            if tier == self._reads:
                cached = {(key, 0) for key, _ in cached}
            never_stored = cached - self._stored[tier]
            for r in self._finished:
                keys = ghost.requests[r].keys
                has = len(keys) * self.world.hash_block
                computed = min(self._computed.get(r, 0), has, self._most.get(r, has))
                for g, group in enumerate(self.world.groups):
                    full = computed // group.block if group.kind == "full" else 0
                    for n in range(split, full + 1, split):
                        key = self._key_of(keys, g, n - 1)
                        own = (self._is_own(r, g, at, self._key_of(keys, g, at)) for at in range(n - split, n))
                        if (key, g) in never_stored and (tier == self._reads or all(own)):
                            text = (
                                f"{r} has finished and nothing is under way, but its block {n - 1} of group {g} (key "
                                f"{key}) was never stored to {tier}, which has room"
                            )
                            yield Violation("O9", "never stored", text, (tier,), (of_key(key), of_request(r)))
                            return

    def _chunks(self, split: int, ghost: Ghost) -> int:
        """How many chunks of so many blocks all requests have, those that begin alike counted once."""
        sizes = [split * group.block // self.world.hash_block for group in self.world.groups]
        requests = ghost.requests.values()
        return sum(len({key for request in requests for key in request.keys[size - 1 :: size]}) for size in sizes)

    def _key_of(self, keys: Sequence[int], g: int, entry: int) -> int:
        """The key of a block of a request, of these keys."""
        return keys[(entry + 1) * self.world.groups[g].block // self.world.hash_block - 1]

    def _is_own(self, r: str, g: int, entry: int, key: int) -> bool:
        """Whether the block that a request had there was cached under this key; it is, where nobody told its table."""
        table = self._tables[r][g] if r in self._tables else []
        return entry >= len(table) or table[entry] in self._cached.get((key, g), ())


def _written(effect: Effect) -> Iterator[tuple[str, int]]:
    """The places that are written by copies which are done at once."""
    if effect[0] == "rows":
        yield from ((tier, block) for _, _, _, tier, block, *_ in effect[1])
    else:
        yield from ((tier, unit) for _, _, tier, unit in effect[1])
