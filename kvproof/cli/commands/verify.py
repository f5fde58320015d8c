"""``kvproof verify``: the main job. Prove, explore, fuzz, and a piece of real traffic."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import UNSET

from ...errors import ExitStatus, UsageError
from .. import gaps
from .. import refimpl_fuzzing as fuzzing
from ..options import JsonOption
from ..output import Output
from . import explore as exploring
from . import prove as proving

if TYPE_CHECKING:
    from ...workload.requests import Workload
    from ..schema import workloads as schema

CAPACITIES = (1000, 5000)
"""Blocks of the pool that real requests are replayed on: eviction is constant, eviction is rare."""

EXPLORED = ["Pool, split", "Pool, append", "Tiered", "Offload"]
"""The machines and dialects that are explored."""

LEVELS = {"pool": 200, "tiered": 200, "offload": 800, "timed": 200, "connectors": 200}
"""What of the reference implementation is fuzzed, and in how many runs: the pool alone, with mirror and pins, with
asynchronous offload, where the way to the rarest actions is long, tiers in virtual time, and connectors."""


def verify(
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A block-hash trace of real requests to replay too.")
    ] = None,
    requests: Annotated[int, typer.Option(min=1, help="How many of its requests.")] = 1000,
    seed: Annotated[int, typer.Option(help="Chooses the fuzzer's runs.")] = 0,
    json: JsonOption = None,
) -> int:
    """Prove the machines, explore small scopes, fuzz the reference implementation, and replay real requests on it."""
    output = Output(json)
    if trace is not None and not trace.is_file():
        raise UsageError(f"--trace {trace} is no file; name a block-hash trace, one request a line")
    from ...harness.machines import find_machine
    from ...harness.scopes import find_scope
    from ...workload.requests import read_workload
    from ..schema import workloads as schema

    # Now, so that what is wrong with it is said at once, and not behind all that comes before its replay.
    work = None if trace is None else read_workload(trace, limit=requests)
    proofs = proving.prove_all(output, [])
    proving.show(output, proofs)
    pool = find_machine("pool")
    explored = []
    for split in (True, False):
        scope = find_scope(pool, {}, split=split, null=False, caching=True, seed=0)
        explored.append(exploring.run(output, "pool", pool, scope))
    for name, null in (("tiered", True), ("offload", False)):
        machine = find_machine(name)
        scope = find_scope(machine, {}, split=True, null=null, caching=True, seed=0)
        explored.append(exploring.run(output, name, machine, scope))
    exploring.show(output, explored, EXPLORED)
    fuzzed = []
    for level, examples in LEVELS.items():
        output.tables.print(f"\nThe reference implementation, level {level}:")
        fuzzed.append(fuzzing.run(output, seed=seed, examples=examples, steps=50, level=level))
        fuzzing.show(output, fuzzed[-1])
    refuted = any(r.count("refuted") for r in proofs)
    found = refuted or any(r.violations for r in explored) or any(f.findings for f in fuzzed)
    proved = proving.to_json(proofs)
    explorations = [exploring.to_json(r, label) for label, r in zip(EXPLORED, explored, strict=True)]
    runs = [fuzzing.to_json(f, f"refimpl, level {f.level}") for f in fuzzed]
    replayed = None
    if trace is None or work is None:
        output.tables.print("No real requests were replayed: name a trace with --trace.")
    else:
        replayed = _replay(output, trace, work)
        found = found or replayed.violations > 0
    parts = (proved, *explorations, *runs, *(() if replayed is None else (replayed,)))
    missing = [gap for part in parts for gap in part.gaps]
    output.report(
        schema.Verify(
            prove=proved,
            explore=explorations,
            fuzz=runs,
            workload=UNSET if replayed is None else replayed,
            gaps=missing,
        )
    )
    undecided = not all(r.holds for r in proofs)
    verdict = gaps.conclude(output, found=found, gaps=missing, undecided=undecided)
    words = {
        ExitStatus.HOLDS: "Everything holds.",
        ExitStatus.REFUTED: "Something does not hold: see above.",
        ExitStatus.UNDECIDED: "Something is undecided: see above.",
    }
    output.tables.print(words[verdict])
    return verdict


def _replay(output: Output, trace: Path, work: "Workload") -> "schema.Workload":
    """Replay the first requests of a trace, show it, and return the report."""
    from ...workload.replay import replay_at
    from ...workload.target import RefimplTarget
    from ..workload import tables

    with output.progress(work.name) as advance:
        results = replay_at(
            work,
            lambda size: RefimplTarget(size, free_order="split"),
            list(CAPACITIES),
            check="sampled",
            overlap=False,
            token_ms=20.0,
            on_progress=lambda size, done, total: advance(done, total, f"{work.name}, {size:,} blocks"),
        )
    tables.show(output, work, results, unlimited=None, overlap=False)
    tables.show_violations(output, trace, results, overlap=False)
    return tables.to_json(work, results, check="sampled", overlap=False)
