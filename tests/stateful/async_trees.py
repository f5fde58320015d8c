"""Asynchronous prefix trees that are right, each in a way of its own: calls that overlap must find nothing in them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any, TypeVar

from .async_tree_faults import Found, Moved

from async_radix import AsyncRadix  # isort: skip
from radix import Node  # isort: skip

T = TypeVar("T")

__all__ = ["AtOnce", "Joins", "Looks", "Pins"]


class AtOnce(AsyncRadix):
    """All of a call is done in one go; when that is depends on what it waits for, before it or behind it."""

    async def done(self, answer: T) -> T:
        """Answer later. Who is cancelled then has done all, and says so."""
        try:
            await self.answer()
            await self.answer()
        except asyncio.CancelledError:
            pass
        return answer

    def found(self, tokens: Sequence[int], namespace: str | None) -> Found:
        slots, node = self.tree.match(tokens, namespace)
        self.tree.lock(node)
        return slots, node

    def moved(self, tokens: Sequence[int], slots: Sequence[int], old: Node, namespace: str | None) -> Moved:
        had = self.tree.insert(tokens, slots, namespace)
        found, new = self.found(tokens, namespace)
        self.tree.unlock(old)
        return had, found, new

    async def match(self, tokens: Sequence[int], namespace: str | None) -> Found:
        return await self.done(self.tree.match(tokens, namespace))

    async def match_and_lock(self, tokens: Sequence[int], namespace: str | None) -> Found:
        return await self.done(self.found(tokens, namespace))

    async def insert(self, tokens: Sequence[int], slots: Sequence[int], namespace: str | None) -> int:
        return await self.done(self.tree.insert(tokens, slots, namespace))

    async def check_in(
        self, tokens: Sequence[int], slots: Sequence[int], old: Node, namespace: str | None
    ) -> tuple[int, list[int], Node]:
        return await self.done(self.moved(tokens, slots, old, namespace))

    async def lock(self, node: Node) -> None:
        self.tree.lock(node)
        await self.done(None)

    async def unlock(self, node: Node) -> None:
        self.tree.unlock(node)
        await self.done(None)

    async def evict(self, wanted: int) -> list[int]:
        return await self.done(self.tree.evict(wanted))


class Looks(AtOnce):
    """It looks without a lock, and once more where somebody was there meanwhile; so it does before each leaf goes."""

    version = 0

    async def looked(self) -> None:
        """Wait until nobody has changed anything meanwhile."""
        while True:
            before = self.version
            await self.answer()
            if before == self.version:
                return

    async def done(self, answer: T) -> T:
        self.version += 1
        return answer

    async def match_and_lock(self, tokens: Sequence[int], namespace: str | None) -> Found:
        await self.looked()
        return await super().match_and_lock(tokens, namespace)

    async def check_in(
        self, tokens: Sequence[int], slots: Sequence[int], old: Node, namespace: str | None
    ) -> tuple[int, list[int], Node]:
        await self.looked()
        return await super().check_in(tokens, slots, old, namespace)

    async def evict(self, wanted: int) -> list[int]:
        freed: list[int] = []
        while len(freed) < wanted and (leaves := self.tree.leaves()):
            chosen = self.tree.oldest(leaves)
            try:
                await self.answer()
            except asyncio.CancelledError:
                if not freed:
                    raise
                return freed  # What is dropped is dropped.
            if (leaves := self.tree.leaves()) and chosen is self.tree.oldest(leaves):
                freed += await self.done(self.tree.drop(chosen))
        return freed


class Pins(AsyncRadix):
    """Who walks has no lock, but a pin on the nodes that he has come through: nobody evicts these meanwhile."""

    def __init__(self, page_tokens: int) -> None:
        super().__init__(page_tokens)
        self.pins = Counter[Node]()
        leaves = self.tree.leaves
        vars(self.tree)["leaves"] = lambda: [node for node in leaves() if not self.pins[node]]

    async def pinned(self, tokens: Sequence[int], namespace: str | None) -> list[Node]:
        """Walk to the end, and have pins on the way there."""
        tree, node, at, path = self.tree, self.tree.root, 0, list[Node]()
        try:
            await self.answer()
            while child := node.children.get(tree.first(node, tokens[at:], namespace)):
                common = tree.common(child.tokens, tokens[at:])
                node = tree.split(child, common) if common < len(child.tokens) else child
                self.pins[node] += 1
                path.append(node)
                at += len(node.tokens)
                await self.answer()
        except asyncio.CancelledError:
            self.pins.subtract(path)
            raise
        return path

    async def match_and_lock(self, tokens: Sequence[int], namespace: str | None) -> Found:
        path = await self.pinned(tokens, namespace)
        slots, node = self.tree.match(tokens, namespace)  # Somebody may have hung more there.
        self.tree.lock(node)
        self.pins.subtract(path)
        return slots, node

    async def check_in(
        self, tokens: Sequence[int], slots: Sequence[int], old: Node, namespace: str | None
    ) -> tuple[int, list[int], Node]:
        path = await self.pinned(tokens, namespace)
        had = self.tree.insert(tokens, slots, namespace)
        found, new = self.tree.match(tokens, namespace)
        self.tree.lock(new)
        self.tree.unlock(old)
        self.pins.subtract(path)
        return had, found, new


class Joins(AsyncRadix):
    """A node and its only child become one again, when both are released: what was matched must be locked by then."""

    async def unlock(self, node: Node) -> None:
        await super().unlock(node)
        for each in [*self.tree.path(node)]:
            self.join(each)

    async def check_in(self, *what: Any) -> tuple[int, list[int], Node]:
        old = what[2]
        moved = await super().check_in(*what)
        self.join(old)
        return moved

    def join(self, node: Node) -> None:
        if node.locks or len(node.children) != 1:
            return
        (child,) = node.children.values()
        if not child.locks:
            node.tokens, node.slots = node.tokens + child.tokens, node.slots + child.slots
            node.used, node.children = max(node.used, child.used), child.children
            for below in node.children.values():
                below.parent = node
