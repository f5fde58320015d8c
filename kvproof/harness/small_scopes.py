"""The scopes of machines that stand for themselves: a few sizes, and what their parameters are there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..machine import Machine

__all__ = ["Setting", "setting_of"]

Sizes = dict[str, int]


def _nothing(_sizes: Sizes) -> dict[str, Any]:
    """No other parameters."""
    return {}


@dataclass(frozen=True)
class Setting:
    """Where a machine is explored if nothing else is said.

    ``sizes``: elements of each sort. ``settable``: parameters that a command may set. ``others``: the rest, which hangs
    on the sizes.
    """

    sizes: Sizes
    settable: dict[str, int | bool] = field(default_factory=dict)
    others: Callable[[Sizes], dict[str, Any]] = _nothing


def setting_of(machine: type[Machine]) -> Setting | None:
    """Return the scope of a machine, or of the one that it extends; None: it is none of these."""
    return next((_SETTINGS[c.__name__] for c in machine.__mro__ if c.__name__ in _SETTINGS), None)


def _offers(sizes: Sizes) -> dict[str, Any]:
    """Return lists of keys that overlap: each begins a key further than the one before, and every other is shorter."""
    keys, positions = sizes["Hash"], sizes["Position"]
    count = [min(keys, max(1, positions - o % 2)) for o in range(sizes["Offer"])]
    lists = [[(o + i) % keys for i in range(positions)] for o in range(sizes["Offer"])]
    names = [[h in named[:n] for h in range(keys)] for named, n in zip(lists, count, strict=True)]
    return {"count": count, "key": lists, "names": names}


def _tables(sizes: Sizes) -> dict[str, Any]:
    """Return tables of one sequence, each of a group of its own, with the same tokens: only their keys' tags differ."""
    tables, hashes = range(sizes["Request"]), range(sizes["Hash"])
    groups = [h % sizes["Group"] for h in hashes]
    positions = sizes["Position"]
    return {
        "null": None,
        "caching": True,
        "split": True,
        "kv": [[0] * sizes["Slot"] for _ in hashes],
        "parent": [None for _ in hashes],
        "prompt": [[r % sizes["Group"]] * positions for r in tables],
        "limit": [positions - 1 for _ in tables],
        "need": [positions for _ in tables],
        "group": [r % sizes["Group"] for r in tables],
        "sequence": [r // sizes["Group"] for r in tables],
        "tag": groups,
    }


_SETTINGS = {
    "Batches": Setting(
        {"Request": 2, "Hash": 3, "Int": 6},
        {"capacity": 2, "base": 1, "block_tokens": 3, "bandwidth": 2, "most_reloads": 2},
    ),
    "Chunks": Setting({"Hash": 4, "Offer": 3, "Position": 2, "Load": 2, "Int": 4}, {"capacity": 2}, _offers),
    "LazyWalk": Setting({"Block": 3, "Int": 2}, {"target": 2, "host_room": 1}),
    "GroupTables": Setting(
        {"Block": 2, "Request": 2, "Group": 2, "Sequence": 1, "Hash": 2, "Position": 2}
        | {"Slot": 1, "Content": 1, "Int": 2},
        {},
        _tables,
    ),
}
"""By machine: more keys than chunks; a latency that is rounded up, and a block more than the host keeps; a block more
than a call looks at; two groups whose tables want all blocks."""
