"""The copy-engine path of the copies: asynchronous memory copies, one for each run of blocks.

Between CUDA and pinned memory a run is one strided copy over all planes (``cudaMemcpy2DAsync``) on the current stream:
the card's copy engines move the bytes while its cores compute, and nothing waits for the device. torch offers no such
call, and costs the host 12 microseconds for each contiguous copy, in which the link moves 600 KiB; where the runtime
cannot be called, between two cards, and on CPU tensors, a run is one copy by torch for each plane.
"""

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

MOST_PITCH = 2**31 - 1
"""Bytes from one row to the next at most, which is what all cards take."""

_DEFAULT_KIND = 4  # cudaMemcpyDefault: the addresses tell the direction


class Run(NamedTuple):
    """Blocks that follow each other on both sides: ``blocks`` of them, from ``source`` to ``destination``."""

    source: int
    destination: int
    blocks: int


Pairs = Sequence[tuple[int, int]] | np.ndarray
"""Block copies: (source block, destination block), as pairs or as a table of two columns."""


def coalesce(pairs: Pairs) -> list[Run]:
    """Join the (source, destination) pairs that continue each other on both sides, whatever their order.

    Destinations must be distinct; then the order of the copies does not matter, and runs come by destination.
    """
    table, firsts = _by_destination(pairs)
    blocks = np.diff(np.append(firsts, len(table)))
    return [Run(*run) for run in np.column_stack((table[firsts], blocks)).tolist()]


def count_runs(pairs: Pairs) -> int:
    """Return how many runs ``coalesce`` makes of the pairs."""
    return len(_by_destination(pairs)[1])


def _by_destination(pairs: Pairs) -> tuple[np.ndarray, np.ndarray]:
    """Return the pairs in order of destination, and the places at which one does not continue the one before it."""
    table = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
    table = table[np.argsort(table[:, 1], kind="stable")]
    breaks = (table[1:] - table[:-1] != 1).any(axis=1)
    return table, np.flatnonzero(np.concatenate(([True], breaks))) if len(table) else np.empty(0, dtype=np.int64)


def copy_blocks(source: Tensor, destination: Tensor, runs: Sequence[Run]) -> None:
    """Copy runs of blocks between two checked cache tensors: CUDA with CUDA or pinned memory, or both CPU.

    Raises:
        RuntimeError: when the CUDA runtime refuses a copy.
    """
    if moves_planes_at_once(source, destination):
        _copy_strided(source, destination, runs)
    else:
        _copy_by_torch(source, destination, runs)


def moves_planes_at_once(source: Tensor, destination: Tensor) -> bool:
    """Tell whether a run is one copy here: between a card and the host, with a runtime that can be called."""
    between = source.is_cuda != destination.is_cuda
    return between and max(_pitch(source), _pitch(destination)) <= MOST_PITCH and _strided_copy() is not None


def _pitch(cache: Tensor) -> int:
    """Return the bytes from one plane of a contiguous cache tensor to the next."""
    return cache[0, 0].nbytes


def _copy_strided(source: Tensor, destination: Tensor, runs: Sequence[Run]) -> None:
    """Copy each run in all planes by one call of the runtime."""
    strided = _strided_copy()
    assert strided is not None
    device = source.device if source.is_cuda else destination.device
    block, planes = source[0, 0, 0].nbytes, source.shape[0] * source.shape[1]
    with torch.cuda.device(device):
        stream = torch.cuda.current_stream(device).cuda_stream
        for run in runs:
            error = strided(
                destination.data_ptr() + run.destination * block,
                _pitch(destination),
                source.data_ptr() + run.source * block,
                _pitch(source),
                run.blocks * block,
                planes,
                _DEFAULT_KIND,
                stream,
            )
            if error:
                raise RuntimeError(f"the CUDA runtime refuses a copy of {run}: error {error} of cudaMemcpy2DAsync")


def _copy_by_torch(source: Tensor, destination: Tensor, runs: Sequence[Run]) -> None:
    """Copy plane by plane: views of one plane are contiguous on both sides, so each is one copy, and nothing staged."""
    planes = list(zip(source.flatten(0, 1).unbind(0), destination.flatten(0, 1).unbind(0), strict=True))
    for run in runs:
        for plane_from, plane_to in planes:
            part = plane_from.narrow(0, run.source, run.blocks)
            plane_to.narrow(0, run.destination, run.blocks).copy_(part, non_blocking=True)


@cache
def _strided_copy() -> Callable[..., int] | None:
    """Return ``cudaMemcpy2DAsync`` of the runtime that torch has loaded; None where it is not to be had."""
    major = (torch.version.cuda or "").partition(".")[0]
    try:
        call = ctypes.CDLL(f"libcudart.so.{major}").cudaMemcpy2DAsync
    except (OSError, AttributeError):
        return None
    address, size = ctypes.c_void_p, ctypes.c_size_t
    call.argtypes = [address, size, address, size, size, size, ctypes.c_int, address]
    call.restype = ctypes.c_int
    return call
