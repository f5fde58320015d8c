"""Moving KV between slots and blocks of a cache tensor.

A cache tensor has the shape ``[layers, 2, blocks, block_tokens, heads, head_dim]``; index 0 of the second dimension
is keys, index 1 values. Everything here is a pure move of bytes: values are never converted or rounded.

Which path runs depends on where the tensors are:

* both on the CPU: torch index operations;
* CUDA, or CUDA with pinned CPU memory: the Triton kernels of ``triton_copy``, which read and write pinned memory in
  place; imported only then, so that nothing here needs Triton without a GPU;
* CUDA with pageable CPU memory, which a kernel cannot reach: gathered on one side, moved, scattered on the other.

Calls on CUDA tensors are queued on the current stream, as everywhere in torch. Pinned memory belongs to the copy until
that stream has come past it.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from types import ModuleType

Pairs = Sequence[tuple[int, int]]
"""Block copies: (source block, destination block)."""


def write_slots(cache: Tensor, blocks: Sequence[int], slots: Sequence[int], values: Tensor) -> None:
    """Write the KV of ``n`` tokens, token i into slot ``slots[i]`` of block ``blocks[i]``.

    Args:
        cache: ``[layers, 2, blocks, block_tokens, heads, head_dim]``.
        blocks: ``n`` block ids.
        slots: ``n`` slots; no (block, slot) twice.
        values: ``[n, layers, 2, heads, head_dim]``, of the cache's dtype, on its device.

    Raises:
        ValueError: for a shape, dtype, device or index that does not fit; nothing is written.
    """
    _check_cache(cache)
    layers, two, num_blocks, block_tokens, heads, head_dim = cache.shape
    count = len(blocks)
    if len(slots) != count or tuple(values.shape) != (count, layers, two, heads, head_dim):
        raise ValueError(f"values of shape {tuple(values.shape)} do not fit {count} slots of {tuple(cache.shape)}")
    if values.dtype != cache.dtype or values.device != cache.device:
        raise ValueError(f"values are {values.dtype} on {values.device}, the cache {cache.dtype} on {cache.device}")
    _check_ids(blocks, num_blocks, "block")
    _check_ids(slots, block_tokens, "slot")
    if count == 0:
        return
    if cache.is_cuda:
        flat = [block * block_tokens + slot for block, slot in zip(blocks, slots, strict=True)]
        index = torch.tensor(flat, dtype=torch.int64, device=cache.device)
        _triton_copy().write_slots(cache, index, values.contiguous())
        return
    block_index = torch.tensor(blocks, dtype=torch.int64)
    slot_index = torch.tensor(slots, dtype=torch.int64)
    cache[:, :, block_index, slot_index] = values.permute(1, 2, 0, 3, 4)


def gather_blocks(cache: Tensor, blocks: Sequence[int]) -> Tensor:
    """Return a copy of ``blocks``, in order: ``[layers, 2, len(blocks), block_tokens, heads, head_dim]``."""
    _check_cache(cache)
    _check_ids(blocks, cache.shape[2], "block")
    return cache.index_select(2, torch.tensor(list(blocks), dtype=torch.int64, device=cache.device))


def copy_blocks(source: Tensor, destination: Tensor, pairs: Pairs) -> None:
    """Copy whole blocks, each from its place in ``source`` to its place in ``destination``.

    Both are cache tensors that differ in the number of blocks and in the device at most; they may be the same tensor.

    Raises:
        ValueError: when the tensors do not fit each other, an id is out of range, one destination is named twice, or,
            within one tensor, a block is both source and destination (the order of the copies would matter).
    """
    _check_cache(source)
    _check_cache(destination)
    if _without_blocks(source) != _without_blocks(destination) or source.dtype != destination.dtype:
        raise ValueError(
            f"blocks of {tuple(source.shape)} {source.dtype} do not fit {tuple(destination.shape)} {destination.dtype}"
        )
    if not pairs:
        return
    origins = [pair[0] for pair in pairs]
    targets = [pair[1] for pair in pairs]
    _check_ids(origins, source.shape[2], "source block")
    _check_ids(targets, destination.shape[2], "destination block")
    distinct = set(targets)
    if len(distinct) != len(targets):
        raise ValueError("a destination block is named twice")
    if source.data_ptr() == destination.data_ptr() and not distinct.isdisjoint(origins):
        raise ValueError("a block is both source and destination")
    device = source.device if source.is_cuda else destination.device
    if device.type == "cuda" and _reachable(source) and _reachable(destination):
        index = torch.tensor([origins, targets], dtype=torch.int64).to(device, non_blocking=True)
        _triton_copy().copy_blocks(source, destination, index[0], index[1])
        return
    moved = gather_blocks(source, origins).to(destination.device)
    destination.index_copy_(2, torch.tensor(targets, dtype=torch.int64, device=destination.device), moved)


def _triton_copy() -> "ModuleType":
    """Import the CUDA kernels, at the first call that needs them."""
    try:
        from . import triton_copy
    except ImportError as error:
        raise RuntimeError(
            "block copies on CUDA tensors need Triton, which is not installed: install it with "
            "'pip install triton', or a CUDA build of torch, which brings it"
        ) from error
    return triton_copy


def _reachable(cache: Tensor) -> bool:
    """Tell whether a kernel can reach the memory of ``cache``."""
    return cache.is_cuda or cache.is_pinned()


def _without_blocks(cache: Tensor) -> tuple[int, ...]:
    """Return the shape of one block over all layers."""
    return tuple(cache.shape[:2]) + tuple(cache.shape[3:])


def _check_cache(cache: Tensor) -> None:
    """Require a cache tensor."""
    if cache.ndim != 6 or cache.shape[1] != 2 or not cache.is_contiguous():
        raise ValueError(
            "a cache tensor is contiguous, of shape [layers, 2, blocks, block_tokens, heads, head_dim]; "
            f"got {tuple(cache.shape)}"
        )


def _check_ids(ids: Sequence[int], bound: int, what: str) -> None:
    """Require ids from 0 to ``bound`` - 1: negative ones would silently index from the end."""
    if ids and not (min(ids) >= 0 and max(ids) < bound):
        raise ValueError(f"a {what} is not from 0 to {bound - 1}")
