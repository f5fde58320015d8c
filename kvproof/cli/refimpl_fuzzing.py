"""``kvproof fuzz refimpl``: the reference implementation beside the specification, and what is shown of it."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import UsageError
from . import gaps
from .output import Output
from .schema import runs as schema
from .written import writing

if TYPE_CHECKING:
    from ..checkers.fuzz import Coverage, Difference, FuzzReport

__all__ = ["coverage_of", "finding_of", "run", "show", "to_json", "trace_names"]


def trace_names(report: "FuzzReport") -> list[str]:
    """The file of the trace of each finding, in the folder of --traces."""
    from ..untrusted.text import file_stem

    return [f"{file_stem(report.target)}-{number}.jsonl" for number in range(len(report.findings))]


def run(
    output: Output, *, seed: int, examples: int, steps: int, seconds: float | None = None, level: str = "pool"
) -> "FuzzReport":
    """Fuzz the reference implementation at one of its levels, with progress.

    Raises:
        UsageError: it has no such level.
    """
    from ..harness.levels import LEVELS

    if level not in LEVELS:
        raise UsageError(f"refimpl has no level {level}; name one of {', '.join(LEVELS)}")
    from ..checkers.fuzz import fuzz as fuzz_target

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

    from .activity_table import activity_table

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
            from ..checkers.trace import write_atomically, write_trace

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
    from ..checkers.trace import encode_trace

    return schema.Finding(
        oracle=found.oracle,
        rule=found.rule,
        steps=found.steps,
        trace=encode_trace(found.trace).decode(),
        report=found.report,
        script=found.script,
    )
