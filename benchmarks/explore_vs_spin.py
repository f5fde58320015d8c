"""The explorer against Spin, on the same model and machine, in turns.

The model is a block pool with N blocks, R requests and H hashes: `tests/explore/alloc.py` for us, and for Spin a
Promela model with one step for each concrete action, so that both store exactly the same states. Both check the same
invariants in every state. Of Spin's time three parts are given: writing the verifier, compiling it, running it. The
ratio is Spin's whole time over ours, start of Python included; it should be above 1. Needs Spin (Debian package
`spin`) and gcc.

    python benchmarks/explore_vs_spin.py --model BASELINES/gen_pml.py [--size 5 2 2] [--rounds 3] [--device cpu]
                                         [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def ours(sizes: list[int], device: str) -> dict[str, Any]:
    """Explore in this process."""
    began = time.perf_counter()
    sys.path.insert(0, str(ROOT))
    from kvproof.checkers.explore import explore
    from tests.explore.alloc import Alloc, scope

    imported = time.perf_counter() - began
    report = explore(Alloc, scope(Alloc, *sizes), device=device)
    assert report.complete
    assert not report.violations
    return {
        "states": report.states,
        "transitions": report.generated,
        "import_seconds": imported,
        "explore_seconds": report.seconds,
        "visited_bytes": report.peak_bytes,
    }


def timed(command: list[str], where: Path) -> tuple[str, float, int]:
    """What a process printed, its seconds from start to end, and the most memory that it held, in bytes."""
    with tempfile.TemporaryFile("w+") as output:
        began = time.perf_counter()
        process = subprocess.Popen(command, cwd=where, stdout=output)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read()
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed with status {process.returncode}: {text[-500:]}")
    return text, seconds, usage.ru_maxrss * 1024


def run_ours(sizes: list[int], device: str) -> dict[str, Any]:
    """Explore in a process of its own."""
    command = [sys.executable, __file__, "--alone", "--size", *map(str, sizes), "--device", device]
    text, seconds, memory = timed(command, ROOT)
    return {**json.loads(text), "seconds": seconds, "peak_bytes": memory}


def run_spin(model: Path, sizes: list[int], depth: int = 1_000_000) -> dict[str, Any]:
    """Write, compile and run Spin's verifier; its stack takes memory too, so it is no deeper than needed."""
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder)
        text, _, _ = timed([sys.executable, str(model), *map(str, sizes)], model.parent)
        (at / "model.pml").write_text(text)
        _, writing, _ = timed(["spin", "-a", "model.pml"], at)
        _, compiling, _ = timed(["gcc", "-O2", "-DSAFETY", "-DMEMLIM=16384", "-o", "pan", "pan.c"], at)
        text, running, memory = timed(["./pan", f"-m{depth}"], at)
    if "max search depth too small" in text:
        return run_spin(model, sizes, depth * 10)
    errors = re.search(r"errors: (\d+)", text)
    if errors is None or errors[1] != "0":
        raise SystemExit(f"Spin did not search the whole model:\n{text}")
    states, transitions = (int(re.search(rf"(\d+) {what}", text)[1]) for what in ("states, stored", "transitions"))  # type: ignore[index]
    # Spin's count has one more of each: the state before `init` has set the model up.
    return {
        "states": states - 1,
        "transitions": transitions - 1,
        "writing_seconds": writing,
        "compiling_seconds": compiling,
        "running_seconds": running,
        "seconds": writing + compiling + running,
        "peak_bytes": memory,
    }


def medians(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The median of each number; counts must be the same in all runs."""
    assert len({(r["states"], r["transitions"]) for r in runs}) == 1
    return {name: statistics.median(r[name] for r in runs) for name in runs[0]}


def shown(name: str, numbers: dict[str, Any], parts: dict[str, str]) -> str:
    """One line of the table."""
    detail = ", ".join(f"{label} {numbers[key]:.2f} s" for key, label in parts.items())
    memory = numbers["peak_bytes"] / 2**20
    counts = f"{numbers['states']:,} states, {numbers['transitions']:,} transitions"
    return f"{name:8}{numbers['seconds']:7.2f} s  ({detail})  {memory:,.0f} MiB, {counts}"


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--model", type=Path, metavar="FILE", help="gen_pml.py, which prints the Promela model for N R H"
    )
    parser.add_argument("--size", type=int, nargs=3, default=[5, 2, 2], metavar=("N", "R", "H"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--json", metavar="FILE", help="write the numbers there; - for standard output")
    parser.add_argument("--alone", action="store_true", help="only explore, in this process, and print the numbers")
    options = parser.parse_args()
    if options.alone:
        print(json.dumps(ours(options.size, options.device)))
        return 0
    if options.model is None or not options.model.is_file():
        parser.error("--model must name gen_pml.py of the baselines")
    missing = [tool for tool in ("spin", "gcc") if shutil.which(tool) is None]
    if missing:
        parser.error(f"{' and '.join(missing)} not found; on Debian: apt-get install {' '.join(missing)}")
    model = options.model.resolve()
    runs: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for _ in range(options.rounds):
        runs.append((run_ours(options.size, options.device), run_spin(model, options.size)))
    kit, spin = medians([k for k, _ in runs]), medians([s for _, s in runs])
    assert (kit["states"], kit["transitions"]) == (spin["states"], spin["transitions"]), "the counts differ"
    ratio = statistics.median(s["seconds"] / k["seconds"] for k, s in runs)
    within = statistics.median(s["running_seconds"] / k["explore_seconds"] for k, s in runs)
    numbers = {
        "size": options.size,
        "device": options.device,
        "kvproof": kit,
        "spin": spin,
        "ratio": ratio,
        "ratio_of_searches": within,
    }
    if options.json == "-":
        print(json.dumps(numbers, indent=2))
        return 0
    print(shown("kvproof", kit, {"import_seconds": "import", "explore_seconds": "explore"}))
    print(shown("Spin", spin, {"writing_seconds": "write", "compiling_seconds": "compile", "running_seconds": "run"}))
    print(f"Spin's whole time over ours: {ratio:.2f}; its search alone over ours alone: {within:.2f}")
    if options.json:
        Path(options.json).write_text(json.dumps(numbers, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
