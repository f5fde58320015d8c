"""Where vLLM's model runner keeps the states of mamba layers: what it copies, reads and leaves in a batch.

Three cache modes. ``none``: one block a request (and one for each draft). ``align``: the running state lies in the
block of the last token, with one block for each draft behind it; before a batch it is copied there when that block is
another than in the step before, and after a batch to the block that accepted drafts have filled. ``all``: a state at
the end of each block.
"""

from collections.abc import Iterable

from level import Level
from vllm_common import since

__all__ = ["States"]


class States:
    """The states of all requests of a model runner."""

    def __init__(self, level: Level, groups: list[dict], mode: str, drafts: int) -> None:
        self._level = level
        self._mode = mode
        self._drafts = drafts
        self._groups = [(g, group["block"]) for g, group in enumerate(groups) if group["kind"] == "mamba"]
        self._columns: dict[str, int] = {}
        """Mode align: the column of the block table that has the running state."""
        self._behind: dict[str, int] = {}
        """How many columns behind it the state after the last accepted token lies."""

    def __bool__(self) -> bool:
        """Whether there are mamba layers."""
        return bool(self._groups)

    def forget(self, r: str) -> None:
        """The request is over, or was preempted and begins anew."""
        self._columns.pop(r, None)
        self._behind.pop(r, None)

    def goes_on(self, r: str) -> None:
        """A session goes on, with its running state where that was."""
        self._behind.pop(r, None)

    def prepare(self, batch: Iterable[tuple[str, list[list[int]], int, int]]) -> None:
        """Copy what stands before the batch: of each request its tables, where it starts and its number of tokens."""
        if self._mode != "align" or not self._groups:
            return
        pairs = []
        size = self._groups[0][1]
        for r, tables, start, count in batch:
            before = self._columns.get(r, (start - 1) // size)
            # The first release goes by the table's length, which a rejected draft may have made too long.
            table = tables[self._groups[0][0]]
            blocks = -(-(start + count) // size) if since((0, 17)) else len(table) - self._drafts
            column = self._columns[r] = blocks - 1
            if before not in (-1, column):
                behind = self._behind.pop(r, 0)
                pairs += [(_entry(tables[g], before + behind), _entry(tables[g], column)) for g, _ in self._groups]
        if pairs:
            self._level.tell("copied", [["device", source, "device", target] for source, target in pairs])

    def run(self, r: str, tables: list[list[int]], start: int, count: int, drafts: int) -> None:
        """Tell where the forward pass of a request takes the state from, and where it leaves which."""
        for g, size in self._groups:
            table, end = tables[g], start + count
            if self._mode == "all":
                source = _entry(table, (start - 1) // size)
                leaves = [
                    [_entry(table, full // size - 1), full] for full in range((start // size + 1) * size, end + 1, size)
                ]
                if end % size:
                    leaves.append([_entry(table, end // size), end])
            else:
                first = self._columns[r] if self._mode == "align" else 0
                source = _entry(table, first + self._behind.get(r, 0))
                leaves = [[_entry(table, first + n), end - drafts + n] for n in range(drafts + 1)]
            self._level.tell("state", r, g, source if start else None, leaves)

    def accept(self, r: str, tables: list[list[int]], end: int, drafts: int, accepted: int) -> None:
        """Note how many drafts of a pass that ended at ``end`` were accepted; copy a state that ends a block."""
        if not self._groups or not self._drafts or self._mode == "all":
            return
        self._behind[r] = accepted
        if self._mode != "align":
            return
        size, column, sure = self._groups[0][1], self._columns[r], end - drafts
        full = (sure + accepted) // size * size
        if full < sure:
            return
        target = full // size - 1
        if (target, full) != (column, sure):
            pairs = [(_entry(tables[g], column + full - sure), _entry(tables[g], target)) for g, _ in self._groups]
            self._level.tell("copied", [["device", source, "device", place] for source, place in pairs])
        if target == column:
            self._behind[r] = 0


def _entry(table: list[int], column: int) -> int:
    """The block in a column; -1 where the table ends before it."""
    return table[column] if 0 <= column < len(table) else -1
