"""A backend of chunks in CPU memory (LMCache, `LocalCPUBackend`): P5 and O12 as they read for it.

Which chunks go when room is needed is the policy's own affair; that only chunks go which nobody uses, and that room is
found while there are such chunks, is not.
"""

from collections.abc import Iterator

from ..ghost import Ghost
from ..record import State, Step, World
from ..violation import Violation

__all__ = ["Chunk", "ChunkBackendOracle", "chunks", "evicted", "parted"]

TIER = "host"
_CHUNK = 4
"""Hash keys of a chunk, one for each token at most."""


class ChunkBackendOracle:
    """Judges a run of the level ``offload`` of LMCache, by the state before each operation and the one after it."""

    def __init__(self, world: World) -> None:
        self._groups = len(world.groups)
        self._before: dict[int, Chunk] = {}

    def step(self, step: Step, _ghost: Ghost) -> Iterator[Violation]:
        """Yield what is wrong with an answer and with what has gone."""
        if step.error is not None or step.state is None or step.skipped:
            return
        before, after = self._before, chunks(step.state)
        self._before = after
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
        if not step.state.pending:
            yield from parted(after, self._groups)

    def _found(self, step: Step, before: dict[int, "Chunk"]) -> Iterator[Violation]:
        """P5: a lookup finds the prefix that is there."""
        expected = []
        for k in step.args["keys"]:
            if k not in before or len(before[k].groups) < self._groups:
                break
            expected.append(k)
        if step.result["hits"] != expected:
            text = f"of the chunks {step.args['keys']}, {step.result['hits']} are found; {expected} are there"
            yield Violation("P5", "a lookup finds what is there", text)

    def _got(self, step: Step, before: dict[int, "Chunk"]) -> Iterator[Violation]:
        """P5: what is there can be got."""
        got, keys = step.result["got"], step.args["keys"]
        if got != keys and keys[len(got)] in before:
            text = f"chunk {keys[len(got)]} is there, and cannot be got"
            yield Violation("P5", "what is there can be got", text)

    def _refused(self, step: Step, before: dict[int, "Chunk"], after: dict[int, "Chunk"]) -> Iterator[Violation]:
        """O12: no store is refused while a whole chunk that nobody uses could have been evicted for it.

        What the same operation stores may have been evicted before it was put again.
        """
        for k, chunk in before.items():
            if k in after and k not in step.result["taken"] and not chunk.used and len(chunk.groups) == self._groups:
                text = f"chunk {step.result['refused']} is refused, and chunk {k}, which nobody uses, is not evicted"
                yield Violation("O12", "refused with enough evictable", text)
                return


_ENDING = ("store", "remove", "clear", "reset")
"""Operations after which chunks may be gone."""


class Chunk:
    """What of a chunk is cached."""

    def __init__(self) -> None:
        self.groups: set[int] = set()
        """Its layers, or groups of layers."""
        self.used = False
        """Whether somebody has pinned it, or holds it."""


def chunks(state: State) -> dict[int, Chunk]:
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
