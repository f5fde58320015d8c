"""Requests over a radix tree and its allocator, with real payload: the manager that machine R is held against.

A request matches its tokens, locks what it finds, computes the rest in pages of its own, and checks in what is full:
the tree adopts it or has it already, and the lock moves. The tree owns the first ``held`` pages of a table, the request
the others (R2).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from ..errors import RefusedError
from ..events import Event
from ..payload import Payload
from ..pool.blocks import blocks_for, full_blocks, lookup_limit
from ..pool.keys import NO_EXTRAS, ExtraKeys, block_key
from .radix import Node, PageKey, RadixTree

__all__ = ["RadixCache", "Served"]


@dataclass(eq=False, slots=True)
class Served:
    """A request that is served."""

    keys: list[PageKey]
    """Of its full pages."""
    limit: int
    """How many of them a match may return."""
    need: int
    """How many pages its tokens take."""
    node: Node
    """Where its lock stands."""
    held: int = 0
    """How many pages, from the first on, are the tree's."""
    table: list[int] = field(default_factory=list)


class RadixCache:
    """A prefix cache over a number of pages."""

    tree_kind: type[RadixTree] = RadixTree

    def __init__(self, num_pages: int, page_tokens: int, *, payload: Payload | None = None) -> None:
        """Nothing is cached.

        Args:
            num_pages: pages of KV memory.
            page_tokens: tokens per page.
            payload: what stands in them, if anything.
        """
        self.num_pages, self.page_tokens, self.payload = num_pages, page_tokens, payload
        self.free = deque(range(num_pages))
        self.tree = self.tree_kind()
        self.requests: dict[Hashable, Served] = {}

    # ------------------------------------------------------------------------------------------------ requests

    def admit(
        self, request: Hashable, tokens: Sequence[int], *, prompt_tokens: int, extras: ExtraKeys = NO_EXTRAS
    ) -> bool:
        """A request comes, of so many tokens in all, if it could be served alone.

        Raises:
            RefusedError: it is here already.
        """
        if request in self.requests:
            raise RefusedError("the request is here already")
        need = blocks_for(len(tokens), self.page_tokens)
        if need > self.num_pages:
            return False
        keys: list[PageKey] = []
        for at in range(full_blocks(len(tokens), self.page_tokens)):
            page = tokens[at * self.page_tokens : (at + 1) * self.page_tokens]
            keys.append(block_key(keys[-1] if keys else None, page, extras))
        limit = lookup_limit(prompt_tokens, self.page_tokens)
        self.requests[request] = Served(keys, limit, need, self.tree.root)
        return True

    def look(self, request: Hashable) -> int:
        """Return how many pages of a request that waits are cached; they count as used, and stay unlocked."""
        served = self._waiting(request)
        _, pages = self.tree.match(served.keys[: served.limit])
        return len(pages)

    def hit(self, request: Hashable) -> int:
        """Let a request begin with what is cached of its prompt, and return how many pages that is."""
        served = self._waiting(request)
        served.node, served.table = self.tree.walk(served.keys[: served.limit])
        served.held = len(served.table)
        self.tree.lock(served.node)
        return served.held

    def allocate(self, request: Hashable, pages: int) -> list[int] | None:
        """Take pages for what a request computes next; None, and nothing, where fewer are free: evict first."""
        served = self._served(request)
        if not 1 <= pages <= served.need - len(served.table):
            raise RefusedError("the request needs fewer pages, and not none")
        if pages > len(self.free):
            return None
        taken = [self.free.popleft() for _ in range(pages)]
        served.table += taken
        return taken

    def write(self, request: Hashable, position: int, slot: int, digest: int) -> None:
        """A step computes the KV of one token, in a page that is the request's own."""
        served = self._served(request)
        if not served.held <= position < len(served.table):
            raise RefusedError("the page is not the request's own")
        if self.payload is not None:
            self.payload.write(served.table[position], slot, digest)

    def check_in(self, request: Hashable, pages: int) -> int:
        """The first pages of a request are computed: they become the tree's, and the lock moves to them (R5, R7).

        Returns how many the tree had. What the request has of its own in their place is freed.
        """
        served = self._served(request)
        if not served.held <= pages <= min(len(served.table), len(served.keys)):
            raise RefusedError("so many full pages are not there, or fewer than are checked in")
        node, had = self.tree.insert(served.keys[:pages], served.table[:pages])
        self._free_duplicates(served, len(had))
        served.table[: len(had)] = had
        self._move_lock(served, node)
        served.held = pages
        return len(had)

    def finish(self, request: Hashable) -> None:
        """A request that has all its pages checks in those that are full, and leaves.

        Raises:
            RefusedError: it has not.
        """
        served = self._served(request)
        if len(served.table) < served.need:
            raise RefusedError("the request has not all its pages")
        self.check_in(request, len(served.keys))
        self.leave(request)

    def leave(self, request: Hashable) -> None:
        """A request goes, at any moment: its lock is released, and its own pages are freed, the last one first."""
        served = self._served(request)
        del self.requests[request]
        self.tree.unlock(served.node)
        self.free.extend(reversed(served.table[served.held :]))

    def evict(self, pages: int) -> int:
        """Make room, and return how many pages came free."""
        if pages < 1:
            raise RefusedError("an eviction is for at least one page")
        freed = self.tree.evict(pages)
        self.free.extend(freed)
        return len(freed)

    def take_events(self) -> list[Event]:
        """Return what was reported since the last call."""
        return self.tree.take_events()

    # ------------------------------------------------------------------------------------------------ the rest

    def _free_duplicates(self, served: Served, had: int) -> None:
        """What the request has computed, and the tree had."""
        self.free.extend(served.table[served.held : had])

    def _move_lock(self, served: Served, node: Node) -> None:
        """The new lock first: between the two nothing must be evictable."""
        self.tree.lock(node)
        self.tree.unlock(served.node)
        served.node = node

    def _served(self, request: Hashable) -> Served:
        if request not in self.requests:
            raise RefusedError("the request is not here")
        return self.requests[request]

    def _waiting(self, request: Hashable) -> Served:
        served = self._served(request)
        if served.table:
            raise RefusedError("the request has begun")
        return served
