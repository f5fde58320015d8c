"""A host tier below a tree of pages: what comes there by copies that end late, and what is loaded from there.

What is stored is the host's from the end of its copy on; until then its pages are the copy's, and those of the device
are locked. What is loaded is locked on the host, and on the device it is its request's until its copy has ended.
"""

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from radix_tier import Tier, end_of

from kvproof.refimpl.tree.radix import Node

__all__ = ["Host", "Load"]

_WORTH = 2
"""Selective, what was computed or found so often is stored."""

_FAILS = 5
"""One of so many copies fails."""


@dataclass(eq=False)
class _Store:
    """A copy to the host under way."""

    number: int
    keys: Sequence[bytes]
    """Of the whole prefix."""
    first: int
    """So many of them were there, or came, when it began."""
    pages: list[int]
    """Of the host, for the next ones."""
    pairs: list[list]
    node: Node | None
    """Where its lock on the device stands."""


@dataclass(eq=False)
class Load:
    """A copy from the host under way."""

    number: int
    pairs: list[list]
    node: Node
    """Where its lock on the host stands."""
    over: Callable[[bool], None]
    """Is told whether it has come."""


class Host:
    """The host tier below ``device``; ``policy`` says when it is written, ``newest_first`` which copies end first."""

    def __init__(
        self, device: Tier, pages: int, policy: str, newest_first: bool, tell: Callable, hear: Callable, fault: str
    ) -> None:
        self.device, self.tier, self.policy, self.fault = device, Tier("host", range(pages), hear), policy, fault
        self.tier.fault = fault
        self.stores: deque[_Store] = deque()
        self.loads: deque[Load] = deque()
        self._newest_first = newest_first
        self._tell, self._begun = tell, 0
        self._coming: set[bytes] = set()
        self._seen: Counter[bytes] = Counter()
        self.filed: Callable[[Sequence[bytes]], None] | None = None
        """Who hears that a prefix has come."""
        if policy == "write_back":
            device.tree.dropping = self._dropping

    # To the host

    def offer(self, keys: Sequence[bytes], pages: Sequence[int], node: Node) -> None:
        """The first pages of a request have become the device's tree's."""
        if self.policy == "write_back":
            return
        if self.policy == "write_through_selective":
            self._seen.update(keys)
            worth = next((n for n, key in enumerate(keys) if self._seen[key] < _WORTH), len(keys))
            keys = keys[:worth]
        self._store(keys, pages, node)

    def _dropping(self, leaf: Node) -> None:
        """What the device gives up is stored before, with all that stands before it."""
        path = [*leaf.path()][::-1]
        keys, pages = [key for node in path for key in node.keys], [page for node in path for page in node.pages]
        self._store(keys, pages, None)
        self.finish(len(self.stores), 0)

    def _store(self, keys: Sequence[bytes], pages: Sequence[int], node: Node | None) -> None:
        tier = self.tier
        above, had = tier.tree.walk(keys)
        first = next((n for n in range(len(had), len(keys)) if keys[n] not in self._coming), len(keys))
        # Behind what failed something may come still: that is not stored twice.
        keys = keys[: next((n for n in range(first, len(keys)) if keys[n] in self._coming), len(keys))]
        tier.tree.lock(above)  # What stands before it stays.
        tier.room(len(keys) - first)
        tier.tree.unlock(above)
        count = min(len(keys) - first, len(tier.free))
        if not count:
            return
        if node is not None and self.fault != "evicts under a store":
            self.device.tree.lock(node)
        else:
            node = None
        taken = tier.take(count)
        blocks = pages[first : first + count]
        pairs = [["device", a, "host", b] for a, b in zip(blocks, taken, strict=True)]
        store = _Store(self._number(), keys[: first + count], first, taken, pairs, node)
        self._coming.update(store.keys[first:])
        self.stores.append(store)
        self._tell("copy", store.number, "begin", pairs)
        if self.fault == "filed before it comes":
            self._file(store)

    def _stored(self, store: _Store) -> None:
        came = self._ends(store)
        self._coming.difference_update(store.keys[store.first :])
        if store.node is not None:
            self.device.tree.unlock(store.node)
        if store.pages and came:
            self._file(store)
        self.tier.free.extend(store.pages)
        store.pages = []

    def _file(self, store: _Store) -> None:
        """What came becomes the tree's, unless what stood before it has gone."""
        _, had = self.tier.tree.match(store.keys)
        if len(had) < store.first:
            return
        self.tier.adopt(store.keys, had[: store.first] + store.pages, store.first)
        store.pages = []
        if self.filed is not None:
            self.filed(store.keys)

    # From the host

    def reach(self, keys: Sequence[bytes]) -> int:
        """How many pages the host has of a prefix."""
        return len(self.tier.tree.match(keys)[1])

    def lock(self, keys: Sequence[bytes]) -> Node:
        """Keep a prefix."""
        node, _ = self.tier.tree.walk(keys)
        self.tier.tree.lock(node)
        return node

    def unlock(self, node: Node) -> None:
        """Keep it no longer."""
        self.tier.tree.unlock(node)

    def load(self, keys: Sequence[bytes], first: int, pages: Sequence[int], over: Callable[[bool], None]) -> Load:
        """Copy what stands behind the first pages of a prefix to these pages of the device."""
        node, blocks = self.tier.tree.walk(keys)
        self.tier.tree.lock(node)
        pairs = [["host", a, "device", b] for a, b in zip(blocks[first:], pages, strict=True)]
        load = Load(self._number(), pairs, node, over)
        self.loads.append(load)
        self._tell("copy", load.number, "begin", pairs)
        return load

    def _loaded(self, load: Load) -> None:
        came = self._ends(load)
        if self.fault != "keeps what is loaded":
            self.tier.tree.unlock(load.node)
        load.over(came)

    # Both

    def finish(self, stores: int, loads: int) -> int:
        """So many copies of each direction end; return how many did."""
        done = [self._next(self.stores) for _ in range(min(stores, len(self.stores)))]
        for store in done:
            self._stored(store)
        came = [self._next(self.loads) for _ in range(min(loads, len(self.loads)))]
        for load in came:
            self._loaded(load)
        return len(done) + len(came)

    def _next(self, under_way: deque):
        return under_way.pop() if self._newest_first else under_way.popleft()

    def _ends(self, copy: _Store | Load) -> bool:
        """A copy ends; return whether it has brought anything."""
        came = copy.number % _FAILS > 0 or self.fault == "takes what failed"
        self._tell("copy", copy.number, "end" if copy.number % _FAILS else "fail", copy.pairs)
        return came

    def locks(self) -> dict[str, bytes | None]:
        """What locks the device's tree: a name, and the key at which the lock stands."""
        return {f"store {x.number}": end_of(x.node) for x in self.stores if x.node is not None}

    def anchors(self) -> dict[str, bytes | None]:
        """What locks the host's."""
        return {f"load {x.number}": end_of(x.node) for x in self.loads}

    def held(self) -> list[int]:
        """The pages of the host that are copies' own."""
        return [page for store in self.stores for page in store.pages]

    def _number(self) -> int:
        self._begun += 1
        return self._begun
