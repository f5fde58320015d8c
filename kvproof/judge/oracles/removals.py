"""Evicts and resets: hashes go and nothing else, and a reset waits until nothing is held (P11); it empties the host too
(O10).

What stands in the free queue's order is judged only where the world's notes say that it decides what is taken. What a
state does not show is not judged.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import islice

from ..ghost import Ghost
from ..record import State, Step, World
from ..violation import Violation, of_block, of_key, of_request
from .pools import differ, entries, evicted_by, shown

__all__ = ["RemovalsOracle"]


_GOES_ON = {"append", "compute", "end", "preempted", "processed"}
"""Effects of requests that went on: with what an engine was asked before, it may have waited until now."""

_COPIES = {"copy", "copied"}


class RemovalsOracle:
    """Judges the operations ``evict``, of a ``block`` or of those that it answers, and ``reset``."""

    def __init__(self, world: World) -> None:
        self.world = world
        tiers = list(world.tiers)
        self._device, self._host = tiers[0], tiers[1] if len(tiers) > 1 else None
        self._cache_holds = world.dialect.get("cached") == "held"
        self._is_ordered = world.dialect.get("take") == "head"
        self._last: State | None = None

    def step(self, step: Step, ghost: Ghost) -> Iterator[Violation]:
        """Yield what is wrong with a step."""
        last, state = self._last, step.state
        self._last = state if state is not None else last
        if state is None or last is None or step.skipped or step.error is not None:
            return
        if step.op == "evict":
            named = evicted_by(step) or []
            yield from self._left(named, state)
            if _GOES_ON.isdisjoint(effect[0] for effect in step.effects):
                yield from self._changed(named, last, state)
        elif step.op == "reset" and step.result is True:
            yield from self._reset(step, last, state)
        elif step.op == "reset" and step.result is False:
            yield from self._refused(step, last, state)
        elif step.together.get("reset") is True:
            yield from self._reset_beside(step, ghost, last, state)

    def _left(self, named: list[int], state: State) -> Iterator[Violation]:
        """P11: what is evicted is not cached any more."""
        for k, _, blocks in shown(state, self._device).cached or ():
            for block in set(named).intersection(blocks):
                text = f"block {block} is evicted and still cached as key {k}"
                thing = of_block(self._device, block)
                yield Violation("P11", "evict leaves an entry", text, about=(thing, of_key(k)))

    def _changed(self, named: list[int], last: State, state: State) -> Iterator[Violation]:
        """P11: nothing else is different."""
        before, after = shown(last, self._device), shown(state, self._device)
        # Where the cache is a holder, an evict ends that.
        if self._cache_holds or not named:
            return
        said, about = _evict_of(named), tuple(of_block(self._device, block) for block in named)
        # A counter without its queue may leave out what is cached, and then what is evicted comes in.
        is_counted = after.free is not None or after.cached is None
        counts = is_counted and differ(before.num_free, after.num_free)
        if last.tables != state.tables or differ(before.ref, after.ref) or counts:
            text = f"{said} changes who holds what"
            yield Violation("P11", "evict removes more than hashes", text, ("holders",), about)
        elif self._is_ordered and differ(before.free, after.free):
            text = f"{said} makes the free queue {after.free}; it was {before.free}"
            yield Violation("P11", "evict removes more than hashes", text, ("queue",), about)

    def _reset(self, step: Step, last: State, state: State) -> Iterator[Violation]:
        """P11, O10: who runs all the time has its blocks before a reset and behind it. A reset may end who runs."""
        yield from self._while_held(step, last, state)
        if self._host is not None and entries(shown(state, self._host)):
            text = f"reset answered true, and entries are still cached ({self._host})"
            yield Violation("O10", "reset leaves entries", text, (self._host,))

    def _refused(self, step: Step, last: State, state: State) -> Iterator[Violation]:
        """O10: what the host had before it the host has behind it. Copies that end beside it change that themselves."""
        if self._host is None or any(effect[0] in _COPIES for effect in step.effects):
            return
        before, after = shown(last, self._host), shown(state, self._host)
        if None not in (before.cached, after.cached) and entries(before) != entries(after):
            text = f"reset answered false, and the prefix map changed ({self._host})"
            yield Violation("O10", "refused reset changes something", text, (self._host,))

    def _reset_beside(self, step: Step, ghost: Ghost, last: State, state: State) -> Iterator[Violation]:
        """P11, O10 of a reset that overlapped: whenever it was done, who held blocks before it all and behind it held
        some, and so did a copy under way; and what the host had all the while was there behind it.

        What is asked of a request among calls that overlap is one thing: who gave up its blocks did not get new ones.
        """
        gave_up = {effect[1] for effect in step.effects if effect[0] in ("end", "preempted")}
        staying = (r for r in state.tables if r not in gave_up and _holds(r, last) and _holds(r, state))
        yield from (_held(r, state) for r in islice(staying, 1))
        copies = [effect for effect in step.effects if effect[0] in _COPIES]
        begun = {effect[1] for effect in copies if effect[0] == "copy" and effect[2] == "begin"}
        old = (copy for number, copy in ghost.copies.under_way.items() if number not in begun)
        read = (block for copy in old for tier, block, _, _ in copy.pairs if tier == self._device)
        counts = [shown(each, self._device).ref or () for each in (last, state)]
        held = (b for b in read if all(b < len(ref) and ref[b] for ref in counts))
        for block in islice(() if self._cache_holds else held, 1):
            text = f"reset answered true, and block {block} is held by a copy that has not ended"
            yield Violation("P11", "reset while blocks are held", text, about=(of_block(self._device, block),))
        if self._host is None:
            return
        before, after = (entries(shown(each, self._host)) for each in (last, state))
        pairs = [pair for effect in copies if isinstance(effect[-1], list) for pair in effect[-1]]
        written = {to for _, _, tier, to in pairs if tier == self._host}
        left = (k for k, blocks in before.items() if (blocks & after.get(k, set())) - written)
        for k, _ in islice(left, 1):
            text = f"reset answered true, and key {k} is still cached ({self._host})"
            yield Violation("O10", "reset leaves entries", text, (self._host,), (of_key(k),))

    def _while_held(self, step: Step, last: State, state: State) -> Iterator[Violation]:
        for r in state.tables:
            if _holds(r, last) and _holds(r, state):
                yield _held(r, state)
                return
        # Where the cache is a holder, a reset ends that.
        if self._cache_holds:
            return
        null, counts = self.world.tiers[self._device].null, shown(last, self._device).ref or ()
        ended = [effect[1] for effect in step.effects if effect[0] == "end"]
        let_go = Counter(block for r in ended for table in last.tables.get(r, ()) for block in table)
        left = (block for block, count in enumerate(counts) if count > let_go[block] and block != null)
        if (held := next(left, None)) is not None:
            text = f"reset answered true, and block {held} has {counts[held]} holders, a copy among them perhaps"
            yield Violation("P11", "reset while blocks are held", text, about=(of_block(self._device, held),))


def _evict_of(named: list[int]) -> str:
    return f"evict of block {named[0]}" if len(named) == 1 else f"evict of blocks {named}"


def _holds(r: str, state: State) -> bool:
    return any(state.tables.get(r, ()))


def _held(r: str, state: State) -> Violation:
    text = f"reset answered true, and {r} holds blocks {next(filter(None, state.tables[r]))}"
    return Violation("P11", "reset while blocks are held", text, about=(of_request(r),))
