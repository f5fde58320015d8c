"""What default hunts of a release find, by the time that they compute: a busy machine shows the same as a quiet one.

    python -m benchmarks.causes vllm==0.33.0 --seconds 108 --seeds 1,2,3

The budget of each of two processes is what it and its engine compute, not what the clock says; a level beside machine P
is left out. Printed are, per seed, the causes in the order in which they were met, and where the time went.
"""

import argparse
from dataclasses import replace

from benchmarks.computed import take_over
from kvproof.cli.hunting import Plan, hunt_levels, is_beside, levels_of, open_build
from kvproof.engines.report import HuntReport, Spent

# The processes that hunt import this file anew: there too, time is what they compute.
take_over()


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
