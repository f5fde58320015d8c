"""A radix tree over pages of KV memory: edges of whole pages, splits, locks towards the root, eviction of leaves.

Each node keeps the pages of its edge. Children are found by the first page of their edge, so siblings differ there;
what parts namespaces is part of the key of a first page. Nodes that nobody locks stand in one order of use, in which a
child always stands nearer to eviction than its parent: what goes next is a leaf.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ..errors import RefusedError
from ..events import BlockRemoved, BlockStored, Event

__all__ = ["Node", "PageKey", "RadixTree"]

PageKey = bytes
"""The chained key of a page: its tokens, all before them, and their namespace (`keys.py`)."""


@dataclass(eq=False, slots=True)
class Node:
    """A run of pages below its parent. Only the root has no parent, and no pages."""

    parent: Node | None
    keys: list[PageKey] = field(default_factory=list)
    """Of each page of its edge."""
    pages: list[int] = field(default_factory=list)
    children: dict[PageKey, Node] = field(default_factory=dict)
    """By the first key of their edge."""
    lock_ref: int = 0

    def path(self) -> Iterator[Node]:
        """The node and all above it but the root."""
        node = self
        while node.parent is not None:
            yield node
            node = node.parent


class RadixTree:
    """Pages by prefix. It owns what it adopted, until it evicts it."""

    def __init__(self) -> None:
        """An empty tree."""
        self.root = Node(None)
        self.evictable = self.protected = 0
        self._order: OrderedDict[Node, None] = OrderedDict()
        self._events: list[Event] = []

    # ------------------------------------------------------------------------------------------------ matching

    def match(self, keys: Sequence[PageKey]) -> tuple[Node, list[int]]:
        """Return the node at which the longest cached prefix of these pages ends, and its pages (R4).

        A node in which it ends is split there. What is found counts as used.
        """
        node, found = self.walk(keys)
        self._use(node)
        return node, found

    def walk(self, keys: Sequence[PageKey]) -> tuple[Node, list[int]]:
        """As `match`, but nothing counts as used: for who locks it, or inserts."""
        node, found = self.root, list[int]()
        while len(found) < len(keys):
            child = node.children.get(keys[len(found)])
            if child is None:
                break
            common = self._common(child.keys, keys[len(found) :])
            if common < len(child.keys):
                child = self._split(child, common)
            found += child.pages
            node = child
        return node, found

    @staticmethod
    def _common(edge: Sequence[PageKey], keys: Sequence[PageKey]) -> int:
        """How many pages of an edge are wanted."""
        pairs = zip(edge, keys, strict=False)
        return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(edge), len(keys)))

    def _split(self, node: Node, at: int) -> Node:
        """Part a node in two and return the upper one. The lower stays the node it was, for those who lock it."""
        assert node.parent is not None
        upper = Node(node.parent, node.keys[:at], node.pages[:at], {node.keys[at]: node}, node.lock_ref)
        node.parent.children[upper.keys[0]] = upper
        node.parent, node.keys, node.pages = upper, node.keys[at:], node.pages[at:]
        if not upper.lock_ref:
            self._order[upper] = None
        return upper

    def _use(self, node: Node) -> None:
        """A node and all above it are the ones used last, the parent after its child."""
        for used in node.path():
            if not used.lock_ref:
                self._order.move_to_end(used)

    # ------------------------------------------------------------------------------------------------ locks

    def lock(self, node: Node) -> None:
        """Keep a node, and all above it (R3)."""
        for locked in node.path():
            if not locked.lock_ref:
                del self._order[locked]
                self._protect(len(locked.pages))
            locked.lock_ref += 1

    def unlock(self, node: Node) -> None:
        """Release one lock. What nobody locks any more is what was used last.

        Raises:
            RefusedError: it is not locked.
        """
        if node.parent is not None and not node.lock_ref:
            raise RefusedError("the node is not locked")
        for locked in node.path():
            locked.lock_ref -= 1
            if not locked.lock_ref:
                self._order[locked] = None
                self._protect(-len(locked.pages))

    def _protect(self, pages: int) -> None:
        """So many pages that could be evicted cannot any more."""
        self.evictable -= pages
        self.protected += pages

    # ------------------------------------------------------------------------------------------------ inserting

    def insert(self, keys: Sequence[PageKey], pages: Sequence[int]) -> tuple[Node, list[int]]:
        """Adopt what is not there yet (R5).

        Args:
            keys: of the prefix, from its first page on.
            pages: where its KV stands.

        Returns:
            The node at which the prefix ends, and the pages that the tree had before. So many of the caller's, from the
            first on, are duplicates where they are others than these, and stay the caller's to free.
        """
        node, had = self.walk(keys)
        rest = len(had)
        if rest < len(keys):
            leaf = Node(node, list(keys[rest:]), list(pages[rest:]))
            node.children[keys[rest]] = leaf
            self._order[leaf] = None
            self.evictable += len(leaf.pages)
            for at in range(rest, len(keys)):
                self._events.append(BlockStored(keys[at], keys[at - 1] if at else None, pages[at]))
            node = leaf
        return node, had

    # ------------------------------------------------------------------------------------------------ eviction

    def evict(self, wanted: int) -> list[int]:
        """Drop leaves that nobody locks, the least recently used first, until so many pages are free (R6).

        A node goes as a whole. Returns the pages, which are nobody's now.
        """
        freed: list[int] = []
        while len(freed) < wanted and self._order:
            freed += self._drop(next(iter(self._order)))
        return freed

    def _drop(self, leaf: Node) -> list[int]:
        """Remove a leaf; its last page goes first."""
        assert leaf.parent is not None
        assert not leaf.children
        del leaf.parent.children[leaf.keys[0]]
        del self._order[leaf]
        self.evictable -= len(leaf.pages)
        self._events += [BlockRemoved(key) for key in reversed(leaf.keys)]
        return leaf.pages[::-1]

    # ------------------------------------------------------------------------------------------------ looking

    def take_events(self) -> list[Event]:
        """Return what was stored and removed since the last call (R8)."""
        events, self._events = self._events, []
        return events

    def nodes(self) -> Iterator[Node]:
        """All nodes but the root, parents first."""
        waiting = [*self.root.children.values()]
        while waiting:
            node = waiting.pop()
            waiting += node.children.values()
            yield node

    def order(self) -> list[Node]:
        """Those that nobody locks; the first is evicted next."""
        return list(self._order)
