"""The copy-engine path of the copies: batches of asynchronous memory copies, one per plane and run of blocks.

On CUDA tensors and pinned memory each becomes one ``cudaMemcpyAsync`` on the current stream: the card's copy engines
move the bytes while its cores compute, and nothing waits for the device. On CPU tensors they are plain copies.
"""

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor


class Run(NamedTuple):
    """Blocks that follow each other on both sides: ``blocks`` of them, from ``source`` to ``destination``."""

    source: int
    destination: int
    blocks: int


def coalesce(pairs: Sequence[tuple[int, int]]) -> list[Run]:
    """Join the (source, destination) pairs that continue each other on both sides, whatever their order.

    Destinations must be distinct; then the order of the copies does not matter, and runs come by destination.
    """
    runs: list[Run] = []
    for origin, target in sorted(pairs, key=lambda pair: pair[1]):
        last = runs[-1] if runs else None
        if last is not None and (origin, target) == (last.source + last.blocks, last.destination + last.blocks):
            runs[-1] = last._replace(blocks=last.blocks + 1)
        else:
            runs.append(Run(origin, target, 1))
    return runs


def copy_blocks(source: Tensor, destination: Tensor, runs: Sequence[Run]) -> None:
    """Copy runs of blocks between two checked cache tensors: CUDA with CUDA or pinned memory, or both CPU."""
    # Views of one plane are contiguous on both sides: torch makes each a single copy, and stages nothing.
    planes = list(zip(source.flatten(0, 1).unbind(0), destination.flatten(0, 1).unbind(0), strict=True))
    for run in runs:
        for plane_from, plane_to in planes:
            part = plane_from.narrow(0, run.source, run.blocks)
            plane_to.narrow(0, run.destination, run.blocks).copy_(part, non_blocking=True)
