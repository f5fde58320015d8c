"""What a setup of the level ``manager`` becomes: a `KVCacheManager`, and where its scheduler cuts chunks."""

from types import SimpleNamespace

from level import Refused
from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm_common import VERSION, block_sizes, kv_cache_config, needed_blocks, since, taken

__all__ = ["made_manager", "mamba_split", "options"]

_DEFAULTS = {
    "groups": None,
    "spare": 0,
    "max_len": 32,
    "budget": 8,
    "flight": 1,
    "asynchronous": False,
    "caching": True,
    "events": False,
    "fit": True,
    "drafts": 0,
    "lookahead": False,
    "eagle": False,
    "ahead": 0,
    "match_unit": None,
    "retention": None,
    "embeds": False,
}
"""What a setup may say, and what holds where it does not: `spare` blocks beyond those that the release asks for, the
longest request, the tokens of a step, how many steps may be in flight, whether output is counted before it is there,
prefix caching and its events, whether all of a request must fit, drafts a step and slots for them, a drafter with
layers of its own, hashes that look ahead, the user's own choice of tokens per hash, how sparsely states are kept,
prompts that are given as embeddings."""


def options(setup: dict) -> SimpleNamespace:
    """Return a setup with all options.

    Raises
    ------
    Refused
        One is unknown, or the release has no such configuration.
    """
    unknown = sorted(set(setup) - set(_DEFAULTS))
    if unknown:
        raise Refused(f"the manager has no option {', '.join(unknown)}")
    what = SimpleNamespace(**{**_DEFAULTS, **setup})
    _check(what)
    return what


def made_manager(what: SimpleNamespace) -> tuple[KVCacheManager, int, int]:
    """Return the manager, the scheduler's block size and the tokens per hash."""
    in_flight = what.budget * what.flight
    needed = needed_blocks(kv_cache_config(what.groups, 2, what.retention), what.max_len, what.budget, in_flight)
    config = kv_cache_config(what.groups, needed + 1 + what.spare, what.retention)
    scheduler_block, hash_block = block_sizes(config, what.caching, match_unit=what.match_unit)
    manager = taken(
        KVCacheManager,
        {
            "scheduler_block_size": scheduler_block,
            "max_num_batched_tokens": what.budget,
            "max_in_flight_tokens": in_flight,
            "num_hash_lookahead_tokens": what.ahead,
        },
        kv_cache_config=config,
        max_model_len=what.max_len,
        hash_block_size=hash_block,
        enable_caching=what.caching,
        use_eagle=what.eagle and not what.ahead,
        log_stats=True,
        enable_kv_cache_events=what.events,
    )
    return manager, scheduler_block, hash_block


def mamba_split(manager, what: SimpleNamespace, scheduler_block: int, hash_block: int):
    """The release's own rule for where a chunk of a request with mamba groups ends; None without such groups."""
    if all(group["kind"] != "mamba" for group in what.groups):
        return None
    from vllm.v1.core.sched.scheduler import Scheduler

    coordinator = manager.coordinator
    partial = hash_block < scheduler_block and getattr(coordinator, "enable_partial_hash_hits", since((0, 26)))
    checkpoints = all(group.get("checkpoints") for group in what.groups if group["kind"] == "mamba")
    scheduler = SimpleNamespace(
        block_size=scheduler_block,
        cache_config=SimpleNamespace(block_size=min(group["block"] for group in what.groups)),
        hash_block_size=hash_block,
        max_num_scheduled_tokens=what.budget,
        scheduler_config=SimpleNamespace(long_prefill_token_threshold=0),
        use_eagle=what.eagle,
        use_eagle_block_drop=what.eagle and not what.ahead,
        num_hash_lookahead_tokens=what.ahead,
        mamba_partial_cache_hit=partial,
        mamba_has_prefill_checkpoint_blocks=checkpoints,
        mamba_prefill_checkpoint_alignment=None,
        mamba_fine_grained_prefix_cache=False,
        mamba_shared_prefix_checkpoint=False,
    )
    return lambda request, *counts: Scheduler._mamba_block_aligned_split(scheduler, request, *counts)


def _check(what: SimpleNamespace) -> None:
    """Refuse what no configuration of a release has."""
    mamba = [group for group in what.groups if group["kind"] == "mamba"]
    smallest = min(group["block"] for group in what.groups)
    if what.ahead and not since((0, 33)):
        raise Refused(f"vLLM {VERSION} has no hashes that look ahead")
    if what.events and len(what.groups) > 1 and not since((0, 20)):
        raise Refused(f"vLLM {VERSION} makes one group of all layers where it tells KV events")
    if what.retention is not None and not since((0, 30)):
        raise Refused(f"vLLM {VERSION} has no retention interval in its configuration of groups")
    if what.eagle and any(group["kind"] == "chunk" for group in what.groups):
        raise Refused("vLLM has no chunked attention beside a drafter with layers of its own")
    if what.eagle and not since((0, 20)) and any(group["block"] != smallest for group in what.groups):
        raise Refused(f"vLLM {VERSION} has no blocks of several sizes beside a drafter with layers of its own")
    if not mamba:
        return
    if not what.caching or any(group["block"] != smallest for group in mamba):
        raise Refused("mamba groups are driven with caching only, in blocks as large as the smallest")
    if what.budget < smallest:
        raise Refused("a step must be able to take a block of a mamba group")
    if what.drafts and what.flight > 1:
        raise Refused("mamba groups with drafts are driven one step at a time")
