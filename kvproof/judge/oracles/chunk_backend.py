"""A backend of chunks in CPU memory (LMCache, `LocalCPUBackend`): P5 and O12 as they read for it.

Which chunks go when room is needed is the policy's own affair; that only chunks go which nobody uses, and that room is
found while there are such chunks, is not.
"""

from collections.abc import Iterator

from ..record import State, Step, World
from ..violation import Violation
from .chunks import Chunk, ChunkOracle, evicted, parted

__all__ = ["ChunkBackendOracle"]

_ENDING = ("store", "remove", "clear", "reset")
"""Operations after which chunks may be gone."""


class ChunkBackendOracle(ChunkOracle):
    """Judges a run of the level ``offload`` of LMCache, by the state before each operation and the one after it."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._groups = len(world.groups)

    def judged(
        self, step: Step, state: State, before: dict[int, Chunk], after: dict[int, Chunk]
    ) -> Iterator[Violation]:
        """Yield what is wrong with an answer and with what has gone."""
        if step.op == "lookup":
            yield from self._found(step, before)
        elif step.op == "load":
            yield from self._got(step, before)
        elif step.op == "store":
            yield from evicted(before, after)
            if step.result["refused"] is not None:
                yield from self._refused(step, before, after)
        gone = [] if step.op in _ENDING or step.args.get("remove") else sorted(before.keys() - after.keys())
        if gone:
            yield Violation("P5", "an entry is lost", f"chunk {gone[0]} was there, and is gone after {step.op}")
        if not state.pending:
            yield from parted(after, self._groups)

    def _found(self, step: Step, before: dict[int, Chunk]) -> Iterator[Violation]:
        """P5: a lookup finds the prefix that is there."""
        expected = []
        for k in step.args["keys"]:
            if k not in before or len(before[k].groups) < self._groups:
                break
            expected.append(k)
        if step.result["hits"] != expected:
            text = f"of the chunks {step.args['keys']}, {step.result['hits']} are found; {expected} are there"
            yield Violation("P5", "a lookup finds what is there", text)

    def _got(self, step: Step, before: dict[int, Chunk]) -> Iterator[Violation]:
        """P5: what is there can be got."""
        got, keys = step.result["got"], step.args["keys"]
        if got != keys and keys[len(got)] in before:
            text = f"chunk {keys[len(got)]} is there, and cannot be got"
            yield Violation("P5", "what is there can be got", text)

    def _refused(self, step: Step, before: dict[int, Chunk], after: dict[int, Chunk]) -> Iterator[Violation]:
        """O12: no store is refused while a whole chunk that nobody uses could have been evicted for it.

        What the same operation stores may have been evicted before it was put again.
        """
        for k, chunk in before.items():
            if k in after and k not in step.result["taken"] and not chunk.used and len(chunk.groups) == self._groups:
                text = f"chunk {step.result['refused']} is refused, and chunk {k}, which nobody uses, is not evicted"
                yield Violation("O12", "refused with enough evictable", text)
                return
