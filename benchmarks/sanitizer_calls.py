"""What the sanitizer adds to each call of a release's block pool, and to a step with so many of them.

    python benchmarks/sanitizer_calls.py vllm==0.33.0

`sanitizer.py` compares whole steps, which other work on the machine disturbs more than the sanitizer does. Here the
same calls are made over and over, of 1 and of 12 blocks, in turns without the sanitizer (its wrappers taken off) and
with it. Of each kind of call the lower quartile of a turn counts, and of the turns the least: a call takes some
microseconds, and most are not disturbed. The last line puts them together to the step of `sanitizer.py`: CALLS.
"""

import argparse
import json
import os
import subprocess

from kvproof.cli.commands.run import HOOK
from kvproof.cli.hunting import open_build
from kvproof.engines.catalog import ENGINES
from kvproof.engines.session import WORKER

CALLS = {"take 1": 15.1, "register 1": 15.1, "take 12": 4.1, "register 12": 3.6, "touch 12": 3.5, "free 12": 2.3}
"""Calls of a step of `sanitizer.py`, those of several blocks as so many of 12: counted over its first 90 steps."""
STEP = 5000.0
"""Microseconds of the step that shares are given of."""

IN_ENGINE = """
import json, os, sys, time
from types import SimpleNamespace
sys.path[:0] = sys.argv[1:3]
turns, rounds = map(int, sys.argv[3:5])
from vllm.v1.core.block_pool import BlockPool
from vllm_scheduler import SchedulerLevel
watched = sys.modules["_kvproof_vllm.sanitizer.arming"]

SETUP = {"groups": [{"kind": "full", "block": 16}], "blocks": 10_000, "max_len": 1024, "budget": 8192, "max_seqs": 256}
WRAPPED = [(name, vars(BlockPool)[name]) for name in watched.POOLS.methods if name in vars(BlockPool)]

def turn(mode):
    for name, method in WRAPPED:
        setattr(BlockPool, name, method.__wrapped__ if mode == "without" else method)
    pool, took, clock = SchedulerLevel(SETUP)._pool, {}, time.perf_counter_ns

    def timed(name, call, *args, **kwargs):
        began = clock()
        answer = call(*args, **kwargs)
        took.setdefault(name, []).append(clock() - began)
        return answer

    for _ in range(rounds):
        for n in (1, 12):
            blocks = timed(f"take {n}", pool.get_new_blocks, n)
            hashes = [os.urandom(32) for _ in range(n)]
            request = SimpleNamespace(block_hashes=hashes, all_token_ids=[0] * 16 * n, lora_request=None, session_id="")
            timed(f"register {n}", pool.cache_full_blocks, request=request, blocks=blocks, num_cached_blocks=0,
                num_full_blocks=n, block_size=16, kv_cache_group_id=0)
            timed(f"free {n}", pool.free_blocks, reversed(blocks))
            timed(f"touch {n}", pool.touch, blocks)
            pool.free_blocks(blocks)
    return {name: sorted(each)[len(each) // 4] for name, each in took.items()}

played = {"without": [], "calls": []}
for _ in range(turns):
    for mode in played:
        played[mode].append(turn(mode))
print(json.dumps(played))
"""
"""What the engine's interpreter runs."""


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target")
    parser.add_argument("--turns", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=400)
    given = parser.parse_args()
    build = open_build(given.target)
    environment = {**build.environment(), "KVPROOF_SANITIZE": "1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(HOOK), *filter(None, [environment.get("PYTHONPATH")])])
    adapters = ENGINES[build.name].WORKER.parent
    command = [str(build.python), "-c", IN_ENGINE, str(WORKER), str(adapters), str(given.turns), str(given.rounds)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    turns: dict[str, list[dict[str, int]]] = json.loads(done.stdout.splitlines()[-1])
    least = {mode: {name: min(turn[name] for turn in of) / 1000 for name in of[0]} for mode, of in turns.items()}
    added = {name: least["calls"][name] - of for name, of in least["without"].items()}
    print("| call, of so many blocks | µs without it | µs that it adds |\n|---|---:|---:|")
    for name, more in added.items():
        print(f"| {name} | {least['without'][name]:.2f} | {more:.2f} |")
    step = sum(added[name] * calls for name, calls in CALLS.items())
    print(f"a step of sanitizer.py: {step:.0f} µs, {step / STEP:.1%} of 5 ms")


if __name__ == "__main__":
    main()
