"""vLLM's engine core over a model runner of ours: its own step functions, its own scheduler, a real configuration.

Only what would start a process, load a model or ask a device is left out. The world is planned by the release: its
checks of the configuration, its groups, its minimum of blocks for the longest request. What it rejects is `Refused`.
"""

import copy
import functools
import json
import os
import queue
import tempfile
from collections import deque
from dataclasses import dataclass, fields

import vllm.platforms
from level import Refused
from vllm.platforms.cpu import CpuPlatform


class _NoDevice(CpuPlatform):
    """A platform that changes nothing in a configuration: it is to be as on a GPU."""

    @classmethod
    def check_and_update_config(cls, vllm_config) -> None:
        """Leave the configuration as it is."""

    @classmethod
    def support_hybrid_kv_cache(cls) -> bool:
        """Return true, as GPU platforms do."""
        return True


# Before the modules that look at the platform while they are imported.
vllm.platforms._current_platform = _NoDevice()

import vllm.config as config  # noqa: E402
from vllm.v1.core import kv_cache_utils  # noqa: E402
from vllm.v1.core.sched.scheduler import Scheduler  # noqa: E402
from vllm.v1.engine.core import EngineCore  # noqa: E402
from vllm.v1.structured_output import StructuredOutputManager  # noqa: E402
from vllm_common import VERSION, block_sizes, call, hasher, kv_cache_config, taken, takes  # noqa: E402

try:
    from vllm.v1.core import kv_cache_planning as planning
except ImportError:
    planning = kv_cache_utils

__all__ = ["Options", "World", "engine_core", "world"]

DRAFTERS = ("ngram", "draft_model", "eagle")

_MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "max_position_embeddings": 2048,
    "vocab_size": 1024,
    "torch_dtype": "float16",
}
"""A small model's description. Only its lengths matter: the layers are those of the setup."""


@dataclass(frozen=True)
class Options:
    """A setup of the level `scheduler`; all but groups and blocks may be left out."""

    groups: tuple = ()
    """Per group `kind`, `block` and, for window and chunk, `window`."""
    blocks: int = 0
    """Blocks of the pool, the null block among them (0: as `spare` says)."""
    spare: int = 0
    """Blocks beyond the release's own minimum."""
    max_len: int = 32
    """Tokens of the longest request."""
    budget: int = 16
    """Tokens of a step."""
    max_seqs: int = 4
    """Requests of a step."""
    caching: bool = True
    chunked: bool = True
    long_prefill: int = 0
    """Tokens of one prefill in a step (0: the budget)."""
    priority: bool = False
    asynchronous: bool = False
    """Step k+1 is scheduled before step k is processed."""
    stages: int = 1
    """Pipeline stages."""
    runner: int = 1
    """Which of vLLM's two model runners the scheduler works with."""
    spec: int = 0
    """Draft tokens a step."""
    drafter: int = 0
    """Where drafts come from, of `DRAFTERS`."""
    adapters: int = 0
    """Adapters that a step may use."""
    events: bool = False
    hash_block: int = 0
    """The user's own choice of tokens per hash (0: the release's)."""
    mamba: str = "none"
    """Which states of mamba layers are kept: `none`, `align` or `all`."""
    watermark: int = 0
    """Percent of the pool that stays free when a request is admitted."""
    reserve: bool = True
    """Admit a request only when all of it fits."""
    connector: str = ""
    """The connector's setup, as JSON."""

    @classmethod
    def of(cls, setup: dict) -> "Options":
        """Return the options of a setup.

        Raises
        ------
        Refused
            It has one that there is not.
        """
        unknown = sorted(set(setup) - {field.name for field in fields(cls)})
        if unknown:
            raise Refused(f"the scheduler has no option {', '.join(unknown)}")
        frozen = dict(setup, groups=tuple(tuple(sorted(group.items())) for group in setup["groups"]))
        connector = setup.get("connector")
        frozen["connector"] = json.dumps(connector, sort_keys=True) if connector else ""
        return cls(**frozen)


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
    settings = _settings(options, min(group["block"] for group in groups))
    planned = _plan(settings, options, groups)
    specs = [group.kv_cache_spec for group in planned.kv_cache_groups]
    settings.cache_config.block_size = min(spec.block_size for spec in specs)
    settings.cache_config.num_gpu_blocks = planned.num_blocks
    if options.connector:
        _configure_connector(settings, options, planned)
    block, hash_block = block_sizes(planned, options.caching, bool(options.connector), options.hash_block or None)
    _note_alignment(planned, settings, block, hash_block)
    return World(settings, planned, [_group(spec) for spec in specs], block, hash_block)


def engine_core(options: Options, planned: World, executor) -> EngineCore:
    """Return the release's engine core over this executor, with its scheduler and its queue of batches."""
    settings = planned.settings
    core = EngineCore.__new__(EngineCore)
    core.vllm_config, core.log_stats, core.model_executor = settings, True, executor
    core.structured_output_manager = _structured_output()
    core.scheduler = _scheduler(settings.scheduler_config.get_scheduler_cls(), planned, core.structured_output_manager)
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


# The configuration


@functools.cache
def _model_folder() -> str:
    folder = tempfile.mkdtemp(prefix="kvproof-model-")
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(_MODEL, file)
    return folder


@functools.cache
def _structured_output() -> StructuredOutputManager:
    """One for all: requests here ask for no structure."""
    model = _model_config(32)
    return StructuredOutputManager(config.VllmConfig(model_config=model))


def _model_config(max_len: int):
    folder = _model_folder()
    return config.ModelConfig(model=folder, dtype="float16", seed=0, skip_tokenizer_init=True, max_model_len=max_len)


def _settings(options: Options, block: int):
    """Return the release's configuration with these options.

    What is costly to make is made once for all that differ in numbers only; those are set on a copy, with the
    release's own checks of them.
    """
    shared = Options(**{name: getattr(options, name) for name in _STRUCTURE})
    made = _made_settings(shared, hybrid=len(options.groups) > 1)
    if isinstance(made, Refused):
        raise made
    settings = copy.copy(made)
    for part in ("model_config", "scheduler_config", "cache_config"):
        setattr(settings, part, copy.copy(getattr(made, part)))
    settings.model_config.max_model_len = options.max_len
    settings.cache_config.block_size = block
    scheduler = settings.scheduler_config
    for name, value in _numbers(options).items():
        setattr(scheduler, name, value)
    try:
        scheduler.verify_max_model_len(options.max_len)
        if hasattr(settings, "_set_max_num_scheduled_tokens"):
            scheduler.max_num_scheduled_tokens = None
            settings._set_max_num_scheduled_tokens()
    except ValueError as error:
        raise Refused(f"vLLM {VERSION}: {error}") from error
    return settings


_STRUCTURE = (
    "caching",
    "asynchronous",
    "stages",
    "runner",
    "spec",
    "drafter",
    "adapters",
    "events",
    "mamba",
    "connector",
)
"""The options that decide more of a configuration than a number in it."""


def _numbers(options: Options) -> dict:
    """What of the options is nothing but a value of the scheduler's configuration."""
    values = {
        "max_num_seqs": options.max_seqs,
        "max_num_batched_tokens": options.budget,
        "long_prefill_token_threshold": options.long_prefill,
        "enable_chunked_prefill": options.chunked,
        "policy": "priority" if options.priority else "fcfs",
    }
    if options.watermark:
        values["watermark"] = options.watermark / 100
    if not options.reserve:
        values["scheduler_reserve_full_isl"] = False
    absent = sorted(set(values) - takes(config.SchedulerConfig))
    if absent:
        raise Refused(f"vLLM {VERSION} has no option {', '.join(absent)}")
    return values


@functools.lru_cache(maxsize=512)
def _made_settings(options: Options, hybrid: bool):
    """Make a configuration; a refusal is returned, so that it is remembered as well."""
    try:
        return _make_settings(options, hybrid)
    except (AssertionError, ImportError, NotImplementedError, TypeError, ValueError) as error:
        return Refused(f"vLLM {VERSION}: {type(error).__name__}: {error}")
    except Refused as error:
        return error


def _make_settings(options: Options, hybrid: bool):
    model = _model_config(options.max_len)
    parallel = config.ParallelConfig(pipeline_parallel_size=options.stages)
    # Early releases give groups up for a connector unless they are told not to.
    groups = {"disable_hybrid_kv_cache_manager": False} if hybrid and options.connector else {}
    scheduler = config.SchedulerConfig(
        max_model_len=options.max_len,
        async_scheduling=options.asynchronous,
        is_encoder_decoder=False,
        **_numbers(options),
        **groups,
    )
    cache = config.CacheConfig(enable_prefix_caching=options.caching, mamba_cache_mode=options.mamba)
    if hasattr(cache, "kv_cache_layout"):
        cache.kv_cache_layout = "BLHNC"
    events = config.KVEventsConfig(enable_kv_cache_events=True, publisher="null") if options.events else None
    return config.VllmConfig(
        model_config=model,
        parallel_config=parallel,
        scheduler_config=scheduler,
        cache_config=cache,
        kv_events_config=events,
        speculative_config=_speculation(options, model, parallel),
        lora_config=config.LoRAConfig(max_loras=options.adapters) if options.adapters else None,
        kv_transfer_config=_transfer(options),
    )


def _speculation(options: Options, model, parallel):
    if not options.spec:
        return None
    method = DRAFTERS[options.drafter]
    if method == "ngram":
        more = {"prompt_lookup_max": 2, "prompt_lookup_min": 1}
    else:
        more = {"model": _model_folder(), "target_model_config": model, "target_parallel_config": parallel}
    return config.SpeculativeConfig(method=method, num_speculative_tokens=options.spec, **more)


def _transfer(options: Options):
    if not options.connector:
        return None
    from vllm_connectors import transfer_config

    return config.KVTransferConfig(**transfer_config(json.loads(options.connector)))


def _configure_connector(settings, options: Options, planned) -> None:
    """Tell the connector of the sizes that only the plan knows."""
    from vllm_connectors import configure

    configure(settings, json.loads(options.connector), planned)


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
    try:
        return _planned(settings, options, groups, needed + options.spare)
    except Refused:
        if options.spare:
            raise
        # Later releases count the null block as well.
        return _planned(settings, options, groups, needed + 1)


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
    arguments = [settings, [layers], [memory]]
    try:
        if hasattr(planning, "get_global_kv_cache_groups"):
            arguments.append(planning.get_global_kv_cache_groups(settings, [layers]))
        planned = kv_cache_utils.generate_scheduler_kv_cache_config(planning.get_kv_cache_configs(*arguments))
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
