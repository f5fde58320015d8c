"""A host block pool behind the device's (`SimpleCPUOffloadScheduler`): O3, O7, and P15 for lookups in vain.

What the pools must be by themselves, and what is in them, other oracles judge: the host tier is a pool like any other.
"""

from collections.abc import Iterator

from ..ghost import Ghost
from ..record import State, Step
from ..violation import Violation
from .host_stores import DEVICE, HOST, cached, stored_again

__all__ = ["HostPoolOracle"]


class HostPoolOracle:
    """Judges a run of the level ``offload`` whose setup has ``kind`` = ``simple``."""

    def __init__(self) -> None:
        self._last: State | None = None

    def step(self, step: Step, _ghost: Ghost | None = None) -> Iterator[Violation]:
        """Yield what is wrong with the stores that were planned and with what the operation changed."""
        if step.error is not None or step.state is None:
            return
        last, state = self._last, step.state
        if last is not None and not step.skipped:
            if step.op in ("step", "abort"):
                yield from _again(step, last, state)
            yield from _unchanged(step.op, last, state)
        self._last = state


def _again(step: Step, last: State, state: State) -> Iterator[Violation]:
    """O3: what the host has all the time is not stored again. What was planned earlier is held already."""
    planned = set(last.holds.get(HOST, ()))
    before, after = cached(last, HOST), cached(state, HOST)
    there = {key for key, blocks in before.items() if blocks & after.get(key, set())}
    names = {block: set(keys) for block, keys in state.pools[DEVICE].hashes or ()}
    yield from stored_again(step, names, there, planned)


def _unchanged(op: str, last: State, state: State) -> Iterator[Violation]:
    """O7, P15: what must not change anything."""
    if op == "repeat" and last != state:
        yield Violation("O7", "a repeated completion changes something", "a repeated completion is not ignored")
    elif op == "probe":
        if last.tables != state.tables:
            text = "a lookup that admits nobody changes a block table"
            yield Violation("P15", "a refused admission changes something", text, ("tables",))
        for tier in (DEVICE, HOST):
            if cached(last, tier) != cached(state, tier):
                text = f"a lookup that admits nobody changes the prefix map ({tier})"
                yield Violation("P15", "a refused admission changes something", text, (tier,))
