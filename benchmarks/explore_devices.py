"""The explorer on a CUDA device beside the same machine's processor, in turns, on the model of the baselines.

Both are given once what they compile or load at first; then medians of rounds. Shown are states, transitions, the
seconds of each, and the processor's over the card's. Counts must be the same to the state.

    python -m benchmarks.explore_devices [--rounds 3] [--json FILE]

Exit status 2 without a CUDA device.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from kvproof.checkers.explore import ExploreReport, explore
from tests.explore.alloc import Alloc, scope

SIZES = ((4, 2, 2), (4, 3, 2), (5, 2, 2), (5, 3, 2))
"""Blocks, requests and hashes: 32 thousand to 10 million states."""


def explored(sizes: tuple[int, int, int], device: str) -> ExploreReport:
    """All states of the model at one size, on one device."""
    report = explore(Alloc, scope(Alloc, *sizes), device=device)
    assert report.complete
    assert not report.violations
    return report


def measure(sizes: tuple[int, int, int], rounds: int) -> dict[str, Any]:
    """Explore on both in turn; the median of each."""
    seconds: dict[str, list[float]] = {"cpu": [], "cuda": []}
    counts = set()
    for _ in range(rounds):
        for device, taken in seconds.items():
            report = explored(sizes, device)
            counts.add((report.states, report.transitions))
            taken.append(report.seconds)
    ((states, transitions),) = counts
    cpu, cuda = (statistics.median(taken) for taken in seconds.values())
    return {
        "size": sizes,
        "states": states,
        "transitions": transitions,
        "cpu_seconds": cpu,
        "cuda_seconds": cuda,
        "ratio": cpu / cuda,
    }


def show(rows: list[dict[str, Any]]) -> None:
    """Print the table."""
    table = Table(title=f"{torch.cuda.get_device_name()}: the explorer beside the processor")
    for heading in ("size", "states", "transitions", "processor s", "card s", "processor over card"):
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(
            "-".join(map(str, row["size"])),
            f"{row['states']:,}",
            f"{row['transitions']:,}",
            f"{row['cpu_seconds']:.2f}",
            f"{row['cuda_seconds']:.2f}",
            f"{row['ratio']:.2f}",
        )
    Console(soft_wrap=True).print(table)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", metavar="FILE", help="write the numbers there too")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("the explorer is measured on a CUDA device, and torch finds none here", file=sys.stderr)
        return 2
    for device in ("cpu", "cuda"):
        explored(SIZES[0], device)
    rows = [measure(sizes, options.rounds) for sizes in SIZES]
    show(rows)
    if options.json:
        report = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": rows}
        Path(options.json).write_text(json.dumps(report, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
