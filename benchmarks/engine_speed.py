"""How fast a release of vLLM is driven: steps per second of hunts with all oracles on, and what the worker costs.

    python benchmarks/engine_speed.py vllm==0.33.0

The first table hunts each family of cases for some seconds, on two processors: the worker does a case while the kit
judges the one before. What each of both computes for a step, sorting included, is right on a busy machine too; the
slower one is what limits the speed. The second runs one and the same list of cases through the worker and in the
engine's own process, with the same snapshots, in turns; only the ratio counts.
"""

import argparse
import json
import random
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from kvproof.checkers.heap import heap_at_rest
from kvproof.cli.hunting import open_build
from kvproof.engines.build import Build
from kvproof.engines.catalog import ENGINES
from kvproof.engines.hunt import hunt
from kvproof.engines.session import WORKER, Session
from kvproof.engines.verdicts import begun_in, judged_in
from kvproof.judge.record import Case

HUNTS = (
    ("scheduler alone", "scheduler", ("hybrid", "unequal", "stages", "priority", "mamba")),
    ("scheduler, simple or offloading connector", "scheduler", ("plain connector", "unequal connector")),
    ("manager", "manager", ("plain", "hybrid", "external")),
    ("CPU offloading manager", "offload", ("lru", "arc", "threshold")),
)

IN_PROCESS = """
import importlib.util, json, os, sys, time
sys.path[:0] = sys.argv[1], os.path.dirname(sys.argv[4])
spec = importlib.util.spec_from_file_location("worker", sys.argv[1] + "/__main__.py")
worker = importlib.util.module_from_spec(spec)
spec.loader.exec_module(worker)
import vllm_engine
messages = json.load(open(sys.argv[2]))
worker.answer(vllm_engine, messages[0], 0.0, 0.0)
for _ in range(int(sys.argv[3])):
    began = time.perf_counter()
    for message in messages:
        worker.answer(vllm_engine, message, 0.0, 0.0)
    print(time.perf_counter() - began, flush=True)
"""
"""What the engine's interpreter runs for the second table: the worker's own loop, without pipes and JSON."""


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target")
    parser.add_argument("--seconds", type=float, default=20.0, help="per row of the first table")
    parser.add_argument("--in-turns", action="store_true", help="let worker and kit take turns in the first table")
    given = parser.parse_args()
    build = open_build(given.target)
    print("| what is hunted | profiles | steps/s | kit, µs a step | worker, µs a step |\n|---|---|---:|---:|---:|")
    for what, level, names in HUNTS:
        found = ENGINES[build.name].cases(level)
        assert found is not None
        profiles = {name: cases for name, cases in found.profiles(build.version).items() if name in names}
        with heap_at_rest(), Session.of(build) as session:
            judged, begun = judged_in(session, found.more_oracles), begun_in(session, found.more_oracles)
            how: dict[str, Any] = {"begun": None if given.in_turns else begun}
            warm = hunt(judged, given.target, level, profiles, seconds=given.seconds, examples=80, **how)
            kit, worker = time.process_time(), session.computed
            report = hunt(judged, given.target, level, profiles, seed=1, seconds=given.seconds + warm.seconds, **how)
            each = 1e6 / max(1, report.steps)
            kit, worker = (time.process_time() - kit) * each, (session.computed - worker) * each
        print(f"| {what} | {', '.join(names)} | {report.speed or 0:,.0f} | {kit:,.0f} | {worker:,.0f} |", flush=True)
    print("\n| level | in process, steps/s | through the worker, steps/s | ratio |\n|---|---:|---:|---:|")
    with heap_at_rest():
        through, inside, steps = _pool(build)
    print(f"| pool | {steps / inside:,.0f} | {steps / through:,.0f} | {inside / through:.2f} |")


def _pool(build: Build, rounds: int = 5) -> tuple[float, float, int]:
    """Seconds through the worker, seconds in process, and steps: of the same cases of the level `pool`."""
    cases = [_case(random.Random(number)) for number in range(300)]
    messages: list[dict[str, Any]] = [
        {"id": 0, "level": case.level, "setup": case.setup, "ops": case.ops, "snapshots": "full"} for case in cases
    ]
    with tempfile.TemporaryDirectory() as folder, Session.of(build) as session:
        path = Path(folder, "messages.json")
        path.write_text(json.dumps(messages))
        session.run(cases[0])
        inner = subprocess.Popen(
            [str(build.python), "-c", IN_PROCESS, str(WORKER), str(path), str(rounds), str(ENGINES[build.name].WORKER)],
            env=build.environment(),
            stdout=subprocess.PIPE,
            text=True,
        )
        assert inner.stdout is not None
        inside = [float(line) for line in inner.stdout]
        inner.wait()
        through = []
        for _ in range(rounds):
            began = time.perf_counter()
            asked = [session.ask(case) for case in cases]  # One ahead of its answer, as hunts do it.
            session.answer(asked[-1])
            through.append(time.perf_counter() - began)
    return statistics.median(through), statistics.median(inside), sum(len(case.ops) for case in cases)


def _case(dice: random.Random) -> Case:
    """Requests that take, register, share and give back blocks of a small pool."""
    ops: list[tuple[str, dict[str, Any]]] = []
    held = dict.fromkeys(range(4), 0)
    free = 15
    for _ in range(40):
        r = dice.randrange(4)
        if held[r] and (dice.random() < 0.4 or not free):
            ops.append(("free", {"r": r, "n": held[r]}))
            free += held[r]
            held[r] = 0
        elif free and held[r] < 4:
            ops.append(("take", {"r": r, "n": 1}))
            free, held[r] = free - 1, held[r] + 1
    return Case("pool", {"blocks": 16, "requests": 4, "keys": 8}, ops)


if __name__ == "__main__":
    main()
