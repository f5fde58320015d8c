"""vLLM's engine core over a model runner of ours: its own step functions, its own scheduler, a world that it planned.

Only what would start a process, load a model or ask a device is left out. The world is planned by the release: its
checks of the configuration, its groups, its minimum of blocks for the longest request. What it rejects is `Refused`.
"""

import copy
import functools
import json
import os
import queue
from collections import deque
from dataclasses import dataclass

import vllm.config as config
import vllm_sparse_plan as hisparse
from level import Refused
from vllm.v1.core import kv_cache_utils
from vllm.v1.core.encoder_cache_manager import EncoderCacheManager
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.engine.core import EngineCore
from vllm.v1.structured_output import StructuredOutputManager
from vllm_common import VERSION, block_sizes, call, hasher, kv_cache_config, laid_out, takes
from vllm_settings import DRAFTERS, HISPARSE, Options, model_config, settings_for

__all__ = ["World", "engine_core", "world"]


@dataclass(frozen=True)
class World:
    """What the release makes of the options."""

    settings: object
    """Its configuration."""
    kv_cache: object
    """Its configuration of the KV cache."""
    groups: list
    """The groups as the protocol has them."""
    block: int
    """The tokens that the scheduler counts in."""
    hash_block: int


def world(options: Options) -> World:
    """Plan the world as the engine core does when it starts.

    Raises
    ------
    Refused
        The release would not start with these options.
    """
    if options.runner not in (1, 2):
        raise Refused("there are the model runners 1 and 2")
    os.environ["VLLM_USE_V2_MODEL_RUNNER"] = str(options.runner - 1)
    groups = [dict(group) for group in options.groups]
    _check_mamba(options, groups)
    settings = settings_for(options, min(group["block"] for group in groups))
    connector = json.loads(options.connector) if options.connector else {}
    sparse = connector.get("kind") == HISPARSE
    planned = hisparse.plan(settings, options, connector) if sparse else _plan(settings, options, groups)
    specs = [group.kv_cache_spec for group in planned.kv_cache_groups]
    settings.cache_config.block_size = min(spec.block_size for spec in specs)
    settings.cache_config.num_gpu_blocks = planned.num_blocks
    if connector and not sparse:
        _configure_connector(settings, connector, planned)
    block, hash_block = block_sizes(planned, options.caching, bool(options.connector), options.hash_block or None)
    _note_alignment(planned, settings, block, hash_block)
    told = groups * hisparse.GROUPS if sparse else [_group(spec) for spec in specs]
    return World(settings, planned, told, block, hash_block)


def engine_core(options: Options, planned: World, executor) -> EngineCore:
    """Return the release's engine core over this executor, with its scheduler and its queue of batches."""
    settings = planned.settings
    core = EngineCore.__new__(EngineCore)
    core.vllm_config, core.log_stats, core.model_executor = settings, True, executor
    core.structured_output_manager = _structured_output()
    core.scheduler = _scheduler(settings.scheduler_config.get_scheduler_cls(), planned, core.structured_output_manager)
    if options.encoder:
        core.scheduler.max_num_encoder_input_tokens = options.encoder
        core.scheduler.encoder_cache_manager = EncoderCacheManager(cache_size=options.encoder)
    core.batch_queue_size = _concurrent_batches(options, settings)
    core.batch_queue = deque(maxlen=core.batch_queue_size) if core.batch_queue_size > 1 else None
    core.step_fn = core.step if core.batch_queue is None else core.step_with_batch_queue
    core.use_spec_decode = core.check_for_draft_tokens = settings.speculative_config is not None
    core.async_scheduling = options.asynchronous
    core.is_ec_producer = core.is_pooling_model = core.is_mm_encoder_only = core._scheduler_paused = False
    core.is_ec_consumer = True
    core._weight_version = "default"
    core.aborts_queue = queue.Queue()
    core.request_block_hasher = None
    if options.caching or options.connector:
        core.request_block_hasher = hasher(planned.hash_block, getattr(settings, "num_hash_lookahead_tokens", 0))
    return core


def _scheduler(kind: type, planned: World, structured_output) -> Scheduler:
    more = {"hash_block_size": planned.hash_block} if "hash_block_size" in takes(Scheduler) else {}
    try:
        return kind(
            vllm_config=planned.settings,
            kv_cache_config=planned.kv_cache,
            structured_output_manager=structured_output,
            block_size=planned.block,
            log_stats=True,
            **more,
        )
    except (AssertionError, NotImplementedError, ValueError) as error:
        raise Refused(f"vLLM {VERSION}: {type(error).__name__}: {error}") from error


def _concurrent_batches(options: Options, settings) -> int:
    """How many steps may be under way, by the release's rule (before 0.24 the executors had it)."""
    if hasattr(type(settings), "max_concurrent_batches"):
        return settings.max_concurrent_batches
    if options.stages > 1:
        return options.stages
    return 2 if options.asynchronous else 1


@functools.cache
def _structured_output() -> StructuredOutputManager:
    """One for all: requests here ask for no structure."""
    model = model_config(32)
    return StructuredOutputManager(config.VllmConfig(model_config=model))


# The plan of the KV cache


def _check_mamba(options: Options, groups: list[dict]) -> None:
    """Refuse what the models' own rules for mamba layers would have made otherwise."""
    blocks = [group["block"] for group in groups if group["kind"] == "mamba"]
    if not blocks:
        if options.mamba != "none":
            raise Refused("a mode of mamba layers without mamba layers")
        return
    if (options.mamba == "none") == options.caching:
        raise Refused("mamba layers keep states exactly when prefixes are cached")
    expected = options.max_len if options.mamba == "none" else min(group["block"] for group in groups)
    if any(block != expected for block in blocks):
        raise Refused(f"a mamba layer's block is {expected} tokens here")
    if options.spec >= expected:
        raise Refused("a mamba layer's block holds at least a step's drafts and one token more")


def _plan(settings, options: Options, groups: list[dict]):
    """Let the release group the layers, check the pool against its minimum, and lay the KV cache out."""
    for group in groups:
        if group["kind"] == "mamba":
            group.update(mode=options.mamba, speculative=options.spec)
    if options.blocks:
        return _planned(settings, options, groups, options.blocks)
    needed = _needed_blocks(settings, kv_cache_config(groups, 1))
    return _planned(settings, options, groups, needed + 1 + options.spare)


def _needed_blocks(settings, wanted) -> int:
    """How many blocks the layers say that the longest request takes."""
    specs = [group.kv_cache_spec for group in wanted.kv_cache_groups]
    return sum(-(-spec.max_memory_usage_bytes(settings) // spec.page_size_bytes) for spec in specs)


def _planned(settings, options: Options, groups: list[dict], blocks: int):
    wanted = kv_cache_config(groups, blocks)
    layers = {name: group.kv_cache_spec for group in wanted.kv_cache_groups for name in group.layer_names}
    if DRAFTERS[options.drafter] == "eagle" and options.spec:
        _mark_draft(layers)
    memory = blocks * wanted.kv_cache_groups[0].kv_cache_spec.page_size_bytes
    try:
        planned = laid_out(settings, layers, memory)
    except (AssertionError, NotImplementedError, ValueError) as error:
        raise Refused(f"vLLM {VERSION}: {type(error).__name__}: {error}") from error
    if planned.num_blocks != blocks:
        raise Refused(f"vLLM {VERSION} plans {planned.num_blocks} blocks for {blocks}")
    return planned


def _mark_draft(layers: dict) -> None:
    """Let the first full-attention layer be the drafter's, where releases look at that."""
    for name, spec in layers.items():
        if hasattr(spec, "is_draft") and type(spec).__name__ == "FullAttentionSpec":
            layers[name] = copy.copy(spec)
            object.__setattr__(layers[name], "is_draft", True)
            return


def _note_alignment(planned, settings, block: int, hash_block: int) -> None:
    """Write into the plan what later releases keep there for connectors."""
    resolve = getattr(kv_cache_utils, "resolve_cache_hit_alignment_tokens", None)
    if hasattr(planned, "hash_block_size"):
        planned.hash_block_size = hash_block
    if resolve and hasattr(planned, "cache_hit_alignment_tokens"):
        planned.cache_hit_alignment_tokens = call(
            resolve,
            kv_cache_config=planned,
            vllm_config=settings,
            scheduler_block_size=block,
            hash_block_size=hash_block,
        )


def _group(spec) -> dict:
    """A group of the plan as the protocol has it."""
    group = {"kind": _KINDS[type(spec).__name__], "block": spec.block_size}
    window = getattr(spec, "sliding_window", None) or getattr(spec, "attention_chunk_size", None)
    return {**group, "window": window} if window else group


_KINDS = {
    "FullAttentionSpec": "full",
    "SlidingWindowSpec": "window",
    "ChunkedLocalAttentionSpec": "chunk",
    "MambaSpec": "mamba",
}


def _configure_connector(settings, connector: dict, planned) -> None:
    """Tell the connector of the sizes that only the plan knows."""
    from vllm_connectors import configure

    configure(settings, connector, planned)
