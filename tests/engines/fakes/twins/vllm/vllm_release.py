"""In place of what vLLM's driver of block pools imports of the release beside the pool: a request, and mere names."""

from dataclasses import dataclass, field
from types import SimpleNamespace

from stand_in import stand_in

__all__ = ["Request", "stand_in_for_the_release"]


@dataclass
class Request:
    """A request: the pool asks it for the hashes of its blocks and nothing else."""

    request_id: str
    prompt_token_ids: list[int]
    sampling_params: object
    pooling_params: object
    arrival_time: float
    mm_features: object
    lora_request: object
    cache_salt: str | None
    priority: int
    block_hasher: object
    block_hashes: list[bytes] = field(default_factory=list)


def block_hash(key: bytes) -> bytes:
    """The hash of a key of the map."""
    return key[:-4]


def group_id(key: bytes) -> int:
    """Its group."""
    return int.from_bytes(key[-4:], "big")


def stand_in_for_the_release() -> None:
    """Let the driver's imports succeed."""
    for path, *names in (
        ("vllm.distributed.kv_events", "AllBlocksCleared", "BlockRemoved", "BlockStored"),
        ("vllm.lora.request", "LoRARequest"),
        ("vllm.multimodal.inputs", "MultiModalFeatureSpec", "PlaceholderRange"),
        ("vllm.utils.hashing", "get_hash_fn_by_name"),
        ("vllm.v1.kv_cache_interface", "KVCacheConfig", "KVCacheGroupSpec", "KVCacheSpec", "KVCacheTensor"),
    ):
        stand_in(path, **dict.fromkeys(names, object))
    stand_in("vllm.sampling_params", SamplingParams=SimpleNamespace)
    stand_in("vllm.v1.core.kv_cache_utils", get_block_hash=block_hash, get_group_id=group_id)
    stand_in("vllm.v1.request", Request=Request)
