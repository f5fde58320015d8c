"""Time the proofs: `python benchmarks/prove.py [MACHINE ...] [--runs N] [--json]`.

Prints, for each machine, its obligations, the seconds of computing (in all processes) of the fastest and the median
run, and the slowest single obligation; and the totals, with the wall time of the fastest run over all machines. Nothing
is believed that was proved in an earlier run; within one run, what was proved of one machine serves the next.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from typing import Any

from kvproof.checkers.prove import How, ProveReport, prove_machines
from kvproof.harness.machines import KNOWN, find_machine


def measure(names: list[str], runs: int) -> tuple[list[dict[str, Any]], float]:
    """Prove the machines several times; also the wall time of the fastest run, in seconds."""
    machines, reports, walls = [find_machine(name) for name in names], [], []
    for _ in range(runs):
        started = time.perf_counter()
        reports.append(prove_machines(machines, How()))
        walls.append(time.perf_counter() - started)
    return [summary(list(of_machine)) for of_machine in zip(*reports, strict=True)], min(walls)


def summary(reports: list[ProveReport]) -> dict[str, Any]:
    """What came of one machine in all runs."""
    last = reports[-1]
    return {
        "machine": last.machine,
        "obligations": len(last.obligations),
        "proved": last.count("proved"),
        "recalled": last.recalled,
        "fastest": min(r.seconds for r in reports),
        "median": statistics.median(r.seconds for r in reports),
        "slowest_obligation": min(r.slowest for r in reports),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("machines", nargs="*", default=list(KNOWN))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows, wall = measure(options.machines, options.runs)
    if options.json:
        print(json.dumps({"cores": os.cpu_count(), "wall": wall, "machines": rows}))
        return
    print(f"{'machine':<12} {'obligations':>11} {'proved':>7} {'fastest':>9} {'median':>9} {'slowest obligation':>19}")
    for r in rows:
        print(
            f"{r['machine']:<12} {r['obligations']:>11} {r['proved']:>7} {r['fastest']:>7.2f} s {r['median']:>7.2f} s "
            f"{r['slowest_obligation']:>17.2f} s"
        )
    print(
        f"together: {sum(r['obligations'] for r in rows)} obligations, fastest {sum(r['fastest'] for r in rows):.2f} s "
        f"of computing, {wall:.2f} s by the clock"
    )


if __name__ == "__main__":
    main()
