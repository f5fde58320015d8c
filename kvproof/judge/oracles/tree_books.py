"""Books of a prefix tree: what must be where, locked how often and used when, by what was asked and answered.

A prefix is named by its content (`ghost/contents.py`): equal tokens in one namespace, equal number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

__all__ = ["Books", "Page"]


@dataclass
class Page:
    """The last page of a prefix, which the tree has."""

    above: int
    """The prefix that is a page shorter."""
    slots: tuple[int, ...]
    locks: int = 0
    locked_at: int = 0
    """When it was locked last: whoever orders by age has seen it used then."""
    used_at: int = 0
    """When it may have been seen used last: matches and releases count for some trees only."""


class Books:
    """The pages of the tree, by prefix."""

    def __init__(self) -> None:
        """The tree is empty."""
        self.pages: dict[int, Page] = {}
        self._clock = 0

    def there(self, path: Sequence[int]) -> list[int]:
        """The longest beginning of a path that the tree has."""
        missing = next((n for n, prefix in enumerate(path) if prefix not in self.pages), len(path))
        return [*path[:missing]]

    def slots_of(self, prefixes: Iterable[int]) -> list[int]:
        """The slots of these prefixes' pages, in order."""
        return [slot for prefix in prefixes for slot in self.pages[prefix].slots]

    def adopt(self, above: int, path: Sequence[int], slots: Sequence[int], page: int) -> None:
        """Let the tree have what is missing of a path; ``above`` is the empty prefix."""
        for n, prefix in enumerate(path):
            if prefix not in self.pages:
                parent = path[n - 1] if n else above
                self.pages[prefix] = Page(parent, tuple(slots[n * page : (n + 1) * page]))

    def use(self, path: Sequence[int]) -> None:
        """A walk has come along here. A node goes on below where it ends, as long as the tree does not fork."""
        self._clock += 1
        for prefix in (*path, *self._run_below(path[-1] if path else None)):
            self.pages[prefix].used_at = self._clock

    def lock(self, path: Sequence[int], by: int) -> None:
        """One lock more on a path, or one less."""
        self.use(path)
        for prefix in path:
            page = self.pages[prefix]
            page.locks += by
            if by > 0:
                page.locked_at = self._clock

    def become(self, pages: dict[int, Page]) -> None:
        """Nobody knows in which order it came to these pages: any of them may have been used last."""
        self._clock += 1
        self.pages = pages
        for page in pages.values():
            page.used_at = self._clock

    def children(self) -> dict[int, list[int]]:
        """The prefixes that are a page longer, by prefix."""
        found: dict[int, list[int]] = {}
        for prefix, page in self.pages.items():
            found.setdefault(page.above, []).append(prefix)
        return found

    def namespace_of(self, slot: int) -> int | None:
        """The empty prefix of the namespace whose page has this slot; None where none has."""
        at = next((prefix for prefix, page in self.pages.items() if slot in page.slots), None)
        while at in self.pages:
            at = self.pages[at].above
        return at

    def locked(self) -> int:
        """How many slots are locked."""
        return sum(len(page.slots) for page in self.pages.values() if page.locks)

    def unlocked(self) -> int:
        """How many are not."""
        return sum(len(page.slots) for page in self.pages.values() if not page.locks)

    def _run_below(self, prefix: int | None) -> Iterator[int]:
        children = self.children() if prefix is not None else {}
        while prefix is not None and len(below := children.get(prefix, [])) == 1:
            prefix = below[0]
            yield prefix
