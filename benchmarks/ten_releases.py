"""Are default hunts of released vLLM silent but for real causes, while the processors are busy? One line for each hunt.

    kvproof engines install vllm==0.17.1 vllm==0.19.0 ...              # once: the releases of RELEASES
    python -m benchmarks.ten_releases benchmarks/data/ten_releases.jsonl --keep OUT --seconds 60 --seeds 1,2,3
    python -m benchmarks.ten_releases benchmarks/data/ten_releases.jsonl --table

Each is what ``kvproof fuzz vllm==X --seed S --time T --known docs/known.toml`` does: all levels, a process for each
processor. A hunt that is in the file is not done again, so that the same command goes on. OUT keeps the reports and the
traces. What a line calls known is a cause that docs/known.toml lists, as it was when the hunt was done; whether what is
new is a fault of the release or a false alarm, only a reader of the release can say: docs/findings.md does. What must
not be there at all is a hunt that ended early, and a crash or a hang that the load of the machine made.
"""

import argparse
import os
import subprocess
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from benchmarks.computed import Computed
from benchmarks.released_faults import fuzz_release
from kvproof.cli.engine_fuzzing import Result, read_list

__all__ = ["RELEASES", "Cause", "Hunted", "hunt", "main", "read", "table"]

RELEASES = ("0.17.1", "0.19.0", "0.20.2", "0.22.1", "0.24.0", "0.26.0", "0.28.0", "0.30.0", "0.32.0", "0.33.0")
KNOWN = Path(__file__).parents[1] / "docs/known.toml"


class Cause(msgspec.Struct, frozen=True):
    """What a hunt told: how it shows and what it needs."""

    level: str
    rule: str
    oracle: str
    key: list[str]
    needs: list[str]
    steps: int
    seconds: float
    """From the start of the hunt to its first sight."""
    trace: str
    """Its file in the folder of that hunt."""
    known: str | None
    """Why it is no news."""


class Hunted(msgspec.Struct, frozen=True):
    """How a hunt went."""

    release: str
    seed: int
    asked: float
    """Seconds of hunting that it had."""
    took: float
    """Seconds by the clock, start included."""
    computed: float
    """Seconds that it and its engines computed meanwhile."""
    load: tuple[float, float]
    """Mean load of the machine in the minute before, and in its last minute (itself included)."""
    processors: int
    cases: int
    steps: int
    causes: list[Cause]
    unconfirmed: dict[str, int]
    """What was met, and not seen again in a fresh worker: it was not told."""
    unsorted: int
    """Kinds of cases that broke a rule and were not looked at for want of time."""
    kit: str = ""
    """The commit of the kit that hunted."""


def main() -> None:
    """Hunt what is not yet in the file, seed by seed, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--keep", type=Path, help="a folder for reports and traces; needed to hunt")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seeds", default="1,2,3", help="those that are hunted with, and shown")
    parser.add_argument("--only", help="releases, separated by commas; default: all ten")
    parser.add_argument("--table", action="store_true", help="run nothing")
    asked = parser.parse_args()
    if not asked.table and asked.keep is None:
        parser.error("--keep FOLDER says where reports and traces go")
    path: Path = asked.results
    done = {(each.release, each.seed) for each in read(path)}
    releases = asked.only.split(",") if asked.only else RELEASES
    seeds = [*map(int, asked.seeds.split(","))]
    wanted = [(release, seed) for seed in seeds for release in releases]
    for release, seed in [] if asked.table else wanted:
        if (release, seed) in done:
            continue
        hunted = hunt(asked.keep / f"seed-{seed}", release, asked.seconds, seed)
        with path.open("ab") as sink:
            sink.write(msgspec.json.encode(hunted) + b"\n")
    print("\n".join(table(each for each in read(path) if each.seed in seeds)))


def hunt(folder: Path, release: str, seconds: float, seed: int) -> Hunted:
    """Hunt a release once, at the default settings; keep its report and traces in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    clock = Computed()
    load, began, computed = os.getloadavg()[0], time.monotonic(), clock.monotonic()
    result = fuzz_release(folder, release, seconds, seed, read_list(KNOWN))
    told = result.to_json()
    return Hunted(
        release,
        seed,
        seconds,
        round(time.monotonic() - began, 1),
        round(clock.monotonic() - computed, 1),
        (load, os.getloadavg()[0]),
        os.cpu_count() or 1,
        told.examples,
        told.steps,
        [*_causes(result)],
        dict(sum((Counter(level.unconfirmed) for level in result.reports), Counter[str]())),
        sum(level.unsorted for level in result.reports),
        _commit(),
    )


def _commit() -> str:
    asked = ["git", "-C", str(KNOWN.parent), "rev-parse", "--short", "HEAD"]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()


def _causes(result: Result) -> Iterator[Cause]:
    for found, name in result.found():
        yield Cause(
            found.level or "pool",  # Beside machine P a finding names no level, no key and no needs.
            found.rule,
            found.oracle,
            found.key or [],
            found.needs or [],
            found.steps,
            round(found.seconds or 0.0, 1),
            name,
            found.expected or None,
        )


def read(path: Path) -> Iterator[Hunted]:
    """Yield the hunts that a file has."""
    for line in path.read_bytes().splitlines() if path.exists() else []:
        yield msgspec.json.decode(line, type=Hunted)


def table(hunts: Iterable[Hunted]) -> Iterator[str]:
    """Yield the lines of the table: a release each."""
    yield "| release | hunts | load | computed of each | cases | steps | causes told | of them known | not seen again |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|---:|"
    by_release: dict[str, list[Hunted]] = {}
    for each in hunts:
        by_release.setdefault(each.release, []).append(each)
    for release, those in by_release.items():
        loads = [load for each in those for load in each.load]
        computed = [f"{each.computed:.0f}" for each in those]
        told = [len(each.causes) for each in those]
        known = [sum(cause.known is not None for cause in each.causes) for each in those]
        lost = sum(sum(each.unconfirmed.values()) for each in those)
        yield (
            f"| {release} | {len(those)} | {min(loads):.1f} to {max(loads):.1f} | {', '.join(computed)} s | "
            f"{sum(each.cases for each in those):,} | {sum(each.steps for each in those):,} | "
            f"{', '.join(map(str, told))} | {', '.join(map(str, known))} | {lost} |"
        )


if __name__ == "__main__":
    main()
