"""What default hunts of a release find, by the time that they compute: a busy machine shows the same as a quiet one.

    python benchmarks/causes.py vllm==0.33.0 --seconds 108 --seeds 1,2,3

The budget of each of two processes is what it and its engine compute, not what the clock says; a level beside machine P
is left out. Printed are, per seed, the causes in the order in which they were met, and where the time went.
"""

import argparse
import os
import resource
import time
from dataclasses import replace
from pathlib import Path

import kvproof.cli.hunting
import kvproof.engines.collecting
import kvproof.engines.hunt
import kvproof.engines.reduce
import kvproof.engines.sorting
from kvproof.cli.hunting import Plan, hunt_levels, is_beside, levels_of, open_build
from kvproof.engines.report import HuntReport, Spent

_TICKS = os.sysconf("SC_CLK_TCK")


class Computed:
    """A clock that shows the seconds that this process and all that it started have computed."""

    def __init__(self) -> None:
        self._shown = 0.0

    def monotonic(self) -> float:
        """The time; it does not go back where a process ends while it is read."""
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        now = time.process_time() + ended.ru_utime + ended.ru_stime + _below(os.getpid()) / _TICKS
        self._shown = max(self._shown, now)
        return self._shown


def _below(process: int) -> int:
    """Ticks of a process's children that run, and of theirs."""
    try:
        tasks = [*Path("/proc", str(process), "task").iterdir()]
        children = [int(child) for task in tasks for child in (task / "children").read_text().split()]
        told = [Path("/proc", str(child), "stat").read_text().rpartition(")")[2].split() for child in children]
    except OSError:
        return 0
    # Behind the name: user and system time as 12th and 13th, then those of children that ended.
    return sum(sum(map(int, each[11:15])) for each in told) + sum(map(_below, children))


_CLOCK = Computed()

# The processes that hunt import this file anew: there too, time is what they compute.
for _module in (
    kvproof.cli.hunting,
    kvproof.engines.collecting,
    kvproof.engines.hunt,
    kvproof.engines.reduce,
    kvproof.engines.sorting,
):
    vars(_module)["time"] = _CLOCK


def main() -> None:
    """Hunt, seed by seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target")
    parser.add_argument("--seconds", type=float, default=108.0)
    parser.add_argument("--seeds", default="1,2,3")
    given = parser.parse_args()
    build = open_build(given.target)
    for seed in map(int, given.seeds.split(",")):
        plan = Plan(build, given.target, levels_of(build), seed, given.seconds, jobs=2)
        levels = tuple(level for level in plan.levels if not is_beside(plan, level))
        reports = hunt_levels(replace(plan, levels=levels), lambda _: None)
        hunted = [report for report in reports if isinstance(report, HuntReport)]
        spent = sum((report.spent for report in hunted), Spent())
        found = sorted((f for report in hunted for f in report.findings), key=lambda f: f.seconds)
        print(f"seed {seed}: {len(found)} causes, {spent.share or 0:.0%} searching, {spent.started:.0f} s until ready")
        print("  " + ", ".join(f"{r.level} {r.steps:,} steps ({r.spent.searched:.0f} s)" for r in hunted))
        for finding in found:
            needs = ", ".join(sorted(finding.needs))
            print(
                f"  {finding.seconds:6.1f} s  {finding.violation.rule} {finding.violation.oracle}: {needs}; "
                f"{finding.profile}: {finding.violation.text[-90:]}",
                flush=True,
            )


if __name__ == "__main__":
    main()
