"""vLLM's configuration for a setup: made and checked by the release, as on a GPU, for a model that is not there."""

import copy
import functools
import json
import os
import tempfile
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
    def import_kernels(cls) -> None:
        """Import none."""

    @classmethod
    def support_hybrid_kv_cache(cls) -> bool:
        """Return true, as GPU platforms do."""
        return True


# Modules keep the object that they found when they were imported: it stays, and becomes another.
vllm.platforms.current_platform.__class__ = _NoDevice

import vllm.config as config
import vllm.config.vllm as config_module
import vllm.model_executor.models.registry as model_registry
from vllm_common import VERSION, takes

# As on a GPU: its model runners need Triton, of which nothing runs here.
config_module.HAS_TRITON = True
# A model's class is looked at in another process, which takes ten seconds, lest a GPU be touched; here is none.
model_registry._run_in_subprocess = lambda look: look()

__all__ = ["DRAFTERS", "HISPARSE", "Options", "model_config", "settings_for"]

DRAFTERS = ("ngram", "draft_model", "eagle")
HISPARSE = "hisparse"
"""The kind of connector that is an option of the model's attention (`vllm_sparse_plan`)."""

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
    """Blocks beyond what the longest request takes and the null block. Early releases start with -1, as they do not
    count the null block."""
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
    encoder: int = 0
    """Tokens that the encoder of a multimodal model takes in a step, and that its cache holds (0: a model of texts)."""
    embeds: int = 0
    """Prompts may be given as embeddings, all of them (1) or some positions too (2)."""
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
        if connector and connector["kind"] == HISPARSE:
            frozen["runner"] = 2  # It works with no other.
        return cls(**frozen)


_temporary = tempfile.TemporaryDirectory(prefix="kvproof-")
os.environ["VLLM_CACHE_ROOT"] = os.path.join(_temporary.name, "cache")


@functools.cache
def _model_folder() -> str:
    folder = os.path.join(_temporary.name, "model")
    os.mkdir(folder)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(_MODEL, file)
    return folder


def model_config(max_len: int):
    """Return the release's configuration of the model, for the caller alone."""
    return copy.deepcopy(_read_model(max_len))


@functools.cache
def _read_model(max_len: int):
    """Read the model's description as the release does: that takes most of the time of a configuration."""
    folder = _model_folder()
    return config.ModelConfig(model=folder, dtype="float16", seed=0, skip_tokenizer_init=True, max_model_len=max_len)


def settings_for(options: Options, block: int):
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
    for name in {"max_model_len", "original_max_model_len"} & set(vars(settings.model_config)):
        setattr(settings.model_config, name, options.max_len)
    if options.embeds:
        settings.model_config.enable_prompt_embeds = True
    settings.cache_config.block_size = block
    if options.hash_block:
        unit = {"prefix_match_unit", "hash_block_size"} & takes(config.CacheConfig)
        setattr(settings.cache_config, next(iter(unit), "prefix_match_unit"), options.hash_block)
    scheduler = settings.scheduler_config
    for name, value in _numbers(options).items():
        setattr(scheduler, name, value)
    try:
        scheduler.verify_max_model_len(options.max_len)
        if hasattr(settings, "_set_max_num_scheduled_tokens"):
            scheduler.max_num_scheduled_tokens = None
            settings._set_max_num_scheduled_tokens()
        _check_block(settings, block)
    except (AssertionError, ValueError) as error:
        raise Refused(f"vLLM {VERSION}: {error}") from error
    return settings


def _check_block(settings, block: int) -> None:
    """Check the block size once it is known; until 0.17 the check stood among others, where it cannot be called."""
    if hasattr(settings, "validate_block_size"):
        settings.validate_block_size()
    elif settings.cache_config.mamba_cache_mode == "align":
        scheduler = settings.scheduler_config
        if min(scheduler.max_num_batched_tokens, scheduler.long_prefill_token_threshold or block) < block:
            raise ValueError("mamba layers keep states at ends of blocks: a step must be able to fill one")


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
    model = model_config(options.max_len)
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
    # The block size is set once it is known: here a size that no check of others minds.
    cache = config.CacheConfig(block_size=1, enable_prefix_caching=options.caching, mamba_cache_mode=options.mamba)
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

    connector = json.loads(options.connector)
    # It wants a device of NVIDIA's, and comes in behind that check.
    return None if connector["kind"] == HISPARSE else config.KVTransferConfig(**transfer_config(connector))
