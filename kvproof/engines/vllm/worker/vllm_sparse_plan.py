"""vLLM's HiSparse (since 0.30) planned: sparse attention whose KV lies on the host, and on the device for a while.

A model of this kind has layers that read a few tokens of all, and indexers that say which. The release lays their KV
out in groups of its own: the *source* (all of it, on the host), the indexers', *resident* pages (what of the source
also lies on the device), and *hot* regions (where what is read of the host is brought to). The protocol's world has two
groups of full attention: the sparse layers, and their indexers.

A connector's setup ``{"kind": "hisparse", …}`` asks for it: ``room`` on the host beside what the longest request needs
there, in blocks; ``hot`` blocks of a region; ``layers`` (1 or 2, each with resident pages of its own); ``late`` (what
decoding writes goes to the host page by page, and not row by row); ``remote`` (prefills come from elsewhere too,
`vllm_remote_connector`); ``fail`` (what is done about failed loads: recompute or fail).
"""

import copy

import vllm_remote_connector as remote
from level import Refused
from vllm_common import VERSION, laid_out, register_specs

try:
    from vllm.config.attention import HiSparseConfig
    from vllm.config.kv_transfer import KVTransferConfig
    from vllm.v1.hisparse import layout
    from vllm.v1.hisparse.runtime import get_hisparse_host_block_stride
    from vllm.v1.kv_cache_interface import MLAAttentionSpec, SparseCacheRole
except ImportError:
    layout = None

import torch

__all__ = ["GROUPS", "plan"]

GROUPS = 2
"""Groups of the protocol's world."""

_BESIDE = 2
"""Blocks of the host that the release wants beside those of the longest request: the null block, and one to copy to."""
_PLENTY = 10_000
_MEMORY = 2**40
"""Bytes of the device: how many blocks there are is said apart."""


def plan(settings, options, connector: dict):
    """Put HiSparse into a configuration, and return the release's plan of the KV cache.

    Raises
    ------
    Refused
        The release does not have it, or does not take it with these options.
    """
    if layout is None:
        raise Refused(f"vLLM {VERSION} has no HiSparse that this driver knows")
    if len(options.groups) != 1 or dict(options.groups[0])["kind"] != "full":
        raise Refused("HiSparse is of layers of full attention")
    if options.stages > 1 or not options.reserve:
        raise Refused("HiSparse works on one stage, and admits whole requests alone")
    register_specs()
    layers = _layers(dict(options.groups[0])["block"], connector.get("layers", 1))
    _configure(settings, options, connector, layers)
    try:
        return _planned(settings, options, layers)
    except (AssertionError, NotImplementedError, ValueError) as error:
        raise Refused(f"vLLM {VERSION}: {type(error).__name__}: {error}") from error


def _layers(block: int, count: int) -> dict:
    """So many sparse layers, each with an indexer."""
    shape = {"block_size": block, "num_kv_heads": 1, "head_size": 16, "dtype": torch.float16}
    kinds = (("attn", SparseCacheRole.SPARSE), ("indexer", SparseCacheRole.INDEXER))
    found = {
        f"model.layers.{number}.{name}": MLAAttentionSpec(**shape, cache_role=role, is_index_group_leader=True)
        for number in range(count)
        for name, role in kinds
    }
    # One indexer's page is as large as one layer's: with several layers the release makes a resident group of each.
    return {name: spec for name, spec in found.items() if name.endswith("attn") or name == "model.layers.0.indexer"}


def _configure(settings, options, connector: dict, layers: dict) -> None:
    """Write into the configuration what the release itself would, on a device that it takes."""
    page = sum(s.page_size_bytes for s in layers.values() if s.cache_role is SparseCacheRole.SPARSE)
    stride = get_hisparse_host_block_stride(page, use_shared_host_pool=False)
    block = next(iter(layers.values())).block_size
    blocks = -(-options.max_len // block) + _BESIDE + connector.get("room", 0)
    # Half a block more: the size is told in gibibytes, and rounded.
    size = (blocks + 0.5) * stride / 2**30
    settings.attention_config = copy.copy(settings.attention_config)
    settings.attention_config.hisparse_config = HiSparseConfig(
        device_buffer_size=max(connector.get("hot", 1) * block, 1 + options.spec),
        eager_host_mirror=not connector.get("late"),
    )
    told = _told("HiSparseConnector", {"host_pool_gib": size})
    if connector.get("remote"):
        fetches = _told(remote.NAME, remote.extra_config({}), kv_connector_module_path=remote.__name__)
        told = _told("MultiConnector", {"connectors": [told, fetches]})
    settings.kv_transfer_config = KVTransferConfig(**told, kv_load_failure_policy=connector.get("fail", "recompute"))


def _told(name: str, extra: dict, **more: str) -> dict:
    """What the release is told of a connector."""
    return {"kv_connector": name, "kv_role": "kv_both", "kv_connector_extra_config": extra, **more}


def _planned(settings, options, layers: dict):
    """The release's plan, with as many blocks as the options say."""
    settings.model_config.hf_config.index_topk = 1
    return _with_blocks(settings, layers, options.blocks or 1 + options.spare + _needed(settings, layers))


def _needed(settings, layers: dict) -> int:
    """How many blocks of the device the layers say that the longest request takes."""
    groups = _with_blocks(settings, layers, _PLENTY).kv_cache_groups
    return sum(_most(settings, group.kv_cache_spec) for group in groups if not group.host_resident)


def _with_blocks(settings, layers: dict, blocks: int):
    settings.cache_config.num_gpu_blocks_override = blocks
    groups = layout.get_hisparse_kv_cache_groups(settings, layers)
    derived = {name: group.kv_cache_spec for group in groups or () for name in group.layer_names if name not in layers}
    return laid_out(settings, layers | derived, _MEMORY)


def _most(settings, spec) -> int:
    """The blocks that the longest request takes of a group."""
    pages = getattr(spec, "max_memory_usage_pages", None)
    return pages(settings) if pages else -(-spec.max_memory_usage_bytes(settings) // spec.page_size_bytes)
