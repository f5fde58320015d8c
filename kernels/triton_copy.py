# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
"""The CUDA path of the copies: one Triton kernel that moves runs of words. Imported only for CUDA tensors.

The tensors may also be pinned CPU memory, which a kernel reaches under the same address. ``TRITON_INTERPRET=1``, set
before the first import of Triton, runs the same kernel on plain CPU tensors, which is how it is tested without a GPU.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

_WORDS = (torch.int64, torch.int32, torch.int16, torch.int8)
_WORDS_PER_PROGRAM = 2048


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
    WORDS: tl.constexpr,
):
    """Copy run (item, plane) of ``run_words`` words; ids give an item's place, strides are in words.

    Offsets are computed in 64 bits: a cache of more than 2**31 words is normal.
    """
    item = tl.program_id(0)
    plane = tl.program_id(1).to(tl.int64)
    origin = tl.load(source_ids + item)
    target = tl.load(destination_ids + item)
    words = tl.program_id(2) * WORDS + tl.arange(0, WORDS)
    inside = words < run_words
    run = tl.load(source + origin * source_item + plane * source_plane + words, mask=inside)
    tl.store(destination + target * destination_item + plane * destination_plane + words, run, mask=inside)


def copy_blocks(source: Tensor, destination: Tensor, origins: Tensor, targets: Tensor) -> None:
    """Copy blocks between two checked cache tensors; ``origins`` and ``targets`` are int64 ids on the CUDA device."""
    layers, two, source_blocks, *rest = source.shape
    run = rest[0] * rest[1] * rest[2]
    _launch(
        source,
        destination,
        (origins, targets),
        planes=layers * two,
        item_strides=(run, run),
        plane_strides=(source_blocks * run, destination.shape[2] * run),
        run=run,
    )


def write_slots(cache: Tensor, index: Tensor, values: Tensor) -> None:
    """Write ``values[i]`` to slot ``index[i]`` of a checked cache tensor, slots counted through all blocks."""
    layers, two, num_blocks, block_tokens, heads, head_dim = cache.shape
    run = heads * head_dim
    planes = layers * two
    _launch(
        values,
        cache,
        (torch.arange(len(index), dtype=torch.int64, device=index.device), index),
        planes=planes,
        item_strides=(planes * run, run),
        plane_strides=(run, num_blocks * block_tokens * run),
        run=run,
    )


def _launch(
    source: Tensor,
    destination: Tensor,
    ids: tuple[Tensor, Tensor],
    *,
    planes: int,
    item_strides: tuple[int, int],
    plane_strides: tuple[int, int],
    run: int,
) -> None:
    """Run the kernel over all items and planes. Strides and ``run`` are in elements; pairs are (source, destination).

    Elements are moved as the widest integers that a run divides into: fewer, wider loads, and no float is touched.
    """
    item_bytes = source.element_size()
    word = next(
        word
        for word in _WORDS
        if run * item_bytes % word.itemsize == 0
        and source.data_ptr() % word.itemsize == 0
        and destination.data_ptr() % word.itemsize == 0
    )

    def words(elements: int) -> int:
        return elements * item_bytes // word.itemsize

    arguments = (
        _as_words(source, word),
        _as_words(destination, word),
        *ids,
        words(item_strides[0]),
        words(plane_strides[0]),
        words(item_strides[1]),
        words(plane_strides[1]),
        words(run),
    )
    width = min(_WORDS_PER_PROGRAM, triton.next_power_of_2(words(run)))
    grid = (len(ids[0]), planes, triton.cdiv(words(run), width))
    if ids[0].is_cuda:
        with torch.cuda.device(ids[0].device):
            _copy_runs[grid](*arguments, WORDS=width)
    else:
        _copy_runs[grid](*arguments, WORDS=width)


def _as_words(tensor: Tensor, word: torch.dtype) -> Tensor:
    """Return the memory of a contiguous tensor as integers of one width."""
    return tensor.reshape(-1).view(torch.int8).view(word)
