"""The state of a tree and of what it stands on, as the kit is told it: of every level that has one."""

from collections.abc import Callable
from functools import partial

from sglang_drift import core_of
from sglang_kinds import sizes_of
from sglang_memory import Memory
from sglang_reading import Keys, cached_of, nodes_of, on_host, parts_of

__all__ = ["shown"]


def shown(cache, memory: Memory, keys: Keys, tenant: Callable, held: list[tuple], host=None) -> tuple[dict, dict, dict]:
    """Return the pools of all tiers, the tables of those that have a row, and the tree.

    ``tenant`` says whose the names of a node are; ``held`` has who holds something: a name, the release's record of
    what, and its lock (None: it has none).
    """
    pools: dict[str, dict] = {"device": memory.free()}
    tables = {r: memory.tables(kv) for r, kv, _ in held if kv.holds_kv}
    evictable, protected = sizes_of(cache)
    tree: dict = {
        "own": {r: memory.own(kv, tables.get(r, [])) for r, kv, _ in held},
        "evictable": evictable,
        "protected": protected,
        "parts": parts_of(cache, memory),
    }
    if host is not None:
        pools["host"] = host.pool()
        if host.storage is not None:
            pools["storage"] = {"cached": host.storage.cached(keys.number)}
    if core_of(cache) == "python":
        _show_nodes(cache, memory, keys, tenant, held, host, pools, tree)
    else:
        # Such a core tells them in an order of its own, another one each time.
        tree["slots"] = sorted(memory.slots_of(cache))
    return pools, tables, tree


def _show_nodes(cache, memory, keys, tenant, held, host, pools: dict, tree: dict) -> None:
    """Add what the nodes show: themselves, what is cached by them, and at which of them locks stand."""
    nodes, places = nodes_of(getattr(cache, "tree_core", cache), memory, host)  # The tree is the cache before 0.5.17.
    kinds = [group["kind"] for group in memory.world["groups"]]
    locks = {r: (places.get(lock.node, -2), lock.swa_released) for r, _, lock in held if lock is not None}
    if host is not None:
        locks |= {name: (places.get(node, -2), released) for name, node, released in host.locks()}
        anchors = host.anchors()
        tree["anchors"] = {name: places.get(node, -2) for name, node, holds_full in anchors if holds_full}
        if memory.states:
            tree["parts"][-1]["anchors"] = {name: places.get(node, -2) for name, node, _ in anchors}
        settled = partial(on_host, page=memory.page, unsettled=host.unsettled())
        pools["host"]["cached"] = cached_of(nodes, keys, memory.page, kinds, settled)
    tree["locks"] = {r: place for r, (place, _) in locks.items()}
    for part in tree["parts"]:
        part["locks"] = {r: place for r, (place, released) in locks.items() if not released}
    tree["nodes"] = [[at, tenant(names), *rest] for at, names, *rest in nodes]
    pools["device"]["cached"] = cached_of(nodes, keys, memory.page, kinds)
