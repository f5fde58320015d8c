"""Cost of the reference implementation's pool operations in a small and in a large pool.

Every operation is O(1) per block: its cost must not grow with the pool. Both pools are measured in one run,
in turns, so that a slow phase of the machine hits both; the best of all rounds is reported.

What still grows is memory: the links, counts and map entries of 100,000 blocks do not fit the CPU's caches, those of
1,000 do. So the *work* per operation is told apart from the cost of reaching cold memory: ``cycle`` uses the same few
blocks over and over in both pools (warm: the ratio must be near 1), ``sweep`` goes through the whole pool in shuffled
order (cold in the large one). A linear operation would show as a ratio of about 100 in either.

    python benchmarks/refimpl_pool.py [--small 1000] [--large 100000] [--rounds 7] [--json FILE]

Exit status 1 if a warm ratio is above ``--limit``.
"""

import argparse
import gc
import json
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter_ns

from kvproof.refimpl.pool.block_pool import BlockPool
from kvproof.refimpl.pool.keys import block_key

BATCH = 24
"""Blocks per call: what an average request of the conversation trace has at 512 tokens a block."""

CYCLES = 40
"""Calls of each operation per round on the warm path."""

Timings = dict[str, float]
"""Operation to nanoseconds per block."""


def make_keys(count: int) -> list[bytes]:
    """Return ``count`` keys of one chain."""
    keys: list[bytes] = []
    parent: bytes | None = None
    for number in range(count):
        parent = block_key(parent, (number,))
        keys.append(parent)
    return keys


def timed(timings: Timings, name: str, blocks: int, call: Callable[[], object]) -> None:
    """Run ``call``, which moves ``blocks`` blocks, and keep the lowest cost per block seen so far."""
    start = perf_counter_ns()
    call()
    cost = (perf_counter_ns() - start) / blocks
    timings[name] = min(cost, timings.get(name, cost))


def batches(blocks: list[int]) -> Iterator[list[int]]:
    """Cut ``blocks`` into calls."""
    for start in range(0, len(blocks), BATCH):
        yield blocks[start : start + BATCH]


def run_through(pool: BlockPool, keys: list[bytes], order: list[int], prefix: str, timings: Timings) -> None:
    """Take ``len(keys)`` blocks through a whole life, all of them through one operation before the next.

    ``order`` is a permutation of the indices of ``keys``: the order in which blocks are found, touched and freed.
    """
    count = len(keys)
    held: list[int] = []

    def allocate() -> None:
        for size in sizes:
            held.extend(pool.allocate(size) or ())

    def register() -> None:
        for block, key in zip(held, keys, strict=True):
            pool.register(block, key, None)

    def lookup() -> None:
        for key in shuffled_keys:
            pool.lookup(key)

    def touch() -> None:
        for call in shuffled_calls:
            pool.touch(call)

    def free() -> None:
        for call in shuffled_calls:
            pool.free(call)

    def evict() -> None:
        for block in shuffled:
            pool.evict(block)

    sizes = [len(call) for call in batches(keys_as_numbers(count))]
    timed(timings, f"{prefix} allocate", count, allocate)
    timed(timings, f"{prefix} register", count, register)
    shuffled = [held[index] for index in order]
    shuffled_keys = [keys[index] for index in order]
    shuffled_calls = list(batches(shuffled))
    timed(timings, f"{prefix} lookup", count, lookup)
    timed(timings, f"{prefix} touch, held", count, touch)
    timed(timings, f"{prefix} free, still held", count, free)
    timed(timings, f"{prefix} free, to the tail", count, free)
    timed(timings, f"{prefix} touch, from the queue", count, touch)
    timed(timings, f"{prefix} evict", count, evict)
    timed(timings, f"{prefix} free, to the head", count, free)


def keys_as_numbers(count: int) -> list[int]:
    """Return ``0 .. count - 1``."""
    return list(range(count))


def measure(sizes: tuple[int, int], rounds: int, seed: int) -> dict[int, Timings]:
    """Return the best timings of each pool size; the pools take turns, round by round."""
    rng = random.Random(seed)
    keys = make_keys(max(sizes))
    pools = {size: BlockPool(size + 1, events=False) for size in sizes}
    results: dict[int, Timings] = {size: {} for size in sizes}
    warm = min(BATCH * CYCLES, min(sizes))
    gc.disable()
    try:
        for _ in range(rounds):
            warm_order = rng.sample(range(warm), warm)
            for size in sizes:
                # Freed to the head by the end, the same blocks come first again: warm in both pools.
                for _ in range(3):
                    run_through(pools[size], keys[:warm], warm_order, "cycle", results[size])
            for size in sizes:
                # As many passes of the small pool as make one of the large: the best of equal work.
                for _ in range(max(1, min(20, max(sizes) // size))):
                    order = rng.sample(range(size), size)
                    run_through(pools[size], keys[:size], order, "sweep", results[size])
            gc.collect()
    finally:
        gc.enable()
    return results


def main(arguments: list[str] | None = None) -> int:
    """Measure, print the table, and judge the warm ratios."""
    parser = argparse.ArgumentParser(description="Cost of pool operations in a small and in a large pool.")
    parser.add_argument("--small", type=int, default=1_000, help="blocks of the small pool")
    parser.add_argument("--large", type=int, default=100_000, help="blocks of the large pool")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=1.5, help="the greatest warm ratio that passes")
    parser.add_argument("--json", metavar="FILE", help="write the numbers as JSON; - for standard output")
    options = parser.parse_args(arguments)

    results = measure((options.small, options.large), options.rounds, options.seed)
    small, large = results[options.small], results[options.large]
    ratios = {name: large[name] / small[name] for name in small}
    worst = max(ratio for name, ratio in ratios.items() if name.startswith("cycle"))
    passed = worst <= options.limit
    if options.json:
        report = json.dumps(
            {
                "small": options.small,
                "large": options.large,
                "nanoseconds_per_block": {
                    name: {"small": small[name], "large": large[name], "ratio": ratios[name]} for name in small
                },
                "worst_warm_ratio": worst,
                "passed": passed,
            },
            indent=2,
        )
        if options.json == "-":
            print(report)
        else:
            Path(options.json).write_text(report + "\n")
    if options.json != "-":
        print(f"{'ns per block':28}{options.small:>12,}{options.large:>12,}{'ratio':>8}")
        for name in small:
            print(f"{name:28}{small[name]:12.0f}{large[name]:12.0f}{ratios[name]:8.2f}")
        print(f"worst warm ratio {worst:.2f}, limit {options.limit}: {'passed' if passed else 'FAILED'}")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
