"""``kvproof compare``: a part of an engine beside the reference implementation, until they do not do the same."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..options import LONGEST, JsonOption
from ..output import Output
from ..written import check_folder, writing

if TYPE_CHECKING:
    from ...engines.report import Finding, HuntReport
    from ..comparing import Compared


def compare(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET", help="What is compared: vllm==VERSION, vllm@PYTHON, dynamo==VERSION, sglang==VERSION."
        ),
    ],
    subject: Annotated[
        str | None,
        typer.Option(
            metavar="SUBJECT",
            help="Which part of it: of vllm offload, of dynamo mocker, of sglang cores. Default: the one.",
        ),
    ] = None,
    profile: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this family of cases; may be given again.")
    ] = None,
    case: Annotated[
        Path | None, typer.Option(metavar="TRACE", help="Only this case, which --traces wrote; no others are drawn.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Chooses the cases.")] = 0,
    examples: Annotated[int | None, typer.Option(min=1, help="How many cases.")] = None,
    time: Annotated[
        float, typer.Option(min=0.1, max=LONGEST, metavar="SECONDS", help="Begin no more cases after so long.")
    ] = 60.0,
    traces: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the case of each disagreement there.")
    ] = None,
    json: JsonOption = None,
) -> int:
    """Let an engine and the reference implementation do the same, and compare everything after each operation."""
    output = Output(json)
    check_folder("--traces", traces)
    from ...checkers.trace import read_trace
    from .. import comparing, gaps
    from ..findings import case_of

    one = None if case is None else case_of(read_trace(case), str(case))
    build, subject, comparison = comparing.subject_of(target, subject)
    met: list[Finding] = []
    try:
        with output.progress(f"comparing {target}") as advance:

            def on_progress(report: "HuntReport") -> None:
                advance(round(report.seconds), round(time), f"comparing {target}: {report.examples:,} cases")

            if one is not None:
                compared = comparing.compare_one(build, target, subject, comparison, one)
            else:
                compared = comparing.compare_build(
                    build,
                    target,
                    subject,
                    comparison,
                    profiles=profile or (),
                    seed=seed,
                    seconds=time,
                    examples=examples,
                    on_progress=on_progress,
                    on_finding=met.append,
                )
    except KeyboardInterrupt:
        # Who ends this does not end what it found.
        for finding in met:
            _show_one(output, target, subject, finding, traces)
        raise
    _show(output, compared, traces)
    written = comparing.to_json(compared)
    output.report(written)
    return gaps.conclude(output, found=bool(compared.report.findings), gaps=written.gaps)


def _show(output: Output, compared: "Compared", traces: Path | None) -> None:
    """Print what was compared, and each disagreement with the shortest case that shows it."""
    report, tally = compared.report, compared.tally
    counts = "".join(f", {count:,} {what}" for what, count in tally.counts.items())
    output.line(
        f"{compared.target}, {compared.subject}: {report.examples:,} cases ({report.refused:,} setups refused), "
        f"{tally.steps:,} operations, {tally.compared:,} compared and equal{counts}"
    )
    for why, times in tally.parted.most_common():
        output.line(f"  not compared further, {times:,} times: {why}")
    for (rule, oracle), text in tally.broken.items():
        output.line(f"  the engine breaks {rule} ({oracle}): {text}; kvproof fuzz tells more")
    output.line(f"{len(report.findings)} disagreements, {report.seconds:.1f} s")
    for finding in report.findings:
        _show_one(output, compared.target, compared.subject, finding, traces)


def _show_one(output: Output, target: str, subject: str, finding: "Finding", traces: Path | None) -> None:
    """Print a disagreement, and write its case."""
    from ...checkers.trace import write_trace
    from ..comparing import trace_name
    from ..findings import played, short, trace_of

    output.line("")
    output.line(f"they differ: {finding.violation.text}")
    output.line(f"  setup: {short(finding.case.setup)}")
    for line in played(finding.case, finding.verdict.answer, finding.verdict.at):
        output.line(line)
    if traces is None:
        output.line("  --traces DIR writes this case")
        return
    path = traces / trace_name(target, subject, finding)
    with writing(path):
        traces.mkdir(parents=True, exist_ok=True)
        write_trace(path, trace_of(target, finding.case, finding.verdict))
        words = ["kvproof", "compare", target, "--subject", subject, "--case", str(path)]
        output.line(f"  again: {shlex.join(words)}")
