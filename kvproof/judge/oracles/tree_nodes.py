"""A prefix tree by what it shows of its nodes: their shape (R1), what is where (R2, R4, R5), their locks (R3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import chain

from ..ghost import Ghost
from ..record import TreeNode
from ..violation import Violation
from .tree_books import Books

__all__ = ["contents_of", "node_sizes", "wrong_nodes", "wrong_shape"]


@dataclass
class _Shown:
    """The pages of a node."""

    node: TreeNode
    prefixes: list[int]


def node_sizes(nodes: Sequence[TreeNode], page: int, ghost: Ghost) -> dict[int, int]:
    """How many slots the node of each page has."""
    return {prefix: len(each.node.slots) for each in _shown(nodes, page, ghost) for prefix in each.prefixes}


def wrong_nodes(
    nodes: Sequence[TreeNode], books: Books, page: int, ghost: Ghost, kinds: Set[str], of_locks: str
) -> Iterator[Violation]:
    """Yield what is wrong with the nodes after a step with effects of these kinds.

    ``of_locks`` is the rule that a wrong number of locks breaks.
    """
    shape = next(chain(wrong_shape(nodes, page), _twice(nodes)), None)
    if shape is not None:
        yield shape
        return
    shown = [*_shown(nodes, page, ghost)]
    yield from _places(shown, books, page, kinds)
    for each in shown:
        expected = books.pages[each.prefixes[0]].locks if each.prefixes[0] in books.pages else 0
        if each.node.lock is not None and each.node.lock != expected:
            text = f"the node of slots {each.node.slots} has lock_ref {each.node.lock}, and {expected} locks cover it"
            yield Violation(of_locks, "lock_ref", text, ("few" if each.node.lock < expected else "many",))
            return


def wrong_shape(nodes: Sequence[TreeNode], page: int) -> Iterator[Violation]:
    """R1: edges are whole pages, siblings differ in their first, namespaces share no path. Of each the first breach."""
    firsts: set[tuple[object, ...]] = set()
    for at, node in enumerate(nodes):
        gone = node.host and not node.slots
        if not node.tokens or len(node.tokens) % page or not (gone or len(node.tokens) == len(node.slots)):
            text = f"node {at} has {len(node.tokens)} tokens in {len(node.slots)} slots, and a page has {page}"
            yield Violation("R1", "edges are whole pages", text)
            return
        if node.parent >= 0 and nodes[node.parent].tenant != node.tenant:
            text = f"node {at} of {node.tenant} stands below one of {nodes[node.parent].tenant}"
            yield Violation("R1", "namespaces that share a path", text)
        paired = () if node.behind is None else ([*node.tokens, node.behind][page],)
        first = (node.parent, node.tenant, *node.tokens[:page], *paired)
        if first in firsts:
            text = f"two children of one node begin with the page {node.tokens[:page]}"
            yield Violation("R1", "siblings differ", text)
        firsts.add(first)


def _twice(nodes: Sequence[TreeNode]) -> Iterator[Violation]:
    """R2: no slot stands in two places."""
    slots: set[int] = set()
    for node in nodes:
        if slots & {*node.slots} or len({*node.slots}) != len(node.slots):
            yield Violation("R2", "a slot in two places", f"the slots {node.slots} of a node: one is there twice")
        slots |= {*node.slots}


def contents_of(nodes: Sequence[TreeNode], ghost: Ghost) -> list[list[int]]:
    """The prefix that ends with each token of each node, by the tokens on the way to it.

    Several oracles ask for those of one state, one after the other.
    """
    if ghost.tree is None or ghost.tree[0] is not nodes:
        ghost.tree = nodes, _contents_of(nodes, ghost)
    return ghost.tree[1]


def _contents_of(nodes: Sequence[TreeNode], ghost: Ghost) -> list[list[int]]:
    contents: list[list[int]] = []
    for node in nodes:
        above = contents[node.parent] if node.parent >= 0 else []
        at = above[-1] if above else ghost.contents.root(*node.tenant)
        contents.append([at := ghost.contents.after(at, token) for token in node.tokens])
    return contents


def _shown(nodes: Sequence[TreeNode], page: int, ghost: Ghost) -> Iterator[_Shown]:
    """The prefixes of each node's pages."""
    for node, contents in zip(nodes, contents_of(nodes, ghost), strict=True):
        yield _Shown(node, contents[page - 1 :: page])


def _places(shown: Sequence[_Shown], books: Books, page: int, kinds: Set[str]) -> Iterator[Violation]:
    """What was inserted and not evicted is there, at its slots, and nothing else is."""
    rule = "R2" if "evicted" in kinds else "R5" if "inserted" in kinds else "R4"
    there: set[int] = set()
    for each in shown:
        for n, prefix in enumerate(each.prefixes):
            slots = each.node.slots[n * page : (n + 1) * page]
            expected = books.pages.get(prefix)
            there.add(prefix)
            if expected is None:
                yield Violation(
                    rule, "in the tree, not inserted", f"the tree has a page at {slots} that is not its own"
                )
                return
            if [*expected.slots] != slots:
                text = f"the tree has a page at {slots} that was inserted at {[*expected.slots]}"
                yield Violation(rule, "inserted elsewhere", text)
                return
    if lost := books.pages.keys() - there:
        slots = [*books.pages[min(lost)].slots]
        text = f"the page at {slots} was inserted and not evicted, and no node has it: its slots are nobody's"
        yield Violation(rule, "inserted, not in the tree", text)
