"""The radix tree of the reference implementation with one thing wrong each, and the field in which it is noticed."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from kvproof.harness.tree.target import TreeTarget
from kvproof.refimpl.events import BlockRemoved, Event
from kvproof.refimpl.pool.keys import NO_EXTRAS, ExtraKeys
from kvproof.refimpl.tree.cache import RadixCache, Served
from kvproof.refimpl.tree.radix import Node, PageKey, RadixTree

__all__ = ["MUTANTS", "Mutant"]


class Mutant(NamedTuple):
    """A broken target, and how it must be noticed."""

    kind: type[TreeTarget]
    oracle: str


# ------------------------------------------------------------------------------------------------ the tree


class SplitForgetsLocks(RadixTree):
    """The upper half of a split node begins without a lock."""

    def _split(self, node: Node, at: int) -> Node:
        upper = super()._split(node, at)
        if upper.lock_ref:
            upper.lock_ref = 0
            self._order[upper] = None
        return upper


class SplitMixesPages(RadixTree):
    """The upper half gets the last pages."""

    def _split(self, node: Node, at: int) -> Node:
        pages = node.pages[::-1]
        upper = super()._split(node, at)
        upper.pages, node.pages = pages[:at], pages[at:]
        return upper


class MatchStopsAtSplits(RadixTree):
    """A prefix that ends within a node is not found."""

    def walk(self, keys: Sequence[PageKey]) -> tuple[Node, list[int]]:
        node, found = self.root, list[int]()
        while len(found) < len(keys):
            child = node.children.get(keys[len(found)])
            if child is None or self._common(child.keys, keys[len(found) :]) < len(child.keys):
                break
            found += child.pages
            node = child
        return node, found


class SizesStayWithLocks(RadixTree):
    """A lock moves no counter."""

    def _protect(self, pages: int) -> None:
        pass


class LocksOneNode(RadixTree):
    """A lock is one on the node, not on what is above."""

    def lock(self, node: Node) -> None:
        if node.parent is not None:
            if not node.lock_ref:
                self._order.pop(node, None)
                self._protect(len(node.pages))
            node.lock_ref += 1


class LookDoesNotUse(RadixTree):
    """What is looked at stays as old as it was."""

    def _use(self, node: Node) -> None:
        pass


class EvictsTheYoungest(RadixTree):
    """What was used last goes first."""

    def evict(self, wanted: int) -> list[int]:
        freed: list[int] = []
        while len(freed) < wanted and self._order:
            leaves = [node for node in self._order if not node.children]
            freed += self._drop(leaves[-1])
        return freed


class EvictsOneNodeTooMany(RadixTree):
    """Eviction goes on when enough is free."""

    def evict(self, wanted: int) -> list[int]:
        return super().evict(wanted + 1)


class RemovesSilently(RadixTree):
    """Nobody is told of what is evicted."""

    def take_events(self) -> list[Event]:
        return [event for event in super().take_events() if not isinstance(event, BlockRemoved)]


# ------------------------------------------------------------------------------------------------ the cache


class KeepsDuplicates(RadixCache):
    """What the tree had already is not freed: pages leak."""

    def _free_duplicates(self, served: Served, had: int) -> None:
        pass


class FreesFromTheStart(RadixCache):
    """Of what the tree had, that which the request held is freed as well: pages of the tree."""

    def _free_duplicates(self, served: Served, had: int) -> None:
        self.free.extend(served.table[:had])


class LockStaysBehind(RadixCache):
    """The lock of a request that goes on is not moved."""

    def _move_lock(self, served: Served, node: Node) -> None:
        pass


class LocksTwice(RadixCache):
    """The new lock comes, the old one stays."""

    def _move_lock(self, served: Served, node: Node) -> None:
        self.tree.lock(node)
        served.node = node


class ReadsDuplicates(RadixCache):
    """Duplicates are freed, and the table goes on naming them."""

    def check_in(self, request: Hashable, pages: int) -> int:
        served = self._served(request)
        before = list(served.table)
        had = super().check_in(request, pages)
        served.table = before
        return had


class SharesAcrossNamespaces(RadixCache):
    """The namespace is no part of a key."""

    def admit(
        self,
        request: Hashable,
        tokens: Sequence[int],
        *,
        prompt_tokens: int,
        extras: ExtraKeys = NO_EXTRAS,
    ) -> bool:
        return super().admit(request, tokens, prompt_tokens=prompt_tokens)


class LeavesItsLock(RadixCache):
    """Who leaves frees its pages and forgets its lock."""

    def leave(self, request: Hashable) -> None:
        self._served(request).node = self.tree.root
        super().leave(request)


_NOTICED = {
    SplitForgetsLocks: "lock",
    SplitMixesPages: "page",
    MatchStopsAtSplits: "result",
    SizesStayWithLocks: "evictable",
    LocksOneNode: "lock",
    LookDoesNotUse: "order",
    EvictsTheYoungest: "events",
    EvictsOneNodeTooMany: "result",
    RemovesSilently: "events",
    KeepsDuplicates: "free",
    FreesFromTheStart: "free",
    LockStaysBehind: "last",
    LocksTwice: "lock",
    ReadsDuplicates: "table",
    SharesAcrossNamespaces: "events",
    LeavesItsLock: "lock",
}


def _driven(broken: type[RadixCache] | type[RadixTree]) -> type[TreeTarget]:
    """The target that drives a broken tree, or a broken cache."""
    if issubclass(broken, RadixTree):
        broken = type(broken.__name__, (RadixCache,), {"tree_kind": broken})
    return type(broken.__name__, (TreeTarget,), {"cache_kind": broken})


MUTANTS: dict[str, Mutant] = {kind.__name__: Mutant(_driven(kind), oracle) for kind, oracle in _NOTICED.items()}
