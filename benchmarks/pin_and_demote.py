"""What pinning costs: nothing when it is off, and O(1) per block when it is on.

Three pools go through the same sequence of allocate, register, touch and free, in turns in one run: a ``BlockPool``, a
``PinnedPool`` that does not pin (D6), and one that pins every block that carries a key. Costs are given as ratios to
the first. Then each operation on pins (mark, free to the pinned queue, hit out of it, demote) is measured on small and
on large pools: the cost per block must not grow with the pool.

What still grows is memory, as in ``refimpl_pool.py``: only the few blocks that each round goes through are warm in both
pools, so their ratio must be near 1. ``full`` pins the whole pool, in shuffled order: cold in the large one. A linear
operation would show as a ratio of about 100 in either.

    python benchmarks/pin_and_demote.py [--small 1000] [--large 100000] [--rounds 15] [--json FILE]

Exit status 1 if a whole life without pinning costs more than ``--off-limit`` times the base's, or a warm ratio of the
large pool to the small one is above ``--limit``. (Evict has one block a call, so that it shows the cost of a call.)
"""

import argparse
import gc
import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter_ns

from kvproof.refimpl.pool.block_pool import BlockPool
from kvproof.refimpl.pool.keys import block_key
from kvproof.refimpl.pool.pinned_pool import PinnedPool

BATCH = 24
"""Blocks per call: what an average request of the conversation trace has at 512 tokens a block."""

CALLS = 40
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


def cut(blocks: list[int]) -> list[list[int]]:
    """Cut ``blocks`` into calls."""
    return [blocks[start : start + BATCH] for start in range(0, len(blocks), BATCH)]


def each(call: Callable[[list[int]], object], calls: list[list[int]]) -> Callable[[], None]:
    """Return a function that makes all the calls."""

    def make_calls() -> None:
        for blocks in calls:
            call(blocks)

    return make_calls


def allocate(pool: BlockPool, count: int) -> list[int]:
    """Take ``count`` blocks, a request's worth a call."""
    held: list[int] = []
    for start in range(0, count, BATCH):
        held += pool.allocate(min(BATCH, count - start)) or ()
    assert len(held) == count
    return held


def register(pool: BlockPool, blocks: list[int], keys: list[bytes]) -> None:
    """Give each block a key of its own."""
    for block, key in zip(blocks, keys, strict=True):
        pool.register(block, key, None)


def life(pool: BlockPool, keys: list[bytes], order: list[int], timings: Timings) -> None:
    """Take blocks through a whole life, all of them through one operation before the next.

    A pool that pins marks them once they are registered, so they are freed to, and hit in, the pinned queue.
    """
    count = len(keys)
    held: list[int] = []
    timed(timings, "allocate", count, lambda: held.extend(allocate(pool, count)))
    timed(timings, "register", count, lambda: register(pool, held, keys))
    calls = cut([held[index] for index in order])
    if isinstance(pool, PinnedPool) and pool.pinning:
        pool.mark(held)
    timed(timings, "touch, held", count, each(pool.touch, calls))
    timed(timings, "free, still held", count, each(pool.free, calls))
    timed(timings, "free, to the tail", count, each(pool.free, calls))
    timed(timings, "touch, from the queue", count, each(pool.touch, calls))
    timed(timings, "evict", count, each(lambda blocks: list(map(pool.evict, blocks)), calls))
    timed(timings, "free, to the head", count, each(pool.free, calls))


def pins(pool: PinnedPool, keys: list[bytes], order: list[int], prefix: str, timings: Timings) -> None:
    """Pin, hit and demote as many blocks as there are keys, all of them through one operation before the next."""
    count = len(keys)
    held = allocate(pool, count)
    register(pool, held, keys)
    calls = cut([held[index] for index in order])
    sizes = [len(blocks) for blocks in calls]
    timed(timings, f"{prefix} mark", count, each(pool.mark, calls))
    timed(timings, f"{prefix} free, pinned", count, each(pool.free, calls))
    timed(timings, f"{prefix} touch, from pinned", count, each(pool.touch, calls))
    timed(timings, f"{prefix} free, pinned again", count, each(pool.free, calls))
    timed(timings, f"{prefix} demote", count, lambda: list(map(pool.demote, sizes)))
    # Back to the head, without keys, so that the same blocks come first again.
    for blocks in calls:
        pool.touch(blocks)
        for block in blocks:
            pool.evict(block)
        pool.free(blocks)


def measure_modes(size: int, rounds: int, rng: random.Random) -> dict[str, Timings]:
    """Return the best timings of the three kinds of pool, and their sum; they take turns, round by round."""
    pools = {
        "base": BlockPool(size + 1, events=False),
        "off": PinnedPool(size + 1, events=False, pinning=False),
        "on": PinnedPool(size + 1, events=False),
    }
    results: dict[str, Timings] = {mode: {} for mode in pools}
    count = min(BATCH * CALLS, size)
    keys = make_keys(count)
    for _ in range(rounds):
        order = rng.sample(range(count), count)
        for _ in range(4):
            for mode, pool in pools.items():
                life(pool, keys, order, results[mode])
        gc.collect()
    for timings in results.values():
        timings["whole life"] = sum(timings.values())
    return results


def measure_sizes(sizes: tuple[int, int], rounds: int, rng: random.Random) -> dict[int, Timings]:
    """Return the best timings of the operations on pins, for each pool size; the pools take turns."""
    pools = {size: PinnedPool(size + 1, events=False) for size in sizes}
    results: dict[int, Timings] = {size: {} for size in sizes}
    keys = make_keys(max(sizes))
    warm = min(BATCH * CALLS, min(sizes))
    for _ in range(rounds):
        order = rng.sample(range(warm), warm)
        for _ in range(4):
            for size in sizes:
                pins(pools[size], keys[:warm], order, "warm", results[size])
        gc.collect()
    for _ in range(max(1, rounds // 5)):
        for size in sizes:
            # As many passes of the small pool as make one of the large: the best of equal work.
            for _ in range(max(1, min(20, max(sizes) // size))):
                pins(pools[size], keys[:size], rng.sample(range(size), size), "full", results[size])
        gc.collect()
    return results


def main(arguments: list[str] | None = None) -> int:
    """Measure, print the tables, and judge the ratios."""
    parser = argparse.ArgumentParser(description="Cost of pinning, off and on, in small and in large pools.")
    parser.add_argument("--small", type=int, default=1_000, help="blocks of the small pool")
    parser.add_argument("--large", type=int, default=100_000, help="blocks of the large pool")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--off-limit", type=float, default=1.2, help="the greatest cost of a life without pinning")
    parser.add_argument("--limit", type=float, default=1.5, help="the greatest warm ratio of the pools that passes")
    parser.add_argument("--json", metavar="FILE", help="write the numbers as JSON; - for standard output")
    options = parser.parse_args(arguments)

    rng = random.Random(options.seed)
    gc.disable()
    try:
        modes = measure_modes(options.large, options.rounds, rng)
        sizes = measure_sizes((options.small, options.large), options.rounds, rng)
    finally:
        gc.enable()
    base, off, on = modes["base"], modes["off"], modes["on"]
    small, large = sizes[options.small], sizes[options.large]
    growth = {name: large[name] / small[name] for name in small}
    off_ratio = off["whole life"] / base["whole life"]
    worst_growth = max(ratio for name, ratio in growth.items() if name.startswith("warm"))
    passed = off_ratio <= options.off_limit and worst_growth <= options.limit

    if options.json:
        report = json.dumps(
            {
                "small": options.small,
                "large": options.large,
                "modes_nanoseconds_per_block": {
                    name: {
                        "base": base[name],
                        "off": off[name],
                        "on": on[name],
                        "off_ratio": off[name] / base[name],
                        "on_ratio": on[name] / base[name],
                    }
                    for name in base
                },
                "pins_nanoseconds_per_block": {
                    name: {"small": small[name], "large": large[name], "ratio": growth[name]} for name in small
                },
                "off_ratio": off_ratio,
                "worst_warm_ratio": worst_growth,
                "passed": passed,
            },
            indent=2,
        )
        if options.json == "-":
            print(report)
        else:
            Path(options.json).write_text(report + "\n")
    if options.json != "-":
        print(f"{'ns per block':28}{'BlockPool':>12}{'pinning off':>12}{'ratio':>8}{'pinning on':>12}{'ratio':>8}")
        for name in base:
            print(
                f"{name:28}{base[name]:12.0f}{off[name]:12.0f}{off[name] / base[name]:8.2f}"
                f"{on[name]:12.0f}{on[name] / base[name]:8.2f}"
            )
        print(f"\n{'ns per block':28}{options.small:>12,}{options.large:>12,}{'ratio':>8}")
        for name in small:
            print(f"{name:28}{small[name]:12.0f}{large[name]:12.0f}{growth[name]:8.2f}")
        print(
            f"a life without pinning {off_ratio:.2f} of the base's, limit {options.off_limit}; "
            f"worst warm ratio {worst_growth:.2f}, limit {options.limit}: {'passed' if passed else 'FAILED'}"
        )
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
