"""The kinds of trees that a release may serve with, and what a node of each has.

Before 0.5.19 a server without windows and states serves with a tree for full attention alone, and that of 0.5.15 serves
windows with one for these. Their nodes have what they have as attributes of their own.
"""

import importlib
import importlib.util
from types import SimpleNamespace

from level import Refused
from sglang.srt.mem_cache.base_prefix_cache import BasePrefixCache
from sglang_drift import BASE_COMPONENT_TYPE

__all__ = ["has_of", "made_tree", "sizes_of"]

_KINDS = {
    "unified": ("unified_radix_cache", "UnifiedRadixCache"),
    "plain": ("radix_cache", "RadixCache"),
    "windows": ("swa_radix_cache", "SWARadixCache"),
}


def made_tree(kind: str, memory, params):
    """Return a tree of a kind on a memory.

    Raises:
        Refused: there is none of this kind, or it does not serve what is in the memory.
    """
    if kind not in _KINDS or (kind != "unified" and memory.further != (["window"] if kind == "windows" else [])):
        raise Refused(f"there is no {kind} tree with {memory.further}")
    module, name = _KINDS[kind]
    if importlib.util.find_spec(f"sglang.srt.mem_cache.{module}") is None:
        raise Refused(f"this release has no {kind} tree")
    return getattr(importlib.import_module(f"sglang.srt.mem_cache.{module}"), name)(params)


def has_of(node, component, memory):
    """Return what a node has in a component: ``value``, its slots or states (None: it has none), and ``lock_ref``."""
    if hasattr(node, "component_data"):
        return node.component_data[component]
    base = component == BASE_COMPONENT_TYPE
    if not hasattr(node, "swa_tombstone"):
        return SimpleNamespace(value=node.value, lock_ref=node.lock_ref)
    if base:
        return SimpleNamespace(value=node.value, lock_ref=node.full_lock_ref)
    window = None if node.swa_tombstone else memory.allocator.full_to_swa_index_mapping[node.value]
    return SimpleNamespace(value=window, lock_ref=node.swa_lock_ref)


def sizes_of(cache) -> tuple[int, int]:
    """Return how many tokens of full attention a tree says that it could give up, and how many that it could not."""
    if type(cache).full_evictable_size is BasePrefixCache.full_evictable_size:
        return cache.evictable_size(), cache.protected_size()  # It serves nothing else.
    return cache.full_evictable_size(), cache.full_protected_size()
