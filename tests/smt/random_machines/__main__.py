"""Many random machines: ``python -m tests.smt.random_machines 100000 --record FILE``, or ``make random-machines``."""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

from .running import Finding, Tally, run, smallest, tidy


def main() -> int:
    """0: no false theorem, no crash and no disagreement; 1: some."""
    parser = argparse.ArgumentParser(prog="random_machines", description=__doc__)
    parser.add_argument("count", type=int, help="how many machines")
    parser.add_argument("--seed", type=int, default=0, help="the first seed (default 0)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one for each core)")
    parser.add_argument("--record", type=Path, help="a file that the run can be continued from")
    parser.add_argument("--findings", type=Path, help="a folder that gets a small machine for each finding")
    given = parser.parse_args()
    total = run(given.seed, given.count, jobs=given.jobs, record=given.record, on_progress=_show)
    print(file=sys.stderr)
    if given.record is not None:
        tidy(given.record)
    for found in total.findings:
        print(f"seed {found.seed}: {found.kind}: {found.what}", file=sys.stderr)
    if given.findings is not None:
        _write(total.findings, given.findings)
    shown = asdict(total)
    shown["findings"] = len(total.findings)
    print(json.dumps(shown))
    return int(bool(total.findings))


def _write(findings: list[Finding], folder: Path) -> None:
    """One file for each kind of finding, with a small machine that shows it."""
    folder.mkdir(parents=True, exist_ok=True)
    kinds = {(f.kind, f.what if f.kind == "crash" else f.seed): f for f in reversed(findings)}
    for found in kinds.values():
        path = folder / f"{found.kind.replace(' ', '_')}_{found.seed}.py"
        what = found.what.replace("\n", "\n# ")
        path.write_text(f"{smallest(found)}\n# {what}\n", encoding="utf-8")


def _show(total: Tally) -> None:
    kinds = ", ".join(f"{n} {kind}" for kind, n in sorted(total.verdicts.items()))
    print(f"\r{total.count} machines: {kinds}    ", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
