"""Pages of one tier by prefix: the reference implementation's tree, and what is free."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from kvproof.refimpl.events import BlockStored
from kvproof.refimpl.tree.radix import Node, RadixTree

__all__ = ["Tier", "end_of"]


class _Tree(RadixTree):
    """A tree that says which leaf it is about to drop."""

    dropping: Callable[[Node], None] | None = None

    def _drop(self, leaf):
        if self.dropping is not None:
            self.dropping(leaf)
        return super()._drop(leaf)


class Tier:
    """A tier called ``name``, of these pages; ``hear`` is told what is stored and removed, when it happens."""

    def __init__(self, name: str, pages: Iterable[int], hear: Callable) -> None:
        self.name, self.free, self.tree = name, deque(pages), _Tree()
        self._hear = hear
        self.fault = ""

    def room(self, pages: int) -> bool:
        """Whether so many pages are free, once what nobody locks is given up for them."""
        if len(self.free) < pages:
            self.evict(pages - len(self.free))
        return len(self.free) >= pages

    def evict(self, pages: int) -> None:
        """Give so many pages up, or all that nobody locks."""
        self.free.extend(self.tree.evict(pages))
        self._report()

    def take(self, pages: int) -> list[int]:
        """Take pages of which so many are free."""
        return [self.free.popleft() for _ in range(pages)]

    def adopt(self, keys: Sequence[bytes], pages: list[int], held: int) -> Node:
        """Let the tree have a prefix, and ``pages`` be those of the tree; behind ``held`` the caller's come free where
        the tree has others."""
        _, had = self.tree.insert(keys, pages[: len(keys)])
        node, _ = self.tree.match(keys)  # What is new counts as used, and so does all above it.
        self.free.extend(pages[held : len(had)])
        pages[: len(had)] = had
        self._report()
        return node

    def _report(self) -> None:
        for event in self.tree.take_events():
            if isinstance(event, BlockStored):
                self._hear("stored", self.name, event.key, event.parent)
            elif self.fault != "silent removal":
                self._hear("removed", self.name, event.key, None)


def end_of(node: Node) -> bytes | None:
    """The key at which a node ends; None: the root."""
    return node.keys[-1] if node.parent is not None else None
