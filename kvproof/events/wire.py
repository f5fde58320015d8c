"""Events as they are published: the fields of all releases of vLLM and SGLang that are known, and how they are written.

Releases write a batch as an array or as a map, and the events in it as arrays or as maps that begin with their type.
Later ones append fields; those that are not listed here are tolerated and counted (E5).
"""

from typing import Annotated, Any

from msgspec import Meta, Struct

from ..untrusted import limits

__all__ = ["DEVICE", "FORMS", "Batch", "Cleared", "Event", "Hash", "Removed", "Stored", "windowed"]

DEVICE = "GPU"
"""The medium of events that name none, as routers take it."""

Hash = Annotated[int, Meta()] | Annotated[bytes, Meta(max_length=limits.EVENT_HASH_BYTES)]
"""A block's hash: a number of 64 bits, or the digest itself."""

Count = Annotated[int, Meta(ge=0)]
Name = Annotated[str, Meta(max_length=limits.NAME_LETTERS)]

_FULL = {"full_attention", "mla_attention", "sink_full_attention", "encoder_only_attention", "cross_attention"}


def windowed(kind: str | None) -> bool:
    """Whether the blocks of a group of this kind fall out of a window while their request goes on."""
    return kind is not None and kind not in _FULL


# What comes in millions is kept from the garbage collector (``gc=False``): it never refers to itself. The order of
# fields is that of the arrays.


class Stored(Struct, tag="BlockStored", gc=False, forbid_unknown_fields=True):
    """Blocks became cached, each the child of the one before it."""

    block_hashes: list[Hash]
    parent_block_hash: Hash | None = None
    token_ids: tuple[int, ...] = ()
    """The tokens of all blocks in a row; nothing, where the publisher does not know them."""
    block_size: Count = 0
    lora_id: int | None = None
    medium: Name | None = None
    lora_name: str | None = None
    extra_keys: list[Any] | None = None
    """Per block what its hash depends on beside tokens: multimodal items, salt, adapter."""
    group_idx: int | None = None
    kv_cache_spec_kind: Name | None = None
    kv_cache_spec_sliding_window: int | None = None
    locality: Name | None = None
    ownership: Name | None = None
    """Which of several tiers of one medium it is; nothing for the first."""
    session_id: str | None = None
    lookahead_token_ids: list[Any] | None = None
    """Per block the tokens behind it that its hash depends on."""
    cache_salt: str | None = None


class Removed(Struct, tag="BlockRemoved", gc=False, forbid_unknown_fields=True):
    """Blocks are cached no longer."""

    block_hashes: list[Hash]
    medium: Name | None = None
    group_idx: int | None = None
    locality: Name | None = None
    ownership: Name | None = None
    kv_cache_spec_kind: Name | None = None
    kv_cache_spec_sliding_window: int | None = None


class Cleared(Struct, tag="AllBlocksCleared", gc=False, forbid_unknown_fields=True):
    """Nothing of the rank is cached any more; where a medium is named, nothing on that."""

    medium: Name | None = None
    ownership: Name | None = None


class _StoredArray(Stored, array_like=True, tag="BlockStored"):
    pass


class _RemovedArray(Removed, array_like=True, tag="BlockRemoved"):
    pass


class _ClearedArray(Cleared, array_like=True, tag="AllBlocksCleared"):
    pass


Event = Stored | Removed | Cleared


class Batch(Struct, gc=False, forbid_unknown_fields=True):
    """What is published at once: the events of a step, in order."""

    ts: float
    events: list[Event]
    data_parallel_rank: int | None = None
    attn_dp_rank: int | None = None
    """The same in releases of SGLang."""


class _ArrayOfArrays(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    ts: float
    events: list[_StoredArray | _RemovedArray | _ClearedArray]
    data_parallel_rank: int | None = None


class _ArrayOfMaps(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    ts: float
    events: list[Stored | Removed | Cleared]
    data_parallel_rank: int | None = None


class _MapOfArrays(Struct, gc=False, forbid_unknown_fields=True):
    ts: float
    events: list[_StoredArray | _RemovedArray | _ClearedArray]
    data_parallel_rank: int | None = None
    attn_dp_rank: int | None = None


FORMS: tuple[type[Struct], ...] = (_ArrayOfArrays, _ArrayOfMaps, Batch, _MapOfArrays)
"""The ways in which a batch is written."""
