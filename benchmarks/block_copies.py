"""Block copies within CUDA memory and to and from pinned memory: kernel and copy engine, against one copy of as much.

For blocks of 16 KiB to 2 MiB (bytes of one block in one plane, which lie in one piece), all blocks of a pool are copied
in random order, so that no two pieces join. Each path's time, and that of one large copy of as many bytes, are medians
of rounds in which all take turns, by CUDA events on one stream. Queueing is in it, as it is in an engine's step that
finds the card idle; the kernel is also timed behind other work, so that what the card does is seen without what the
host does meanwhile. Shown is the path's bandwidth as a ratio to the one copy's, and the size from which on the engine
is no slower than the kernel; times the planes, that is what ``ENGINE_FROM_BYTES`` of ``kernels/copy.py`` should be.

    python benchmarks/block_copies.py [--mib 512] [--layers 4] [--rounds 11] [--json FILE]

Every copy is checked, byte for byte, before it is timed. Exit status 1 if one is wrong, 2 without a CUDA device.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from kvproof.kernels.copy import ENGINE_FROM_BYTES, Pairs, copy_blocks
from kvproof.kernels.copy_engine import coalesce

SIZES = tuple(2**exponent for exponent in range(14, 22))
"""Bytes of a block in one plane: 16 KiB to 2 MiB."""

PATHS: tuple[Literal["kernel", "engine"], ...] = ("kernel", "engine")

BEHIND = 50_000_000
"""Cycles of the card that other work takes: some 30 ms, in which the host queues what is timed."""


@dataclass
class Row:
    """One direction and block size; bandwidths in GB/s, ratios to that of the one copy.

    ``behind`` is the kernel's behind other work.
    """

    direction: str
    block_bytes: int
    blocks: int
    one_copy: float
    kernel: float
    engine: float
    behind: float


def no_neighbours(blocks: int, rng: random.Random) -> Pairs:
    """Pair all blocks with all places in random order, so that no two pairs continue each other."""
    while True:
        pairs = list(zip(rng.sample(range(blocks), blocks), range(blocks), strict=True))
        if len(coalesce(pairs)) == blocks:
            return pairs


def milliseconds(call: Callable[[], object], behind: int = 0) -> float:
    """Return how long the current stream takes for what ``call`` queues, from an idle device or behind other work."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    if behind:
        torch.cuda._sleep(behind)
    start.record()
    call()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end))


def measure(source: Tensor, destination: Tensor, direction: str, rounds: int, rng: random.Random) -> Row:
    """Check and time both paths, and the one copy, from one cache tensor to another of its shape."""
    blocks = source.shape[2]
    pairs = no_neighbours(blocks, rng)
    calls: dict[str, Callable[[], object]] = {"one copy": partial(destination.copy_, source, non_blocking=True)}
    wanted = torch.empty_like(source, device="cpu")
    wanted[:, :, [target for _, target in pairs]] = source.cpu()[:, :, [origin for origin, _ in pairs]]
    for path in PATHS:
        calls[path] = partial(copy_blocks, source, destination, pairs, path=path)
        destination.zero_()
        calls[path]()
        torch.cuda.synchronize()
        if not torch.equal(destination.cpu(), wanted):
            raise AssertionError(f"{path}, {direction}: the bytes differ")
    times: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(rounds + 1):
        for name, call in calls.items():
            taken = milliseconds(call)
            if number:  # the first round warms up
                times[name].append(taken)
    best = {name: statistics.median(taken) for name, taken in times.items()}
    behind = {
        name: statistics.median(milliseconds(calls[name], BEHIND) for _ in range(rounds))
        for name in ("one copy", "kernel")
    }
    return Row(
        direction,
        block_bytes=source[0, 0, 0].nbytes,
        blocks=blocks,
        one_copy=source.nbytes / best["one copy"] / 1e6,
        kernel=best["one copy"] / best["kernel"],
        engine=best["one copy"] / best["engine"],
        behind=behind["one copy"] / behind["kernel"],
    )


def crossing(rows: list[Row]) -> int | None:
    """Return the smallest block size of one direction from which on the engine is no slower than the kernel."""
    found = None
    for row in sorted(rows, key=lambda row: row.block_bytes, reverse=True):
        if row.engine < row.kernel:
            break
        found = row.block_bytes
    return found


def show(rows: list[Row], crossings: dict[str, int | None], planes: int) -> None:
    """Print the table and where the paths cross."""
    table = Table(title=f"{torch.cuda.get_device_name()}: block copies as ratios to one copy of the same bytes")
    for heading in ("direction", "KiB per block and plane", "blocks", "one copy GB/s", "kernel", "engine", "behind"):
        table.add_column(heading, justify="left" if heading == "direction" else "right")
    for row in rows:
        table.add_row(
            row.direction,
            f"{row.block_bytes // 1024}",
            f"{row.blocks}",
            f"{row.one_copy:.1f}",
            f"{row.kernel:.2f}",
            f"{row.engine:.2f}",
            f"{row.behind:.2f}",
        )
    console = Console(soft_wrap=True)
    console.print(table)
    for direction, size in crossings.items():
        where = "at no size measured" if size is None else f"from {size * planes // 1024:,} KiB over all planes on"
        console.print(
            f"{direction}: the engine is no slower {where} (ENGINE_FROM_BYTES: {ENGINE_FROM_BYTES // 1024:,} KiB)"
        )


def main(arguments: list[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Bandwidth of block copies within and beside CUDA memory.")
    parser.add_argument("--mib", type=int, default=512, help="MiB that each copy moves")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", metavar="FILE", help="write the numbers as JSON; - for standard output")
    options = parser.parse_args(arguments)
    if min(options.layers, options.rounds) < 1 or options.mib * 2**20 < 4 * options.layers * SIZES[-1]:
        parser.error("at least one layer, one round, and two of the largest blocks in all layers are needed")
    if not torch.cuda.is_available():
        print("block copies are measured on a CUDA device, and torch finds none here", file=sys.stderr)
        return 2

    rng = random.Random(options.seed)
    rows: list[Row] = []
    try:
        for size in SIZES:
            blocks = options.mib * 2**20 // (2 * options.layers * size)
            shape = (options.layers, 2, blocks, 16, 1, size // 32)
            on_card = torch.randint(-(2**15), 2**15, shape, dtype=torch.int16, device="cuda")
            on_host = on_card.flip(2).cpu().pin_memory()
            rows.append(measure(on_card, on_host, "device to host", options.rounds, rng))
            rows.append(measure(on_host, on_card, "host to device", options.rounds, rng))
            rows.append(measure(on_card, torch.empty_like(on_card), "on the device", options.rounds, rng))
    except AssertionError as error:
        print(error, file=sys.stderr)
        return 1
    rows.sort(key=lambda row: (row.direction, row.block_bytes))
    crossings = {
        direction: crossing([row for row in rows if row.direction == direction])
        for direction in ("device to host", "host to device")
    }
    if options.json:
        report = json.dumps(
            {
                "device": torch.cuda.get_device_name(),
                "torch": torch.__version__,
                "bytes": options.mib * 2**20,
                "layers": options.layers,
                "rounds": options.rounds,
                "engine_from_bytes": ENGINE_FROM_BYTES,
                "rows": [asdict(row) for row in rows],
                "engine_no_slower_from_bytes": crossings,
            },
            indent=2,
        )
        if options.json == "-":
            print(report)
        else:
            Path(options.json).write_text(report + "\n")
    if options.json != "-":
        show(rows, crossings, 2 * options.layers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
