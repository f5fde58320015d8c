"""The radix tree, held to the rules of KV caching: `pytest docs/examples/prefix-tree`."""

from collections.abc import Iterable, Sequence
from typing import ClassVar

from radix import Node, Radix

from kvproof.testing import Edge, PrefixTree


class TestRadix(PrefixTree):
    """How kvproof drives the tree."""

    namespaces = True
    order = "lru"
    kind: ClassVar[type[Radix]] = Radix

    def __init__(self, _slots: int, page_tokens: int) -> None:
        self.tree = self.kind(page_tokens)

    def match(self, tokens: Sequence[int], namespace: str | None) -> tuple[list[int], Node]:
        return self.tree.match(tokens, namespace)

    def insert(self, tokens: Sequence[int], slots: Sequence[int], namespace: str | None) -> int:
        return self.tree.insert(tokens, slots, namespace)

    def lock(self, node: Node) -> None:
        self.tree.lock(node)

    def unlock(self, node: Node) -> None:
        self.tree.unlock(node)

    def evict(self, tokens: int) -> list[int]:
        return self.tree.evict(tokens)

    def evictable_size(self) -> int:
        return self.tree.evictable

    def protected_size(self) -> int:
        return self.tree.protected

    def children(self, node: Node | None) -> Iterable[Node]:
        return (node or self.tree.root).children.values()

    def edge(self, node: Node) -> Edge:
        assert node.parent is not None
        (namespace,) = (key[0] for key, child in node.parent.children.items() if child is node)
        return Edge(node.tokens, node.slots, node.locks, namespace)
