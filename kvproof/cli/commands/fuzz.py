"""``kvproof fuzz``: random runs of a target: the reference implementation beside the specification, or a real
engine."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from ...errors import UsageError
from .. import gaps
from ..options import LONGEST, JsonOption
from ..output import Output
from ..refimpl_fuzzing import run, show, to_json, trace_names
from ..schema import runs as schema
from ..written import check_file, check_folder

ENGINE_SECONDS = 120.0
"""How long an engine is hunted, all levels together, when nothing else is said."""

REFIMPL_RUNS = 200
"""How many runs of the reference implementation there are, when nothing else is said."""


def fuzz(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="What is driven: refimpl, vllm==VERSION, vllm@PYTHON, sglang==VERSION, exec:COMMAND or "
            "python:MODULE:CLASS.",
        ),
    ],
    level: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LEVEL",
            help="A level of the engine: scheduler, manager, offload, pool; of sglang hicache, tree, allocator; of "
            "exec: requests. Default: all. Of refimpl one: pool (default), mirror, pin, tiered, offload, links, timed, "
            "shared, connectors, file-store.",
        ),
    ] = None,
    profile: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this family of cases; may be given again.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Chooses the runs.")] = 0,
    examples: Annotated[int | None, typer.Option(min=1, help="How many runs (per level of an engine).")] = None,
    steps: Annotated[int, typer.Option(min=1, help="The most steps of a run of refimpl, or of level pool.")] = 50,
    time: Annotated[
        float | None,
        typer.Option(
            min=0.1, max=LONGEST, metavar="SECONDS", help="Begin no more runs after so long; for an engine: 120."
        ),
    ] = None,
    known: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A known.toml: findings in it are told apart as no news.")
    ] = None,
    traces: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the trace (refimpl: and script) of each finding there.")
    ] = None,
    sarif: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the findings as SARIF too, as GitHub takes them.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=0, help="Levels hunted at once; 0: one for each processor.")] = 0,
    json: JsonOption = None,
) -> int:
    """Drive a target through random runs; what is wrong comes with the shortest run that shows it."""
    output = Output(json)
    check_folder("--traces", traces)
    check_file("--sarif", sarif)
    if target == "refimpl":
        if profile or known:
            raise UsageError("refimpl has no profiles or known findings; leave these options out")
        if len(level or ()) > 1:
            raise UsageError("refimpl is driven at one level at a time; give --level once")
        examples = examples or REFIMPL_RUNS
        name = level[0] if level else "pool"
        report = run(output, seed=seed, examples=examples, steps=steps, seconds=time, level=name)
        show(output, report, traces)
        written = to_json(report, f"level {name}")
        output.report(written)
        _write_sarif(sarif, target, traces, zip(written.findings, trace_names(report), strict=True))
        return gaps.conclude(output, found=bool(report.findings), gaps=written.gaps)
    from ..engine_fuzzing import fuzz_engine, read_list
    from ..hunting import Plan, levels_of, open_target

    build = open_target(target)
    plan = Plan(
        build=build,
        target=target,
        levels=tuple(level or levels_of(build)),
        seed=seed,
        seconds=time or ENGINE_SECONDS,
        examples=examples,
        known=read_list(known),
        profiles=tuple(profile or ()),
        steps=steps,
        jobs=jobs,
    )
    result = fuzz_engine(output, plan, traces)
    output.report(result.to_json())
    _write_sarif(sarif, target, traces, result.found())
    return gaps.conclude(output, found=result.news, gaps=result.gaps)


def _write_sarif(
    path: Path | None, target: str, traces: Path | None, found: Iterable[tuple[schema.Finding, str]]
) -> None:
    """Write findings as SARIF where that was asked; each comes with the name of its trace."""
    if path is None:
        return
    from ..sarif import Found, write_sarif

    named = [(finding, (traces or Path()) / name) for finding, name in found]
    write_sarif(path, target, [Found(f, trace, traces is not None and trace.is_file()) for f, trace in named])
