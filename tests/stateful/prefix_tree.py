"""A prefix tree in the manner of SGLang's: pages in a tree, locks from a node to the root, leaves evicted by age.

It has no free queue that cached blocks stand in, no hash keys and no reference counts of blocks: a manager that is
built otherwise than the pool of the example.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import ClassVar

from kvproof.testing import BlockManager, Request


class Node:
    def __init__(self, parent: Node | None, page: tuple[int, ...], block: int) -> None:
        self.parent, self.page, self.block = parent, page, block
        self.children: dict[tuple[int, ...], Node] = {}
        self.locks = self.used = 0


class Tree:
    def __init__(self, blocks: int, page: int) -> None:
        self.page, self.free = page, [*range(blocks)]
        self.root = Node(None, (), -1)
        self.clock = itertools.count(1)

    def match(self, tokens: list[int]) -> list[Node]:
        node, found = self.root, []
        for at in range(0, (len(tokens) - 1) // self.page * self.page, self.page):
            child = node.children.get(tuple(tokens[at : at + self.page]))
            if child is None:
                break
            node = child
            found.append(node)
        return found

    def lock(self, nodes: list[Node], by: int) -> None:
        for node in nodes:
            node.locks += by
            node.used = next(self.clock)

    def take(self, count: int) -> list[int] | None:
        while len(self.free) < count:
            leaves = [n for n in self.nodes() if not n.children and n.locks < 1]
            if not leaves:
                return None
            self.evict(min(leaves, key=lambda node: node.used))
        taken, self.free = self.free[:count], self.free[count:]
        return taken

    def evict(self, node: Node) -> None:
        assert node.parent is not None
        del node.parent.children[node.page]
        self.free.append(node.block)

    def nodes(self) -> Iterator[Node]:
        waiting = [*self.root.children.values()]
        while waiting:
            node = waiting.pop()
            waiting += node.children.values()
            yield node


class PrefixTree(BlockManager):
    """Blocks of the tree and of requests; a request inserts what it computed, or keeps a block for itself.

    Behind one that it keeps it inserts nothing, though nobody else has computed that: it does not promise to keep all.
    """

    dialect: ClassVar = {}

    def __init__(self, blocks: int, block_tokens: int) -> None:
        self.tree, self.size = Tree(blocks, block_tokens), block_tokens
        self.blocks = blocks

    def lookup(self, request: Request) -> list[int]:
        return [node.block for node in self.tree.match(request.tokens)]

    def allocate(self, request: Request, tokens: int) -> list[int] | None:
        held = request.own or []
        if not request.table:
            held = self.tree.match(request.tokens)[: len(request.found)]
            self.hold(held)
        table = request.table or request.found
        missing = -(-tokens // self.size) - len(table)
        if missing > len(self.tree.free) + self.evictable():
            if not request.table:
                self.tree.lock(held, -1)
            return None
        taken = self.tree.take(missing)
        assert taken is not None
        request.own = held
        return [*table, *taken]

    def hold(self, nodes: list[Node]) -> None:
        """Let nothing that was found go."""
        self.tree.lock(nodes, +1)

    def evictable(self) -> int:
        return sum(node.locks < 1 for node in self.tree.nodes())

    def commit(self, request: Request, tokens: int) -> None:
        held: list[Node] = request.own
        node = held[-1] if held else self.tree.root
        for at in range(len(held), tokens // self.size):
            page = tuple(request.tokens[at * self.size : (at + 1) * self.size])
            if page in node.children:
                return  # Another request was first: this one keeps its block for itself.
            node.children[page] = Node(node, page, request.table[at])
            node = node.children[page]
            self.tree.lock([node], +1)
            held.append(node)

    def free(self, request: Request) -> None:
        held: list[Node] = request.own or []
        self.tree.lock(held, -1)
        self.tree.free += request.table[len(held) :]
        request.own = None

    def cached(self) -> dict[object, int]:
        return dict(self.named(self.tree.root, ()))

    def named(self, node: Node, before: tuple[int, ...]) -> Iterator[tuple[object, int]]:
        for child in node.children.values():
            tokens = before + child.page
            yield (None, None, tokens), child.block
            yield from self.named(child, tokens)


class Unlocked(PrefixTree):
    """What is found is not locked, so that it may be evicted while it is read."""

    def hold(self, nodes: list[Node]) -> None:
        pass
