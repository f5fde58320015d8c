"""The asynchronous example tree (docs/examples/prefix-tree) with a fault each, which only calls that overlap bring
about, or one that is cancelled."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "prefix-tree"
sys.path.insert(0, str(EXAMPLE))

from async_radix import AsyncRadix  # noqa: E402
from radix import Node  # noqa: E402

Found = tuple[list[int], Node]
Moved = tuple[int, list[int], Node]
"""What a match answers, and a check-in."""


class FoundThenLocked(AsyncRadix):
    """What a match finds it locks behind an await: an eviction may have taken it by then."""

    async def match_and_lock(self, tokens: Sequence[int], namespace: str | None) -> Found:
        slots, node = await self.match(tokens, namespace)
        await self.lock(node)
        return slots, node


class AdoptsByAStaleWalk(AsyncRadix):
    """Where tokens belong is found before an await, and they are hung there behind it: two hang the same there."""

    async def check_in(
        self, tokens: Sequence[int], slots: Sequence[int], old: Node, namespace: str | None
    ) -> tuple[int, list[int], Node]:
        had, node = await self.match(tokens, namespace)
        async with self.walking:
            self.tree.adopt(node, tokens[len(had) :], slots[len(had) :], namespace)
            found, new = self.tree.match(tokens, namespace)
            self.tree.lock(new)
            self.tree.unlock(old)
        return len(had), found, new


class SplitUnderAMatch(AsyncRadix):
    """Nobody has the tree for himself who looks up: the node where he stands is another one behind an await."""

    async def match_and_lock(self, tokens: Sequence[int], namespace: str | None) -> Found:
        tree, node, slots = self.tree, self.tree.root, list[int]()
        while child := node.children.get(tree.first(node, tokens[len(slots) :], namespace)):
            child.used = next(tree.clock)
            common = tree.common(child.tokens, tokens[len(slots) :])
            await self.answer()
            node = tree.split(child, common) if common < len(child.tokens) else child
            slots += node.slots
        tree.lock(node)
        return slots, node


class ChosenThenEvicted(AsyncRadix):
    """What goes is chosen before an await, and dropped behind it, whether it was locked meanwhile or not."""

    async def evict(self, wanted: int) -> list[int]:
        tree, freed = self.tree, list[int]()
        while len(freed) < wanted and (leaves := tree.leaves()):
            chosen = tree.oldest(leaves)
            await self.answer()
            if not chosen.children and chosen in tree.nodes():
                freed += tree.drop(chosen)
        return freed


class EvictedTwice(AsyncRadix):
    """Two evictions choose the same leaf, and both say that it is free."""

    async def evict(self, wanted: int) -> list[int]:
        tree, freed = self.tree, list[int]()
        while len(freed) < wanted and (leaves := tree.leaves()):
            chosen = tree.oldest(leaves)
            await self.answer()
            async with self.walking:
                if not chosen.locks and not chosen.children:
                    freed += tree.drop(chosen) if chosen in tree.nodes() else chosen.slots
        return freed


class StaleCount(AsyncRadix):
    """The count of a lock is read before an await and written behind it."""

    async def unlock(self, node: Node) -> None:
        for each in [*self.tree.path(node)]:
            locks = each.locks
            await self.answer()
            each.locks = locks - 1
            if not each.locks:
                self.tree.protect(-len(each.slots))


class StaleSize(AsyncRadix):
    """The size is put back as it was before an await, less what was evicted."""

    async def evict(self, wanted: int) -> list[int]:
        async with self.walking:
            freed = self.tree.evict(wanted)
        evictable = self.tree.evictable
        await self.answer()
        self.tree.evictable = evictable
        return freed


class ReleasedThenLocked(AsyncRadix):
    """A lock moves by way of nowhere: between the old one and the new one nothing is held."""

    async def check_in(
        self, tokens: Sequence[int], slots: Sequence[int], old: Node, namespace: str | None
    ) -> tuple[int, list[int], Node]:
        async with self.walking:
            had, node = await self.walk(tokens, namespace)
            self.tree.adopt(node, tokens[len(had) :], slots[len(had) :], namespace)
            self.tree.unlock(old)
        found, new = await self.match_and_lock(tokens, namespace)
        return len(had), found, new


class UnlocksAStalePath(AsyncRadix):
    """What is above a node is noted before an await: a half that is split off meanwhile stays locked."""

    async def unlock(self, node: Node) -> None:
        path = [*self.tree.path(node)]
        await self.answer()
        for each in path:
            each.locks -= 1
            if not each.locks:
                self.tree.protect(-len(each.slots))


class LockedForNobody(AsyncRadix):
    """A prefix is locked before an await, and stays so where the call is cancelled there."""

    async def match_and_lock(self, tokens: Sequence[int], namespace: str | None) -> Found:
        found = await super().match_and_lock(tokens, namespace)
        await self.answer()
        return found


class LostAtCancellation(AsyncRadix):
    """What an eviction has dropped is nobody's, where it is cancelled before it says so."""

    async def evict(self, wanted: int) -> list[int]:
        freed = await super().evict(wanted)
        await self.answer()
        return freed


class WakesNobody(AsyncRadix):
    """Who waits for the tree notes it behind an await: he is not heard who was done by then."""

    def __init__(self, page_tokens: int) -> None:
        super().__init__(page_tokens)
        self.is_busy, self.is_free = False, asyncio.Event()

    async def match_and_lock(self, tokens: Sequence[int], namespace: str | None) -> Found:
        while self.is_busy:
            await self.answer()
            self.is_free.clear()
            await self.is_free.wait()
        self.is_busy = True
        try:
            return await super().match_and_lock(tokens, namespace)
        finally:
            self.is_busy = False
            self.is_free.set()


class KeptAtCancellation(AsyncRadix):
    """Who is cancelled while he walks leaves the tree to nobody."""

    async def match_and_lock(self, tokens: Sequence[int], namespace: str | None) -> Found:
        await self.walking.acquire()
        slots, node = await self.walk(tokens, namespace)
        self.tree.lock(node)
        self.walking.release()
        return slots, node


FAULTS: dict[type[AsyncRadix], set[str]] = {
    FoundThenLocked: {"R4", "R6"},
    AdoptsByAStaleWalk: {"R5"},
    SplitUnderAMatch: {"R4", "P6", "L2"},
    ChosenThenEvicted: {"R4", "R6"},
    EvictedTwice: {"R2"},
    StaleCount: {"R3"},
    StaleSize: {"R3"},
    ReleasedThenLocked: {"R2", "R4"},
    UnlocksAStalePath: {"R3"},
    LockedForNobody: {"R3"},
    LostAtCancellation: {"R2", "R5"},
    WakesNobody: {"L1"},
    KeptAtCancellation: {"L1"},
}
"""The rules that name each of them."""
