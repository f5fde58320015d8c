"""The reference implementation's prefix tree as a target for machine R."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self

import torch

from ...checkers.target import NONE, UNKNOWN, Answer, Args, Fields
from ...refimpl.errors import RefusedError
from ...refimpl.events import BlockStored, Event
from ...refimpl.payload import Payload, next_digest, root_digest
from ...refimpl.pool.keys import block_key
from ...refimpl.tree.cache import RadixCache
from ...refimpl.tree.radix import Node
from ..forking import forked
from ..strays import Stray, TargetWithStrays
from .instances import TreeInstance

__all__ = ["TreeTarget"]


class TreeTarget(TargetWithStrays):
    """A `RadixCache` with real payload.

    What is seen of the tree is what a walk over its nodes finds: page by page, with the locks of their node; a prefix
    at which two nodes have a page, or one that no token sequence has, is nothing that the machine has a name for.
    """

    name = "refimpl"
    level = "tree"
    fields: ClassVar[tuple[str, ...]] = (
        "running",
        "length",
        "table",
        "held",
        "holds",
        "last",
        "free",
        "page",
        "cut",
        "lock",
        "order",
        "evictable",
        "protected",
        "content",
        "announced",
    )
    # What was computed is the caller's word.
    unjudged: ClassVar = {"check_in": frozenset({"content"})}
    lookups: ClassVar = frozenset({"look", "hit"})
    essential: ClassVar = frozenset({"admit", "allocate", "write", "check_in"})
    weights: ClassVar = {"hit": 3, "look": 2, "allocate": 3, "write": 8, "check_in": 6, "evict": 2}

    cache_kind: type[RadixCache] = RadixCache
    """The cache that is driven."""

    def __init__(self, setting: TreeInstance) -> None:
        """An empty cache."""
        super().__init__(setting)
        self.instance = setting
        self._sizes = setting.scope.sizes
        self._params = setting.scope.params
        self._name_prefixes(setting)
        payload = Payload(self._sizes["Page"], setting.page_tokens, layers=1, heads=1, head_dim=4)
        self._content_of = self._contents(payload)
        self.cache = self.cache_kind(self._sizes["Page"], setting.page_tokens, payload=payload)
        self._announced = [False] * self._sizes["Prefix"]

    def _name_prefixes(self, setting: TreeInstance) -> None:
        """Keys and digests of all prefixes, parents first."""
        above = self._params["above"]
        keys: dict[int, bytes] = {}
        self._digests: dict[int, list[int]] = {}
        for a in sorted(range(self._sizes["Prefix"]), key=self._params["depth"].__getitem__):
            extras = setting.namespace(self._root(a))
            parent = above[a]
            keys[a] = block_key(None if parent is None else keys[parent], setting.page(a), extras)
            digest, row = (root_digest(extras) if parent is None else self._digests[parent][-1]), []
            for token in setting.page(a):
                digest = next_digest(digest, token)
                row.append(digest)
            self._digests[a] = row
        self._prefix_of = {key: a for a, key in keys.items()}

    def _root(self, a: int) -> int:
        above = self._params["above"][a]
        return a if above is None else self._root(above)

    def _contents(self, payload: Payload) -> dict[bytes, tuple[int, int]]:
        """What bytes say: the prefix and the slot. What no prefix names is none: drafts, and what was never written."""
        named = [(digest, (a, s)) for a, row in self._digests.items() for s, digest in enumerate(row)]
        drafts = [(self._draft(r), (NONE, NONE)) for r in range(self._sizes["Request"])]
        rows = named + drafts
        vectors = payload.expected(torch.tensor([digest for digest, _ in rows], dtype=torch.int64))
        found = {v.tobytes(): of for v, (_, of) in zip(vectors.numpy(), rows, strict=True)}
        found[bytes(payload.data[:, :, 0, 0].nbytes)] = (NONE, NONE)
        return found

    @staticmethod
    def _draft(r: int) -> int:
        """The digest of what a request writes into a page that will not be full."""
        return next_digest(root_digest(), 1000 + r)

    # ------------------------------------------------------------------------------------------------ driving

    def apply(self, action: str, args: Args) -> Answer:
        """Make the call that the action is."""
        try:
            result, refused = getattr(self, f"_{action}")(*args), None
        except RefusedError as error:
            result, refused = None, str(error)
        return Answer(result, tuple([self._hear(event) for event in self.cache.take_events()]), refused)

    def _admit(self, r: int) -> None:
        prompt = self._params["limit"][r] * self.instance.page_tokens + 1
        if not self.cache.admit(r, self.instance.tokens(r), prompt_tokens=prompt, extras=self.instance.extras(r)):
            raise RefusedError("the request does not fit")

    def _look(self, r: int) -> int:
        return self.cache.look(r)

    def _hit(self, r: int) -> int:
        return self.cache.hit(r)

    def _allocate(self, r: int, n: int) -> object:
        pages = self.cache.allocate(r, n)
        if pages is None:
            raise RefusedError("too few pages are free")
        # The machine's action has no result; a wrong one here must differ from that.
        return None if pages == self.cache.requests[r].table[-n:] else f"{pages} were said to be taken"

    def _write(self, r: int, i: int, s: int) -> None:
        is_full = i < self._params["whole"][r]
        digest = self._digests[self._params["path"][r][i]][s] if is_full else self._draft(r)
        self.cache.write(r, i, s, digest)

    def _check_in(self, r: int, k: int) -> int:
        return self.cache.check_in(r, k)

    def _leave(self, r: int) -> None:
        """A request that has checked in all that is full has finished, if it has all its pages."""
        served = self.cache.requests.get(r)
        if served is not None and len(served.table) == served.need and served.held == len(served.keys):
            self.cache.finish(r)
        else:
            self.cache.leave(r)

    def _evict(self, n: int) -> int:
        return self.cache.evict(n)

    def _stray_calls(self) -> Iterator[Stray]:
        """Requests, pages and counts that there are not."""
        cache = self.cache
        for asked in (cache.look, cache.hit, cache.finish, cache.leave):
            yield asked, ("nobody",)
        yield cache.evict, (0,)
        yield cache.evict, (-1,)
        for r, served in list(cache.requests.items()):
            length = len(served.table)
            for pages in (-1, 0, served.need - length + 1):
                yield cache.allocate, (r, pages)
            for pages in (-1, served.held - 1, length + 1):
                yield cache.check_in, (r, pages)
            for position in (-1, length):
                yield cache.write, (r, position, 0, 0)

    def _hear(self, event: Event) -> tuple[Any, ...]:
        """An event in the machine's words; it also changes what the listener believes."""
        a = self._prefix_of.get(getattr(event, "key", b""), UNKNOWN)
        is_stored = isinstance(event, BlockStored)
        if a != UNKNOWN:
            self._announced[a] = is_stored
        if not isinstance(event, BlockStored):
            return ("removed", a)
        return ("stored", a, NONE if event.parent is None else self._prefix_of.get(event.parent, UNKNOWN))

    # ------------------------------------------------------------------------------------------------ observing

    def flat(self) -> Fields:
        """A walk over the tree's nodes, the tables of requests, and the bytes of the payload."""
        return {**self._seen_of_requests(), **self._seen_of_tree(), **self._seen_of_pages()}

    def _seen_of_requests(self) -> Fields:
        positions, served = self._sizes["Position"], self.cache.requests
        rows: list[tuple[list[int], int]] = []
        last: list[int] = []
        for r in range(self._sizes["Request"]):
            one = served.get(r)
            rows.append(([], 0) if one is None else (one.table, one.held))
            last.append(NONE if one is None else self._end(one.node))
        return {
            "running": [r in served for r in range(self._sizes["Request"])],
            "length": [len(table) for table, _ in rows],
            "held": [held for _, held in rows],
            "table": [table[i] if i < len(table) else NONE for table, _ in rows for i in range(positions)],
            "holds": [i < held for _, held in rows for i in range(positions)],
            "last": last,
        }

    def _end(self, node: Node) -> int:
        """The prefix with which a node ends."""
        return self._prefix_of.get(node.keys[-1], UNKNOWN) if node.keys else NONE

    def _seen_of_tree(self) -> Fields:
        tree, size = self.cache.tree, self._sizes["Prefix"]
        page, cut, lock = [NONE] * size, [False] * size, [0] * size
        for node in tree.nodes():
            for key, at in zip(node.keys, node.pages, strict=True):
                a = self._prefix_of.get(key, UNKNOWN)
                page[a] = at if page[a] == NONE else UNKNOWN
                lock[a] = node.lock_ref
            cut[self._end(node)] = True
        ranked = [self._prefix_of.get(key, UNKNOWN) for node in reversed(tree.order()) for key in node.keys]
        return {
            "page": page,
            "cut": cut,
            "lock": lock,
            "order": ranked,
            "evictable": [tree.evictable],
            "protected": [tree.protected],
            "announced": self._announced[:],
        }

    def _seen_of_pages(self) -> Fields:
        payload = self.cache.payload
        assert payload is not None
        content: list[int] = []
        for p in range(self._sizes["Page"]):
            for s in range(self._sizes["Slot"]):
                a, at = self._content_of.get(payload.data[:, :, p, s].numpy().tobytes(), (UNKNOWN, s))
                content.append(a if at in (s, NONE) else UNKNOWN)
        return {"free": list(self.cache.free), "content": content}

    # ------------------------------------------------------------------------------------------------ the rest

    def fork(self) -> Self:
        """A second run in the same state."""
        other = copy.copy(self)
        other.cache = forked(self.cache)
        other._announced = self._announced[:]
        return other

    def spell(self, action: str, args: Args) -> str:
        """The call on the cache."""
        spelled: Mapping[str, str] = {"admit": f"tokens={self.instance.tokens(args[0])}" if action == "admit" else ""}
        return f"cache.{action}({', '.join([*map(str, args), *filter(None, [spelled.get(action)])])})"
