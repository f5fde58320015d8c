"""How a manager tells of blocks: by one block table of a request, or by one for each group of its layers."""

from __future__ import annotations

import reprlib
from typing import Any

from .answers import Keys, listed, number, numbers, parts

__all__ = ["Groups", "Layout", "Tables"]

Tables = list[list[int]]
"""Blocks of a request, for each group; however a manager tells them."""


class Layout:
    """All layers are one group: a table is a list of blocks, and a key names a block."""

    def __init__(self, null: int | None) -> None:
        """The null block stands for nothing."""
        self._null = null
        self._keys = Keys()

    def read(self, told: Any, method: str) -> Tables:
        """A block table, or what was found of one, as a method of the adapter told it."""
        return [numbers(told, method)]

    def on_host(self, told: Any) -> list[Any]:
        """Host blocks that a lookup found, as new lists: None is for what need not be loaded."""
        return numbers(told, "host_lookup")

    def length(self, told: list[Any]) -> int:
        """How many blocks of each group `on_host` has."""
        return len(told)

    def there(self, told: list[Any]) -> list[int]:
        """The host blocks that `on_host` has."""
        return [*told]

    def as_told(self, tables: Tables) -> list[Any]:
        """The other way round: as new lists in the manager's own form."""
        return [*tables[0]]

    def blocks(self, tables: Tables) -> list[int]:
        """All blocks of them, but for the null block."""
        return [block for table in tables for block in table if block != self._null]

    def entry(self, key: Any, method: str) -> list[int]:
        """The number of the key of a block that a method of the adapter told, and the group of the block."""
        return [self.number(key, method), 0]

    def number(self, key: Any, method: str) -> int:
        """The number of a key of the manager's."""
        return self._keys.number(key, method)


class Groups(Layout):
    """So many groups: a table is a list of block tables, and the key of a block is ``(key, group)``."""

    def __init__(self, null: int | None, groups: int) -> None:
        """The null block stands for what a group has given up."""
        super().__init__(null)
        self._groups = groups

    def read(self, told: Any, method: str) -> Tables:
        """The block tables; nothing may be told as such. What is found is as long in each group."""
        tables = [numbers(each, method) for each in listed(told, method, "block tables")]
        return self._of_all(tables, method, "the null block for what is behind a window", alike=method == "lookup")

    def on_host(self, told: Any) -> list[Any]:
        """For each group its host blocks, as many in each, and None for what is behind a window."""
        tables = [
            [None if at is None else number(at, "host_lookup") for at in listed(each, "host_lookup", "host blocks")]
            for each in listed(told, "host_lookup", "lists of host blocks")
        ]
        return self._of_all(tables, "host_lookup", "None for what is behind a window", alike=True)

    def length(self, told: list[Any]) -> int:
        """They are as long in each group."""
        return len(told[0]) if told else 0

    def there(self, told: list[Any]) -> list[int]:
        """Those of all groups, but for what need not be loaded."""
        return [at for table in told for at in table if at is not None]

    def as_told(self, tables: Tables) -> list[Any]:
        """New lists: a manager may take from them what it takes hold of."""
        return [[*table] for table in tables]

    def entry(self, key: Any, method: str) -> list[int]:
        """Each group has blocks of its own under a key."""
        of_block, group = parts(key, method, ("the key of a block", "its group"))
        if not 0 <= number(group, method) < self._groups:
            raise ValueError(f"{method}() told group {group}, and there are {self._groups}")
        return [self.number(of_block, method), number(group, method)]

    def _of_all(self, tables: list[Any], method: str, behind: str, *, alike: bool) -> list[Any]:
        if tables and len(tables) != self._groups:
            raise ValueError(f"{method}() answered {len(tables)} block tables, and there are {self._groups} groups")
        if alike and len({len(table) for table in tables}) > 1:
            raise ValueError(
                f"{method}() answered {reprlib.repr(tables)}; what it finds is as long in each group, with {behind}"
            )
        return tables or [[] for _ in range(self._groups)]
