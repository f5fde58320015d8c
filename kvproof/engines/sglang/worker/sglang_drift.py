"""What differs between releases of SGLang, each in one place."""

import dataclasses
import importlib
import importlib.util
from array import array
from types import SimpleNamespace

from level import Refused
from sglang.srt.disaggregation import kv_events
from sglang.srt.environ import envs
from sglang.srt.mem_cache import allocator, common, events, utils
from sglang.srt.mem_cache.cache_init_params import CacheInitParams
from sglang.srt.mem_cache.radix_cache import RadixKey

__all__ = [
    "BASE_COMPONENT_TYPE",
    "BEFORE_13",
    "SALTED",
    "ComponentType",
    "WindowAllocator",
    "adopted_state",
    "core_of",
    "give_up_window_of_prefix",
    "lora_names",
    "made_key",
    "made_params",
    "made_recorder",
    "made_tokens",
    "make_requests",
    "name_adapter",
    "named",
    "names_of",
    "page_hashes",
    "say_interval",
    "say_page",
    "states_of",
    "storage_hashes",
    "tokens_of_key",
    "told_salt",
]

_PLACE = "sglang.srt.mem_cache.unified_cache"
_components = importlib.import_module(
    f"{_PLACE}.components" if importlib.util.find_spec(_PLACE) else f"{_PLACE}_components"  # Before 0.5.17.
)
ComponentType, BASE_COMPONENT_TYPE = _components.ComponentType, _components.BASE_COMPONENT_TYPE

SALTED = "cache_salt" in RadixKey.__slots__
"""Since 0.5.18 a salt is its own part of a key; before, the server writes it in front of the label."""

BEFORE_13 = not hasattr(allocator, "__path__")
"""Before 0.5.13 allocators are one module, tokens are lists, states allot themselves, a lookup copies the state that it
found at once, and the unified tree keeps the window of a whole prompt and tells no events."""

WindowAllocator = importlib.import_module(
    f"sglang.srt.mem_cache.{'swa_memory_pool' if BEFORE_13 else 'allocator.swa'}"
).SWATokenToKVPoolAllocator

_RECORDED = hasattr(events, "KVCacheEventRecorder")
"""Since 0.5.19 events have a recorder; before, the tree is one."""

_OF_REQUESTS = hasattr(events, "KvEventLoraNames")
"""Since 0.5.23 a request says which namespace is an adapter's; before, the adapter's id did."""

_NAMED = _OF_REQUESTS or hasattr(events, "LoRANameTable")
"""Since 0.5.22 events name adapters at all."""


def give_up_window_of_prefix(yes: bool) -> None:
    """Say whether the lock on the window of a prefix is given up when decoding has passed it."""
    if hasattr(envs, "SGLANG_OPT_RELEASE_PREFILL_SWA"):
        envs.SGLANG_OPT_RELEASE_PREFILL_SWA.set(yes)
    else:
        envs.SGLANG_OPT_SWA_RELEASE_LEAF_LOCK_AFTER_WINDOW.set(yes)  # What it was called before 0.5.22.


def made_tokens(tokens: list[int]):
    """Return a request's prompt."""
    return list(tokens) if BEFORE_13 else array("q", tokens)


def states_of(rows):
    """Return what allots states."""
    return rows.mamba_pool if BEFORE_13 else rows.mamba_allocator


def adopted_state(req, record):
    """Return the state of the tree that a lookup found for a request, as a tensor of one place; None: it found none."""
    if not BEFORE_13:
        return record.mamba_cow_src_index
    return req.best_match_node.component_data[ComponentType.MAMBA].value


def say_interval(interval: int, window: int) -> None:
    """Say how many tokens must have left a window before it is looked at: before 0.5.14, how many windows of them."""
    if hasattr(envs, "SGLANG_SWA_EVICTION_INTERVAL"):
        envs.SGLANG_SWA_EVICTION_INTERVAL.set(interval)
    else:
        envs.SGLANG_SWA_EVICTION_INTERVAL_MULTIPLIER.set(interval / max(1, window))


def say_page(page: int) -> None:
    """Say how many tokens a page has, where it is the configuration that is asked: before 0.5.17."""
    for name in ("get_global_server_args", "get_server_args"):
        if hasattr(common, name):
            getattr(common, name)().page_size = page


def lora_names():
    """Return an empty table of the names that adapters have in KV events; none where events do not name them."""
    if not _NAMED:
        return None
    return events.KvEventLoraNames() if _OF_REQUESTS else events.LoRANameTable()


def name_adapter(names, req, adapter: str) -> None:
    """Say which adapter a request is for."""
    if _OF_REQUESTS:
        names.register(req, adapter)
    elif _NAMED:
        names.register(lora_id=req.lora_id, lora_name=adapter)


def made_params(core: str, names, **usual) -> CacheInitParams:
    """Return what a tree with a core is made of. Before 0.5.21 a variable says which core; events name no adapters."""
    known = {field.name for field in dataclasses.fields(CacheInitParams)}
    if "enable_session_radix_cache" in usual.keys() - known:
        raise Refused("this release has no sessions")
    if "tree_core_backend" in known:
        usual["tree_core_backend"] = core
    elif core != "python" and not importlib.util.find_spec("sglang.srt.mem_cache.rust_tree_core"):
        raise Refused(f"this release has no tree core {core}")
    elif hasattr(envs, "SGLANG_UNIFIED_RADIX_TREE_CORE_BACKEND"):
        envs.SGLANG_UNIFIED_RADIX_TREE_CORE_BACKEND.set(core)
    if "kv_event_lora_names" in known:
        usual["kv_event_lora_names"] = names
    return CacheInitParams(disable=False, **usual)


def core_of(cache) -> str:
    """Return a tree's core; before 0.5.19 there is one."""
    return getattr(cache, "_tree_core_backend", "python")


def named(salt: str | None, label: str | None) -> dict:
    """Return how a request is made that has a salt and a label (the caller's ``extra_key``)."""
    return {"extra_key": label, "cache_salt": salt} if SALTED else {"extra_key": told_salt(salt, label)}


def told_salt(salt: str | None, label: str | None) -> str | None:
    """Return what a salt and a label come to: what a caller calls a request by parts caches as a salt does."""
    if salt is None and label is None:
        return None
    return f"{salt or ''}|{label or ''}" if SALTED else f"{salt or ''}{label or ''}"


def names_of(named) -> tuple:
    """Return the ``extra_key`` and ``cache_salt`` of a request or a key."""
    return named.extra_key, getattr(named, "cache_salt", None)


def made_key(tokens: tuple, names: tuple) -> RadixKey:
    """Return a tree's key."""
    return RadixKey(made_tokens(tokens), names[0], **({"cache_salt": names[1]} if SALTED else {}))


def tokens_of_key(key: RadixKey) -> list[int]:
    """Return the tokens of a tree's key: since 0.5.14 it may be of a part of those that it has."""
    return list(key.raw_token_ids() if hasattr(key, "raw_token_ids") else key.token_ids)


def made_recorder(enabled: bool, page: int, names):
    """Return what a tree tells its events to; before 0.5.19, what says whether and for which pages it would."""
    if not _RECORDED:
        return SimpleNamespace(enabled=enabled, page_size=page)
    more = {"lora_names": names} if _NAMED else {}
    return events.KVCacheEventRecorder(enabled=enabled, page_size=page, **more)


def page_hashes(recorder, node) -> list[int]:
    """Return what events call the pages of a node. Since 0.5.22 the namespace may be in it besides."""
    if _RECORDED:
        texts = recorder._node_event_hash_values(node)
    else:
        of_node = getattr(utils, "compute_node_event_hash_values", utils.compute_node_hash_values)  # Since 0.5.18.
        texts = of_node(node, recorder.page_size)
    hashes = [utils.hash_str_to_int64(text) for text in texts]
    if not hasattr(recorder, "_namespace_seed"):
        return hashes
    seed = recorder._namespace_seed(node)
    return [kv_events.namespaced_block_hash(number, namespace_seed=seed) for number in hashes]


def storage_hashes(key: RadixKey, page: int) -> list[str]:
    """Return what a storage below calls the pages of a key; before 0.5.20 it is what the tree calls them."""
    hashes = getattr(utils, "get_storage_hash_str", None) or utils.get_hash_str
    return hashes(key, None, page_size=page)


def make_requests(kind: type) -> None:
    """Let a scheduler make its requests of a kind of ours: before 0.5.23 it has no method for that, but a name."""
    from sglang.srt.managers import scheduler
    from sglang.srt.session import session_controller

    if not hasattr(scheduler.Scheduler, "_create_generation_req"):
        scheduler.Req = session_controller.Req = kind
