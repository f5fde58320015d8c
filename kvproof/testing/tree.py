"""What a user writes around a prefix tree: `PrefixTree`, and the `Edge` by which it tells of its nodes.

It is imported by test modules and by the pytest plugin, so it imports nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from .manager import Told

__all__ = ["Edge", "PrefixTree"]


@dataclass
class Edge:
    """What a node of the tree holds: the run of tokens that leads to it from its parent."""

    tokens: Sequence[int]
    """The tokens of the run."""
    slots: Sequence[int]
    """Where the KV of each of them stands."""
    lock_ref: int | None = None
    """How many locks the node has; None where it does not count them."""
    namespace: str | None = None
    """Of a child of the root: the namespace that it belongs to, where there are several."""


class PrefixTree:
    """Your prefix tree (radix cache), as kvproof drives it: subclass it, and call your tree in the methods below.

    One object is made for each run, by ``YourClass(slots, page_tokens)``. The kit plays the scheduler and the
    allocator: a request is matched, locks what it found, gets slots for the rest, evicting for want of room, and checks
    in what it computed: that is inserted, duplicates are freed, the lock moves. It grows, is retracted, aborted,
    finishes. The kit keeps ghost content and books of what must be where, and judges each step by named rules, R1 to R8
    (docs/rules.md). Needed are `__init__`, `match` and `insert`; whatever else you override unlocks more rules.

    *Slots* are numbered from 0; each holds the KV of one token. The pages that the kit hands out are ``page_tokens``
    slots in a row, and only whole pages are inserted. What the tree has it keeps until it evicts it.

    In a test module the subclass is collected by pytest, one test for each rule (docs/testing.md). Each method may be
    ``async def``; where one that acts is, calls of several requests overlap (`overlaps`). An ``__init__`` that cannot
    make one like that raises `Refused`; any other exception, on these legal calls, is a finding (L2).
    """

    page_sizes: ClassVar[tuple[int, ...]] = (1, 2, 3)
    """Tokens per page that make sense for it; small ones find more."""

    namespaces: ClassVar[bool] = False
    """Whether it parts namespaces (adapters, salts). Unlocks requests that have one (P13)."""

    order: ClassVar[str | None] = None
    """``lru``: what was used last is evicted last, and it is held to that (R6). None promises no order."""

    overlaps: ClassVar[bool] = True
    """Whether its calls may be made while others are under way, where one that acts is ``async def``. Then they are, at
    each ``await`` in an order that the case draws. False for a tree that is to be called by one task alone."""

    cancelled: ClassVar[str | None] = "undone"
    """What a call promises that is cancelled while it is overlapped; all are but `unlock`. ``undone``: where it ends
    with `asyncio.CancelledError`, nothing is inserted, locked or evicted by it. None: none is cancelled. Whichever it
    is, one that answers nevertheless has done all."""

    isolated: ClassVar[bool] = False
    """True for native code, which may crash: each case runs in a copy of the process (a fork), and a crash is a finding
    with its operations. It costs some milliseconds a case."""

    def __init__(self, slots: int, page_tokens: int) -> None:
        """Make a fresh tree, for so many slots, in pages of so many tokens."""

    # ------------------------------------------------------------------------------------------- what it is asked to do

    def match(self, tokens: Sequence[int], namespace: str | None) -> Told[tuple[Sequence[int], Any]]:
        """Return the slots of the longest cached prefix of these tokens, in whole pages, and what `lock` takes.

        The kit leaves out a request's last token, which is computed in any case. Unlocks R4 and P6.
        """
        raise NotImplementedError

    def insert(self, tokens: Sequence[int], slots: Sequence[int], namespace: str | None) -> Told[int]:
        """Adopt what is not there yet, and return how many of the tokens, from the first on, were there before.

        The tokens are whole pages. Those slots are the caller's to free, where they are others than the tree's; the
        rest is the tree's now. Unlocks R5.
        """
        raise NotImplementedError

    def lock(self, node: Any) -> Told[None]:
        """Keep what a match found, and all above it: nothing of it may be evicted. Comes with `unlock`. Unlocks R3."""
        raise NotImplementedError

    def unlock(self, node: Any) -> Told[None]:
        """Release one such lock; the node may have been split since."""
        raise NotImplementedError

    def match_and_lock(self, tokens: Sequence[int], namespace: str | None) -> Told[tuple[Sequence[int], Any]]:
        """Do what `match` and `lock` do, in one call of the tree's own: return what the first does.

        Left out, the kit asks for one after the other. It comes with both, and matters to a tree whose calls overlap:
        between the two calls of the kit's nothing is evicted or unlocked, within this one it may be.
        """
        raise NotImplementedError

    def check_in(
        self, tokens: Sequence[int], slots: Sequence[int], node: Any, namespace: str | None
    ) -> Told[tuple[int, Sequence[int], Any]]:
        """Insert, and move the request's lock from this node to the new one, in one call of the tree's own.

        Returns what `insert` does, and what `match` returns then. Left out, the kit asks for one after the other: an
        insert, a match, a lock and the release of the old one. Unlocks R7 of the tree's own doing.
        """
        raise NotImplementedError

    def evict(self, tokens: int) -> Told[Iterable[int]]:
        """Drop leaves that nobody locks until so many slots are free or no such leaf is left; return those slots.

        It may be asked for more than can be evicted: a tree that takes no such order is asked for what there is.
        Unlocks R6 and R2. Left out, the kit never runs out of slots; without `lock`, it asks only while nobody runs.
        """
        raise NotImplementedError

    def reset(self) -> Told[None]:
        """Forget everything. It is asked only while nobody runs."""
        raise NotImplementedError

    # ------------------------------------------------------------------------------------------------ what it can tell

    def evictable_size(self) -> Told[int]:
        """Return how many slots of the tree nobody locks. Unlocks the sizes of R3, and R7: nothing stays locked."""
        raise NotImplementedError

    def protected_size(self) -> Told[int]:
        """Return how many slots of the tree are locked. Unlocks the same."""
        raise NotImplementedError

    def children(self, node: Any) -> Told[Iterable[Any]]:
        """Return the children of a node; ``None`` asks for those of the root. Comes with `edge`.

        Unlocks R1, R2 and R5 of the whole tree: what is where, after each step.
        """
        raise NotImplementedError

    def edge(self, node: Any) -> Told[Edge]:
        """Return what a node holds. One that tells its ``lock_ref`` unlocks R3 of each node, and R7."""
        raise NotImplementedError

    def take_events(self) -> Told[Iterable[tuple[Any, ...]]]:
        """Return the KV events since the last call, oldest first, one for each page. Unlocks R8.

        ``("stored", key, parent key or None, tokens of the page)``, for a first page also its namespace;
        ``("removed", key)``; ``("cleared",)``. Keys are the tree's own.
        """
        raise NotImplementedError
