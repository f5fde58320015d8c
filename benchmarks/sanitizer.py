"""What the sanitizer costs a running vLLM: microseconds a step of a release's own scheduler, with and without it.

    python benchmarks/sanitizer.py vllm==0.33.0

The release's engine core steps, with its own scheduler and a forward pass that is made up: 256 requests at a time, in
blocks of 16 tokens, prompts of 64 to 600 tokens of which half share a prefix, a pool that is too small to keep what was
cached. The first 256 are let in before anything is counted. The same requests are played in turns without the sanitizer
(its wrappers taken off), with every call judged, and with the whole state checked too. Of each step the least processor
time over all turns counts: the difference is the sanitizer's. A real step would take its forward pass besides; 5 ms
stand for a short one.
"""

import argparse
import json
import os
import subprocess

from kvproof.cli.commands.run import HOOK
from kvproof.cli.hunting import open_build
from kvproof.engines.catalog import ENGINES
from kvproof.engines.session import WORKER

STEP = 5000.0
"""Microseconds of the step that shares are given of."""

IN_ENGINE = """
import gc, json, random, sys, time
sys.path[:0] = sys.argv[1:3]
turns, steps, blocks = map(int, sys.argv[3:6])
import vllm_model
from vllm.v1.core.block_pool import BlockPool
from vllm.v1.core.sched.scheduler import Scheduler
from vllm_scheduler import SchedulerLevel
from vllm_model import Plan

SETUP = {"groups": [{"kind": "full", "block": 16}], "blocks": blocks, "max_len": 1024, "budget": 8192, "max_seqs": 256}
METHODS = sys.modules["_kvproof_vllm.sanitizer.observing"].METHODS
WRAPPED = [(BlockPool, name, vars(BlockPool)[name]) for name in METHODS if name in vars(BlockPool)]
WRAPPED.append((Scheduler, "update_from_output", Scheduler.update_from_output))

def requests():
    drawn = random.Random(7)
    heads = [[drawn.randrange(3) for _ in range(320)] for _ in range(8)]
    while True:
        tokens = [drawn.randrange(3) for _ in range(drawn.randrange(64, 280))]
        if drawn.random() < 0.5:
            tokens = drawn.choice(heads) + tokens
        yield {"tokens": tokens, "max_tokens": drawn.randrange(20, 200)}

def play(mode):
    for cls, name, method in WRAPPED:
        setattr(cls, name, method.__wrapped__ if mode == "without" else method)
    level, more, took = SchedulerLevel(SETUP), requests(), []
    watch = level._pool._kvproof_watch
    watch._settings = watch._settings._replace(every=1 if mode == "whole" else 0)
    while len(level._alive) < 256 or level._scheduler.waiting:
        level.op_add(next(more)) if len(level._alive) < 256 else level._step(Plan(token=3))
    level.take_effects()
    gc.collect()
    for _ in range(steps):
        while len(level._alive) < 256:
            level.op_add(next(more))
        began = time.thread_time_ns()
        level._step(Plan(token=3))
        took.append(time.thread_time_ns() - began)
        level.take_effects()
    assert (mode == "without") == (not watch.steps)
    return took

play("calls")
gc.collect()
gc.freeze()  # As the release's engine core does once it has started.
best = {}
for _ in range(turns):
    for mode in ("without", "calls", "whole"):
        took = play(mode)
        best[mode] = [min(pair) for pair in zip(best.get(mode, took), took)]
print(json.dumps(best))
"""
"""What the engine's interpreter runs."""


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--blocks", type=int, default=10_000)
    parser.add_argument("--every", type=int, default=1000, help="the steps between two checks of the whole state")
    given = parser.parse_args()
    build = open_build(given.target)
    environment = {**build.environment(), "KVPROOF_SANITIZE": "1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(HOOK), *filter(None, [environment.get("PYTHONPATH")])])
    adapters = ENGINES[build.name].WORKER.parent
    numbers = map(str, (given.turns, given.steps, given.blocks))
    command = [str(build.python), "-c", IN_ENGINE, str(WORKER), str(adapters), *numbers]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    show(given, json.loads(done.stdout.splitlines()[-1]))


def show(given: argparse.Namespace, took: dict[str, list[int]]) -> None:
    """Print what the steps took."""
    without, calls, whole = (sum(took[mode]) / len(took[mode]) / 1000 for mode in ("without", "calls", "whole"))
    once = whole - calls
    rows: list[tuple[str, float]] = [
        ("every call judged", calls - without),
        (f"and the whole state every {given.every} steps", calls - without + once / given.every),
        ("and the whole state every step", whole - without),
    ]
    worst = sorted(c - w for c, w in zip(took["calls"], took["without"], strict=True))
    print(f"{given.target}, {given.blocks} blocks, {given.steps} steps, {without:.0f} µs each with the made-up model")
    print("| mode | µs a step | of a 5 ms step |\n|---|---:|---:|")
    for name, cost in rows:
        print(f"| {name} | {cost:.0f} | {cost / STEP:.2%} |")
    print(f"one check of the whole state: {once / 1000:.1f} ms")
    at = [worst[len(worst) * share // 100] / 1000 for share in (50, 95)] + [worst[-1] / 1000]
    print("judging calls: median step {:.0f} µs, 95th percentile {:.0f} µs, dearest {:.0f} µs".format(*at))


if __name__ == "__main__":
    main()
