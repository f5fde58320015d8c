"""What the host has of a request is found there: O6, and M4 of a mirror, from below."""

import math
from collections.abc import Iterator

from ..ghost import Ghost
from ..record import Effect, State, Step, World
from ..violation import Violation, of_key, of_request
from .begun import begun_by
from .needed import first_needed

__all__ = ["HostHitsOracle"]

HOST = "host"

Entry = tuple[int, int]
"""A hash key and a group, as a map has them."""


class HostHitsOracle:
    """Judges that a lookup goes on where the device's prefix ends, by what the host's map shows before and after.

    Only of a manager whose lookups go on there at all (``notes["loads"]``): another one stores for others to read. With
    groups, a hit goes on as far as each has on the host what the token behind it attends to; what that needs of the
    device's part was found there. One group alone is held to no more than what it has without a gap.
    """

    def __init__(self, world: World) -> None:
        self._size = world.hash_block
        self._groups = world.groups
        self._unit = math.lcm(*(group.block for group in world.groups))
        self._goes_on = HOST in world.notes.get("loads", ())
        is_mirror = world.dialect.get("host") == "mirror"
        self._rule = "M4" if is_mirror else "O6"
        self._before: dict[Entry, list[int]] = {}

    def step(self, step: Step, ghost: Ghost) -> Iterator[Violation]:
        """Yield the lookups of a step that found less than the host has all the time."""
        if step.state is None or not self._goes_on:
            return
        after = _cached(step.state)
        written = {block for effect in step.effects for block in _written(effect)}
        there = {entry for entry, at in after.items() if self._before.get(entry) == at and written.isdisjoint(at)}
        self._before = after
        for effect in step.effects:
            if effect[0] == "lookup":
                _, r, local, external, limit = effect
                keys = ghost.requests[r].keys
                have = self._most(local, min(limit, len(keys) * self._size), keys, there) - local
                if external < have:
                    text = f"behind {local} tokens of {r} the host has {have} more, and its lookup found {external}"
                    about = (of_request(r), of_key(keys[(local + external) // self._size]))
                    yield Violation(self._rule, "what the host has is not found", text, about=about)

    def _most(self, local: int, limit: int, keys: list[int], there: set[Entry]) -> int:
        """The longest prefix that a lookup may find, of which each group has on the host what it needs behind these
        tokens of the device."""
        length = limit // self._unit * self._unit
        while length > local and not all(
            self._suffices(g, local, length, keys, there) for g in range(len(self._groups))
        ):
            length -= self._unit
        return max(length, local)

    def _suffices(self, g: int, local: int, length: int, keys: list[int], there: set[Entry]) -> bool:
        group = self._groups[g]
        begin = local if len(self._groups) == 1 else max(local, first_needed(group, length))
        ends = range(begin // group.block * group.block + group.block, length + 1, group.block)
        return all((keys[end // self._size - 1], g) in there for end in ends)


def _written(effect: Effect) -> Iterator[int]:
    """The host blocks that a copy begins to write: what they were cached as is gone, whatever they are afterwards."""
    return (block for _, _, tier, block in begun_by(effect) if tier == HOST)


def _cached(state: State) -> dict[Entry, list[int]]:
    pool = state.pools.get(HOST)
    return {(key, g): blocks for key, g, blocks in (pool.cached if pool is not None else None) or ()}
