"""What the sanitizer costs a running vLLM: microseconds a step of a release's own scheduler, with and without it.

    python benchmarks/sanitizer.py vllm==0.33.0 [--offload]

The release's engine core steps, with its own scheduler and a forward pass that is made up: 256 requests at a time, in
blocks of 16 tokens, prompts of 64 to 600 tokens of which half share a prefix, a pool that is too small to keep what was
cached. With ``--offload`` its offloading connector stores to a host and loads from it, whose chunk manager is watched
too; copies end at once. Nothing is counted of the first 30 steps, which let the first requests in.

The same requests are played in turns without the sanitizer (its wrappers taken off) and with every call judged. What is
counted is the processor time of the process. Of each step the least over all turns counts, since other work slows a
machine down by times; the spread is that of the turns, each against the one beside it. The check of the whole state is
timed for itself, on the state at the end of the first turn. A real step would take its forward pass besides; 5 ms stand
for a short one.
"""

import argparse
import json
import os
import subprocess
from statistics import quantiles
from typing import Any

from kvproof.cli.commands.run import HOOK
from kvproof.cli.hunting import open_build
from kvproof.engines.catalog import ENGINES
from kvproof.engines.session import WORKER

STEP = 5000.0
"""Microseconds of the step that shares are given of."""

IN_ENGINE = """
import gc, json, random, sys, time
sys.path[:0] = sys.argv[1:3]
turns, steps, blocks, chunks = map(int, sys.argv[3:7])
import vllm_model
from vllm.v1.core.block_pool import BlockPool
from vllm.v1.core.sched.scheduler import Scheduler
from vllm_scheduler import SchedulerLevel
from vllm_model import Plan
watched = sys.modules["_kvproof_vllm.sanitizer.arming"]

BEFORE = 30
SETUP = {"groups": [{"kind": "full", "block": 16}], "blocks": blocks, "max_len": 1024, "budget": 8192, "max_seqs": 256}
SUBJECTS = [(BlockPool, watched.POOLS)]
if chunks:
    from vllm.v1.kv_offload.cpu.manager import CPUOffloadingManager
    SETUP["connector"] = {"kind": "offloading", "blocks": chunks, "policy": "lru", "factor": 1, "workers": 1}
    SUBJECTS.append((CPUOffloadingManager, watched.CHUNKS))
WRAPPED = [(cls, name, vars(cls)[name]) for cls, of in SUBJECTS for name in of.methods if name in vars(cls)]
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
    watches = [one()._kvproof_watch for _, of in SUBJECTS for one in of.ones[-1:]]
    for watch in watches:
        watch._settings = watch._settings._replace(every=0)

    def step():
        began = time.process_time_ns()
        level._step(Plan(token=3))
        took.append(time.process_time_ns() - began)
        while chunks and level._connector.complete(0, 1):
            pass
        level.take_effects()

    for number in range(BEFORE + steps):
        while len(level._alive) < 256:
            level.op_add(next(more))
        if number == BEFORE:
            took.clear()
            gc.collect()
        step()
    assert all((mode == "without") == (not watch.steps) for watch in watches)
    return took, level

def whole(level):
    took, watch = [], level._pool._kvproof_watch
    usual, watch._settings = watch._settings, watch._settings._replace(every=1)
    for _ in range(20):
        began = time.process_time_ns()
        watch.stepped(level._pool, level._scheduler)
        took.append(time.process_time_ns() - began)
    watch._settings = usual
    return min(took)

once = whole(play("calls")[1])
gc.collect()
gc.freeze()  # As the release's engine core does once it has started.
played = {"without": [], "calls": []}
for turn in range(turns):
    for mode in sorted(played, reverse=turn % 2 == 0):
        played[mode].append(play(mode)[0])
        gc.collect()
print(json.dumps({"once": once, **played}))
"""
"""What the engine's interpreter runs."""


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target")
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--blocks", type=int, default=10_000)
    parser.add_argument("--offload", action="store_true", help="with the release's offloading connector")
    parser.add_argument("--chunks", type=int, default=4000, help="what the host keeps of it")
    parser.add_argument("--every", type=int, default=1000, help="the steps between two checks of the whole state")
    given = parser.parse_args()
    build = open_build(given.target)
    environment = {**build.environment(), "KVPROOF_SANITIZE": "1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(HOOK), *filter(None, [environment.get("PYTHONPATH")])])
    adapters = ENGINES[build.name].WORKER.parent
    numbers = map(str, (given.turns, given.steps, given.blocks, given.chunks if given.offload else 0))
    command = [str(build.python), "-c", IN_ENGINE, str(WORKER), str(adapters), *numbers]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    show(given, json.loads(done.stdout.splitlines()[-1]))


def show(given: argparse.Namespace, took: dict[str, Any]) -> None:
    """Print what the steps took."""
    once = took["once"] / 1000
    least = {mode: [min(step) for step in zip(*took[mode], strict=True)] for mode in ("without", "calls")}
    without, calls = (sum(steps) / len(steps) / 1000 for steps in least.values())
    rows = [
        ("every call judged", calls - without),
        (f"and the whole state every {given.every} steps", calls - without + once / given.every),
        ("and the whole state every step", calls - without + once),
    ]
    print(f"{given.target}, {given.blocks} blocks, {given.turns} turns of {given.steps} steps")
    print(f"a step without the sanitizer: {without:.0f} µs with the made-up model")
    print("| mode | µs a step | of a 5 ms step | of the step as it is here |\n|---|---:|---:|---:|")
    for name, cost in rows:
        print(f"| {name} | {cost:.0f} | {cost / STEP:.2%} | {cost / without:.2%} |")
    of_turns = [sum(c) / sum(w) - 1 for w, c in zip(took["without"], took["calls"], strict=True)]
    low, middle, high = quantiles(of_turns, n=4)
    print(f"judging calls, turn by turn, of the step as it is here: {middle:.1%}, quartiles {low:.1%} and {high:.1%}")
    each = sorted((c - w) / 1000 for w, c in zip(least["without"], least["calls"], strict=True))
    at = [each[len(each) // 2], each[len(each) * 95 // 100], each[-1]]
    print("judging calls: median step {:.0f} µs, 95th percentile {:.0f} µs, dearest {:.0f} µs".format(*at))


if __name__ == "__main__":
    main()
