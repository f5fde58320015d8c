"""What differs between releases of SGLang, each in one place."""

import dataclasses

from sglang.srt.disaggregation import kv_events
from sglang.srt.environ import envs
from sglang.srt.mem_cache import events
from sglang.srt.mem_cache.cache_init_params import CacheInitParams
from sglang.srt.mem_cache.utils import hash_str_to_int64

__all__ = [
    "give_up_window_of_prefix",
    "lora_names",
    "made_params",
    "made_recorder",
    "make_requests",
    "name_adapter",
    "page_hashes",
]

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
    if "tree_core_backend" in known:
        usual["tree_core_backend"] = core
    else:
        envs.SGLANG_UNIFIED_RADIX_TREE_CORE_BACKEND.set(core)
    if "kv_event_lora_names" in known:
        usual["kv_event_lora_names"] = names
    return CacheInitParams(disable=False, **usual)


def made_recorder(enabled: bool, page: int, names) -> events.KVCacheEventRecorder:
    """Return what a tree tells its events to."""
    more = {"lora_names": names} if _NAMED else {}
    return events.KVCacheEventRecorder(enabled=enabled, page_size=page, **more)


def page_hashes(recorder, node) -> list[int]:
    """Return what events call the pages of a node. Since 0.5.22 the namespace may be in it besides."""
    hashes = [hash_str_to_int64(text) for text in recorder._node_event_hash_values(node)]
    if not hasattr(recorder, "_namespace_seed"):
        return hashes
    seed = recorder._namespace_seed(node)
    return [kv_events.namespaced_block_hash(number, namespace_seed=seed) for number in hashes]


def make_requests(kind: type) -> None:
    """Let a scheduler make its requests of a kind of ours: before 0.5.23 it has no method for that, but a name."""
    from sglang.srt.managers import scheduler
    from sglang.srt.session import session_controller

    if not hasattr(scheduler.Scheduler, "_create_generation_req"):
        scheduler.Req = session_controller.Req = kind
