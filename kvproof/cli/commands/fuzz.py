"""``kvproof fuzz``: random runs of a target: the reference implementation beside the specification, or a real
engine."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...errors import UsageError
from .. import gaps
from ..options import JsonOption
from ..output import Output
from ..schema import runs as schema
from ..written import check_file, check_folder, writing

if TYPE_CHECKING:
    from ...checkers.fuzz import Coverage, Difference, FuzzReport

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
        typer.Option(min=0.1, metavar="SECONDS", help="Begin no more runs after so long; for an engine: 120."),
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


def trace_names(report: "FuzzReport") -> list[str]:
    """The file of the trace of each finding, in the folder of --traces."""
    from ...untrusted.text import file_stem

    return [f"{file_stem(report.target)}-{number}.jsonl" for number in range(len(report.findings))]


def run(
    output: Output, *, seed: int, examples: int, steps: int, seconds: float | None = None, level: str = "pool"
) -> "FuzzReport":
    """Fuzz the reference implementation at one of its levels, with progress.

    Raises:
        UsageError: it has no such level.
    """
    from ...harness.levels import LEVELS

    if level not in LEVELS:
        raise UsageError(f"refimpl has no level {level}; name one of {', '.join(LEVELS)}")
    from ...checkers.fuzz import fuzz as fuzz_target

    chosen = LEVELS[level]

    with output.progress("fuzzing refimpl") as advance:

        def on_progress(runs: int, done: int) -> None:
            advance(runs, examples, f"fuzzing refimpl: {done:,} steps")

        return fuzz_target(
            chosen.model,
            chosen.target,
            chosen.instances(),
            seed=seed,
            examples=examples,
            steps=steps,
            seconds=seconds,
            on_progress=on_progress,
        )


def show(output: Output, report: "FuzzReport", traces: Path | None = None) -> None:
    """Print what was done to the target, and each finding with its script."""
    from rich import box
    from rich.table import Table

    from ..activity_table import activity_table

    output.tables.print(
        f"{report.target}: {report.examples:,} runs, {report.steps:,} steps, everything compared after each",
        highlight=False,
    )
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("action")
    for column in ("applied", "refused as it must"):
        table.add_column(column, justify="right")
    for name, coverage in report.coverage.items():
        table.add_row(name, f"{coverage.applied:,}", f"{coverage.refused:,}")
    output.tables.print(table)
    output.tables.print(activity_table([(report.level, report.activity.to_json())]))
    speed = report.steps / report.seconds if report.seconds else 0.0
    output.tables.print(
        f"{len(report.findings)} findings, {speed:,.0f} steps/s, {report.seconds:.1f} s", highlight=False
    )
    for finding, name in zip(report.findings, trace_names(report), strict=True):
        output.tables.print(f"finding: {finding.oracle} after {finding.rule}, {finding.steps} steps", markup=False)
        output.tables.print(finding.report, markup=False, highlight=False)
        output.tables.print(finding.script, markup=False, highlight=False)
        if traces is not None:
            from ...checkers.trace import write_atomically, write_trace

            path = traces / name
            with writing(path):
                traces.mkdir(parents=True, exist_ok=True)
                write_trace(path, finding.trace)
                write_atomically(path.with_suffix(".py"), finding.script.encode())
                output.line(f"trace and script: {path}, .py")


def to_json(report: "FuzzReport", part: str) -> schema.Fuzz:
    """Return the report for programs; ``part`` is what its gaps are about."""
    return schema.Fuzz(
        target=report.target,
        level=report.level,
        examples=report.examples,
        steps=report.steps,
        coverage=coverage_of(report.coverage),
        reached=report.reached,
        activity=report.activity.to_json(),
        findings=[finding_of(found) for found in report.findings],
        seconds=report.seconds,
        gaps=list(gaps.of_fuzz(report, part)),
    )


def coverage_of(counted: "Mapping[str, Coverage]") -> dict[str, schema.Coverage]:
    """How often each action was tried, for programs."""
    return {
        name: schema.Coverage(attempted=c.attempted, applied=c.applied, refused=c.refused)
        for name, c in counted.items()
    }


def finding_of(found: "Difference") -> schema.Finding:
    """A difference between machine and target, for programs."""
    from ...checkers.trace import encode_trace

    return schema.Finding(
        oracle=found.oracle,
        rule=found.rule,
        steps=found.steps,
        trace=encode_trace(found.trace).decode(),
        report=found.report,
        script=found.script,
    )
