"""Chunks in CPU memory, as states show them (LMCache): what every level with chunks is judged by."""

from abc import ABC, abstractmethod
from collections.abc import Iterator

from ..ghost import Ghost
from ..record import State, Step
from ..violation import Violation

__all__ = ["Chunk", "ChunkOracle", "evicted", "parted"]

TIER = "host"
_CHUNK = 4
"""Hash keys of a chunk, one for each token at most."""


class Chunk:
    """What of a chunk is cached."""

    def __init__(self) -> None:
        self.groups: set[int] = set()
        """Its layers, or groups of layers."""
        self.used = False
        """Whether somebody has pinned it, or holds it."""


class ChunkOracle(ABC):
    """Judges a run by the chunks before each operation and those after it."""

    def __init__(self) -> None:
        self._before: dict[int, Chunk] = {}

    def step(self, step: Step, _ghost: Ghost) -> Iterator[Violation]:
        """Yield what is wrong with an answer and with what has gone."""
        if step.error is not None or step.state is None or step.skipped:
            return
        before, self._before = self._before, _chunks(step.state)
        yield from self.judged(step, step.state, before, self._before)

    @abstractmethod
    def judged(
        self, step: Step, state: State, before: dict[int, Chunk], after: dict[int, Chunk]
    ) -> Iterator[Violation]:
        """Yield what is wrong with an operation that was done, by the chunks before it and after it."""


def _chunks(state: State) -> dict[int, Chunk]:
    """The chunks that a state has, by their numbers."""
    pool = state.pools[TIER]
    found: dict[int, Chunk] = {}
    for key, g, units in pool.cached or ():
        chunk = found.setdefault(key // _CHUNK, Chunk())
        chunk.groups.add(g)
        chunk.used |= any((pool.ref or [0])[unit] > 0 for unit in units if unit < len(pool.ref or ()))
    return found


def evicted(before: dict[int, Chunk], after: dict[int, Chunk]) -> Iterator[Violation]:
    """O12: only what nobody uses is evicted."""
    for k, chunk in before.items():
        if chunk.used and (k not in after or after[k].groups != chunk.groups):
            text = f"chunk {k} is evicted, though somebody has pinned it or holds it"
            yield Violation("O12", "evicts a pinned entry", text)


def parted(after: dict[int, Chunk], groups: int) -> Iterator[Violation]:
    """P5: with no store under way a chunk is there with all its layers, or not at all."""
    for k, chunk in after.items():
        if len(chunk.groups) < groups:
            text = f"of chunk {k} only the layers {sorted(chunk.groups)} are there, of {groups}"
            yield Violation("P5", "a chunk with some of its layers", text)
            return
