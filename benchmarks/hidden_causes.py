"""Does an entry of the list of known findings hide another cause? Prints what is still there where its cause is not.

    kvproof fuzz vllm==0.28.0 --known docs/known.toml --traces FOLDER     # or benchmarks.ten_releases --keep FOLDER
    python -m benchmarks.hidden_causes FOLDER --known docs/known.toml

A finding is expected when it shows as a listed cause does and needs the same. If it is of that cause, the same trace
shows nothing of the kind on the first installed release that the list says to be without it. Where it does, the finding
is of another cause, or the range of the entry is too narrow: a reader of the release can say. Its status is 1 then.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from packaging.version import Version

from kvproof.checkers.trace import TraceError, read_trace
from kvproof.cli.engine_replay import outcome_in
from kvproof.cli.findings import case_of, violation_of
from kvproof.cli.hunting import more_oracles
from kvproof.engines.build import Build
from kvproof.engines.catalog import ENGINES
from kvproof.engines.known import Known, Listed, read_known
from kvproof.engines.session import Session
from kvproof.engines.store import engine_of, installed
from kvproof.judge.record import Case
from kvproof.judge.violation import Violation

__all__ = ["Expected", "expected_in", "first_without", "main", "still_there"]


class Expected(NamedTuple):
    """A trace whose finding is on the list."""

    path: Path
    case: Case
    violation: Violation
    release: str
    needs: frozenset[str]
    why: str


def main() -> None:
    """Replay what is expected, release by release."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", help="traces, in folders of any depth")
    parser.add_argument("--known", type=Path, required=True)
    parser.add_argument("--engine", default="vllm")
    asked = parser.parse_args()
    entries, builds = read_known(asked.known), installed(asked.engine)
    found = [*expected_in(asked.folders, entries, asked.engine)]
    later: dict[str, list[Expected]] = defaultdict(list)
    for each in found:
        build = first_without(each, entries, builds)
        if build is not None:
            later[build.version].append(each)
    there = [(build, each) for build in builds for each in still_there(build, later[build.version])]
    for build, each in there:
        needs = ", ".join(sorted(each.needs))
        print(f"{build.label} still shows {each.path}: {each.violation.rule}, {needs} ({each.why})")
    ends = sum(map(len, later.values()))
    print(
        f"{len(found)} traces are expected, {ends} of them to end with a release that is installed; {len(there)} do not"
    )
    sys.exit(1 if there else 0)


def expected_in(folders: Sequence[Path], entries: Sequence[Known], engine: str) -> Iterator[Expected]:
    """Yield the traces below these folders that show what the list expects of the release that they are of."""
    for path in sorted(path for folder in folders for path in folder.rglob("*.jsonl")):
        try:
            trace = read_trace(path)
        except TraceError:
            continue  # Reports lie beside them.
        name, _, release = trace.subject.partition("==")
        cases = ENGINES[engine].cases(trace.level) if name == engine and engine_of(trace.subject) else None
        violation = violation_of(trace)
        if cases is None or cases.traits is None or violation is None:
            continue
        case = case_of(trace)
        needs = cases.traits(release).of(case)
        why = Listed(entries, engine, release).why(violation, case.level, needs)
        if why is not None:
            yield Expected(path, case, violation, release, needs, why)


def first_without(each: Expected, entries: Sequence[Known], builds: Sequence[Build]) -> Build | None:
    """Return the first later release of which the list expects nothing of the kind; None where there is none."""
    for build in builds:
        listed = Listed(entries, build.name, build.version)
        is_later = Version(build.version) > Version(each.release)
        if is_later and listed.why(each.violation, each.case.level, each.needs) is None:
            return build
    return None


def still_there(build: Build, those: Sequence[Expected]) -> Iterator[Expected]:
    """Yield what a release shows all the same."""
    for level in sorted({each.case.level for each in those}):
        with Session.of(build, levels=[level]) as session:
            for each in (each for each in those if each.case.level == level):
                outcome = outcome_in(session, build, each.case, each.violation, more_oracles(level, build))
                if outcome.violation is not None and outcome.violation.signature == each.violation.signature:
                    yield each


if __name__ == "__main__":
    main()
