"""Whether proofs depend on luck: every machine, proved anew many times with other seeds and other numbers of terms.

    python benchmarks/prove_stability.py --runs 100 [MACHINE]... [--record FILE]

Each run asks everything anew. What was run is on record, for each machine by its text: the same command, after an
interruption or a change of one machine, does the rest. Shown for each machine: how many runs left something open, and
the spread of what the runs computed, as ratios to the median.
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
from collections.abc import Iterator
from pathlib import Path

import msgspec

from kvproof.checkers.proofs import kit_digest
from kvproof.checkers.prove import How, ProveReport, prove_machines
from kvproof.harness.machines import KNOWN, find_machine
from kvproof.machine import Machine, Model
from kvproof.machine.canonical import Contents

RECORD = Path(__file__).parent / "data" / "prove_stability.jsonl"


class Run(msgspec.Struct, frozen=True):
    """One machine, proved once."""

    machine: str
    text: str
    """The digest of what is proved: a machine that changes is proved anew."""
    run: int
    prover: str
    """The digest of the kit, beginning."""
    obligations: int
    seconds: float
    """Of computing, in all processes."""
    slowest: float
    """Of one obligation."""
    open: list[str]
    """What was not proved."""


def text_of(machine: type[Machine]) -> str:
    """The digest of all that is proved of a machine."""
    model = Model.of(machine)
    contents = Contents(model)
    digest = hashlib.sha256()
    for place in ("initially", *model.actions, "every state"):
        for content in contents.of_place(place):
            digest.update(content.digest)
    return digest.hexdigest()[:16]


def recorded(path: Path) -> Iterator[Run]:
    """What was run before. A line that was cut off is no run."""
    for line in path.read_bytes().splitlines() if path.exists() else ():
        try:
            yield msgspec.json.decode(line, type=Run)
        except msgspec.DecodeError:
            continue


def as_run(name: str, text: str, number: int, report: ProveReport) -> Run:
    """What is kept of a report."""
    left = [f"{o.verdict}: {o.action}: {o.goal}" for o in report.obligations if o.verdict != "proved"]
    told = (len(report.obligations), round(report.seconds, 2), round(report.slowest, 2), left)
    return Run(name, text, number, kit_digest()[:12], *told)


def show(names: list[str], runs: dict[tuple[str, int], Run]) -> None:
    """The table."""
    print("| machine | runs | obligations left open | least | median | most | slowest obligation |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name in names:
        mine = [run for run in runs.values() if run.machine == name]
        middle = statistics.median(run.seconds for run in mine)
        least, most = (edge(run.seconds for run in mine) / middle for edge in (min, max))
        left, slowest = sum(len(run.open) for run in mine), max(run.slowest for run in mine)
        print(f"| {name} | {len(mine)} | {left} | {least:.2f} | {middle:.1f} s | {most:.2f} | {slowest:.2f} s |")


def main() -> None:
    """Prove what is not on record, count, show."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("machines", nargs="*", default=[], help="by name; all if none is given")
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument("--jobs", type=int)
    given = parser.parse_args()
    names = given.machines or list(KNOWN)
    machines = {name: find_machine(name) for name in names}
    texts = {name: text_of(machine) for name, machine in machines.items()}
    runs = {(run.machine, run.run): run for run in recorded(given.record) if texts.get(run.machine) == run.text}
    with given.record.open("ab") as record:
        for number in range(1, given.runs + 1):
            missing = [name for name in names if (name, number) not in runs]
            if not missing:
                continue
            asked = [machines[name] for name in missing]
            for name, report in zip(
                missing, prove_machines(asked, How(perturbed=number), jobs=given.jobs), strict=True
            ):
                runs[name, number] = run = as_run(name, texts[name], number, report)
                record.write(msgspec.json.encode(run) + b"\n")
                record.flush()
                for left in run.open:
                    print(f"run {number}: {name}: {left}", flush=True)
            print(f"run {number}: {sum(runs[name, number].seconds for name in missing):.1f} s", flush=True)
    show(names, {key: run for key, run in runs.items() if key[1] <= given.runs})


if __name__ == "__main__":
    main()
