"""P5: of several blocks with one key a lookup finds the first registered that remains, where the dialect says so."""

from collections.abc import Iterator, Mapping, Sequence, Set

from ..ghost import Ghost
from ..record import SEVERAL, Effect, Step, World
from ..violation import Violation, of_key, of_request
from .kept import takings

__all__ = ["CopiesOracle"]

Entry = tuple[int, int]
"""A hash key and a group, as a prefix map has them."""


class CopiesOracle:
    """Follows in which order the device's blocks came under their keys, by the states in which they stand there.

    Blocks that came in one step are equally early, and all are behind calls that overlapped. Judged in worlds whose
    notes say ``{"dialect": {"copies": "first"}}``.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self._device = next(iter(world.tiers))
        self._judged = world.dialect.get("copies") == "first"
        self._ranks: dict[Entry, list[set[int]]] = {}
        """By entry of the prefix map its blocks, the earliest first."""
        self._tables: dict[str, dict[int, list[int]]] = {}
        """By request and group its block table."""

    def step(self, step: Step, ghost: Ghost) -> Iterator[Violation]:
        """Yield the blocks that a lookup found though an earlier one has the same key."""
        if not self._judged or step.skipped:
            return
        told = takings(step, self.world, any(effect[0] == "lookup" for effect in step.effects))
        if step.op not in SEVERAL:
            yield from self._all_found(step, told, ghost)
        self._follow(step, told)

    def _all_found(self, step: Step, told: Mapping[int, Sequence[int]], ghost: Ghost) -> Iterator[Violation]:
        """What the lookups of a step found; an operation may let in several requests, one after the other."""
        handed: list[tuple[str, Sequence[int]]] = []
        looked_up = {effect[1] for effect in step.effects if effect[0] == "lookup"}
        for at, effect in enumerate(step.effects):
            if effect[0] == "table":
                handed.append((effect[1], told[at]))
            elif effect[0] == "found" and effect[1] in looked_up:
                gone = {block for r, blocks in handed if r != effect[1] for block in blocks}
                yield from self._found(effect, gone, ghost)

    def _found(self, effect: Effect, gone: Set[int], ghost: Ghost) -> Iterator[Violation]:
        """What one lookup found; ``gone``: blocks that others were given before it."""
        _, r, tables, _ = effect
        keys = ghost.requests[r].keys
        for g, (group, table) in enumerate(zip(self.world.groups, tables, strict=False)):
            for i, block in enumerate(table):
                place = (i + 1) * group.block // self.world.hash_block - 1
                ranks = self._ranks.get((keys[place], g), []) if place < len(keys) else []
                ranks = [rank - gone for rank in ranks if rank - gone]
                if any(block in later for later in ranks[1:]):
                    found = f"the lookup of {r} finds key {keys[place]} in block {block}"
                    text = f"{found}, and block {min(ranks[0])} had it first"
                    yield Violation("P5", "a later copy is found", text, about=(of_request(r), of_key(keys[place])))

    def _follow(self, step: Step, told: Mapping[int, Sequence[int]]) -> None:
        """What was handed out and has its key again has it anew; what has come is behind what was there."""
        taken = self._taken(step, told)
        pool = None if step.state is None else step.state.pools.get(self._device)
        if pool is None or pool.cached is None:
            now = {entry: set[int]().union(*ranks) for entry, ranks in self._ranks.items()}
        else:
            now = {(k, g): set(blocks) for k, g, blocks in pool.cached if blocks}
        self._ranks = {entry: self._ranked(step, entry, blocks, taken) for entry, blocks in now.items()}

    def _taken(self, step: Step, told: Mapping[int, Sequence[int]]) -> set[int]:
        """The blocks that were handed out: found by no lookup, and not in the request's table before."""
        taken: set[int] = set()
        for place, effect in enumerate(step.effects):
            if effect[0] == "table":
                _, r, g, at, blocks = effect
                table = self._tables.setdefault(r, {}).setdefault(g, [])
                taken |= set(told[place]).difference(table)
                table[at:] = blocks
            elif effect[0] in ("end", "preempted"):
                self._tables.pop(effect[1], None)
        return taken

    def _ranked(self, step: Step, entry: Entry, blocks: set[int], taken: set[int]) -> list[set[int]]:
        if step.op in SEVERAL:
            return [blocks]
        stayed = blocks - taken
        ranks = [rank & stayed for rank in self._ranks.get(entry, ())]
        came = blocks.difference(*ranks)
        return [rank for rank in (*ranks, came) if rank]
