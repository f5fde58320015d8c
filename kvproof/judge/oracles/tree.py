"""A prefix tree over the device's pages, by what its states show: R1 to R3, R6, and P6 of all that stands in it.

What it has of windows and states is judged beside it (`tree_parts.py`), and so is what it has on a host tier
(`tree_host.py`). Trees that answer to the kit's own scheduler are judged by what they were asked instead
(`tree_answers.py`).
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from ..ghost import Ghost
from ..record import State, Step, TreeNode, TreePart, TreeState, World
from ..violation import Violation, of_block, of_request
from .tree_host import HostPart
from .tree_nodes import contents_of, wrong_shape
from .tree_parts import Parts, blocks_of_parts, words_of

__all__ = ["TreeOracle"]

_FREE, _TREE, _OWN = "free", "in the tree", "a request's own"


class TreeOracle:
    """Judges the tree of a state by itself, by the free pages and by the requests."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._device = next(iter(world.tiers))
        self._page = world.groups[0].block
        self._parts = Parts(world)
        self._host = HostPart(world)
        self._sound: set[tuple[int, tuple[int, ...], int]] = set()
        """Edges that were looked at: the content before, the slots, and the ghost's version."""

    def step(self, step: Step, ghost: Ghost) -> Iterator[Violation]:
        """Yield what is wrong with the tree after a step.

        Raises:
            ValueError: a parent does not stand before its child, so that nobody could walk up.
        """
        state = step.state
        if state is None or state.tree is None or self._device not in state.pools:
            return
        tree = state.tree
        yield from self._places(state, tree)
        if tree.nodes is not None:
            if any(not -1 <= node.parent < at for at, node in enumerate(tree.nodes)):
                raise ValueError("a parent behind its child")
            yield from wrong_shape(tree.nodes, self._page)
            yield from self._pages(tree.nodes)
            yield from self._locks(tree, tree.nodes)
            contents = contents_of(tree.nodes, ghost)
            yield from self._content(tree.nodes, contents, ghost)
            yield from self._parts.wrong(tree, tree.nodes, contents, ghost)
            yield from self._host.wrong(state, tree, tree.nodes, ghost)
        if step.error is None and not step.skipped:
            yield from self._answered(step, tree)

    def _places(self, state: State, tree: TreeState) -> Iterator[Violation]:
        """R2: each page is free, the tree's, or one request's own."""
        free = state.pools[self._device].free
        if free is None:
            return
        places: dict[int, list[str]] = {}
        for block in free:
            places.setdefault(block, []).append(_FREE)
        for block in self._of_tree(tree):
            places.setdefault(block, []).append(_TREE)
        for blocks in tree.own.values():
            for block in blocks:
                places.setdefault(block, []).append(_OWN)
        tier = self.world.tiers[self._device]
        lost = [block for block in range(tier.blocks) if block != tier.null and block not in places]
        if lost:
            text = (
                f"block {lost[0]} is neither free nor in the tree nor any request's own, and {len(lost)} blocks are so"
            )
            yield Violation("R2", "a page that is nobody's", text, (), (of_block(self._device, lost[0]),))
        for block, found in places.items():
            if len(found) > 1:
                text = f"block {block} is in several places at once: {', '.join(found)}"
                about = (of_block(self._device, block),)
                yield Violation("R2", "a page in two places", text, tuple(sorted(found)[:2]), about)
                break

    def _of_tree(self, tree: TreeState) -> Iterator[int]:
        """The tree's pages, each as often as it has it."""
        edges = [node.slots for node in tree.nodes] if tree.nodes is not None else [sorted(tree.slots or ())]
        for slots in edges:
            for at in range(0, len(slots), self._page):
                yield slots[at] // self._page
        yield from blocks_of_parts(self.world, tree.nodes or ())

    def _pages(self, nodes: Sequence[TreeNode]) -> Iterator[Violation]:
        """R1: the slots of a page are those of one block, in order."""
        for at, node in enumerate(nodes):
            for begin in range(0, len(node.slots), self._page):
                slots = node.slots[begin : begin + self._page]
                if slots[0] % self._page or slots != list(range(slots[0], slots[0] + self._page)):
                    text = f"a page of node {at} stands in slots {slots}, which are no page"
                    yield Violation("R1", "a page that is none", text)
                    return

    def _locks(self, tree: TreeState, nodes: Sequence[TreeNode]) -> Iterator[Violation]:
        """R3: lock_ref is the number of locks at a node and below; sizes are what is locked and what is not."""
        live = Counter[int]()
        for place in tree.locks.values():
            while place >= 0:
                live[place] += 1
                place = nodes[place].parent
        for at, node in enumerate(nodes):
            if node.lock is not None and node.lock != live[at]:
                text = f"node {at} has lock_ref {node.lock}, and {live[at]} locks stand at it or below"
                side = "negative" if node.lock < 0 else "too many" if node.lock > live[at] else "too few"
                holders = tuple(of_request(r) for r in sorted(tree.locks))
                yield Violation("R3", "lock_ref and locks", text, (side,), holders)
                break
        counted = {"evictable": 0, "protected": 0}
        for node in nodes:
            counted["protected" if node.lock else "evictable"] += len(node.slots)
        for name, told in (("evictable", tree.evictable), ("protected", tree.protected)):
            if told is not None and told != counted[name]:
                text = f"the tree says that {told} tokens are {name}, and {counted[name]} are"
                yield Violation("R3", "sizes of the tree", text, (name,))

    def _content(
        self, nodes: Sequence[TreeNode], contents: Sequence[Sequence[int]], ghost: Ghost
    ) -> Iterator[Violation]:
        """P6: each slot holds the KV of its token behind all tokens before it."""
        for node, wanted in zip(nodes, contents, strict=True):
            seen = (wanted[-1] if wanted else -1, tuple(node.slots), ghost.memory.version)
            if seen in self._sound:
                continue
            wrong = False
            for slot, expected in zip(node.slots, wanted, strict=False):
                block, offset = divmod(slot, self._page)
                cell = ghost.memory.cell(self._device, block)
                if cell is not None and cell[1][offset : offset + 1] == [expected]:
                    continue
                if not wrong:
                    empty = cell is None or cell[1][offset : offset + 1] in ([], [None])
                    held = "nothing" if empty else "the KV of other tokens"
                    text = f"slot {slot} stands in the tree for a token of {node.tokens}, and holds {held}"
                    yield Violation("P6", "content of the tree", text, (), (of_block(self._device, block),))
                wrong = True
                ghost.memory.mend(self._device, block, 0, offset, [expected], self._page)
            if not wrong:
                self._sound.add(seen)

    def _answered(self, step: Step, tree: TreeState) -> Iterator[Violation]:
        """R6: an eviction frees what it was asked for, or leaves nothing that could be. L2: at rest nothing is held."""
        result = step.result if isinstance(step.result, dict) else {}
        if step.op == "evict" and {"asked", "told", "freed"} <= set(result):
            yield from self._evicted(tree, *(result[name] for name in ("asked", "told", "freed")))
        if step.op == "drain" and not result.get("left", 1) and not result.get("pending", 1):
            for counts, kind, what in self._counted(tree):
                if counts.protected:
                    text = f"nothing is left to do, and {counts.protected} {what} are locked"
                    yield Violation("L2", "locked for ever", text, kind)
            if any(tree.own.values()):
                yield Violation("L2", "held for ever", f"nothing is left to do, and pages are held: {tree.own}")

    def _evicted(self, tree: TreeState, *answer: Any) -> Iterator[Violation]:
        """What an eviction of each group was asked, said and did: three numbers, or three lists of one for each."""
        answers = zip(*(part if isinstance(part, list) else [part] for part in answer), strict=True)
        for (counts, kind, what), (asked, told, freed) in zip(self._counted(tree), answers, strict=False):
            if told != freed:
                text = f"an eviction says that {told} {what} are freed, and {freed} are"
                yield Violation("R6", "what an eviction says", text, kind)
            if freed < asked and counts.evictable:
                text = f"an eviction of {asked} {what} freed {freed}, and {counts.evictable} more could go"
                yield Violation("R6", "an eviction that stops early", text, kind)

    def _counted(self, tree: TreeState) -> list[tuple[TreeState | TreePart, tuple[str, ...], str]]:
        """What the tree counts of each group, the kind of a further one, and what it counts in."""
        parts = zip(tree.parts, self.world.groups[1:], strict=False)
        return [(tree, (), "tokens"), *((part, (group.kind,), words_of(group)) for part, group in parts)]
