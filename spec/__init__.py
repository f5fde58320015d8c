"""The specification: what the rules of KV caching mean, as machines, divided by subject.

`pool` (P, and what extends it), `tiers` (M and D), `offload` (O), `timed` (G), `hybrid` (H), `tree` (R), `liveness`
(L); `rules.py` has every rule by its code, `faults.py` the faults that are known.
"""

from __future__ import annotations

from importlib import import_module

__all__ = ["MACHINES"]

MACHINES = {
    "Pool": "pool",
    "LinkedPool": "pool.linked_list",
    "Statistics": "pool.statistics",
    "Calls": "pool.calls",
    "Lengths": "pool.lengths",
    "Deferred": "pool.deferred",
    "Keys": "pool.keys",
    "Mirror": "tiers.mirror",
    "Batches": "tiers.batches",
    "Pinned": "tiers.pin",
    "Tiered": "tiers.tiered",
    "PinningOff": "tiers.pinning_off",
    "Offload": "offload",
    "Reports": "offload.reports",
    "Chunks": "offload.chunks",
    "LazyWalk": "offload.lazy_walk",
    "Links": "timed.links",
    "Stalls": "timed.stalls",
    "TimedTiers": "timed.timed_tiers",
    "SharedTier": "timed.shared_tier",
    "Planner": "hybrid.planner",
    "Groups": "hybrid.groups",
    "GroupTables": "hybrid.group_tables",
    "AlignedSplit": "hybrid.aligned_split",
    "Connectors": "hybrid.connectors",
    "PartialLoads": "hybrid.partial_loads",
    "FileStore": "hybrid.file_store",
    "PrefixTree": "tree",
    "Served": "liveness.served",
    "LoadsEnd": "liveness.completions",
}
"""Where each machine stands; `from kvproof.spec import Pool` reads that module, and no other machine."""


def __getattr__(name: str) -> object:
    if name in MACHINES:
        return getattr(import_module(f".{MACHINES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
