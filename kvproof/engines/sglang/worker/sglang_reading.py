"""What a state of the level ``tree`` is read from: the release's own tree, allocator and rows."""

from types import SimpleNamespace

from sglang.srt.disaggregation.kv_events import (
    AllBlocksCleared,
    BlockRemoved,
    BlockStored,
    StorageMedium,
)
from sglang_drift import BASE_COMPONENT_TYPE, made_key, names_of, page_hashes, tokens_of_key
from sglang_kinds import has_of
from sglang_pages import pages_of

__all__ = ["Keys", "cached_of", "nodes_of", "on_host", "parts_of", "told_of"]


class Keys:
    """Numbers for prefixes of whole pages: by the release's own hashes where it tells events, else by themselves."""

    def __init__(self, recorder, page: int, pairs: bool = False) -> None:
        """``recorder`` is one of the release's, as its tree tells its events to: it makes the hashes. With ``pairs``
        the token behind a page belongs to its key."""
        self._recorder, self._page, self._pairs = recorder, page, pairs
        self._numbers: dict = {}
        self._of: dict[tuple, list[int]] = {}

    def number(self, key) -> int:
        """Return the number of a hash."""
        return self._numbers.setdefault(key, len(self._numbers))

    def named(self, tokens: list[int]) -> tuple[int, ...]:
        """Return what of a sequence its whole pages are named by."""
        whole = max(0, len(tokens) - self._pairs) // self._page * self._page
        return tuple(tokens[: whole + self._pairs if whole else 0])

    def key(self, names: tuple, tokens: tuple[int, ...]):
        """Return a tree's key of them."""
        key = made_key(tokens, names)
        key.is_bigram = self._pairs
        return key

    def of(self, names: tuple, tokens: list[int]) -> list[int]:
        """Return the numbers of a sequence's whole pages; ``names`` are its ``extra_key`` and ``cache_salt``."""
        named = self.named(tokens)
        found = self._of.get((names, named))
        if found is None:
            found = self._of[names, named] = [self.number(key) for key in self._keys(names, named)]
        return found

    def _keys(self, names: tuple, tokens: tuple[int, ...]) -> list:
        if not tokens:
            return []
        if not self._recorder.enabled:
            ends = range(self._page + self._pairs, len(tokens) + 1, self._page)
            return [(names, tokens[:end]) for end in ends]
        node = SimpleNamespace(key=self.key(names, tokens), parent=None, hash_value=None, event_hash_value=None)
        return page_hashes(self._recorder, node)


def nodes_of(core, memory=None, host=None) -> tuple[list[list], dict[int, int]]:
    """Return the nodes of a tree in Python, parents first, and the place of each by its id.

    A node is the place of its parent (-1: the root), its ``extra_key`` and ``cache_salt``, the tokens and the slots of
    its edge, its lock_ref, and its slots and lock_ref in each further component of the memory (None: there is none);
    where there is a host tier, what it has there; where keys are of pairs, the token behind its edge.
    """
    further = memory.components[1:] if memory is not None else ()
    nodes: list[list] = []
    places = {core.root_node.id: -1}
    waiting = [core.root_node]
    while waiting:
        node = waiting.pop()
        for child in node.children.values():
            places[child.id] = len(nodes)
            data, key = has_of(child, BASE_COMPONENT_TYPE, memory), child.key
            slots = [] if data.value is None else data.value.tolist()
            names, tokens = names_of(key), tokens_of_key(key)
            parts = [_part(has_of(child, kind, memory), kind, memory) for kind in further]
            below = [] if host is None else [host.of_node(child)]
            behind = [*(below or [[]]), tokens[-1]] if key.is_bigram else below
            nodes.append([places[node.id], names, tokens[: len(key)], slots, data.lock_ref, parts, *behind])
            waiting.append(child)
    return nodes, places


def _part(data, kind, memory) -> list:
    """Return what a node has in a component that is not full attention: slots, and lock_ref."""
    if data.value is None:
        return [[], data.lock_ref]
    of = memory.state_blocks if kind.is_mamba else memory.window_slots
    return [of(data.value), data.lock_ref]


def parts_of(cache, memory) -> list[dict]:
    """Return what the tree counts of each further component."""
    sizes = []
    if memory.window:
        sizes.append({"evictable": cache.swa_evictable_size(), "protected": cache.swa_protected_size()})
    if memory.states:
        sizes.append({"evictable": cache.mamba_evictable_size(), "protected": cache.mamba_protected_size()})
    return sizes


def on_device(node: list) -> list[list[int]]:
    """Return what a node has on the device, of each group."""
    return [node[3], *(part[0] for part in node[5])]


def on_host(node: list, page: int, unsettled: set[int]) -> list[list[int]]:
    """Return what it has on the host, but for pages that are still written to; a window alone is none that a lookup
    finds there."""
    parts = [[] if unsettled.intersection(slot // page for slot in slots) else slots for slots, _ in node[6]]
    return parts if parts[0] else [[] for _ in parts]


def cached_of(nodes: list[list], keys: Keys, page: int, kinds: list[str], of=on_device) -> list[list]:
    """Return the blocks that the tree has, by their keys and groups. A state is that of the node's end."""
    found: dict[tuple[int, int], list[int]] = {}
    paths: list[list[int]] = []
    for node in nodes:
        parent, names, tokens = node[:3]
        above = paths[parent] if parent >= 0 else []
        paths.append(above + tokens)
        own = keys.of(names, paths[-1] + node[7:])[len(above) // page :]
        for g, has in enumerate(of(node)):
            state = kinds[g] == "mamba"
            blocks = has if state else pages_of(has, page)
            for key, block in zip(own[-1:] if state else own, blocks, strict=False):
                found.setdefault((key, g), []).append(block)
    return [[key, g, blocks] for (key, g), blocks in found.items()]


def told_of(events, keys: Keys, group: int | None, tiers=("device",)):
    """Yield the effects that a release's events are; ``group`` is which they speak of, None: of a key alone."""
    for event in events:
        if isinstance(event, BlockStored):
            parent = event.parent_block_hash
            stored = [keys.number(key) for key in event.block_hashes]
            before = None if parent is None else keys.number(parent)
            tokens = [token[0] if isinstance(token, tuple | list) else token for token in event.token_ids]
            yield "stored", _tier(event), group, stored, before, tokens or None, event.block_size
        elif isinstance(event, BlockRemoved):
            yield "removed", _tier(event), group, [keys.number(key) for key in event.block_hashes]
        elif isinstance(event, AllBlocksCleared):
            yield from (("cleared", tier) for tier in tiers)


def _tier(event) -> str:
    return "host" if event.medium == StorageMedium.CPU else "device"
