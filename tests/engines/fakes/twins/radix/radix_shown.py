"""The nodes that two tiers of pages are together: as few as there may be."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from radix_tier import Tier

__all__ = ["Named", "shown"]


@dataclass(frozen=True)
class Named:
    """What a key names: a page behind another one."""

    tenant: tuple[None, str | None]
    above: bytes | None
    tokens: list[int]


@dataclass
class _Page:
    """Where a page is, and how often it is locked there."""

    device: int | None = None
    lock: int = 0
    host: int | None = None
    host_lock: int = 0

    @property
    def kind(self) -> tuple:
        """Pages of one node are alike."""
        return self.device is None, self.lock, self.host is None, self.host_lock


@dataclass
class _Shown:
    parent: int
    keys: list[bytes] = field(default_factory=list)


def shown(
    device: Tier, host: Tier | None, names: dict[bytes, Named], ends: Iterable[bytes], page: int
) -> tuple[list[list], dict[bytes | None, int]]:
    """Return the nodes, parents first, and where each page stands; at ``ends`` locks stand, and so a node ends."""
    pages: dict[bytes, _Page] = {}
    for node in device.tree.nodes():
        for key, block in zip(node.keys, node.pages, strict=True):
            pages[key] = _Page(block, node.lock_ref)
    for node in () if host is None else host.tree.nodes():
        for key, block in zip(node.keys, node.pages, strict=True):
            found = pages.setdefault(key, _Page())
            found.host, found.host_lock = block, node.lock_ref
    nodes, places = _runs(pages, names, set(ends))
    return [_told(each, pages, names, page, host is not None) for each in nodes], places


def _runs(
    pages: dict[bytes, _Page], names: dict[bytes, Named], ends: set[bytes]
) -> tuple[list[_Shown], dict[bytes | None, int]]:
    """A page stands in the node of the one above it, if it is its only child and alike, and no lock stands between."""
    children = Counter(names[key].above for key in pages)
    nodes: list[_Shown] = []
    places: dict[bytes | None, int] = {None: -1}
    for key, found in pages.items():
        above = names[key].above
        joins = above is not None and children[above] == 1 and above not in ends and pages[above].kind == found.kind
        if not joins:
            nodes.append(_Shown(places[above]))
        places[key] = places[above] if joins else len(nodes) - 1
        nodes[places[key]].keys.append(key)
    return nodes, places


def _told(node: _Shown, pages: dict[bytes, _Page], names: dict[bytes, Named], page: int, has_host: bool) -> list:
    there = [pages[key] for key in node.keys]
    tokens = [token for key in node.keys for token in names[key].tokens]
    on_device, on_host = ([each.device for each in there], [each.host for each in there])
    below = [[[_slots(on_host, page), there[0].host_lock]]] if has_host else []
    tenant = list(names[node.keys[0]].tenant)
    return [node.parent, tenant, tokens, _slots(on_device, page), there[0].lock, [], *below]


def _slots(blocks: Sequence[int | None], page: int) -> list[int]:
    return [block * page + at for block in blocks if block is not None for at in range(page)]
