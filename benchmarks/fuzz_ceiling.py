"""How fast the fuzzer is, in CPU time, against the ceiling that Hypothesis sets.

The ceiling is the same state machine with the same rules, argument strategies and instances, but empty bodies: what
Hypothesis itself costs. The two are measured in turns, in one process. The ratio, checked steps per second over
empty steps per second, is the median over the rounds: other load on the machine meets both. It should be at least 0.5.

    python benchmarks/fuzz_ceiling.py [--rounds 7] [--examples 100] [--steps 50] [--json FILE]
"""

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from hypothesis import seed as seeded
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from kvproof.checkers.fuzz import FuzzReport, profile, rules, state_machine
from kvproof.checkers.heap import heap_at_rest
from kvproof.checkers.lockstep import Specs
from kvproof.harness.instances import instances
from kvproof.harness.pool.target import PoolTarget
from kvproof.machine import Model
from kvproof.spec.pool import Pool

MODEL = Model.of(Pool)
SPECS = Specs(MODEL, PoolTarget)


def empty(seed: int, examples: int, steps: int) -> tuple[int, float]:
    """Steps, and seconds, of the rules with nothing in them."""
    count = 0

    def begin(self: Any, instance: Any, swarm: int) -> None:
        pass

    def do(_self: Any, _action: str, _pick: int) -> None:
        nonlocal count
        count += 1

    space = rules(MODEL, PoolTarget.weights, instances(), begin, do)
    kind = seeded(seed)(type("Empty", (RuleBasedStateMachine,), space))
    began = time.process_time()
    with heap_at_rest():
        run_state_machine_as_test(kind, settings=profile(examples, steps))
    return count, time.process_time() - began


def checked(seed: int, examples: int, steps: int) -> tuple[int, float]:
    """Steps, and seconds, of the fuzzer."""
    report = FuzzReport()
    kind = seeded(seed)(state_machine(MODEL, PoolTarget, instances(), specs=SPECS, report=report))
    began = time.process_time()
    with heap_at_rest():
        run_state_machine_as_test(kind, settings=profile(examples, steps))
    return report.steps, time.process_time() - began


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--examples", type=int, default=100)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--json", metavar="FILE", help="write the numbers there; - for standard output")
    options = parser.parse_args()
    speeds: dict[str, list[float]] = {"ceiling": [], "checked": []}
    checked(0, 100, options.steps)  # Imports, and the text of the interpreters.
    for round_ in range(options.rounds):
        for name, measure in (("ceiling", empty), ("checked", checked)):
            count, seconds = measure(round_, options.examples, options.steps)
            speeds[name].append(count / seconds)
    ceiling, ours = (statistics.median(speeds[name]) for name in ("ceiling", "checked"))
    ratio = statistics.median(c / e for e, c in zip(speeds["ceiling"], speeds["checked"], strict=True))
    numbers = {
        "ceiling_steps_per_second": ceiling,
        "checked_steps_per_second": ours,
        "ratio": ratio,
        "rounds": options.rounds,
        "examples": options.examples,
        "steps": options.steps,
        "per_round": speeds,
    }
    if options.json == "-":
        print(json.dumps(numbers, indent=1))
    else:
        print(f"Hypothesis alone {ceiling:7.0f} steps/s")
        print(f"checked          {ours:7.0f} steps/s")
        print(f"ratio            {ratio:7.2f}")
        if options.json:
            Path(options.json).write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
    return 0 if ratio >= 0.5 else 1


if __name__ == "__main__":
    sys.exit(main())
