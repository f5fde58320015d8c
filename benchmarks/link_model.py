"""What one event of a shared link costs, by the number of active transfers (G2).

    python benchmarks/link_model.py [--active 10 1000 100000] [--rounds 7] [--json FILE]

An event is one start, one move to the earliest deadline, and one completion there, on a link that keeps as many active
transfers as it has. The link model of the reference implementation (floats) is measured beside one that is written the
obvious way: what is left of each transfer in a table, the least of them searched, and all counted down. Both do the
same events and complete the same transfers in the same order, which is checked.

All sizes and both models are measured in one run, in turns, so that a slow phase of the machine hits all; the best of
all rounds is reported. What counts are the ratios to the cost at the fewest transfers. The heap of 100,000 is beyond
the CPU's nearer caches, so a ratio somewhat above that of the logarithms is memory.

Exit status 1 if the link model's worst ratio is above ``--limit``, or the two disagree.
"""

import argparse
import gc
import json
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter_ns

from kvproof.refimpl.timed.links import LinkModel

BANDWIDTH = 25e9
"""Bytes per second."""

SIZES = (1e5, 1e8)
"""Least and greatest bytes of a transfer."""

SCAN_STEPS = 1_000_000
"""How many entries the peer looks at in one round: that many events fewer it has where there are more transfers."""


class ScanLink:
    """The peer: one link, and what is left of each of its transfers. Every event looks at all of them."""

    def __init__(self, bandwidth: float) -> None:
        self.bandwidth = bandwidth
        self.now = 0.0
        self.issued = 0
        self.left: dict[int, float] = {}

    def start(self, size: float) -> None:
        """Start a transfer."""
        self.left[self.issued] = size
        self.issued += 1

    def complete_next(self) -> int:
        """Move to the earliest deadline and complete what is due there."""
        left = self.left
        due = min(left, key=lambda transfer: left[transfer])
        moved = left[due]
        self.now += moved * len(left) / self.bandwidth
        for transfer in left:
            left[transfer] -= moved
        del left[due]
        return due


class HeapLink:
    """The reference implementation's, with the same two calls."""

    def __init__(self, bandwidth: float) -> None:
        self.model = LinkModel([bandwidth], now=0.0)

    def start(self, size: float) -> None:
        """Start a transfer."""
        self.model.start(0, size)

    def complete_next(self) -> int:
        """Move to the earliest deadline and complete what is due there."""
        deadline = self.model.deadline()
        assert deadline is not None
        self.model.move(deadline)
        return self.model.complete().id


Link = ScanLink | HeapLink


def filled(link: Link, active: int) -> Link:
    """Give a link so many transfers."""
    sizes = random.Random(active)
    for _ in range(active):
        link.start(sizes.uniform(*SIZES))
    return link


def timed(link: Link, sizes: Sequence[float]) -> tuple[float, list[int]]:
    """Do one event per size; return nanoseconds per event, and what was completed."""
    done = []
    began = perf_counter_ns()
    for size in sizes:
        link.start(size)
        done.append(link.complete_next())
    return (perf_counter_ns() - began) / len(sizes), done


def measure(actives: Sequence[int], rounds: int, events: int) -> tuple[dict[str, dict[int, float]], bool]:
    """Return the lowest cost of an event by model and number of transfers, and whether both did the same."""
    links: dict[str, dict[int, Link]] = {
        "link model": {active: filled(HeapLink(BANDWIDTH), active) for active in actives},
        "scan": {active: filled(ScanLink(BANDWIDTH), active) for active in actives},
    }
    costs: dict[str, dict[int, float]] = {name: dict.fromkeys(actives, float("inf")) for name in links}
    done: dict[str, dict[int, list[int]]] = {name: {active: [] for active in actives} for name in links}
    # Every round has sizes of its own, the same for both: what differs is how many of them a model gets to.
    draws = {(name, active): random.Random(active + 1) for name in links for active in actives}
    for _ in range(rounds):
        for name, by_active in links.items():
            for active, link in by_active.items():
                count = events if name == "link model" else max(1, min(events, SCAN_STEPS // active))
                sizes = [draws[name, active].uniform(*SIZES) for _ in range(count)]
                cost, ended = timed(link, sizes)
                costs[name][active] = min(cost, costs[name][active])
                done[name][active] += ended
    agree = all(done["link model"][active][: len(ended)] == ended for active, ended in done["scan"].items())
    return costs, agree


def main() -> int:
    """Measure, and print the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--active", type=int, nargs="+", default=[10, 1_000, 100_000], help="active transfers")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--events", type=int, default=5_000, help="events per round, of the link model")
    parser.add_argument("--limit", type=float, default=4.0, help="the worst ratio to the fewest transfers")
    parser.add_argument("--json", help="write the figures to this file, '-' for standard output")
    options = parser.parse_args()
    actives = sorted(set(options.active))

    gc.disable()
    try:
        costs, agree = measure(actives, options.rounds, options.events)
    finally:
        gc.enable()
    ratios = {name: {active: cost / by[actives[0]] for active, cost in by.items()} for name, by in costs.items()}
    worst = max(ratios["link model"].values())
    passed = agree and worst <= options.limit

    if options.json:
        report = json.dumps(
            {
                "nanoseconds_per_event": costs,
                "ratios": ratios,
                "scan_to_link_model": {
                    active: costs["scan"][active] / costs["link model"][active] for active in actives
                },
                "agree": agree,
                "passed": passed,
            },
            indent=2,
        )
        if options.json == "-":
            print(report)
        else:
            Path(options.json).write_text(report + "\n")
    if options.json != "-":
        print(f"{'active':>9}{'link model':>14}{'ratio':>9}{'scan':>16}{'ratio':>11}   ns per event")
        for active in actives:
            print(
                f"{active:9,}{costs['link model'][active]:14,.0f}{ratios['link model'][active]:9.2f}"
                f"{costs['scan'][active]:16,.0f}{ratios['scan'][active]:11.1f}"
            )
        print(
            f"the same transfers in the same order: {'yes' if agree else 'NO'}; "
            f"worst ratio {worst:.2f}, limit {options.limit}: {'passed' if passed else 'FAILED'}"
        )
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
