"""Where the states of mamba layers go: what vLLM's model runner does with a block table in cache mode `align`."""

from level import Level
from vllm_common import since

__all__ = ["MambaStates"]


class MambaStates:
    """The running state of each request: a column of its block table, and how far behind it the accepted state lies."""

    def __init__(self, level: Level, groups: list[dict]) -> None:
        self._level = level
        self._groups = [
            (g, group["block"], group.get("speculative", 0))
            for g, group in enumerate(groups)
            if group["kind"] == "mamba"
        ]
        self._columns: dict[tuple[str, int], tuple[int, int]] = {}

    def forget(self, r: str) -> None:
        """The request is over or was preempted: the runner keeps no state of it."""
        for g, _, _ in self._groups:
            self._columns.pop((r, g), None)

    def before(self, r: str, tables: list[list[int]], start: int, tokens: int, drafts: int, accepted: int) -> None:
        """Tell where the forward pass over ``tokens`` positions, ``drafts`` of them drafts, takes and leaves states.

        Each draft's state is left in a column of its own. The runner copies: before the pass from the column of the
        last accepted token, after it to the column of a block that the accepted tokens filled.
        """
        for g, size, speculative in self._groups:
            table = tables[g]
            before, behind = self._columns.get((r, g)) or ((start - 1) // size, 0)
            # The first releases go by the table's length, which a rejected draft may have made too long.
            blocks = -(-(start + tokens) // size) if since((0, 17)) else len(table) - speculative
            column, surely = blocks - 1, start + tokens - drafts
            leaves = [[_entry(table, column + t), surely + t] for t in range(drafts + 1)]
            full = (surely + accepted) // size * size
            if full >= surely:
                leaves.append([_entry(table, full // size - 1), full])
                accepted = 0 if full // size - 1 == column else accepted
            self._columns[r, g] = column, accepted
            self._level.tell("state", r, g, _entry(table, before + behind) if start else None, leaves)


def _entry(table: list[int], column: int) -> int:
    return table[column] if 0 <= column < len(table) else -1
