"""A small radix tree over slots of KV memory, in the manner of SGLang's. It knows nothing of kvproof."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

__all__ = ["Node", "Radix"]

Page = tuple[int, ...]


class Node:
    """A run of tokens below its parent, and where their KV stands."""

    def __init__(self, parent: Node | None, tokens: Sequence[int], slots: Sequence[int]) -> None:
        """Nobody locks it, and it has no children."""
        self.parent, self.tokens, self.slots = parent, list(tokens), list(slots)
        self.children: dict[tuple[str | None, Page], Node] = {}
        self.locks = self.used = 0


class Radix:
    """Cached prefixes, in whole pages. A lock on a node holds all above it; what nobody locks may be evicted."""

    def __init__(self, page_tokens: int) -> None:
        """An empty tree."""
        self.page_tokens = page_tokens
        self.root = Node(None, [], [])
        self.evictable = self.protected = 0
        self.clock = itertools.count(1)

    # ------------------------------------------------------------------------------------------------ prefixes

    def match(self, tokens: Sequence[int], namespace: str | None = None) -> tuple[list[int], Node]:
        """The slots of the longest cached prefix, and the node at which it ends: it is split there."""
        node, slots = self.root, list[int]()
        while child := node.children.get(self.first(node, tokens[len(slots) :], namespace)):
            child.used = next(self.clock)
            common = self.common(child.tokens, tokens[len(slots) :])
            if common < len(child.tokens):
                child = self.split(child, common)
            slots += child.slots
            node = child
        return slots, node

    def insert(self, tokens: Sequence[int], slots: Sequence[int], namespace: str | None = None) -> int:
        """Adopt what is not there yet, and return how many tokens were."""
        had, node = self.match(tokens, namespace)
        self.adopt(node, tokens[len(had) :], slots[len(had) :], namespace)
        return len(had)

    def adopt(self, node: Node, tokens: Sequence[int], slots: Sequence[int], namespace: str | None) -> None:
        """Hang these tokens below a node."""
        if tokens:
            leaf = node.children[self.first(node, tokens, namespace)] = Node(node, tokens, slots)
            leaf.used = next(self.clock)
            self.evictable += len(tokens)

    def first(self, node: Node, tokens: Sequence[int], namespace: str | None) -> tuple[str | None, Page]:
        """What a child is found by: its first page, and below the root its namespace."""
        return namespace if node is self.root else None, tuple(tokens[: self.page_tokens])

    def common(self, edge: Sequence[int], tokens: Sequence[int]) -> int:
        """How many tokens agree, in whole pages."""
        pairs = zip(edge, tokens, strict=False)
        same = next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(edge), len(tokens)))
        return same // self.page_tokens * self.page_tokens

    def split(self, node: Node, at: int) -> Node:
        """Part a node in two and return the upper one; the lower stays the node that it was."""
        parent = node.parent
        assert parent is not None
        upper = Node(parent, node.tokens[:at], node.slots[:at])
        upper.locks, upper.used = node.locks, node.used
        (key,) = (key for key, child in parent.children.items() if child is node)
        parent.children[key] = upper
        node.parent, node.tokens, node.slots = upper, node.tokens[at:], node.slots[at:]
        upper.children[self.first(upper, node.tokens, None)] = node
        return upper

    # --------------------------------------------------------------------------------------------------- locks

    def path(self, node: Node) -> Iterator[Node]:
        """The node and all above it, but the root."""
        while node.parent is not None:
            yield node
            node = node.parent

    def lock(self, node: Node) -> None:
        """Keep a node and all above it."""
        for each in self.path(node):
            if not each.locks:
                self.protect(len(each.slots))
            each.locks += 1

    def unlock(self, node: Node) -> None:
        """Release such a lock."""
        for each in self.path(node):
            each.locks -= 1
            if not each.locks:
                self.protect(-len(each.slots))

    def protect(self, slots: int) -> None:
        """So many slots that could be evicted cannot any more."""
        self.evictable -= slots
        self.protected += slots

    # ------------------------------------------------------------------------------------------------ eviction

    def evict(self, wanted: int) -> list[int]:
        """Drop leaves that nobody locks, the least recently used first, until so many slots are free."""
        freed: list[int] = []
        while len(freed) < wanted and (leaves := self.leaves()):
            freed += self.drop(self.oldest(leaves))
        return freed

    def leaves(self) -> list[Node]:
        """What may go."""
        return [node for node in self.nodes() if not node.children and not node.locks]

    def oldest(self, leaves: Sequence[Node]) -> Node:
        """What goes next."""
        return min(leaves, key=lambda node: node.used)

    def drop(self, node: Node) -> list[int]:
        """Take a node out of the tree, and return its slots."""
        parent = node.parent
        assert parent is not None
        (key,) = (key for key, child in parent.children.items() if child is node)
        del parent.children[key]
        self.evictable -= len(node.slots)
        return node.slots

    def nodes(self) -> Iterator[Node]:
        """All nodes but the root."""
        waiting = [*self.root.children.values()]
        while waiting:
            node = waiting.pop()
            waiting += node.children.values()
            yield node
