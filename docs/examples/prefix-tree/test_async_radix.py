"""The asynchronous radix tree, held to the rules of KV caching while its calls overlap."""

from collections.abc import Iterable, Sequence
from typing import ClassVar

from async_radix import AsyncRadix
from radix import Node

from kvproof.testing import Edge, PrefixTree


class TestAsyncRadix(PrefixTree):
    """How kvproof drives the tree."""

    namespaces = True
    order = "lru"
    kind: ClassVar[type[AsyncRadix]] = AsyncRadix

    def __init__(self, _slots: int, page_tokens: int) -> None:
        self.radix = self.kind(page_tokens)
        self.tree = self.radix.tree

    async def match(self, tokens: Sequence[int], namespace: str | None) -> tuple[list[int], Node]:
        return await self.radix.match(tokens, namespace)

    async def match_and_lock(self, tokens: Sequence[int], namespace: str | None) -> tuple[list[int], Node]:
        return await self.radix.match_and_lock(tokens, namespace)

    async def insert(self, tokens: Sequence[int], slots: Sequence[int], namespace: str | None) -> int:
        return await self.radix.insert(tokens, slots, namespace)

    async def check_in(
        self, tokens: Sequence[int], slots: Sequence[int], node: Node, namespace: str | None
    ) -> tuple[int, list[int], Node]:
        return await self.radix.check_in(tokens, slots, node, namespace)

    async def lock(self, node: Node) -> None:
        await self.radix.lock(node)

    async def unlock(self, node: Node) -> None:
        await self.radix.unlock(node)

    async def evict(self, tokens: int) -> list[int]:
        return await self.radix.evict(tokens)

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
