"""What a prefix tree has on a second tier: R10, and R2 and R3 of it. Its content is that of any prefix map."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from ..ghost import Ghost
from ..record import State, TreeNode, TreeState, World
from ..violation import Violation, of_block

__all__ = ["HostPart"]


class HostPart:
    """Judges what the nodes of a tree have on the host, and what copies between the tiers hold."""

    def __init__(self, world: World) -> None:
        self._groups = world.groups
        self._tiers = dict(list(world.tiers.items())[:2])
        self._host = list(world.tiers)[1] if len(world.tiers) > 1 else None

    def wrong(self, state: State, tree: TreeState, nodes: Sequence[TreeNode], ghost: Ghost) -> Iterator[Violation]:
        """Yield what is wrong with the host's part of a tree after a step."""
        if self._host is None or self._host not in state.pools:
            return
        yield from _whole(nodes)
        yield from _reachable(nodes)
        yield from self._places(state, nodes)
        yield from _anchored(tree, nodes)
        for g, (group, part) in enumerate(zip(self._groups[1:], tree.parts, strict=False), start=1):
            if group.kind == "mamba" and part.anchors is not None:
                yield from _states_anchored(g, part.anchors, nodes)
        yield from self._under_copy(state, ghost)

    def _places(self, state: State, nodes: Sequence[TreeNode]) -> Iterator[Violation]:
        """R2: each page of the host is free, or one node's, or held by a read from below."""
        assert self._host is not None
        free = state.pools[self._host].free
        if free is None:
            return
        places = Counter(free)
        places.update(state.holds.get(self._host, ()))
        for node in nodes:
            for group, (slots, _) in zip(self._groups, node.host, strict=False):
                places.update({slot // group.slots for slot in slots})
        tier = self._tiers[self._host]
        lost = [block for block in range(tier.blocks) if block != tier.null and not places[block]]
        if lost:
            text = f"block {lost[0]} of the host is neither free nor in the tree, and {len(lost)} blocks are so"
            yield Violation("R2", "a page that is nobody's", text, (self._host,), (of_block(self._host, lost[0]),))
        twice = [block for block, count in places.items() if count > 1]
        if twice:
            text = f"block {twice[0]} of the host is in several places at once"
            yield Violation("R2", "a page in two places", text, (self._host,), (of_block(self._host, twice[0]),))

    def _under_copy(self, state: State, ghost: Ghost) -> Iterator[Violation]:
        """R10: what an unfinished copy reads or writes is free on neither tier."""
        free = {tier: set(pool.free or ()) for tier, pool in state.pools.items()}
        for copy in ghost.copies.under_way.values():
            if copy.void:
                continue
            for source_tier, source, tier, unit in copy.pairs:
                for at, block, does in ((source_tier, source, "reads"), (tier, unit, "writes")):
                    if block in free.get(at, ()):
                        text = f"block {block} ({at}) is free, and an unfinished copy {does} it"
                        yield Violation("R10", "freed under a copy", text, (at, does), (of_block(at, block),))
                        return


def _whole(nodes: Sequence[TreeNode]) -> Iterator[Violation]:
    """R10: a node is somewhere, and where it is, all its tokens are."""
    for at, node in enumerate(nodes):
        had = len(node.host[0][0]) if node.host else 0
        if had not in (0, len(node.tokens)):
            text = f"node {at} has {had} of {len(node.tokens)} tokens on the host"
            yield Violation("R10", "half a node", text)
            return
        if not had and not node.slots:
            yield Violation("R10", "a node that is nowhere", f"node {at} has its tokens on neither tier")
            return


def _reachable(nodes: Sequence[TreeNode]) -> Iterator[Violation]:
    """R10: what stands on the device stands behind a prefix that does."""
    for at, node in enumerate(nodes):
        if node.slots and node.parent >= 0 and not nodes[node.parent].slots:
            text = f"node {at} is on the device, and the node above it is not"
            yield Violation("R10", "a node without its prefix", text)
            return


def _anchored(tree: TreeState, nodes: Sequence[TreeNode]) -> Iterator[Violation]:
    """R3, R10: a load holds the node on the host that it stands at; when that is split, both halves stay held."""
    least, most = Counter[int](), Counter[int]()
    for place in tree.anchors.values():
        least[place] += 1
        while place >= 0:
            most[place] += 1
            place = nodes[place].parent
    for at, node in enumerate(nodes):
        lock = node.host[0][1] if node.host else None
        if lock is not None and not least[at] <= lock <= most[at]:
            side = "negative" if lock < 0 else "too many" if lock > most[at] else "too few"
            text = f"node {at} is locked {lock} times on the host, and {least[at]} to {most[at]} loads hold it"
            yield Violation("R3", "locks on the host", text, (side,))
            return


def _states_anchored(g: int, anchors: Mapping[str, int], nodes: Sequence[TreeNode]) -> Iterator[Violation]:
    """R3: a state is one node's, and held on the host by what holds that node; where it is split, by its lower half."""
    held = Counter(anchors.values())
    for at, node in enumerate(nodes):
        lock = node.host[g][1] if node.host else None
        if lock is not None and lock != held[at]:
            side = "negative" if lock < 0 else "too many" if lock > held[at] else "too few"
            text = f"the state of node {at} is locked {lock} times on the host, and {held[at]} copies hold it"
            yield Violation("R3", "locks on the host", text, ("mamba", side))
            return
