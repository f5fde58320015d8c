"""The two tree cores of a release of SGLang, beside each other through long sequences: a slice of seeds at a time.

    python -m benchmarks.sglang_cores benchmarks/data/sglang_cores.jsonl --sequences 10000 --operations 300
    python -m benchmarks.sglang_cores benchmarks/data/sglang_cores.jsonl --table

Each slice is one family of cases and one seed, and a line when it is done; the same command goes on with those that are
not on record. A sequence ends at its first difference, which is counted by its kind: what differs, after which
operation. The shortest sequence of each kind is made no smaller here; `kvproof compare` does that. To see that a
difference would be told, ``--fault`` lets the core in Rust play every sequence with another policy of eviction.
"""

import argparse
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec
from hypothesis import HealthCheck, Phase, given, seed, settings

from kvproof.checkers.heap import heap_at_rest
from kvproof.cli.hunting import open_build, use_cache_of_drawings
from kvproof.differential.outcome import Outcome
from kvproof.differential.sglang import cores
from kvproof.engines.session import Limits, Run, Session
from kvproof.engines.verdicts import close
from kvproof.judge.record import Case

__all__ = ["Slice", "main", "table"]

SEQUENCES = 50
"""Of a slice."""

LIMITS = Limits(start=300.0, operation=20.0, answer=120.0)


class Slice(msgspec.Struct):
    """What came of a slice."""

    release: str
    family: str
    seed: int
    operations: int
    """Of each sequence, without those that end it."""
    sequences: int = 0
    done: int = 0
    """Operations that did something."""
    compared: int = 0
    """Those of them after which both cores agreed in everything."""
    counts: dict[str, int] = msgspec.field(default_factory=dict)
    """What was compared that could have differed, by name."""
    refused: dict[str, int] = msgspec.field(default_factory=dict)
    """Why a core did not take a setup."""
    differences: dict[str, int] = msgspec.field(default_factory=dict)
    """By kind."""
    broken: dict[str, int] = msgspec.field(default_factory=dict)
    """Rules that both break, and by which oracle."""
    shown: dict[str, str] = msgspec.field(default_factory=dict)
    """The first of each kind, in words."""
    seconds: float = 0.0

    def see(self, outcome: Outcome) -> None:
        """Count a sequence."""
        self.sequences += 1
        self.done += outcome.steps
        self.compared += outcome.compared
        _add(self.counts, outcome.counts)
        if outcome.parted is not None:
            _add(self.refused, {outcome.parted: 1})
        for violation in outcome.broken:
            kind = f"{violation.rule} ({violation.oracle})"
            _add(self.broken, {kind: 1})
            self.shown.setdefault(kind, f"sequence {self.sequences}: {violation.text}")
        differs = outcome.disagreement
        if differs is not None:
            kind = f"{differs.what} after {differs.op}"
            _add(self.differences, {kind: 1})
            self.shown.setdefault(kind, f"sequence {self.sequences}: {differs}")


def _add(counts: dict[str, int], more: Mapping[str, int]) -> None:
    for kind, count in more.items():
        counts[kind] = counts.get(kind, 0) + count


def main() -> None:
    """Do the slices that are not on record, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--release", default="sglang==0.5.23")
    parser.add_argument("--sequences", type=int, default=10_000)
    parser.add_argument("--operations", type=int, default=300)
    parser.add_argument("--fault", action="store_true", help="let one core play by another policy, and record nothing")
    parser.add_argument("--table", action="store_true", help="run nothing")
    asked = parser.parse_args()
    path: Path = asked.results
    if not asked.table:
        _run(path, asked.release, asked.sequences, asked.operations, asked.fault)
    print("\n".join(table(_on_record(path))))
    sys.exit(0 if not any(each.differences for each in _on_record(path)) else 1)


def _run(path: Path, release: str, sequences: int, operations: int, fault: bool) -> None:
    """Do what is not on record."""
    use_cache_of_drawings()
    done = {(each.release, each.family, each.seed, each.operations) for each in _on_record(path)}
    with heap_at_rest(), Session.of(open_build(release), LIMITS, [cores.LEVEL]) as session:
        families = [*cores.profiles(session.hello.version, operations)]
        for number in range(-(-sequences // SEQUENCES)):
            family = families[number % len(families)]
            if (release, family, number, operations) in done:
                continue
            told = _slice(session, Slice(release, family, number, operations), fault)
            if fault:
                print(told)
                continue
            with path.open("ab") as sink:
                sink.write(msgspec.json.encode(told) + b"\n")


def _slice(session: Session, told: Slice, fault: bool) -> Slice:
    """Let both cores play a slice."""
    began = time.monotonic()

    @seed(told.seed)
    @settings(
        max_examples=SEQUENCES, deadline=None, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(cores.profiles(session.hello.version, told.operations)[told.family])
    def search(case: Case) -> None:
        told.see(cores.compare(_Crooked(session) if fault else session, close(case)))

    search()
    told.seconds = time.monotonic() - began
    return told


class _Crooked:
    """A session whose core in Rust gives up what was used last."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def run(self, case: Case) -> Run:
        """Do a case."""
        crooked = {"policy": "mru"} if case.setup["core"] == "rust" else {}
        return self._session.run(msgspec.structs.replace(case, setup={**case.setup, **crooked}))


def _on_record(path: Path) -> list[Slice]:
    return [msgspec.json.decode(line, type=Slice) for line in path.read_bytes().splitlines()] if path.exists() else []


def table(slices: list[Slice]) -> list[str]:
    """Return the lines of the table: a family each, and all of them."""
    lines = ["| family | sequences | operations | compared | differences | both break |"]
    lines += ["|---|---:|---:|---:|---|---|"]
    for name in [*dict.fromkeys(each.family for each in slices), "all"]:
        of = [each for each in slices if name in (each.family, "all")]
        differences: dict[str, int] = {}
        broken: dict[str, int] = {}
        for each in of:
            _add(differences, each.differences)
            _add(broken, each.broken)
        lines.append(
            f"| {name} | {sum(each.sequences for each in of):,} | {sum(each.done for each in of):,} | "
            f"{sum(each.compared for each in of):,} | {_listed(differences)} | {_listed(broken)} |"
        )
    return lines


def _listed(counts: Mapping[str, int]) -> str:
    return "; ".join(f"{kind}: {count:,}" for kind, count in counts.items()) or "none"


if __name__ == "__main__":
    main()
