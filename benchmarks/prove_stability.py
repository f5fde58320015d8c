"""Whether proofs depend on luck: every machine, proved anew many times with other seeds and other numbers of terms.

    python benchmarks/prove_stability.py --runs 100 [MACHINE]...

Each run asks everything anew. Shown for each machine: how many runs left something open, and the spread of what the
runs computed, as ratios to the median.
"""

from __future__ import annotations

import argparse
import statistics
from collections import Counter

from kvproof.checkers.prove import How, prove_machines
from kvproof.harness.machines import KNOWN, find_machine


def main() -> None:
    """Prove, count, show."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("machines", nargs="*", default=[], help="by name; all if none is given")
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--first", type=int, default=1, help="the number of the first run")
    parser.add_argument("--jobs", type=int)
    given = parser.parse_args()
    names = given.machines or list(KNOWN)
    machines = [find_machine(name) for name in names]
    seconds: dict[str, list[float]] = {name: [] for name in names}
    slowest: dict[str, float] = dict.fromkeys(names, 0.0)
    left: Counter[str] = Counter()
    for number in range(given.first, given.first + given.runs):
        for name, report in zip(names, prove_machines(machines, How(perturbed=number), jobs=given.jobs), strict=True):
            seconds[name].append(report.seconds)
            slowest[name] = max(slowest[name], report.slowest)
            for o in report.obligations:
                if o.verdict != "proved":
                    left[name] += 1
                    print(f"run {number}: {o.verdict}: {name}.{o.action}: {o.goal}", flush=True)
        print(f"run {number}: {sum(s[-1] for s in seconds.values()):.1f} s of computing", flush=True)
    print("| machine | runs | obligations left open | least | median | most | slowest obligation |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name in names:
        middle = statistics.median(seconds[name])
        least, most = min(seconds[name]) / middle, max(seconds[name]) / middle
        print(
            f"| {name} | {given.runs} | {left[name]} | {least:.2f} | {middle:.1f} s | {most:.2f} | "
            f"{slowest[name]:.2f} s |"
        )


if __name__ == "__main__":
    main()
