"""A `BlockManager` whose layers are in groups, each with block tables of its own, over one pool of blocks."""

from __future__ import annotations

import reprlib
from typing import Any

from .answers import listed, number, numbers, parts
from .system import System

__all__ = ["GroupedSystem"]


class GroupedSystem(System):
    """One manager, which has as many tables of a request as groups."""

    def _read_table(self, told: Any, method: str) -> list[Any]:
        tables = [numbers(each, method) for each in listed(told, method, "block tables")]
        groups = self.world["groups"]
        if tables and len(tables) != len(groups):
            raise ValueError(f"{method}() answered {len(tables)} block tables, and there are {len(groups)} groups")
        if method == "lookup" and len({len(table) for table in tables}) > 1:
            raise ValueError(
                f"lookup() answered {reprlib.repr(tables)}; what it finds is as long in each group, with the null "
                "block for what is behind a window"
            )
        return tables

    def _by_group(self, table: list[Any]) -> list[list[int]]:
        return [[*each] for each in table] or [[] for _ in self.world["groups"]]  # Nothing may be told as such.

    def _as_told(self, tables: list[list[int]]) -> list[Any]:
        return tables

    def _entry(self, key: Any, method: str) -> list[int]:
        of_block, group = parts(key, method, ("the key of a block", "its group"))
        if not 0 <= number(group, method) < len(self.world["groups"]):
            raise ValueError(f"{method}() told group {group}, and there are {len(self.world['groups'])}")
        return [self._number(of_block, method), number(group, method)]
