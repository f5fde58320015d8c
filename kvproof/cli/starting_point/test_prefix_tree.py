"""The prefix tree of this project, held to the rules of KV caching by kvproof.

``python -m pytest tests/test_prefix_tree.py`` plays the scheduler and the allocator around it: one test for each rule.
Fill in what raises below, by calls of your tree; leave out `lock`, `unlock` or `evict` where it has nothing like that.

Then let it tell more, each method unlocks rules: `evictable_size`, `protected_size`, `children` with `edge`,
`take_events`, `reset`. What your tree does in one call it may be asked for in one: `match_and_lock`, and `check_in`,
which inserts and moves the lock. ``help(kvproof.testing.PrefixTree)`` says what each returns.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from kvproof.testing import PrefixTree, Refused


class TestPrefixTree(PrefixTree):
    """How kvproof drives it: slots are numbered from 0, and each method may be ``async def``."""

    def __init__(self, slots: int, page_tokens: int) -> None:
        """Make a fresh tree for so many slots, in pages of so many tokens."""
        raise Refused("fill in TestPrefixTree.__init__: make your tree there, and keep it in self")

    def match(self, tokens: Sequence[int], namespace: str | None) -> tuple[Sequence[int], Any]:
        """Return the slots of the longest cached prefix, in whole pages, and the node that `lock` takes."""
        raise NotImplementedError("fill in TestPrefixTree.match: which slots hold a prefix of the tokens?")

    def insert(self, tokens: Sequence[int], slots: Sequence[int], namespace: str | None) -> int:
        """Adopt what is not there yet, and return how many of the tokens were: the kit frees their slots."""
        raise NotImplementedError("fill in TestPrefixTree.insert: how many of the tokens were there before?")

    def lock(self, node: Any) -> None:
        """Keep what a match found, and all above it: nothing of it may be evicted."""
        raise NotImplementedError("fill in TestPrefixTree.lock: hold the node")

    def unlock(self, node: Any) -> None:
        """Release one such lock; the node may have been split since."""
        raise NotImplementedError("fill in TestPrefixTree.unlock: let go of the node")

    def evict(self, tokens: int) -> Iterable[int]:
        """Drop leaves that nobody locks until so many slots, or all that can be, are free; return those."""
        raise NotImplementedError("fill in TestPrefixTree.evict: which slots are free now?")
