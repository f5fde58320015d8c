"""A memory of chunks with leases (LMCache, `L1Manager`): P5, P11, O5 and O12 as they read for it.

Whether what is there is evicted at once or later is the engine's own affair; that an eviction finds something while
there is something, and that what was stored is there until it is taken away, is not.
"""

from collections.abc import Iterator

from ..record import State, Step, World
from ..violation import Violation
from .chunks import Chunk, ChunkOracle

__all__ = ["ChunkL1Oracle"]

_ENDING = ("evict", "delete", "clear", "reset")
"""Operations after which what was stored may be gone."""


class ChunkL1Oracle(ChunkOracle):
    """Judges a run of the level ``l1`` of LMCache, by the state before each operation and the one after it."""

    def __init__(self, _world: World) -> None:
        super().__init__()
        self._stored: set[int] = set()
        """Keys whose store has succeeded, and that nobody has taken away since."""

    def judged(
        self, step: Step, _state: State, before: dict[int, Chunk], after: dict[int, Chunk]
    ) -> Iterator[Violation]:
        """Yield what is wrong with an answer and with what has gone."""
        if step.op == "lookup":
            yield from self._found(step, before)
        elif step.op == "evict":
            yield from self._evicted(step)
        elif step.op in ("clear", "reset"):
            yield from self._cleared(step, after)
        elif step.op in ("read", "finish") and set(step.result["answers"]) != {"SUCCESS"}:
            text = f"{step.op} of the keys {step.args['keys']} answers {', '.join(step.result['answers'])}"
            yield Violation("O5", "what was reserved is gone", text, (step.op,))
        if step.op in ("evict", "delete", "clear", "reset"):
            yield from self._in_use(before, after)
        yield from self._lost(step, after)

    def _found(self, step: Step, before: dict[int, Chunk]) -> Iterator[Violation]:
        """P5: exactly what is there can be read."""
        expected = [k for k in step.args["keys"] if k in before]
        if step.result["found"] != expected:
            text = f"of the keys {step.args['keys']}, {step.result['found']} are found; {expected} are there"
            yield Violation("P5", "a lookup finds what is there", text)

    def _evicted(self, step: Step) -> Iterator[Violation]:
        """O12: a round of evictions frees something while something can go."""
        if step.result["after"] < step.result["before"]:
            return
        for which in ("idle", "abandoned"):
            if step.result[which]:
                text = f"an eviction frees nothing, though key {step.result[which][0]} ({which}) could go"
                yield Violation("O12", "evicts nothing though it could", text, (which,))
                return

    @staticmethod
    def _cleared(step: Step, after: dict[int, Chunk]) -> Iterator[Violation]:
        """P11: what nobody uses is gone."""
        left = sorted(k for k, chunk in after.items() if not chunk.used)
        if left:
            yield Violation("P11", "what is cleared is gone", f"key {left[0]} is there after {step.op}")

    @staticmethod
    def _in_use(before: dict[int, Chunk], after: dict[int, Chunk]) -> Iterator[Violation]:
        """O12: what is read stays."""
        gone = sorted(k for k, chunk in before.items() if chunk.used and k not in after)
        if gone:
            yield Violation("O12", "evicts a pinned entry", f"key {gone[0]} is gone, though somebody reads it")

    def _lost(self, step: Step, after: dict[int, Chunk]) -> Iterator[Violation]:
        """P5: what was stored is there until it is taken away."""
        if step.op in _ENDING:
            self._stored &= after.keys()
        lost = sorted(self._stored - after.keys())
        if lost:
            self._stored -= {*lost}
            text = f"the store of key {lost[0]} has succeeded, and after {step.op} it is gone"
            yield Violation("P5", "an entry is lost", text)
        if step.op == "finish" and step.args["tag"] == "store" and not step.args.get("failed"):
            answers = zip(step.args["keys"], step.result["answers"], strict=True)
            self._stored |= {k for k, answer in answers if answer == "SUCCESS"}
