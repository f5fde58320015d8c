"""Moving KV between slots and blocks of a cache tensor.

A cache tensor has the shape ``[layers, 2, blocks, block_tokens, heads, head_dim]``; index 0 of the second dimension
is keys, index 1 values. Everything here is a pure move of bytes: values are never converted or rounded.

Which path copies blocks depends on where the tensors are:

* both on the CPU: torch index operations;
* CUDA and pinned CPU memory: the Triton kernel of ``triton_copy``, which reads and writes pinned memory in place, for
  small runs of blocks, and the card's copy engines (``copy_engine``) for large ones: see ``ENGINE_FROM_BYTES``;
* one CUDA device: the kernel; two: the copy engines;
* CUDA with pageable CPU memory, which neither reaches: gathered on one side, moved, scattered on the other.

The kernel's module is imported only when it is to run, so that nothing here needs Triton without a GPU.

Calls on CUDA tensors are queued on the current stream, as everywhere in torch. Pinned memory belongs to the copy until
that stream has come past it.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from . import copy_engine

if TYPE_CHECKING:
    from types import ModuleType

Pairs = Sequence[tuple[int, int]]
"""Block copies: (source block, destination block)."""

Path = Literal["auto", "kernel", "engine"]
"""What moves the blocks. On the CPU torch's index operations stand for the kernel, plain copies for the engine."""

ENGINE_FROM_BYTES = 4 * 2**20
"""Bytes of one run of blocks over all planes from which the copy engine moves it between CUDA and pinned memory.

Measured on an H100 by ``benchmarks/block_copies.py``, with 8 planes and with 64: in smaller runs the link waits between
two copies, and one launch of the kernel for all of them is faster; in larger ones the engine is, and leaves the cores
alone.
"""


def write_slots(cache: Tensor, blocks: Sequence[int], slots: Sequence[int], values: Tensor) -> None:
    """Write the KV of ``n`` tokens, token i into slot ``slots[i]`` of block ``blocks[i]``.

    Args:
        cache: ``[layers, 2, blocks, block_tokens, heads, head_dim]``.
        blocks: ``n`` block ids.
        slots: ``n`` slots; no (block, slot) twice.
        values: ``[n, layers, 2, heads, head_dim]``, of the cache's dtype, on its device.

    Raises:
        ValueError: for a shape, dtype, device or index that does not fit, or a slot named twice; nothing is written.
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
    flat = [block * block_tokens + slot for block, slot in zip(blocks, slots, strict=True)]
    if len(set(flat)) != count:
        raise ValueError("a slot is named twice")
    if count == 0 or values.numel() == 0:
        return
    if cache.is_cuda:
        index = torch.tensor(flat, dtype=torch.int64, device=cache.device)
        _triton_copy().write_slots(cache, index, values.contiguous())
        return
    block_index = torch.tensor(blocks, dtype=torch.int64)
    slot_index = torch.tensor(slots, dtype=torch.int64)
    cache[:, :, block_index, slot_index] = values.permute(1, 2, 0, 3, 4)


def gather_blocks(cache: Tensor, blocks: Sequence[int], out: Tensor | None = None) -> Tensor:
    """Return a copy of ``blocks``, in order: ``[layers, 2, len(blocks), block_tokens, heads, head_dim]``.

    Args:
        cache: the block pool.
        blocks: block ids; one may come several times.
        out: a staging buffer of the result's shape, on CUDA or in pinned memory too: filled, all layers in one launch,
            and returned.
    """
    _check_cache(cache)
    _check_ids(blocks, cache.shape[2], "block")
    if out is None:
        return cache.index_select(2, torch.tensor(list(blocks), dtype=torch.int64, device=cache.device))
    _check_staging(out, blocks)
    copy_blocks(cache, out, list(zip(blocks, range(len(blocks)), strict=True)))
    return out


def scatter_blocks(cache: Tensor, blocks: Sequence[int], values: Tensor) -> None:
    """Write what ``gather_blocks`` returned for as many blocks to ``blocks``, of which none comes twice."""
    _check_cache(cache)
    _check_staging(values, blocks)
    copy_blocks(values, cache, list(zip(range(len(blocks)), blocks, strict=True)))


def copy_blocks(source: Tensor, destination: Tensor, pairs: Pairs, path: Path = "auto") -> None:
    """Copy whole blocks, each from its place in ``source`` to its place in ``destination``.

    Both are cache tensors that differ in the number of blocks and in the device at most; they may be the same tensor.
    ``path`` says what moves the blocks; every path leaves the same bits.

    Raises:
        ValueError: when the tensors do not fit each other or share part of their memory, an id is out of range, one
            destination is named twice, or, within one tensor, a block is both source and destination (the order of
            the copies would matter); when the path is none, or cannot reach the tensors. Nothing is moved.
    """
    _check_cache(source)
    _check_cache(destination)
    if path not in get_args(Path):
        raise ValueError(f"no path of copies: {path!r}")
    if _without_blocks(source) != _without_blocks(destination) or source.dtype != destination.dtype:
        raise ValueError(
            f"blocks of {tuple(source.shape)} {source.dtype} do not fit {tuple(destination.shape)} {destination.dtype}"
        )
    if not len(pairs):
        return
    # Thousands of pairs are a step's: a loop over them would cost more than the copy.
    table = np.array(pairs, dtype=np.int64)
    origins, targets = table[:, 0], table[:, 1]
    _check_ids(origins, source.shape[2], "source block")
    _check_ids(targets, destination.shape[2], "destination block")
    if len(np.unique(targets)) != len(targets):
        raise ValueError("a destination block is named twice")
    if source.numel() == 0:
        return
    if _overlap(source, destination):
        if source.data_ptr() != destination.data_ptr() or source.shape != destination.shape:
            raise ValueError("source and destination share part of their memory")
        if np.isin(targets, origins).any():
            raise ValueError("a block is both source and destination")
    on_cuda = source.is_cuda or destination.is_cuda
    reachable = _reachable(source) and _reachable(destination)
    if on_cuda and not reachable and path != "auto":
        raise ValueError(f"path {path!r} does not reach pageable memory: pin it")
    if path == "kernel" and source.is_cuda and destination.is_cuda and source.device != destination.device:
        raise ValueError("path 'kernel' runs on one device: use 'engine' between two")

    if path == "auto" and on_cuda and reachable:
        path = _choose(source, destination, table)
    if path == "engine":
        copy_engine.copy_blocks(source, destination, copy_engine.coalesce(table))
    elif on_cuda and reachable:
        device = source.device if source.is_cuda else destination.device
        index = torch.from_numpy(np.ascontiguousarray(table.T)).to(device, non_blocking=True)
        _triton_copy().copy_blocks(source, destination, index[0], index[1])
    else:
        index = torch.from_numpy(np.ascontiguousarray(table.T))
        moved = source.index_select(2, index[0].to(source.device)).to(destination.device)
        destination.index_copy_(2, index[1].to(destination.device), moved)


def engine_pays(block_bytes: int, pairs: copy_engine.Pairs) -> bool:
    """Tell whether runs are large enough for the copy engine: on average, once blocks in a row are joined.

    ``block_bytes`` are those of one block over all planes, which one copy moves.
    """
    return block_bytes * len(pairs) >= ENGINE_FROM_BYTES * copy_engine.count_runs(pairs)


def _choose(source: Tensor, destination: Tensor, pairs: np.ndarray) -> Path:
    """Return what moves blocks between tensors that both paths reach, one of them on CUDA."""
    if source.is_cuda and destination.is_cuda:
        # One device's memory is far faster than any link, and the kernel uses all of it; another's needs peer access.
        return "kernel" if source.device == destination.device else "engine"
    pays = engine_pays(source.nbytes // source.shape[2], pairs)
    return "engine" if pays and copy_engine.moves_planes_at_once(source, destination) else "kernel"


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


def _overlap(source: Tensor, destination: Tensor) -> bool:
    """Tell whether two contiguous tensors have memory in common."""
    first, second = source.data_ptr(), destination.data_ptr()
    same = source.device == destination.device
    return same and first < second + destination.nbytes and second < first + source.nbytes


def _check_staging(values: Tensor, blocks: Sequence[int]) -> None:
    """Require as many blocks in a staging buffer as are named."""
    _check_cache(values)
    if values.shape[2] != len(blocks):
        raise ValueError(f"a staging buffer of {values.shape[2]} blocks for {len(blocks)}")


def _check_cache(cache: Tensor) -> None:
    """Require a cache tensor."""
    if cache.ndim != 6 or cache.shape[1] != 2 or not cache.is_contiguous():
        raise ValueError(
            "a cache tensor is contiguous, of shape [layers, 2, blocks, block_tokens, heads, head_dim]; "
            f"got {tuple(cache.shape)}"
        )


def _check_ids(ids: Sequence[int] | np.ndarray, bound: int, what: str) -> None:
    """Require ids from 0 to ``bound`` - 1: negative ones would silently index from the end."""
    table = np.asarray(ids)
    if table.size and not (table.min() >= 0 and table.max() < bound):
        raise ValueError(f"a {what} is not from 0 to {bound - 1}")
