"""What every level of vLLM needs, and what differs between its releases (0.16 to 0.33): in one place.

Differences are found by looking at the release's own signatures, or by its version where they are of behaviour. What is
asked for and does not exist in a release is `Refused`, with the reason: never a finding.
"""

import functools
import importlib.metadata
import inspect
import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from types import SimpleNamespace

import torch
from drift import released
from level import Level, Refused
from vllm.distributed.kv_events import AllBlocksCleared, BlockRemoved, BlockStored
from vllm.lora.request import LoRARequest
from vllm.multimodal.inputs import MultiModalFeatureSpec, PlaceholderRange
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import get_hash_fn_by_name
from vllm.v1 import kv_cache_interface as interface
from vllm.v1.core import kv_cache_utils
from vllm.v1.request import Request
from vllm_embeds import prompt
from vllm_reading import raw_state, refusal, tables, told

try:
    from vllm.v1.core import kv_cache_planning as planning
except ImportError:  # Before 0.33 it stood there.
    planning = kv_cache_utils

__all__ = [
    "DIGEST",
    "RELEASE",
    "VERSION",
    "Keys",
    "adapter_of",
    "block_sizes",
    "call",
    "event_effects",
    "hasher",
    "hits_dialect",
    "kv_cache_config",
    "laid_out",
    "make_request",
    "needed_blocks",
    "pool_state",
    "refusal",
    "register_specs",
    "since",
    "tables",
    "taken",
    "takes",
    "world_groups",
]

VERSION = importlib.metadata.version("vllm").partition("+")[0]
RELEASE = released(VERSION)
DIGEST = 32
"""Bytes of a block hash (sha256, the default)."""

_TIERS = {"GPU": "device", "CPU": "host"}


def since(release: tuple[int, ...]) -> bool:
    """Return whether the installed release is this one or a later one."""
    return release <= RELEASE


# Calls whose signatures drift


@functools.cache
def takes(target) -> frozenset[str]:
    """The names of the arguments that a function or class of this release takes."""
    return frozenset(inspect.signature(target).parameters)


def call(target, optional: dict | None = None, **required):
    """Call with these arguments, and with those of the optional ones that this release's signature has."""
    names = takes(target)
    absent = [name for name in required if name not in names]
    if absent:
        raise Refused(f"vLLM {VERSION}: {target.__qualname__} does not take {', '.join(absent)}")
    for name, value in (optional or {}).items():
        if name in names:
            required[name] = value
    return target(**required)


def taken(target, optional: dict | None = None, **required):
    """As `call`, for what is made of a setup: what the release's own checks reject is `Refused`."""
    try:
        return call(target, optional, **required)
    except (AssertionError, NotImplementedError, ValueError) as error:
        raise Refused(f"vLLM {VERSION}: {target.__qualname__}: {type(error).__name__}: {error}") from error


# Hash keys


class Keys:
    """Numbers hash keys in the order in which it meets them, whatever form the release gives them."""

    def __init__(self) -> None:
        self._next = itertools.count()
        self._numbers: dict[bytes, int] = {}
        self._external: dict[int, int] = {}
        self._grouped: dict[bytes, tuple[int, int]] = {}
        self._told: dict[str, list[int]] = defaultdict(list)
        """The keys of a request that were announced."""

    def number(self, key: bytes) -> int:
        """Return the number of a key.

        Of a key that early releases make of several (one per hash block) the last one counts: it is chained, and covers
        what those before it cover.
        """
        last = key[-DIGEST:]
        number = self._numbers.get(last)
        if number is None:
            low = int.from_bytes(last, "big") & (2**64 - 1)
            number = self._numbers[last] = self._external.setdefault(low, next(self._next))
        return number

    def grouped(self, key: bytes) -> tuple[int, int]:
        """Return the number and the group of a key as the prefix-cache map has it."""
        known = self._grouped.get(key)
        if known is None:
            bare, group = kv_cache_utils.get_block_hash(key), kv_cache_utils.get_group_id(key)
            known = self._grouped[key] = (self.number(bare), group)
        return known

    def external(self, key: int | bytes) -> int:
        """Return the number of a key as KV events have it."""
        if isinstance(key, bytes):
            return self.number(key)
        number = self._external.get(key)
        if number is None:
            number = self._external[key] = next(self._next)
        return number

    def announce(self, level: Level, r: str, request: Request) -> None:
        """Tell the keys that the request has got since it was last announced."""
        told, hashes = self._told[r], request.block_hashes
        if len(hashes) > len(told):
            more = [self.number(key) for key in hashes[len(told) :]]
            level.tell("keys", r, len(told), more)
            told += more

    def announce_anew(self, level: Level, r: str, request: Request) -> None:
        """The same of a request whose keys may have become others, as those of a session do."""
        now = [self.number(key) for key in request.block_hashes]
        pairs = zip(self._told[r], now, strict=False)
        self.cut(r, sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)))
        self.announce(level, r, request)

    def cut(self, r: str, keys: int) -> None:
        """A request has given up what all its keys but so many name: these are announced anew."""
        del self._told[r][keys:]


# KV-cache groups


def kv_cache_config(groups: list[dict], blocks: int, retention: int | None = None) -> interface.KVCacheConfig:
    """Return the configuration of a pool of ``blocks`` blocks that these groups share.

    A group is ``{"kind": "full" | "window" | "chunk" | "mamba", "block": tokens, "window": tokens, "eagle": false,
    "mode": "align", "speculative": 0, "checkpoints": 0}``; the last three for ``mamba``. All pages have the same number
    of bytes, as the release's own planner makes them.
    """
    register_specs()
    unit = math.lcm(*(group["block"] for group in groups))
    specs = [_group_spec(number, group, unit) for number, group in enumerate(groups)]
    return call(
        interface.KVCacheConfig,
        {"prefix_cache_retention_interval": retention},
        num_blocks=blocks,
        kv_cache_tensors=_tensors(specs, blocks),
        kv_cache_groups=specs,
    )


def laid_out(settings, layers: dict[str, interface.KVCacheSpec], memory: int) -> interface.KVCacheConfig:
    """Return the release's own plan of the KV cache of these layers, on a device with so many bytes for it.

    Raises
    ------
    AssertionError, NotImplementedError, ValueError
        The release does not take them.
    """
    arguments = [settings, [layers], [memory]]
    if hasattr(planning, "get_global_kv_cache_groups"):
        arguments.append(planning.get_global_kv_cache_groups(settings, [layers]))
    return kv_cache_utils.generate_scheduler_kv_cache_config(planning.get_kv_cache_configs(*arguments))


def world_groups(groups: list[dict]) -> list[dict]:
    """Return the groups as the protocol's world has them."""
    return [{name: group[name] for name in ("kind", "block", "window") if name in group} for group in groups]


def hits_dialect(
    groups: list[dict],
    *,
    on: bool,
    eagle: bool,
    ahead: int,
    unseen: bool = False,
    sparse: bool = False,
    embeds: bool = False,
) -> dict:
    """Return what lookups of a configuration promise, as the world's dialect has it.

    ``on``: prefix caching; ``eagle``: a drafter's layers want the end of a hit computed again; ``ahead``: tokens that
    are not sure yet, which delay registration; ``unseen``: blocks may be taken and given back within one step;
    ``sparse``: of windows not all are kept that a hit in whole blocks needs (a retention interval); ``embeds``: prompts
    may be given as embeddings, and a token among these has another key than one that was sampled, or stands in a text.
    """
    dialect: dict = {}
    if embeds:
        return dialect
    if on and eagle:
        dialect["drop"] = math.lcm(*(group["block"] for group in groups))
    if not on:
        dialect["keep"] = "none"
    elif not ahead and not unseen and _all_is_kept({group["kind"] for group in groups}, eagle or sparse):
        dialect["keep"] = "all"
    return dialect


def _all_is_kept(kinds: set[str], in_part: bool) -> bool:
    """Whether what layers of these kinds computed is found again. States of mamba layers are kept now and then, chunks
    where nothing reads them are not; of windows those that end with whole blocks of all groups."""
    return kinds == {"full"} or (kinds <= {"full", "window"} and not in_part)


def block_sizes(
    config: interface.KVCacheConfig, caching: bool = True, connector: bool = False, match_unit: int | None = None
) -> tuple[int, int]:
    """Return the scheduler's block size and the tokens per hash, by the release's own rule.

    ``match_unit``: the user's own choice of tokens per hash, where the release has one.
    """
    sizes = [group.kv_cache_spec.block_size for group in config.kv_cache_groups]
    smallest = min(sizes)
    if not hasattr(kv_cache_utils, "resolve_kv_cache_block_sizes"):
        if match_unit not in (None, smallest) or any(size % smallest for size in sizes):
            raise Refused(f"vLLM {VERSION} hashes by its smallest block only, which must divide the others")
        return smallest, smallest
    settings = SimpleNamespace(
        cache_config=SimpleNamespace(
            block_size=smallest,
            enable_prefix_caching=caching,
            hash_block_size=match_unit,
            prefix_match_unit=match_unit,
        ),
        parallel_config=SimpleNamespace(decode_context_parallel_size=1, prefill_context_parallel_size=1),
        kv_transfer_config=object() if connector else None,
    )
    scheduler, per_hash = taken(
        kv_cache_utils.resolve_kv_cache_block_sizes, kv_cache_config=config, vllm_config=settings
    )
    if (caching or connector) and any(size % per_hash for size in sizes):
        raise Refused(f"vLLM {VERSION} hashes {per_hash} tokens at once, which does not divide the groups' {sizes}")
    return scheduler, per_hash


def needed_blocks(config: interface.KVCacheConfig, max_len: int, budget: int, in_flight: int) -> int:
    """Return how many blocks the release itself asks for, so that one request of ``max_len`` tokens fits.

    ``budget``: tokens of a step; ``in_flight``: tokens of all steps that may be scheduled and not processed.
    """
    modes = [getattr(group.kv_cache_spec, "mamba_cache_mode", None) for group in config.kv_cache_groups]
    settings = SimpleNamespace(
        model_config=SimpleNamespace(max_model_len=max_len),
        scheduler_config=SimpleNamespace(max_num_batched_tokens=budget),
        parallel_config=SimpleNamespace(decode_context_parallel_size=1, prefill_context_parallel_size=1),
        cache_config=SimpleNamespace(mamba_cache_mode=next(filter(None, modes), "none")),
        max_in_flight_tokens=in_flight,
    )
    specs = [group.kv_cache_spec for group in config.kv_cache_groups]
    return sum(-(-spec.max_memory_usage_bytes(settings) // spec.page_size_bytes) for spec in specs)


@functools.cache
def register_specs() -> None:
    """Let the release know its own kinds of groups, as its engine core does at start."""
    from vllm.v1.core import single_type_kv_cache_manager as managers

    if hasattr(managers, "register_all_kvcache_specs"):
        managers.register_all_kvcache_specs(None)


def _group_spec(number: int, group: dict, unit: int) -> interface.KVCacheGroupSpec:
    return call(
        interface.KVCacheGroupSpec,
        {"is_eagle_group": bool(group.get("eagle"))},
        layer_names=[f"model.layers.{number}.self_attn.attn"],
        kv_cache_spec=_SPECS[group["kind"]](group, unit),
    )


def _attention(cls, group: dict, unit: int, **more) -> interface.KVCacheSpec:
    """An attention layer whose page takes ``64 * unit`` bytes, whatever the tokens per block."""
    head = 16 * unit // group["block"]
    return call(cls, block_size=group["block"], num_kv_heads=1, head_size=head, dtype=torch.float16, **more)


def _full(group: dict, unit: int) -> interface.KVCacheSpec:
    return _attention(interface.FullAttentionSpec, group, unit)


def _window(group: dict, unit: int) -> interface.KVCacheSpec:
    return _attention(interface.SlidingWindowSpec, group, unit, sliding_window=group["window"])


def _chunk(group: dict, unit: int) -> interface.KVCacheSpec:
    return _attention(interface.ChunkedLocalAttentionSpec, group, unit, attention_chunk_size=group["window"])


def _mamba(group: dict, unit: int) -> interface.KVCacheSpec:
    checkpoints = group.get("checkpoints", 0)
    more = {"num_prefill_checkpoint_blocks": checkpoints} if checkpoints else {}
    return call(
        interface.MambaSpec,
        block_size=group["block"],
        shapes=((32 * unit,),),
        dtypes=(torch.float16,),
        mamba_cache_mode=group.get("mode", "align"),
        num_speculative_blocks=group.get("speculative", 0),
        **more,
    )


_SPECS = {"full": _full, "window": _window, "chunk": _chunk, "mamba": _mamba}


def _tensors(specs: list[interface.KVCacheGroupSpec], blocks: int) -> list[interface.KVCacheTensor]:
    """One layer a group, all of them over the same bytes: a block belongs to one group at a time."""
    page = specs[0].kv_cache_spec.page_size_bytes
    names = [name for spec in specs for name in spec.layer_names]
    if "shared_by" in takes(interface.KVCacheTensor):
        return [interface.KVCacheTensor(size=page * blocks, shared_by=names)]
    place = {"size": page * blocks, "layer_stride": page * blocks, "block_stride": page}
    return [call(interface.KVCacheTensor, layers=[name], **place) for name in names]


# Requests


@functools.cache
def hasher(hash_block: int, lookahead: int = 0):
    """Return the release's own function from a request to its new block hashes.

    ``lookahead``: tokens behind a block that its hash covers as well, where the release has that.
    """
    function = get_hash_fn_by_name("sha256")
    kv_cache_utils.init_none_hash(function)
    more = (lookahead,) if lookahead else ()
    if more and "num_hash_lookahead_tokens" not in takes(kv_cache_utils.get_request_block_hasher):
        raise Refused(f"vLLM {VERSION} has no hashes that look ahead")
    return kv_cache_utils.get_request_block_hasher(hash_block, function, *more)


def adapter_of(name: str | None, args: dict) -> str | None:
    """Return the adapter of a request, as `make_request` takes it; ``moved``: another one was loaded under its name."""
    return f"{name}@2" if name and args.get("moved") else name


def make_request(
    r: str,
    tokens: list[int],
    *,
    block_hasher=None,
    max_tokens: int = 16,
    min_tokens: int = 0,
    adapter: str | None = None,
    salt: str | None = None,
    items: list[tuple[int, int, str]] = (),
    priority: int = 0,
    arrival: float = 0.0,
    goes_on: bool = False,
    extra: dict | None = None,
    embeds: Sequence[bool] = (),
) -> Request:
    """Return a request as the release's engine core would make it.

    ``adapter``: its name, and behind an ``@`` where it was loaded from, where it is another one than at first;
    ``items``: offset, length and name of each multimodal item, in order and apart; ``block_hasher``: of `hasher`, or
    none where caching is off; ``goes_on``: a session, which waits for more when it is served; ``extra``: the sampling
    parameters' extra arguments; ``embeds``: which positions are given as embeddings, of which the token says only what
    they are.
    """
    sampling = SamplingParams(
        temperature=0.0, max_tokens=max_tokens, min_tokens=min_tokens, ignore_eos=True, extra_args=extra
    )
    lora = None
    if adapter:
        # Whoever loads another adapter under a name gives it a number of its own.
        number = 1 + int.from_bytes(adapter.encode(), "big") % 2**31
        lora = LoRARequest(adapter.partition("@")[0], number, f"/{adapter}")
    features = [
        MultiModalFeatureSpec(None, "image", name, PlaceholderRange(offset, length)) for offset, length, name in items
    ]
    return call(
        Request,
        {"eos_token_id": None},
        request_id=r,
        **prompt(tokens, embeds),
        sampling_params=sampling,
        pooling_params=None,
        arrival_time=arrival,
        mm_features=features or None,
        lora_request=lora,
        cache_salt=salt,
        priority=priority,
        block_hasher=block_hasher,
        **({"resumable": True} if goes_on else {}),
    )


# What is told


def pool_state(pool, keys: Keys) -> dict:
    """Return a block pool's state as the protocol has it (`raw_state`), its hash keys numbered."""
    return told(raw_state(pool), keys.grouped)


def event_effects(
    level: Level,
    keys: Keys,
    events,
    tier: str = "device",
    tokens: bool = True,
    media: Mapping[str, str] = _TIERS,
    also: Sequence[str] = (),
) -> None:
    """Tell KV events. ``tier``: where an event says nothing of its medium; ``media``: the tier of each medium, by its
    name; ``tokens``: whether those that an event tells are the requests' (in place of embeddings it tells zeros);
    ``also``: the tiers of which the same queue tells, and which a clear empties too."""
    for event in events or ():
        medium = getattr(event, "medium", None)
        place = tier if medium is None else media.get(medium.upper(), medium.lower())
        if isinstance(event, AllBlocksCleared):
            for each in (place, *also) if medium is None else (place,):
                level.tell("cleared", each)
            continue
        numbers = [keys.external(key) for key in event.block_hashes]
        group = getattr(event, "group_idx", None)
        if isinstance(event, BlockStored):
            parent = event.parent_block_hash
            before = None if parent is None else keys.external(parent)
            told = (list(event.token_ids) or None) if tokens else None
            further = [repr(key) if key else "" for key in event.extra_keys or [None] * len(numbers)] if told else None
            level.tell("stored", place, group, numbers, before, told, event.block_size, further)
        elif isinstance(event, BlockRemoved):
            level.tell("removed", place, group, numbers)
        else:
            raise TypeError(f"vLLM {VERSION} has an event that the worker does not know: {type(event).__name__}")
