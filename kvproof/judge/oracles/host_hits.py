"""What the host has of a request is found there: O6, and M4 of a mirror, from below."""

from collections.abc import Iterator

from ..ghost import Ghost
from ..record import Effect, State, Step, World
from ..violation import Violation, of_key, of_request
from .begun import begun_by

__all__ = ["HostHitsOracle"]

HOST = "host"


class HostHitsOracle:
    """Judges that a lookup goes on where the device's prefix ends, by what the host's map shows before and after.

    Only of a manager whose lookups go on there at all (``notes["loads"]``): another one stores for others to read.
    """

    def __init__(self, world: World) -> None:
        self._size = world.hash_block
        self._goes_on = HOST in world.notes.get("loads", ())
        is_mirror = world.dialect.get("host") == "mirror"
        self._rule = "M4" if is_mirror else "O6"
        self._before: dict[int, list[int]] = {}

    def step(self, step: Step, ghost: Ghost) -> Iterator[Violation]:
        """Yield the lookups of a step that found less than the host has all the time."""
        if step.state is None or not self._goes_on:
            return
        after = _cached(step.state)
        written = {block for effect in step.effects for block in _written(effect)}
        there = {key for key, at in after.items() if self._before.get(key) == at and written.isdisjoint(at)}
        self._before = after
        for effect in step.effects:
            if effect[0] == "lookup":
                _, r, local, external, limit = effect
                keys = ghost.requests[r].keys[local // self._size : limit // self._size]
                have = next((n for n, key in enumerate(keys) if key not in there), len(keys)) * self._size
                if external < have:
                    text = f"behind {local} tokens of {r} the host has {have} more, and its lookup found {external}"
                    about = (of_request(r), of_key(keys[external // self._size]))
                    yield Violation(self._rule, "what the host has is not found", text, about=about)


def _written(effect: Effect) -> Iterator[int]:
    """The host blocks that a copy begins to write: what they were cached as is gone, whatever they are afterwards."""
    return (block for _, _, tier, block in begun_by(effect) if tier == HOST)


def _cached(state: State) -> dict[int, list[int]]:
    pool = state.pools.get(HOST)
    return {key: blocks for key, _, blocks in (pool.cached if pool is not None else None) or ()}
