"""An engine of chunks in CPU memory (LMCache, `LMCacheEngine`): P5, P11 and O12 as they read for whole requests."""

from collections.abc import Iterator

from ..record import State, Step, World
from ..violation import Violation
from .chunks import Chunk, ChunkOracle, evicted, parted

__all__ = ["ChunkEngineOracle"]

_ENDING = ("layer", "finish", "drain", "clear", "reset")
"""Operations after which chunks may be gone."""


class ChunkEngineOracle(ChunkOracle):
    """Judges a run of the level ``engine`` of LMCache, by the state before each operation and the one after it."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._groups = len(world.groups)

    def judged(
        self, step: Step, state: State, before: dict[int, Chunk], after: dict[int, Chunk]
    ) -> Iterator[Violation]:
        """Yield what is wrong with an answer and with what has gone."""
        if step.op == "arrive":
            yield from self._found(step, before)
        elif step.op == "clear":
            yield from self._cleared(step, before, after)
        elif step.op in ("layer", "finish"):
            kept = {k: chunk for k, chunk in before.items() if k not in step.result["released"]}
            yield from evicted(kept, after)
            yield from self._refused(step, before, after)
        gone = [] if step.op in _ENDING else sorted(before.keys() - after.keys())
        if gone:
            yield Violation("P5", "an entry is lost", f"chunk {gone[0]} was there, and is gone after {step.op}")
        if not state.running:
            yield from parted(after, self._groups)

    def _found(self, step: Step, before: dict[int, Chunk]) -> Iterator[Violation]:
        """P5: a lookup finds the prefix that is there, no more and no less."""
        expected = 0
        for k, size in zip(step.result["chunks"], step.result["sizes"], strict=True):
            if k not in before or len(before[k].groups) < self._groups:
                break
            expected += size
        if step.result["hits"] not in (None, expected):
            text = f"{step.result['hits']} tokens are found, of {expected} that are there"
            yield Violation("P5", "a lookup finds what is there", text)

    def _cleared(self, step: Step, before: dict[int, Chunk], after: dict[int, Chunk]) -> Iterator[Violation]:
        """P11: what is cleared by its tokens is gone; all that nobody uses, where none are named; nothing else is."""
        named = step.result["chunks"]
        meant = set(before) if named is None else set(named) & before.keys()
        meant -= {k for k in meant if named is None and before[k].used}
        left = sorted(meant & after.keys())
        if left:
            text = f"chunk {left[0]} was cleared, and is there"
            yield Violation("P11", "what is cleared is gone", text)
        more = sorted(before.keys() - after.keys() - meant)
        if more:
            text = f"chunk {more[0]} was not to be cleared, and is gone"
            yield Violation("P11", "clears what was not meant", text)

    def _refused(self, step: Step, before: dict[int, Chunk], after: dict[int, Chunk]) -> Iterator[Violation]:
        """O12: no chunk is left out while a whole one that nobody uses could have been evicted for it."""
        wanted, taken = step.result.get("wanted", ()), step.result.get("taken", ())
        out = [k for k in wanted if k not in taken and k not in before]
        kept = [k for k in before if k in after and k not in wanted and not before[k].used]
        whole = [k for k in kept if len(before[k].groups) == self._groups]
        if out and whole:
            text = f"chunk {out[0]} is not stored, and chunk {whole[0]}, which nobody uses, is not evicted"
            yield Violation("O12", "refused with enough evictable", text)
