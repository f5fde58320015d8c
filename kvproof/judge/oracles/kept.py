"""What an engine that promises to keep everything has cached, known from what happened and from no map of its own."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..ghost import Ghost
from ..record import SEVERAL, Effect, Step, World
from .forks import source_of
from .pools import evicted_by

__all__ = ["FOLLOWED", "Kept", "is_upset", "takings"]

Place = tuple[int, int]
"""A group, and the content of a prefix that ends with a full block of that group."""

FOLLOWED = frozenset(
    {
        "request",
        "table",
        "compute",
        "processed",
        "cut",
        "end",
        "preempted",
        "cleared",
        "zero",
        "copied",
        "copy",
        "computed_outside",
    }
)
"""The effects that change what is kept."""

Tables = Mapping[str, Sequence[Sequence[int]]]

_Stay = tuple[str, int]
"""A request, and how often it was preempted, or ended, before in a step."""


class Kept:
    """Follows, for groups of full attention and of windows, the full blocks that were computed and must be found again.

    A block is kept from the result of the forward pass that filled it until it is handed out again, evicted or reset.
    Of several blocks with one content the first counts: an engine need not cache a second one. A block that is evicted
    while somebody holds it need not be cached again for as long as that lasts: what it lacks may not be all that is
    wrong with it. It may be, and then another one with its content need not. So it is with a copy of what is kept no
    more: who goes on computing, or gives it back, may cache it now, and one that is computed later need not be. What is
    kept of both is kept while neither is handed out.

    Some cache later (``notes["dialect"]["caches"]``): all when its request finishes (``ended``), or what is sampled,
    and a prompt when all of it is computed (``prompts``). Until then it may be cached, and need not be.

    In a tree of blocks (``notes["dialect"]["keep"]`` is ``tree``) what stands behind a block that is kept no more goes
    with it, and need not come back with it.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self._is_tree = world.dialect.get("keep") == "tree"
        self._caches = world.dialect.get("caches")
        self._prompts: dict[str, int] = {}
        """How many tokens each request arrived with."""
        self._above: dict[Place, Place] = {}
        """In such a tree, for what is kept the block before it; none of the first block of a prompt."""
        self._device = next(iter(world.tiers))
        self._null = world.tiers[self._device].null
        self._unit = math.lcm(*{group.block for group in world.groups})
        """Hits are so many tokens, or several times as many: an engine need not cache of less what groups have."""
        self._block_of: dict[Place, int] = {}
        self._place_at: dict[int, Place] = {}
        self._doubtful: set[Place] = set()
        """What was computed or forgotten while calls overlapped: nobody knows in which order, nor where it is cached.
        Nothing is asked of it until all is forgotten."""
        self._tables: dict[str, list[list[int]]] = {}
        self._shown: Tables = {}
        """The block tables of the last state."""
        self._given_back: set[tuple[str, int, int]] = set()
        """Request, group and block where a table was told with the block, and a state shows it without: slots that were
        reserved, and given back. When the request is handed it once more, somebody else may have had it."""
        self._evicted: set[int] = set()
        """The blocks that were evicted while somebody held them, until they are handed out anew."""
        self._loaded: dict[int, Place | None] = {}
        """What a copy brought to blocks, or an evict left in those that somebody held, until these are handed out anew;
        None: no table says yet what it is. They may be cached too, and what is computed a second time need not be."""
        self._copies: dict[int, Place] = {}
        """The blocks that may have been cached when nothing was kept of what they hold, until they are handed out."""
        self._filled: dict[str, list[tuple[int, int, int]]] = {}
        """Per request what forward passes fill whose result is not there: group, entry and block."""
        self._done: dict[str, int] = {}
        """Per request how many of its first tokens a forward pass has done."""

    def has(self, g: int, content: int) -> bool:
        """Whether a full block of the group with this prefix must be cached."""
        return (g, content) in self._block_of and (g, content) not in self._doubtful

    def block_of(self, g: int, content: int) -> int | None:
        """The block in which that is, where it must be cached."""
        return self._block_of.get((g, content))

    def follow(self, effect: Effect, taken: Sequence[int], ghost: Ghost) -> None:
        """Let an effect happen, of one of the kinds `FOLLOWED`; ``taken``: the blocks that a ``table`` hands out."""
        kind = effect[0]
        if kind == "request":
            self._prompts[effect[1]] = len(effect[2]["tokens"])
        elif kind == "table":
            self._given(taken, effect, ghost)
        elif kind == "compute":
            self._computed(effect[1], effect[2], effect[2] + len(effect[3]))
        elif kind == "processed":
            self._done[effect[1]] = effect[2]
            self._cached(effect[1], self._cached_by_now(effect[1], effect[2]), ghost)
        elif kind == "cut":
            self._cut(effect[1], effect[2])
        elif kind in ("end", "preempted"):
            if self._caches is not None and effect[1] in self._done and effect[2:] == ["finished"]:
                self._cached(effect[1], self._done[effect[1]], ghost)
            self._given_up(effect[1], ghost)
        elif kind == "cleared":
            self._forget([*self._place_at] if effect[1] == self._device else ())
        else:
            self._forget(overwritten := [*self._overwritten(effect)])
            if kind != "zero":
                brought = set(overwritten).difference(self._copies_of_parts(effect))
                self._loaded |= {block: self._place_of(block, ghost) for block in brought}

    def doubt(self, step: Step, taken: Mapping[int, Sequence[int]], ghost: Ghost) -> None:
        """Let calls overlap, before what they do is followed: what changes hands may have been given up at once.

        What is computed meanwhile may have been cached before that or behind it, the one before the other or behind it.
        """
        computing = self._computing(step)
        filled = Counter(place for r in computing for place in self._places(r, ghost))
        if only_empties(step):
            self._forget_all()
            behind = {place for r in computing & self._new(step) for place in self._places(r, ghost)}
            self._doubtful = {place for place, times in filled.items() if times > 1 or place not in behind}
            return
        gone: set[int] = set()
        for at, blocks in taken.items():
            _, r, g, _, _ = step.effects[at]
            gone.update(set(blocks).difference(self._tables.get(r, [()] * (g + 1))[g]))
        given_up = {self._place_at[block] for block in gone & self._place_at.keys()}
        self._forget(gone)
        if "cancelled" in step.together.values() and not is_emptied(step):
            self._doubtful |= self._perhaps_taken(step, ghost)
        elif is_upset(step):
            self._doubtful |= {*self._block_of, *given_up, *filled}
        self._doubtful |= {place for place, times in filled.items() if times > 1 or place in given_up}

    def _perhaps_taken(self, step: Step, ghost: Ghost) -> set[Place]:
        """What a call may have taken that was cancelled, and has given back: nothing that somebody holds all the while.

        It may be what was cached in the others' blocks, and what is computed by who does not stay, or was cancelled. In
        a tree what stands behind such a block goes with it.
        """
        shown: Tables = {} if step.state is None else step.state.tables
        cancelled = {name.rpartition(" ")[2] for name, outcome in step.together.items() if outcome == "cancelled"}
        over = {effect[1] for effect in step.effects if effect[0] in ("end", "preempted")}
        stays = [(tables, shown[r]) for r, tables in self._tables.items() if r in shown and r not in over]
        held = {b for mine, now in stays for of_g, then in zip(mine, now, strict=False) for b in {*of_g} & {*then}}
        passing = {r for r in self._computing(step) if r in cancelled | over or r not in shown}
        perhaps = {place for r in passing for place in self._places(r, ghost)}
        perhaps |= self._block_of.keys()
        perhaps -= {place for place, block in self._block_of.items() if block in held}
        while more := {p for p in self._block_of.keys() - perhaps if self._is_tree and self._above.get(p) in perhaps}:
            perhaps |= more
        return perhaps

    def _new(self, step: Step) -> set[str]:
        """The requests that are admitted in a step without that anything was found for them, and go on holding.

        A reset that answers true while one of them is admitted was done before that, since nothing was held then. So it
        does not forget what is cached of it.
        """
        empty = {effect[1] for effect in step.effects if effect[0] == "lookup" and not effect[2]}
        ended = {effect[1] for effect in step.effects if effect[0] in ("end", "preempted")}
        return empty - ended - self._tables.keys()

    def _computing(self, step: Step) -> set[str]:
        """The requests of which something is computed, or was."""
        return {effect[1] for effect in step.effects if effect[0] == "compute"} | self._filled.keys()

    def _places(self, r: str, ghost: Ghost) -> Iterator[Place]:
        """All full blocks of a request."""
        line = ghost.requests[r].line
        for g, group in enumerate(self.world.groups):
            yield from ((g, line[end]) for end in range(group.block, len(line), group.block))

    def end(self, step: Step, ghost: Ghost) -> None:
        """Let an operation on the cache itself happen, and blocks change hands of which no table was told."""
        if step.skipped:
            return
        if step.op == "reset" and step.result is not False:
            self._forget_all()
        elif step.op == "evict":
            named = evicted_by(step)
            evicted = {*(range(self.world.tiers[self._device].blocks) if named is None else named)}
            self._forget(evicted)
            for block in evicted:
                self._loaded.pop(block, None)
            held = {b for tables in (self._tables, self._shown) for each in tables.values() for t in each for b in t}
            self._evicted |= evicted & held
            places = ((block, self._place_of(block, ghost)) for block in evicted & held)
            self._loaded |= {block: place for block, place in places if place is not None}
        if step.state is not None:
            self._forget(self._held_unseen(step.state.tables, ghost))
            self._given_back = {*self._no_more_held(step.state.tables)}
            self._shown = step.state.tables

    def _given(self, taken: Sequence[int], effect: Effect, ghost: Ghost) -> None:
        _, r, g, at, blocks = effect
        tables = self._tables.setdefault(r, [[] for _ in self.world.groups])
        # A block that a window gave up may come back to its request, at another place.
        again = {block for block, had in zip(blocks, tables[g][at:], strict=False) if block == had}
        again -= (back := {block for block in again if (r, g, block) in self._given_back})
        self._given_back -= {(r, g, block) for block in back}
        again |= self._put_in_place(r, g, at, blocks, tables[g], ghost)
        self._forget(handed := set(taken) - again)
        self._evicted -= (anew := handed.difference(*self._shown.get(r, ())))
        tables[g][at:] = blocks
        for block in anew & self._loaded.keys():
            # A copy may be told before the table that it fills.
            if self._loaded[block] is None:
                self._loaded[block] = self._place_of(block, ghost)
            else:
                del self._loaded[block]

    def _put_in_place(
        self, r: str, g: int, at: int, blocks: Sequence[int], table: Sequence[int], ghost: Ghost
    ) -> set[int]:
        """Blocks that are kept, and that a request gets for its own with the same content: nobody handed them out."""
        found = set()
        for i, (block, had) in enumerate(zip(blocks, table[at:], strict=False), start=at):
            if had in (block, self._null) or block not in self._place_at:
                continue
            line, end = ghost.requests[r].line, (i + 1) * self.world.groups[g].block
            if end < len(line) and self._place_at[block] == (g, line[end]):
                found.add(block)
        return found

    def _computed(self, r: str, start: int, end: int) -> None:
        tables = self._tables.get(r)
        for g, group in enumerate(self.world.groups if tables else ()):
            assert tables is not None
            for i in range(start // group.block, min(end // group.block, len(tables[g]))):
                if tables[g][i] != self._null:
                    self._filled.setdefault(r, []).append((g, i, tables[g][i]))

    def _cached_by_now(self, r: str, n: int) -> int:
        """How many of a request's first n tokens, which are computed, must be found from then on, while it runs."""
        if self._caches is None:
            return n
        prompt = self._prompts.get(r, 0)
        return prompt if self._caches == "prompts" and n >= prompt else 0

    def _cached(self, r: str, n: int, ghost: Ghost) -> None:
        """What a forward pass has filled of a request's first n tokens is kept from now on."""
        line, later, whole = ghost.requests[r].line, [], n // self._unit * self._unit
        for g, i, block in self._filled.get(r, ()):
            end = (i + 1) * self.world.groups[g].block
            if end > whole or end >= len(line):
                later.append((g, i, block))
            elif block in self._evicted:
                self._loaded[block] = g, line[end]
            elif (g, line[end]) not in self._block_of and (g, line[end]) not in self._loaded.values():
                self._forget([block])
                if self._has_place(g, i, line):
                    self._block_of[g, line[end]], self._place_at[block] = block, (g, line[end])
        self._filled[r] = later
        self._cached_late(r, self._done[r], ghost)

    def _given_up(self, r: str, ghost: Ghost) -> None:
        """A request holds nothing any more. What forward passes fill for it whose result nobody waits for may be cached
        too: some register it before."""
        sizes = [group.block for group in self.world.groups]
        filled = ((i + 1) * sizes[g] for g, i, _ in self._filled.pop(r, ()))
        self._cached_late(r, max(self._done.pop(r, 0), *filled, 0), ghost)
        self._tables.pop(r, None)

    def _has_place(self, g: int, i: int, line: Sequence[int]) -> bool:
        """Whether entry i of a request can be cached: in a tree, behind what is."""
        if self._is_tree and i:
            size = self.world.groups[g].block
            self._above[g, line[(i + 1) * size]] = above = g, line[i * size]
            return above in self._block_of
        return True

    def _cached_late(self, r: str, n: int, ghost: Ghost) -> None:
        """Take note of what a request has of its first n tokens and nothing is kept of: it may be cached now."""
        line, filled = ghost.requests[r].line, self._filled.get(r, ())
        sizes = [group.block for group in self.world.groups]
        under_way = {b for g, i, b in filled if self._caches is None or (i + 1) * sizes[g] > n}
        for g, table in enumerate(self._tables.get(r, ())):
            size = self.world.groups[g].block
            for block, end in zip(table, range(size, min(n, len(line) - 1) + 1, size), strict=False):
                place = g, line[end]
                if block != self._null and place not in self._block_of and block not in under_way:
                    self._copies[block] = place

    def _place_of(self, block: int, ghost: Ghost) -> Place | None:
        """What the request that has this block in its table has it for, if it is to be full."""
        for r, tables in self._tables.items():
            line = ghost.requests[r].line
            for g, table in enumerate(tables):
                end = (table.index(block) + 1) * self.world.groups[g].block if block in table else len(line)
                if end < len(line):
                    return g, line[end]
        return None

    def _cut(self, r: str, n: int) -> None:
        """What is under way behind a request's first n tokens is computed of tokens that are not its any more."""
        groups = self.world.groups
        self._filled[r] = [f for f in self._filled.get(r, ()) if (f[1] + 1) * groups[f[0]].block <= n]
        self._done[r] = min(self._done.get(r, 0), n)

    def _copies_of_parts(self, effect: Effect) -> Iterator[int]:
        """The blocks of copies whose source a request has not filled yet, as when one of two who share it goes on: what
        fills them is computed, and cached as that."""
        split = self.world.tiers[self._device].split
        for tier, source, to_tier, to in effect[1] if effect[0] == "copied" else ():
            if tier == to_tier == self._device and self._is_part(source // split):
                yield to // split

    def _is_part(self, block: int) -> bool:
        return any(
            block in table and (table.index(block) + 1) * group.block > self._done.get(r, 0)
            for r, tables in self._tables.items()
            for group, table in zip(self.world.groups, tables, strict=True)
        )

    def _overwritten(self, effect: Effect) -> Iterator[int]:
        """The device's blocks that something else than a forward pass writes."""
        split = self.world.tiers[self._device].split
        if effect[0] == "zero":
            places = [(effect[1], unit) for unit in effect[2]]
        elif effect[0] == "computed_outside":
            places = [(tier, unit) for tier, unit, _, _ in effect[3]]
        else:
            places = [(tier, unit) for _, _, tier, unit in (effect[-1] if isinstance(effect[-1], list) else ())]
        return (unit // split for tier, unit in places if tier == self._device)

    def _held_unseen(self, tables: Tables, ghost: Ghost) -> Iterator[int]:
        """Blocks that stand in an engine's tables before the model worker is told of them, as those of a load."""
        for r, of_request in tables.items():
            known = self._tables.get(r, [[]] * len(of_request))
            for g, (mine, table) in enumerate(zip(known, of_request, strict=False) if known != of_request else ()):
                kept = self._put_in_place(r, g, 0, table, mine, ghost)
                yield from (b for i, b in enumerate(table) if b not in kept and (i >= len(mine) or mine[i] != b))

    def _no_more_held(self, tables: Tables) -> Iterator[tuple[str, int, int]]:
        """What tables were told with, and a state shows them without."""
        for r, of_request in tables.items():
            known = self._tables.get(r, ())
            for g, (mine, table) in enumerate(zip(known, of_request, strict=False) if known != of_request else ()):
                yield from ((r, g, block) for block in {*mine}.difference(table))

    def _forget_all(self) -> None:
        self._forget([*self._place_at])
        self._doubtful.clear()
        self._loaded.clear()
        self._copies.clear()

    def _forget(self, blocks: Iterable[int]) -> None:
        gone = set(blocks)
        if not gone:
            return
        for place in [self._copies.pop(block) for block in gone & self._copies.keys()]:
            kept = self._block_of.pop(place, None)
            if kept is not None:  # One of the two was found, and nobody knows which.
                self._copies[kept] = self._place_at.pop(kept)
        for block in gone & self._place_at.keys():
            del self._block_of[self._place_at.pop(block)]
        for block in gone & self._copies.keys():
            del self._copies[block]
        if self._is_tree:
            self._cut_off()
        for r, filled in self._filled.items():
            self._filled[r] = [each for each in filled if each[2] not in gone]

    def _cut_off(self) -> None:
        """Forget what cannot be reached any more."""
        while lost := [place for place in self._block_of if self._above.get(place, place) not in self._block_of]:
            for place in lost:
                del self._place_at[self._block_of.pop(place)]


def is_upset(step: Step) -> bool:
    """Whether something beside overlapping calls may have taken blocks out of the cache: an evict or a reset, or a call
    that was cancelled, which may have taken some and given them back."""
    result = step.result if step.op in SEVERAL and not step.skipped else {}
    return not isinstance(result, dict) or is_emptied(step) or "cancelled" in result.values()


def is_emptied(step: Step) -> bool:
    """Whether an evict or a reset beside overlapping calls may have taken blocks out of the cache."""
    return not {"evict", "reset"}.isdisjoint(step.together)


def only_empties(step: Step) -> bool:
    """Whether a reset that was done is all that took blocks out of the cache beside overlapping calls."""
    done = {} if step.skipped else step.together
    return done.get("reset") is True and "evict" not in done and "cancelled" not in done.values()


def takings(step: Step, world: World, looked_up: bool) -> dict[int, list[int]]:
    """For each ``table`` effect of a step, by its place, its blocks that no lookup had found: they were handed out.

    An effect that tells a table once more names blocks again that the request has already. ``looked_up``: whether there
    was a lookup at all in the step. What a fork has of the request that it goes on from counts as found.
    """
    taken: dict[int, list[int]] = {}
    admissions = _admissions(step, world) if looked_up or source_of(step) else {}
    for place, effect in enumerate(step.effects):
        if effect[0] == "table":
            _, _, _, at, blocks = effect
            own = admissions.get(place)
            taken[place] = (
                blocks if own is None else [b for i, b in enumerate(blocks, start=at) if i >= len(own) or own[i] != b]
            )
    return taken


def _admissions(step: Step, world: World) -> dict[int, Sequence[int]]:
    """For each ``table`` effect that tells a whole table, what a lookup had found of it: whole blocks of the device.

    Some tell what was found before the table, some behind it; where nobody does, it is what the table begins with. What
    was found for a request in one stay, until it is preempted, is not of the table that it gets in another one.
    """
    found: dict[_Stay, list[tuple[int, list[list[int]]]]] = {}
    local: dict[_Stay, int] = {}
    forks: set[str] = set()
    stays = Counter[str]()
    tables: list[tuple[int, _Stay, Effect]] = []
    for place, effect in enumerate(step.effects):
        if effect[0] == "lookup":
            local[effect[1], stays[effect[1]]] = effect[2]
        elif effect[0] == "request" and effect[2].get("fork"):
            forks.add(effect[1])
        elif effect[0] in ("preempted", "end"):
            stays[effect[1]] += 1
        elif effect[0] == "found":
            stay = effect[1], stays[effect[1]]
            if effect[1] in forks:  # The block that is not full is shared, too.
                whole = [-(-effect[3] // group.block) for group in world.groups]
            else:
                whole = [local.get(stay, 0) // group.block for group in world.groups]
            of_groups = [list(table[:n]) for table, n in zip(effect[2], whole, strict=False)]
            found.setdefault(stay, []).append((place, of_groups))
        elif effect[0] == "table" and not effect[3]:
            tables.append((place, (effect[1], stays[effect[1]]), effect))
    tell = {r for r, _ in found}
    told: dict[int, Sequence[int]] = {}
    last: dict[tuple[str, int], int] = {}
    for place, stay, effect in tables:
        _, r, g, _, blocks = effect
        of_r = [(at, of_groups[g]) for at, of_groups in found.get(stay, ()) if g < len(of_groups)]
        before = [table for at, table in of_r if last.get((r, g), -1) < at < place]
        behind = [table for at, table in of_r if at > place]
        last[r, g] = place
        if before or behind:
            told[place] = before[-1] if before else behind[0]
        elif r not in tell and local.get(stay):
            told[place] = blocks[: local[stay] // world.groups[g].block]
    return told
