"""Time the proofs: `python benchmarks/prove.py [MACHINE ...] [--runs N] [--json]`.

Prints, for each machine, its obligations, the wall time of the fastest and the median run, and the slowest single
obligation; and the totals, against the peer that DESIGN names: 330 obligations of a hand-written model in 2.2 to 3.6 s.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from typing import Any

from kvproof.checkers.prove import prove
from kvproof.machines import KNOWN, find_machine


def measure(name: str, runs: int) -> dict[str, Any]:
    """Prove one machine several times."""
    reports = [prove(find_machine(name)) for _ in range(runs)]
    last = reports[-1]
    return {
        "machine": last.machine,
        "obligations": len(last.obligations),
        "proved": last.count("proved"),
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
    rows = [measure(name, options.runs) for name in options.machines]
    if options.json:
        print(json.dumps({"cores": os.cpu_count(), "machines": rows}))
        return
    print(f"{'machine':<12} {'obligations':>11} {'proved':>7} {'fastest':>9} {'median':>9} {'slowest obligation':>19}")
    for r in rows:
        print(
            f"{r['machine']:<12} {r['obligations']:>11} {r['proved']:>7} {r['fastest']:>7.2f} s {r['median']:>7.2f} s "
            f"{r['slowest_obligation']:>17.2f} s"
        )
    print(
        f"together: {sum(r['obligations'] for r in rows)} obligations, fastest {sum(r['fastest'] for r in rows):.2f} s"
    )


if __name__ == "__main__":
    main()
