"""The example tree (docs/examples/prefix-tree) with a fault each; and the reference implementation's tree, driven."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from kvproof.refimpl.events import BlockRemoved, BlockStored, Event
from kvproof.refimpl.pool.keys import ExtraKeys, block_key
from kvproof.refimpl.tree import radix as refimpl
from kvproof.testing import Edge, PrefixTree

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "prefix-tree"
sys.path.insert(0, str(EXAMPLE))

from radix import Node, Radix  # noqa: E402


class SplitLosesLocks(Radix):
    """The upper half of a split node begins without a lock."""

    def split(self, node: Node, at: int) -> Node:
        upper = super().split(node, at)
        upper.locks = 0
        return upper


class SplitMixesSlots(Radix):
    """The upper half gets the last slots: a match returns those of another prefix."""

    def split(self, node: Node, at: int) -> Node:
        slots = node.slots[::-1]
        upper = super().split(node, at)
        upper.slots, node.slots = slots[:at], slots[at:]
        return upper


class EvictsLocked(Radix):
    """Whoever is a leaf may go."""

    def leaves(self) -> list[Node]:
        return [node for node in self.nodes() if not node.children]


class EvictsInnerNodes(Radix):
    """Whoever is not locked may go, with all below."""

    def leaves(self) -> list[Node]:
        return [node for node in self.nodes() if not node.locks]


class EvictsTheYoungest(Radix):
    """What was used last goes first."""

    def oldest(self, leaves: Sequence[Node]) -> Node:
        return max(leaves, key=lambda node: node.used)


class ForgetsAShortVisit(Radix):
    """A match that ends within a node is no use of the part that it went through."""

    def match(self, tokens: Sequence[int], namespace: str | None = None) -> tuple[list[int], Node]:
        before = {id(node): node.used for node in self.nodes()}
        slots, node = super().match(tokens, namespace)
        if node.children and len(node.children) == 1:
            (below,) = node.children.values()
            if id(node) not in before and id(below) in before:
                node.used = below.used = before[id(below)]
        return slots, node


class EvictsTooMuch(Radix):
    """Eviction goes on when enough is free."""

    def evict(self, wanted: int) -> list[int]:
        return super().evict(wanted + 1)


class EvictsTooLittle(Radix):
    """A parent that has become a leaf is not seen."""

    def evict(self, wanted: int) -> list[int]:
        freed: list[int] = []
        for node in sorted(self.leaves(), key=lambda node: node.used):
            if len(freed) < wanted:
                freed += self.drop(node)
        return freed


class FreesTwice(Radix):
    """What is dropped is told once more at the next eviction."""

    last: Sequence[int] = ()

    def evict(self, wanted: int) -> list[int]:
        freed = super().evict(wanted)
        told, self.last = [*self.last, *freed], freed
        return told


class LosesSlots(Radix):
    """Of what is dropped the last slot is not told: nobody has it any more."""

    def drop(self, node: Node) -> list[int]:
        return super().drop(node)[: -self.page_tokens]


class ForgetsDuplicates(Radix):
    """An insert says that it had nothing, so nobody frees the duplicates."""

    def insert(self, tokens: Sequence[int], slots: Sequence[int], namespace: str | None = None) -> int:
        super().insert(tokens, slots, namespace)
        return 0


class AdoptsTwice(Radix):
    """What the tree has it takes again, from the slots of whoever inserts it."""

    def insert(self, tokens: Sequence[int], slots: Sequence[int], namespace: str | None = None) -> int:
        had, node = self.match(tokens, namespace)
        if len(had) == len(tokens) and node.tokens:
            node.slots = list(slots[len(had) - len(node.slots) :])
        self.adopt(node, tokens[len(had) :], slots[len(had) :], namespace)
        return len(had)


class MatchesWithinPages(Radix):
    """What agrees is not cut at the end of a page."""

    def common(self, edge: Sequence[int], tokens: Sequence[int]) -> int:
        pairs = zip(edge, tokens, strict=False)
        return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(edge), len(tokens)))


class MatchesWholeNodes(Radix):
    """A prefix that ends within a node is found to the node's end."""

    def common(self, edge: Sequence[int], tokens: Sequence[int]) -> int:
        return len(edge)


class NeverHits(Radix):
    """A match finds nothing, ever."""

    def match(self, tokens: Sequence[int], namespace: str | None = None) -> tuple[list[int], Node]:
        return [], self.root


class SharesNamespaces(Radix):
    """Namespaces share their tokens' KV."""

    def first(self, node: Node, tokens: Sequence[int], namespace: str | None) -> Any:
        return super().first(node, tokens, None)


class StaleSize(Radix):
    """What is adopted is counted, what is dropped is not."""

    def drop(self, node: Node) -> list[int]:
        self.evictable += len(node.slots)
        return super().drop(node)


class UnlocksOneNode(Radix):
    """A lock is released on its node, and stays on what is above."""

    def unlock(self, node: Node) -> None:
        if node.parent is not None:
            node.locks -= 1
            if not node.locks:
                self.protect(-len(node.slots))


FAULTS: dict[type[Radix], str] = {
    SplitLosesLocks: "R3",
    SplitMixesSlots: "R4",
    EvictsLocked: "R6",
    EvictsInnerNodes: "R6",
    EvictsTheYoungest: "R6 (order)",
    ForgetsAShortVisit: "R6 (order)",
    EvictsTooMuch: "R6",
    EvictsTooLittle: "R6",
    FreesTwice: "R2",
    LosesSlots: "R2",
    ForgetsDuplicates: "R5",
    AdoptsTwice: "R5",
    MatchesWithinPages: "R4",
    MatchesWholeNodes: "R4",
    NeverHits: "R4",
    SharesNamespaces: "P13",
    StaleSize: "R3",
    UnlocksOneNode: "R3",
}
"""The rule that names each of them."""


class RefImpl(PrefixTree):
    """The reference implementation's tree, which knows pages by their keys."""

    namespaces = True
    order = "lru"

    def __init__(self, slots: int, page_tokens: int) -> None:
        self.tree, self.page = refimpl.RadixTree(), page_tokens
        self.named: dict[bytes, tuple[str | None, Sequence[int]]] = {}

    def keys(self, tokens: Sequence[int], namespace: str | None) -> list[bytes]:
        keys: list[bytes] = []
        for at in range(0, len(tokens) - self.page + 1, self.page):
            page = tokens[at : at + self.page]
            keys.append(block_key(keys[-1] if keys else None, page, ExtraKeys(salt=namespace)))
            self.named[keys[-1]] = namespace, page
        return keys

    def slots(self, pages: Iterable[int]) -> list[int]:
        return [slot for page in pages for slot in range(page * self.page, (page + 1) * self.page)]

    def match(self, tokens: Sequence[int], namespace: str | None) -> tuple[list[int], refimpl.Node]:
        node, pages = self.tree.match(self.keys(tokens, namespace))
        return self.slots(pages), node

    def insert(self, tokens: Sequence[int], slots: Sequence[int], namespace: str | None) -> int:
        pages = [slot // self.page for slot in slots[:: self.page]]
        _, had = self.tree.insert(self.keys(tokens, namespace), pages)
        return len(had) * self.page

    def lock(self, node: refimpl.Node) -> None:
        self.tree.lock(node)

    def unlock(self, node: refimpl.Node) -> None:
        self.tree.unlock(node)

    def evict(self, tokens: int) -> list[int]:
        return self.slots(self.tree.evict(-(-tokens // self.page)))

    def evictable_size(self) -> int:
        return self.tree.evictable * self.page

    def protected_size(self) -> int:
        return self.tree.protected * self.page

    def children(self, node: refimpl.Node | None) -> Iterable[refimpl.Node]:
        return (node or self.tree.root).children.values()

    def edge(self, node: refimpl.Node) -> Edge:
        tokens = [token for key in node.keys for token in self.named[key][1]]
        return Edge(tokens, self.slots(node.pages), node.lock_ref, self.named[node.keys[0]][0])

    def take_events(self) -> Iterator[tuple[Any, ...]]:
        return map(self.told, self.tree.take_events())

    def told(self, event: Event) -> tuple[Any, ...]:
        if not isinstance(event, BlockStored | BlockRemoved):
            return ("cleared",)
        if isinstance(event, BlockRemoved):
            return "removed", event.key
        namespace, tokens = self.named[event.key]
        return ("stored", event.key, event.parent, tokens, *([] if event.parent else [namespace]))


class SilentRemoval(RefImpl):
    """Nobody is told of what is evicted."""

    def take_events(self) -> Iterator[tuple[Any, ...]]:
        return (event for event in super().take_events() if event[0] != "removed")


class ChildrenFirst(RefImpl):
    """Events come in the wrong order."""

    def take_events(self) -> Iterator[tuple[Any, ...]]:
        return iter([*super().take_events()][::-1])


class ChecksIn(RefImpl):
    """The tree checks in by itself."""

    def check_in(
        self, tokens: Sequence[int], slots: Sequence[int], node: refimpl.Node, namespace: str | None
    ) -> tuple[int, list[int], refimpl.Node]:
        had = self.insert(tokens, slots, namespace)
        there, new = self.match(tokens, namespace)
        self.lock(new)
        self.unlock(node)
        return had, there, new


class LeavesALock(ChecksIn):
    """The new lock comes, and the old one stays."""

    def check_in(
        self, tokens: Sequence[int], slots: Sequence[int], node: refimpl.Node, namespace: str | None
    ) -> tuple[int, list[int], refimpl.Node]:
        self.lock(node)
        return super().check_in(tokens, slots, node, namespace)
