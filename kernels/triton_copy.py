# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
"""The CUDA path of the copies: one Triton kernel that moves runs of words. Imported only for CUDA tensors.

The tensors may also be pinned CPU memory, which a kernel reaches under the same address. ``TRITON_INTERPRET=1``, set
before the first import of Triton, runs the same kernel on plain CPU tensors, which is how it is tested without a GPU.
Its address arithmetic is proved for all shapes and tables: ``tests/smt/test_kernel_addresses.py``, ``docs/kernels.md``.
"""

from contextlib import nullcontext

import torch
import triton
import triton.language as tl
from torch import Tensor

from .launch import (
    MOST_WORDS_PER_PROGRAM,
    Launch,
    Layout,
    check_launch,
    chunks_of,
    grid_of,
    pool_layout,
    rows_layout,
)

_WORDS = (torch.int64, torch.int32, torch.int16, torch.int8)


@triton.jit
def _copy_runs(
    source,
    destination,
    source_ids,
    destination_ids,
    source_item,
    source_plane,
    destination_item,
    destination_plane,
    run_words,
    chunks,
    WORDS: tl.constexpr,
):
    """Move one chunk of run (item, plane); ids give an item's place on either side, strides are in words.

    Offsets are computed in 64 bits, for a cache of more than 2**31 words is normal: Triton types an argument and a
    program's number by 32 bits where they fit, and a product of two such wraps. The ids come in 64 bits.
    """
    program = tl.program_id(0)
    item = program // chunks
    first = (program % chunks).to(tl.int64) * WORDS
    plane = tl.program_id(1).to(tl.int64)
    lane = tl.arange(0, WORDS)
    inside = first + lane < run_words
    origin = tl.load(source_ids + item)
    target = tl.load(destination_ids + item)
    read = source + origin * source_item + plane * source_plane + first + lane
    write = destination + target * destination_item + plane * destination_plane + first + lane
    run = tl.load(read, mask=inside)
    tl.store(write, run, mask=inside)


def copy_blocks(source: Tensor, destination: Tensor, origins: Tensor, targets: Tensor) -> None:
    """Copy blocks between two checked cache tensors; ``origins`` and ``targets`` are int64 ids on the CUDA device."""
    layers, two, source_blocks, *block = source.shape
    planes = layers * two
    word, run = _words(source, destination, block[0] * block[1] * block[2])
    _launch(
        _as_words(source, word),
        _as_words(destination, word),
        (origins, targets),
        (pool_layout(planes, source_blocks, run), pool_layout(planes, destination.shape[2], run)),
        planes=planes,
        run=run,
    )


def write_slots(cache: Tensor, index: Tensor, values: Tensor) -> None:
    """Write ``values[i]`` to slot ``index[i]`` of a checked cache tensor, slots counted through all blocks."""
    layers, two, num_blocks, block_tokens, heads, head_dim = cache.shape
    planes = layers * two
    word, run = _words(values, cache, heads * head_dim)
    _launch(
        _as_words(values, word),
        _as_words(cache, word),
        (torch.arange(len(index), dtype=torch.int64, device=index.device), index),
        (rows_layout(len(index), planes, run), pool_layout(planes, num_blocks * block_tokens, run)),
        planes=planes,
        run=run,
    )


def _launch(
    source: Tensor,
    destination: Tensor,
    ids: tuple[Tensor, Tensor],
    layouts: tuple[Layout, Layout],
    *,
    planes: int,
    run: int,
) -> None:
    """Run the kernel over all items and planes of two flat tensors of words. ``ids`` must be places of the layouts.

    Raises:
        ValueError: when tables, tensors or layouts do not fit the launch; nothing is written. The ids themselves lie
            on the device, and are not looked at: who has them as numbers checks them (``copy.py``).
    """
    items = len(ids[0])
    if any(table.dtype != torch.int64 or not table.is_contiguous() or table.shape != (items,) for table in ids):
        raise ValueError("id tables are two contiguous rows of int64, equally long")
    if layouts[0].words != source.numel() or layouts[1].words != destination.numel():
        raise ValueError(f"{layouts} do not fit tensors of {source.numel()} and {destination.numel()} words")
    width = min(MOST_WORDS_PER_PROGRAM, triton.next_power_of_2(run))
    launch = Launch(*layouts, items, planes, run, width)
    check_launch(launch)
    arguments = (
        source,
        destination,
        *ids,
        launch.source.item,
        launch.source.plane,
        launch.destination.item,
        launch.destination.plane,
        run,
        chunks_of(launch),
    )
    with torch.cuda.device(ids[0].device) if ids[0].is_cuda else nullcontext():
        _copy_runs[grid_of(launch)](*arguments, WORDS=width)


def _words(source: Tensor, destination: Tensor, run: int) -> tuple[torch.dtype, int]:
    """Return the widest integer that a run of ``run`` elements divides into, and how many of them a run is.

    Fewer, wider loads; and no float is touched.
    """
    size = run * source.element_size()
    word = next(
        word
        for word in _WORDS
        if all(number % word.itemsize == 0 for number in (size, source.data_ptr(), destination.data_ptr()))
    )
    return word, size // word.itemsize


def _as_words(tensor: Tensor, word: torch.dtype) -> Tensor:
    """Return the memory of a contiguous tensor as a row of integers of one width."""
    return tensor.reshape(-1).view(torch.int8).view(word)
