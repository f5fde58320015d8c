"""``kvproof protocol-check``: whether a driver speaks the worker protocol, point by point."""

from typing import TYPE_CHECKING, Annotated

import typer

from ...errors import UsageError
from ..options import JsonOption
from ..output import Output
from ..schema import runs as schema

if TYPE_CHECKING:
    from ...engines.driver.conformance import ConformanceReport


def protocol_check(
    target: Annotated[
        str, typer.Argument(metavar="DRIVER", help="exec:COMMAND, a program and its arguments, or python:MODULE:CLASS.")
    ],
    json: JsonOption = None,
) -> int:
    """Check a driver against docs/protocol.md; what fails comes with what was seen and how to mend it."""
    output = Output(json)
    from ...engines.driver.command import Driver
    from ...engines.driver.conformance import CHECKS, check
    from ...engines.session import Session, WorkerError
    from ..gaps import conclude, of_conformance
    from ..hunting import open_target

    driver = open_target(target)
    if not isinstance(driver, Driver):
        raise UsageError(f"{target} is no driver of your own; write exec:COMMAND, in quotes, or python:MODULE:CLASS")
    try:
        with output.progress(f"checking {target}") as advance, Session.of(driver) as session:
            # A program that knows no hello says nothing for all this time.
            wait = f"waiting for its hello, {session.limits.start:g} s at most"
            advance(0, len(CHECKS), f"checking {target}: {wait}")
            report = check(session, lambda number, name: advance(number, len(CHECKS), f"checking {target}: {name}"))
    except WorkerError as error:
        raise UsageError(f"{target} cannot be driven: {error}") from error
    show(output, target, report)
    missing = list(of_conformance(report))
    output.report(
        schema.ProtocolCheck(
            target=target,
            engine=report.engine,
            version=report.version,
            checks=[
                schema.DriverCheck(
                    name=outcome.check.name,
                    asks=outcome.check.asks,
                    verdict=outcome.verdict,
                    detail=outcome.detail or None,
                    mend=outcome.check.mend if outcome in report.failed else None,
                )
                for outcome in report.outcomes
            ],
            failed=len(report.failed),
            can_be_judged=report.sight.judged,
            cannot_be_judged=report.sight.unjudged,
            messages=report.messages,
            seconds=report.seconds,
            gaps=missing,
        )
    )
    return conclude(output, found=bool(report.failed), gaps=missing)


def show(output: Output, target: str, report: "ConformanceReport") -> None:
    """Print the checks, what failed and how to mend it, and what the driver never tells."""
    from rich import box
    from rich.table import Table

    say = output.line
    say(f"{target}: {report.engine} {report.version}")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("check", "what must hold", "verdict"):
        table.add_column(column)
    for outcome in report.outcomes:
        table.add_row(outcome.check.name, outcome.check.asks, outcome.verdict)
    output.tables.print(table)
    for outcome in report.outcomes:
        if outcome in report.failed:
            say(f"{outcome.check.name}: {outcome.detail}")
            say(f"  mend: {outcome.check.mend}")
        elif outcome.detail:
            say(f"{outcome.check.name} does not apply: {outcome.detail}")
    say(f"rules that can be judged: {', '.join(report.sight.judged) or 'none'}")
    for rule, why in report.sight.unjudged.items():
        say(f"  not {rule}: {why}")
    passed = sum(outcome.verdict == "passed" for outcome in report.outcomes)
    say(f"{passed} checks passed, {len(report.failed)} failed; {report.messages} messages, {report.seconds:.1f} s")
