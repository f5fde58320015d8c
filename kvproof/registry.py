"""What has a name on the command line: the kit's own, and what installed packages add to it by entry points.

A package of yours adds a machine (a level, an engine, a comparison) in its pyproject.toml::

    [project.entry-points."kvproof.machines"]
    my-pool = "my_package.machines:MyPool"

Nothing is imported before it is wanted, so that names are known at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

__all__ = ["Registry"]

T = TypeVar("T")


class Registry(Mapping[str, T], Generic[T]):
    """Things by name, each made when it is first wanted.

    ``group`` is that of the entry points, ``own`` what the kit itself has. A name of the kit's own is nobody else's.
    """

    def __init__(self, group: str, own: Mapping[str, Callable[[], T]]) -> None:
        self._group, self._own = group, own
        self._made: dict[str, T] = {}

    @cached_property
    def _others(self) -> dict[str, EntryPoint]:
        return {e.name: e for e in entry_points(group=self._group) if e.name not in self._own}

    def __getitem__(self, name: str) -> T:
        """Raises: KeyError: nothing has that name."""
        if name not in self._made:
            self._made[name] = self._own[name]() if name in self._own else self._others[name].load()
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._own or name in self._others

    def __iter__(self) -> Iterator[str]:
        return iter((*self._own, *self._others))

    def __len__(self) -> int:
        return len(self._own) + len(self._others)
