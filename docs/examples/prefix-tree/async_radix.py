"""The radix tree as an asynchronous one, which several tasks of a server share. It knows nothing of kvproof."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from radix import Node, Radix

__all__ = ["AsyncRadix"]


class AsyncRadix:
    """Looking something up takes time, as it does where the index is elsewhere: others are served meanwhile.

    Whoever walks has the tree for himself; and what a call changes it changes behind its last ``await``, so that one
    that is cancelled has changed nothing (but that a node may have been split, which says the same as before).
    """

    def __init__(self, page_tokens: int) -> None:
        """An empty tree."""
        self.tree = Radix(page_tokens)
        self.walking = asyncio.Lock()

    async def answer(self) -> None:
        """Wait for the index."""
        await asyncio.sleep(0)

    async def walk(self, tokens: Sequence[int], namespace: str | None) -> tuple[list[int], Node]:
        """The slots of the longest cached prefix, and the node at which it ends: it is split there."""
        tree, node, slots = self.tree, self.tree.root, list[int]()
        await self.answer()
        while child := node.children.get(tree.first(node, tokens[len(slots) :], namespace)):
            child.used = next(tree.clock)
            common = tree.common(child.tokens, tokens[len(slots) :])
            node = tree.split(child, common) if common < len(child.tokens) else child
            slots += node.slots
            await self.answer()
        return slots, node

    async def match(self, tokens: Sequence[int], namespace: str | None) -> tuple[list[int], Node]:
        """Find a prefix, and hold nothing."""
        async with self.walking:
            return await self.walk(tokens, namespace)

    async def match_and_lock(self, tokens: Sequence[int], namespace: str | None) -> tuple[list[int], Node]:
        """Find a prefix, and keep it."""
        async with self.walking:
            slots, node = await self.walk(tokens, namespace)
            self.tree.lock(node)
            return slots, node

    async def insert(self, tokens: Sequence[int], slots: Sequence[int], namespace: str | None) -> int:
        """Adopt what is not there yet, and return how many tokens were."""
        async with self.walking:
            had, node = await self.walk(tokens, namespace)
            self.tree.adopt(node, tokens[len(had) :], slots[len(had) :], namespace)
            return len(had)

    async def check_in(
        self, tokens: Sequence[int], slots: Sequence[int], old: Node, namespace: str | None
    ) -> tuple[int, list[int], Node]:
        """Insert, and move a lock to where the tokens end."""
        async with self.walking:
            had, node = await self.walk(tokens, namespace)
            self.tree.adopt(node, tokens[len(had) :], slots[len(had) :], namespace)
            found, new = self.tree.match(tokens, namespace)
            self.tree.lock(new)
            self.tree.unlock(old)
            return len(had), found, new

    async def lock(self, node: Node) -> None:
        """Keep a node and all above it."""
        async with self.walking:
            await self.answer()
            self.tree.lock(node)

    async def unlock(self, node: Node) -> None:
        """Release such a lock."""
        async with self.walking:
            await self.answer()
            self.tree.unlock(node)

    async def evict(self, wanted: int) -> list[int]:
        """Drop leaves that nobody locks, until so many slots are free."""
        async with self.walking:
            await self.answer()
            return self.tree.evict(wanted)
