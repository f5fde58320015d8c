"""What guidance and memory bring a hunt: distinct causes for the same computing, with and without, seed by seed.

    python -m benchmarks.guidance benchmarks/data/guidance.jsonl [--target vllm==0.33.0] [--before vllm==0.32.0]
                                  [--seconds 90] [--seeds 1,2,3,4,5]
    python -m benchmarks.guidance benchmarks/data/guidance.jsonl --table

A target is hunted at all levels that are not beside a machine, by one process, in five ways:

* ``blind``: families have turns one after the other, and every case runs as it was drawn, what is known or not;
* ``turns``: families have turns by what they bring;
* ``avoiding``: cases leave out what known causes need;
* ``guided``: both, as `kvproof fuzz` does it;
* ``remembering``: guided, and what a hunt of the release before (guided, the same seed and time) told and learned is
  tried first, as in a campaign.

The budget is what a process and its engine compute. Causes are told apart as always. A line is added to the record for
each hunt; the same command goes on from there.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from rich.console import Console
from rich.table import Table

from benchmarks.computed import take_over
from kvproof.cli.hunting import Part, Plan, hunt_in, is_beside, levels_of, open_build, opened
from kvproof.engines.collecting import Collector, Memory
from kvproof.engines.report import Finding
from kvproof.engines.schedule import Schedule

WAYS = ("blind", "turns", "avoiding", "guided", "remembering")


@contextmanager
def without_guidance(way: str) -> Iterator[None]:
    """Take away what a way does without."""

    def in_turns(self: Any, arms: Any) -> Any:
        able = [arm for arm in self._arms.values() if arm.what in arms]
        chosen = min(able, key=lambda arm: arm.begun)
        chosen.begun += 1
        return chosen.what

    with ExitStack() as taken:
        if way in ("blind", "avoiding"):
            taken.enter_context(patch.object(Schedule, "next", in_turns))
        if way in ("blind", "turns"):
            taken.enter_context(patch.object(Collector, "_avoiding", lambda _self, _ground, case: (case, [])))
        yield


def hunted(target: str, seed: int, seconds: float, memory: Memory) -> dict[str, Any]:
    """Hunt once; return when each cause was met, in seconds of computing, and what was searched."""
    build = open_build(target)
    plan = Plan(build, target, levels_of(build), seed, seconds)
    levels = tuple(level for level in plan.levels if not is_beside(plan, level))
    with opened(plan, levels) as session:
        reports = hunt_in(session, plan, Part(levels, seconds, None), lambda _: None, lambda _: [], memory)
    found = sorted((f for report in reports for f in report.findings), key=lambda f: f.seconds)
    return {
        "causes": [(f"{f.violation.rule} {f.violation.oracle}", sorted(f.needs), round(f.seconds, 1)) for f in found],
        "findings": found,
        "cases": sum(report.examples for report in reports),
        "steps": sum(report.steps for report in reports),
    }


def left(found: list[Finding], memory: Memory) -> Memory:
    """What a hunt leaves to one of the next release: cases to try first, and what each family brought."""
    cases = [finding.case for finding in found] + [case for _, case in memory.telling]
    return Memory(learned=dict(memory.learned), first=cases)


def measured(given: argparse.Namespace, seed: int, way: str) -> dict[str, Any]:
    """One line of the record."""
    memory = Memory()
    if way == "remembering":
        earlier = Memory()
        memory = left(hunted(given.before, seed, given.seconds, earlier)["findings"], earlier)
    with without_guidance(way):
        outcome = hunted(given.target, seed, given.seconds, memory)
    del outcome["findings"]
    return {
        "target": given.target,
        "before": given.before,
        "seconds": given.seconds,
        "seed": seed,
        "way": way,
        **outcome,
    }


def show(lines: list[dict[str, Any]]) -> None:
    """Print causes by way and seed, and the middle of each way."""
    seeds = sorted({line["seed"] for line in lines})
    table = Table(title="distinct causes for the same computing")
    for heading in ("way", *(f"seed {seed}" for seed in seeds), "median", "an hour of computing", "half of them after"):
        table.add_column(heading, justify="left" if heading == "way" else "right")
    for way in WAYS:
        mine = {line["seed"]: line for line in lines if line["way"] == way}
        if not mine:
            continue
        counts = [len(line["causes"]) for line in mine.values()]
        an_hour = statistics.median(len(line["causes"]) * 3600 / line["seconds"] for line in mine.values())
        halves = [line["causes"][(len(line["causes"]) - 1) // 2][2] for line in mine.values() if line["causes"]]
        table.add_row(
            way,
            *(str(len(mine[seed]["causes"])) if seed in mine else "" for seed in seeds),
            f"{statistics.median(counts):g}",
            f"{an_hour:.0f}",
            f"{statistics.median(halves):.0f} s" if halves else "",
        )
    Console(soft_wrap=True).print(table)


def main() -> int:
    """Measure what is not on record, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("record", type=Path)
    parser.add_argument("--target", default="vllm==0.33.0")
    parser.add_argument("--before", default="vllm==0.32.0")
    parser.add_argument("--seconds", type=float, default=90.0)
    parser.add_argument("--seeds", default="1,2,3,4,5")
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    lines = [json.loads(line) for line in given.record.read_text().splitlines()] if given.record.exists() else []
    if given.table:
        show(lines)
        return 0
    done = {(line["target"], line["seconds"], line["seed"], line["way"]) for line in lines}
    for seed in map(int, given.seeds.split(",")):
        for way in WAYS:
            if (given.target, given.seconds, seed, way) not in done:
                line = measured(given, seed, way)
                with given.record.open("a") as record:
                    record.write(json.dumps(line) + "\n")
                print(f"seed {seed}, {way}: {len(line['causes'])} causes, {line['steps']:,} steps", flush=True)
    return 0


if __name__ == "__main__":
    take_over()
    sys.exit(main())
