"""How fast the real trace is replayed: block operations per second by capacity, hashing included, checks excluded.

Usage: python benchmarks/workload.py TRACE [CAPACITY ...]    (default: 1000 10000 unlimited)

Each line is the best of three replays, with the state judged at the end only.
"""

import sys

from kvproof.workload.replay import Replay
from kvproof.workload.requests import read_workload
from kvproof.workload.target import RefimplTarget


def main() -> None:
    """Replay and print."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    work = read_workload(sys.argv[1])
    for text in sys.argv[2:] or ["1000", "10000", "unlimited"]:
        capacity = work.total_blocks if text == "unlimited" else int(text)
        results = [Replay(work, RefimplTarget(capacity), check="end").run() for _ in range(3)]
        assert all(result.violation is None for result in results)
        best = max(results, key=lambda result: result.operations_per_second)
        print(
            f"{text:>10}: hit rate {best.hit_rate:.6f}, {best.operations_per_second:,.0f} block operations/s, "
            f"{best.requests / best.target_seconds:,.0f} requests/s, whole replay {best.seconds:.1f} s"
        )


if __name__ == "__main__":
    main()
