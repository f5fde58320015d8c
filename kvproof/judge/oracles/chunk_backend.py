"""A backend of chunks in CPU memory (LMCache, `LocalCPUBackend`): P5, P11, P15 and O12 as they read for it.

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
            yield from self._in_vain(step, before, after)
            if step.result["refused"] is not None:
                yield from self._refused(step, before, after)
            if not step.args.get("later"):
                yield from self._stored(step.result["taken"], after, self._groups)
        elif step.op == "put":
            # What went while its layers were put one by one may stay away: else it would be there with some of them.
            started = [k for k in step.args["keys"] if k in before or step.args["layer"] == 0]
            yield from self._stored(started, after, 1)
        elif step.op == "clear":
            yield from evicted(before, after)
            yield from self._cleared(step, after)
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
        got = step.result["got"]
        behind = next((k for k in step.args["keys"] if k not in got), None)
        if behind in before:
            text = f"chunk {behind} is there, and cannot be got"
            yield Violation("P5", "what is there can be got", text)

    @staticmethod
    def _stored(keys: list[int], after: dict[int, Chunk], groups: int) -> Iterator[Violation]:
        """P5: what found room is there when it was put, with at least so many of its layers."""
        lost = [k for k in keys if k not in after or len(after[k].groups) < groups]
        if lost:
            yield Violation("P5", "what is stored is there", f"chunk {lost[0]} was stored, and is not there")

    @staticmethod
    def _cleared(step: Step, after: dict[int, Chunk]) -> Iterator[Violation]:
        """P11: what nobody uses is gone. P15: of how many tokens that was is said."""
        left = sorted(k for k, chunk in after.items() if not chunk.used)
        if left:
            yield Violation("P11", "what is cleared is gone", f"chunk {left[0]} is there after a clear")
        told, gone = step.result["told"], step.result["gone"]
        if told != gone:
            text = f"a clear says that it has cleared {told} tokens, and {gone} are gone"
            yield Violation("P15", "what a clear says", text)

    @staticmethod
    def _in_vain(step: Step, before: dict[int, Chunk], after: dict[int, Chunk]) -> Iterator[Violation]:
        """O12: where there is room for what is stored, nothing is evicted for it and nothing refused."""
        refused, in_need = step.result["refused"], step.result["in_need"]
        gone = sorted(before.keys() - after.keys())
        if gone and not in_need:
            text = f"chunk {gone[0]} is evicted, and there is room for all that is stored"
            yield Violation("O12", "evicts more than it needs", text)
        if refused is not None and refused not in in_need:
            yield Violation("O12", "refused with room", f"chunk {refused} is refused, and there is room for it")

    def _refused(self, step: Step, before: dict[int, Chunk], after: dict[int, Chunk]) -> Iterator[Violation]:
        """O12: no store is refused while a whole chunk that nobody uses could have been evicted for it.

        What the same operation stores may have been evicted before it was put again.
        """
        for k, chunk in before.items():
            if k in after and k not in step.result["taken"] and not chunk.used and len(chunk.groups) == self._groups:
                text = f"chunk {step.result['refused']} is refused, and chunk {k}, which nobody uses, is not evicted"
                yield Violation("O12", "refused with enough evictable", text)
                return
