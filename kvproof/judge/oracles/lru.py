"""O12 of whoever promises LRU: of what is cached and nobody holds, what was used last goes last."""

from collections.abc import Iterator, Set

from ..ghost import Ghost
from ..record import SEVERAL, Effect, State, Step, World
from ..violation import Violation, of_key
from .pools import entries, shown

__all__ = ["LruOracle"]

Entry = tuple[int, int]
"""A hash key and a group, as a prefix map has them."""

_OTHERWISE = ("evict", "reset", "drain", *SEVERAL)
"""Operations in which entries go by another order, or many times."""


class LruOracle:
    """Compares what goes from the prefix maps with what stays, by uses that are certain and uses that may be.

    What is cached, found and held, or brought back from the host, is used. Whether a lookup that admits nobody, a
    release, or a step of a request that has it is a use too, is the manager's to say: then it may be used.
    """

    def __init__(self, world: World) -> None:
        names = dict(zip(("evicts", "host_evicts"), world.tiers, strict=False))
        self._tiers = [_Tier(tier) for word, tier in names.items() if world.dialect.get(word) == "lru"]
        self._last: State | None = None
        self._now = 0

    def step(self, step: Step, ghost: Ghost) -> Iterator[Violation]:
        """Yield, of each tier that promises it, what is gone before something that was used longer ago."""
        last, state = self._last, step.state
        self._last = state if state is not None else last
        if not self._tiers or state is None or step.error is not None:
            return
        self._now += 1
        named = _named(step, ghost, state)
        for tier in self._tiers:
            tier.may_use(self._now, named, state)
            if last is not None and step.op not in _OTHERWISE:
                yield from tier.judged(step, last, state)
            tier.has_used(self._now, step, state)


class _Tier:
    """When the entries of one tier were used, at least and at most."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._at_least: dict[Entry, int] = {}
        self._at_most: dict[Entry, int] = {}
        self._there: dict[Entry, set[int]] = {}
        self._begun: dict[int, int] = {}
        """When a copy to a block began, which is cached when it ends."""
        self._loads: dict[object, tuple[int, set[int]]] = {}
        """When a copy to another tier began, by its number, and what of this one it reads."""

    def may_use(self, now: int, named: Set[int], state: State) -> None:
        """Whoever has a key may use it, and so may copies that are under way."""
        held = {*state.holds.get(self._name, ())}
        used = (entry for entry, blocks in self._there.items() if entry[0] in named or blocks & held)
        self._at_most |= dict.fromkeys(used, now)

    def judged(self, step: Step, last: State, state: State) -> Iterator[Violation]:
        """What is gone, and was certainly used after something that stays, which nobody held all the while."""
        there = entries(shown(state, self._name))
        touched = {block for effect in step.effects for block in _blocks(effect, self._name)}
        touched.update(*(each.holds.get(self._name, ()) for each in (last, state)))
        stay = [k for k, blocks in self._there.items() if there.get(k) == blocks and touched.isdisjoint(blocks)]
        oldest = min(stay, key=self._at_most.__getitem__, default=None)
        gone = (entry for entry in self._there if entry not in there)
        late = next((k for k in gone if oldest and self._at_most[oldest] < self._at_least[k]), None)
        if late is not None and oldest is not None:
            text = f"key {late[0]} is gone ({self._name}), which was used after key {oldest[0]}, which stays"
            yield Violation(
                "O12", "evicts what was used later", text, (self._name,), (of_key(late[0]), of_key(oldest[0]))
            )

    def has_used(self, now: int, step: Step, state: State) -> None:
        """Note what came, and what a request found or brought back."""
        there = entries(shown(state, self._name))
        copies = [effect for effect in step.effects if effect[0] == "copy" and effect[2] == "begin"]
        self._begun |= {block: now for effect in copies for block in _blocks(effect, self._name)}
        found = {block for effect in step.effects for block in _found(effect, self._name)}
        for entry, blocks in there.items():
            if entry not in self._there:
                self._at_least[entry] = min(self._begun.get(block, now) for block in blocks)
                self._at_most[entry] = now
            elif not found.isdisjoint(blocks):
                self._at_least[entry] = now
        for effect in step.effects:
            self._follow(now, effect, there)
        self._there = there

    def _follow(self, now: int, effect: Effect, there: dict[Entry, set[int]]) -> None:
        """What a load has brought back was used when it began, or later: that may be when it ended."""
        if effect[0] != "copy" or self._name == "device":
            return
        if effect[2] == "begin":
            sources = {block for name, block, to, _ in effect[3] if name == self._name and to == "device"}
            self._loads[effect[1]] = now, sources
            return
        began, sources = self._loads.pop(effect[1], (0, set()))
        for entry, blocks in there.items():
            if not sources.isdisjoint(blocks):
                self._at_most[entry] = now
                if effect[2] == "end":
                    self._at_least[entry] = max(self._at_least[entry], began)


def _named(step: Step, ghost: Ghost, state: State) -> set[int]:
    """The keys of all requests that run, or that something was done for."""
    told = {effect[1] for effect in step.effects if len(effect) > 1 and isinstance(effect[1], str)}
    running = (told | state.tables.keys() | {str(step.args.get("request"))}) & ghost.requests.keys()
    asked = step.args.get("requests")
    running |= {r for r in (asked if isinstance(asked, list) else ()) if isinstance(r, str)} & ghost.requests.keys()
    return {key for r in running for key in ghost.requests[r].keys}


def _blocks(effect: Effect, tier: str) -> Iterator[int]:
    """The blocks of a tier that an effect names."""
    if effect[0] in ("copy", "copied"):
        pairs = (effect[1:2] if effect[0] == "copied" else effect[3:4]) or [None]
        yield from (block for a, x, b, y in pairs[0] or () for name, block in ((a, x), (b, y)) if name == tier)
    elif tier == "device" and effect[0] == "table":
        yield from effect[4]


def _found(effect: Effect, tier: str) -> Iterator[int]:
    """The blocks of a tier that a request is given since they hold its prefix."""
    if effect[0] == "copied":
        yield from (block for name, block, _, _ in effect[1] if name == tier)
    elif tier == "device" and effect[0] == "found":
        yield from (block for table in effect[2] for block in table)
