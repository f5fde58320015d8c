"""Whole requests: refusals (P7, P15), order (P7, P10), a mirrored host (M1 to M6), what events say of parents (P12).

What is policy is judged only where the world's notes name it: ``{"dialect": {"take": "head", "free": "append",
"host": "mirror"}}``. What a state does not show is not judged.
"""

from collections.abc import Container, Iterator, Sequence
from itertools import pairwise

import msgspec

from ..ghost import Ghost
from ..recency import Recency
from ..record import PoolState, State, Step, World
from ..violation import Thing, Violation, of_block, of_key, of_request
from .pools import differ, entries, shown
from .reloads import ADMITS, Reload, reloads_of
from .told_blocks import has_judged_parent

__all__ = ["RequestsOracle", "queue_after"]

_TAKES = (*ADMITS, "fork")
"""What may take blocks, or be refused."""

_ENDS = ("finish", "abort", "preempt")


def queue_after(order: str, before: Sequence[int], freed: Sequence[int], named: Container[int]) -> list[int]:
    """The free queue behind a free call (P10): what it was, what was freed, in that order, and what of that is named by
    a hash. ``order`` is ``append``, all to the tail, or ``split``, what has no name to the head."""
    if order == "append":
        return [*before, *freed]
    return [*(b for b in freed if b not in named), *before, *(b for b in freed if b in named)]


class RequestsOracle:
    """Judges a run of the level ``requests``."""

    def __init__(self, world: World) -> None:
        self.world = world
        tiers = list(world.tiers)
        self._device, self._host = tiers[0], tiers[1] if len(tiers) > 1 else None
        self._dialect = world.dialect
        self._single = len(world.groups) == 1 and world.groups[0].kind == "full"
        self._last: State | None = None
        self._live: dict[str, None] = {}
        """The requests that arrived, and of which no end was told."""
        self._tells_parents = False
        """Whether an event named a parent: who does so for some blocks, and for others none, says that these come
        first."""
        self._mirror = Recency[int](0 if self._host is None else world.tiers[self._host].blocks)
        """The keys of a mirrored host."""
        self._is_known = True
        """Whether the order is known in which they were used."""

    def step(self, step: Step, ghost: Ghost) -> Iterator[Violation]:
        """Yield what is wrong with a step."""
        yield from self._ended(step)
        last, state = self._last, step.state
        self._last = state if state is not None else last
        if state is None or last is None or step.skipped or step.error is not None:
            if state is not None and last is None:
                yield from self._mirrored(step, ghost, State({}), state)
            return
        yield from self._parents(step, ghost)
        if step.op in _TAKES and step.result is False:
            yield from self._refused(step, last, state)
        elif step.op in _TAKES and step.op != "cut" and self._dialect.get("take") == "head" and self._single:
            yield from self._taken(step, last, state)
        elif step.op in _ENDS and self._single:
            yield from self._freed(step, last, state)
        yield from self._mirrored(step, ghost, last, state)

    # --------------------------------------------------------------------------------------------- blocks and requests

    def _ended(self, step: Step) -> Iterator[Violation]:
        """L1: who is not left behind a drain has ended, and that is told. A driver that answers so, and lets nobody in,
        would be judged by nothing."""
        for effect in step.effects:
            if effect[0] == "request":
                self._live[effect[1]] = None
            elif effect[0] == "end":
                self._live.pop(effect[1], None)
        if step.op != "drain" or step.skipped or step.error is not None or not isinstance(step.result, dict):
            return
        left = step.result.get("left")
        if isinstance(left, int) and left < len(self._live):
            r = next(iter(self._live))
            text = f"drain left {left} requests, and of {len(self._live)} no end was told, {r} among them"
            yield Violation("L1", "requests whose end nobody tells", text, about=(of_request(r),))

    def _refused(self, step: Step, last: State, state: State) -> Iterator[Violation]:
        """P15, P7: a refusal changes no table, no entry of any tier, and takes nothing.

        A request may give up what its window left behind, since that does not depend on its getting more.
        """
        given_up = self._behind_a_window(str(step.args.get("request")), last, state)
        if last.tables != state.tables and given_up is None:
            r = next(r for r in {**last.tables, **state.tables} if last.tables.get(r) != state.tables.get(r))
            own = r == step.args.get("request")
            text = f"{step.op} is refused, and the block table of {r} changes"
            yield Violation(
                "P7" if own else "P15", "a refused admission changes something", text, ("tables",), (of_request(r),)
            )
        for tier, pool in state.pools.items():
            before = last.pools.get(tier)
            if before is None:
                continue
            if tier == self._device and given_up:
                before = _without(before, given_up, pool)
            if entries(before) != entries(pool):
                text = f"{step.op} is refused, and the prefix map changes ({tier})"
                about = _remapped(before, pool)
                yield Violation("P15", "a refused admission changes something", text, (tier,), about)
            if before.ref != pool.ref:
                text = f"{step.op} is refused, and reference counts change ({tier})"
                about = _recounted(tier, before, pool)
                yield Violation("P7", "a refused admission takes something", text, (tier,), about)
            elif before.num_free != pool.num_free:
                text = f"{step.op} is refused, and of {before.num_free} free blocks {pool.num_free} are left ({tier})"
                yield Violation("P7", "a refused admission takes something", text, (tier,))
            elif self._reordered(tier, before, pool):
                text = f"{step.op} is refused, and the free queue becomes {pool.free} ({tier}); it was {before.free}"
                yield Violation("P7", "a refused admission changes the queue", text, (tier,))

    def _behind_a_window(self, r: str, last: State, state: State) -> list[int] | None:
        """The blocks that a request with a window gave up, for which the null block stands now; None where that is not
        all that tables differ in."""
        null, before, after = self.world.tiers[self._device].null, last.tables.get(r), state.tables.get(r)
        others = ({**each.tables, r: []} for each in (last, state))
        if self._single or null is None or before is None or after is None or next(others) != next(others):
            return None
        given_up: list[int] = []
        for group, was, now in zip(self.world.groups, before, after, strict=True):
            changed = [(b, c) for b, c in zip(was, now, strict=False) if b != c]
            if len(was) != len(now) or (changed and group.kind != "window") or any(c != null for _, c in changed):
                return None
            given_up += [b for b, _ in changed]
        return given_up

    def _parents(self, step: Step, ghost: Ghost) -> Iterator[Violation]:
        """P12: the parent that an event names is the block before it, in a chain of the manager's own keys.

        What the event tells of tokens says more, where it is known what the keys name (`ToldBlocksOracle`).
        """
        stored = [effect for effect in step.effects if effect[0] == "stored" and effect[3][:1]]
        with_parent = [effect for effect in stored if len(effect) > 4 and not has_judged_parent(effect, ghost)]
        told = [(effect[3][0], effect[4]) for effect in with_parent]
        self._tells_parents = self._tells_parents or any(parent is not None for _, parent in told)
        if not self._single or not self._tells_parents or not told:
            return
        before = {b: a for request in ghost.requests.values() for a, b in pairwise(request.keys) if -1 not in (a, b)}
        for key, parent in told:
            if before.get(key, parent) != parent:
                said = "without a parent" if parent is None else f"with parent {parent}"
                text = f"key {key} is reported {said}, and the block before it has key {before[key]}"
                yield Violation("P12", "parent of a stored block", text, ("another",), (of_key(key),))

    def _taken(self, step: Step, last: State, state: State) -> Iterator[Violation]:
        """P7: what is handed out and was not found is the head of the free queue. It may have been given back already,
        for another that holds the same. What is copied from, as for a hit that ends inside of a block, was found, too,
        and may be held meanwhile (P8)."""
        before, after = shown(last, self._device), shown(state, self._device)
        if before.free is None or after.free is None or before.cached is None or after.cached is None:
            return
        told = {block for effect in step.effects if effect[0] == "table" for block in effect[4]}
        gone = set(before.free) - (set(after.free) - told)
        # A block that still carries what it carried was found, not taken.
        was, now = _keys_of(before), _keys_of(after)
        taken = [block for block in before.free if block in gone and not was.get(block, set()) & now.get(block, set())]
        spared = gone.union(source for source, _ in self._copied(step, self._device)).difference(taken)
        others = [block for block in before.free if block not in spared]
        if taken != others[: len(taken)]:
            text = f"blocks {taken} are taken, the head of the free queue is {others[: len(taken)]}"
            yield Violation("P7", "taken from the head of the queue", text)

    def _freed(self, step: Step, last: State, state: State) -> Iterator[Violation]:
        """P10: where freed blocks go, in the order of the dialect."""
        order, before, after = self._dialect.get("free"), shown(last, self._device), shown(state, self._device)
        if order not in ("append", "split") or before.free is None or after.free is None:
            return
        if order == "split" and after.hashes is None:
            return
        null = self.world.tiers[self._device].null
        table = [block for block in (last.tables.get(str(step.args.get("request"))) or [[]])[0] if block != null]
        freed = [block for block in reversed(table) if block in after.free]
        named = {block for block, keys in after.hashes or () if keys}
        expected = queue_after(order, before.free, freed, named)
        if after.free != expected:
            text = f"after {step.op} the free queue is {after.free}; in the order that is declared it is {expected}"
            yield Violation("P10", "order of freed blocks", text, (order,))

    def _reordered(self, tier: str, before: PoolState, after: PoolState) -> bool:
        """The free queue is another, where its order is said to decide what is taken."""
        return tier == self._device and self._dialect.get("take") == "head" and differ(before.free, after.free)

    # --------------------------------------------------------------------------------------------- a mirrored host

    def _mirrored(self, step: Step, ghost: Ghost, last: State, state: State) -> Iterator[Violation]:
        """M1 to M6, where the world says that the host is a mirror."""
        host = self._host
        pool = None if host is None else state.pools.get(host)
        if host is None or pool is None or pool.cached is None or self._dialect.get("host") != "mirror":
            return
        room = self.world.tiers[host].blocks
        found = {k for k, _, blocks in pool.cached if blocks}
        places = {(k if self.world.tiers[host].by_key else b) for k, _, blocks in pool.cached for b in blocks}
        if len(places) > room:
            yield Violation(
                "M3", "more than the host holds", f"the host has {len(places)} entries, and room for {room}"
            )
        shown = last.pools.get(self._device), state.pools.get(self._device)
        if step.op == "mirror" and None not in shown and shown[0] != shown[1]:
            yield Violation("M2", "mirror changes the device", "mirror changes the device's pool, which it only reads")
        yield from self._reloaded(step, ghost, last, state)
        if not self._is_known or _stores_beside(step):
            self._is_known = not found
            self._mirror.become(found)
            return
        self._follow(step, ghost, last, state)
        expected = set(self._mirror)
        if found == expected:
            return
        missing, extra = expected - found, found - expected
        k = min(missing or extra)
        if step.op == "mirror" and missing and extra:
            rule, why = "M3", f"and key {min(extra)} is, which is the least recently used"
        elif step.op == "mirror":
            rule, why = "M2", "though the blocks of the batch and the room say otherwise"
        elif step.op in _ENDS:
            rule, why = "M1", "though a release moves nothing"
        else:
            rule, why = "M4", "though only mirror and reset may change that"
        text = f"after {step.op} key {k} is {'not ' if missing else ''}on the host, {why}"
        yield Violation(rule, "what the mirror holds", text, (step.op,), (of_key(k),))
        self._mirror.become([*(k for k in self._mirror if k in found), *sorted(extra)])

    def _reloaded(self, step: Step, ghost: Ghost, last: State, state: State) -> Iterator[Violation]:
        """M4 to M6, where the device shows what is cached."""
        device, host = (last.pools.get(self._device), state.pools.get(self._device)), self._host
        before, after = (None if pool is None or pool.cached is None else _keys_of(pool) for pool in device)
        if host is None or before is None or after is None or not self._single:
            return
        reloads = [Reload(self._key_at(last, unit), to) for unit, to in self._copied(step, self._host)]
        entries = last.pools[host].cached if host in last.pools else None
        there = {k for k, _, blocks in entries or () if blocks}
        size = self.world.groups[0].block
        if size == self.world.hash_block:
            yield from reloads_of(step, ghost, reloads, (before, after), there, size, self._device)

    def _copied(self, step: Step, tier: str | None) -> Iterator[tuple[int, int]]:
        """The places of a tier that were copied to the device, and the blocks where they went."""
        for effect in step.effects:
            if effect[0] == "copied":
                for source, unit, to, block in effect[1]:
                    if source == tier and to == self._device:
                        yield unit, block

    def _follow(self, step: Step, ghost: Ghost, last: State, state: State) -> None:
        """Do to the books what a mirrored host does: store and touch in order."""
        if step.op == "reset" and step.result is True:
            self._mirror.become(())
        for unit, _ in self._copied(step, self._host):
            self._mirror.use(self._key_at(last, unit))
        if step.op == "mirror":
            keys, named = _keys_of(shown(state, self._device)), ghost.requests.named
            for r in _names(step):
                for block in (last.tables.get(r) or [[]])[0]:
                    whole = [k for k in keys.get(block, ()) if k in named and self._whole(named[k][1])]
                    for k in sorted(whole):
                        self._mirror.use(k)

    def _whole(self, tokens: int) -> bool:
        return tokens % self.world.groups[0].block == 0

    def _key_at(self, state: State, unit: int) -> int:
        """The key of an entry of the host by its place."""
        assert self._host is not None
        if self.world.tiers[self._host].by_key:
            return unit
        pool = state.pools.get(self._host)
        entries = [] if pool is None or pool.cached is None else pool.cached
        return next((k for k, _, blocks in entries if unit in blocks), unit)


def _stores_beside(step: Step) -> bool:
    """Whether a mirror is brought up to date, or emptied, while other calls use it: nobody knows in which order."""
    return any(name == "reset" or name.startswith("mirror") for name in step.together)


def _without(before: PoolState, given_up: Sequence[int], after: PoolState) -> PoolState:
    """What a pool was, but for blocks that one holder less has now. Where they go in the queue is not judged."""
    ref = None if before.ref is None else [count - given_up.count(b) for b, count in enumerate(before.ref)]
    free = before.num_free
    if free is not None and after.num_free is not None:
        most = free + (len(given_up) if ref is None else sum(ref[b] == 0 for b in {*given_up}))
        least = free if ref is None else most  # Without counts nobody knows which of them others hold.
        free = max(least, min(after.num_free, most))
    return msgspec.structs.replace(before, ref=ref, num_free=free, free=after.free)


def _recounted(tier: str, before: PoolState, after: PoolState) -> tuple[Thing, ...]:
    """The first block whose count is another one."""
    pairs = enumerate(zip(before.ref or (), after.ref or (), strict=False))
    return tuple(of_block(tier, block) for block, (was, now) in pairs if was != now)[:1]


def _remapped(before: PoolState, after: PoolState) -> tuple[Thing, ...]:
    """The first key that is cached otherwise."""
    was, now = entries(before), entries(after)
    return tuple(of_key(k) for k, g in sorted({**was, **now}) if was.get((k, g)) != now.get((k, g)))[:1]


def _names(step: Step) -> list[str]:
    """The requests that a mirror operation names."""
    names = step.args.get("requests")
    return [r for r in names if isinstance(r, str)] if isinstance(names, list) else []


def _keys_of(pool: PoolState) -> dict[int, set[int]]:
    """The keys that each block is cached under."""
    found: dict[int, set[int]] = {}
    for k, _, blocks in pool.cached or ():
        for block in blocks:
            found.setdefault(block, set()).add(k)
    return found
