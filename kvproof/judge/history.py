"""What happened to a block, a hash key or a request in a run, operation by operation: what a fault is explained by."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from .ghost import Ghost
from .record import Answer, Effect, PoolState, State, Step, World
from .violation import Thing

__all__ = ["history"]

SHOWN = 24
"""So many tokens of a prefix are shown at most."""


def history(answer: Answer, at: int, thing: Thing) -> list[tuple[int, str]]:
    """What happened to ``thing`` up to operation ``at``: the operation's number, counted from 0, and what it did to it.

    Told are the effects that the engine's adapter reported, in their order, and then what differs in the state. An
    answer that is no answer has no history.
    """
    if answer.world is None:
        return []
    follower = _FOLLOWERS[thing.kind](answer.world, thing)
    ghost = Ghost(answer.world)
    last: State | None = None
    told: list[tuple[int, str]] = []
    for number, step in enumerate(answer.steps[: at + 1]):
        try:
            happened = [*_effects(follower, step, ghost), *follower.changes(last, step.state)]
        except (LookupError, TypeError, ValueError, AttributeError, AssertionError):
            return told  # What was told is garbage, which is a finding of its own.
        if happened:
            told.append((number, "; ".join(dict.fromkeys(happened))))
        last = step.state if step.state is not None else last
    return told


def _effects(follower: "_Follower", step: Step, ghost: Ghost) -> Iterator[str]:
    for effect in step.effects:
        yield from follower.effect(effect, ghost)
        for _ in ghost.apply(effect) or ():
            pass


class _Follower(Protocol):
    """Looks at a run for what concerns one thing."""

    def effect(self, effect: Effect, ghost: Ghost, /) -> Iterator[str]:
        """Yield what an effect does to it; ``ghost`` is as it was before."""

    def changes(self, before: State | None, after: State | None, /) -> Iterator[str]:
        """Yield what differs in the state."""


@dataclass
class _Of:
    """Of what it is told, and the world in which it is."""

    world: World
    thing: Thing


class _OfBlock(_Of):
    """A block of a tier."""

    def effect(self, effect: Effect, ghost: Ghost) -> Iterator[str]:
        kind, block, tier = effect[0], self.thing.name, self.thing.tier
        split = self.world.tiers[tier].split if tier in self.world.tiers else 1
        if kind in ("copy", "copied"):
            yield from self._copies(effect, ghost, split)
        elif kind == "rows":
            yield from self._rows(effect[1])
        elif kind == "computed_outside":
            _, r, g, places = effect
            if any(t == tier and unit // split == block for t, unit, _, _ in places):
                yield f"filled from elsewhere for {r} (group {g})"
        elif kind == "zero" and effect[1] == tier and block in effect[2]:
            yield "cleared"
        elif self._in_tables is not None and len(effect) > 1:
            yield from self._of_requests(effect, ghost, self._in_tables)

    @property
    def _in_tables(self) -> int | None:
        """The block as block tables name it (`World.place`); None, where they do not."""
        device, *_ = self.world.tiers
        if self.thing.tier == self.world.notes.get("reads"):
            return self.world.tiers[device].blocks + int(self.thing.name)
        return int(self.thing.name) if self.thing.tier == device else None

    def _rows(self, spans: Iterable[Sequence[Any]]) -> Iterator[str]:
        here = (self.thing.tier, self.thing.name)
        other = {(t, b): f"slots of it are copied to {to_t} {to_b}" for t, b, _, to_t, to_b, *_ in spans}
        other |= {(to_t, to_b): f"slots of {t} {b} are copied to it" for t, b, _, to_t, to_b, *_ in spans}
        if here in other:
            yield other[here]

    def _copies(self, effect: Effect, ghost: Ghost, split: int) -> Iterator[str]:
        if effect[0] == "copied":
            word, pairs = "is made", effect[1]
        else:
            word = {"begin": "begins", "end": "ends"}.get(effect[2], "fails")
            under_way = ghost.copies.under_way.get(effect[1])
            pairs = effect[3] if effect[2] == "begin" else () if under_way is None else under_way.pairs
        here = (self.thing.tier, self.thing.name)
        for from_tier, source, to_tier, destination in pairs:
            if (from_tier, source // split) == here:
                yield f"a copy of it to {to_tier} {destination} {word}"
            if (to_tier, destination // split) == here:
                yield f"a copy of {from_tier} {source} to it {word}"

    def _of_requests(self, effect: Effect, ghost: Ghost, block: int) -> Iterator[str]:
        kind, r = effect[0], str(effect[1])
        if kind == "table":
            _, _, g, at, blocks = effect
            before = ghost.requests[r].tables[g]
            if block in blocks and block not in before:
                yield f"entry {at + blocks.index(block)} of the table of {r} (group {g})"
            elif block in before[at:] and block not in blocks:
                yield f"leaves the table of {r} (group {g})"
        elif kind == "found":
            how = f"the fork {r} gets it" if ghost.requests[r].is_fork else f"a lookup of {r} hands it out"
            yield from (f"{how} (group {g})" for g, t in enumerate(effect[2]) if block in t)
        elif kind == "compute":
            yield from self._computed(r, effect[2], effect[2] + len(effect[3]), ghost, block)
        elif kind == "state":
            _, _, g, source, leaves = effect
            if source == block:
                yield f"{r} takes its state from it (group {g})"
            yield from (f"{r} leaves its state after {n} tokens in it (group {g})" for b, n in leaves if b == block)
        elif kind in ("end", "preempted") and any(block in table for table in ghost.requests[r].tables):
            yield f"{r}, which holds it, " + ("is preempted" if kind == "preempted" else f"is {effect[2]}")

    def _computed(self, r: str, start: int, end: int, ghost: Ghost, own: int) -> Iterator[str]:
        for g, group in enumerate(self.world.groups):
            if group.kind == "mamba":
                continue
            for entry, block in enumerate(ghost.requests[r].tables[g]):
                first, last = max(start, entry * group.block), min(end, (entry + 1) * group.block) - 1
                if block == own and first <= last:
                    yield f"{r} writes its positions {first} to {last} (group {g})"

    def changes(self, before: State | None, after: State | None) -> Iterator[str]:
        if after is None:
            return
        was, now = (s.pools.get(self.thing.tier, PoolState()) if s else PoolState() for s in (before, after))
        old, new = _names_of(was, self.thing.name), _names_of(now, self.thing.name)
        if was.cached is not None or now.cached is not None:
            yield from (f"cached as key {k} (group {g})" for k, g in sorted(new - old))
            yield from (f"no longer cached as key {k} (group {g})" for k, g in sorted(old - new))
        counts = [_at(pool.ref, self.thing.name) for pool in (was, now)]
        if counts[0] != counts[1] and counts[1] is not None and counts != [None, 0]:
            yield f"ref_cnt {counts[1]}" if counts[0] is None else f"ref_cnt {counts[0]} to {counts[1]}"
        free = [None if pool.free is None else self.thing.name in pool.free for pool in (was, now)]
        if now.free is not None and free == [False, True]:
            yield f"goes to place {now.free.index(int(self.thing.name)) + 1} of {len(now.free)} of the free queue"
        elif free == [True, False]:
            yield "leaves the free queue"


@dataclass
class _OfKey(_Of):
    """A hash key: who named it, where it is cached, and what the events say."""

    _tokens: dict[str, list[int]] = field(default_factory=dict)

    def effect(self, effect: Effect, _ghost: Ghost) -> Iterator[str]:
        kind, key = effect[0], self.thing.name
        if kind == "request":
            self._tokens[effect[1]] = [*effect[2]["tokens"]]
        elif kind == "append":
            self._tokens[effect[1]] += effect[2]
        elif kind == "cut":
            del self._tokens[effect[1]][effect[2] :]
        elif kind == "keys" and key in effect[3]:
            count = (effect[2] + effect[3].index(key) + 1) * self.world.hash_block
            tokens = self._tokens[effect[1]][:count]
            shown = f": {tokens}" if len(tokens) <= SHOWN else ""
            yield f"names the first {count} tokens of {effect[1]}{shown}"
        elif kind == "stored" and key in effect[3]:
            parent = "".join(f", with parent {parent}" for parent in effect[4:5] if parent is not None)
            yield f"an event says that it is stored ({_where(effect[1], effect[2])}){parent}"
        elif kind == "removed" and key in effect[3]:
            yield f"an event says that it is removed ({_where(effect[1], effect[2])})"
        elif kind == "cleared":
            yield f"an event says that all of {effect[1]} is cleared"

    def changes(self, before: State | None, after: State | None) -> Iterator[str]:
        if after is None:
            return
        was, now = _places_of(before, self.thing.name), _places_of(after, self.thing.name)
        for (tier, g), blocks in now.items():
            if blocks - was.get((tier, g), set()):
                yield f"cached in block {_words(blocks - was.get((tier, g), set()))} ({_where(tier, g)})"
        for (tier, g), blocks in was.items():
            if blocks - now.get((tier, g), set()):
                yield f"no longer cached in block {_words(blocks - now.get((tier, g), set()))} ({_where(tier, g)})"


class _OfRequest(_Of):
    """A request: what it asked for, got, computed and gave up."""

    def effect(self, effect: Effect, ghost: Ghost) -> Iterator[str]:
        kind, r = effect[0], str(self.thing.name)
        if len(effect) < 2 or effect[1] != r:
            return
        if kind == "request":
            of = [f"{name} {effect[2][name]}" for name in ("adapter", "salt") if effect[2].get(name) is not None]
            of += [f"as a fork of {effect[2]['fork']}"] if effect[2].get("fork") else []
            yield ", ".join([f"arrives with {len(effect[2]['tokens'])} tokens", *of])
        elif kind == "lookup":
            _, _, local, external, limit = effect
            elsewhere = f" and {external} elsewhere" if external else ""
            yield f"finds {local} tokens here{elsewhere}, of at most {limit}"
        elif kind == "table":
            _, _, g, at, blocks = effect
            yield f"its table of group {g} becomes {[*ghost.requests[r].tables[g][:at], *blocks]}"
        elif kind == "compute":
            yield f"computes positions {effect[2]} to {effect[2] + len(effect[3]) - 1}"
        elif kind == "ran":
            yield f"computes positions {effect[3]} to {effect[3] + len(effect[4]) - 1}"
        elif kind == "append":
            yield f"grows by {len(effect[2])} tokens"
        elif kind == "cut":
            yield f"gives up all but its first {effect[2]} tokens"
        elif kind == "computed_outside":
            yield f"gets KV from elsewhere (group {effect[2]})"
        elif kind == "refused":
            yield f"is refused room for its first {effect[2]} tokens, with {len(effect[4])} blocks free"
        elif kind in ("end", "preempted"):
            yield f"is {'preempted' if kind == 'preempted' else effect[2]}"

    def changes(self, _before: State | None, _after: State | None) -> Iterator[str]:
        yield from ()


def _at(values: Sequence[int] | None, place: int | str) -> int | None:
    return values[int(place)] if values is not None and 0 <= int(place) < len(values) else None


def _names_of(pool: PoolState, block: int | str) -> set[tuple[int, int]]:
    """The keys and groups that a block is cached as."""
    return {(k, g) for k, g, blocks in pool.cached or () if block in blocks}


def _places_of(state: State | None, key: int | str) -> dict[tuple[str, int], set[int]]:
    """The blocks that a key is cached in, by tier and group."""
    pools = {} if state is None else state.pools
    return {(t, g): set(blocks) for t, pool in pools.items() for k, g, blocks in pool.cached or () if k == key}


def _where(tier: str, g: int | None) -> str:
    return tier if g is None else f"{tier}, group {g}"


def _words(blocks: set[int]) -> str:
    return ", ".join(map(str, sorted(blocks)))


_FOLLOWERS: dict[str, Callable[[World, Thing], _Follower]] = {
    "block": _OfBlock,
    "key": _OfKey,
    "request": _OfRequest,
}
