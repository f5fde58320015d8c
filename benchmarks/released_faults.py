"""Does the kit find the faults that released versions of vLLM are known to have? Prints the table of docs/findings.md.

    kvproof engines install vllm==0.17.1 vllm==0.19.0 ...          # once: the releases of FAULTS
    python -m benchmarks.released_faults OUT                      # two minutes a release; OUT keeps reports and traces

Each release is fuzzed once, at the default settings. No rule, sequence or seed is written for a fault: what stands in
benchmarks/faults/vllm.toml only says how to recognise it afterwards, by the rule that it breaks. A finding counts as
the fault when its trace shows the same on the release that has it and nothing of the kind on the first release that is
said to be without it. On a busy machine ``--computed`` counts the seconds that each of two processes computes: 108 are
what two minutes are on two idle cores.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.computed import take_over
from benchmarks.faults.manifest import FOLDER, Fault, read_engine
from kvproof.checkers.trace import read_trace
from kvproof.cli.engine_fuzzing import Result, fuzz_engine
from kvproof.cli.engine_replay import outcome_on
from kvproof.cli.findings import case_of, violation_of
from kvproof.cli.hunting import Plan, levels_of, more_oracles, open_build
from kvproof.cli.main import run
from kvproof.cli.output import Output
from kvproof.engines.known import Known
from kvproof.errors import ExitStatus

SECONDS = 120.0
"""What ``kvproof fuzz`` takes when nothing is said."""


FAULTS = [fault for fault in read_engine(FOLDER / "vllm.toml").fault if fault.code]

_OF_LOCKSTEP = frozenset({"finish", "preempt", "trim"})
"""The operations that a fault of level ``pool`` may differ after: beside machine P a finding names no rule."""


if "--computed" in sys.argv:  # The processes that hunt import this file anew.
    take_over()


def main() -> None:
    """Fuzz the releases that are not yet in the folder, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--computed", action="store_true", help="count seconds of computing")
    parser.add_argument("--only", help="releases, separated by commas; default: all of FAULTS")
    given = parser.parse_args()
    folder: Path = given.folder
    releases = sorted({fault.release for fault in FAULTS}, key=lambda v: [int(part) for part in v.split(".")])
    for release in given.only.split(",") if given.only else releases:
        if not (folder / f"{release}.json").exists():
            fuzz_release(folder, release, given.seconds, given.seed)
    print("\n| fault | release | found as | level | seconds | steps of the trace | on the first release without it |")
    print("|---|---|---|---|---:|---:|---|")
    for fault in FAULTS:
        print(_row(folder, fault))


def fuzz_release(folder: Path, release: str, seconds: float, seed: int, known: tuple[Known, ...] = ()) -> Result:
    """Fuzz a release at the default settings; keep its report and its traces in a folder."""
    print(f"vllm=={release}", flush=True)
    target = f"vllm=={release}"
    build = open_build(target)
    plan = Plan(build, target, levels_of(build), seed, seconds, known=known)
    result = fuzz_engine(Output(None), plan, folder / release)
    (folder / f"{release}.json").write_bytes(msgspec.json.encode(result.to_json()))
    return result


def _row(folder: Path, fault: Fault) -> str:
    path = folder / f"{fault.release}.json"
    report = json.loads(path.read_text()) if path.exists() else {"findings": []}
    tried = 0
    for finding in sorted(_fitting(report, fault), key=lambda f: f.get("seconds", 0.0)):
        tried += 1
        if (without := _without(folder, fault, finding)) is not None:
            found = f"{finding['rule']}, {finding['oracle']}"
            seconds = f"{finding['seconds']:.0f}" if "seconds" in finding else "under 10"
            return (
                f"| {fault.code} | {fault.release} | {found} | {finding.get('level', 'pool')} | "
                f"{seconds} | {finding['steps']} | {without} |"
            )
    why = f"not found ({tried} findings of its rules are something else)" if tried else "not found"
    return f"| {fault.code} | {fault.release} | {why} | | | | |"


def _fitting(report: dict[str, Any], fault: Fault) -> Iterator[dict[str, Any]]:
    rules = _OF_LOCKSTEP if fault.level == "pool" else fault.rules
    for finding in report["findings"]:
        told = fault.words in json.dumps([finding.get("key"), finding.get("text")])
        if finding["rule"] in rules and told and set(fault.needs) <= set(finding.get("needs", ())):
            yield finding


def _without(folder: Path, fault: Fault, finding: dict[str, Any]) -> str | None:
    """What the finding's trace does on the release without the fault; None when it shows the same there."""
    if not fault.absent:
        return "(no such release yet)"
    kept = folder / "trace.jsonl"
    kept.write_text(finding["trace"])
    if "level" not in finding:  # The level `pool`: its own command knows the dialect of the release.
        status = run(["replay", str(kept), "--target", f"vllm=={fault.absent}"])
        return f"{fault.absent}: nothing is wrong" if status == ExitStatus.HOLDS else None
    trace = read_trace(kept)
    case = case_of(trace)
    build = open_build(f"vllm=={fault.absent}")
    outcome = outcome_on(build, case, violation_of(trace), more_oracles(case.level, build))
    return None if outcome.kind == "same" else f"{fault.absent}: {outcome.words[:60]}"


if __name__ == "__main__":
    main()
