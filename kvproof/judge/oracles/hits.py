"""P14 from below: a lookup finds all that is cached of its request, and not a block less.

Who computes a request from its first token on, and never looked for it, has found nothing of it.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from ..ghost import Ghost
from ..record import SEVERAL, PoolState, Step, World
from ..shapes import KEEPS
from ..violation import Thing, Violation, of_block, of_key, of_request
from .begun import begun_by
from .kept import FOLLOWED, Kept, is_upset, takings
from .lengths import Lengths
from .needed import first_needed

__all__ = ["HitsOracle"]

_REGISTERS = ("compute", "processed", "computed_outside", "preempted", "end")
"""The effects beside which an engine may cache something, or let go of it."""

Entry = tuple[int, int]
"""A hash key and a group, as a prefix map has them."""

Has = Callable[[int, int], bool]
"""Whether a block of group g is cached that ends behind so many tokens of a request: a full one, or the part of one
that was registered under the hash of what it has."""

Shows = Callable[[int], set[Entry] | None]
"""What the prefix map shows that a lookup, by its place among the effects, may have met; None where it is not shown."""


@dataclass(frozen=True)
class _Lookup:
    """A lookup, and what was known of its request at that moment."""

    r: str
    local: int
    """Tokens that it found on the device."""
    external: int
    """Tokens that it found elsewhere, behind those."""
    limit: int
    """The most that it may find (P14)."""
    keyed: int
    """So many tokens have hash keys."""


class HitsOracle:
    """Judges that no lookup stops short.

    What was cached when a lookup was answered is known in two ways. The states tell: an entry that the prefix map has
    before a step and after it, at a block that nobody was handed and no copy was to bring meanwhile, was there all the
    time. And an engine may promise it (``notes["dialect"]["keep"]`` is ``all`` or ``tree``): then `Kept` knows
    from what happened, whatever states show.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self._device = next(iter(world.tiers))
        self._drop = _tokens_said(world, "drop", 0)
        self._left = _tokens_said(world, "leaves", 1)
        """How many tokens of a request a lookup leaves to be computed."""
        sizes = {group.block for group in world.groups}
        self._whole = math.lcm(*sizes)
        """The tokens behind which blocks of all groups end."""
        # Hashes that are finer than all blocks are there so that hits end inside of these.
        self._unit = world.hash_block if len(sizes) == 1 and not self._drop else self._whole
        kinds = sorted({group.kind for group in world.groups})
        self._kinds = ("drop", *kinds) if self._drop else (*kinds,)
        followed = all(group.kind in ("full", "window") for group in world.groups)
        self._kept = Kept(world) if world.dialect.get("keep") in KEEPS and followed else None
        self._before: PoolState | None = None
        self._tokens = Lengths()
        self._keyed: dict[str, int] = {}
        self._asked: set[str] = set()
        """The requests that were looked up, or computed, since they last began."""

    def step(self, step: Step, ghost: Ghost) -> Iterator[Violation]:
        """Yield the lookups of a step that found less than was cached."""
        after = self._before if step.state is None else step.state.pools.get(self._device)
        lookups = self._lookups(step)
        taken = takings(step, self.world, bool(lookups)) if lookups or self._kept is not None else {}
        shows: Shows = _not_shown
        if lookups and _shows(self._before, after) and not is_upset(step):
            gone = {block for blocks in taken.values() for block in blocks} | _brought(step, self._device)
            yield from self._by_states(lookups, ghost, _stable(self._before, after, gone))
            yield from self._given_up(step, lookups, ghost, _entries(self._before) | _entries(after))
            shows = partial(_shown_to, step, taken, self._before, after)
        if self._kept is not None:
            yield from self._by_promise(step, lookups, ghost, self._kept, taken, shows)
        self._before = after

    def _lookups(self, step: Step) -> dict[int, _Lookup]:
        """The lookups of a step by their place among its effects, with what the request was at that moment."""
        found: dict[int, _Lookup] = {}
        for at, effect in enumerate(step.effects):
            kind = effect[0]
            self._tokens.follow(effect)
            if kind == "keys":
                self._keyed[effect[1]] = (effect[2] + len(effect[3])) * self.world.hash_block
            elif kind == "cut":
                self._keyed[effect[1]] = min(self._keyed.get(effect[1], 0), effect[2])
            elif kind in ("preempted", "end"):
                self._asked.discard(effect[1])
            elif kind == "found":  # Without a lookup: a turn of a conversation goes on from what that has.
                self._asked.add(effect[1])
            elif kind == "lookup" or (kind == "compute" and effect[1] not in self._asked):
                self._asked.add(r := effect[1])
                if step.op not in SEVERAL or kind == "lookup":  # Nobody knows when they would have asked.
                    external = effect[3] if kind == "lookup" else 0
                    found[at] = _Lookup(r, effect[2], external, self._tokens[r] - self._left, self._keyed.get(r, 0))
        return found

    def _by_states(self, lookups: dict[int, _Lookup], ghost: Ghost, cached: set[Entry]) -> Iterator[Violation]:
        """Lookups, judged by what stood in the prefix map all the while."""
        for lookup in lookups.values() if cached else ():
            most = self._most(lookup, self._under(lookup, ghost, cached))
            yield from self._short(lookup, ghost, most, "a shorter hit than what is cached", "are cached")

    def _given_up(
        self, step: Step, lookups: dict[int, _Lookup], ghost: Ghost, cached: set[Entry]
    ) -> Iterator[Violation]:
        """Of what a lookup finds, a drafter's layers want the end computed again: what was cached has a block behind.

        Only what comes first in a step: behind that something may have been cached, and lost before the state shows it.
        """
        others = (at for at, effect in enumerate(step.effects) if effect[0] in _REGISTERS or step.op in SEVERAL)
        until = next(others, len(step.effects))
        for lookup in (lookup for at, lookup in lookups.items() if self._drop and lookup.local and at < until):
            keys, per_hash = ghost.requests[lookup.r].keys, self.world.hash_block
            for g, group in enumerate(self.world.groups):
                end = lookup.local + group.block
                key = keys[end // per_hash - 1] if end // per_hash <= len(keys) else None
                if group.kind == "full" and key not in ghost.requests.others and (key, g) not in cached:
                    text = f"a lookup found {lookup.local} tokens of {lookup.r}, and nothing is cached behind them"
                    yield Violation("P14", "the end of a hit is not given up", text, about=(of_request(lookup.r),))
                    break

    def _by_promise(
        self,
        step: Step,
        lookups: dict[int, _Lookup],
        ghost: Ghost,
        kept: Kept,
        taken: dict[int, list[int]],
        shows: Shows,
    ) -> Iterator[Violation]:
        """Lookups, judged by what the engine promises to keep; the books are brought up to date as it happens.

        Of what its own map shows, `_by_states` judges whether it is found.
        """
        if step.op in SEVERAL:
            # Only what was kept before it all, and is not given up in it, was kept when a lookup was answered.
            kept.doubt(step, taken, ghost)
            for at, lookup in lookups.items():
                yield from self._promised(lookup, ghost, kept, shows(at))
            lookups = {}
        for at, effect in enumerate(step.effects):
            if at in lookups:
                yield from self._promised(lookups[at], ghost, kept, shows(at))
            if effect[0] in FOLLOWED:
                kept.follow(effect, taken.get(at, ()), ghost)
        kept.end(step, ghost)

    def _promised(self, lookup: _Lookup, ghost: Ghost, kept: Kept, shown: set[Entry] | None) -> Iterator[Violation]:
        line = ghost.requests[lookup.r].line
        most = self._most(lookup, lambda g, end: kept.has(g, line[end]))
        if shown is None or self._most(lookup, self._under(lookup, ghost, shown)) < most:
            what = "were computed, and nothing was done since that forgets them"
            block = kept.block_of(0, line[self._missed(lookup, most)]) if lookup.local < most else None
            where = () if block is None else (of_block(self._device, block),)
            yield from self._short(lookup, ghost, most, "what was computed is not found again", what, *where)

    def _under(self, lookup: _Lookup, ghost: Ghost, entries: set[Entry]) -> Has:
        """What of a request stands among these entries of a prefix map, for certain: not under keys that name two
        contents."""
        keys, per_hash = ghost.requests[lookup.r].keys, self.world.hash_block
        ambiguous = ghost.requests.others

        def has(g: int, end: int) -> bool:
            place = end // per_hash - 1
            return place < len(keys) and (keys[place], g) in entries and keys[place] not in ambiguous

        return has

    def _short(
        self, lookup: _Lookup, ghost: Ghost, most: int, oracle: str, what: str, *where: Thing
    ) -> Iterator[Violation]:
        request = ghost.requests[lookup.r]
        if lookup.local < most and not request.skips and not self._has_more(lookup, most):
            text = (
                f"the first {most} tokens of {lookup.r} {what}, and its lookup found {lookup.local} (at most "
                f"{lookup.limit} can be found)"
            )
            named = self._missed(lookup, most) // self.world.hash_block
            keys = map(of_key, request.keys[named - 1 : named])
            yield Violation("P14", oracle, text, self._kinds, (of_request(lookup.r), *keys, *where))

    def _has_more(self, lookup: _Lookup, most: int) -> bool:
        """Whether more comes from elsewhere than a part of a block, which is given up for that: blocks are loaded as a
        whole."""
        return lookup.local == most // self._whole * self._whole and lookup.local + lookup.external > most

    def _missed(self, lookup: _Lookup, most: int) -> int:
        """Behind how many tokens a block ends that a lookup should have found: the first one behind what it did find.
        Of what is no full attention the last one, since those before it may have gone."""
        if self.world.groups[0].kind != "full":
            return most
        return (lookup.local // self._unit + 1) * self._unit

    def _most(self, lookup: _Lookup, has: Has) -> int:
        """What a lookup must find at least: the longest prefix of which every group has what it needs (H4)."""
        length = (min(lookup.limit, lookup.keyed) - self._drop) // self._unit * self._unit
        while length > 0 and not all(self._suffices(g, length, has) for g in range(len(self.world.groups))):
            length -= self._unit
        return max(0, length)

    def _suffices(self, g: int, length: int, has: Has) -> bool:
        """Whether a group has what a hit of this length needs, and what a lookup gives up behind it."""
        group = self.world.groups[g]
        if group.kind == "mamba":
            return has(g, length)
        whole = range(first_needed(group, length) // group.block, (length + self._drop) // group.block)
        behind = (length + self._drop) % group.block
        return all(has(g, (i + 1) * group.block) for i in whole) and (not behind or has(g, length + self._drop))


def _tokens_said(world: World, word: str, usual: int) -> int:
    """So many tokens as the dialect says, where it does."""
    said = world.dialect.get(word)
    return said if isinstance(said, int) and said > 0 else usual


def _shows(*pools: PoolState | None) -> bool:
    """Whether all these states show the prefix map."""
    return all(pool is not None and pool.cached is not None for pool in pools)


def _brought(step: Step, device: str) -> set[int]:
    """The blocks of the device to which copies of a step write that begin in it: whoever loads was handed them."""
    brought = (effect[1] if effect[0] == "copied" else begun_by(effect) for effect in step.effects)
    return {block for pairs in brought for _, _, tier, block in pairs if tier == device}


def _entries(pool: PoolState | None) -> set[Entry]:
    return {(k, g) for k, g, blocks in (pool.cached if pool is not None else None) or () if blocks}


def _not_shown(_lookup: int) -> None:
    """Of a map that no state shows, or that is not only what the operations make of it."""


def _shown_to(
    step: Step, taken: dict[int, list[int]], before: PoolState | None, after: PoolState | None, lookup: int
) -> set[Entry]:
    """What a map shows before a step or behind it, but for what was cached behind a lookup: in blocks that its request
    was handed because of what was not found."""
    r = step.effects[lookup][1]
    own = {b for at, blocks in taken.items() if at > lookup and step.effects[at][1] == r for b in blocks}
    met = {(k, g) for k, g, blocks in (after.cached if after is not None else None) or () if not own.issuperset(blocks)}
    return _entries(before) | met


def _stable(before: PoolState | None, after: PoolState | None, taken: set[int]) -> set[Entry]:
    """The entries that are cached before and after at the same block, which nobody took."""
    if before is None or after is None:
        return set()
    then = {(k, g): blocks for k, g, blocks in before.cached or ()}
    return {
        (k, g)
        for k, g, blocks in after.cached or ()
        if any(block not in taken and block in then.get((k, g), ()) for block in blocks)
    }
